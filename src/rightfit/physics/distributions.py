"""Discrete laws as values with masses: means of slices, sums in bins, quantiles.

Source: ours; docs/decisions/serving-load.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TIME_BINS = 2400


def slice_means(values: Array, masses: Array, edges: Array) -> tuple[Array, Array]:
    """Mean of `values` (ascending, with `masses` that sum to 1) in each slice between `edges` of the cumulated mass.

    `values` [any], `masses`, `edges` [1] -> [any].
    """
    cumulated = np.concatenate([[0.0], np.cumsum(masses)])
    cumulated[-1] = 1.0
    moments = np.concatenate([[0.0], np.cumsum(masses * values)])
    at = np.interp(edges, cumulated, moments)
    return np.diff(at) / np.diff(edges), np.diff(edges)


def binned(times: Array, masses: Array) -> tuple[Array, Array]:
    """The law of `times` [s] with `masses` [1] on few logarithmic bins, each at its mean -> [s], [1]."""
    kept = masses > 1e-12
    times, masses = times[kept], masses[kept]
    logs = np.log(times)
    low, high = float(logs.min()), float(logs.max())
    place = ((logs - low) * ((TIME_BINS - 1) / max(high - low, 1e-9))).astype(np.intp)
    mass = np.bincount(place, masses, TIME_BINS)
    moment = np.bincount(place, masses * times, TIME_BINS)
    used = mass > 0
    return moment[used] / mass[used], mass[used] / mass.sum()


def quantiles(values: Array, masses: Array, shares: Array) -> Array:
    """Weighted quantiles: linear between the middles of small masses, flat inside those over 2 %.

    `values` [any], `masses`, `shares` [1] -> [any].
    """
    order = np.argsort(values)
    values, masses = values[order], masses[order] / masses.sum()
    ends = np.cumsum(masses)
    inset = np.minimum(0.5 * masses, 0.01)
    points = np.stack([ends - masses + inset, ends - inset], axis=1).ravel()
    found: Array = np.interp(shares, points, np.repeat(values, 2))
    return found
