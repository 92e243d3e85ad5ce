"""How many parameters a transformer has, matrix by matrix.

All functions take model columns of shape (N,) and return counts of shape (N,).

Source: accounting; Vaswani et al. 2017, Shazeer 2019, Ainslie et al. 2023, DeepSeek-AI 2024 (DeepSeek-V2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array, AttentionKind, Kind, Mlp, ModelColumns, Norm, remembered

#: Experts whose published counts leave less than this of their dense size work in a latent width.
LATENT_SHARE = 0.95


def query_width(model: ModelColumns) -> Array:
    """Width of all query heads together: heads x head size -> [elements]."""
    return model.num_heads * model.head_dim


def value_width(model: ModelColumns) -> Array:
    """Width of all value heads as attention puts them out: heads x value head size (differs from the query's in MLA) -> [elements]."""
    return model.num_heads * np.where(model.v_head_dim > 0, model.v_head_dim, model.head_dim)


def key_value_width(model: ModelColumns) -> Array:
    """Width of keys and values together before they are repeated: 2 x kv heads x head size; MLA: latent plus rope key -> [elements]."""
    plain = 2.0 * model.num_kv_heads * model.head_dim
    return np.where(is_mla(model), model.kv_lora_rank + model.qk_rope_head_dim, plain)


def is_mla(model: ModelColumns) -> NDArray[np.bool_]:
    """Multi-head latent attention (DeepSeek-V2) -> [flag]."""
    return np.equal(model.attention_kind, AttentionKind.MLA)


def is_gated(model: ModelColumns) -> NDArray[np.bool_]:
    """Gated feed-forward block: three matrices instead of two -> [flag]."""
    return np.equal(model.mlp, Mlp.SWIGLU) | np.equal(model.mlp, Mlp.GEGLU)


@remembered
def attention_parameters(model: ModelColumns) -> Array:
    """Parameters of one self-attention block: Q, K, V, O with biases and QK norms; MLA's down and up projections -> [parameters].

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
    """Parameters of one dense feed-forward block -> [parameters]."""
    matrices = np.where(is_gated(model), 3.0, 2.0)
    bias = model.mlp_bias * ((matrices - 1.0) * model.intermediate_size + model.hidden_size)
    return matrices * model.hidden_size * model.intermediate_size + bias


@remembered
def expert_hidden_size(model: ModelColumns) -> Array:
    """Width in which routed experts see a token: the hidden size, or the latent one that the published counts imply -> [elements].

    What a token does not pass through are the other experts: total - active = layers x (experts - chosen) x parameters of one.
    """
    idle = num_moe_layers(model) * (model.num_experts - model.experts_per_token)
    dense = np.where(is_gated(model), 3.0, 2.0) * model.hidden_size * model.moe_intermediate_size
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (model.params_total - model.params_active) / (idle * dense)
    is_latent = (idle > 0) & (dense > 0) & (model.params_active > 0) & (share > 0) & (share < LATENT_SHARE)
    return np.where(is_latent, share, 1.0) * model.hidden_size


def expert_parameters(model: ModelColumns) -> Array:
    """Parameters of one routed expert of a mixture-of-experts block -> [parameters]."""
    matrices = np.where(is_gated(model), 3.0, 2.0)
    return matrices * expert_hidden_size(model) * model.moe_intermediate_size


def shared_expert_parameters(model: ModelColumns) -> Array:
    """Parameters of one shared expert, which always sees the whole hidden state -> [parameters]."""
    return np.where(is_gated(model), 3.0, 2.0) * model.hidden_size * model.moe_intermediate_size


def moe_parameters(model: ModelColumns) -> Array:
    """Parameters of one mixture-of-experts block: routed and shared experts and the router -> [parameters]."""
    experts = model.num_experts * expert_parameters(model) + model.num_shared_experts * shared_expert_parameters(model)
    return np.where(model.num_experts > 0, experts + model.hidden_size * model.num_experts, 0.0)


def norm_parameters(model: ModelColumns) -> Array:
    """Parameters of one normalisation layer -> [parameters]."""
    return model.hidden_size * np.where(model.norm == Norm.LAYERNORM, 2.0, 1.0)


@remembered
def num_moe_layers(model: ModelColumns) -> Array:
    """Layers whose feed-forward block is a mixture of experts: all of them if the architecture has experts and does not say.

    -> [layers].
    """
    stated = np.where(model.num_moe_layers > 0, model.num_moe_layers, model.num_layers)
    return np.where(model.num_experts > 0, stated, 0.0)


def layer_parameters(model: ModelColumns) -> Array:
    """Mean parameters of one layer: attention, cross attention where there is any, feed-forward, norms -> [parameters]."""
    layers = np.maximum(model.num_layers, 1.0)
    share = num_moe_layers(model) / layers
    cross = np.where(model.kind == Kind.ENCODER_DECODER, model.num_decoder_layers / layers, 0.0)
    feed = (1.0 - share) * mlp_parameters(model) + share * moe_parameters(model)
    return attention_parameters(model) * (1.0 + cross) + feed + norm_parameters(model) * (2.0 + cross)


def embedding_parameters(model: ModelColumns) -> Array:
    """Token embedding table -> [parameters]."""
    return np.where(model.params_embedding > 0, model.params_embedding, model.vocab_size * model.hidden_size)


def head_parameters(model: ModelColumns) -> Array:
    """Output projection to the vocabulary when it is not tied to the embedding -> [parameters]."""
    own_head = model.has_lm_head * (1.0 - model.tied_embeddings) * np.where(model.kind == Kind.ENCODER, 0.0, 1.0)
    return own_head * model.vocab_size * model.hidden_size


def formula_parameters(model: ModelColumns) -> Array:
    """Total parameters from the dimensions alone -> [parameters].

    Encoders have BERT's pooler. Known error: state-space layers and vision towers are not derived (`params_vision` is added as given), nor
    are shared layers (ALBERT) and extra projections (DeBERTa, XLNet, Longformer); total_parameters takes the published count there.
    """
    positions = model.learned_positions * model.max_position * model.hidden_size
    body = model.num_layers * layer_parameters(model) + norm_parameters(model)
    pooler = np.where(model.kind == Kind.ENCODER, model.hidden_size * (model.hidden_size + 1.0), 0.0)
    return embedding_parameters(model) + head_parameters(model) + positions + body + pooler + model.params_vision


@remembered
def total_parameters(model: ModelColumns) -> Array:
    """Published count where there is one, the formula's otherwise -> [parameters]."""
    return np.where(model.params_total > 0, model.params_total, formula_parameters(model))


@remembered
def body_parameters(model: ModelColumns) -> Array:
    """Parameters of the transformer layers (and the vision tower): all but embedding and head -> [parameters]."""
    return np.maximum(total_parameters(model) - embedding_parameters(model) - head_parameters(model), 0.0)


@remembered
def routed_expert_parameters(model: ModelColumns) -> Array:
    """Parameters of all routed experts of the model, what expert parallelism divides -> [parameters]."""
    return np.minimum(num_moe_layers(model) * model.num_experts * expert_parameters(model), body_parameters(model))


@remembered
def linear_parameters(model: ModelColumns) -> Array:
    """Parameters of the linear layers inside the transformer layers: what k-bit quantisation compresses -> [parameters]."""
    norms = model.num_layers * 2.0 * norm_parameters(model)
    router = num_moe_layers(model) * model.hidden_size * model.num_experts
    return np.maximum(body_parameters(model) - norms - router - model.params_vision, 0.0)


def adapter_parameters(
    model: ModelColumns, *, rank: Array, query: Array, key_value: Array, output: Array, up: Array, down: Array, experts: Array
) -> Array:
    """Parameters of LoRA matrices A (in x r) and B (r x out) over the whole model.

    `rank` [1], `query`, `output`, `down`, `experts` [flag], `key_value`, `up` [1] number of adapted matrices, 0 to 2 -> [parameters].
    A mixture of experts has the feed-forward adapters on each expert only where `experts` is 1, else on shared experts only.
    Source: Hu et al. 2021 (LoRA).
    """
    hidden = model.hidden_size
    attention = query * (hidden + query_width(model)) + key_value * (hidden + key_value_width(model) / 2.0)
    attention = attention + output * (value_width(model) + hidden)
    feed_dense = (up + down) * (hidden + model.intermediate_size)
    copies = model.num_shared_experts + experts * model.num_experts
    feed_moe = copies * (up + down) * (hidden + model.moe_intermediate_size)
    moe_layers = num_moe_layers(model)
    return rank * (model.num_layers * attention + (model.num_layers - moe_layers) * feed_dense + moe_layers * feed_moe)
