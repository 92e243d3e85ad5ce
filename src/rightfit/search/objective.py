"""What "best" means: a score of cost and time; smaller is better."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array

Index = NDArray[np.intp]

BALANCED_COST_WEIGHT = 2.0


def scores(objective: str, *, total_usd: Array, total_s: Array) -> Array:
    """The score of each row, shape as the inputs.

    cost: the total cost. time: the total time. balanced: cost^2 x time: waiting half as long may cost up to sqrt(2) = 1.41 times as much. The
    balanced score of an option does not depend on which other options exist, so adding a server never changes the order of the rest.
    """
    if objective == "time":
        return total_s
    if objective == "balanced":
        return total_usd**BALANCED_COST_WEIGHT * total_s
    return total_usd


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
