"""A `Reason` of search (a code and its numbers) as a sentence.

Parameters are formatted by what their name says: `_bytes`, `_s`, `_h`, `_usd`, a share or probability, a name of a method, term,
criterion. `renderer(lang, currency=...)` is the function that `Plan.to_dict(render=...)` wants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rightfit.explain import quantities as q
from rightfit.explain.messages import Lang, fields_of, has, say, topic
from rightfit.search.answer import Reason

_SHARES = frozenset({"share", "probability", "monthly_low", "monthly_high", "margin"})
_NAMES: Mapping[str, Callable[[str, Lang], str]] = {
    "method": q.method_text,
    "from_method": q.method_text,
    "to_method": q.method_text,
    "purchase": q.purchase_text,
    "provider": q.provider_text,
}
_WORDS = {"level": "choice.recompute", "sharding": "choice.sharding", "criterion": "rejections.name"}


def renderer(lang: Lang, *, currency: str = "usd") -> Callable[[Reason], str]:
    """The function that turns reasons into sentences of one language; money is shown in `currency` (usd or cny)."""
    return lambda reason: render(reason, lang, currency=currency)


def render(reason: Reason, lang: Lang, *, currency: str = "usd") -> str:
    """One reason as a sentence. A code that the catalogue lacks is shown as it is, with its numbers, rather than hidden."""
    params = {**reason.params, **_derived(reason.params, lang)}
    texts = {name: field_text(name, value, lang, currency=currency) for name, value in params.items()}
    key = _variant(reason)
    if not has(key) or not fields_of(topic("reasons")[key.partition(".")[2]][lang]) <= set(texts):
        return _raw(reason.key, texts)
    return say(key, lang, **texts)


def field_text(name: str, value: Any, lang: Lang, *, currency: str = "usd") -> str:
    """A parameter formatted by its name's unit suffix or meaning."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return _name_text(name, value, lang)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return _number_text(name, float(value), lang, currency)


def criterion_text(criterion: str, lang: Lang) -> str:
    """A rejection criterion in words."""
    key = f"rejections.{criterion}"
    return say(key, lang) if has(key) else criterion


def term_text(name: str, lang: Lang, *, kind: str = "") -> str:
    """A term of memory, time (`kind` "time") or cost in words."""
    keys = (f"terms.{kind}_{name.removesuffix('_s')}", f"terms.{name}") if kind else (f"terms.{name}",)
    return next((say(key, lang) for key in keys if has(key)), name.removesuffix("_s").replace("_", " "))


def _number_text(name: str, value: float, lang: Lang, currency: str) -> str:
    if name == "bytes" or name.endswith("_bytes"):
        return q.data_text(value) if name.startswith(("disk", "data", "local", "checkpoint")) else q.memory_text(value)
    if name.endswith("_usd"):
        return q.money_text(value, currency, lang=lang)
    if name.endswith("_s"):
        return q.duration_text(value, lang)
    if name.endswith("_h"):
        return q.duration_text(value * 3600, lang)
    if name.endswith("_probability") or name in _SHARES:
        return q.probability_text(value, lang) if name.endswith("probability") else q.percent_text(value)
    return q.count_text(value, lang) if value >= 1e5 else q.plain(value)


def _name_text(name: str, value: str, lang: Lang) -> str:
    if name == "term":
        return term_text(value, lang, kind="time")
    if name in _NAMES:
        return _NAMES[name](value, lang)
    topic_name = _WORDS.get(name)
    if topic_name is None:
        return value
    key = f"{topic_name}_{value}"
    return say(key, lang) if has(key) else value.replace("_", " ")


def _derived(params: Mapping[str, Any], lang: Lang) -> dict[str, Any]:
    """Fields that sentences want and that follow from the parameters alone: where, and the change against the runner-up."""
    derived: dict[str, Any] = {}
    if "instance_type" in params:
        derived["where"] = where_text(params, lang)
    if {"total_usd", "runner_up_usd"} <= params.keys() and params["total_usd"]:
        derived["runner_up_change"] = change_text(params["runner_up_usd"] / params["total_usd"], lang)
    return derived


def where_text(params: Mapping[str, Any], lang: Lang) -> str:
    """ "2 x p4d.24xlarge (AWS)" from provider, instance_type and perhaps nodes."""
    nodes = int(params.get("nodes") or 1)
    prefix = "" if nodes == 1 else say("choice.nodes_prefix", lang, count=nodes)
    return f"{prefix}{q.provider_text(str(params.get('provider', '')), lang)} {params['instance_type']}".replace("  ", " ").strip()


def change_text(ratio: float, lang: Lang) -> str:
    """A cost ratio in words: 12 % dearer, 30 % cheaper, the same."""
    if abs(ratio - 1) < 0.005:
        return say("choice.same_cost", lang)
    if ratio >= 3:
        return say("choice.times_dearer", lang, times=q.plain(ratio, 2))
    return say("choice.dearer" if ratio > 1 else "choice.cheaper", lang, percent=q.percent_text(abs(ratio - 1)))


def _variant(reason: Reason) -> str:
    """The message that suits the parameters: with a runner-up, or for a wish that was impossible before."""
    key = f"reasons.{reason.key}"
    if reason.params.get("runner_up") and has(f"{key}_runner_up"):
        return f"{key}_runner_up"
    if reason.key.startswith("assumed_default_") and not has(key):
        return "reasons.assumed_default_plain"
    if reason.params.get("saving_usd", 0) is None and has(f"{key}_possible"):
        return f"{key}_possible"
    return key


def _raw(key: str, texts: Mapping[str, str]) -> str:
    numbers = ", ".join(f"{name} {text}" for name, text in texts.items())
    return f"{key.replace('_', ' ')}: {numbers}" if numbers else key.replace("_", " ")
