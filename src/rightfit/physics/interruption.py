"""Servers that can be taken away: how often, how to save against it, and what it adds to a run.

Interruptions of one server are taken as a Poisson process; a job on n servers stops when any one of them is taken, so rates add.
Checkpoint intervals and the expected wall time follow J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
dumps", Future Generation Computer Systems 22 (2006) 303-312, which extends J. W. Young, CACM 17 (1974) 530-531.

Source: Daly 2006, Young 1974.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightfit.units import SECONDS_PER_MONTH

Array = NDArray[np.float64]

LARGEST_EXPONENT = 300.0  # a run that would take longer than e^300 intervals is only known to be hopeless
NEVER_S = 1e30
SHORTEST_INTERVAL_S = 1.0


def interruptions_per_s(monthly_fraction: Array) -> Array:
    """Interruption rate of one server from the fraction of servers that are interrupted within a month.

    `monthly_fraction` [1], 0 <= f < 1 -> [1/s]. rate = -ln(1 - f) / month: the exponential law under which a fraction f is gone after one
    month.
    Source: AWS Spot Instance Advisor (documentation) publishes f over the trailing month in bands of five points.
    Known error: the top band is open (20-100 %), and interruptions come in bursts when capacity is short.
    """
    rate: Array = -np.log1p(-np.minimum(monthly_fraction, 1.0 - 1e-9)) / SECONDS_PER_MONTH
    return rate


def optimal_interval_s(save_s: Array, *, mean_time_between: Array) -> Array:
    """Work between two checkpoints that makes the expected wall time least.

    `save_s` [s] that one checkpoint takes, `mean_time_between` [s], M -> [s].
    Daly (2006), equation 37: sqrt(2 d M) [1 + sqrt(d / 2M) / 3 + d / 18M] - d for d < 2M, else M. Infinite where M is infinite.
    Known error: under 0.2 % of the exact optimum for d < M / 2 (Daly, section 4).
    """
    ratio = save_s / (2.0 * mean_time_between)
    with np.errstate(invalid="ignore"):
        series = np.sqrt(2.0 * save_s * mean_time_between) * (1.0 + np.sqrt(ratio) / 3.0 + ratio / 9.0) - save_s
    interval = np.where(ratio < 1.0, series, mean_time_between)
    return np.where(np.isinf(mean_time_between), np.inf, interval)


def expected_s(work_s: Array, *, interval_s: Array, save_s: Array, restart_s: Array, mean_time_between: Array) -> Array:
    """Expected wall time of `work_s` seconds of work with checkpoints and restarts.

    `work_s`, `interval_s`, `save_s`, `restart_s`, `mean_time_between` [s] -> [s]. A run shorter than one interval saves once, at its end;
    intervals under a second are taken as one second.
    Daly (2006), equation 20: M exp(R / M) (exp((t + d) / M) - 1) W / t with t = min(interval, work); work + saves where M is infinite.
    It grows with `work_s` for any fixed other argument. Known error: restarts that fail again are counted, notice periods are not used.
    """
    segment = np.minimum(np.maximum(interval_s, SHORTEST_INTERVAL_S), work_s)
    segments = np.divide(work_s, segment, out=np.zeros(np.broadcast(work_s, segment).shape), where=segment > 0)
    finite = np.minimum(mean_time_between, NEVER_S)
    exponent = np.minimum((segment + save_s) / finite, LARGEST_EXPONENT)
    return finite * np.exp(np.minimum(restart_s / finite, LARGEST_EXPONENT)) * np.expm1(exponent) * segments
