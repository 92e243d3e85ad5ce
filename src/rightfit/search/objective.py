"""What "best" means: a score of cost and time; smaller is better."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array

Index = NDArray[np.intp]

BALANCED_COST_WEIGHT = 2.0
SAME_TIME = 1.01


def scores(objective: str, *, total_usd: Array, total_s: Array, slack_s: float = 0.0) -> Array:
    """The score of each row, shape as the inputs.

    cost: the total cost. time: the class of the total time (see `time_classes`), so that among equally fast rows the cheaper leads.
    balanced: cost^2 x time: waiting half as long may cost up to sqrt(2) = 1.41 times as much. The
    balanced score of an option does not depend on which other options exist, so adding a server never changes the order of the rest.
    """
    if objective == "time":
        return time_classes(total_s, slack_s=slack_s)
    if objective == "balanced":
        return total_usd**BALANCED_COST_WEIGHT * total_s
    return total_usd


def time_classes(total_s: Array, *, slack_s: float = 0.0) -> Array:
    """Number of the class of each time: class 0 holds the shortest and all that are at most 1 % or `slack_s` longer, the next class starts at the first
    that
    is longer, and so on. Times are not known better than that, and twice the servers for the same minutes would be money for nothing."""
    order = np.argsort(total_s, kind="stable")
    times = total_s[order]
    starts, at = [], 0
    while at < times.shape[0]:
        starts.append(at)
        at = max(at + 1, int(np.searchsorted(times, max(times[at] * SAME_TIME, times[at] + slack_s), side="right")))
    classes = np.empty(total_s.shape[0])
    lengths = np.diff([*starts, times.shape[0]])
    classes[order] = np.repeat(np.arange(len(starts)), lengths)
    return classes


def pareto_front(total_usd: Array, total_s: Array) -> Index:
    """Rows that no other row beats in both cost and time, by rising cost; of equal rows the first. Exact, O(N log N)."""
    order = np.argsort(total_usd, kind="stable")
    times = total_s[order]
    before = np.minimum.accumulate(np.concatenate([[np.inf], times]))[:-1]
    kept = order[times < before]
    # Of rows with one cost, in whatever order they came, only the last kept is the fastest.
    last = np.append(total_usd[kept][1:] > total_usd[kept][:-1], True)
    front: Index = kept[last]
    return front
