"""Small operations on arrays for the way of a cold plan: numpy's own of the same names load numpy.ma on their first call, which takes longer than they
do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def distinct_values(values: NDArray[Any]) -> NDArray[Any]:
    """The distinct values of an array of any shape, sorted, as `numpy.unique` without further results gives them (NaN is not looked for)."""
    ordered = np.sort(values, axis=None)
    is_new = np.ones(ordered.shape, dtype=np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_new]


def median(values: NDArray[np.float64]) -> float:
    """The middle value of an array that is not empty, of two middle ones their mean."""
    ordered, half = np.sort(values, axis=None), values.size // 2
    return float(ordered[half] if values.size % 2 else (ordered[half - 1] + ordered[half]) / 2.0)
