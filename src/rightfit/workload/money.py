"""Exchange rates, dated and with source, from data/exchange_rates.csv."""

from __future__ import annotations

import csv
import dataclasses
import functools
from collections.abc import Mapping
from importlib import resources

from rightfit.errors import UnknownNameError
from rightfit.units import Money


@dataclasses.dataclass(frozen=True, slots=True)
class ExchangeRate:
    """How many units of `currency` one US dollar buys, from when and where."""

    currency: str
    units_per_usd: float
    as_of: str
    source: str


@functools.cache
def exchange_rates() -> Mapping[str, ExchangeRate]:
    """All known rates by currency."""
    text = resources.files("rightfit.workload").joinpath("data/exchange_rates.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {row["currency"]: ExchangeRate(row["currency"], float(row["units_per_usd"]), row["as_of"], row["source"]) for row in rows}


def exchange_rate(currency: str) -> ExchangeRate:
    """The rate of one currency."""
    rates = exchange_rates()
    if currency not in rates:
        raise UnknownNameError("currency", currency, allowed="known: " + ", ".join(rates))
    return rates[currency]


def to_usd(money: Money) -> float:
    """US dollars of an amount in any known currency."""
    return money.amount / exchange_rate(money.currency).units_per_usd


def from_usd(amount_usd: float, currency: str) -> float:
    """An amount of US dollars in another currency."""
    return amount_usd * exchange_rate(currency).units_per_usd
