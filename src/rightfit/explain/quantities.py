"""Numbers with units as a reader of each language expects them.

Memory of cards and hosts is in GiB (an "80 GB" card has 80 GiB), data and disks in GB (1e9 bytes),
as vendors print them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.explain.messages import join, label, say, say_or
from rightfit.messages import Lang
from rightfit.records import dataclass
from rightfit.units import GIB, currency_sign
from rightfit.workload.amounts import exchange_rate, from_usd

if TYPE_CHECKING:
    from rightfit.search.answer import Option

_WIDTHS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_COUNTS_EN = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
_COUNTS_ZH = ((1e12, "万亿"), (1e8, "亿"), (1e4, "万"))


def plain(value: float, digits: int = 3) -> str:
    """`digits` significant digits, thousands grouped, no trailing zeros: 1234.5 -> 1,234;
    0.04567 -> 0.0457."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "∞" if value > 0 else "-" if math.isnan(value) else "-∞"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def memory_text(num_bytes: float) -> str:
    """Memory of a card or host in GiB (MiB below 0.1 GiB)."""
    gib = num_bytes / GIB
    return f"{plain(gib)} GiB" if gib >= 0.1 or gib == 0 else f"{plain(gib * 1024)} MiB"


def data_text(num_bytes: float) -> str:
    """Data, disk and checkpoint sizes in decimal units."""
    for size, unit in _WIDTHS:
        if num_bytes >= size:
            return f"{plain(num_bytes / size)} {unit}"
    return f"{plain(num_bytes)} B"


def bandwidth_text(bytes_per_s: float) -> str:
    """A network rate as vendors write it: 100 Gbps."""
    return f"{plain(bytes_per_s * 8 / 1e9)} Gbps"


def count_text(value: float, lang: Lang) -> str:
    """A large count: 50 M in English, 5,000 万 in Chinese."""
    for size, unit in _COUNTS_ZH if lang == "zh" else _COUNTS_EN:
        if value >= size:
            return f"{plain(value / size, 4)} {unit}"
    return plain(value, 6)


def counted(noun: str, count: float, lang: Lang) -> str:
    """A count with its noun: "1 offer", "12,431 offers"; Chinese has one form
    with its measure word."""
    number = f"{count:,.0f}"
    if lang == "zh":
        return say(f"quantities.noun_{noun}", "zh", count=number)
    singular, _, plural = say(f"quantities.noun_{noun}", "en", count=number).partition("|")
    return singular if count == 1 or not plural else plural


def percent_text(fraction: float, digits: int = 2) -> str:
    """0.0523 -> 5.2%; what is not zero but under a thousandth is "< 0.1%"."""
    if 0 < abs(fraction) < 1e-3:
        return "< 0.1%"
    return f"{plain(100 * fraction, digits if abs(fraction) < 1 else 3)}%"


def _two_units(value: float, small_per_big: int, big: str, small: str, lang: Lang) -> str:
    whole = math.floor(value + 1e-9)
    rest = round((value - whole) * small_per_big)
    if rest == small_per_big:
        whole, rest = whole + 1, 0
    first = say(f"quantities.{big}", lang, value=whole)
    gap = " " if first and (lang == "en" or rest) else ""
    return first if rest == 0 else f"{first}{gap}{say(f'quantities.{small}', lang, value=rest)}"


def distinct_durations(first: float, second: float, lang: Lang) -> tuple[str, str]:
    """Two times with as many digits as tell them apart: 30 ms and 30.04 ms."""
    texts = duration_text(first, lang), duration_text(second, lang)
    for digits in range(4, 8):
        if texts[0] != texts[1] or first == second:
            break
        unit, scale = ("ms", 1e3) if min(first, second) < 1 else ("s", 1.0)
        texts = tuple(say(f"quantities.{unit}", lang, value=f"{value * scale:.{digits}g}") for value in (first, second))  # type: ignore[assignment]
    return texts


def duration_text(seconds: float, lang: Lang) -> str:
    """A time: 320 ms, 12.5 s, 42 min, 5 h 12 min, 3.2 days."""
    if not math.isfinite(seconds):
        return plain(seconds)
    if seconds < 0.9995:
        return say("quantities.ms", lang, value=plain(seconds * 1e3))
    if seconds < 90:
        return say("quantities.s", lang, value=plain(seconds))
    if seconds < 3570:
        return say("quantities.min", lang, value=plain(seconds / 60, 2))
    if seconds < 3600 * 48:
        return _two_units(seconds / 3600, 60, "h", "min", lang)
    return say("quantities.days", lang, value=plain(seconds / 86400))


