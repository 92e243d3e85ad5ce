"""A `Reason` of search (a code and its numbers) as a sentence.

Parameters are formatted by what their name says: `_bytes`, `_s`, `_h`, `_usd`, a share or
probability, a name of a method, term, criterion. `renderer(lang, currency=...)` is the function
that `Plan.to_dict(render=...)` wants.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rightfit.explain import quantities as q
from rightfit.explain.messages import fields_of, has, join, say, say_or, sentences, topic
from rightfit.messages import Lang
from rightfit.search.answer import Reason

_SHARES = frozenset({"share", "probability", "monthly_low", "monthly_high", "margin"})
_NAMES: Mapping[str, Callable[[str, Lang], str]] = {
    "method": q.method_text,
    "from_method": q.method_text,
    "to_method": q.method_text,
    "purchase": q.purchase_text,
    "provider": q.provider_text,
    "cloud": q.provider_text,
    "seller": lambda value, lang: sellers_text(value, lang),
    "gpu": lambda value, lang: card_text(value, lang),
    "capability": lambda value, lang: card_text(value, lang),
    "country": lambda value, lang: country_text(value, lang),
    "region": q.region_text,
    "runner_up": lambda value, lang: _server_text(value, lang),
    "best": lambda value, lang: _server_text(value, lang),
    "sharding": lambda value, lang: sharding_text(value, lang),
    "offload": lambda value, lang: offload_text(value, lang),
}
_WORDS = {
    "level": "choice.recompute",
    "criterion": "rejections.name",
    "other_criterion": "rejections.name",
    "fabric": "choice.fabric",
    "own_figure": "measure.figure",
    "below_cause": "reasons.below",
}
_CRITERION_UNITS = {
    "gpu_memory": "limit_bytes",
    "host_memory": "limit_bytes",
    "deadline": "limit_s",
    "budget": "limit_usd",
} | dict.fromkeys(("ttft", "tpot", "latency"), "limit_s")
#: What measured runs say of an option (measure/own_runs.py).
OWN_RUNS = ("own_runs", "own_runs_card", "own_runs_other", "own_runs_unused", "own_runs_impossible")
#: Whole numbers below this are written out: lengths are read digit by digit (131,072).
_WRITTEN_OUT = 1e7
UNSHARDED = frozenset({"none", "ddp", ""})


def renderer(lang: Lang, *, currency: str = "usd") -> Callable[[Reason], str]:
    """The function that turns reasons into sentences of one language; money is shown in
    `currency` (usd or cny)."""
    return lambda reason: render(reason, lang, currency=currency)


def render(reason: Reason, lang: Lang, *, currency: str = "usd") -> str:
    """One reason as a sentence. A code that the catalogue lacks is shown as it is, with its
    numbers, rather than hidden."""
    params = {**reason.params, **_derived(reason.params, lang, currency)}
    texts = {name: field_text(name, value, lang, currency=currency) for name, value in params.items()}
    key = _variant(reason)
    if not has(key) or not fields_of(topic("reasons")[key.partition(".")[2]][lang]) <= set(texts):
        return _raw(reason.key, texts)
    return sentences([say(key, lang, **texts), _effect(reason, lang, texts)], lang)


def _effect(reason: Reason, lang: Lang, texts: Mapping[str, str]) -> str:
    """What a change of the wish makes possible, where search says so."""
    if not reason.key.startswith("change_") or "where" not in texts:
        return ""
    if reason.params.get("monthly_usd") and reason.params.get("latency_s"):
        return say("reasons.effect_month", lang, **texts)
    known = reason.params.get("total_usd") and reason.params.get("total_time_s")
    return say("reasons.effect" if known else "reasons.effect_where", lang, **texts)


def field_text(name: str, value: Any, lang: Lang, *, currency: str = "usd") -> str:
    """A parameter formatted by its name's unit suffix or meaning."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return _name_text(name, value, lang)
    if name == "criteria" and isinstance(value, list | tuple):
        return criteria_text(value, lang)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return _number_text(name, float(value), lang, currency)


def assumed_text(field: str, value: str, why: str, lang: Lang) -> str:
    """One default that was taken, and why; of a choice among the options, which is no field, the
    reason alone."""
    if field == "choice":
        return why if "/" in why.partition(" ")[0] else why[:1].upper() + why[1:]  # a server is called as its cloud writes it
    return say("choice.assumed", lang, field=field, value=value, why=why)


def sellers_text(names: str, lang: Lang) -> str:
    """The providers that are allowed: tiers in words, and clouds by their names."""
    return join([say_or(f"rejections.tier_{name}", lang, q.provider_text(name, lang)) for name in names.split(", ")], lang)


