"""How many parameters a transformer has, matrix by matrix.

All functions take model columns of shape (N,) and return counts of shape (N,).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array, AttentionKind, Kind, Mlp, ModelColumns, Norm, remembered


def query_width(model: ModelColumns) -> Array:
    """Width of all query heads together: heads x head size."""
    return model.num_heads * model.head_dim


def value_width(model: ModelColumns) -> Array:
    """Width of all value heads as attention puts them out: heads x value head size (differs from the query's in MLA)."""
    return model.num_heads * np.where(model.v_head_dim > 0, model.v_head_dim, model.head_dim)


def key_value_width(model: ModelColumns) -> Array:
    """Width of keys and values together before they are repeated: 2 x kv heads x head size; MLA: latent plus rope key."""
    plain = 2.0 * model.num_kv_heads * model.head_dim
    return np.where(is_mla(model), model.kv_lora_rank + model.qk_rope_head_dim, plain)


def is_mla(model: ModelColumns) -> NDArray[np.bool_]:
    """Multi-head latent attention (DeepSeek-V2)."""
    return np.equal(model.attention_kind, AttentionKind.MLA)


def is_gated(model: ModelColumns) -> NDArray[np.bool_]:
    """Gated feed-forward block: three matrices instead of two."""
    return np.equal(model.mlp, Mlp.SWIGLU) | np.equal(model.mlp, Mlp.GEGLU)


@remembered
def attention_parameters(model: ModelColumns) -> Array:
    """Parameters of one self-attention block: Q, K, V, O with biases and QK norms; MLA's down and up projections.

    Shazeer (2019) for MQA, Ainslie et al. (2023) for GQA, DeepSeek-V2 (2024) for MLA.
    """
    hidden, out = model.hidden_size, value_width(model)
    plain = hidden * (query_width(model) + key_value_width(model)) + out * hidden
    plain = plain + model.qkv_bias * (query_width(model) + key_value_width(model)) + 2.0 * model.qk_norm * model.head_dim
    query = np.where(
        model.q_lora_rank > 0,
        hidden * model.q_lora_rank + model.q_lora_rank + model.q_lora_rank * query_width(model),
        hidden * query_width(model),
    )
    latent = hidden * key_value_width(model) + model.kv_lora_rank
    expand = model.kv_lora_rank * model.num_heads * (model.qk_nope_head_dim + model.v_head_dim)
    return np.where(is_mla(model), query + latent + expand + out * hidden, plain) + model.attention_out_bias * hidden


def mlp_parameters(model: ModelColumns) -> Array:
    """Parameters of one dense feed-forward block."""
    matrices = np.where(is_gated(model), 3.0, 2.0)
    bias = model.mlp_bias * ((matrices - 1.0) * model.intermediate_size + model.hidden_size)
    return matrices * model.hidden_size * model.intermediate_size + bias


def expert_parameters(model: ModelColumns) -> Array:
    """Parameters of one expert of a mixture-of-experts block."""
    matrices = np.where(is_gated(model), 3.0, 2.0)
    return matrices * model.hidden_size * model.moe_intermediate_size


def moe_parameters(model: ModelColumns) -> Array:
    """Parameters of one mixture-of-experts block: routed and shared experts and the router."""
    experts = (model.num_experts + model.num_shared_experts) * expert_parameters(model)
    return np.where(model.num_experts > 0, experts + model.hidden_size * model.num_experts, 0.0)


def norm_parameters(model: ModelColumns) -> Array:
    """Parameters of one normalisation layer."""
    return model.hidden_size * np.where(model.norm == Norm.LAYERNORM, 2.0, 1.0)


@remembered
def num_moe_layers(model: ModelColumns) -> Array:
    """Layers whose feed-forward block is a mixture of experts: all of them if the architecture has experts and does not say."""
    stated = np.where(model.num_moe_layers > 0, model.num_moe_layers, model.num_layers)
    return np.where(model.num_experts > 0, stated, 0.0)


def layer_parameters(model: ModelColumns) -> Array:
    """Mean parameters of one layer: attention, cross attention where there is any, feed-forward, norms."""
    layers = np.maximum(model.num_layers, 1.0)
    share = num_moe_layers(model) / layers
    cross = np.where(model.kind == Kind.ENCODER_DECODER, model.num_decoder_layers / layers, 0.0)
    feed = (1.0 - share) * mlp_parameters(model) + share * moe_parameters(model)
    return attention_parameters(model) * (1.0 + cross) + feed + norm_parameters(model) * (2.0 + cross)


def embedding_parameters(model: ModelColumns) -> Array:
    """Token embedding table."""
    return np.where(model.params_embedding > 0, model.params_embedding, model.vocab_size * model.hidden_size)


def head_parameters(model: ModelColumns) -> Array:
    """Output projection to the vocabulary when it is not tied to the embedding."""
    own_head = model.has_lm_head * (1.0 - model.tied_embeddings) * np.where(model.kind == Kind.ENCODER, 0.0, 1.0)
    return own_head * model.vocab_size * model.hidden_size


def formula_parameters(model: ModelColumns) -> Array:
    """Total parameters from the dimensions alone.

    Encoders have BERT's pooler. Known error: state-space layers and vision towers are not derived (`params_vision` is added as given), nor are
    shared layers (ALBERT) and extra projections (DeBERTa, XLNet, Longformer); total_parameters takes the published count there.
    """
    positions = model.learned_positions * model.max_position * model.hidden_size
    body = model.num_layers * layer_parameters(model) + norm_parameters(model)
    pooler = np.where(model.kind == Kind.ENCODER, model.hidden_size * (model.hidden_size + 1.0), 0.0)
    return embedding_parameters(model) + head_parameters(model) + positions + body + pooler + model.params_vision


@remembered
def total_parameters(model: ModelColumns) -> Array:
    """Published count where there is one, the formula's otherwise."""
    return np.where(model.params_total > 0, model.params_total, formula_parameters(model))


@remembered
def body_parameters(model: ModelColumns) -> Array:
    """Parameters of the transformer layers (and the vision tower): all but embedding and head."""
    return np.maximum(total_parameters(model) - embedding_parameters(model) - head_parameters(model), 0.0)


@remembered
def routed_expert_parameters(model: ModelColumns) -> Array:
    """Parameters of all routed experts of the model, what expert parallelism divides."""
    return np.minimum(num_moe_layers(model) * model.num_experts * expert_parameters(model), body_parameters(model))


@remembered
def linear_parameters(model: ModelColumns) -> Array:
    """Parameters of the linear layers inside the transformer layers: what k-bit quantisation compresses."""
    norms = model.num_layers * 2.0 * norm_parameters(model)
    router = num_moe_layers(model) * model.hidden_size * model.num_experts
    return np.maximum(body_parameters(model) - norms - router - model.params_vision, 0.0)


def adapter_parameters(
    model: ModelColumns, *, rank: Array, query: Array, key_value: Array, output: Array, up: Array, down: Array, experts: Array
) -> Array:
    """Parameters of LoRA matrices A (in x r) and B (r x out) over the whole model, Hu et al. (2021).

    rank: (N,) [1]; query, output, down, experts: (N,) 0 or 1; key_value, up: (N,) number of adapted matrices, 0 to 2.
    A mixture of experts has the feed-forward adapters on each expert only where `experts` is 1, else on shared experts only.
    """
    hidden = model.hidden_size
    attention = query * (hidden + query_width(model)) + key_value * (hidden + key_value_width(model) / 2.0)
    attention = attention + output * (value_width(model) + hidden)
    feed_dense = (up + down) * (hidden + model.intermediate_size)
    copies = model.num_shared_experts + experts * model.num_experts
    feed_moe = copies * (up + down) * (hidden + model.moe_intermediate_size)
    moe_layers = num_moe_layers(model)
    return rank * (model.num_layers * attention + (model.num_layers - moe_layers) * feed_dense + moe_layers * feed_moe)
