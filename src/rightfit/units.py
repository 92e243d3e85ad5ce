"""Quantities as people write them, to and from plain numbers in base units (bytes, seconds, tokens,
requests per second).

Everything inside rightfit is a plain number; this module is the only place that reads or writes
units. It accepts English and Chinese forms and full-width characters ("50M tokens", "10万条",
"￥500", "1h30m", "1小时30分钟"), and refuses what is ambiguous, with a proposal.
"""

from __future__ import annotations

import math
import re
import tomllib
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rightfit.errors import QuantityError
from rightfit.messages import Message, either
from rightfit.records import dataclass

# What a unit is in base units (bytes, seconds, FLOP, USD), each said once; a test keeps other
# modules from saying it again.
MB, GB, TB = 1e6, 1e9, 1e12
MIB, GIB = 2.0**20, 2.0**30
GBPS = GB / 8  # networks are sold by bits: bytes/s of one Gbit/s
PFLOPS = 1e15
FP32_BYTES, FP64_BYTES = 4.0, 8.0  # of one number
INT32_BYTES, INT64_BYTES = 4.0, 8.0
SECONDS_PER_HOUR = 3600.0
SECONDS_PER_DAY = 86400.0
HOURS_PER_YEAR = 8760.0
MONTHS_PER_YEAR = 12.0
HOURS_PER_MONTH = 730.0  # 8760 / 12, as every provider in the catalog converts monthly prices
SECONDS_PER_MONTH = SECONDS_PER_HOUR * HOURS_PER_MONTH
SECONDS_PER_YEAR = 365 * SECONDS_PER_DAY
WATTS_PER_KW = 1000.0
GRAMS_PER_KG = 1000.0
MILLION = 1e6  # prices of tokens are per million

_WORDS = tomllib.loads(Path(__file__).with_name("data").joinpath("units.toml").read_text(encoding="utf-8"))


def _table(name: str) -> dict[str, Any]:
    return {word: value for value, *words in _WORDS[name] for word in words}


_MULTIPLIERS: dict[str, float] = _table("multipliers")
_SECONDS: dict[str, float] = _table("seconds")
_PERIODS: dict[str, float] = _table("periods")
_CURRENCIES: dict[str, str] = _table("currencies")
_DATA_UNITS, _REQUESTS = _table("data_units"), tuple(_WORDS["requests"])
_BYTES = {
    **dict.fromkeys(("b", "byte", "bytes", "字节"), 1.0),
    **{f"{prefix}{tail}": 1000.0**power for power, prefix in enumerate("kmgtp", start=1) for tail in ("b", "byte", "bytes")},
    **{f"{prefix}{tail}": 1024.0**power for power, prefix in enumerate("kmgtp", start=1) for tail in ("ib", "ibyte", "ibytes")},
}
CURRENCY_SIGNS = {"usd": "$", "cny": "¥", "eur": "€", "gbp": "£", "inr": "₹"}