def criterion_text(criterion: str, lang: Lang) -> str:
    """A rejection criterion in words."""
    key = f"rejections.{criterion}"
    return say(key, lang) if has(key) else criterion


def criteria_text(criteria: Sequence[str], lang: Lang) -> str:
    """The names of several criteria."""
    return join([say_or(f"rejections.name_{name}", lang, name) for name in criteria], lang)


def card_text(names: str, lang: Lang) -> str:
    """The name of a card, or of several with commas between them; "none" is no card."""
    return ", ".join(say("rejections.no_card", lang) if name == "none" else name for name in names.split(", "))


def country_text(names: str, lang: Lang) -> str:
    """A country, or several with commas between them; "unknown" where a provider does not say."""
    known = {"unknown": "rejections.unknown_country", "-": "rejections.no_country"}
    return ", ".join(say(known[name], lang) if name in known else name for name in names.split(", "))


def sharding_text(sharding: str, lang: Lang) -> str:
    """A way of sharding in words; "zero-3" and "zero3" are one."""
    return say_or(f"choice.sharding_{sharding.replace('-', '')}", lang, sharding)


def offload_text(offload: str, lang: Lang) -> str:
    """What is kept in host RAM, in words; several things are joined by "+"."""
    parts = ["all"] if {"optimizer", "parameters"} <= set(offload.split("+")) else offload.split("+")
    return join([say_or(f"choice.offload_{part}", lang, part) for part in parts], lang)


def term_text(name: str, lang: Lang, *, kind: str = "") -> str:
    """A term of memory, time (`kind` "time") or cost in words."""
    bare = name.removesuffix("_s").removesuffix("_usd").removesuffix("_bytes")
    keys = (f"terms.{kind}_{bare}", f"terms.{bare}") if kind else (f"terms.{bare}",)
    return next((say(key, lang) for key in keys if has(key)), bare.replace("_", " "))


def needed_had_text(criterion: str, needed: float | str, had: float | str, lang: Lang, *, currency: str = "usd") -> str:
    """What a criterion asks for against what there was, in the criterion's unit."""
    name = _CRITERION_UNITS.get(criterion, criterion)
    texts = {"needed": field_text(name, needed, lang, currency=currency), "had": field_text(name, had, lang, currency=currency)}
    if texts["needed"] == texts["had"] and isinstance(needed, float) and isinstance(had, float):
        texts = {"needed": _exact_text(name, needed, lang), "had": _exact_text(name, had, lang)}
    if criterion == "capability":
        key = f"rejections.lacks_{str(needed).replace(' ', '_')}"
        texts["needed"] = say(key, lang) if has(key) else say("rejections.lacks_format", lang, format=needed)
    key = f"rejections.gap_{criterion}"
    return say(key if has(key) else "rejections.needed_had", lang, **texts)


def _exact_text(name: str, value: float, lang: Lang) -> str:
    """More digits, for two figures that differ by little."""
    if name.endswith("_bytes"):
        return f"{q.plain(value / 2**30, 6)} GiB"
    return say("quantities.s", lang, value=q.plain(value, 6)) if name.endswith("_s") else q.plain(value, 6)


def _number_text(name: str, value: float, lang: Lang, currency: str) -> str:
    if name == "bytes" or name.endswith("_bytes"):
        return q.data_text(value) if name.startswith(("disk", "data", "local", "checkpoint")) else q.memory_text(value)
    if name == "bandwidth":
        return q.bandwidth_text(value)
    if name.endswith("_usd"):
        return q.money_text(value, currency, lang=lang)
    if name.endswith("_s"):
        return q.duration_text(value, lang)
    if name.endswith("_h"):
        return q.duration_text(value * 3600, lang)
    if name.endswith(("_probability", "_share")) or name in _SHARES:
        return q.probability_text(value, lang) if name.endswith("probability") else q.percent_text(value)
    if name.startswith("expected_"):
        return q.plain(value, 2) if value == 0 or value >= 1e-3 else say("quantities.tiny", lang)
    if abs(value) < _WRITTEN_OUT and value == int(value):
        return f"{value:,.0f}"
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


