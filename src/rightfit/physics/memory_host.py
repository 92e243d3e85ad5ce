"""Host memory and disk of a training job.

Source: accounting; Ren et al. 2021 (ZeRO-Offload) for what is offloaded; docs/decisions/memory-physics.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rightfit.physics import parameters
from rightfit.physics.columns import Array, ModelColumns, SetupColumns, ShardStage
from rightfit.physics.memory_states import is_full
from rightfit.units import FP32_BYTES


def host_bytes(model: ModelColumns, setup: SetupColumns, *, coefficients: Mapping[str, float]) -> Array:
    """Peak RAM of one node.

    `coefficients` [bytes] -> [bytes].
    Each process holds the interpreter and the CUDA libraries (`host_process_bytes`) and its data-loader workers. While loading, each
    process holds a copy of the weights as read; quantised models go to the GPU one file at a time (`host_file_bytes`), sharded stacks
    (stage 3) and model parallelism read one copy a node. Offloaded states and weights stay on the node that owns them; saving gathers the
    trained weights on rank 0.
    Known error: memory-mapped files count as used here although the kernel can drop them.
    """
    processes = np.minimum(setup.num_gpus, setup.gpus_per_node)
    each = coefficients["host_process_bytes"] + coefficients["host_workers"] * coefficients["host_worker_bytes"]
    weights = stored_bytes(model, setup)
    one = np.where(setup.quantized > 0, np.minimum(weights, coefficients["host_file_bytes"]), weights)
    together = (setup.shard_stage >= ShardStage.WEIGHTS) | (setup.tensor * setup.pipeline > 1)
    loading = one * np.where(together, 1.0, processes)
    saving = weights * is_full(setup)
    nodes = np.maximum(np.ceil(setup.num_gpus / setup.gpus_per_node), 1.0)
    moving: Array = np.maximum(loading, saving)
    return processes * each + moving + offloaded_bytes(model, setup) / nodes


def stored_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Weights as they lie on disk: 16 bits a parameter, 32 where the job stores fp32 -> [bytes]."""
    return parameters.total_parameters(model) * np.where(setup.other_weight_bytes >= FP32_BYTES, FP32_BYTES, 2.0)


def offloaded_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """States that live in host memory instead of the GPU: fp32 master, two moments and fp32 gradient; weights [bytes, whole job].

    -> [bytes].
    """
    trained = np.where(is_full(setup) > 0, parameters.total_parameters(model), setup.adapter_params)
    each = setup.optimizer_bytes + setup.master_bytes + setup.gradient_bytes + FP32_BYTES
    kept = setup.micro_batch * setup.seq_len * model.hidden_size * model.num_layers * setup.residual_bytes * setup.data
    states = setup.offload_optimizer * trained * each
    return states + setup.offload_params * stored_bytes(model, setup) + setup.offload_activations * kept


def checkpoint_file_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """One saved training state: what is trained, with its optimizer states (what a resume needs) -> [bytes]."""
    trained = np.where(is_full(setup) > 0, setup.trainable_params, setup.adapter_params)
    trained = np.where((is_full(setup) > 0) & (trained <= 0), parameters.total_parameters(model), trained)
    weight = np.where(is_full(setup) > 0, np.where(setup.other_weight_bytes >= FP32_BYTES, FP32_BYTES, 2.0), setup.adapter_weight_bytes)
    return trained * (weight + setup.master_bytes + setup.optimizer_bytes)


def disk_bytes(model: ModelColumns, setup: SetupColumns, *, kept_checkpoints: float) -> Array:
    """Base weights, saved states and one exported model.

    `kept_checkpoints` [1] -> [bytes].
    """
    base = stored_bytes(model, setup)
    return base + kept_checkpoints * checkpoint_file_bytes(model, setup) + is_full(setup) * base
