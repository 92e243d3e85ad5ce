"""What is not a tensor: CUDA context, communication library, matrix-product workspace, allocator slack.

Source: docs/decisions/memory-physics.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rightfit.physics.columns import Array, DeviceColumns, SetupColumns


def workspace_bytes(setup: SetupColumns, *, workspace: Array) -> Array:
    """cuBLAS workspaces, counted by torch's allocator: `workspace` [bytes] -> [bytes]."""
    return workspace + 0.0 * setup.micro_batch


def context_bytes(setup: SetupColumns, *, context: float, per_peer: float, most_peers: float) -> Array:
    """CUDA context and kernels, and NCCL's buffers by number of GPUs in the job; seen by the driver only.

    `context`, `per_peer` [bytes], `most_peers` [GPUs] -> [bytes].
    NCCL allocates per channel and peer; within a node this grows with the peers up to `most_peers`.
    """
    return context + per_peer * (np.minimum(setup.num_gpus, most_peers) - 1.0)


def slack_bytes(moment: Mapping[str, Array], left_over: Array, setup: SetupColumns, *, coefficients: Mapping[str, float]) -> Array:
    """Memory that PyTorch's caching allocator holds beyond the live tensors of a moment: rounding and fragmentation.

    `moment` [bytes] of `steady` tensors, of `stored` activations (many tensors of equal sizes), of `spikes` (few large tensors that come
    and go and grow with the length: logits, a layer's working set) and of `buffers` of fixed sizes, `left_over` [bytes] that other moments
    left in the cache and this one cannot use (see `left_over_bytes`), `coefficients` [coefficients] -> [bytes]. A cached block of one size
    cannot serve a slightly larger tensor, so where lengths vary the cache holds several generations of the spikes. Expandable segments
    avoid most of it.
    Known error: the true figure depends on the order of allocations and differs by a factor of two between runs.
    """
    expandable = setup.expandable_segments > 0
    fixed = np.where(expandable, coefficients["slack_expandable_ratio"], coefficients["slack_moving_ratio"])
    varied = setup.variable_length * np.where(expandable, coefficients["slack_varied_expandable"], 1.0) * coefficients["slack_varied_ratio"]
    stored = coefficients["slack_stored_ratio"] * moment["stored"]
    steady = coefficients["slack_bytes"] + coefficients["slack_steady_ratio"] * moment["steady"]
    return steady + stored + (fixed + varied) * moment["spikes"] + fixed * moment["buffers"] + left_over


def left_over_bytes(scratch: Array, waiting: Array, setup: SetupColumns, *, coefficients: Mapping[str, float]) -> Array:
    """What the activations of a step leave in the cache beyond what the scratch of the optimizer can use.

    `scratch` [bytes] of the optimizer step, `waiting` [bytes] of activations, logits and working set of the forward and backward passes,
    `coefficients` [coefficients] -> [bytes]. If the scratch fitted into the cached blocks the larger of the two would be held; as blocks
    have other sizes, a part of the smaller comes on top.
    """
    unused = np.where(setup.expandable_segments > 0, coefficients["slack_expandable_ratio"], coefficients["slack_overlap_ratio"])
    too_large: Array = np.maximum(waiting - scratch, 0.0)
    shared: Array = np.minimum(scratch, waiting)
    return too_large + unused * shared


def squeezed_bytes(live: Array, *, coefficients: Mapping[str, float]) -> Array:
    """The least slack a job can run with: near the limit the allocator gives cached blocks back before it fails.

    `live` [bytes], `coefficients` [1] -> [bytes].
    """
    return coefficients["squeezed_ratio"] * live


def usable_bytes(device: DeviceColumns, *, coefficients: Mapping[str, float]) -> Array:
    """What of a card's nominal memory the driver hands out.

    `coefficients` [1] -> [bytes].
    """
    return coefficients["usable_fraction"] * device.memory_bytes
