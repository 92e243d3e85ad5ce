"""Exchange rates: dated, with source, and a round trip."""

from __future__ import annotations

import re

import pytest

from rightfit import units
from rightfit.errors import UnknownNameError
from rightfit.facts.tables import ExchangeRate
from rightfit.units import Money
from rightfit.workload import Workload, amounts


def test_known_rates() -> None:
    assert amounts.to_usd(Money(720.0, "cny")) == pytest.approx(100.0)
    assert amounts.to_usd(Money(200.0, "usd")) == 200.0
    assert amounts.from_usd(100.0, "cny") == pytest.approx(720.0)


def test_every_rate_has_a_source_and_foreign_ones_a_date() -> None:
    for rate in amounts.exchange_rates().values():
        assert rate.source, f"currencies.csv: {rate.currency} has no source"
        assert rate.en, f"currencies.csv: {rate.currency} has no English name"
        assert rate.zh, f"currencies.csv: {rate.currency} has no Chinese name"
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", rate.as_of) or rate.currency == "usd", f"currencies.csv: {rate.currency} has no whole date"


def test_unknown_currency() -> None:
    with pytest.raises(UnknownNameError, match="known: usd, cny, eur"):
        amounts.exchange_rate("xyz")


def test_every_currency_that_can_be_written_has_a_rate_and_the_other_way_round() -> None:
    written, rates = set(units._CURRENCIES.values()), set(amounts.exchange_rates())
    assert written >= rates, f"units.toml: currencies has no word for {', '.join(sorted(rates - written))} of currencies.csv"
    assert written <= rates, f"currencies.csv has no rate for {', '.join(sorted(written - rates))}, which units.py can read"


@pytest.mark.parametrize(
    ("text", "code", "usd"),
    [("100 GBP", "gbp", 100 / 0.73345), ("£100", "gbp", 100 / 0.73345), ("15912日元", "jpy", 100.0), ("CHF 80.264", "chf", 100.0)],
)
def test_amounts_in_other_currencies(text: str, code: str, usd: float) -> None:
    amount = units.parse_money(text)
    assert amount.currency == code
    assert amounts.to_usd(amount) == pytest.approx(usd)


def test_own_rates_go_first_and_end_with_their_block() -> None:
    mine = {"eur": ExchangeRate("eur", 0.5, "2026-01-01", "mine"), "nzd": ExchangeRate("nzd", 2.0, "2026-01-01", "mine")}
    with amounts.own_rates(mine):
        assert amounts.from_usd(10.0, "eur") == 5.0
        assert amounts.from_usd(10.0, "nzd") == 20.0
        assert Workload(model="7B", currency="NZD").currency == "nzd"
    assert amounts.from_usd(10.0, "eur") == pytest.approx(8.645)
    with pytest.raises(UnknownNameError, match="unknown currency 'NZD'"):
        Workload(model="7B", currency="NZD")


def test_a_budget_names_the_currency_of_the_answer() -> None:
    assert Workload(model="7B", budget="500欧元").currency == "eur"
    assert Workload(model="7B", budget="500元").currency == "cny"
    assert Workload(model="7B").currency == "usd"
