"""Exchange rates: dated, with source, and a round trip."""

from __future__ import annotations

import pytest

from rightfit.errors import UnknownNameError
from rightfit.units import Money
from rightfit.workload import money


def test_known_rates() -> None:
    assert money.to_usd(Money(720.0, "cny")) == pytest.approx(100.0)
    assert money.to_usd(Money(200.0, "usd")) == 200.0
    assert money.from_usd(100.0, "cny") == pytest.approx(720.0)


def test_every_rate_has_a_source_and_foreign_ones_a_date() -> None:
    for rate in money.exchange_rates().values():
        assert rate.source
        assert rate.as_of or rate.currency == "usd"


def test_unknown_currency() -> None:
    with pytest.raises(UnknownNameError, match="known: usd, cny, eur"):
        money.exchange_rate("gbp")
