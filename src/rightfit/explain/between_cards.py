"""Between two GPUs for serving one model ("MI300X or H100 for a 70B in bf16"): how many of each
hold it, what those cost at the provider that rents them for least, and how fast they generate.

No load is told, so nothing is planned: a plan sizes for requests that nobody stated, among the
providers that it takes by default, and by whole servers.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.beside.questions import without_questions
from rightfit.explain.card_stacks import stack_lines
from rightfit.explain.claim_words import best_rate
from rightfit.explain.fit_claims import counted_weights, format_of
from rightfit.explain.messages import topic_text, topic_words
from rightfit.explain.weight_questions import USABLE, USUAL_TOKENS
from rightfit.explain.yes_or_no import is_question
from rightfit.messages import LANGS, Lang
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.facts.records import Accelerator
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

_words = functools.partial(topic_words, "between_cards")
_text = functools.partial(topic_text, "between_cards")

_COUNTS = (1, 2, 4, 8)
#: Weights with what the runtime takes beside them.
_RUNTIME = 1.05
#: Options that say how much is to be done, which a plan answers.
_AMOUNTS = frozenset({"rate", "users", "data", "deadline", "budget", "concurrency", "epochs", "latency"})
#: Prices, and speeds, that are so near are the same.
_ALIKE = 1.1
_BITS = {"": "bits_16", "bf16": "bits_16", "fp16": "bits_16", "fp8": "bits_8", "int8": "bits_8", "awq": "bits_4", "int4": "bits_4"}


@dataclass(frozen=True, slots=True)
class Set:
    """The fewest of a card that hold a model (0: 8 do not), what they cost [USD/h] (0: nobody rents
    one) at which provider, tokens per second of one user, and arithmetic [FLOP/s]."""

    card: Accelerator
    count: int
    left_bytes: float
    price: float
    cloud: str
    tokens_per_s: float
    flops: float


def between_cards(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to such a question; None of any other sentence."""
    from rightfit.explain.card_choice import remarks
    from rightfit.explain.card_questions import cards_in
    from rightfit.market.verdicts import CheckResult
    from rightfit.workload.ask import understand

    if not is_question(sentence) or not _words("choose").search(sentence) or _words("other").search(sentence):
        return None
    if len(cards := cards_in(sentence, catalog)) != 2:
        return None
    try:
        wishes = understand(without_questions(sentence).wish).wishes
        model = facts.model(str(wishes["model"]), network=False) if "model" in wishes else None
    except RightfitError:
        return None
    if (
        not isinstance(model, facts.TransformerArchitecture)
        or _AMOUNTS & set(wishes)
        or model.kind not in ("decoder", "moe-decoder", "vlm")
    ):
        return None
    told_as = format_of(wishes)
    weights = counted_weights({"model": wishes["model"], "quantization": told_as or "bf16"})
    if not weights:
        return None
    sets = [_set_of(card, model, weights, catalog) for card in cards]
    if (
        not told_as
        and all(one.count != 1 for one in sets)
        and (small := counted_weights({"model": wishes["model"], "quantization": "fp8"}))
    ):
        told_as, weights = "fp8", small  # what is mostly served where one holds it in 16 bits of neither
        sets = [_set_of(card, model, weights, catalog) for card in cards]
    shown = {"model": str(wishes["model"])}
    told: dict[Lang, list[str]] = {}
    for lang in LANGS:
        bits = _text(_BITS.get(told_as, "told"), lang, format=told_as.upper())
        lines = [_pick(sets, bits, shown, lang), *(_line(one, weights, bits, lang) for one in sets)]
        told[lang] = [*lines, *_notes(sets, wishes, lang), *remarks(cards, lang), *stack_lines(cards, lang)]
    chosen = _chosen(sets)
    known = {"cards": [card.name for card in cards], "counts": [one.count for one in sets], "chosen": chosen.card.name if chosen else ""}
    return CheckResult(sentence, "market", True, None, known, (), "\n".join(told["en"]), "\n".join(told["zh"]))


