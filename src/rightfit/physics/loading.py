"""Time to feed the step: bytes read from storage and samples prepared by the host, both overlapped with the step.

Exposed time is what remains when loading is slower than computing. Text costs next to nothing; images and audio must be decoded.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array


def loading_s(*, samples: Array, bytes_per_sample: Array, storage_bytes_per_s: Array, samples_per_core_s: Array, cores: Array) -> Array:
    """Seconds to load the samples of one step on one node, shape (N,): the slower of reading and preparing; rates of 0 mean no limit."""
    with np.errstate(divide="ignore", invalid="ignore"):
        reading = np.where(storage_bytes_per_s > 0, samples * bytes_per_sample / storage_bytes_per_s, 0.0)
        preparing = np.where(samples_per_core_s * cores > 0, samples / (samples_per_core_s * cores), 0.0)
    return np.maximum(reading, preparing)


def exposed_s(*, loading_s: Array, step_s: Array) -> Array:
    """Seconds that a step waits for data when loaders run ahead of it, shape (N,)."""
    return np.maximum(loading_s - step_s, 0.0)
