"""Weights, gradients, optimizer states: what lies in memory for the whole run, per GPU.

All functions take columns of shape (N,) and return bytes per GPU of shape (N,). Sharding follows ZeRO (Rajbhandari et al. 2020):
stage 1 divides optimizer states and master weights over `shard_degree` ranks, stage 2 also gradients, stage 3 also weights.
Tensor and pipeline parallelism divide everything of a layer; expert parallelism divides the routed experts.

Source: Rajbhandari et al. 2020 (ZeRO).
"""

from __future__ import annotations

import numpy as np

from rightfit.physics import parameters
from rightfit.physics.columns import Array, Method, ModelColumns, SetupColumns, ShardStage
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class ParameterShare:
    """Parameters that one GPU of a pipeline stage works with, before ZeRO divides them; each an array of shape (N,) [1].

    `linear` and `other` make up the dense part of the layers, `experts` the routed experts, `embedding` and `head` the two ends.

    Units: `linear`, `other`, `experts`, `embedding`, `head`, `vision` [parameters].
    """

    linear: Array
    other: Array
    experts: Array
    embedding: Array
    head: Array
    vision: Array

    @property
    def total(self) -> Array:
        """All of them -> [parameters]."""
        return self.linear + self.other + self.experts + self.embedding + self.head + self.vision


def parameter_share(model: ModelColumns, setup: SetupColumns, *, first: bool, last: bool) -> ParameterShare:
    """Parameters of the first, last or a middle pipeline stage after tensor, pipeline and expert parallelism.

    A stage holds ceil(layers / pipeline) layers. Tied embeddings are held by both ends when the pipeline has more than one stage.
    """
    fraction = stage_fraction(model, setup)
    linear, body = parameters.linear_parameters(model), parameters.body_parameters(model)
    experts = parameters.routed_expert_parameters(model)
    embedding, head = parameters.embedding_parameters(model), parameters.head_parameters(model)
    split = setup.pipeline > 1
    tied_copy = np.where(split & (model.tied_embeddings > 0), embedding, 0.0)
    return ParameterShare(
        linear=np.maximum(linear - experts, 0.0) * fraction / setup.tensor,
        other=np.maximum(body - linear - model.params_vision, 0.0) * fraction,
        experts=experts * fraction / (setup.tensor * setup.expert),
        embedding=np.where(split & (not first), 0.0, embedding) / setup.tensor,
        head=np.where(split & (not last), 0.0, head + tied_copy * float(last and not first)) / setup.tensor,
        vision=np.where(split & (not first), 0.0, model.params_vision) + 0.0 * fraction,
    )


def stage_fraction(model: ModelColumns, setup: SetupColumns) -> Array:
    """Part of the layers that the fullest pipeline stage holds -> [1]."""
    layers = np.maximum(model.num_layers, 1.0)
    return np.ceil(layers / setup.pipeline) / layers


def weights_bytes(share: ParameterShare, setup: SetupColumns) -> Array:
    """Stored weights of the base model, sharded where the stage is 3 -> [bytes]."""
    dense = (
        share.linear * setup.linear_weight_bytes + (share.other + share.embedding + share.head + share.vision) * setup.other_weight_bytes
    )
    shards = _shards(setup, stage=ShardStage.WEIGHTS)
    return dense / shards + share.experts * setup.linear_weight_bytes / expert_shards(setup, stage=ShardStage.WEIGHTS)


def trained_share(share: ParameterShare, model: ModelColumns, setup: SetupColumns) -> tuple[Array, Array]:
    """Trained parameters of this GPU before ZeRO: (dense, routed experts). Adapters follow the layers they sit on.

    -> [parameters], [parameters].
    """
    total = parameters.total_parameters(model)
    full = is_full(setup)
    adapter = setup.adapter_params * stage_fraction(model, setup) / setup.tensor
    fraction = np.where(setup.trainable_params > 0, np.minimum(setup.trainable_params / np.maximum(total, 1.0), 1.0), 1.0)
    dense = np.where(full, (share.total - share.experts) * fraction, adapter)
    return dense, np.where(full, share.experts * fraction, 0.0)


def is_full(setup: SetupColumns) -> Array:
    """1 where the base weights themselves are trained -> [flag]."""
    method = setup.method
    trained: Array = ((method == Method.FULL) | (method == Method.GALORE) | (method == Method.FREEZE)).astype(np.float64)
    return trained


def adapter_bytes(dense_trained: Array, setup: SetupColumns) -> Array:
    """Weights of adapters; they are sharded with the base at stage 3.

    `dense_trained` [parameters] -> [bytes].
    """
    return np.where(is_full(setup) > 0, 0.0, dense_trained * setup.adapter_weight_bytes / _shards(setup, stage=ShardStage.WEIGHTS))


def gradients_bytes(dense: Array, experts: Array, setup: SetupColumns) -> Array:
    """Gradients and their accumulation buffer.

    `dense`, `experts` [parameters] -> [bytes].
    """
    each = setup.gradient_bytes + setup.accumulation_bytes
    return each * (dense / _shards(setup, stage=2.0) + experts / expert_shards(setup, stage=2.0))


def optimizer_bytes(dense: Array, experts: Array, setup: SetupColumns) -> Array:
    """Optimizer states on the GPU; none where they are offloaded to the host.

    `dense`, `experts` [parameters] -> [bytes].
    """
    here = 1.0 - setup.offload_optimizer
    return here * setup.optimizer_bytes * (dense / _shards(setup, stage=1.0) + experts / expert_shards(setup, stage=1.0))


def master_bytes(dense: Array, experts: Array, setup: SetupColumns) -> Array:
    """fp32 master copy of 16-bit weights.

    `dense`, `experts` [parameters] -> [bytes].
    """
    here = 1.0 - setup.offload_optimizer
    return here * setup.master_bytes * (dense / _shards(setup, stage=1.0) + experts / expert_shards(setup, stage=1.0))


def step_scratch_bytes(dense: Array, experts: Array, setup: SetupColumns) -> Array:
    """Scratch of the optimizer step: torch's foreach AdamW makes one temporary of the size of a state, for all parameters at once;
    DeepSpeed takes `scratch_limit` elements at a time (sub_group_size).

    `dense`, `experts` [parameters] -> [bytes].
    """
    here = 1.0 - setup.offload_optimizer
    elements = dense / _shards(setup, stage=1.0) + experts / expert_shards(setup, stage=1.0)
    at_once = np.where(setup.scratch_limit > 0, np.minimum(elements, setup.scratch_limit), elements)
    return here * setup.optimizer_temporary_bytes * at_once


def _shards(setup: SetupColumns, *, stage: float) -> Array:
    return np.where(setup.shard_stage >= stage, np.maximum(setup.shard_degree, 1.0), 1.0)


def expert_shards(setup: SetupColumns, *, stage: float) -> Array:
    """Ranks over which ZeRO divides routed experts: those that hold the same experts.

    `stage` [code] -> [GPUs].
    """
    return np.maximum(_shards(setup, stage=stage) / np.where(setup.shard_stage >= stage, setup.expert, 1.0), 1.0)
