"""Time to write and read checkpoints, and how often to write them.

Young (1974) and Daly (2006): with a write of C seconds and a mean time between failures of M, the best interval is sqrt(2 C M).
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array


def write_s(*, checkpoint_bytes: Array, nodes: Array, storage_bytes_per_s: Array, sharded: Array) -> Array:
    """Seconds to write one checkpoint, shape (N,). Sharded checkpoints are written by all nodes at once."""
    writers = np.where(sharded > 0, nodes, 1.0)
    return checkpoint_bytes / np.maximum(storage_bytes_per_s * writers, 1.0)


def interval_s(*, write_s: Array, mean_time_between_failures_s: Array) -> Array:
    """Best seconds between checkpoints, shape (N,): sqrt(2 C M)."""
    return np.sqrt(2.0 * write_s * mean_time_between_failures_s)


def overhead_fraction(*, write_s: Array, interval_s: Array) -> Array:
    """Share of time spent writing, shape (N,)."""
    return write_s / np.maximum(interval_s + write_s, 1e-9)
