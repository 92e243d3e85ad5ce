"""Interruptions: rates, checkpoint intervals and expected time by Young and Daly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightfit.physics import interruption as it

MONTH_S = 730 * 3600.0


def test_monthly_fraction_to_rate_and_back() -> None:
    rate = it.interruptions_per_s(np.array([0.0, 0.2, 0.5]))
    assert rate[0] == 0.0
    assert 1 - np.exp(-rate * MONTH_S) == pytest.approx([0.0, 0.2, 0.5])


def test_optimal_interval_by_hand() -> None:
    save, between = np.array([60.0]), np.array([86_400.0])
    young = np.sqrt(2 * 60 * 86_400)
    assert it.optimal_interval_s(save, mean_time_between=between)[0] == pytest.approx(
        young * (1 + np.sqrt(60 / 172_800) / 3 + 60 / 172_800 / 9) - 60
    )
    assert it.optimal_interval_s(save, mean_time_between=between)[0] == pytest.approx(3180, rel=0.01)


def test_save_longer_than_twice_the_time_between_stops() -> None:
    assert it.optimal_interval_s(np.array([500.0]), mean_time_between=np.array([200.0]))[0] == 200.0


def test_nothing_stops() -> None:
    time = it.expected_s(
        np.array([3600.0]),
        interval_s=np.array([np.inf]),
        save_s=np.array([30.0]),
        restart_s=np.array([600.0]),
        mean_time_between=np.array([np.inf]),
    )
    assert time[0] == pytest.approx(3630.0)


def test_expected_time_by_hand() -> None:
    time = it.expected_s(
        np.array([36_000.0]),
        interval_s=np.array([3600.0]),
        save_s=np.array([60.0]),
        restart_s=np.array([600.0]),
        mean_time_between=np.array([36_000.0]),
    )
    assert time[0] == pytest.approx(36_000 * np.exp(600 / 36_000) * (np.exp(3660 / 36_000) - 1) * 10)
    assert time[0] == pytest.approx(39_174, rel=1e-3)


def test_expected_time_against_simulation() -> None:
    work, interval, save, restart, between = 20_000.0, 2_000.0, 50.0, 300.0, 8_000.0
    dice = np.random.default_rng(7)
    totals = []
    for _ in range(4000):
        clock, done = 0.0, 0.0
        while done < work:
            need = min(interval, work - done) + save
            stop = dice.exponential(between)
            if stop >= need:
                clock, done = clock + need, done + need - save
                continue
            clock += stop
            while (again := dice.exponential(between)) < restart:
                clock += again
            clock += restart
        totals.append(clock)
    expected = it.expected_s(
        *(np.array([work]),),
        interval_s=np.array([interval]),
        save_s=np.array([save]),
        restart_s=np.array([restart]),
        mean_time_between=np.array([between]),
    )
    assert np.mean(totals) == pytest.approx(expected[0], rel=0.02)


def test_the_interval_is_the_best_one() -> None:
    save, between, work = np.array([60.0]), np.array([20_000.0]), np.array([1e6])
    best = it.optimal_interval_s(save, mean_time_between=between)
    times = [
        it.expected_s(work, interval_s=best * factor, save_s=save, restart_s=np.array([600.0]), mean_time_between=between)[0]
        for factor in (0.8, 1.0, 1.25)
    ]
    assert times[1] < times[0]
    assert times[1] < times[2]


@settings(max_examples=200)
@given(
    work=st.floats(1, 1e7),
    more=st.floats(0, 1e6),
    save=st.floats(0, 1e4),
    restart=st.floats(0, 3600),
    between=st.floats(1e3, 1e9),
)
def test_expected_time_grows_with_work_and_is_never_less(work: float, more: float, save: float, restart: float, between: float) -> None:
    works = np.array([work, work + more])
    saves, betweens = np.array([save]), np.array([between])
    interval = it.optimal_interval_s(saves, mean_time_between=betweens)
    time = it.expected_s(works, interval_s=interval, save_s=saves, restart_s=np.array([restart]), mean_time_between=betweens)
    assert time[1] >= time[0] * (1 - 1e-12)
    assert time[0] >= work * (1 - 1e-9)
