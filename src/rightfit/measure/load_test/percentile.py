"""Percentiles of requests that follow one another: one that waits makes the next one wait, so a sample of n says less than n independent ones.

The variance of a share is that of independent requests times an inflation, estimated by batch means. Reference: Law and Kelton, Simulation modeling and analysis,
section 9.5.3 (batch means); David and Nagaraja, Order statistics, section 7.1.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

#: Normal quantile of an 80 % interval.
Z80 = 1.2816
_BATCHES = 10


def inflation(beyond: Sequence[bool], share: float) -> float:
    """By how much the variance of the share of `beyond`, in order of time, exceeds that of independent requests at that percentile; at least 1."""
    size = len(beyond) // _BATCHES
    if size < 1:
        return 1.0
    means = [statistics.fmean(beyond[at * size : (at + 1) * size]) for at in range(_BATCHES)]
    return max(statistics.variance(means) * size / (share * (1.0 - share)), 1.0)


def quantile(values: Sequence[float], share: float) -> tuple[float, float, float]:
    """The quantile of a sample in order of time with the bounds of its 80 % interval; infinite (or 0) where the sample is too small to bound it."""
    ordered, n = sorted(values), len(values)
    if not n:
        return math.nan, 0.0, math.inf
    mid = ordered[min(max(math.ceil(n * share), 1), n) - 1]
    half = Z80 * math.sqrt(n * share * (1.0 - share) * inflation([value > mid for value in values], share))
    low, high = math.floor(n * share - half), math.ceil(n * share + half)
    return mid, ordered[low - 1] if low >= 1 else 0.0, ordered[high - 1] if high <= n else math.inf


def keeps(values: Sequence[float], target: float, share: float) -> tuple[bool, bool, bool]:
    """Whether that share of the values is within the target: in the sample, surely, surely not (80 %). Without values nothing is known to miss."""
    if not values:
        return True, False, False
    beyond = [value > target for value in values]
    missed, allowed = statistics.fmean(beyond), 1.0 - share
    half = Z80 * math.sqrt(share * allowed * inflation(beyond, share) / len(values))
    return missed <= allowed + 1e-9, missed + half <= allowed, missed - half > allowed
