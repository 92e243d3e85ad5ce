"""Capacity of a replica from its grid of loads."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.estimation.figures import normal_score
from rightfit.search.service.grid import ReplicaGrid, at_load, capacity, waiting_s, within
from rightfit.search.service.wish import Limits

INFINITY = float("inf")


def _grid(tpot: list[float]) -> ReplicaGrid:
    batch = np.array([[1.0, 2.0, 4.0, 8.0]])
    values = np.array([tpot])
    rate = batch / (values * 100.0)
    return ReplicaGrid(batch, rate, np.full((1, 4), 0.1), values, 0.1 + 100.0 * values, np.array([8.0]))


def test_no_limit_means_a_fifth_below_saturation() -> None:
    able = capacity(_grid([0.01, 0.011, 0.013, 0.02]), Limits(INFINITY, INFINITY, INFINITY, 0.95))
    assert able.saturation_per_s[0] == pytest.approx(8.0 / 2.0)
    assert able.rate_per_s[0] == pytest.approx(0.8 * 4.0)
    assert able.users[0] == 8.0


def test_limit_between_two_points_is_interpolated() -> None:
    able = capacity(_grid([0.010, 0.011, 0.013, 0.021]), Limits(INFINITY, 0.012, INFINITY, 0.95))
    # Half way between 2 and 4 requests in flight, where TPOT passes 12 ms.
    assert able.rate_per_s[0] == pytest.approx((2 / 1.1 + 4 / 1.3) / 2, rel=1e-6)
    assert able.users[0] == 3.0


def test_limit_that_fails_alone_takes_nothing() -> None:
    able = capacity(_grid([0.010, 0.011, 0.013, 0.021]), Limits(INFINITY, 0.009, INFINITY, 0.95))
    assert able.rate_per_s[0] == 0.0
    assert able.users[0] == 0.0
    assert able.alone_tpot_s[0] == 0.010


def test_within_is_exact_at_the_limit() -> None:
    assert within(np.array([[0.5, 1.0, 1.5]]), np.array([[1.0, 2.0, 3.0]]))[0] == pytest.approx(2.0)


def test_at_load_interpolates_and_infinity_means_the_most() -> None:
    grid = _grid([0.010, 0.011, 0.013, 0.021])
    assert at_load(grid, grid.tpot_s, batch=np.array([3.0]))[0] == pytest.approx(0.012)
    assert at_load(grid, grid.rate_per_s, batch=np.array([INFINITY]))[0] == pytest.approx(8 / 2.1)


def test_waiting_grows_without_end_at_full_load() -> None:
    wait = waiting_s(np.array([0.01, 0.5, 0.9, 1.0]), np.full(4, 0.1), percentile=0.95)
    assert wait[0] == 0.0
    assert wait[1] == pytest.approx(np.log(0.5 / 0.05) * 0.1)
    assert wait[1] < wait[2] < np.inf
    assert np.isinf(wait[3])


@pytest.mark.parametrize(("probability", "quantile"), [(0.5, 0.0), (0.95, 1.6449), (0.99, 2.3263), (0.05, -1.6449)])
def test_normal_score(probability: float, quantile: float) -> None:
    assert normal_score(probability) == pytest.approx(quantile, abs=1e-3)


@pytest.mark.parametrize("seed", range(30))
def test_at_load_is_interpolation_row_by_row(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows, points = int(draw.integers(1, 6)), 8
    rate = draw.uniform(0.1, 9.0, (rows, points))  # also falling: a replica that is too full does less
    values = np.where(draw.random((rows, points)) < 0.2, np.inf, draw.uniform(0.0, 5.0, (rows, points)))
    grid = ReplicaGrid(*[rate] * 5, rate[:, 0])
    wanted = draw.choice([0.0, 0.5, 2.0, 8.9, 20.0, rate[0, 3], np.inf], rows)
    expected = [
        np.interp(one, np.maximum.accumulate(axis), column) if np.isfinite(one) else column[np.argmax(axis)]
        for one, axis, column in zip(wanted, rate, values, strict=True)
    ]
    found = at_load(grid, values, rate_per_s=wanted)
    assert np.array_equal(found, np.array(expected), equal_nan=True)
