"""Demand by hour as few levels, and the hours of the horizon at which each is needed."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np

from rightfit.fleet.instance import Mask

MOST_LEVELS = 3


def levels_of(rates: Sequence[float]) -> tuple[float, ...]:
    """At most three rates [1/s], rising, that the hours are rounded up to: the least, the greatest, and the one between that wastes least."""
    known = sorted({rate for rate in rates if rate > 0})
    if len(known) <= MOST_LEVELS:
        return tuple(known)
    low, high = known[0], known[-1]
    given = np.array([rate for rate in rates if rate > 0])

    def waste(middle: float) -> float:
        return float(np.sum(np.where(given <= low, low, np.where(given <= middle, middle, high)) - given))

    return (low, min(known[1:-1], key=waste), high)


def hourly_level(
    rates: Sequence[float], levels: Sequence[float], *, start: datetime.datetime, hours: int
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """For each hour from the start the number of levels that it needs (0: none)."""
    shape = np.asarray(rates)
    offset = start.hour + (24 * start.weekday() if shape.shape[0] > 24 else 0)
    by_hour = shape[(offset + np.arange(hours)) % shape.shape[0]]
    return np.asarray(np.where(by_hour <= 0, 0, np.searchsorted(np.asarray(levels) * (1 + 1e-9), by_hour) + 1), dtype=np.intp)


def on_of(needed: Any, level: int, *, period_h: float, num_periods: int) -> tuple[Mask, float]:
    """Periods in which a level is needed at any hour, and the hours that it is needed in all."""
    on_hours = np.asarray(needed) > level
    period = np.minimum((np.arange(on_hours.shape[0]) / period_h).astype(np.intp), num_periods - 1)
    on = np.zeros(num_periods, dtype=np.bool_)
    on[period[on_hours]] = True
    return on, float(np.count_nonzero(on_hours))
