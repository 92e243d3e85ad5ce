"""Cards held against each other by what each of them is: how two or more differ ("A10 vs A10G"),
and which one to train a model on. By memory, bandwidth, formats, links and the price of one card,
not by whole servers at an assumed load.

Words, remarks and texts are data (data/card_choice.toml).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.card_questions import cards_named
from rightfit.explain.card_stacks import stack_lines
from rightfit.explain.claim_words import NAMED_SERVER, best_rate
from rightfit.explain.fit_claims import counted_weights, least_bytes
from rightfit.explain.market_questions import clouds_of, new_cuda_lines, per_money
from rightfit.explain.messages import topic, topic_text, topic_words
from rightfit.explain.yes_or_no import is_question
from rightfit.messages import LANGS, Lang
from rightfit.units import TB

if TYPE_CHECKING:
    from rightfit.facts.records import Accelerator
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

_Told = dict[Lang, list[str]]
_Prices = Mapping[str, tuple[float, str] | None]

_words = functools.partial(topic_words, "card_choice")
_text = functools.partial(topic_text, "card_choice")
#: Figures up to so far apart are the same.
_ALIKE = 0.05
#: Operations for each byte of bandwidth below which a card computes little, of one that reads fast
#: [bytes per second].
_WEAK, _FAST = 60.0, TB
_MOST_CARDS = 6
#: Share of the memory that weights may take where a cache is to fit beside them, and what training
#: may take.
_ROOM, _USABLE = 0.8, 0.9
_COUNTS = (1, 2, 4, 8, 16, 32, 64)
#: Options that say how much is to be done: a plan tells more.
_PLANNED = frozenset({"rate", "data", "deadline", "budget", "users", "concurrency", "epochs", "steps", "latency", "ttft", "tpot"})


def card_choice(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to which of several cards, or how they differ; None of any other sentence."""
    from rightfit.explain.beside.questions import without_questions
    from rightfit.workload.ask import understand

    if (ported := _ported(sentence, catalog)) is not None:
        return ported
    differ, choose = (bool(_words(name).search(sentence)) for name in ("differ", "choose"))
    if not is_question(sentence) and not differ:
        return None
    if not (differ or choose) or _words("other").search(sentence) or NAMED_SERVER.search(sentence):
        return None
    cards = cards_named(sentence, catalog)
    cards = _forms_named(sentence, cards[0]) if len(cards) == 1 else cards
    if not 2 <= len(cards) <= _MOST_CARDS:
        return None
    try:
        wishes = understand(without_questions(sentence).wish).wishes
    except RightfitError:
        wishes = {}
    if _PLANNED & set(wishes):
        return None
    if "model" in wishes:
        return _for_model(sentence, str(wishes["model"]), cards, catalog)
    return _different(sentence, cards, catalog) if differ or len(cards) > 2 else None


def _result(sentence: str, told: Mapping[Lang, Sequence[str]], cards: Sequence[Accelerator], **known: Any) -> CheckResult:
    from rightfit.market.verdicts import CheckResult

    lines = {lang: "\n".join(told[lang]) for lang in LANGS}
    return CheckResult(sentence, "market", True, None, {"cards": [card.name for card in cards], **known}, (), lines["en"], lines["zh"])


def _forms_named(sentence: str, card: Accelerator) -> list[Accelerator]:
    """The forms of one card that a question tells apart: H100 SXM, PCIe and NVL."""
    named = {found.casefold() for found in re.findall(r"(?<![A-Za-z])(?:SXM|PCIe|NVL)", sentence, re.IGNORECASE)}
    series = card.name.split("-")[0]
    forms = [one for name, one in facts.accelerators().items() if re.match(rf"{re.escape(series)}-(?:SXM|PCIe|NVL)", name)]
    told = {form: [one for one in forms if f"-{form}" in one.name.casefold()] for form in named}
    return [max(each, key=lambda one: one.memory_bytes) for each in told.values() if each] if len(named) > 1 else []