def _derived(params: Mapping[str, Any], lang: Lang, currency: str) -> dict[str, Any]:
    """Fields that sentences want and that follow from the parameters alone: where, and the change
    against the runner-up."""
    derived: dict[str, Any] = {}
    if "deadline_s" in params and "factor" in params:
        step = 60.0 if params["deadline_s"] < 48 * 3600 else 8640.0  # a wish a little longer than needed, never shorter
        derived["deadline_s"] = math.ceil(params["deadline_s"] / step) * step
    if "budget_usd" in params and "factor" in params:
        derived["budget_usd"] = math.ceil(params["budget_usd"] * 100) / 100
    if "instance_type" in params:
        derived["where"] = where_text(params, lang)
    if {"criterion", "needed", "had"} <= params.keys():
        gap = needed_had_text(params["criterion"], params["needed"], params["had"], lang, currency=currency)
        special = f"rejections.{params['criterion']}_{params['needed']}"
        derived |= {
            "gap": gap,
            "refusal": say(special, lang) if has(special) else criterion_text(params["criterion"], lang),
            "nodes": q.counted("node", params.get("nodes", 1), lang),
        }
    if {"monthly_low", "monthly_high"} <= params.keys():
        low, high = q.percent_text(params["monthly_low"]), q.percent_text(params["monthly_high"])
        derived["monthly"] = say("quantities.from_to" if params["monthly_low"] else "quantities.up_to", lang, low=low, high=high)
    if params.get("price_factor"):
        derived["price_cut"] = q.percent_text(1 - params["price_factor"])
    if params.get("criterion") in _NAMES and isinstance(params.get("value"), str):
        derived["value"] = _NAMES[params["criterion"]](params["value"], lang)
    if "ways" in params:
        derived["ladder"] = ladder_text(params["ways"], params["from_months"], lang)
    if {"total_usd", "runner_up_usd"} <= params.keys() and params["total_usd"]:
        derived["runner_up_change"] = change_text(params["runner_up_usd"] / params["total_usd"], lang)
    return derived


def ladder_text(ways: Sequence[str], starts: Sequence[float], lang: Lang) -> str:
    """Ways to pay with the month from which each is cheapest."""
    steps = [
        say(f"reasons.buy_ladder_{'from' if position else 'first'}", lang, way=q.purchase_text(way, lang), start=q.plain(start))
        for position, (way, start) in enumerate(zip(ways, starts, strict=True))
    ]
    return join(steps, lang)


def where_text(params: Mapping[str, Any], lang: Lang) -> str:
    """ "2 x p4d.24xlarge (AWS)" from provider, instance_type and perhaps nodes."""
    nodes = int(params.get("nodes") or 1)
    prefix = "" if nodes == 1 else say("choice.nodes_prefix", lang, count=nodes)
    return f"{prefix}{q.provider_text(str(params.get('provider', '')), lang)} {params['instance_type']}".replace("  ", " ").strip()


def _server_text(text: str, lang: Lang) -> str:
    """ "2 x aws p4d.24xlarge" as search writes it, with the cloud's own name."""
    found = re.fullmatch(r"(\d+) x (\S+) (\S+)", text)
    return where_text({"nodes": found[1], "provider": found[2], "instance_type": found[3]}, lang) if found else text


def change_text(ratio: float, lang: Lang) -> str:
    """A cost ratio in words: 12 % dearer, 30 % cheaper, the same."""
    if abs(ratio - 1) < 0.005:
        return say("choice.same_cost", lang)
    if ratio >= 3:
        return say("choice.times_dearer", lang, times=q.plain(ratio, 2))
    return say("choice.dearer" if ratio > 1 else "choice.cheaper", lang, percent=q.percent_text(abs(ratio - 1)))


def _variant(reason: Reason) -> str:
    """The message that suits the parameters: with a runner-up, or for a wish that was
    impossible before."""
    key = f"reasons.{reason.key}"
    if reason.params.get("basis") == "rule" and has(f"{key}_rule"):
        return f"{key}_rule"
    specific = f"{key}_{reason.params.get('criterion')}"
    if "criterion" in reason.params and has(specific):
        return specific
    if reason.params.get("runner_up") and has(f"{key}_runner_up"):
        return f"{key}_runner_up"
    if is_no_dearer(reason):
        return f"{key}_cheaper"
    if reason.key.startswith("assumed_default_") and not has(key):
        return "reasons.assumed_default_plain"
    if reason.params.get("saving_usd", 0) is None and has(f"{key}_possible"):
        return f"{key}_possible"
    return key


def is_no_dearer(reason: Reason) -> bool:
    """Whether a server that is not the choice costs no more than it (the choice is the faster one):
    no lower price would help."""
    return reason.key == "why_ranked" and reason.params.get("price_factor", 0.0) > 0.9995


def _raw(key: str, texts: Mapping[str, str]) -> str:
    numbers = ", ".join(f"{name} {text}" for name, text in texts.items())
    return f"{key.replace('_', ' ')}: {numbers}" if numbers else key.replace("_", " ")
