"""Time of the operators that move bytes instead of multiplying: norms, residuals, activations, casts, loss, update.

Each is bytes moved / (fraction x memory bandwidth). A "pass" is one read or one write of the operator's tensor; how many an implementation
makes (fused, compiled, eager) is a coefficient. The bytes of a pass follow the activation dtype.

Source: accounting of bytes; Williams et al. 2009 (roofline); docs/decisions/speed-time-physics.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array, DeviceColumns, Kind, ModelColumns, Norm, SetupColumns, ShardStage
from rightfit.physics.flops import attention_layers, head_share, is_gated, trains_weights
from rightfit.physics.rates import RateColumns


def achieved_bandwidth(device: DeviceColumns, rates: RateColumns) -> Array:
    """Streaming bandwidth -> [bytes/s]."""
    return np.maximum(device.memory_bandwidth * rates.bandwidth_fraction, 1.0)


def uses_dropout(model: ModelColumns, setup: SetupColumns) -> Array:
    """1 where dropout runs: stated, or an encoder or encoder-decoder (BERT, T5: 0.1 by default) -> [flag]."""
    usual = (model.kind == Kind.ENCODER) | (model.kind == Kind.ENCODER_DECODER)
    return np.where((setup.dropout > 0) | usual, 1.0, 0.0)


def token_bytes(model: ModelColumns, setup: SetupColumns, rates: RateColumns) -> Array:
    """Bytes that one token moves through the memory-bound operators of all layers in a forward pass -> [bytes/token].

    Replicated over the tensor group unless sequence-parallel, at the width of the residual stream: norms, residual, dropout; divided by it,
    at the width of activations: rotary embedding, activation function.
    """
    full, sliding, linear = attention_layers(model)
    layers = model.num_layers
    shared_by = np.where(setup.sequence_parallel > 0, setup.tensor, 1.0)
    # Layer normalisation has been one fused kernel since 2018; only root-mean-square norms are written out in eager code.
    norms = np.where(model.norm == Norm.RMSNORM, rates.norm_passes, np.minimum(rates.norm_passes, 2.0))
    dropout = rates.dropout_passes * uses_dropout(model, setup)
    hidden = layers * model.hidden_size * (2.0 * norms + 2.0 * rates.residual_passes + 2.0 * dropout) / shared_by
    heads = (model.num_heads + model.num_kv_heads) * model.head_dim
    rotary = np.where((model.learned_positions > 0) | (model.kind == Kind.ENCODER), 2.0, rates.rope_passes + 2.0)
    attention = (full + sliding) * heads * (rotary + model.qk_norm * norms) / setup.tensor
    mixer = linear * 2.0 * model.hidden_size * rates.mixer_passes / setup.tensor
    inner = attention + mixer + _feed_forward_elements(model, setup, rates)
    # k-bit preparation upcasts the norms, and with them the stream between layers.
    wide = np.where((setup.upcast_norms > 0) & (setup.quantized > 0), np.maximum(setup.residual_bytes, 2.0), setup.activation_bytes)
    return rates.pass_factor * (hidden * wide + inner * setup.activation_bytes)


def _feed_forward_elements(model: ModelColumns, setup: SetupColumns, rates: RateColumns) -> Array:
    gate = is_gated(model)
    # Ungated: one read, one write. Gated and eager: activation (2 passes), then product with the other half (3).
    passes = np.where(gate > 0, rates.activation_passes, 2.0)
    dense = (model.num_layers - model.num_moe_layers) * model.intermediate_size
    expert = model.moe_intermediate_size * (model.experts_per_token + model.num_shared_experts)
    routed = rates.routed_passes * model.hidden_size * model.experts_per_token
    return (passes * (dense + model.num_moe_layers * expert) + model.num_moe_layers * routed) / setup.tensor


def layers_forward_s(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns, *, tokens: Array) -> Array:
    """Forward seconds of the memory-bound operators of all layers for `tokens` tokens per rank.

    `tokens` [tokens] -> [s].
    """
    return tokens * token_bytes(model, setup, rates) / achieved_bandwidth(device, rates)


def weight_cast_s(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> Array:
    """Seconds of casting fp32 weights to the compute dtype under autocast, per forward pass of one micro-batch, all layers of a rank.

    -> [s].
    """
    body = np.maximum(model.params_total - model.params_embedding, 0.0) / (setup.tensor * np.maximum(setup.expert, 1.0))
    moved = body * (setup.other_weight_bytes + 2.0)
    casts = (setup.autocast > 0) & (setup.other_weight_bytes > 2.0) & (setup.compute_dtype > 1)
    return np.where(casts, moved / achieved_bandwidth(device, rates), 0.0)


def dequantise_s(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> Array:
    """Seconds to expand every frozen quantised weight once to 16 bit, all layers of a rank -> [s].

    `dequantise_bytes` of the setup says what the kernel moves per parameter; not stated: read packed, write 2 bytes.
    """
    body = np.maximum(model.params_total - model.params_embedding, 0.0) / setup.tensor
    moved = body * np.where(setup.dequantise_bytes > 0, setup.dequantise_bytes, setup.linear_weight_bytes + 2.0)
    return np.where(setup.quantized > 0, moved / (achieved_bandwidth(device, rates) * rates.dequantise_fraction), 0.0)


def loss_s(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns, *, tokens: Array) -> Array:
    """Forward and backward seconds of the loss over the vocabulary: `loss_bytes` per logit.

    `tokens` [tokens] -> [s].
    """
    logits = tokens * model.vocab_size * head_share(model) / setup.tensor
    return logits * rates.loss_bytes / achieved_bandwidth(device, rates)


def update_s(setup: SetupColumns, device: DeviceColumns, rates: RateColumns, *, trained_params: Array) -> Array:
    """Seconds of the optimizer update of `trained_params` parameters on one GPU.

    `trained_params` [parameters] -> [s].
    Reads the gradient, reads and writes state and master weights, writes the weight; gradient clipping reads the gradient once more.
    """
    state = 2.0 * setup.optimizer_bytes + 2.0 * setup.master_bytes
    moved = trained_params * (2.0 * setup.gradient_bytes + state + 2.0 * setup.other_weight_bytes)
    return moved * rates.update_passes / achieved_bandwidth(device, rates)


def accumulate_s(setup: SetupColumns, device: DeviceColumns, rates: RateColumns, *, trained_params: Array) -> Array:
    """Seconds per micro-batch of adding `trained_params` gradients of a rank to those of earlier micro-batches.

    `trained_params` [parameters] -> [s].
    Read the new, read and write the sum, unless the weight-gradient product adds by itself. Nothing with one micro-batch, and little where
    gradients are sharded each micro-batch (stages 2, 3).
    """
    width = np.maximum(setup.gradient_bytes, setup.accumulation_bytes)
    moved = trained_params * rates.accumulate_passes * width / achieved_bandwidth(device, rates)
    return np.where((setup.grad_accum > 1) & (setup.shard_stage < ShardStage.GRADIENTS), moved, 0.0)


def trained_params(model: ModelColumns, setup: SetupColumns) -> Array:
    """Trained parameters of the whole model -> [parameters]."""
    full = trains_weights(setup) > 0
    return np.where(setup.trainable_params > 0, setup.trainable_params, np.where(full, model.params_total, setup.adapter_params))
