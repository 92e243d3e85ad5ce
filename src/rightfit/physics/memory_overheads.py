"""What is not a tensor: CUDA context, communication library, matrix-product workspace, allocator slack."""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array, DeviceColumns, SetupColumns


def workspace_bytes(setup: SetupColumns, *, workspace: Array) -> Array:
    """cuBLAS workspaces, counted by torch's allocator. workspace: (N,) [bytes]."""
    return workspace + 0.0 * setup.micro_batch


def context_bytes(setup: SetupColumns, *, context: float, per_peer: float) -> Array:
    """CUDA context and kernels, and NCCL's buffers by number of GPUs in the job; seen by the driver only [bytes].

    NCCL allocates per channel and peer; within a node this grows with the peers up to eight.
    """
    return context + per_peer * (np.minimum(setup.num_gpus, 8.0) - 1.0)


def slack_bytes(steady: Array, moving: Array, *, steady_ratio: float, moving_ratio: float, base: float) -> Array:
    """Memory that the caching allocator holds beyond live tensors when sizes repeat from step to step: rounding and fragmentation [bytes].

    steady: tensors that stay; moving: tensors that come and go within a step.
    """
    return base + steady_ratio * steady + moving_ratio * moving


def varied_slack_bytes(by_length: Array, setup: SetupColumns, *, ratio: float) -> Array:
    """The same for sequences of varying length: a block of one size cannot serve a slightly longer tensor, so the cache holds several
    generations of everything that grows with the length [bytes]."""
    return setup.variable_length * ratio * by_length


def capacity_bytes(device: DeviceColumns, *, reserved_fraction: float) -> Array:
    """What of a card's memory a job can use [bytes]."""
    return device.memory_bytes * (1.0 - reserved_fraction)
