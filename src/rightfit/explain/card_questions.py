"""Questions about cards by name and no model: whether one is able to something ("can I split an
L40S with MIG"), worth its rent, a stand-in for another, which format of weights it takes, and cards
whose memory was changed. Answered from the table of cards and the prices of the catalog, so that
what is asked about is what is answered about.

Words and texts are data (data/card_questions.toml).
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.card_stacks import stack_lines
from rightfit.explain.claim_words import best_rate, cards_of
from rightfit.explain.claims import feature_of, features_in
from rightfit.explain.command_text import command_line
from rightfit.explain.market_questions import card_line, clouds_of, compared, new_cuda_lines
from rightfit.explain.messages import topic, topic_text, topic_words
from rightfit.explain.yes_or_no import is_question
from rightfit.facts.expressions import expression
from rightfit.facts.tables import says
from rightfit.messages import LANGS, Lang
from rightfit.units import GIB

if TYPE_CHECKING:
    from rightfit.facts.records import Accelerator
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

_Told = dict[Lang, list[str]]

#: Cards that are named as having what one lacks.
_MOST_OTHERS = 6
#: Share of a card's memory that weights may take, and bytes of a parameter in 16, 8 and 4 bits.
_USABLE, _BYTES = 0.85, {"sixteen": 2.0, "eight": 1.0, "four": 0.58}
#: A card stands in for another with so much of its bandwidth, compute or memory.
_NEAR = 0.85
#: Memory of one card, as its maker and its sellers round it.
_ROUNDED = 0.02
#: A card that does so many times more for the money makes another not worth its rent.
_FAR = 3.0
#: Figures of two cards up to so far apart are the same.
_ALIKE = 0.05
#: A better card costs at most so many times as much an hour.
_DEARER = 2.0
#: Bandwidth below which language models are generated slowly [bytes per second].
_SLOW_READS = 400e9
#: Compute capability from which on engines have kernels for weights of 8 bits alone.
_WEIGHT_ONLY = 8.0


#: The end of "two V100s", which is no V100S.
_PLURAL = re.compile(r"(?<=[\dS])s\b")


def card_question(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to a question about cards that it names; None of any other sentence."""
    if not is_question(sentence):
        return None
    cards = cards_named(sentence, catalog)
    if not 1 <= len(cards) <= 2 or _names_job(sentence):
        return None
    readers = (_modded, _able, _format, _worth) if len(cards) == 1 else (_replaced, _able_each, _same, _sizes_apart, _value)
    return next((found for reader in readers if (found := reader(sentence, cards, catalog)) is not None), None)


def cards_named(sentence: str, catalog: Catalog) -> list[Accelerator]:
    """The cards that a sentence names; its plurals are no other cards."""
    return cards_in(_PLURAL.sub("", sentence), catalog)


def cards_in(sentence: str, catalog: Catalog) -> list[Accelerator]:
    """The cards that a sentence names, each once, of several forms the usual one that is rented."""
    named = [(spoken, names) for spoken, names in _spoken(sentence) if not _words("memory").fullmatch(spoken)]
    told = [set(names) for _, names in named]  # "H20 96G ... why is the H20 so slow" is one card
    found = [usual_card(_forms(spoken, names), catalog) for spoken, names in named if not any(one < set(names) for one in told)]
    return list({card.name: card for card in found}.values())


def _spoken(sentence: str) -> list[tuple[str, tuple[str, ...]]]:
    """The cards of a sentence as they are written, names of several words among them."""
    from rightfit.workload.ask import understand

    found = cards_of(sentence)
    try:
        named = [one.strip() for one in str(understand(sentence).wishes.get("gpu", "")).split(",")]
    except RightfitError:
        return found
    read = [(one, facts.match_accelerators(one)) for one in named if one and _is_said(one, sentence)]
    return [one for one in read if one[1]] if len(read) > len(found) else found


