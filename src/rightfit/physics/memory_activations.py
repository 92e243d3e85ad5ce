"""Activations that the forward pass keeps for the backward pass, operator by operator.

All functions return bytes per token of the micro-batch and per layer (shape (N,)), so that tokens and layers multiply afterwards.
Tensors inside a tensor-parallel region are divided by `tensor`; with sequence parallelism so are the others
(Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models").

What an operator keeps follows PyTorch's autograd: a matrix product keeps its input only when its weight (or an adapter on it) is trained;
a product of two activations keeps both; a normalisation written out in fp32 keeps its fp32 input.

Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics import parameters
from rightfit.physics.columns import Array, AttentionKernel, Mlp, ModelColumns, Norm, SetupColumns
from rightfit.physics.memory_states import is_full
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES


@dataclass(frozen=True, slots=True)
class LayerActivations:
    """Bytes per token that one layer keeps, by part; shape (N,) each. `scores` are the parts that grow with the square of the length.

    Units: `norms`, `attention`, `scores`, `feed_forward`, `adapters` [bytes/token].
    """

    norms: Array
    attention: Array
    scores: Array
    feed_forward: Array
    adapters: Array

    @property
    def total(self) -> Array:
        """All parts -> [bytes/token]."""
        return self.norms + self.attention + self.scores + self.feed_forward + self.adapters


def layer_activations(model: ModelColumns, setup: SetupColumns) -> LayerActivations:
    """What one mean layer keeps without recomputation."""
    return LayerActivations(
        norms=norm_bytes(model, setup),
        attention=attention_bytes(model, setup),
        scores=score_bytes(model, setup),
        feed_forward=feed_forward_bytes(model, setup),
        adapters=adapter_input_bytes(model, setup),
    )


def outside_divisor(setup: SetupColumns) -> Array:
    """What divides tensors outside the tensor-parallel region: the tensor degree with sequence parallelism, else 1 -> [1]."""
    return np.where(setup.sequence_parallel > 0, setup.tensor, 1.0)


def norm_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Two normalisations (three with cross attention): a fused kernel keeps its input; RMSNorm written out keeps an fp32 copy and,
    where its weight is trained, the normalised tensor as well. Under autocast LayerNorm runs in fp32.

    -> [bytes/token].
    """
    width = model.hidden_size
    fused = np.where(setup.autocast > 0, FP32_BYTES, setup.residual_bytes)
    unfused = np.where(is_full(setup) > 0, setup.norm_saved_bytes + setup.residual_bytes - 2.0, FP32_BYTES)
    each = np.where((setup.fused_kernels > 0) | (model.norm == Norm.LAYERNORM), fused, unfused)
    dropout = np.where(setup.dropout > 0, 2.0, 0.0)  # one byte of mask after attention, one after the feed-forward block
    return width * (2.0 * each + dropout) / outside_divisor(setup)