def _ported(sentence: str, catalog: Catalog) -> CheckResult | None:
    """Whether code that is made for CUDA runs on another maker's card."""
    if not is_question(sentence) or not (_words("code").search(sentence) and _words("runs").search(sentence)):
        return None
    cards = cards_named(sentence, catalog)
    others = [card for card in cards if card.vendor != "NVIDIA" and stack_lines([card], "en")]
    if len(others) != 1:
        return None
    (card,) = others
    is_amd = card.vendor == "AMD"
    told = {
        lang: [
            _text("ported_amd" if is_amd else "ported", lang, card=card.name),
            *stack_lines(others, lang),
            _text("ported_trial", lang),
            *(_line(one, _least(one, catalog), lang) for one in cards),
        ]
        for lang in LANGS
    }
    return dataclasses.replace(_result(sentence, told, cards), claim="right" if is_amd else "wrong")


# ---- How they differ.


def _different(sentence: str, cards: Sequence[Accelerator], catalog: Catalog) -> CheckResult:
    prices = {card.name: _least(card, catalog) for card in cards}
    told: _Told = {}
    for lang in LANGS:
        lines = [_line(card, prices[card.name], lang) for card in cards]
        lines += [_text("same", lang, what=_joined(alike, lang))] if (alike := _alike(cards, lang)) else []
        is_near = _near(*(card.memory_bandwidth for card in cards)), _near(*map(best_rate, cards))
        lines += [] if is_near[0] else [_text("generate", lang, order=_order(cards, lambda card: card.memory_bandwidth, lang))]
        lines += [] if is_near[1] else [_text("compute", lang, order=_order(cards, best_rate, lang))]
        for key, column in (("only_fp8", "fp8_flops"), ("only_link", "nvlink_bandwidth")):
            having = [card.name for card in cards if getattr(card, column) > 0.0]
            lines += [_text(key, lang, **{"with": _joined(having, lang)})] if 0 < len(having) < len(cards) else []
        lines += remarks(cards, lang)
        is_same = all(is_near) and _near(*(card.memory_bytes for card in cards))
        lines += [] if is_same else per_money(cards, catalog, lang)
        lines += new_cuda_lines(cards, lang)
        lines += [] if _is_best_of_all(cards, prices) else [_taken(cards, prices, lang, is_same=is_same)]
        told[lang] = lines
    return _result(sentence, told, cards)


def _is_best_of_all(cards: Sequence[Accelerator], prices: _Prices) -> bool:
    """Whether one card does most for the money whatever is asked of it, which is told already."""
    each = [(card, least[0]) for card in cards if (least := prices[card.name]) is not None]
    figures: tuple[Callable[[Accelerator], float], ...] = (best_rate, lambda card: card.memory_bandwidth, lambda card: card.memory_bytes)
    best = {max(each, key=lambda one: figure(one[0]) / one[1])[0].name for figure in figures} if len(each) == len(cards) else set()
    return len(best) == 1


def _least(card: Accelerator, catalog: Catalog) -> tuple[float, str] | None:
    """The least price on demand of one card for an hour [USD] and whose it is; of the name that a
    cloud gives the same card too."""
    names = [card.name, *(name for name, one in facts.accelerators().items() if one.equivalent_to == card.name)]
    return min(((price, cloud) for cloud, price in clouds_of(tuple(names), catalog)), default=None)


def _line(card: Accelerator, least: tuple[float, str] | None, lang: Lang) -> str:
    market = functools.partial(topic_text, "market_questions")
    price = _text("price", lang, price=q.money_text(least[0]), cloud=q.provider_text(least[1], lang)) if least else _text("no_price", lang)
    return _text(
        "card",
        lang,
        name=card.name,
        memory=q.memory_text(card.memory_bytes),
        bandwidth=f"{card.memory_bandwidth / 1e9:,.4g}",
        rate=f"{best_rate(card) / 1e12:,.4g}",
        bf16="" if card.supports_bf16 else market("no_bf16", lang),
        fp8=market("fp8", lang) if card.fp8_flops else "",
        link=market("nvlink", lang, rate=f"{card.nvlink_bandwidth / 1e9:.4g}") if card.nvlink_bandwidth else market("pcie", lang),
        watts=_text("watts", lang, watts=f"{card.tdp_w:.0f}") if card.tdp_w > 0.0 else "",
        year=card.release_year,
        price=price,
    )