def _is_said(name: str, sentence: str) -> bool:
    """Whether a card stands in a sentence, or its second memory does ("A100 40GB vs 80GB")."""
    said = sentence.casefold()
    series, _, size = name.casefold().rpartition(" ")
    return name.casefold() in said or bool(series and _words("memory").fullmatch(size) and series in said and size in said)


def _forms(spoken: str, names: Sequence[str]) -> Sequence[str]:
    """The forms of a card that is named with a memory: those of that memory."""
    series = facts.match_accelerators(_words("memory").sub(" ", spoken).strip()) or names
    size = facts.accelerators()[names[0]].memory_bytes
    return [name for name in series if abs(facts.accelerators()[name].memory_bytes / size - 1.0) < _ROUNDED] if len(names) == 1 else names


def usual_card(names: Sequence[str], catalog: Catalog) -> Accelerator:
    """Of the forms of a card the one with links and most memory, of those that somebody rents."""
    records, rented = facts.accelerators(), _carried(catalog)
    if not (among := [name for name in names if rented[name]]):
        return records[next((name for name in names if any(rented[label] for label in facts.labelled_as((name,)))), names[0])]
    return max((records[name] for name in among), key=lambda card: (card.form != "pcie", card.nvlink_bandwidth, card.memory_bytes))


def _carried(catalog: Catalog) -> Counter[str]:
    return Counter(catalog.servers().accelerator_name)


def _names_job(sentence: str) -> bool:
    """Whether a sentence names a model, or a server: those are asked about themselves."""
    from rightfit.explain.claim_words import NAMED_SERVER
    from rightfit.workload.ask import understand

    if NAMED_SERVER.search(sentence):
        return True
    try:
        return "model" in understand(sentence).wishes
    except RightfitError:
        return False


_words = functools.partial(topic_words, "card_questions")
_text = functools.partial(topic_text, "card_questions")


def _joined(parts: Sequence[str], lang: Lang) -> str:
    return ("、" if lang == "zh" else ", ").join(parts)


def _result(
    sentence: str, told: Mapping[Lang, Sequence[str]], cards: Sequence[Accelerator], claim: str | None, **known: Any
) -> CheckResult:
    from rightfit.market.verdicts import CheckResult

    lines = {lang: "\n".join(line for line in told[lang] if line) for lang in LANGS}
    return CheckResult(sentence, "market", True, claim, {"cards": [card.name for card in cards], **known}, (), lines["en"], lines["zh"])


# ---- Whether a card is able to something.


def _able(sentence: str, cards: Sequence[Accelerator], catalog: Catalog) -> CheckResult | None:
    """Yes or no by the card's columns, which cards have it, and what is done instead."""
    (card,), words = cards, topic("card_questions")
    bare = functools.reduce(lambda text, one: text.replace(one[0], " "), cards_of(sentence), sentence)
    own = [name for name, pattern in words["features"].items() if expression(pattern).search(bare)]
    other = _words("joined").sub(" ", bare)  # "T4 or V100", which are both asked about
    if len(features := own or features_in(bare)) != 1 or _words("other").search(other) or not _words("able").search(bare):
        return None
    (feature,) = features
    if feature == "rdma":
        return None
    if feature in words["features"]:
        has: bool | None = bool(_slices(card)) or (None if _may_be_sliced(card) else False)
        reason: Mapping[Lang, str] = dict.fromkeys(LANGS, "")
    else:
        found = feature_of(card.name, feature, catalog)
        if found is None:
            return None
        has, _, reason = found
    if has is None:
        return None
    told: _Told = {}
    for lang in LANGS:
        fields = _feature_fields(card, feature, catalog, lang)
        said = words["told"].get(feature, {}).get("with" if has else "without")
        own_line = reason[lang] or _has_text(card, feature, lang, has=has)
        told[lang] = [own_line + ("。" if lang == "zh" else "."), said[lang].format(**fields) if said else ""]
    return _result(sentence, told, cards, "right" if has else "wrong", feature=feature)