_NUMBER = re.compile(r"[+-]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+(?:_\d+)*)(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_CHINESE_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}


@dataclass(frozen=True, slots=True)
class Money:
    """An amount in one currency ("usd", "cny", "eur"); `per_month` for a running service."""

    amount: float
    currency: str
    per_month: bool = False


@dataclass(frozen=True, slots=True)
class DataSize:
    """How much data: one of tokens, samples or bytes is set; `unit` is the word for it (tokens,
    images, rows, bytes ...)."""

    unit: str
    tokens: float | None = None
    samples: float | None = None
    bytes: float | None = None


_CURRENCY_CODES = ", ".join(dict.fromkeys(_CURRENCIES.values()))
#: {kind of option: what it accepts, given an example}.
ACCEPTED: Mapping[str, Callable[[str], Message]] = {
    "duration": lambda example: Message("units.accepts_duration", example=example),
    "money": lambda example: Message("units.accepts_money", currencies=_CURRENCY_CODES, example=example),
    "data": lambda example: Message("units.accepts_data", example=example),
    "rate": lambda example: Message("units.accepts_rate", example=example),
}

_COUNT_EXAMPLE = either(("8", "1.28M", "10万"))


def normalize(text: str) -> str:
    """Full-width characters to plain ones, outer and repeated blanks away."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def split_number(text: str, *, example: Message | str) -> tuple[float, str]:
    """The leading number of `text` and the rest, e.g. "1,280 images" -> (1280.0, "images").
    `example` shows what is wanted."""
    plain = normalize(text)
    if not plain:
        raise QuantityError(Message("units.empty_value", example=example))
    if plain.casefold().lstrip("+-") in ("nan", "inf", "infinity"):
        raise QuantityError(Message("units.no_quantity", value=repr(plain), example=example))
    match = _NUMBER.match(plain)
    digits = match.group(0) if match else ""
    if not digits:
        return _split_chinese_number(plain, text=text, example=example)
    number = float(digits.replace(",", "").replace("_", ""))
    rest = plain[len(digits) :].strip()
    if not math.isfinite(number) or rest[:1] in (".", ",", "_"):
        raise QuantityError(Message("units.no_number", value=_shown(text), example=example))
    return number, rest


def parse_count(text: str | float, *, example: Message | str = _COUNT_EXAMPLE) -> float:
    """A pure number with an optional multiplier: "1.28M", "8k", "10万", "1,000"."""
    if isinstance(text, (int, float)):
        return _finite(float(text), shown=repr(text), example=example)
    number, rest = split_number(text, example=example)
    multiplier = _MULTIPLIERS.get(rest.casefold())
    if multiplier is None:
        raise QuantityError(Message("units.no_multiplier", value=_shown(text), word=_shown(rest), example=example))
    return number * multiplier


def parse_duration(text: str) -> float:
    """Seconds of "24h", "300ms", "3d", "1h30m", "1小时30分钟"; a bare number is refused."""
    example = either(("24h", "90min", "3d", "300ms"))
    total, rest = 0.0, normalize(text)
    if not rest:
        raise QuantityError(Message("units.empty_duration", example=example))
    while rest:
        number, rest = split_number(rest, example=example)
        unit, rest = _take_unit(rest)
        if not unit:
            raise QuantityError(Message("units.no_unit", value=_shown(text), example=f"{number:g}h"))
        total += number * _seconds_of(unit, number=number, text=text)
    return total


def parse_bytes(text: str) -> float:
    """Bytes of "10GB" (1e9 each), "10GiB" (2**30 each), "500 MB", "1TB"; a bare
    number is refused."""
    number, unit = split_number(text, example="10GB")
    factor = _bytes_of(unit)
    if factor is None:
        hint = (
            _say(f"{number:g}GB") if not unit else Message("units.no_unit_hint", unit=_shown(unit), known="B, kB, MB, GB, TB, PB, GiB ...")
        )
        raise QuantityError(Message("units.no_bytes", value=_shown(text), problem=hint))
    return number * factor


def parse_money(text: str) -> Money:
    """An amount: "200usd", "$200", "¥500", "500元", "1.5万元", "1500cny/month", "每月500元"; a bare
    number is refused."""
    plain, per_month = _strip_month(normalize(text))
    prefix, body = _currency_prefix(plain)
    number, rest = split_number(body, example=either(("200usd", "1500cny/month")))
    multiplier, suffix = _take_multiplier(rest)
    if "/" in suffix or "per" in suffix.split():
        raise QuantityError(Message("units.no_budget", value=_shown(text), example=f"{number:g}usd/month"))
    currency = _CURRENCIES.get(suffix.casefold()) if suffix else prefix
    if currency is None:
        other = Message("units.no_currency", currency=_shown(suffix), known=_CURRENCY_CODES)
        hint = other if suffix else _say(f"{number:g}usd", f"{number:g}cny")
        raise QuantityError(Message("units.no_money", value=_shown(text), problem=hint))
    return Money(number * multiplier, currency, per_month)


def parse_data(text: str) -> DataSize:
    """An amount of data: "50Mtok", "1.28Mimages", "100k samples", "10GB", "10万条", "2亿 tokens". A
    dataset's name is for the caller."""
    number, rest = split_number(text, example=either(("50Mtok", "100ksamples", "1.28Mimages", "10GB")))
    factor = _bytes_of(rest)
    if factor is not None:
        return DataSize("bytes", bytes=number * factor)
    multiplier, unit = _take_multiplier(rest, units=_DATA_UNITS)
    name = _DATA_UNITS.get(unit.casefold())
    if name is None:
        other = Message("units.no_data_unit", unit=_shown(unit), known="tok, samples, images, rows, GB ...")
        hint = other if unit else _data_hint(number, multiplier)
        raise QuantityError(Message("units.no_data", value=_shown(text), problem=hint))
    if name == "tokens":
        return DataSize(name, tokens=number * multiplier)
    return DataSize(name, samples=number * multiplier)


def parse_rate(text: str) -> float:
    """Requests per second of "10/s", "600/min", "10 qps", "1M requests/day", "10次/秒",
    "每天100万次"; a bare number is refused."""
    plain = normalize(text)
    for word, seconds in _PERIODS.items():
        if word.startswith("每") and plain.startswith(word):
            return _requests(plain[len(word) :], text=text) / seconds
    for word in ("qps", "rps", "req/s"):
        if plain.casefold().endswith(word):
            return _requests(plain[: -len(word)], text=text)
    head, _, period = re.sub(r"\s+per\s+", "/", plain).partition("/")
    if period.strip().casefold() not in _PERIODS:
        number, rest = split_number(plain, example="10/s")
        shown = f"{number:g}{rest}" if rest.casefold() in _MULTIPLIERS else f"{number:g}"
        raise QuantityError(Message("units.no_rate_period", value=_shown(text), example=f"{shown}/s"))
    return _requests(head, text=text) / _PERIODS[period.strip().casefold()]


def format_bytes(size: float) -> str:
    """ "80 GB"."""
    base, names = 1000.0, ("B", "kB", "MB", "GB", "TB", "PB")
    power = 0 if size == 0 else min(len(names) - 1, max(0, int(math.log(abs(size), base) + 1e-12)))
    value = size / base**power
    return f"{value:.0f} {names[power]}" if power == 0 or abs(value) >= 100 or value == int(value) else f"{value:.1f} {names[power]}"


def format_duration(seconds: float) -> str:
    """Two parts at most: "3d 4h", "1h 30min", "45 s", "300 ms"."""
    if not math.isfinite(seconds):
        return "-"
    if abs(seconds) < 1:
        return f"{seconds * 1e3:.3g} ms" if abs(seconds) < 0.9995 else "1 s"
    if abs(seconds) < 60:
        return f"{seconds:.3g} s"
    for limit, big, small, big_name, small_name in (
        (3600, 60, 1, "min", "s"),
        (86400, 3600, 60, "h", "min"),
        (math.inf, 86400, 3600, "d", "h"),
    ):
        total = round(seconds / small) * small
        if total < limit:
            whole, part = divmod(total, big)
            return f"{whole:.0f}{big_name} {part / small:.0f}{small_name}" if part else f"{whole:.0f}{big_name}"
    raise AssertionError("unreachable: the last limit is infinite")


def format_usd(amount: float) -> str:
    """ "$12.30", "$1,234", "$0.0042"."""
    return format_money(amount, "usd")


def currency_sign(currency: str) -> str:
    """What is written before an amount: "$", "¥", "€", else the code and a blank."""
    return CURRENCY_SIGNS.get(currency, currency.upper() + " ")


def currency_code(text: str) -> str:
    """The code that a word or sign of a currency stands for ("€" -> "eur"); the folded text itself
    where it is none we know."""
    folded = normalize(text).casefold()
    return _CURRENCIES.get(folded, folded)


def format_money(amount: float, currency: str) -> str:
    """`amount` of `currency` with as many digits as matter."""
    sign = currency_sign(currency)
    if amount != 0 and abs(amount) < 0.1:
        return f"{sign}{amount:.2g}"
    return f"{sign}{amount:,.0f}" if abs(amount) >= 1000 else f"{sign}{amount:,.2f}"


def format_count(number: float) -> str:
    """ "8.03B", "1.28M", "50k", "950"."""
    for factor, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= factor * 0.9995:
            return f"{number / factor:.3g}{letter}"
    return f"{number:.3g}" if number != int(number) else f"{number:.0f}"


def exact_duration(seconds: float) -> str:
    """A duration that parse_duration reads back to the same number, for files:
    "24h", "300ms", "12.5s"."""
    for unit, factor in (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        number = seconds / factor
        if number == int(number) and number >= 1 and (unit != "d" or number >= 3) and parse_duration(f"{number:.0f}{unit}") == seconds:
            return f"{number:.0f}{unit}"
    return f"{seconds!r}s"


def exact_number(number: float) -> str:
    """A number as short as it can be and still read back the same."""
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)


def _finite(number: float, *, shown: str, example: Message | str) -> float:
    if not math.isfinite(number):
        raise QuantityError(Message("units.no_quantity", value=shown, example=example))
    return number


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _split_chinese_number(plain: str, *, text: str, example: Message | str) -> tuple[float, str]:
    """ "十万条" -> (100000, "条"), "半天" -> (0.5, "天"): one digit and one multiplier,
    as spoken in a wish."""
    if plain.startswith("半"):
        return 0.5, plain[1:].removeprefix("个").strip()
    match = re.match(r"[零一二三四五六七八九两〇]?十?[零一二三四五六七八九]?", plain)
    word = match.group(0) if match else ""
    if not word and plain[:1] in _MULTIPLIERS and not plain[:1].isascii():
        return 1.0, plain
    if not word:
        raise QuantityError(Message("units.no_number_in_it", value=_shown(text), example=example))
    if "十" not in word:
        return float(_CHINESE_DIGITS[word[0]]), plain[1:].strip()
    tens, _, ones = word.partition("十")
    return 10.0 * (_CHINESE_DIGITS[tens] if tens else 1) + (_CHINESE_DIGITS[ones] if ones else 0), plain[len(word) :].strip()


def _take_unit(rest: str) -> tuple[str, str]:
    """The unit word at the start of `rest`, and what follows it."""
    match = re.match(r"[^\d\s.,+-]*", rest)
    unit = match.group(0) if match else ""
    tail = rest[len(unit) :].lstrip(" ,")
    for filler in ("和", "and"):
        tail = tail.removeprefix(filler).lstrip()
    return unit, tail


def _seconds_of(unit: str, *, number: float, text: str) -> float:
    if unit == "M":
        raise QuantityError(Message("units.minutes_or_months", value=_shown(text), minutes=f"{number:g}min", months=f"{number:g}months"))
    seconds = _SECONDS.get(unit.casefold())
    if seconds is None and (many := next((word for word in _MULTIPLIERS if not word.isascii() and unit.startswith(word)), "")):
        return _MULTIPLIERS[many] * _seconds_of(unit.removeprefix(many), number=number, text=text)  # 2 万分钟
    if seconds is None:
        raise QuantityError(Message("units.no_duration", value=_shown(text), unit=_shown(unit)))
    return seconds


def _bytes_of(unit: str) -> float | None:
    """Bytes of one `unit`; None when it is not a unit of bytes. "Mb" and "Gbit" are bits, which
    nobody means here."""
    if re.fullmatch(r"[kKMGTP]b|[kmgtp]bits?", unit) and unit != unit.casefold():
        raise QuantityError(Message("units.bits", unit=_shown(unit), example=f"{unit[0].upper()}B"))
    return _BYTES.get(unit.casefold()) if unit.casefold() != "b" or unit == "B" else None


def _say(*amounts: str) -> Message:
    """What a number may have meant."""
    return Message("units.say", example=either(amounts))


def _data_hint(number: float, multiplier: float) -> Message:
    """What a number without a unit may have meant, fit for a shell; the letter that was written is
    kept. Without one it counts samples, and thousands are no millions of tokens."""
    tokens, size = {1e3: ("k", "k"), 1e6: ("M", "M"), 1e9: ("B", "G"), 1e12: ("T", "T")}.get(multiplier, ("M", "G"))
    if multiplier != 1.0:
        return _say(f"{number:g}{tokens}tok", f"{number:g}{tokens}samples", f"{number:g}{size}B")
    shown = f"{number:.12g}"
    return _say(f"'{shown} samples'", *([f"'{shown} tokens'"] if number >= 1000 else [f"{shown}Mtok", f"{shown}GB"]))


def _take_multiplier(rest: str, *, units: dict[str, str] = _CURRENCIES) -> tuple[float, str]:
    """The longest multiplier at the start of `rest` that leaves a known unit, and the unit."""
    folded = rest.casefold()
    if folded in units:
        return 1.0, rest
    fits = [word for word in _MULTIPLIERS if word and folded.startswith(word)]
    for word in sorted(fits, key=len, reverse=True):
        unit = rest[len(word) :].strip()
        if not unit or unit.casefold() in units:
            return _MULTIPLIERS[word], unit
    return 1.0, rest


def _strip_month(plain: str) -> tuple[str, bool]:
    """Take "/month", "per month", "每月", "一个月" off an amount of money."""
    match = re.search(r"\s*(?:/\s*(?:month|mo|mth|m|月|个月)|\bper month|\ba month|\bmonthly|每个月|每月|一个月)\s*", plain, re.IGNORECASE)
    if not match:
        return plain, False
    return (plain[: match.start()] + plain[match.end() :]).strip(), True


def _currency_prefix(plain: str) -> tuple[str | None, str]:
    """The currency in front of an amount, if any: "$200" -> ("usd", "200")."""
    for sign in sorted(_CURRENCIES, key=len, reverse=True):
        if plain.casefold().startswith(sign):
            return _CURRENCIES[sign], plain[len(sign) :].strip()
    return None, plain


def _requests(head: str, *, text: str) -> float:
    number, rest = split_number(head, example="10/s")
    fits = [word for word in _MULTIPLIERS if rest.casefold().startswith(word) and rest[len(word) :].strip().casefold() in _REQUESTS]
    if not fits:
        raise QuantityError(Message("units.no_rate", value=_shown(text)))
    return number * _MULTIPLIERS[max(fits, key=len)]
