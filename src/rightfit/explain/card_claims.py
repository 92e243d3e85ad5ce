"""What people state of a card: its memory, bandwidth, links, power, peak rates, architecture and
features ("the NVLink of the A800 is 600 GB/s"), held against the table of cards."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rightfit import facts
from rightfit.explain import claim_words, claims
from rightfit.explain.statement_parts import Part, Reader, Told, both, figures, judged, word
from rightfit.facts.expressions import Expression, expression
from rightfit.messages import LANGS

if TYPE_CHECKING:
    from rightfit.facts.records import Accelerator
    from rightfit.market import Catalog

#: Figures that people round: so far from ours they still state it.
_NEAR, _ABOUT = 0.08, 0.15
_CARD = re.compile(rf"(?:{claim_words.card_pattern().pattern})(?:[ -]?(?:SXM\d?|PCIe|NVL)\b)?", re.IGNORECASE)
_AMOUNT = re.compile(
    r"(?P<number>\d[\d,]*(?:\.\d+)?)\s*(?P<unit>GB/s|TB/s|GiB|GB|G(?![A-Za-z])|[TP]FLOPS?|TFLOP/s|TOPS|W(?![A-Za-z])|瓦)", re.IGNORECASE
)
_UNITS = {"G": "GB", "TFLOP": "TFLOPS", "TFLOP/S": "TFLOPS", "PFLOP": "PFLOPS", "GIB": "GiB", "瓦": "W", "GB/S": "GB/s", "TB/S": "TB/s"}
_DIGITS = {"一": 1, "两": 2, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9, "十": 10}


def card_readers(catalog: Catalog) -> tuple[Reader, ...]:
    """The readers of clauses about cards, in order."""
    return (
        _name_card,
        _variants,
        _figures,
        _architecture,
        _newest,
        functools.partial(_features, catalog),
        functools.partial(_suited, catalog),
        _ratio,
    )


@functools.cache
def _example() -> Expression:
    """What is named as an example: "(such as an A6000)"."""
    return expression(figures()["words"]["example"])


def cards_in(clause: str) -> list[tuple[str, ...]]:
    """The cards that a clause names, each with all its variants."""
    found = []
    for one in _CARD.finditer(clause):
        names = facts.match_accelerators(one[0]) or facts.match_accelerators(re.sub(r"[ -]?(?:SXM\d?|PCIe|NVL)$", "", one[0], flags=re.I))
        found += [names] if names else []
    return found


def _name_card(clause: str, told: Told) -> Sequence[Part]:
    if named := cards_in(bare := _example().sub(" ", clause)):
        told.spoken = "/".join(spoken for spoken, _ in claim_words.cards_of(bare))
        told.cards = told.cards if told.cards and word("times").search(clause) else named[0]
    return ()


def _figures(clause: str, told: Told) -> Sequence[Part]:
    clause = _SIZES.sub(" ", clause)
    if len(named := cards_in(_example().sub(" ", clause))) > 1:
        return ()  # of which of them an amount is, nobody says
    cards = named[0] if named else told.cards
    parts = []
    for amount in _AMOUNT.finditer(clause) if cards else ():
        if word("of_host").match(clause, amount.end()):
            continue
        unit = _UNITS.get(amount["unit"].upper(), amount["unit"].upper())
        if (column := _column(clause, unit, amount.start())) is not None:
            stated = float(amount["number"].replace(",", "")) * _size(column, unit)
            parts.append(_judge(clause, column, stated, cards, _bound(clause, amount)))
            told.column = column
    return parts


#: Sizes of one card in brackets: "V100 (16/32GB)".
_SIZES = re.compile(
    rf"(?P<card>{_CARD.pattern})\s*\(\s*(?P<sizes>\d+\s*(?:GB?|GiB)?(?:\s*[/或、]\s*\d+\s*(?:GB?|GiB)?)+)\s*(?:显存|VRAM|memory)?\s*\)",
    re.IGNORECASE,
)


def _variants(clause: str, told: Told) -> Sequence[Part]:
    """The sizes that a card is said to come in."""
    parts = []
    for found in _SIZES.finditer(clause):
        names = facts.match_accelerators(found["card"])
        had = sorted({facts.accelerators()[name].memory_bytes for name in names})
        stated = [float(one) * 1e9 for one in re.findall(r"\d+", found["sizes"])]
        if had:
            holds = all(any(_is_near(one, size, _NEAR) for size in had) for one in stated)
            shown = " / ".join(f"{size / 2**30:,.4g} GiB" for size in had)
            what = {lang: figures()["columns"]["memory_bytes"][lang] for lang in ("en", "zh")}
            parts.append(judged(found[0], holds, both("card", card=found["card"].strip(), what=what, had=shown)))
    return parts


def _newest(clause: str, told: Told) -> Sequence[Part]:
    """The newest of its maker."""
    if not told.cards or not word("newest").search(clause):
        return ()
    card = facts.accelerators()[told.cards[-1]]
    newer = [
        one
        for one in facts.accelerators().values()
        if one.vendor == card.vendor and one.memory_bandwidth > card.memory_bandwidth and one.release_year > card.release_year
    ]
    best = max(newer, key=lambda one: (one.release_year, one.memory_bandwidth), default=card)
    return [
        judged(clause, not newer, both("newest", card=card.name, year=card.release_year, newer=best.name, newer_year=best.release_year))
    ]


def _bound(clause: str, amount: re.Match[str]) -> str:
    """Whether an amount is the least, the most, or just so ("")."""
    before, after = clause[: amount.start()], clause[amount.end() :]
    for name in ("least", "most"):
        if re.search(
            rf"(?:{figures()['words'][f'{name}_before']})\s*(?:有|是|为|要|需|需要|达|of|about|约)?\s*$", before, re.IGNORECASE
        ) or re.match(rf"\s*(?:{figures()['words'][f'{name}_after']})", after, re.IGNORECASE):
            return name
    return ""


def _column(clause: str, unit: str, at: int) -> str | None:
    """The column that an amount with this unit states: the nearest of those whose words stand in
    the clause; None where none does. Memory needs a verb or a word of it: "a 24 GB A10" names."""
    if word("table").search(clause) or word("weights").search(clause):
        return None
    for name, entry in figures()["columns"].items():
        if unit not in entry["units"]:
            continue
        if name == "memory_bytes" and re.search(r"B\b|参数|模型|训练|微调|推理|[\d.]+\s*x|总共|共|/\s*月", _AMOUNT.sub(" ", clause)):
            return None
        if re.search(entry["words"], clause, re.IGNORECASE) or (
            name == "memory_bytes" and re.search(r"(?:是|=|有|has|is)\s*(?:约|about)?\s*$", clause[:at])
        ):
            return str(name)
    return None


def _size(column: str, unit: str) -> float:
    return float(figures()["columns"][column]["units"][unit])


def _judge(clause: str, column: str, value: float, cards: Sequence[str], bound: str) -> Part:
    records = [facts.accelerators()[name] for name in cards]
    entry = figures()["columns"][column]
    formats = [name for name, words in figures()["formats"].items() if expression(words).search(clause)]
    columns = [column] if column != "flops" else formats or ["bf16_flops", "fp16_flops"]
    what = {
        lang: entry[lang] if column != "flops" else " ".join([*(name.split("_")[0].upper() for name in formats), entry[lang]])
        for lang in ("en", "zh")
    }
    told = {
        record.name: [rate for one in columns if (rate := float(getattr(record, one) or 0.0)) > 0 and math.isfinite(rate)]
        for record in records
    }
    known = {name: rates for name, rates in told.items() if rates}
    if not known:
        return judged(clause, False if column == "nvlink_bandwidth" else None, both("card_none", card=cards[0], what=what))
    near = _ABOUT if word("about").search(clause) else _NEAR
    stated = value * 2 if column == "nvlink_bandwidth" and word("one_way").search(clause) else value
    if bound:
        beyond = [
            name
            for name, rates in known.items()
            if (max(rates) < stated / (1 + near) if bound == "least" else min(rates) > stated * (1 + near))
        ]
        card = beyond[0] if beyond else (min if bound == "least" else max)(known, key=lambda name: max(known[name]))
        return judged(
            clause,
            not beyond,
            both("card", card=card, what=what, had={lang: _shown(column, known[card][0], lang) for lang in ("en", "zh")}),
        )
    shown = next((name for name, rates in known.items() if any(_is_near(stated, rate, near) for rate in rates)), "")
    if not shown and column == "flops" and not formats and (named := _in_a_format(clause, records, stated, near)) is not None:
        return named
    card = shown or next(iter(known))
    had = {lang: _shown(column, known[card][0], lang) for lang in ("en", "zh")}
    if (
        not shown
        and column == "flops"
        and any(_is_near(stated, 2 * rate, near) for rates in known.values() for rate in rates)
        and records[0].structured_sparsity
    ):
        return judged(clause, True if word("sparse").search(clause) else None, both("card_sparse", card=card, what=what, had=had))
    return judged(clause, bool(shown), both("card", card=card, what=what, had=had))


def _in_a_format(clause: str, records: Sequence[Accelerator], stated: float, near: float) -> Part | None:
    """A peak that is told without its format: that of the format which has it."""
    for record in records:
        for name in figures()["formats"]:
            rate = float(getattr(record, name) or 0.0)
            if rate > 0 and math.isfinite(rate) and _is_near(stated, rate, near):
                entry = figures()["columns"]["flops"]
                what = {lang: f"{name.split('_')[0].upper()} {entry[lang]}" for lang in LANGS}
                return judged(
                    clause, True, both("card", card=record.name, what=what, had={lang: _shown("flops", rate, lang) for lang in LANGS})
                )
    return None


def _is_near(one: float, other: float, near: float) -> bool:
    return abs(one / other - 1.0) <= near


def _shown(column: str, value: float, lang: str) -> str:
    if column == "memory_bytes":
        return f"{value / 2**30:,.4g} GiB"
    if column == "tdp_w":
        return f"{value:g} W"
    return f"{value / 1e12:,.4g} TFLOPS" if column == "flops" else f"{value / 1e9:,.4g} GB/s"


def _architecture(clause: str, told: Told) -> Sequence[Part]:
    said = next((name for name, words in figures()["architectures"].items() if expression(words).search(clause)), "")
    if not said or not told.cards:
        return ()
    card = facts.accelerators()[told.cards[-1]]
    is_denied = bool(re.search(r"不是|is not|isn't", clause, re.IGNORECASE))
    return [
        judged(
            clause,
            card.architecture.startswith(said) != is_denied,
            both("architecture", card=card.name, had=card.architecture, year=card.release_year),
        )
    ]


def _features(catalog: Catalog, clause: str, told: Told) -> Sequence[Part]:
    """Every feature of a clause that says what the card supports or lacks."""
    if claims.is_exclusive(clause):
        alone = claims.only_one(clause, catalog)
        return [judged(clause, alone.claim == "right", alone.reason)] if alone else ()
    if not told.cards or not (claim_words.verb("lacks").search(clause) or claim_words.verb("supports").search(clause)):
        return ()
    parts, is_lack = [], False
    for piece in word("conjunction").split(clause) if _AMOUNT.search(clause) else [clause]:  # an amount of a feature is a figure
        if _AMOUNT.search(piece):
            continue
        is_lack = is_lack or bool(claim_words.verb("lacks").search(piece))
        told_of = ((claims.feature_of(told.cards[-1], feature, catalog)) for feature in claims.features_in(piece))
        parts += [judged(clause, found[0] != is_lack, found[2]) for found in told_of if found is not None and found[0] is not None]
    return parts


def _suited(catalog: Catalog, clause: str, told: Told) -> Sequence[Part]:
    """What the card of the sentence is said to suit, or not to suit."""
    if not told.cards or not re.search("适合|适用|suit", clause, re.IGNORECASE):
        return ()
    found = claims.suits(clause if cards_in(clause) else f"{told.spoken} {clause}", catalog)
    return [judged(clause, found.claim == "right", found.reason)] if found else ()


def _ratio(clause: str, told: Told) -> Sequence[Part]:
    """ "three times that of the A100", of the column last spoken about."""
    found, named = word("times").search(clause), cards_in(clause)
    if found is None or not named:
        return ()
    others = named[1] if len(named) > 1 else named[0]
    first = named[0] if len(named) > 1 else told.cards
    column = next((name for name, entry in figures()["columns"].items() if re.search(entry["words"], clause, re.IGNORECASE)), told.column)
    if not first or first == others or not column or re.search("快|慢|便宜|贵|性价比|fast|slow|cheap", clause):
        return ()
    if column == "nvlink_bandwidth":
        return ()
    number = found["times"] or found["en"]
    times = float(_DIGITS[number]) if number in _DIGITS else float(number) if re.fullmatch(r"[\d.]+", number) else math.nan
    most = 1.35 if found["more"] or found["after"] else 1.15
    what = {lang: figures()["columns"][column][lang] for lang in ("en", "zh")}
    ratios = {(one, two): _value(one, column) / _value(two, column) for one in first for two in others if _value(two, column)}
    if not ratios:
        return ()
    (one, two), ratio = min(ratios.items(), key=lambda pair: abs(math.log(max(pair[1], 1e-9) / times)) if times > 0 else 0.0)
    holds = None if math.isnan(times) else 0.87 <= ratio / times <= most
    return [judged(clause, holds, both("ratio", what=what, first=one, second=two, ratio=f"{ratio:.2g}"))]


def _value(name: str, column: str) -> float:
    card = facts.accelerators()[name]
    return max(card.bf16_flops, card.fp16_flops) if column == "flops" else float(getattr(card, column) or 0.0)
