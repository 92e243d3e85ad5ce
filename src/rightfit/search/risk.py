"""Runs on servers that can be taken away: when they end, how sure that is, and what they would take without checkpoints.

Three doubts meet in the wall time of a spot run: how fast the work goes (the interval of the prediction), how often servers are taken (a
published band, or
a usual range) and chance itself. The law of the last (physics.completion) is mixed over the first two.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.estimate.figures import Figure
from rightfit.physics import interruption
from rightfit.physics.columns import Array
from rightfit.physics.completion import Completion, completion, segments
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.search.market import MarketFacts

KNOWN_SHARES = (0.025, 0.1, 0.5, 0.9, 0.975)
ANCHORS = 1  # speeds of the work for which the law is computed; nine move no stated bound by over 0.7 %, at nine times the work
SPEEDS = 45  # and between which its stretch (wall time over work) is carried over
CHANCES = 101  # equally likely stretches taken from each law
RATES = 3  # interruption rates, evenly spread over the logarithm of their band
CALM = 0.005  # below this chance of any stop the law is that of the undisturbed run: it moves no bound that is stated


@dataclass(frozen=True, slots=True)
class Hazard:
    """What stops a run, and what a stop costs. `spot_low`, `spot_high`: fraction of servers taken within a month; `other_per_s`: hardware
    failures
    of the whole job [1/s]; `save_s` a checkpoint, `restart_s` from a stop to working again [s]."""

    spot_low: float
    spot_high: float
    nodes: int
    other_per_s: float
    save_s: float
    restart_s: float

    def rates_per_s(self) -> Array:
        """Stops per second of the whole job at equally likely places of the band, lowest first."""
        low, high = (float(interruption.interruptions_per_s(np.array([share]))[0]) for share in (self.spot_low, self.spot_high))
        places = (np.arange(RATES) + 0.5) / RATES
        spot = np.exp(np.log(max(low, 1e-12)) * (1 - places) + np.log(max(high, 1e-12)) * places)
        return np.asarray(spot * self.nodes + self.other_per_s)

    def mean_rate_per_s(self) -> float:
        """Stops per second at the middle of the band, as the search takes it."""
        middle = interruption.interruptions_per_s(np.array([(self.spot_low + self.spot_high) / 2.0]))
        return float(middle[0]) * self.nodes + self.other_per_s


@dataclass(frozen=True, slots=True)
class Risk:
    """What interruptions do to one run. `total`: wall time with start-up, its interval with chance in it; `late`: probability of missing
    the deadline
    (None without one); `interval_s`: work between checkpoints; `without_checkpoints_s`: expected wall time if nothing were saved (infinite:
    it
    would hardly ever end)."""

    total: Figure
    late: float | None
    interruptions: float
    interval_s: float
    save_s: float
    restart_s: float
    without_checkpoints_s: float

    def to_dict(self) -> dict[str, Any]:
        """As in the plan's JSON (facts.risk of an option)."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**values, "total": self.total.to_dict()}

    @property
    def without_checkpoints(self) -> float:
        """How many times as long the run would take if nothing were saved."""
        return self.without_checkpoints_s / self.total.mid


def likely_values(figure: Figure, count: int) -> Array:
    """`count` equally likely values of a figure: its quantiles between those that its intervals state, straight in the logarithm."""
    known = np.log([figure.low95, figure.low80, figure.mid, figure.high80, figure.high95])
    return np.asarray(np.exp(np.interp((np.arange(count) + 0.5) / count, KNOWN_SHARES, np.maximum.accumulate(known))))


def optimal_interval_s(hazard: Hazard) -> float:
    """Work between two checkpoints at the middle rate [s]."""
    rate = hazard.mean_rate_per_s()
    between = np.array([1.0 / rate if rate > 0 else np.inf])
    return float(interruption.optimal_interval_s(np.array([hazard.save_s]), mean_time_between=between)[0])


