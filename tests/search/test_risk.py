"""What interruptions do to a run: against simulated runs whose speed and interruption rate are
drawn, and in the limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rightfit.estimation.figures import Figure
from rightfit.search.risk import Hazard, likely_values, optimal_interval_s, risk_of, without_checkpoints_s

HOUR = 3_600.0
RUN = Figure(20 * HOUR, low80=15 * HOUR, high80=26 * HOUR, low95=12 * HOUR, high95=32 * HOUR)
SPOT = Hazard(spot_low=0.9, spot_high=0.99, nodes=4, other_per_s=0.0, save_s=60.0, restart_s=600.0)
CALM = Hazard(spot_low=0.0, spot_high=0.0, nodes=1, other_per_s=0.0, save_s=60.0, restart_s=600.0)
SPEEDS = likely_values(RUN, 500)


def simulated(rng: np.random.Generator, hazard: Hazard, interval: float) -> float:
    """One run with one of 500 likely speeds and a rate of the hazard's three, walked
    from stop to stop."""
    work = float(rng.choice(SPEEDS))
    between = 1.0 / float(rng.choice(hazard.rates_per_s()))
    clock, done, stop = 0.0, 0.0, rng.exponential(between)
    while done < work - 1e-6:
        piece = min(interval, work - done)
        if clock + piece + hazard.save_s <= stop:
            clock, done = clock + piece + hazard.save_s, done + piece
            continue
        clock, stop = stop, stop + rng.exponential(between)
        while clock + hazard.restart_s > stop:
            clock, stop = stop, stop + rng.exponential(between)
        clock += hazard.restart_s
    return clock


def test_interval_and_chance_of_being_late_are_those_of_simulated_runs() -> None:
    rng = np.random.default_rng(11)
    interval = optimal_interval_s(SPOT)
    runs = np.array([simulated(rng, SPOT, interval) for _ in range(4_000)])
    deadline = float(np.quantile(runs, 0.7))
    risk = risk_of(RUN, SPOT, startup_s=0.0, expected_s=float(runs.mean()), deadline_s=deadline)
    assert risk.late == pytest.approx(0.3, abs=0.03)
    for bound, share in [(risk.total.low80, 0.1), (risk.total.high80, 0.9), (risk.total.low95, 0.025), (risk.total.high95, 0.975)]:
        assert np.mean(runs <= bound * 1.002) == pytest.approx(share, abs=0.025)


def test_without_any_hazard_the_run_is_as_sure_as_its_prediction() -> None:
    risk = risk_of(RUN, CALM, startup_s=300.0, expected_s=RUN.mid + 300.0)
    assert risk.interruptions == pytest.approx(0.0, abs=1e-3)
    assert risk.late is None
    assert risk.without_checkpoints_s == pytest.approx(RUN.mid + 300.0)
    assert risk.total.low95 > RUN.low95
    assert risk.total.high95 < RUN.high95 + 400.0


def test_a_stop_that_loses_everything_makes_a_long_run_explode() -> None:
    hazard = Hazard(spot_low=0.0, spot_high=0.0, nodes=1, other_per_s=1 / (10 * HOUR), save_s=60.0, restart_s=0.0)
    by_hand = 10 * HOUR * (math.exp(5.0) - 1.0)  # 50 hours of work at one stop every 10 hours: e^5 - 1 = 147.4 times ten hours
    assert without_checkpoints_s(50 * HOUR, hazard) == pytest.approx(by_hand)
    assert without_checkpoints_s(400 * HOUR, hazard) == math.inf
    assert without_checkpoints_s(HOUR, CALM) == HOUR


def test_more_nodes_are_stopped_more_often() -> None:
    few, many = (Hazard(0.05, 0.30, nodes, 0.0, 60.0, 600.0) for nodes in (1, 8))
    assert many.mean_rate_per_s() == pytest.approx(8 * few.mean_rate_per_s())
    assert optimal_interval_s(many) < optimal_interval_s(few)


def test_likely_values_keep_the_middle_and_stay_within_the_interval() -> None:
    values = likely_values(RUN, 5)
    assert values[2] == pytest.approx(RUN.mid)
    assert (np.diff(values) > 0).all()
    assert RUN.low95 < values[0] < RUN.low80 * 1.2
