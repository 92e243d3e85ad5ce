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


def slack_bytes(steady: Array, moving: Array, *, steady_ratio: float, moving_ratio: Array, base: float) -> Array:
    """Memory that the caching allocator holds beyond live tensors: rounding and fragmentation [bytes].

    steady: tensors that stay; moving: tensors that come and go within a step. A block of one size cannot serve a slightly larger tensor, so where
    lengths vary from step to step the cache holds several generations of the moving ones.
    """
    return base + steady_ratio * steady + moving_ratio * moving


def capacity_bytes(device: DeviceColumns, *, reserved_fraction: float) -> Array:
    """What of a card's memory a job can use [bytes]."""
    return device.memory_bytes * (1.0 - reserved_fraction)
