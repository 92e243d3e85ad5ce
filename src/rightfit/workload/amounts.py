"""Amounts of money in any known currency. Rates come from facts/data/currencies.csv; those of a
price book go before them."""

from __future__ import annotations

import contextlib
import contextvars
import re
from collections.abc import Iterator, Mapping

from rightfit.errors import QuantityError, RightfitError, UnknownNameError
from rightfit.facts.tables import ExchangeRate, currencies, says, shape
from rightfit.messages import Message
from rightfit.records import dataclass
from rightfit.units import Money, normalize, parse_bytes, parse_count

_OWN_RATES: contextvars.ContextVar[Mapping[str, ExchangeRate]] = contextvars.ContextVar("own_rates")


@contextlib.contextmanager
def own_rates(rates: Mapping[str, ExchangeRate]) -> Iterator[None]:
    """Within the block, these rates go before the bundled ones; a rate of a currency that is
    not known adds it."""
    token = _OWN_RATES.set({**_OWN_RATES.get({}), **rates})
    try:
        yield
    finally:
        _OWN_RATES.reset(token)


def exchange_rates() -> Mapping[str, ExchangeRate]:
    """All known rates by currency."""
    return {**currencies(), **_OWN_RATES.get({})}


def exchange_rate(currency: str) -> ExchangeRate:
    """The rate of one currency."""
    rates = exchange_rates()
    if currency not in rates:
        raise UnknownNameError("currency", currency, allowed=Message("names.known_words", names=", ".join(rates)))
    return rates[currency]


def to_usd(money: Money) -> float:
    """US dollars of an amount in any known currency."""
    return money.amount / exchange_rate(money.currency).units_per_usd


def from_usd(amount_usd: float, currency: str) -> float:
    """An amount of US dollars in another currency."""
    return amount_usd * exchange_rate(currency).units_per_usd


# ---- Size of a table as people write it: "11Mrows x 28cols", "11M x 28",
# "1100万行x28列", "5GB x 100cols".

EXAMPLE = "11Mrows x 28cols"
_SIDES = re.compile(r"^(?P<first>.+?)\s*(?:[x×*,]|by|和)\s*(?P<second>[^x×*,]+)$", re.IGNORECASE)
_UNIT = r"\s*(?P<rows>{rows})$|\s*(?P<cols>{columns})$"
_NUMBER_START = r"[\d半一二三四五六七八九十百千万两]"
_IS_TABLE = rf"[\s\d\w](?:[x×*]|\bby\b)\s*{_NUMBER_START}" + r"|{rows}\b.*\d.*{columns}|{columns}\b.*\d.*{rows}|行.*列|列.*行"


def is_table(text: str) -> bool:
    """Whether an amount of data is written as rows and columns ("11M x 28"), not as one number with
    a unit ("5k examples", "1,000 rows")."""
    return bool(shape("amounts", _IS_TABLE, ignore_case=True).search(normalize(text)))


@dataclass(frozen=True, slots=True)
class TableSize:
    """Rows and columns of a table; `size_bytes` where its size was given in place of its rows (rows
    then follow from the width of a cell)."""

    rows: float
    cols: float
    size_bytes: float = 0.0


def _side(text: str) -> tuple[str, str]:
    """The number of one side, and "rows", "cols" or "" by its unit."""
    found = shape("amounts", _UNIT, ignore_case=True).search(text)
    if not found:
        return text.strip(), ""
    return text[: found.start()].strip(), "rows" if found["rows"] else "cols"


def _bytes(text: str) -> float:
    if not says("amounts", "byte", text, ignore_case=True) or re.search(r"\d\s*b$", text, re.IGNORECASE):
        return 0.0
    try:
        return float(parse_bytes(text))
    except RightfitError:
        return 0.0


def parse_table_size(text: str, *, cell_bytes: float = 8.0) -> TableSize:
    """Rows and columns of `text`, in either order where their words stand beside them; a size in
    bytes becomes rows of `cell_bytes` a cell [bytes]."""
    cleaned = normalize(text)
    sides = _SIDES.match(cleaned)
    if sides is None:
        raise QuantityError(Message("workload.no_table", value=text[:60], example=EXAMPLE))
    (first, first_kind), (second, second_kind) = _side(sides["first"]), _side(sides["second"])
    if first_kind == "cols" or second_kind == "rows":
        first, first_kind, second, second_kind = second, second_kind, first, first_kind
    if first_kind == "cols" or second_kind == "rows":
        raise QuantityError(Message("workload.no_sides", value=text[:60], example=EXAMPLE))
    size_bytes = _bytes(first)
    cols = parse_count(second)
    rows = size_bytes / (cols * cell_bytes) if size_bytes and cols else parse_count(first)
    if not (rows >= 1 and cols >= 1):
        raise QuantityError(Message("workload.empty_table", value=text[:60]))
    return TableSize(float(rows), float(cols), size_bytes)
