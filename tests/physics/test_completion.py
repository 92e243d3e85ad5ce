"""The law of an interruptible run against an event-by-event simulation and against Daly's mean."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.physics import interruption
from rightfit.physics.interruption import completion, segments

CASES = [
    # work, interval, save, restart, mean time between stops
    (36_000.0, 3_600.0, 60.0, 600.0, 86_400.0),
    (36_000.0, 3_600.0, 60.0, 600.0, 7_200.0),
    (360_000.0, 5_000.0, 300.0, 900.0, 20_000.0),
    (10_000.0, np.inf, 0.0, 600.0, 12_000.0),
    (1_000.0, 4_000.0, 30.0, 300.0, 500.0),
    (50_000.0, 7_001.0, 20.0, 0.0, 9_000.0),
]


def walk(rng: np.random.Generator, *, work: float, interval: float, save: float, restart: float, between: float) -> float:
    """One run, event by event, written without any formula of the module under test."""
    clock, done = 0.0, 0.0
    stop = rng.exponential(between)
    while done < work - 1e-6:
        piece = min(interval, work - done)
        if clock + piece + save <= stop:
            clock, done = clock + piece + save, done + piece
            continue
        clock = stop
        stop = clock + rng.exponential(between)
        while clock + restart > stop:
            clock = stop
            stop = clock + rng.exponential(between)
        clock += restart
    return clock


@pytest.mark.parametrize(("work", "interval", "save", "restart", "between"), CASES)
def test_the_law_agrees_with_a_simulation(work: float, interval: float, save: float, restart: float, between: float) -> None:
    rng = np.random.default_rng(7)
    runs = np.array([walk(rng, work=work, interval=interval, save=save, restart=restart, between=between) for _ in range(6_000)])
    law = completion(work_s=work, interval_s=interval, save_s=save, restart_s=restart, rate_per_s=1.0 / between)
    error = 4.0 * runs.std() / np.sqrt(runs.shape[0])
    assert abs(law.mean_s - runs.mean()) < error
    for share in (0.25, 0.5, 0.8, 0.95):
        below = np.mean(runs <= law.quantile_s(share) * 1.002)
        assert below > share - 0.025
        assert np.mean(runs < law.quantile_s(share) * 0.998) < share + 0.025
    assert law.chance_after(runs.mean()) == pytest.approx(np.mean(runs > runs.mean()), abs=0.03)


@pytest.mark.parametrize(("work", "interval", "save", "restart", "between"), CASES[:4])
def test_the_mean_is_daly_s(work: float, interval: float, save: float, restart: float, between: float) -> None:
    law = completion(work_s=work, interval_s=interval, save_s=save, restart_s=restart, rate_per_s=1.0 / between)
    number = {name: np.array([value]) for name, value in [("interval_s", interval), ("save_s", save), ("restart_s", restart)]}
    expected = interruption.expected_s(np.array([work]), mean_time_between=np.array([between]), **number)
    assert law.mean_s == pytest.approx(float(expected[0]), rel=2e-3)


def test_without_stops_the_time_is_work_and_saves() -> None:
    law = completion(work_s=1_000.0, interval_s=300.0, save_s=10.0, restart_s=60.0, rate_per_s=0.0)
    assert law.mean_s == law.quantile_s(0.99) == 1_040.0  # 3 whole intervals and a rest of 100 s: 4 saves
    assert law.chance_after(1_039.0) == 1.0
    assert law.chance_after(1_040.0) == 0.0


def test_a_long_run_without_checkpoints_never_ends() -> None:
    law = completion(work_s=40.0, interval_s=np.inf, save_s=0.0, restart_s=0.0, rate_per_s=1.0)
    assert law.mean_s == np.inf
    assert law.chance_after(1e12) == 1.0


def test_segments_add_up_to_the_work() -> None:
    assert segments(1_000.0, interval_s=300.0) == [(300.0, 3), (100.0, 1)]
    assert segments(900.0, interval_s=300.0) == [(300.0, 3)]
    assert segments(100.0, interval_s=np.inf) == [(100.0, 1)]
