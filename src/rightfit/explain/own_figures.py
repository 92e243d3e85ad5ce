"""Questions with figures of the asker's own that arithmetic answers: where two prices break even
and which is less for the hours that are told, what an hourly price comes to over a time, how long
an amount takes at a rate.

Words, units and texts are data (data/own_figures.toml).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.explain import quantities as q
from rightfit.explain.claim_words import cards_of
from rightfit.explain.market_questions import hours_a_day
from rightfit.explain.messages import topic, topic_text, topic_words
from rightfit.explain.yes_or_no import is_question
from rightfit.messages import LANGS, Lang
from rightfit.records import dataclass
from rightfit.units import HOURS_PER_MONTH

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

_Told = dict[Lang, list[str]]

_words = functools.partial(topic_words, "own_figures")
_text = functools.partial(topic_text, "own_figures")
_HOURS_PER_YEAR = 12.0 * HOURS_PER_MONTH
#: A price without a time is one for a month from here on, below it one for an hour.
_MONTHLY = 100.0
#: Two ways that cost so near the same are one as good as the other.
_NEAR = 0.1
#: A price for longer is no price by the hour.
_DAY = 24.0
#: What is bought costs at least so much.
_LEAST_BOUGHT = 300.0


@dataclass(frozen=True, slots=True)
class Price:
    """A price of the asker's own: the amount, for how many hours, where it stands and how its money
    is written."""

    amount: float
    hours: float
    start: int
    end: int
    sign: str
    money: str

    @property
    def hourly(self) -> float:
        return self.amount / self.hours

    def text(self, amount: float) -> str:
        """An amount in the money of this price."""
        shown = f"{amount:,.0f}" if amount >= 100.0 else f"{amount:,.2f}"
        return f"{self.sign}{shown}{' ' if self.money.isascii() and self.money else ''}{self.money}"


def own_question(sentence: str, _: Catalog) -> CheckResult | None:
    """The answer to such a question; None of any other sentence."""
    if not is_question(sentence):
        return None
    return next((found for reader in (_even, _bought, _takes, _costs) if (found := reader(sentence)) is not None), None)


def _result(sentence: str, told: Mapping[Lang, Sequence[str]], **known: Any) -> CheckResult:
    from rightfit.market.verdicts import CheckResult

    return CheckResult(sentence, "market", True, None, known, (), "\n".join(told["en"]), "\n".join(told["zh"]))


def _number(text: str) -> float:
    numbers = topic("own_figures")["numbers"]
    return float(numbers[text]) if text in numbers else float(text.replace(",", ""))


def _times(multiple: str | None) -> float:
    return float(topic("own_figures")["multiples"].get((multiple or "").casefold(), 1.0))


def _unit_hours(unit: str) -> float:
    """Hours of a unit of time, by the longest beginning that is known."""
    units: Mapping[str, float] = topic("own_figures")["units"]
    start = max((one for one in units if unit.casefold().startswith(one)), key=len)
    return float(units[start])


# ---- Prices.


def prices_in(sentence: str) -> list[Price]:
    """The prices of a sentence with the time that they are for."""
    found = []
    for one in _words("price").finditer(sentence):
        amount, unit, money = (one[name] or one[f"{name}_zh"] or "" for name in ("price", "unit", "money"))
        found.append(Price(_number(amount), _unit_hours(unit), *one.span(), one["sign"] or "", money))
    return found


def _with_bare(sentence: str, found: Sequence[Price]) -> list[Price]:
    """Those prices, with those that stand behind a word for a way to pay and have no time."""
    taken, each = [(one.start, one.end) for one in found], list(found)
    for name in ("committed", "flexible"):
        for way in _words(name).finditer(sentence):
            clause = re.match(r"[^,，;；。]{0,24}", sentence[way.end() :])
            bare = _words("bare_price").search(sentence, way.end(), way.end() + len(clause[0] if clause else ""))
            if bare is None or any(start <= bare.start("price") < end for start, end in taken):
                continue
            amount = _number(bare["price"])
            hours = HOURS_PER_MONTH if amount >= _MONTHLY and name == "committed" else 1.0
            each.append(Price(amount, hours, *bare.span(), bare["sign"] or "", bare["money"] or ""))
            taken.append(bare.span())
            break
    return sorted(each, key=lambda one: one.start)


def _way_of(sentence: str, price: Price, before: int) -> str:
    """Whether a price is of a commitment or can be ended at any time, by the word nearest to it: in
    front of it since the price `before`, else behind it."""

    def last(name: str, text: str) -> int:
        return max((one.start() for one in _words(name).finditer(text)), default=-1)

    front = sentence[before : price.end]
    behind = re.split(r"[,，;；。]|\b(?:vs\.?|versus|or|and|while)\b|还是|而", sentence[price.end :])[0]
    for text in (front, behind):
        at = {name: last(name, text) for name in ("committed", "flexible")}
        if max(at.values()) >= 0:
            return max(at, key=lambda name: at[name])
    return "committed" if price.hours >= HOURS_PER_MONTH else ""


def _even(sentence: str) -> CheckResult | None:
    """Where a commitment breaks even with a price by the hour, and which is less for the hours that
    are told."""
    if not _words("breaks_even").search(sentence):
        return None
    prices = _with_bare(sentence, prices_in(sentence))
    if len(prices) != 2:
        return None
    ways = [_way_of(sentence, one, 0 if at == 0 else prices[at - 1].end) for at, one in enumerate(prices)]
    if sorted(ways) == ["", "committed"]:
        ways = [way or "flexible" for way in ways]
    if sorted(ways) != ["committed", "flexible"]:
        return None
    held = dict(zip(ways, prices, strict=True))
    committed, flexible = held["committed"], held["flexible"]
    if flexible.hours > _DAY:
        return None
    month, hour = committed.hourly * HOURS_PER_MONTH, flexible.hourly
    share = month / (hour * HOURS_PER_MONTH)
    used = _used_hours(sentence)
    shown = flexible if flexible.sign or flexible.money else committed
    told: _Told = {}
    for lang in LANGS:
        fields = {
            "committed": shown.text(committed.hourly),
            "month": shown.text(month),
            "hour": shown.text(hour),
            "share": q.percent_text(share),
            "hours": f"{share * HOURS_PER_MONTH:,.0f}",
        }
        head = [_text("even_never" if share >= 1.0 else "even_hour" if committed.hours == 1.0 else "even", lang, **fields)]
        if used:
            cost = used * hour
            amounts = {
                "used": q.percent_text(used / HOURS_PER_MONTH),
                "own_hours": f"{used:,.0f}",
                "flexible": shown.text(cost),
                "saved": shown.text(abs(cost - month)),
                "year": shown.text(12.0 * abs(cost - month)),
            }
            head.append(_text("even_flexible" if cost <= month else "even_committed", lang, **{**fields, **amounts}))
            head += [_text("even_near", lang)] if cost > month and cost / month - 1.0 < _NEAR else []
        elif share < 1.0:
            head.append(_text("even_rule", lang))
        told[lang] = [*head, _text("even_note", lang)]
    return _result(sentence, told, share=share, hours=share * HOURS_PER_MONTH, used_hours=used)


def _used_hours(sentence: str) -> float:
    """Hours of use a month that a sentence tells: by the month, by the day and the days of a week,
    or as a share; 0 where it tells none."""
    if month := _words("hours_a_month").search(sentence):
        return float(month["hours"] or month["before"])
    if daily := hours_a_day(sentence):
        return daily * _days_a_week(sentence) / 7.0 * HOURS_PER_MONTH / 24.0
    if share := _words("share").search(sentence):
        return float(share["share"]) / 100.0 * HOURS_PER_MONTH
    return 0.0


def _days_a_week(sentence: str) -> float:
    found = _words("days_a_week").search(sentence)
    if found is None:
        return 7.0
    return 5.0 if found["work"] else _number(found["days"] or found["before"])


def _bought(sentence: str) -> CheckResult | None:
    """After how many hours of use something is paid back that could be rented by the hour."""
    if not (_words("bought").search(sentence) and _words("rented").search(sentence) and _words("breaks_even").search(sentence)):
        return None
    prices = [one for one in prices_in(sentence) if one.hours <= _DAY]
    if len(prices) != 1:
        return None
    (rent,) = prices
    rest = sentence[: rent.start] + " " * (rent.end - rent.start) + sentence[rent.end :]
    for spoken, _ in cards_of(rest):
        rest = rest.replace(spoken, " " * len(spoken))
    amounts = [
        _number(one["price"]) * _times(one["multiple"])
        for one in _words("bought_price").finditer(rest)
        if not re.match(r"\s*(?:G|T|x|×|张|块|卡|小时|h|%|台|天|年|W)", rest[one.end() :])
        and not re.search(r"[A-Za-z]$", rest[: one.start()])
    ]
    amounts = [one for one in amounts if one >= _LEAST_BOUGHT]
    if len(amounts) != 1:
        return None
    hours = amounts[0] / rent.hourly
    told_hours = _used_hours(sentence) * 24.0 / HOURS_PER_MONTH
    told: _Told = {}
    for lang in LANGS:
        each = ("，" if lang == "zh" else ", ").join(
            _text("bought_each", lang, time=q.duration_text(hours / daily * 86400.0, lang), daily=f"{daily:.3g}")
            for daily in ((told_hours,) if told_hours else (8.0, 24.0))
        )
        head = _text("bought", lang, hours=f"{hours:,.0f}", price=rent.text(amounts[0]), hour=rent.text(rent.hourly), each=each)
        told[lang] = [head, _text("bought_note", lang)]
    return _result(sentence, told, hours=hours)


# ---- A price over a time.


def _costs(sentence: str) -> CheckResult | None:
    """What prices by the hour come to over the times that are told; of two, which is less."""
    prices = prices_in(sentence)
    if not prices or len(prices) > 2 or max(one.hours for one in prices) > _DAY or not _words("amount_asked").search(sentence):
        return None
    rest = "".join(" " if any(one.start <= at < one.end for one in prices) else letter for at, letter in enumerate(sentence))
    times = [(_number(one["count"]) * _unit_hours(one["unit"]), one) for one in _words("time").finditer(rest)]
    daily = hours_a_day(sentence)
    if daily and len(times) <= 2:  # so many hours a day: over the days that are told, else a month
        days = [hours / 24.0 for hours, one in times if hours >= 24.0]
        times = [(daily * (days[0] if days else _days_a_week(sentence) / 7.0 * HOURS_PER_MONTH / 24.0), None)]  # type: ignore[list-item]
    hours = [one for one, _ in times]
    if len(hours) != len(prices) and len(hours) != 1:
        return None
    hours = hours * len(prices) if len(hours) == 1 else hours
    count = _cards(sentence) if len(prices) == 1 else 1
    each = [one.hourly * time for one, time in zip(prices, hours, strict=True)]
    told: _Told = {lang: [] for lang in LANGS}
    for lang in LANGS:
        for one, time, total in zip(prices, hours, each, strict=True):
            times_text = _text("costs_times", lang, count=count) if count > 1 else ""
            fields = {"price": one.text(one.hourly), "hours": f"{time:,.4g}", "total": one.text(total * count)}
            told[lang].append(_text("costs", lang, times=times_text, **fields))
            if count > 1 and not _words("per_card").search(sentence):
                told[lang].append(_text("costs_whole", lang, price=one.text(one.amount), count=count, total=one.text(total)))
        if len(each) == 2 and each[0] != each[1]:
            low, high = sorted(each)
            better = prices[each.index(low)]
            saved = {"saved": better.text(high - low), "share": q.percent_text(1.0 - low / high)}
            told[lang].append(_text("costs_less", lang, better=sentence[better.start : better.end].strip(), **saved))
        told[lang].append(_text("costs_note", lang))
    return _result(sentence, told, totals=[total * count for total in each])


def _cards(sentence: str) -> int:
    found = _words("cards").search(sentence)
    return int(_number(found["count"] or found["before"])) if found else 1


# ---- An amount at a rate.


def _takes(sentence: str) -> CheckResult | None:
    """How long so many steps, tokens or samples take at a rate, and what that costs at a price."""
    if not (_words("long_asked").search(sentence) or _words("amount_asked").search(sentence)):
        return None
    each, rate = _words("each").search(sentence), _words("rate").search(sentence)
    found = each or rate
    if found is None:
        return None
    noun, seconds = _seconds_each(each) if each else _seconds_of_rate(rate)  # type: ignore[arg-type]
    rest = sentence[: found.start()] + " " * (found.end() - found.start()) + sentence[found.end() :]
    amounts = [(_number(one["count"]) * _times(one["multiple"]), _noun(one["noun"])) for one in _words("amount").finditer(rest)]
    amounts = [(count, name) for count, name in amounts if not noun or name == noun]
    if len(amounts) != 1 or not seconds:
        return None
    ((count, name),) = amounts
    prices = prices_in(sentence)
    total = count * seconds
    told: _Told = {}
    for lang in LANGS:
        called = topic("own_figures")["nouns"][name]["name"][lang]
        fields = {"amount": q.count_text(count, lang), "noun": called, "time": q.duration_text(total, lang)}
        if each:
            each_text = q.duration_text(seconds, lang) if seconds >= 1.0 else f"{seconds * 1e3:g} ms"
            told[lang] = [_text("takes_each", lang, each=each_text, noun_one=called.lstrip("个"), **fields)]
        else:
            told[lang] = [_text("takes", lang, rate=_text("per_s", lang, count=f"{1.0 / seconds:,.4g}"), **fields)]
        told[lang] += [
            _text("takes_cost", lang, price=one.text(one.hourly), total=one.text(one.hourly * total / 3600.0)) for one in prices[:1]
        ]
        told[lang].append(_text("takes_note", lang))
    return _result(sentence, told, seconds=total)


def _noun(spoken: str) -> int:
    nouns = topic("own_figures")["nouns"]
    return next(at for at, one in enumerate(nouns) if re.search(one["words"], spoken, re.IGNORECASE))


def _seconds_each(found: re.Match[str]) -> tuple[int | None, float]:
    unit = (found["unit"] or found["unit_zh"]).casefold()
    scale = 1e-3 if unit in ("ms", "毫秒") else 60.0 if unit.startswith(("min", "分")) else 1.0
    return _noun(found["noun"] or found["noun_zh"]), scale * float(found["count"] or found["count_zh"])


def _seconds_of_rate(found: re.Match[str]) -> tuple[int | None, float]:
    if found["count_tps"]:
        return _noun(found["noun_tps"]), 1.0 / _number(found["count_tps"])
    unit, spoken = (found["unit"] or found["unit_zh"]).casefold(), found["noun"] or found["noun_zh"]
    per = 60.0 if unit.startswith(("min", "分")) else 3600.0 if unit.startswith(("h", "小")) else 1.0
    count = _number(found["count"] or found["count_zh"]) * _times(found["multiple"] or found["multiple_zh"])
    return (_noun(spoken) if spoken else None), (per / count if count else 0.0)