def _able_each(sentence: str, cards: Sequence[Accelerator], catalog: Catalog) -> CheckResult | None:
    """The same of two cards, one after the other."""
    both = [_able(sentence, (card,), catalog) for card in cards]
    if None in both:
        return None
    found = [one for one in both if one is not None]
    claims = {one.claim for one in found}
    told: _Told = {lang: [one.explanation_zh if lang == "zh" else one.explanation_en for one in found] for lang in LANGS}
    return _result(sentence, told, cards, claims.pop() if len(claims) == 1 else "unknown", feature=found[0].facts["feature"])


def _has_text(card: Accelerator, feature: str, lang: Lang, *, has: bool) -> str:
    """That a card has, or has not, what is no column of the table."""
    from rightfit.explain.claim_words import text_of

    shown = feature.upper()
    if has:
        return text_of("has_plain", lang, name=card.name, feature=shown)
    return text_of("has_not", lang, name=card.name, architecture=card.architecture, year=str(card.release_year), feature=shown)


def _slices(card: Accelerator) -> list[Mapping[str, str]]:
    return [row for row in facts.table("card_slices") if re.fullmatch(row["cards"], card.name)]


def _may_be_sliced(card: Accelerator) -> bool:
    """Whether a card is of a generation of which others are cut, and none for games: the table of
    profiles may come to it."""
    cut = {one.compute_capability for one in facts.accelerators().values() if _slices(one)}
    return card.compute_capability in cut and not says("setup", "geforce", card.name)


def _having(feature: str, card: Accelerator, catalog: Catalog) -> list[str]:
    """The cards of a maker that have what one lacks, those first that most servers carry."""
    records, carried = facts.accelerators(), _carried(catalog)

    def has(name: str) -> bool:
        one = records[name]
        if feature == "mig":
            return bool(_slices(one))
        if feature == "flash_attention":
            return bool(one.supports_flash_attention)
        column = {"nvlink": "nvlink_bandwidth", "int8": "int8_ops", "int4": "int4_ops"}.get(feature, f"{feature}_flops")
        return float(getattr(one, column, 0.0) or 0.0) > 0.0

    found = [name for name in records if records[name].vendor == card.vendor and carried[name] and name != card.name and has(name)]
    series = list(
        dict.fromkeys(name.split("-")[0] if not name.startswith("RTX") else name for name in sorted(found, key=lambda name: -carried[name]))
    )
    return series[:_MOST_OTHERS]


def _feature_fields(card: Accelerator, feature: str, catalog: Catalog, lang: Lang) -> dict[str, str]:
    fields = {"card": card.name, "others": _joined(_having(feature, card, catalog), lang)}
    slices = _slices(card)
    fields |= {
        "count": f"{max((int(row['per_card']) for row in slices), default=0)}",
        "profiles": _joined([row["profile"] for row in slices], lang),
    }
    is_held = float(card.compute_capability or 0.0) >= _WEIGHT_ONLY
    capability = f"{float(card.compute_capability or 0.0):.1f}"
    fields["weight_only"] = _text("weight_only" if is_held else "weight_only_none", lang, capability=capability)
    key = "int8_instead" if is_held and card.int8_ops else "four_instead"
    fields["instead"] = _text(key, lang, rate=f"{card.int8_ops / 1e12:,.4g}")
    return fields


# ---- Whether it is worth its rent.


def _price(card: Accelerator, catalog: Catalog) -> float | None:
    """The least price on demand of one card for an hour [USD]."""
    return min((price for _, price in clouds_of((card.name,), catalog)), default=None)