def _joined(parts: Sequence[str], lang: Lang) -> str:
    return ("、" if lang == "zh" else ", ").join(parts)


def _near(*values: float) -> bool:
    return max(values) <= (1.0 + _ALIKE) * min(values)


def _alike(cards: Sequence[Accelerator], lang: Lang) -> list[str]:
    """What is the same of all cards."""
    same = [
        key
        for key, values in {
            "memory": [card.memory_bytes for card in cards],
            "bandwidth": [card.memory_bandwidth for card in cards],
            "compute": [best_rate(card) for card in cards],
        }.items()
        if _near(*values)
    ]
    same += ["fp8"] if all(card.fp8_flops for card in cards) else []
    same += ["link"] if not any(card.nvlink_bandwidth for card in cards) else []
    return [_text(f"alike_{key}", lang) for key in same]


def _order(cards: Sequence[Accelerator], figure: Callable[[Accelerator], float], lang: Lang) -> str:
    """Cards by a figure, the most first: "L40S = L20 > L4", and how far apart two are."""
    ordered = sorted(cards, key=lambda card: -figure(card))
    text = ordered[0].name
    for before, card in itertools.pairwise(ordered):
        text += f" {'=' if _near(figure(before), figure(card)) else '>'} {card.name}"
    more = _text("more", lang, first=ordered[0].name, second=ordered[-1].name, ratio=f"{figure(ordered[0]) / figure(ordered[-1]):.2g}")
    return f"{text}{'；' if lang == 'zh' else '; '}{more}"


def remarks(cards: Sequence[Accelerator], lang: Lang) -> list[str]:
    """What is to be known of cards beside their figures, and which compute little."""
    told = [
        row[lang].format(card=card.name) for card in cards for row in topic("card_choice")["remarks"] if re.search(row["cards"], card.name)
    ]
    weak = {card.name: best_rate(card) / card.memory_bandwidth for card in cards if card.memory_bandwidth > _FAST}
    return told + [_text("weak", lang, card=name, ratio=f"{ratio:.0f}") for name, ratio in weak.items() if ratio < _WEAK]


def _taken(cards: Sequence[Accelerator], prices: _Prices, lang: Lang, *, is_same: bool) -> str:
    if is_same:
        return _text("take_little", lang)
    by_price = {name: one[0] for name, one in prices.items() if one is not None}
    cheap = min(by_price, key=lambda name: by_price[name]) if by_price else min(cards, key=lambda card: card.tdp_w).name
    most_read, most_done = max(card.memory_bandwidth for card in cards), max(map(best_rate, cards))
    generate = min((card for card in cards if _near(card.memory_bandwidth, most_read)), key=lambda card: by_price.get(card.name, math.inf))
    compute = min((card for card in cards if _near(best_rate(card), most_done)), key=lambda card: by_price.get(card.name, math.inf))
    key = "take" if generate.name != compute.name else "take_one"
    return _text(key, lang, generate=generate.name, compute=compute.name, cheap=cheap)


# ---- Which one for a model.


