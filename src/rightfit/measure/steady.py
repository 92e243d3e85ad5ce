"""The steady part of a run: what is warm-up, how long one step takes after it, and whether that has settled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rightfit.facts.constants import constant_group
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class Steady:
    """Intervals [s] after warm-up: mean, median and standard error of the mean; `dropped` intervals before; `trend` the last third over the first, less one."""

    mean: float
    median: float
    error: float
    count: int
    dropped: int
    trend: float

    @property
    def is_stable(self) -> bool:
        """Standard error, number of steps and trend within facts/data/constants/measure.csv."""
        rule = constant_group("measure", "steady")
        settled = self.error <= rule["standard_error"] * self.mean and abs(self.trend) <= rule["trend"]
        return self.count >= rule["least_steps"] and settled


def steady(intervals: Sequence[float]) -> Steady | None:
    """The steady part of positive intervals [s], oldest first; None where fewer than two remain. Clock jumps (intervals not positive) are left out."""
    values = np.array([value for value in intervals if np.isfinite(value) and value > 0], dtype=np.float64)
    if values.size < 2:
        return None
    dropped = _warm_up(values)
    kept = values[dropped:]
    third = max(kept.size // 3, 1)
    error = float(np.std(kept, ddof=1) / np.sqrt(kept.size)) if kept.size > 1 else float(kept[0])
    trend = float(np.mean(kept[-third:]) / np.mean(kept[:third]) - 1.0)
    return Steady(float(np.mean(kept)), float(np.median(kept)), error, int(kept.size), dropped, trend)


def _warm_up(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int:
    """How many intervals at the beginning are not steady; at least half of a short run is kept."""
    rule = constant_group("measure", "steady")
    slow = values > rule["settling"] * np.median(values)
    settling = int(np.argmin(slow)) if not slow.all() else 0
    wanted = max(int(rule["least_dropped"]), int(np.ceil(rule["dropped_share"] * values.size)), settling)
    return min(wanted, values.size // 2)