def completion_of(run: Figure, hazard: Hazard, *, interval_s: float) -> Completion:
    """The law of the wall time from the first step to the last, speed and rate being known only within their limits.

    Known error: the stretch is that of the middle speed; it changes slowly with the length of the work (under 0.7 % in any bound against
    nine anchors).
    """
    if float(hazard.rates_per_s().max()) * run.high95 < CALM:
        calm = likely_values(run, SPEEDS * RATES)
        saves = np.array([hazard.save_s * sum(count for _, count in segments(work, interval_s=max(interval_s, 1.0))) for work in calm])
        return Completion(calm + saves, np.full(calm.shape, 1.0 / calm.shape[0]))
    chances = (np.arange(CHANCES) + 0.5) / CHANCES
    finer = likely_values(run, SPEEDS).reshape(ANCHORS, -1)
    times = []
    for works in finer:
        anchor = float(np.median(works))
        for rate in hazard.rates_per_s():
            law = completion(
                work_s=anchor, interval_s=max(interval_s, 1.0), save_s=hazard.save_s, restart_s=hazard.restart_s, rate_per_s=float(rate)
            )
            times.append(np.outer(works / anchor, law.quantiles_s(chances)).ravel())
    sorted_times = np.sort(np.concatenate(times))
    return Completion(sorted_times, np.full(sorted_times.shape, 1.0 / sorted_times.shape[0]))


def risk_of(run: Figure, hazard: Hazard, *, startup_s: float, expected_s: float, deadline_s: float | None = None) -> Risk:
    """What interruptions do to `run` (seconds of undisturbed work, with its interval). `expected_s`: the wall time that the search found,
    the middle."""
    interval_s = optimal_interval_s(hazard)
    law = completion_of(run, hazard, interval_s=interval_s)
    low95, low80, high80, high95 = (law.quantile_s(share) + startup_s for share in (0.025, 0.1, 0.9, 0.975))
    total = Figure(
        expected_s,
        low80=min(low80, expected_s),
        high80=max(high80, expected_s),
        low95=min(low95, expected_s),
        high95=max(high95, expected_s),
        source=run.source,
    )
    return Risk(
        total=total,
        late=law.chance_after(deadline_s - startup_s) if deadline_s is not None else None,
        interruptions=hazard.mean_rate_per_s() * (expected_s - startup_s),
        interval_s=interval_s,
        save_s=hazard.save_s,
        restart_s=hazard.restart_s,
        without_checkpoints_s=startup_s + without_checkpoints_s(run.mid, hazard),
    )


def without_checkpoints_s(work_s: float, hazard: Hazard) -> float:
    """Expected wall time when a stop loses everything [s]: M exp(R / M) (exp(W / M) - 1), infinite beyond e^30 attempts."""
    rate = hazard.mean_rate_per_s()
    if rate <= 0:
        return work_s
    if rate * work_s > 30.0:
        return math.inf
    return math.exp(rate * hazard.restart_s) * math.expm1(rate * work_s) / rate


@dataclass(frozen=True, slots=True)
class RunOfRow:
    """A run on `nodes` servers with `accelerators` each: undisturbed `work` [s], `startup_s` before it, `total_s` as the search expects
    it."""

    work: Figure
    startup_s: float
    total_s: float
    nodes: int
    accelerators: float
    checkpoint_bytes: float


def risk_of_row(charges: MarketFacts, offer: int, run: RunOfRow, *, deadline_s: float | None) -> Risk | None:
    """The risk of a run on an offer; None where it is not spot and fewer stops are expected than are worth telling."""
    usual = facts.coefficients("planning")
    hazard = Hazard(
        spot_low=float(charges.spot_low[offer]),
        spot_high=float(charges.spot_high[offer]),
        nodes=run.nodes,
        other_per_s=usual["failures_per_accelerator_s"] * run.accelerators * run.nodes,
        save_s=run.checkpoint_bytes / (usual["checkpoint_bytes_per_s"] * run.nodes),
        restart_s=usual["restart_s"],
    )
    told = hazard.spot_high > 0 or hazard.mean_rate_per_s() * run.total_s >= usual["failures_told"]
    if not told or not math.isfinite(run.total_s):
        return None
    return risk_of(run.work, hazard, startup_s=run.startup_s, expected_s=run.total_s, deadline_s=deadline_s)


def risk_facts(risk: Risk | None, hourly_usd: float) -> dict[str, Any] | None:
    """The risk of an option as plain figures, with the rent that it would run up if nothing were saved."""
    if risk is None:
        return None
    rent = risk.without_checkpoints_s / 3600.0 * float(hourly_usd)
    return {**risk.to_dict(), "without_checkpoints": risk.without_checkpoints, "without_checkpoints_usd": rent}