def _for_model(sentence: str, name: str, cards: Sequence[Accelerator], catalog: Catalog) -> CheckResult | None:
    """Which card trains a model; which of more than two serve it, by the fewest that hold it."""
    try:
        model = facts.model(name, network=False)
    except RightfitError:
        return None
    if not isinstance(model, facts.TransformerArchitecture):
        return None
    if _words("training").search(sentence):
        return _trained(sentence, name, cards, {card.name: _least(card, catalog) for card in cards}, catalog)
    if len(cards) == 2:  # between_cards answers
        return None
    found = _different(sentence, cards, catalog)
    held = {lang: [_held(name, key, bits, cards, lang) for key, bits in _BITS.items()] for lang in LANGS}
    english = "\n".join([*filter(None, held["en"]), found.explanation_en])
    chinese = "\n".join([*filter(None, held["zh"]), found.explanation_zh])
    return dataclasses.replace(found, explanation_en=english, explanation_zh=chinese)


_BITS: Mapping[str, str] = {"bits_16": "bf16", "bits_8": "fp8", "bits_4": "awq"}


def _held(name: str, key: str, bits: str, cards: Sequence[Accelerator], lang: Lang) -> str:
    """The fewest of each card whose memory holds the weights in a format, with room for a cache."""
    if not (weights := counted_weights({"model": name, "quantization": bits})):
        return ""
    counts = [next((count for count in _COUNTS if weights <= count * _ROOM * float(card.memory_bytes)), 0) for card in cards]
    each = [f"{count} x {card.name}" for count, card in zip(counts, cards, strict=True) if count]
    return _text("held", lang, model=name, bits=_text(key, lang), weights=q.memory_text(weights), each=_joined(each, lang))


def _trained(sentence: str, name: str, cards: Sequence[Accelerator], prices: _Prices, catalog: Catalog) -> CheckResult | None:
    """Which card trains a model: what each way takes of memory, and computing for the money."""
    told_ways = {"qlora": "qlora", "lora": r"(?<![qQ])(?<![qQ]-)lora", "full": "全参|全量|\bfull\b"}
    named = [way for way, words in told_ways.items() if re.search(words, sentence, re.IGNORECASE)] or ["full", "lora", "qlora"]
    needs = {way: least_bytes({"model": name, "task": "finetune", "method": way, "data": "10Mtok"}, catalog) for way in named}
    if not any(map(math.isfinite, needs.values())):
        return None

    def per_price(card: Accelerator) -> float:
        least = prices[card.name]
        return best_rate(card) / (least[0] if least else 1.0)

    held = [card for card in cards if min(needs.values()) <= _USABLE * card.memory_bytes] or list(cards)
    is_priced = all(prices[card.name] is not None for card in held)
    best = max(held, key=per_price if is_priced else best_rate)
    other = max((card for card in cards if card is not best), key=best_rate)
    told: _Told = {}
    for lang in LANGS:
        share = per_price(other) / per_price(best)
        price = _text("pick_training_price", lang, share=q.percent_text(share)) if is_priced and prices[other.name] else ""
        ratio = f"{best_rate(best) / best_rate(other):.2g}"
        lines = [_text("pick_training", lang, model=name, better=best.name, other=other.name, ratio=ratio, price=price)]
        for card in cards:
            ways = [_way(way, need, card, lang) for way, need in needs.items() if math.isfinite(need)]
            least = prices[card.name]
            shown = _text("priced", lang, price=q.money_text(least[0])) if least else ""
            lines.append(
                _text(
                    "trained",
                    lang,
                    card=card.name,
                    ways=("，" if lang == "zh" else "; ").join(ways),
                    rate=f"{best_rate(card) / 1e12:,.4g}",
                    price=shown,
                )
            )
        lines += remarks(cards, lang)
        lines += [_line(card, prices[card.name], lang) for card in cards]
        told[lang] = lines
    return _result(sentence, told, cards, better=best.name, needs=needs)


def _way(way: str, need: float, card: Accelerator, lang: Lang) -> str:
    count = next((count for count in _COUNTS if need <= count * _USABLE * float(card.memory_bytes)), 64)
    shown = _text("trained_one", lang) if count == 1 else _text("trained_count", lang, count=count)
    return _text("trained_way", lang, way=q.method_text(way, lang), need=q.memory_text(need), count=shown)