def money_text(usd: float, currency: str = "usd", *, lang: Lang = "en") -> str:
    """A price: $12.30, or ¥88.60 when the reader asked for yuan, SEK 118 for kronor (at the dated
    rate of facts/data/currencies.csv)."""
    if not math.isfinite(usd):
        return plain(usd)
    value, sign = from_usd(usd, currency), currency_sign(currency)
    size = abs(value)
    digits = f"{size:,.0f}" if size >= 1000 else f"{size:.2f}" if size >= 1 or size == 0 else plain(size, 3)
    return f"-{sign}{digits}" if value < 0 else f"{sign}{digits}"


CENT = 0.01  # USD


def cost_text(usd: float, lang: Lang, currency: str = "usd") -> str:
    """What something costs in all: "under 1 cent" where it is less, of another currency than
    dollars under a hundredth of it."""
    least_usd = CENT if currency == "usd" else CENT / exchange_rate(currency).units_per_usd
    if not 0 < usd < least_usd:
        return money_text(usd, currency)
    if currency == "usd":
        return say("quantities.under_a_cent", lang)
    return say("quantities.under", lang, least=money_text(least_usd, currency))


def cost_texts(mid: float, low: float, high: float, lang: Lang, *, currency: str) -> tuple[str, str, str]:
    """A cost and the ends of its interval."""
    return cost_text(mid, lang, currency), money_text(low, currency), money_text(high, currency)


def probability_text(probability: float, lang: Lang) -> str:
    """A probability without false certainty: "over 99.9%" rather than 100 %."""
    if probability > 0.999:
        return say("quantities.almost_sure", lang)
    return say("quantities.almost_never", lang) if probability < 0.001 else percent_text(probability, 3)


def purchase_text(purchase: str, lang: Lang) -> str:
    """The name of a way to pay, or of several with commas between them."""
    names = [say_or(f"quantities.purchase_{name.replace('-', '_')}", lang, name) for name in purchase.split(", ")]
    return join(names, lang)


def provider_text(provider: str, lang: Lang) -> str:
    """The name of a cloud as its customers know it, or of several with commas between them."""
    return join([say_or(f"quantities.provider_{name}", lang, name) for name in provider.split(", ")], lang)


def region_text(region: str, lang: Lang) -> str:
    """A region's code; "any" is how a source says that it names none."""
    return say("quantities.any_region", lang) if region in ("any", "global") else region


def place_text(option: Option, lang: Lang) -> str:
    """The region of an option; that it may be any of the seller's, where its one list names no
    place of the server."""
    region = region_text(option.region, lang)
    return say("quantities.any_of_its", lang, region=region) if option.facts.get("is_any_place") else region


def method_text(method: str, lang: Lang) -> str:
    """The name of a training method."""
    return say_or(f"quantities.method_{method}", lang, method)


# ---- What a server is and what its rent is, the same for every kind of plan.


def server_text(option: Option, lang: Lang) -> str:
    """What a server is: its vCPUs and RAM, and its cards."""
    fields = {"vcpus": plain(option.vcpus), "memory": memory_text(option.memory_bytes)}
    if not option.accelerator.name:
        return say("host.cores", lang, **fields)
    cards = say("choice.cards_short", lang, count=option.accelerator.count_per_node, name=option.accelerator.name)
    return say("host.cores_and_cards", lang, **fields, cards=cards)


def cards_text(option: Option, lang: Lang) -> str:
    """The cards of a server; of one without, what it is."""
    if not option.accelerator.name:
        return server_text(option, lang)
    return say("choice.cards_short", lang, count=option.accelerator.count_per_node, name=option.accelerator.name)


def server_headline(option: Option, lang: Lang, *, currency: str) -> str:
    """What to rent, where, how to pay, and its price per hour."""
    return rent_text(option, server_text(option, lang), lang, currency=currency)


def rent_text(option: Option, cards: str, lang: Lang, *, currency: str) -> str:
    """The same for every kind of plan: how it words what a server has is given. A server without
    price is named and no more."""
    key = "choice.rent_unpriced" if not is_priced(option) else "choice.own" if option.purchase == "owned" else "choice.rent"
    doubted = doubted_price_text(option, lang, currency=currency)
    own_place = "" if option.region == option.provider else say("choice.own_place", lang, region=option.region)
    text = say(
        key,
        lang,
        nodes="" if option.nodes == 1 else say("choice.nodes_prefix", lang, count=option.nodes),
        instance=option.instance_type,
        provider=provider_text(option.provider, lang),
        **({"place": own_place} if key == "choice.own" else {"region": place_text(option, lang)}),
        purchase=purchase_text(option.purchase, lang),
        cards=cards,
        price=money_text(option.cost.hourly_usd, currency),
        dated="" if is_old(option) or option.price_as_of in doubted else say("choice.rent_dated", lang, as_of=option.price_as_of),
    )
    told = join_sentences(text, doubted, lang)
    return join_sentences(told, otherwise_text(option, lang, currency=currency), lang)


