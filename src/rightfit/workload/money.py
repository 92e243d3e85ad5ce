"""Amounts of money in any known currency. Rates come from facts/data/currencies.csv; those of a price book go before them."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping

from rightfit.errors import UnknownNameError
from rightfit.facts.currencies import ExchangeRate, currencies
from rightfit.messages import Message
from rightfit.units import Money

_OWN_RATES: contextvars.ContextVar[Mapping[str, ExchangeRate]] = contextvars.ContextVar("own_rates")


@contextlib.contextmanager
def own_rates(rates: Mapping[str, ExchangeRate]) -> Iterator[None]:
    """Within the block, these rates go before the bundled ones; a rate of a currency that is not known adds it."""
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
        raise UnknownNameError("currency", currency, allowed=Message("names.part_known_words", names=", ".join(rates)))
    return rates[currency]


def to_usd(money: Money) -> float:
    """US dollars of an amount in any known currency."""
    return money.amount / exchange_rate(money.currency).units_per_usd


def from_usd(amount_usd: float, currency: str) -> float:
    """An amount of US dollars in another currency."""
    return amount_usd * exchange_rate(currency).units_per_usd
