"""What the prices and speeds of a post come to: a quote by the month and beside the market, what is
paid now, a fixed price against hours of use, and runs that were measured on different cards.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.messages import topic_text
from rightfit.market.offers import OfferFilter
from rightfit.messages import Lang
from rightfit.records import dataclass
from rightfit.units import HOURS_PER_MONTH, normalize, parse_count, parse_data
from rightfit.workload.amounts import exchange_rate
from rightfit.workload.ask import grammar
from rightfit.workload.ask.named import card_count
from rightfit.workload.ask.names import names_in
from rightfit.workload.ask.numbers import spoken

if TYPE_CHECKING:
    from rightfit.market import Catalog

_text = functools.partial(topic_text, "stories")
#: Letters between a card and what is told of it.
_NEAR = 90
_WEEKS_A_YEAR = 52.0
_PRICE = grammar.shape(
    r"(?P<sign>{money_sign})?\s?(?P<amount>\d[\d,]*(?:\.\d+)?)\s?(?:/|per\s|a\s)\s?{per_card}s?[\s/-]*(?:per\s)?(?:{hour_en}|h)(?![a-z])"
    r"|{price_head}\s(?P<each_sign>{money_sign})?\s?(?P<each>\d[\d,]*(?:\.\d+)?)\s{per_one}"
    r"|(?<![A-Za-z]){listed_at}\s(?P<at_sign>{money_sign})?\s?(?P<at>\d+\.\d{1,2})(?![\d.,]*\d|\s?[A-Za-z%/])"
    r"|{of_one_zh}\s?张(?:卡)?\s*(?P<zh>\d+(?:\.\d+)?)\s*[块元]"
    r"|{paid_hourly}\s*(?P<hourly>\d+(?:\.\d+)?)\s*[块元]"
)
_PAID = grammar.shape(
    r"(?P<sign>{money_sign})?\s?(?P<amount>\d[\d,]*(?:\.\d+)?\s?k?)\s?(?:{each_period})\s?{month}(?![a-z])|{month_of_money}\s*(?P<zh>\d[\d,.]*\s?万?)\s*[块元]"
)
_NOW = grammar.shape(r"(?<![A-Za-z]){bill_word}(?![a-z])|{pays_now}")
_USED = grammar.shape(r"(?<![\w.])(?P<share>\d{1,3})\s?%\s{of_the_day}(?![a-z])")
_LUMP = grammar.shape(
    r"{paid_yearly}\s*(?P<zh>\d[\d,.]*\s?万?)\s*[块元]?|(?P<sign>{money_sign})\s?(?P<en>\d[\d,.]*k?)\s?(?:{each_period})\s?year(?![a-z])"
)
_WEEKLY = grammar.shape(
    r"{of_one_zh}个?周\s*(?:{about_zh}\s*)*(?P<zh>\d+)\s*个?小时|(?<![\w.])(?P<en>\d+)\s?{hour_en}\s(?:{each_period})\s?week(?![a-z])"
)
_SPEED = grammar.shape(
    r"(?<![\w.])(?P<amount>\d[\d,.]*\s?k?)\s?{tokens_a_second}(?![a-z])|(?<![A-Za-z])gets?\s(?P<gets>\d[\d,.]*\s?k?)\son(?![a-z])"
)


@dataclass(frozen=True, slots=True)
class Offer:
    """Cards that a post tells the price of: how many (0: nobody says), and what one costs an
    hour."""

    card: str
    count: int
    hourly_usd: float
    currency: str


def to_usd(amount: float, currency: str) -> float:
    """Money of a currency in dollars."""
    return amount if currency == "usd" else amount / exchange_rate(currency).units_per_usd


def _cards(text: str) -> list[tuple[int, int, str, int]]:
    """(Where it begins, where it ends, the card, how many) for each card of a text."""
    found = []
    for name in names_in(text):
        if name.kind != "gpu" or name.value == "none" or not facts.match_accelerators(name.value):
            continue
        counted = grammar.COUNT_BEFORE.search(text[: name.start])
        found.append((name.start, name.end, name.value, int(card_count(counted["count"])) if counted else 0))
    return found


def _card_of(cards: Sequence[tuple[int, int, str, int]], at: int, *, behind: int = 0) -> tuple[str, int]:
    """The card that something is told of: the last one before it, else one right behind it."""
    after = next(((name, count) for start, _, name, count in cards if behind and 0 <= start - behind <= 8), None)
    if after is not None:
        return after
    return next(((name, count) for _, end, name, count in reversed(cards) if 0 <= at - end <= _NEAR), ("", 0))


def offers_told(text: str, currency: str) -> list[Offer]:
    """What cards cost an hour, as a post tells it."""
    cards, found = _cards(text), list[Offer]()
    for match in _PRICE.finditer(text):
        amount = next(float(match[name].replace(",", "")) for name in ("amount", "each", "at", "zh", "hourly") if match[name])
        own = "cny" if match["zh"] or match["hourly"] else currency
        card, count = _card_of(cards, match.start())
        if card and not any(one.card == card and one.count >= count for one in found):
            found.append(Offer(card, count, to_usd(amount, own), own))
    return found


def price_lines(sentence: str, wishes: Mapping[str, Any], catalog: Catalog, lang: Lang) -> list[str]:
    """What the prices and speeds of a post come to; nothing of one that tells none."""
    text = spoken(normalize(sentence))[0]
    currency = "eur" if "€" in text else "cny" if re.search("[一-鿿]", text) and "$" not in text else "usd"
    offers = offers_told(text, currency)
    told = [*_quoted(offers, text, catalog, lang), *_fixed(offers, text, lang), *_measured(offers, text, wishes, lang)]
    return [_text("prices", lang), *(f"- {one}" for one in told)] if told else []


def _paid_now(text: str, currency: str) -> float:
    """What is paid a month now, in dollars (NaN: nobody says)."""
    for part in grammar.shape(r"[.!?](?=\s|$)|[!?;\n。！？；]").split(text):
        if _NOW.search(part) and (found := _PAID.search(part)):
            number = found["amount"] or found["zh"]
            return float(to_usd(parse_count(number.replace(" ", "")), "cny" if found["zh"] else currency))
    return math.nan


def _quoted(offers: Sequence[Offer], text: str, catalog: Catalog, lang: Lang) -> Iterator[str]:
    paid, months = _paid_now(text, offers[0].currency if offers else "usd"), list[float]()
    for one in offers:
        market = _market(one.card, catalog)
        if not market.size:
            continue
        count, money = max(one.count, 1), functools.partial(q.money_text, currency=one.currency)
        hour = one.hourly_usd * count
        months.append(hour * HOURS_PER_MONTH)
        place = (
            "below" if one.hourly_usd < np.quantile(market, 0.25) else "above" if one.hourly_usd > np.quantile(market, 0.75) else "within"
        )
        fields = {"count": count, "card": one.card, "each": money(one.hourly_usd), "hour": money(hour), "month": money(months[-1])}
        prices = {"low": money(float(market.min())), "mid": money(float(np.median(market)))}
        yield _text("quote", lang, **fields, **prices, place=_text(place, lang))
    if math.isfinite(paid) and len(months) == 1 and offers[0].count:
        money = functools.partial(q.money_text, currency=offers[0].currency)
        key = "quote_saves" if months[0] < paid else "quote_dearer"
        yield _text(key, lang, paid=money(paid), month=money(months[0]), share=q.percent_text(abs(1.0 - months[0] / paid)))
        if used := _USED.search(text):
            yield _text("quote_used", lang, share=used["share"], hour=money(months[0] / HOURS_PER_MONTH / (float(used["share"]) / 100.0)))
        yield _text("quote_check", lang)
    elif math.isfinite(paid):
        yield _text("paid", lang, paid=q.money_text(paid, offers[0].currency if offers else "usd"))
    if len(offers) == 2 and all(one.count == offers[0].count and one.count for one in offers) and offers[0].card != offers[1].card:
        dear, cheap = sorted(offers, key=lambda one: -one.hourly_usd)
        speed = _flops(dear.card) / _flops(cheap.card)
        price = dear.hourly_usd / cheap.hourly_usd
        better = dear if speed > price else cheap
        yield _text(
            "quote_between", lang, dear=dear.card, cheap=cheap.card, price=q.plain(price, 2), speed=q.plain(speed, 2), better=better.card
        )


def _flops(card: str) -> float:
    """The 16-bit compute of the fastest card of a name."""
    return max(facts.accelerators()[name].bf16_flops for name in facts.match_accelerators(card))


def _market(card: str, catalog: Catalog) -> Any:
    """The least that one such card costs an hour on demand, at each cloud that rents it."""
    try:
        offers = catalog.offers(OfferFilter(gpus=tuple(facts.match_accelerators(card)), purchases=("on-demand",)))
    except RightfitError:
        return np.empty(0)
    count = offers.servers.num_accelerators[offers.server_index]
    each = offers.price_usd_per_h / np.where(count > 0, count, np.nan)
    least: dict[str, float] = {}
    for at in np.flatnonzero(np.isfinite(each) & (each > 0.0)).tolist():
        cloud = str(offers.servers.provider[offers.server_index[at]])
        least[cloud] = min(float(each[at]), least.get(cloud, math.inf))
    return np.array(sorted(least.values()))


def _fixed(offers: Sequence[Offer], text: str, lang: Lang) -> Iterator[str]:
    """A price of a year against so many hours of each week at a price of an hour."""
    lump, weekly = _LUMP.search(text), _WEEKLY.search(text)
    if lump is None or weekly is None or not offers:
        return
    one, hours = offers[-1], float(weekly["zh"] or weekly["en"]) * _WEEKS_A_YEAR
    year = to_usd(parse_count((lump["zh"] or lump["en"]).replace(" ", "").rstrip(".,")), one.currency)
    even = year / one.hourly_usd
    money = functools.partial(q.money_text, currency=one.currency)
    yield _text(
        "fixed_dearer" if hours < even else "fixed_cheaper",
        lang,
        hours=q.plain(hours),
        each=money(one.hourly_usd),
        used=money(hours * one.hourly_usd),
        year=money(year),
        even=q.plain(even),
        week=q.plain(even / _WEEKS_A_YEAR),
    )


def _measured(offers: Sequence[Offer], text: str, wishes: Mapping[str, Any], lang: Lang) -> Iterator[str]:
    """How long the data take at the speeds that are told of cards, and what that costs."""
    try:
        tokens = float(parse_data(str(wishes.get("data", ""))).tokens or 0.0)
    except RightfitError:
        return
    cards, runs = _cards(text), list[tuple[float, str]]()
    for match in _SPEED.finditer(text):
        card, count = _card_of(cards, match.start(), behind=match.end() if match["gets"] else 0)
        offer = next((one for one in offers if one.card == card), None)
        if not (tokens and offer and count):
            continue
        hours = tokens / parse_count((match["amount"] or match["gets"]).replace(" ", "")) / 3600.0
        cost = hours * count * offer.hourly_usd
        fields = {"count": count, "card": card, "time": q.duration_text(hours * 3600.0, lang), "cost": q.money_text(cost, offer.currency)}
        runs.append((cost, _text("measured", lang, **fields)))
    if len(runs) > 1:
        yield from (line for _, line in sorted(runs))
