"""Owning a server: hand-computed years, break-even and payback, and their laws."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightfit.physics import money
from rightfit.physics.money import Ownership

NUMBERS = {
    "capex_usd": 100_000.0,
    "extra_capex_share": 0.1,
    "idle_w": 1000.0,
    "full_w": 5000.0,
    "pue": 1.5,
    "electricity_usd_per_kwh": 0.1,
    "space_usd_per_kw_month": 100.0,
    "maintenance_share_per_year": 0.05,
    "staff_usd_per_year": 100_000.0,
    "servers_per_administrator": 10.0,
    "years": 4.0,
    "residual_share": 0.2,
    "capital_rate": 0.05,
}


def own(**changes: float) -> Ownership:
    return Ownership(**{name: np.array([value]) for name, value in {**NUMBERS, **changes}.items()})


def test_a_year_by_hand() -> None:
    cost = money.yearly_cost(own())
    assert cost.purchase_usd[0] == pytest.approx(110_000 * 0.8 / 4)  # 22,000
    assert cost.interest_usd[0] == pytest.approx(110_000 * 1.2 / 2 * 0.05)  # 3,300
    assert cost.space_usd[0] == pytest.approx(5 * 100 * 12)  # 6,000
    assert cost.maintenance_usd[0] == pytest.approx(5_500)
    assert cost.staff_usd[0] == pytest.approx(10_000)
    assert cost.idle_power_usd[0] == pytest.approx(1 * 1.5 * 0.1 * 8760)  # 1,314
    assert cost.power_usd_per_busy_h[0] == pytest.approx(4 * 1.5 * 0.1)  # 0.60 an hour
    assert cost.fixed_usd[0] == pytest.approx(48_114)
    assert money.usd_per_busy_h(cost, utilisation=np.array([0.5]))[0] == pytest.approx((48_114 + 0.6 * 4380) / 4380)


def test_break_even_by_hand_is_where_both_ways_cost_the_same() -> None:
    cost = money.yearly_cost(own())
    rent = np.array([10.6])
    share = money.break_even_utilisation(cost, rent_usd_per_h=rent)
    assert share[0] == pytest.approx(48_114 / 87_600)
    assert cost.total_usd(share)[0] == pytest.approx(10.6 * 8760 * share[0])


def test_rent_below_the_price_of_power_never_breaks_even() -> None:
    cost = money.yearly_cost(own())
    assert np.isinf(money.break_even_utilisation(cost, rent_usd_per_h=np.array([0.6, 0.1]))).all()


def test_payback_by_hand() -> None:
    cost = money.yearly_cost(own())
    half = np.array([0.5])
    running = 48_114 - 22_000 + 0.6 * 4380
    years = money.payback_years(own(), cost, rent_usd_per_h=np.array([20.0]), utilisation=half)
    assert years[0] == pytest.approx(110_000 / (20 * 4380 - running))
    assert np.isinf(money.payback_years(own(), cost, rent_usd_per_h=np.array([1.0]), utilisation=half))[0]


def test_a_job_is_its_share_of_the_year() -> None:
    cost = money.yearly_cost(own())
    year = money.job_usd(cost, busy_h=np.array([8760 * 0.5]), utilisation=np.array([0.5]))
    assert year[0] == pytest.approx(cost.total_usd(np.array([0.5]))[0])


@given(st.floats(1.0, 100.0), st.floats(0.05, 1.0))
def test_owning_is_cheaper_exactly_above_the_break_even(rent: float, utilisation: float) -> None:
    cost = money.yearly_cost(own())
    share = money.break_even_utilisation(cost, rent_usd_per_h=np.array([rent]))[0]
    own_h = money.usd_per_busy_h(cost, utilisation=np.array([utilisation]))[0]
    if abs(share - utilisation) > 1e-9:
        assert (own_h < rent) == (utilisation > share)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Ownership)])
def test_every_price_makes_owning_dearer_and_every_merit_cheaper(name: str) -> None:
    better = name in ("years", "servers_per_administrator", "residual_share")
    before, after = (money.yearly_cost(own(**{name: NUMBERS[name] * factor})).total_usd(np.array([0.5]))[0] for factor in (1.0, 1.1))
    assert (after < before) == better