def _set_of(card: Accelerator, model: facts.TransformerArchitecture, weights: float, catalog: Catalog) -> Set:
    from rightfit.estimation.serving_extras import sequence_cache_bytes
    from rightfit.explain.market_questions import clouds_of

    memory = float(card.memory_bytes)
    need = _RUNTIME * weights + sequence_cache_bytes(model, float(USUAL_TOKENS))
    count = next((one for one in _COUNTS if one * USABLE * memory >= need), 0)
    cloud, each = min(clouds_of((card.name,), catalog), key=lambda one: one[1], default=("", 0.0))
    share = model.params_active / model.params_total if model.num_experts and model.params_active else 1.0
    rate = count * card.memory_bandwidth / (share * weights)
    return Set(card, count, count * USABLE * memory - weights, count * each, cloud, rate, count * best_rate(card))


def _chosen(sets: Sequence[Set]) -> Set | None:
    """The one to take: what holds it, is rented and costs least; of those that cost alike the
    fastest."""
    able = [one for one in sets if one.count and one.price] or [one for one in sets if one.count]
    if not able:
        return None
    least = min(one.price for one in able)
    return max((one for one in able if one.price <= _ALIKE * least), key=lambda one: one.tokens_per_s)


def _pick(sets: Sequence[Set], bits: str, shown: Mapping[str, str], lang: Lang) -> str:
    if (better := _chosen(sets)) is None:
        better = sets[0]
    other = next(one for one in sets if one is not better)
    speed = max(better.tokens_per_s, other.tokens_per_s) / (min(better.tokens_per_s, other.tokens_per_s) or 1.0)
    if not other.count:
        key = "pick_only"
    elif not other.price:
        key = "pick_priced"
    elif other.price <= _ALIKE * better.price:
        key = "pick_fast" if speed > _ALIKE else "pick_cheap_even"
    elif speed <= _ALIKE:
        key = "pick_cheap_even"
    else:
        key = "pick_both" if better.tokens_per_s > other.tokens_per_s else "pick_cheap"
    ratio = q.percent_text(better.price / other.price) if other.price else ""
    return _text(key, lang, better=better.card.name, other=other.card.name, bits=bits, ratio=ratio, speed=f"{speed:.1f}", **shown)


def _line(one: Set, weights: float, bits: str, lang: Lang) -> str:
    fields = {"card": one.card.name, "memory": q.memory_text(one.card.memory_bytes), "weights": q.memory_text(weights), "bits": bits}
    if not one.count:
        return _text("line_none", lang, **fields)
    each = q.money_text(one.price / one.count)
    price = (
        _text("priced", lang, price=q.money_text(one.price), cloud=q.provider_text(one.cloud, lang), each=each)
        if one.price
        else _text("unpriced", lang)
    )
    figures = {
        "count": f"{one.count}",
        "left": q.memory_text(one.left_bytes),
        "rate": f"{one.tokens_per_s:.0f}",
        "bandwidth": f"{one.card.memory_bandwidth / 1e9:,.4g}",
        "compute": f"{one.flops / 1e12:,.4g}",
    }
    return _text("line", lang, price=price, **fields, **figures)


def _notes(sets: Sequence[Set], wishes: Mapping[str, Any], lang: Lang) -> list[str]:
    """What else tells the two apart: fewer GPUs, arithmetic, 8-bit floats."""
    few, many = sorted(sets, key=lambda one: one.count or _COUNTS[-1] + 1)
    told = []
    if few.count == 1 and many.count > 1:
        told.append(_text("single", lang, card=few.card.name, count=many.count, other=many.card.name))
    slow, fast = sorted(sets, key=lambda one: one.flops)
    if slow.count and fast.flops > _ALIKE * slow.flops:
        told.append(_text("prompts", lang, card=fast.card.name, ratio=f"{fast.flops / slow.flops:.1f}"))
    having = [one.card for one in sets if one.card.fp8_flops]
    small = counted_weights({"model": wishes["model"], "quantization": "fp8"})
    if len(having) == 1 and small:
        other = next(one.card for one in sets if not one.card.fp8_flops)
        told.append(_text("fp8_one", lang, card=having[0].name, weights=q.memory_text(small), other=other.name))
    return told