def attention_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Input of Q, K, V; Q, K, V themselves; the output; the log-sum-exp of flash attention; MLA's latents -> [bytes/token].

    Where Q, K, V come from one fused projection and rotary embedding makes new Q and K, V is a view that holds the old ones too.
    """
    a = setup.activation_bytes
    query, value = parameters.query_width(model), parameters.value_width(model)
    eager = setup.attention == AttentionKernel.EAGER
    expanded = eager | ((setup.attention == AttentionKernel.SDPA) & (setup.expanded_key_value > 0))
    keys_values = np.where(expanded, query + value, 2.0 * model.num_kv_heads * model.head_dim)
    keys_values = np.where(
        parameters.is_mla(model), query + value + model.num_heads * (model.qk_nope_head_dim + model.v_head_dim), keys_values
    )
    latents = np.where(
        parameters.is_mla(model),
        2.0 * (model.q_lora_rank + model.kv_lora_rank) + FP32_BYTES * (model.q_lora_rank + model.kv_lora_rank) / a,
        0.0,
    )
    statistics = np.where(eager, 0.0, FP32_BYTES * model.num_heads)
    qk_norm = (
        model.qk_norm * (FP32_BYTES + is_full(setup) * a) * (query + model.num_kv_heads * model.head_dim) * (1.0 - setup.fused_kernels)
    )
    # Queries and keys before rotation, held by the view; eager attention copies the values out of it.
    held = np.where(eager, 0.0, setup.fused_query_key_value * (query + model.num_kv_heads * model.head_dim))
    inside = a * (query + keys_values + value + held) + statistics + qk_norm
    keeps_input = keeps_attention_input(setup) + autocast_input_copies(setup) * np.where(setup.fused_query_key_value > 0, 0.0, 2.0)
    return inside / setup.tensor + a * (model.hidden_size * keeps_input + latents) / outside_divisor(setup)


def score_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Score matrices of eager attention: the softmax (in fp32 where it is upcast) and its 16-bit copy; with dropout a mask and one more
    copy.

    -> [bytes/token].
    """
    a = setup.activation_bytes
    upcast = np.where(
        (setup.dropout > 0) | (setup.softmax_upcast <= 0), 0.0, FP32_BYTES
    )  # kernels with dropout keep the softmax in 16 bits
    per_pair = upcast + a + np.where(setup.dropout > 0, 1.0 + a, 0.0)
    length = setup.seq_len * setup.token_fraction
    eager = setup.attention == AttentionKernel.EAGER
    with_scores = np.where(model.num_linear_layers > 0, 1.0 - model.num_linear_layers / np.maximum(model.num_layers, 1.0), 1.0)
    return np.where(eager, per_pair * model.num_heads * length * with_scores / setup.tensor, 0.0)


def keeps_attention_input(setup: SetupColumns) -> Array:
    """1 where the input of Q, K, V is kept: full training, or an adapter that reads it without a cast of its own -> [flag]."""
    shared = (setup.adapter_on_query + setup.adapter_on_key_value > 0) & (setup.adapter_weight_bytes == setup.activation_bytes)
    kept: Array = np.maximum(keeps_inputs(setup), shared.astype(np.float64))
    return kept


def autocast_input_copies(setup: SetupColumns) -> Array:
    """1 where each product casts the fp32 output of a normalisation for itself, so that products of one input keep a copy each -> [flag]."""
    return np.where((setup.autocast > 0) & (setup.residual_bytes == FP32_BYTES), is_full(setup), 0.0)


def keeps_inputs(setup: SetupColumns) -> Array:
    """1 where every matrix product keeps its input: its weight is trained, or its kernel keeps it regardless -> [flag]."""
    kept: Array = np.maximum(is_full(setup), setup.keeps_linear_inputs)
    return kept


def feed_forward_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Mean over layers of the dense block and the mixture of experts -> [bytes/token]."""
    layers = np.maximum(model.num_layers, 1.0)
    moe = parameters.num_moe_layers(model) / layers
    dense = _block_bytes(model, setup, model.intermediate_size, setup.tensor) + _input_bytes(model, setup)
    return (1.0 - moe) * dense + moe * moe_bytes(model, setup)


def moe_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Routed experts see `experts_per_token` copies of the token: gathered input, inner tensors, output before weighting; shared experts
    one.

    -> [bytes/token].
    """
    routed = model.experts_per_token * (
        _block_bytes(model, setup, model.moe_intermediate_size, setup.tensor) + setup.routed_bytes * model.hidden_size
    )
    shared = _block_bytes(model, setup, model.moe_intermediate_size * model.num_shared_experts, setup.tensor)
    router = FP32_BYTES * 3.0 * model.num_experts
    return routed + shared + router + _input_bytes(model, setup)


def _block_bytes(model: ModelColumns, setup: SetupColumns, width: Array, divisor: Array) -> Array:
    """Inner tensors of one feed-forward block of `width`."""
    a = setup.activation_bytes
    keeps_down = np.maximum(keeps_inputs(setup), ((setup.adapter_on_down > 0) & (setup.adapter_weight_bytes == a)).astype(np.float64))
    gated = np.where(setup.fused_kernels > 0, 2.0, 3.0) + keeps_down
    plain = np.where(model.mlp == Mlp.RELU, 1.0, np.where(setup.fused_kernels > 0, 1.0, setup.gelu_tensors) + keeps_down)
    return a * width * np.where(parameters.is_gated(model), gated, plain) / divisor


