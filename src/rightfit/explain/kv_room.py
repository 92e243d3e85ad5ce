"""How many tokens the KV cache of a service holds, and how many requests of a length at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from rightfit.explain import quantities as q
from rightfit.explain.messages import join, say, sentences
from rightfit.messages import Lang

if TYPE_CHECKING:
    from rightfit.search.answer import Option
    from rightfit.search.service.options import ServingLayout

#: Fewer requests at once than this are few: what holds more is told.
_FEW = 2.0


def request_tokens(option: Option) -> float:
    """Tokens of a request, its prompt and its answer."""
    return float(option.facts.get("input_tokens") or 0.0) + float(option.facts.get("output_tokens") or 0.0)


def requests_held(option: Option, tokens: float) -> float:
    """Requests of so many tokens that the cache of one replica holds at once; not whole."""
    known = sorted((float(length), float(held)) for length, held in option.facts["sequence_bytes"].items())
    (low, low_bytes), (high, high_bytes) = _around(known, tokens)
    part = (tokens - low) / (high - low) if high > low else 0.0
    return option.memory_terms["kv_cache"] / max(low_bytes + part * (high_bytes - low_bytes), 1.0)


def _around(known: Sequence[tuple[float, float]], tokens: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """The two known lengths that a length stands between, or the two last ones before it."""
    above = next((at for at, (length, _) in enumerate(known) if length >= tokens), len(known) - 1)
    return (known[above - 1], known[above]) if above else (known[0], known[min(1, len(known) - 1)])


def tokens_held(option: Option, tokens: float) -> float:
    """Tokens that the cache of one replica holds in sequences of so many."""
    return requests_held(option, tokens) * tokens


def has_cache(option: Option | None) -> bool:
    """Whether an option is a service with a KV cache of known size."""
    return option is not None and bool(option.facts.get("sequence_bytes")) and bool(option.memory_terms.get("kv_cache"))


def kv_text(option: Option, lang: Lang, *, lengths: Sequence[float] = ()) -> str:
    """The cache of a replica in tokens; where lengths are asked about, how many requests of each it
    holds at once."""
    layout, most = cast("ServingLayout", option.layout), max(lengths, default=request_tokens(option))
    held = [
        say("serving.kv_held", lang, requests=q.counted("request", math.floor(requests_held(option, one)), lang), tokens=f"{one:,.0f}")
        for one in lengths
    ]
    room = {"cache": q.memory_text(option.memory_terms["kv_cache"]), "tokens": f"{_rounded(tokens_held(option, most)):,}"}
    told = [say("serving.kv_room_of" if held else "serving.kv_room", lang, **room, held=join(held, lang))]
    if layout.kv_format == "16-bit" and requests_held(option, most) < _FEW:
        told.append(say("serving.kv_half", lang))
    return sentences(told, lang)


def waiting_text(option: Option, workload: Any, lang: Lang) -> str:
    """The cache of a replica where more users are told than it holds requests of; "" elsewhere."""
    if not has_cache(option) or not workload.users:
        return ""
    layout = cast("ServingLayout", option.layout)
    held = layout.max_batch * layout.replicas
    if workload.users <= held:
        return ""
    more = say("serving.kv_wait", lang, users=f"{workload.users:,}", waiting=f"{workload.users - held:,}")
    return sentences([kv_text(option, lang), more], lang)


def _rounded(tokens: float) -> int:
    """Three digits: no more are known."""
    scale: int = 10 ** max(math.floor(math.log10(max(tokens, 1.0))) - 2, 0)
    return round(tokens / scale) * scale
