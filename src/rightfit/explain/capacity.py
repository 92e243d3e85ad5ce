"""How many users some cards serve with a model ("how many people can share an A10 with a 7B"): the
most for which the plan of those cards still holds the usual limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.beside.figure_answers import lengths_in
from rightfit.explain.kv_room import has_cache, kv_text
from rightfit.explain.messages import topic
from rightfit.messages import LANGS, Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Option
    from rightfit.search.service.options import ServingLayout

#: Seconds between an answer and the next question, as `plan --users` takes them.
_PAUSE_S = 30.0
#: Tokens of the answer where a context is asked about.
_ANSWER_TOKENS = 256
#: How often another number of users is tried.
_TRIES = 9


def most_users(wishes: Mapping[str, Any], server: str, catalog: Catalog) -> tuple[int, Option] | None:
    """The most users that a service on one server holds, within some 20 %, and its estimate; None
    where not even one is served within the usual limits."""
    alone = _served(wishes, server, 1, catalog)
    if alone is None:
        return None
    held, users, best = _layout(alone).max_batch * _layout(alone).replicas, 1, alone
    latency = 2.0 * best.estimate["latency_s"].mid  # at full load an answer takes about twice as long
    tried = max(round(held * (latency + _PAUSE_S) / latency), 1)
    refused = 0
    for _ in range(_TRIES):
        if tried <= users:
            break
        found = _served(wishes, server, tried, catalog)
        if found is None:  # by halves, then once back between the two
            refused, tried = tried, max(tried // 2, users)
            continue
        users, best = tried, found
        if refused <= 1.3 * users:
            break
        tried = round((users * refused) ** 0.5)
    return users, best


def _layout(option: Option) -> ServingLayout:
    return cast("ServingLayout", option.layout)


def _served(wishes: Mapping[str, Any], server: str, users: int, catalog: Catalog) -> Option | None:
    from rightfit.planner.given import estimate_one
    from rightfit.workload import Workload

    try:
        return estimate_one(Workload(**{**wishes, "users": users}), on=server, catalog=catalog).best
    except RightfitError:
        return None


def capacity_fields(sentence: str, named: Mapping[str, Any], catalog: Catalog) -> dict[Lang, dict[str, str]] | None:
    """What a topic tells of the cards and the model that a question names; None where no server has
    them or they serve nobody within the usual limits."""
    from rightfit.explain.fit_claims import server_with

    names, count = facts.match_accelerators(str(named["gpu"])), int(named.get("num_gpus") or 1)
    row = server_with(catalog, names, count) if names else None
    if row is None:
        return None
    servers, lengths = catalog.servers(), lengths_in(sentence)
    kept: dict[str, Any] = {
        name: named[name] for name in ("model", "quantization", "input_tokens", "output_tokens", "framework") if name in named
    }
    server = f"{servers.provider[row]}/{servers.instance_type[row]}"
    if lengths:  # what is asked about is how many use so much: with room for the answer
        kept["input_tokens"] = round(min(lengths)) - _ANSWER_TOKENS
    found, option = most_users({**kept, "task": "serve"}, server, catalog), ""
    if found is None and "quantization" not in kept:  # not one in 16 bits within the usual limits
        found, option = most_users({**kept, "task": "serve", "quantization": "awq"}, server, catalog), " --quantization awq"
    if found is None:
        return None
    users, best = found
    told: dict[Lang, dict[str, str]] = {}
    for lang in LANGS:
        told[lang] = {
            "first_line": topic("topic_questions")["capacity"]["none_in_16"][lang] if option else "",
            "option": option,
            "users": f"{users:,}",
            "prompt": f"{best.facts['input_tokens']:,.0f}",
            "answer": f"{best.facts['output_tokens']:,.0f}",
            "held": f"{_layout(best).max_batch * _layout(best).replicas:,}",
            "kv": kv_text(best, lang, lengths=lengths) if has_cache(best) else "",
            "cards": f"{count} x {best.accelerator.name}",
            "model": str(named["model"]),
            "format": _layout(best).weight_format,
            "first": q.duration_text(best.estimate["ttft_s"].mid, lang),
            "token": q.duration_text(best.estimate["tpot_s"].mid, lang),
            "card": best.accelerator.name,
        }
    return told


def first_token_fields(sentence: str, named: Mapping[str, Any], catalog: Catalog) -> dict[Lang, dict[str, str]] | None:
    """The first token of one request that is alone, and of several at once, on each kind of the
    cards that a question names; None where it names no model that is served, or no card."""
    from rightfit.explain.claim_words import cards_of
    from rightfit.explain.fit_claims import server_with

    sizes = topic("topic_questions")["sizes"]
    count = _told("cards", sentence) or int(named.get("num_gpus") or 1)
    cards = list(dict.fromkeys(name for _, names in cards_of(sentence) for name in names))
    together = _told("together", sentence)
    kept: dict[str, Any] = {
        name: named[name] for name in ("model", "quantization", "input_tokens", "framework", "precision") if name in named
    }
    if count > 1:
        kept["tensor_parallel"] = count
    rows = {card: row for card in cards if (row := server_with(catalog, (card,), count)) is not None}
    servers = catalog.servers()
    found: dict[str, Option] = {}
    for card, row in rows.items():
        server = f"{servers.provider[row]}/{servers.instance_type[row]}"
        option = _served({**kept, "task": "serve"}, server, 1, catalog)
        if option is not None and "ttft_p50_s" in option.estimate:
            found[card] = option
    if not found:
        return None
    told: dict[Lang, dict[str, str]] = {}
    for lang in LANGS:
        lines = []
        for card, option in found.items():
            first = option.estimate["ttft_p50_s"].mid
            text = sizes["first_alone"][lang].format(cards=f"{count} x {card}", first=q.duration_text(first, lang))
            if together > 1:
                waits = {"mean": first * (together + 1) / 2, "last": first * together}
                text += sizes["first_many"][lang].format(count=together, **{name: q.duration_text(s, lang) for name, s in waits.items()})
            lines.append(text)
        tokens = f"{next(iter(found.values())).facts['input_tokens']:,.0f}"
        told[lang] = {"model": str(named["model"]), "tokens": tokens, "lines": ("；" if lang == "zh" else "; ").join(lines)}
    return told


def _told(name: str, sentence: str) -> int:
    """A number that a question tells, by the pattern of that name; 0 where it tells none."""
    found = re.search(topic("topic_questions")["sizes"][name], sentence, re.IGNORECASE)
    return int(next(group for group in found.groups() if group)) if found else 0
