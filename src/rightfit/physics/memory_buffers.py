"""Buffers of sharded and distributed training: gathered weights, gradients on their way, buckets, dequantised layers.

Source: Rajbhandari et al. 2020 (ZeRO), Li et al. 2020 (PyTorch Distributed), Zhao et al. 2023 (PyTorch FSDP);
docs/decisions/memory-physics.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightfit.physics import parameters
from rightfit.physics.columns import Array, ModelColumns, Recompute, SetupColumns, ShardStage
from rightfit.physics.memory_states import ParameterShare, is_full, stage_fraction


def layer_share(share: ParameterShare, model: ModelColumns, setup: SetupColumns) -> Array:
    """Parameters of one layer on this GPU before ZeRO [1]; routed experts included -> [parameters]."""
    layers = np.maximum(model.num_layers * stage_fraction(model, setup), 1.0)
    return (share.linear + share.other + share.experts) / layers


def gathered_bytes(share: ParameterShare, model: ModelColumns, setup: SetupColumns, *, prefetched_layers: float) -> Array:
    """Stage 3: whole layers gathered for computing (the current one and those prefetched).

    `prefetched_layers` [layers] -> [bytes].
    Quantised layers are gathered in their packed form.
    """
    width = np.where(setup.quantized > 0, setup.linear_weight_bytes, setup.gather_bytes)
    alive = np.where(keeps_stage(setup), np.ceil(model.num_layers / setup.pipeline), 1.0 + prefetched_layers)
    return np.where(
        (setup.shard_stage >= ShardStage.WEIGHTS) & (setup.shard_degree > 1), layer_share(share, model, setup) * width * alive, 0.0
    )


def keeps_stage(setup: SetupColumns) -> NDArray[np.bool_]:
    """Pipelines of sharded stages keep a stage's weights gathered, and its gradients whole, over all micro-batches of a step.

    -> [flag].
    """
    return np.greater(setup.pipeline, 1.0) & np.equal(setup.naive_pipeline, 0.0)


def root_bytes(share: ParameterShare, setup: SetupColumns) -> Array:
    """Stage 3: embedding, head and final norm, gathered together and kept from the forward to the end of the backward pass -> [bytes]."""
    width = np.where(setup.quantized > 0, setup.other_weight_bytes, setup.gather_bytes)
    return np.where((setup.shard_stage >= ShardStage.WEIGHTS) & (setup.shard_degree > 1), (share.embedding + share.head) * width, 0.0)


def unsharded_gradient_bytes(share: ParameterShare, model: ModelColumns, setup: SetupColumns) -> Array:
    """Stage 2 and 3: gradients of one whole layer before they are reduced and scattered, and the copy in the width of the reduction.

    -> [bytes].
    """
    layer = layer_share(share, model, setup)
    wide = np.where(setup.reduce_bytes > setup.gather_bytes, setup.reduce_bytes, 0.0)
    one = layer * (setup.gather_bytes + wide)
    whole = layer * (setup.gather_bytes + setup.reduce_bytes * np.ceil(model.num_layers / setup.pipeline))
    held = np.where(keeps_stage(setup), whole, one)
    return np.where((setup.shard_stage >= ShardStage.GRADIENTS) & (setup.shard_degree > 1), held, 0.0) * is_full(setup)


def autocast_copies(share: ParameterShare, model: ModelColumns, setup: SetupColumns) -> tuple[Array, Array]:
    """16-bit copies of fp32 weights under autocast: (at the loss, in the backward pass) -> [bytes], [bytes].

    Without recomputation the graph holds the copies of all layers until their backward pass. With recomputation the cache of autocast still
    holds those of trained weights until the forward pass ends, and the backward pass sees one layer at a time. Sharded stacks cast what
    they gather.
    """
    casts = np.where((setup.autocast > 0) & (setup.shard_stage < ShardStage.WEIGHTS) & (setup.quantized == 0), setup.activation_bytes, 0.0)
    everything = casts * (share.linear + share.experts + share.head)
    layer = casts * layer_share(share, model, setup)
    stored = setup.recompute == Recompute.NONE
    return np.where(stored | (is_full(setup) > 0), everything, layer), np.where(stored, everything, layer)


def gradient_workspace_bytes(share: ParameterShare, model: ModelColumns, setup: SetupColumns) -> Array:
    """Standing buffers that Transformer Engine hands to autograd in place of gradients it has already added up: one layer's weights.

    -> [bytes].
    """
    return setup.layer_gradient_workspace * layer_share(share, model, setup) * setup.activation_bytes


def bucket_bytes(trained: Array, setup: SetupColumns, *, bucket_elements: float) -> Array:
    """Replicated training: DistributedDataParallel's buckets hold a second copy of all gradients; ZeRO-1/2 two reduce buckets.

    `trained` [parameters], `bucket_elements` [elements] -> [bytes].
    """
    several = setup.data > 1
    replicated = several & (setup.shard_stage == 0) & (setup.accumulation_bytes == 0)
    ddp = np.where(replicated, trained * setup.gradient_bytes, 0.0)
    zero = several & (setup.shard_stage > 0) & (setup.shard_stage < ShardStage.WEIGHTS) & (setup.accumulation_bytes == 0)
    return ddp + np.where(zero, np.minimum(bucket_elements, trained) * 2.0 * setup.reduce_bytes, 0.0)


def dequantised_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """The largest matrix of a quantised model, expanded for its product and its gradient -> [bytes]."""
    dense = model.hidden_size * np.maximum(model.intermediate_size, model.moe_intermediate_size)
    largest = np.where(parameters.num_moe_layers(model) > 0, model.hidden_size * model.moe_intermediate_size, dense)
    return np.where(setup.quantized > 0, largest * setup.activation_bytes, 0.0)