def _input_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Input of the feed-forward block, kept for the gradients of its first matrices."""
    a = setup.activation_bytes
    keeps: Array = np.maximum(keeps_inputs(setup), ((setup.adapter_on_up > 0) & (setup.adapter_weight_bytes == a)).astype(np.float64))
    keeps = keeps + autocast_input_copies(setup) * parameters.is_gated(model)
    return a * model.hidden_size * keeps / outside_divisor(setup)


def adapter_input_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Inputs of LoRA's A matrices that are copies: cast to the adapter's width, or after the adapter's own dropout (one more byte of mask).

    -> [bytes/token].
    """
    copies = (setup.adapter_weight_bytes != setup.activation_bytes) | (setup.adapter_dropout > 0)
    each = np.where(setup.autocast + (setup.compute_dtype > 0) > 0, setup.activation_bytes, setup.adapter_weight_bytes)
    each = each + np.where(setup.adapter_dropout > 0, 1.0, 0.0)
    on_hidden = _modules_on_hidden(setup)
    width = on_hidden * model.hidden_size + setup.adapter_on_output * parameters.value_width(model)
    width = width + setup.adapter_on_down * np.where(model.num_experts > 0, model.moe_intermediate_size, model.intermediate_size)
    modules = on_hidden + setup.adapter_on_output + setup.adapter_on_down
    inner = modules * setup.adapter_rank * setup.activation_bytes
    return np.where(copies, each * width / setup.tensor, 0.0) + inner


def _modules_on_hidden(setup: SetupColumns) -> Array:
    """Adapters that read the hidden state of a layer; one fused projection carries one adapter -> [1]."""
    attention = setup.adapter_on_query + setup.adapter_on_key_value
    return np.where(setup.fused_query_key_value > 0, np.minimum(attention, 1.0), attention) + setup.adapter_on_up


def checkpoint_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """What full recomputation keeps of one layer: its input -> [bytes/token]."""
    return model.hidden_size * setup.residual_bytes / outside_divisor(setup)


def selective_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """What selective recomputation keeps of one layer -> [bytes/token].

    With eager attention (Korthikanti et al. 2022) everything but the score matrices; with fused attention the score matrices do not exist
    and stacks keep the layer's input, the outputs of attention and half of the matrix products (PyTorch's per-operator policy).
    """
    a = setup.activation_bytes
    parts = layer_activations(model, setup)
    width = parameters.query_width(model) + 2.0 * model.num_kv_heads * model.head_dim + 2.0 * model.hidden_size
    width = width + np.where(parameters.is_gated(model), 2.0, 1.0) * model.intermediate_size
    policy = (
        checkpoint_bytes(model, setup) + a * (parameters.value_width(model) + 0.5 * width) / setup.tensor + FP32_BYTES * model.num_heads
    )
    eager = setup.attention == AttentionKernel.EAGER
    return np.where(eager, parts.total - parts.scores, np.minimum(policy, parts.total))


def backward_scratch_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Gradients of activations that live at the widest point of one layer's backward pass: the feed-forward block's, and the residual's.

    -> [bytes/token].
    """
    a = setup.activation_bytes
    moe = parameters.num_moe_layers(model) > 0
    at_once = np.where(setup.expert_loop > 0, model.experts_per_token / np.maximum(model.num_experts, 1.0), model.experts_per_token)
    width = np.where(moe, model.moe_intermediate_size * np.maximum(at_once, model.num_shared_experts), model.intermediate_size)
    inner = 2.0 * a * width / setup.tensor
    # When attention runs backward, the feed-forward block has been let go.
    scores = np.maximum(score_bytes(model, setup) - feed_forward_bytes(model, setup), 0.0)
    widest: Array = np.maximum(inner, scores)
    return widest + 2.0 * setup.residual_bytes * model.hidden_size / outside_divisor(setup)