def otherwise_text(option: Option, lang: Lang, *, currency: str) -> str:
    """What the servers of a spot option cost where nobody takes them away; empty for others."""
    other = (option.facts.get("price") or {}).get("otherwise")
    if not other or not is_priced(option):
        return ""
    key = "choice.otherwise_month" if other["is_month"] else "choice.otherwise"
    return say(key, lang, purchase=purchase_text(other["purchase"], lang), total=money_text(other["total_usd"], currency))


def is_old(option: Option) -> bool:
    """Whether the price of an option may have moved since its date: then a sentence says so."""
    return not option.facts.get("is_estimate") and bool(option.facts.get("price_is_old") or option.facts.get("is_stale"))


def join_sentences(first: str, second: str, lang: Lang) -> str:
    """Two sentences as one line."""
    return f"{first}{'' if lang == 'zh' or not second else ' '}{second}"


#: A price that differs by less from the listed one is the listed one.
LEAST_DIFFERENCE = 0.01


def doubted_price_text(option: Option, lang: Lang, *, currency: str) -> str:
    """What was listed and when, where that is not what to expect, and between what the price is
    likely to lie; that nobody asks a price. Empty for a price that holds."""
    if not is_priced(option) or not option.purchase:
        return ""
    if option.facts.get("is_estimate"):
        return say(f"choice.price_{option.facts.get('price_kind') or 'estimate'}", lang)
    price = option.facts.get("price")
    if not price:
        return ""
    names = {"listed": "listed_usd_per_h", "low": "low80_usd_per_h", "high": "high80_usd_per_h"}
    texts = {name: money_text(price[key] * option.nodes, currency) for name, key in names.items()}
    key = "choice.price_beyond" if option.facts.get("price_is_beyond") else "choice.price_listed"
    moved = abs(price["expected_usd_per_h"] / price["listed_usd_per_h"] - 1.0) > LEAST_DIFFERENCE
    return say(key, lang, as_of=option.price_as_of, **texts) if moved or option.facts.get("price_is_old") else ""


def is_priced(option: Option) -> bool:
    """Whether a price of the server is known: what it costs is told only then."""
    return math.isfinite(option.cost.hourly_usd)


def priced_text(option: Option, lang: Lang) -> str:
    """Date and source of the price."""
    return say("choice.priced", lang, as_of=option.price_as_of, source=option.price_source) if is_priced(option) else ""


# ---- What a server or a price of a list must be read with.

_FLAGS = ("is_estimate", "is_stale", "is_pseudo_region")


def price_remark(record: Mapping[str, Any], lang: Lang) -> str:
    """The remarks on one row of a `PriceList`, one after the other; empty where it is a
    plain price of today."""
    newer = record.get("superseded_by")
    found = [label("remark", "superseded_by", lang, name=newer)] if newer else []
    return ", ".join([*found, *(label("remark", flag, lang) for flag in _FLAGS if record.get(flag))])


def server_status(record: Mapping[str, Any], lang: Lang) -> str:
    """The status of one row of a `ServerList`; of a former name the name under which its
    seller lists it now."""
    from rightfit.market.offers import SUPERSEDED_BY  # lists of a command line that starts load no catalog

    reason = str(record["not_recommended"])
    if not reason.startswith(SUPERSEDED_BY):
        return str(record["status"])
    return label("remark", "superseded_by", lang, name=reason.removeprefix(SUPERSEDED_BY))


# ---- A table as data: which columns of which records, and how each cell reads. Faces draw it.


def as_text(value: Any) -> str:
    """Default form of a cell."""
    return "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `key` finds the value in a record and the heading in the labels; `show` turns
    the value into text.

    `drop` orders what is left out when the table is too wide: 0 stays, the highest goes first. A
    `flexible` column may be cut short.
    """

    key: str
    show: Callable[[Any], str] = as_text
    right: bool = False
    drop: int = 0
    flexible: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Records (raw values by key) and the columns to show of them."""

    columns: Sequence[Column]
    records: Sequence[Mapping[str, Any]]
    title: str = ""