def _worth(sentence: str, cards: Sequence[Accelerator], catalog: Catalog) -> CheckResult | None:
    """What a card does for its rent, held against cards with as much memory."""
    (card,) = cards
    if not _words("worth").search(sentence):
        return None
    price, better = _price(card, catalog), None
    if price is not None:
        better = _better(card, price, catalog)
    gain = min(better[1]["bandwidth"], better[1]["compute"]) / better[1]["price"] if better else 1.0
    told: _Told = {}
    for lang in LANGS:
        fields = {"card": card.name, "price": q.money_text(price or 0.0)}
        if better is not None:
            other, times = better
            more = _text("worth_more", lang, **{name: _times(value) for name, value in times.items()})
            head = _text("worth_far" if gain > _FAR else "worth_better", lang, better=other.name, more=more, **fields)
        else:
            head = _text("worth_unpriced" if price is None else "worth_yes", lang, **fields)
        told[lang] = [head, _suits_text(card, lang), card_line(card, catalog, lang)]
        told[lang] += [card_line(better[0], catalog, lang)] if better else []
    return _result(sentence, told, cards, "unknown", better=better[0].name if better else "")


def _better(card: Accelerator, price: float, catalog: Catalog) -> tuple[Accelerator, dict[str, float]] | None:
    """The card with as much memory that is rented for about as much and does most more for the
    money, in bandwidth and in compute."""
    found: list[tuple[float, Accelerator, dict[str, float]]] = []
    for name, count in _carried(catalog).items():
        one = facts.accelerators().get(name)
        is_such = one is not None and count and one.vendor == card.vendor and one.memory_bytes >= 0.95 * card.memory_bytes
        if one is None or not is_such or one.name == card.name or one.release_year < card.release_year:
            continue
        if (other := _price(one, catalog)) is None or other > _DEARER * price:
            continue
        times = {
            "bandwidth": one.memory_bandwidth / card.memory_bandwidth,
            "compute": best_rate(one) / best_rate(card),
            "price": other / price,
        }
        gain = min(times["bandwidth"], times["compute"]) / times["price"]
        found += [(gain, one, times)] if gain > 1.0 else []
    if not found:
        return None
    _, one, times = max(found, key=lambda each: each[0])
    return one, times


def _suits_text(card: Accelerator, lang: Lang) -> str:
    lacking = [
        name
        for name, has in (("BF16", card.supports_bf16), ("FP8", card.fp8_flops), ("FlashAttention-2", card.supports_flash_attention))
        if not has
    ]
    told = _text("suits_small", lang, **_sizes(card))
    told += _text("lacks", lang, lacking=_joined(lacking, lang)) if lacking else _text("lacks_none", lang)
    return told + (
        _text("slow_reads", lang, bandwidth=f"{card.memory_bandwidth / 1e9:,.4g}") if card.memory_bandwidth < _SLOW_READS else ""
    )


def _sizes(card: Accelerator) -> dict[str, str]:
    """The largest models by parameters that fit in a card, in 16, 8 and 4 bits."""
    return {name: f"{_USABLE * card.memory_bytes / 1e9 / each:.0f}" for name, each in _BYTES.items()}


# ---- Which format of weights.


def _format(sentence: str, cards: Sequence[Accelerator], _: Catalog) -> CheckResult | None:
    """Between formats of weights, by what the card computes in."""
    (card,) = cards
    named = [name for name, pattern in topic("card_questions")["formats"].items() if expression(pattern).search(sentence)]
    if len(named) < 2 or not _words("choose").search(sentence) or _words("training").search(sentence):
        return None
    told: _Told = {}
    for lang in LANGS:
        best = _text("format_fp8" if card.fp8_flops else "format_awq", lang, card=card.name)
        memory = q.memory_text(card.memory_bytes)
        told[lang] = [
            _text("format_many", lang, best=best),
            _text("format_gguf", lang, memory=memory),
            _text("format_exl", lang) if "exl2" in named else "",
            _text("format_same", lang, memory=memory, **_sizes(card)),
        ]
        told[lang].append(f"`{command_line({'model': '7B', 'task': 'serve', 'rate': '1/s', 'quantization': 'awq', 'gpu': card.name})}`")
    return _result(sentence, told, cards, None, formats=named)


# ---- Cards whose memory was changed.


