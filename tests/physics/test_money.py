"""Money: billing steps, rent, storage, data transfer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightfit.physics import money

ONE = np.ones(1)


def test_a_short_run_pays_the_minimum_and_steps_are_rounded_up() -> None:
    billed = money.billed_s(np.array([10.0, 61.0, 3600.0, 3601.0]), minimum_s=60 * ONE, increment_s=60 * ONE)
    assert billed.tolist() == [60.0, 120.0, 3600.0, 3660.0]


def test_a_run_that_never_happens_costs_nothing() -> None:
    assert money.billed_s(np.zeros(1), minimum_s=60 * ONE, increment_s=ONE)[0] == 0.0


def test_a_subscription_is_billed_by_whole_terms() -> None:
    month = 730 * 3600.0 * ONE
    run = np.array([2.0, 730.0, 731.0]) * 3600.0
    assert (money.billed_s(run, minimum_s=month, increment_s=month) / month).tolist() == [1.0, 1.0, 2.0]


def test_two_hours_on_a_three_year_reservation_cost_more_than_on_demand() -> None:
    run = np.array([7200.0, 7200.0])
    term = np.array([60.0, 3 * 365 * 86400.0])
    billed = money.billed_s(run, minimum_s=term, increment_s=np.array([1.0, term[1]]))
    usd = money.server_usd(billed, price_usd_per_h=np.array([3.0, 1.2]), nodes=ONE)
    assert usd == pytest.approx([6.0, 31_536.0])


def test_rent_by_hand() -> None:
    assert money.server_usd(np.array([5400.0]), price_usd_per_h=np.array([32.77]), nodes=np.array([4.0]))[0] == pytest.approx(196.62)


def test_storage_of_a_terabyte_for_a_day() -> None:
    usd = money.storage_usd(np.array([1e12]), kept_s=np.array([86400.0]), price_usd_per_gb_month=np.array([0.08]))
    assert usd[0] == pytest.approx(1000 * 0.08 * 24 / 730)


def test_egress_after_the_free_allowance() -> None:
    usd = money.egress_usd(np.array([16e9, 1e9]), price_usd_per_gb=np.array([0.09]), free_bytes=np.array([1e9]))
    assert usd == pytest.approx([1.35, 0.0])


def test_per_million_tokens() -> None:
    assert money.per_million_tokens_usd(np.array([200.0]), tokens=np.array([50e6]))[0] == pytest.approx(4.0)


def test_worst_month_of_short_and_long_runs() -> None:
    worst = money.worst_month_usd(np.array([100.0, 10_000.0]), hourly_usd=np.array([2.0, 2.0]))
    assert worst.tolist() == [100.0, 1460.0]


@given(st.floats(0, 1e7), st.floats(0, 1e6), st.sampled_from([1.0, 60.0, 3600.0, 2.628e6]), st.floats(0, 1e5))
def test_billed_time_never_falls_below_the_run_nor_shrinks_as_it_grows(
    run_s: float, more_s: float, step_s: float, minimum_s: float
) -> None:
    run = np.array([run_s, run_s + more_s])
    billed = money.billed_s(run, minimum_s=minimum_s * ONE, increment_s=step_s * ONE)
    assert billed[0] >= run[0] * (1 - 1e-6)
    assert billed[1] >= billed[0]
