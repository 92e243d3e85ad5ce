"""Models that have no name: dimensions as given, and the typical shape of a
bare parameter count."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence
from statistics import median

from rightfit.errors import InputError, QuantityError
from rightfit.facts import bundled
from rightfit.facts.parameter_count import count_parameters
from rightfit.facts.records import TransformerArchitecture
from rightfit.messages import Message

_COUNT = re.compile(r"([\d_,]*\.?\d+)\s*(k|m|b|t|bn|million|billion|trillion|万|亿|万亿)\s*(?:param(?:eter)?s?|参数)?", re.IGNORECASE)
MIXTURE = re.compile(r"(?P<total>\d+(?:\.\d+)?[BT])\s?-?\s?A(?P<active>\d+(?:\.\d+)?B)", re.IGNORECASE)
"""Parameters of a mixture of experts, in all and of one token, as names have them."""
_FACTORS: Mapping[str, float] = {
    "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12, "bn": 1e9, "million": 1e6, "billion": 1e9, "trillion": 1e12, "万": 1e4, "亿": 1e8, "万亿": 1e12,
}  # fmt: skip
SMALLEST_COUNT, LARGEST_COUNT = 1e6, 2e13

_KEYS: Mapping[str, str] = {
    "layers": "num_layers", "num_layers": "num_layers", "n_layers": "num_layers", "l": "num_layers",
    "hidden": "hidden_size", "hidden_size": "hidden_size", "d_model": "hidden_size", "h": "hidden_size",
    "heads": "num_heads", "num_heads": "num_heads", "a": "num_heads",
    "kv_heads": "num_kv_heads", "num_kv_heads": "num_kv_heads",
    "head_dim": "head_dim",
    "ffn": "intermediate_size", "intermediate": "intermediate_size", "intermediate_size": "intermediate_size",
    "vocab": "vocab_size", "vocab_size": "vocab_size", "v": "vocab_size",
    "context": "max_position", "max_position": "max_position",
    "experts": "num_experts", "num_experts": "num_experts",
    "top_k": "experts_per_token", "topk": "experts_per_token", "experts_per_token": "experts_per_token",
    "expert_ffn": "moe_intermediate_size", "moe_ffn": "moe_intermediate_size", "moe_intermediate_size": "moe_intermediate_size",
    "shared_experts": "num_shared_experts", "dense_layers": "first_dense_layers", "tied": "tied_embeddings",
}  # fmt: skip
_LIMITS: Mapping[str, int] = {
    "num_layers": 10_000, "hidden_size": 1_000_000, "num_heads": 10_000, "num_kv_heads": 10_000, "head_dim": 100_000,
    "intermediate_size": 100_000_000, "vocab_size": 100_000_000, "max_position": 2_000_000_000, "num_experts": 100_000,
    "experts_per_token": 100_000, "moe_intermediate_size": 100_000_000, "num_shared_experts": 1000, "first_dense_layers": 10_000,
    "tied_embeddings": 1,
}  # fmt: skip
_MAY_BE_ZERO = frozenset({"tied_embeddings", "num_shared_experts", "first_dense_layers"})
EXAMPLE = "layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=128256"
_NEIGHBOURS = 9
# Mistral 7B, September 2023: since then decoders share key-value heads and have large vocabularies.
MODERN_SINCE = "2023-09"


def parameter_count(text: str) -> int | None:
    """Parameters that a bare count such as '7B', '350M', '1.5 billion' or '70亿' states; None when
    `text` is no count."""
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        return None
    try:
        count = float(match.group(1).replace(",", "").replace("_", "")) * _FACTORS[match.group(2).casefold()]
    except ValueError:
        return None
    if not SMALLEST_COUNT <= count <= LARGEST_COUNT:
        raise QuantityError(Message("facts.size_outside", text=text.strip()[:40]), field="model")
    return round(count)


def given_architecture(text: str) -> TransformerArchitecture:
    """A decoder with the dimensions written as key=value pairs; what is not given is taken from
    decoders of that size and named in notes."""
    given = _pairs(text)
    for key in ("num_layers", "hidden_size"):
        if key not in given:
            word = {"num_layers": "layers", "hidden_size": "hidden"}[key]
            raise InputError(Message("facts.dimension_lacks", word=word, example=EXAMPLE), field="model")
    values, assumed = _filled(given)
    _check_heads(values)
    record = _record(values, name=text.strip()[:120], source="dimensions given by the user", certainty="given")
    notes = "assumed from decoders of this size: " + ", ".join(f"{key}={values[key]}" for key in assumed) if assumed else ""
    return dataclasses.replace(record, notes=notes)


def _pairs(text: str) -> dict[str, int]:
    given: dict[str, int] = {}
    for part in filter(None, re.split(r"[,;\s]+", re.sub(r"\s*=\s*", "=", text.strip()))):
        word, sign, number = part.partition("=")
        field = _KEYS.get(word.casefold().replace("-", "_"))
        if not sign or field is None:
            known = "layers, hidden, heads, kv_heads, head_dim, ffn, vocab, context, experts, top_k, expert_ffn, shared_experts, tied"
            raise InputError(Message("facts.no_dimension", word=word[:40], known=known), field="model")
        if field in given:
            raise InputError(Message("facts.dimension_twice", word=word), field="model")
        given[field] = _whole(word, number, smallest=0 if field in _MAY_BE_ZERO else 1, largest=_LIMITS[field])
    return given


def _whole(word: str, text: str, *, smallest: int, largest: int) -> int:
    digits = text.replace("_", "")
    if not re.fullmatch(r"\d{1,12}", digits, re.ASCII) or not smallest <= int(digits) <= largest:
        raise QuantityError(Message("facts.dimension_number", word=word, text=text[:40], smallest=smallest, largest=largest), field="model")
    return int(digits)


def _filled(given: Mapping[str, int]) -> tuple[dict[str, int], list[str]]:
    """Given values completed by typical ones, and the names of those that were added and matter."""
    hidden, layers = given["hidden_size"], given["num_layers"]
    like = _neighbours(12.0 * layers * hidden * hidden)
    head_dim = given.get("head_dim") or _head_dim(hidden, given.get("num_heads", 0), like)
    heads = given.get("num_heads") or max(hidden // head_dim, 1)
    typical = {
        "num_heads": heads,
        "num_kv_heads": heads,
        "head_dim": head_dim,
        "intermediate_size": _rounded(hidden * median(one.intermediate_size / one.hidden_size for one in like), 64),
        "vocab_size": round(median(one.vocab_size for one in like)),
        "max_position": round(median(one.max_position for one in like)),
        "tied_embeddings": 0,
    }
    values = {**typical, **given}
    if "num_experts" in given:
        values.setdefault("experts_per_token", min(2, given["num_experts"]))
        values.setdefault("moe_intermediate_size", values["intermediate_size"])
    derived = ("head_dim",) if "num_heads" in given else ()
    assumed = [key for key in values if key not in given and key not in derived and key != "tied_embeddings"]
    return values, assumed


def _head_dim(hidden: int, heads: int, like: Sequence[TransformerArchitecture]) -> int:
    if heads:
        if hidden % heads:
            raise InputError(Message("facts.hidden_heads", hidden=hidden, heads=heads), field="model")
        return hidden // heads
    usual = round(median(one.head_dim for one in like))
    return next((size for size in (usual, 128, 64, 32) if size and hidden % size == 0), hidden)


def _check_heads(values: Mapping[str, int]) -> None:
    if values["num_heads"] % values["num_kv_heads"]:
        raise InputError(Message("facts.kv_heads", kv_heads=values["num_kv_heads"], heads=values["num_heads"]), field="model")
    if values.get("experts_per_token", 0) > values.get("num_experts", 0):
        raise InputError(Message("facts.top_k", top_k=values["experts_per_token"], experts=values.get("num_experts", 0)), field="model")
    if values.get("first_dense_layers", 0) > values["num_layers"]:
        raise InputError(Message("facts.dense_layers", dense=values["first_dense_layers"], layers=values["num_layers"]), field="model")


def typical_architecture(count: int) -> TransformerArchitecture:
    """A decoder of `count` parameters with the typical shape of its size.

    The nine bundled decoders nearest in size (by ratio; dense, gated, since MODERN_SINCE) give the
    medians of width to depth, feed-forward to hidden width, head size, vocabulary and context, and
    the mean sharing of key-value heads. Width and depth are then solved for the count, and the
    feed-forward width takes up what rounding leaves. Known error, leaving each of those 129
    decoders out in turn (median and 80th percentile): hidden 0 % and 20 %, layers 13 % and 29 %,
    feed-forward width 17 % and 34 %, key-value cache a factor of 2.1 and 3.4; so certainty is
    "typical" and intervals widen.
    """
    like = _neighbours(float(count))
    head_dim = round(median(one.head_dim for one in like))
    ratio = median(one.intermediate_size / one.hidden_size for one in like)
    # The geometric mean, because decoders either share key-value heads by 4 to 8 or not at all: a
    # median would take one side.
    group = math.exp(sum(math.log(one.num_heads / one.num_kv_heads) for one in like) / len(like))
    vocab = round(median(one.vocab_size for one in like))
    tied = count < 2_000_000_000 and median(one.tied_embeddings for one in like) > 0.5
    aspect = median(one.hidden_size / one.num_layers for one in like)
    per_width = 2 + 2 / group + 3 * ratio
    hidden = _solve_width(count, per_width=per_width, aspect=aspect, vocab=vocab * (1 if tied else 2))
    heads = _whole_heads(hidden / head_dim)
    hidden = heads * head_dim
    layers = max(round((count - vocab * hidden * (1 if tied else 2)) / (per_width * hidden * hidden)), 1)
    values = {
        "num_layers": layers, "hidden_size": hidden, "num_heads": heads, "num_kv_heads": _divisor(heads, heads / group),
        "head_dim": head_dim, "intermediate_size": _rounded(hidden * ratio, 64), "vocab_size": vocab,
        "max_position": round(median(one.max_position for one in like)), "tied_embeddings": int(tied),
    }  # fmt: skip
    values["intermediate_size"] = _width_for(count, values)
    record = _record(
        values, name=_size_name(count), source=f"typical shape of {_NEIGHBOURS} bundled decoders nearest in size", certainty="typical"
    )
    notes = "only a size was given; shape assumed from " + ", ".join(one.name for one in like[:3]) + " and others"
    return dataclasses.replace(record, params_total=count, params_active=count, notes=notes)


def mixture_counts(text: str) -> tuple[int, int] | None:
    """Parameters in all and active ones of a size such as '310B-A19B'; None where `text` is no such
    size."""
    match = MIXTURE.fullmatch(text.strip())
    if match is None:
        return None
    total, active = (parameter_count(one.strip()) or 0 for one in (match["total"], match["active"]))
    if not 0 < active < total:
        raise QuantityError(Message("facts.active_over_total", text=text.strip()[:40]), field="model")
    return total, active


def typical_mixture(count: int, active: int) -> TransformerArchitecture:
    """A mixture of experts of `count` parameters of which a token uses `active`, with the shape of
    the bundled one that is nearest in both (by ratio; plain attention in every layer).

    Width and heads of the relative are scaled by the root of the ratio of active parameters, its
    layers, vocabulary and experts of a token are kept; the width of an expert and the number of
    experts are then solved for both counts. Known error, leaving each of those mixtures out in
    turn: key-value cache a factor of 1.7 at the median (tests/facts/test_dimensions.py), so
    certainty is "typical" and intervals widen.
    """
    like = min(_plain_mixtures(), key=lambda one: (_mixture_distance(one, count, active), one.name))
    heads = _whole_heads(like.num_heads * math.sqrt(active / like.params_active))
    head_width = like.hidden_size / like.num_heads
    values = {
        "num_layers": like.num_layers, "hidden_size": _rounded(heads * head_width, 64), "num_heads": heads,
        "num_kv_heads": _divisor(heads, min(like.num_kv_heads, heads)), "head_dim": like.head_dim, "vocab_size": like.vocab_size,
        "intermediate_size": _rounded(like.intermediate_size * heads / like.num_heads, 64), "max_position": like.max_position,
        "tied_embeddings": int(like.tied_embeddings), "num_experts": like.num_experts, "experts_per_token": like.experts_per_token,
        "num_shared_experts": like.num_shared_experts, "first_dense_layers": like.first_dense_layers,
        "moe_intermediate_size": 64,
    }  # fmt: skip
    each = count_parameters(_record(values, name="", source="-", certainty="typical"))
    used = (like.experts_per_token + like.num_shared_experts) * each.routed_experts / like.num_experts
    width = max(64 * (active - each.active + used) / used, 64)  # what attention and embeddings leave to the experts of a token
    one_expert = each.routed_experts / like.num_experts * width / 64
    experts = max(round((count - active) / one_expert) + like.experts_per_token, like.experts_per_token + 1)
    experts = _rounded(experts, 8) if experts > 16 else experts
    width *= (count - active) / (one_expert * (experts - like.experts_per_token))
    values |= {"num_experts": experts, "moe_intermediate_size": _rounded(width, 32)}
    record = _record(
        values, name=f"{_size_of(count)}-A{_size_of(active)} (typical mixture of experts)", source=like.name, certainty="typical"
    )
    notes = f"only two sizes were given; shape assumed from {like.name}"
    return dataclasses.replace(record, params_total=count, params_active=active, notes=notes)


def _mixture_distance(one: TransformerArchitecture, count: int, active: int) -> float:
    return abs(math.log(one.params_total / count)) + abs(math.log(one.params_active / active))


@functools.cache
def _plain_mixtures() -> tuple[TransformerArchitecture, ...]:
    """Bundled mixtures of experts with plain attention in every layer."""
    records = (bundled.load(entry) for entry in bundled.index() if entry.family == "transformer")
    return tuple(
        one
        for one in records
        if isinstance(one, TransformerArchitecture)
        and one.kind == "moe-decoder"
        and one.attention_kind in ("mha", "gqa")
        and one.num_moe_layers + one.first_dense_layers == one.num_layers
        and not (one.num_linear_layers or one.num_sliding_layers or one.kv_lora_rank)
        and one.moe_intermediate_size
    )


def _solve_width(count: int, *, per_width: float, aspect: float, vocab: int) -> float:
    """Width h with per_width h^3 / aspect + vocab h = count, by bisection: the left
    side grows with h."""
    low, high = 1.0, 1e6
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if per_width * middle**3 / aspect + vocab * middle < count else (low, middle)
    return low


def _width_for(count: int, values: Mapping[str, int]) -> int:
    """Feed-forward width that brings the formula's count nearest to `count`, at least as
    wide as the model."""
    short = count - count_parameters(_record(values, name="", source="-", certainty="typical")).total
    step = 3 * values["num_layers"] * values["hidden_size"]
    return max(_rounded(values["intermediate_size"] + short / step, 64), values["hidden_size"])


def _whole_heads(heads: float) -> int:
    """Heads as published decoders have them: a multiple of eight from sixteen on, so that tensor
    parallelism can divide them."""
    step = 8 if heads >= 16 else 2 if heads >= 4 else 1
    return max(round(heads / step), 1) * step


def _divisor(number: int, target: float) -> int:
    """The divisor of `number` nearest to `target` by ratio."""
    divisors = [one for one in range(1, number + 1) if number % one == 0]
    return min(divisors, key=lambda one: (abs(math.log(one / target)), one))


def _rounded(value: float, step: int) -> int:
    return max(round(value / step), 1) * step


def _size_name(count: int) -> str:
    return f"{_size_of(count)} parameters (typical decoder)"


def _size_of(count: int) -> str:
    return next((f"{count / factor:.4g}{unit}" for unit, factor in (("T", 1e12), ("B", 1e9), ("M", 1e6)) if count >= factor), str(count))


@functools.cache
def _dense_decoders() -> tuple[TransformerArchitecture, ...]:
    """Bundled decoders with plain attention in every layer and gated feed-forward blocks, published
    since grouped queries became usual."""
    records = (bundled.load(entry) for entry in bundled.index() if entry.family == "transformer")
    return tuple(
        one
        for one in records
        if isinstance(one, TransformerArchitecture)
        and one.kind == "decoder"
        and one.attention_kind in ("mha", "gqa", "mqa", "sliding")
        and one.mlp_kind in ("swiglu", "geglu")
        and one.num_kv_heads
        and one.max_position
        and one.release_date >= MODERN_SINCE
    )


def _neighbours(count: float) -> list[TransformerArchitecture]:
    return sorted(_dense_decoders(), key=lambda one: (abs(math.log(one.params_total / count)), one.name))[:_NEIGHBOURS]


def _record(values: Mapping[str, int], *, name: str, source: str, certainty: str) -> TransformerArchitecture:
    experts, layers = values.get("num_experts", 0), values["num_layers"]
    dense = values.get("first_dense_layers", 0)
    kinds = "mha" if values["num_kv_heads"] == values["num_heads"] else "mqa" if values["num_kv_heads"] == 1 else "gqa"
    bare = TransformerArchitecture(
        name=name,
        kind="moe-decoder" if experts else "decoder",
        **{key: value for key, value in values.items() if key not in ("tied_embeddings", "first_dense_layers")},  # type: ignore[arg-type]
        tied_embeddings=bool(values["tied_embeddings"]),
        attention_kind=kinds,
        mlp_kind="swiglu",
        norm="rmsnorm",
        params_total=0,
        params_active=0,
        params_embedding=0,
        source=source,
        num_moe_layers=layers - dense if experts else 0,
        first_dense_layers=dense,
        num_full_attention_layers=layers,
        certainty=certainty,
    )
    count = count_parameters(bare)
    return dataclasses.replace(bare, params_total=count.total, params_active=count.active, params_embedding=count.embedding)