def _modded(sentence: str, cards: Sequence[Accelerator], catalog: Catalog) -> CheckResult | None:
    """A card with other memory than its maker puts on it."""
    (card,) = cards
    if not _words("modded").search(sentence) or card.vendor != "NVIDIA":
        return None
    told_size = _words("memory").search(sentence)
    size = float(told_size["size"]) if told_size else 0.0
    if size and size <= 1.05 * card.memory_bytes / GIB:
        size = 0.0
    carried, records = _carried(catalog), facts.accelerators()
    wanted = size or 2.0 * card.memory_bytes / GIB
    large = [
        name
        for name in carried
        if name in records and records[name].vendor == "NVIDIA" and records[name].memory_bytes >= 0.9 * wanted * GIB
    ]
    large = [name for name in large if not name.startswith("RTX-3") and records[name].release_year >= card.release_year]
    near = sorted(large, key=lambda name: (records[name].memory_bytes > 2.2 * wanted * GIB, -carried[name]))[:3]
    told: _Told = {}
    for lang in LANGS:
        fields = {
            "card": card.name,
            "size": f"{size:g}",
            "memory": q.memory_text(card.memory_bytes),
            "rate": f"{max(card.bf16_flops, card.fp16_flops) / 1e12:,.4g}",
            "bandwidth": f"{card.memory_bandwidth / 1e9:,.4g}",
            "link": "" if card.nvlink_bandwidth else _text("no_link", lang),
        }
        told[lang] = [_text("modded" if size else "modded_any", lang, **fields), _text("modded_use", lang, others=_joined(near, lang))]
    return _result(sentence, told, cards, "unknown", size=size)


# ---- One card in place of another, and which is better value.


def _replaced(sentence: str, cards: Sequence[Accelerator], catalog: Catalog) -> CheckResult | None:
    """Whether the first card does the work of the second: for inference, for training, and what it
    takes."""
    if not _words("replace").search(sentence):
        return None
    one, other = cards
    fields = {
        "one": one.name,
        "other": other.name,
        "memory": q.memory_text(one.memory_bytes),
        "other_memory": q.memory_text(other.memory_bytes),
        "bandwidth": f"{one.memory_bandwidth / 1e9:,.4g}",
        "other_bandwidth": f"{other.memory_bandwidth / 1e9:,.4g}",
        "ratio": _times(compute := best_rate(one) / best_rate(other)),
    }
    is_held, is_read = one.memory_bytes >= _NEAR * other.memory_bytes, one.memory_bandwidth >= _NEAR * other.memory_bandwidth
    serving = "small" if not is_held else "yes" if is_read else "slow"
    training = "slow" if compute < _NEAR else "link" if other.nvlink_bandwidth and not one.nvlink_bandwidth else "yes"
    about_training = bool(_words("training").search(sentence))
    good = (training == "yes" and is_held) if about_training else serving == "yes" and training == "yes"
    bad = training == "slow" if about_training else serving == "small" and training != "yes"
    told: _Told = {}
    for lang in LANGS:
        gained = "fp8_gained" if one.fp8_flops and not other.fp8_flops else "fp8_lost" if other.fp8_flops and not one.fp8_flops else ""
        fp8 = _text(gained, lang) if gained else ""
        lines = [_text(f"replaces_serving_{serving}", lang, fp8=fp8, **fields), _text(f"replaces_training_{training}", lang, **fields)]
        told[lang] = [*(reversed(lines) if about_training else lines), *stack_lines(cards, lang), *new_cuda_lines(cards, lang)]
        told[lang] += [*value_lines(cards, catalog, lang), *(card_line(card, catalog, lang) for card in cards)]
    is_ported = one.vendor != other.vendor and bool(stack_lines([one], "en"))  # other software: no plain yes
    return _result(sentence, told, cards, "wrong" if bad else "right" if good and not is_ported else "unknown")


def _same(sentence: str, cards: Sequence[Accelerator], catalog: Catalog) -> CheckResult | None:
    """Whether two cards are one and the same, by all that decides between them."""
    if not _words("same").search(sentence) or _words("same_in").search(sentence):
        return None
    one, other = cards
    near = [abs(mine / theirs - 1.0) < _ALIKE if theirs else mine == theirs for mine, theirs in _decisive(one, other)]
    told = {lang: compared([card.name for card in cards], sentence, catalog, lang) for lang in LANGS}
    return _result(sentence, told, cards, "right" if all(near) else "wrong")


def _sizes_apart(sentence: str, cards: Sequence[Accelerator], catalog: Catalog) -> CheckResult | None:
    """Two memories of one card."""
    one, other = cards
    if one.name.split("-")[0] != other.name.split("-")[0] or one.name.startswith("RTX") or not _words("apart").search(sentence):
        return None
    told = {lang: compared([card.name for card in cards], sentence, catalog, lang) for lang in LANGS}
    is_read = abs(one.memory_bandwidth / other.memory_bandwidth - 1.0) >= _ALIKE
    return _result(sentence, told, cards, ("right" if is_read else "wrong") if _words("bandwidth").search(sentence) else None)


def _decisive(one: Accelerator, other: Accelerator) -> list[tuple[float, float]]:
    return [
        (one.memory_bytes, other.memory_bytes),
        (one.memory_bandwidth, other.memory_bandwidth),
        (best_rate(one), best_rate(other)),
        (one.fp8_flops, other.fp8_flops),
        (one.nvlink_bandwidth, other.nvlink_bandwidth),
    ]


def _value(sentence: str, cards: Sequence[Accelerator], catalog: Catalog) -> CheckResult | None:
    """Which of two cards does more for its price."""
    if not _words("value").search(sentence):
        return None
    told: _Told = {}
    for lang in LANGS:
        lines = compared([card.name for card in cards], sentence, catalog, lang)
        told[lang] = [*value_lines(cards, catalog, lang), *lines]
    claim = "wrong" if _words("always").search(sentence) else "unknown"
    return _result(sentence, told, cards, claim if not _words("choose").search(sentence) else None)


def value_lines(cards: Sequence[Accelerator], catalog: Catalog, lang: Lang) -> list[str]:
    """What two cards cost against what they do, and when which is better value."""
    prices = {card.name: dict(clouds_of((card.name,), catalog)) for card in cards}
    if bare := [name for name, each in prices.items() if not each]:
        return [_text("value_unpriced", lang, card=bare[0])]
    common = [cloud for cloud in prices[cards[0].name] if cloud in prices[cards[1].name]]
    ratio = float(np.median([prices[cards[0].name][cloud] / prices[cards[1].name][cloud] for cloud in common])) if common else math.nan
    ratio = ratio if common else min(prices[cards[0].name].values()) / min(prices[cards[1].name].values())
    fast, slow = cards if ratio >= 1.0 else reversed(cards)
    ratio = max(ratio, 1.0 / ratio)
    compute, bandwidth = best_rate(fast) / best_rate(slow), fast.memory_bandwidth / slow.memory_bandwidth
    fields = {"fast": fast.name, "slow": slow.name}
    shown = {"price": q.money_text(min(prices[fast.name].values())), "other": q.money_text(min(prices[slow.name].values()))}
    where = _text("value_common", lang, count=len(common)) if common else _text("value_least", lang)
    line = _text("value", lang, where=where, ratio=_times(ratio), compute=_times(compute), bandwidth=_times(bandwidth), **fields, **shown)
    pays = {"compute": compute > ratio, "bandwidth": bandwidth > ratio}
    if len(set(pays.values())) == 1:
        return [line, _text("value_fast" if pays["compute"] else "value_slow", lang, **fields)]
    better, worse = ("compute", "bandwidth") if pays["compute"] else ("bandwidth", "compute")
    return [line, _text("value_split", lang, better=_text(f"value_{better}", lang), worse=_text(f"value_{worse}", lang), **fields)]


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= 1.0 else f"{ratio:.2g}"
