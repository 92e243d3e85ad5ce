"""How many parameters a transformer has, matrix by matrix.

All functions take model columns of shape (N,) and return counts of shape (N,).

Source: accounting; Vaswani et al. 2017, Shazeer 2019, Ainslie et al. 2023, DeepSeek-AI
2024 (DeepSeek-V2).

Floating-point operations of a transformer, operator by operator.

A multiply-add counts as two. Model FLOPs follow the PaLM convention (Chowdhery et al. 2022,
appendix B): products with weights and the attention products, no recomputation, no embedding
look-up, no softmax. Attention counts the pairs that a causal or windowed kernel must compute when
`exact` and the full square when not (PaLM and Megatron-LM count the full square).

Source: Chowdhery et al. 2022, appendix B; accounting of each matrix product.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array, AttentionKind, Kind, Method, Mlp, ModelColumns, Norm, SetupColumns, remembered
from rightfit.records import dataclass

#: Experts whose published counts leave less than this of their dense size work in a latent width.
LATENT_SHARE = 0.95


def query_width(model: ModelColumns) -> Array:
    """Width of all query heads together: heads x head size -> [elements]."""
    return model.num_heads * model.head_dim


def value_width(model: ModelColumns) -> Array:
    """Width of all value heads as attention puts them out: heads x value head size (differs from
    the query's in MLA) -> [elements]."""
    return model.num_heads * np.where(model.v_head_dim > 0, model.v_head_dim, model.head_dim)


def key_value_width(model: ModelColumns) -> Array:
    """Width of keys and values together before they are repeated: 2 x kv heads x head size; MLA:
    latent plus rope key -> [elements]."""
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
    """Parameters of one self-attention block: Q, K, V, O with biases and QK norms; MLA's down and
    up projections -> [parameters].

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
    """Width in which routed experts see a token: the hidden size, or the latent one that the
    published counts imply -> [elements].

    What a token does not pass through are the other experts: total - active = layers x (experts -
    chosen) x parameters of one.
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
    """Parameters of one mixture-of-experts block: routed and shared experts and the
    router -> [parameters]."""
    experts = model.num_experts * expert_parameters(model) + model.num_shared_experts * shared_expert_parameters(model)
    return np.where(model.num_experts > 0, experts + model.hidden_size * model.num_experts, 0.0)


def norm_parameters(model: ModelColumns) -> Array:
    """Parameters of one normalisation layer -> [parameters]."""
    return model.hidden_size * np.where(model.norm == Norm.LAYERNORM, 2.0, 1.0)


@remembered
def num_moe_layers(model: ModelColumns) -> Array:
    """Layers whose feed-forward block is a mixture of experts: all of them if the architecture has
    experts and does not say.

    -> [layers].
    """
    stated = np.where(model.num_moe_layers > 0, model.num_moe_layers, model.num_layers)
    return np.where(model.num_experts > 0, stated, 0.0)


def layer_parameters(model: ModelColumns) -> Array:
    """Mean parameters of one layer: attention, cross attention where there is any, feed-forward,
    norms -> [parameters]."""
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

    Encoders have BERT's pooler. Known error: state-space layers and vision towers are not derived
    (`params_vision` is added as given), nor are shared layers (ALBERT) and extra projections
    (DeBERTa, XLNet, Longformer); total_parameters takes the published count there.
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
    """Parameters of the transformer layers (and the vision tower): all but embedding and
    head -> [parameters]."""
    return np.maximum(total_parameters(model) - embedding_parameters(model) - head_parameters(model), 0.0)


@remembered
def routed_expert_parameters(model: ModelColumns) -> Array:
    """Parameters of all routed experts of the model, what expert parallelism
    divides -> [parameters]."""
    return np.minimum(num_moe_layers(model) * model.num_experts * expert_parameters(model), body_parameters(model))


@remembered
def linear_parameters(model: ModelColumns) -> Array:
    """Parameters of the linear layers inside the transformer layers: what k-bit quantisation
    compresses -> [parameters]."""
    norms = model.num_layers * 2.0 * norm_parameters(model)
    router = num_moe_layers(model) * model.hidden_size * model.num_experts
    return np.maximum(body_parameters(model) - norms - router - model.params_vision, 0.0)


def adapter_parameters(
    model: ModelColumns, *, rank: Array, query: Array, key_value: Array, output: Array, up: Array, down: Array, experts: Array
) -> Array:
    """Parameters of LoRA matrices A (in x r) and B (r x out) over the whole model.

    `rank` [1], `query`, `output`, `down`, `experts` [flag], `key_value`, `up` [1] number of adapted
    matrices, 0 to 2 -> [parameters]. A mixture of experts has the feed-forward adapters on each
    expert only where `experts` is 1, else on shared experts only.
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


def adapted_parameters(
    model: ModelColumns, *, query: Array, key_value: Array, output: Array, up: Array, down: Array, experts: Array
) -> Array:
    """Parameters of the base matrices that carry an adapter, over the whole model.

    `query`, `output`, `down`, `experts` [flag], `key_value`, `up` [1] number of adapted matrices,
    0 to 2 -> [parameters].
    Source: accounting of each matrix.
    """
    hidden = model.hidden_size
    attention = hidden * (query * query_width(model) + key_value * key_value_width(model) / 2.0 + output * value_width(model))
    feed_dense = (up + down) * hidden * model.intermediate_size
    feed_moe = (model.num_shared_experts + experts * model.num_experts) * (up + down) * hidden * model.moe_intermediate_size
    moe_layers = num_moe_layers(model)
    return model.num_layers * attention + (model.num_layers - moe_layers) * feed_dense + moe_layers * feed_moe


@dataclass(frozen=True, slots=True)
class Matmul:
    """One family of weight products: x[tokens, k] @ w[k, n], in `count` layers.

    `split` says which side tensor parallelism cuts: "n" (column), "k" (row) or "" (replicated).
    `experts` > 0: the tokens are spread over that many weight matrices, `tokens_factor` copies of
    each token. `tokens` is "decoder", "encoder", "image" or "head".
    `module` is the name that adapters know it by.

    Units: `k`, `n` [elements], `count` [layers], `tokens_factor` [1], `experts` [experts].
    """

    name: str
    k: Array
    n: Array
    count: Array
    split: str = ""
    tokens_factor: Array | float = 1.0
    experts: Array | float = 0.0
    module: bool = True

    @property
    def flops_per_token(self) -> Array:
        """Forward FLOPs that one token takes in all layers -> [FLOP/token].

        Source: Chowdhery et al. 2022, appendix B; accounting of each matrix product.
        """
        return 2.0 * self.k * self.n * self.count * self.tokens_factor


def has_gate(model: ModelColumns) -> Array:
    """1 where the feed-forward block has a gate -> [flag].

    Source: Chowdhery et al. 2022, appendix B; accounting of each matrix product.
    """
    return np.where((model.mlp == Mlp.SWIGLU) | (model.mlp == Mlp.GEGLU), 1.0, 0.0)


def attention_layers(model: ModelColumns) -> tuple[Array, Array, Array]:
    """Layers with full, sliding-window and no attention (state space). Unsplit models are all of
    their `attention_kind`.

    -> [layers], [layers], [layers].

    Source: Chowdhery et al. 2022, appendix B; accounting of each matrix product.
    """
    stated = model.num_full_attention_layers + model.num_sliding_layers + model.num_linear_layers
    given = stated > 0
    sliding = np.where(model.attention_kind == AttentionKind.SLIDING, model.num_layers, 0.0)
    linear = np.where(model.attention_kind == AttentionKind.SSM, model.num_layers, 0.0)
    full = np.where(given, model.num_full_attention_layers, model.num_layers - sliding - linear)
    return full, np.where(given, model.num_sliding_layers, sliding), np.where(given, model.num_linear_layers, linear)


def _attention_matmuls(model: ModelColumns) -> Iterator[Matmul]:
    full, sliding, _ = attention_layers(model)
    layers = full + sliding
    latent = model.attention_kind == AttentionKind.MLA
    plain, mla = layers * ~latent, layers * latent
    h, heads, head = model.hidden_size, model.num_heads, model.head_dim
    yield Matmul("qkv", h, (heads + 2 * model.num_kv_heads) * head, plain, "n")
    yield Matmul("out", heads * head, h, plain, "k")
    if not latent.any():
        return
    query = heads * (model.qk_nope_head_dim + model.qk_rope_head_dim)
    compressed = model.q_lora_rank > 0
    yield Matmul("q_down", h, model.q_lora_rank, mla * compressed)
    yield Matmul("q_up", np.where(compressed, model.q_lora_rank, h), query, mla, "n")
    yield Matmul("kv_down", h, model.kv_lora_rank + model.qk_rope_head_dim, mla)
    yield Matmul("kv_up", model.kv_lora_rank, heads * (model.qk_nope_head_dim + model.v_head_dim), mla, "n")
    yield Matmul("out_latent", heads * model.v_head_dim, h, mla, "k")


def _mlp_matmuls(model: ModelColumns) -> Iterator[Matmul]:
    gate = 1.0 + has_gate(model)
    dense = model.num_layers - model.num_moe_layers
    yield Matmul("up", model.hidden_size, gate * model.intermediate_size, dense, "n")
    yield Matmul("down", model.intermediate_size, model.hidden_size, dense, "k")
    if not (model.num_moe_layers > 0).any():
        return
    moe, width, top = model.num_moe_layers, model.moe_intermediate_size, model.experts_per_token
    yield Matmul("router", model.hidden_size, model.num_experts, moe, module=False)
    hidden = expert_hidden_size(model)
    yield Matmul("expert_up", hidden, gate * width, moe, "n", top, model.num_experts)
    yield Matmul("expert_down", width, hidden, moe, "k", top, model.num_experts)
    shared = model.num_shared_experts * width
    yield Matmul("shared_up", model.hidden_size, gate * shared, moe, "n")
    yield Matmul("shared_down", shared, model.hidden_size, moe, "k")


def _other_matmuls(model: ModelColumns) -> Iterator[Matmul]:
    if (model.num_decoder_layers > 0).any():
        cross = np.where(model.kind == Kind.ENCODER_DECODER, model.num_decoder_layers, 0.0)
        width = model.num_heads * model.head_dim
        yield Matmul("cross_q", model.hidden_size, width, cross, "n")
        yield Matmul("cross_kv", model.hidden_size, 2 * width, cross, "n")
        yield Matmul("cross_out", width, model.hidden_size, cross, "k")
    linear = attention_layers(model)[2]
    if (linear > 0).any():
        # Mamba-like mixer of expansion 2: input projection to x and z, output projection back.
        yield Matmul("mixer_in", model.hidden_size, 4 * model.hidden_size, linear, "n")
        yield Matmul("mixer_out", 2 * model.hidden_size, model.hidden_size, linear, "k")


def layer_matmuls(model: ModelColumns) -> list[Matmul]:
    """Every weight product inside the layers, fields of shape (N,). Families that no
    row has are left out.

    What one token multiplies with are the active parameters: where mixers, compressed attention
    or layers without a feed-forward block make the products of the dimensions differ, they are
    scaled to them.

    Source: Chowdhery et al. 2022, appendix B; accounting of each matrix product.
    """
    items = [*_attention_matmuls(model), *_mlp_matmuls(model), *_other_matmuls(model)]
    share = product_share(model, items)
    if not np.any(share != 1.0):
        return items
    return [item if np.any(item.experts) else dataclasses.replace(item, count=item.count * share) for item in items]


def product_share(model: ModelColumns, items: list[Matmul]) -> Array:
    """Active parameters of the layers over the products counted from the dimensions, routed experts
    aside; 1 where they agree -> [1].

    Only models with mixers may multiply with more than their dimensions say: what others hold
    beside are tables that are looked up. A count that is less than PRODUCT_SHARES[0] of the
    products is of layers that share their weights (ALBERT).

    Source: Chowdhery et al. 2022, appendix B; accounting of each matrix product.
    """
    weights = {is_routed: _per_token(items, is_routed) for is_routed in (False, True)}
    ends = embedding_parameters(model) + head_parameters(model) + model.params_vision
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (model.params_active - ends - weights[True]) / weights[False]
    least, agree = PRODUCT_SHARES
    off = (share > least) & ((share < agree) | ((model.num_linear_layers > 0) & (share > 1.0 / agree)))
    return np.where((model.params_active > 0) & off, share, 1.0)


def _per_token(items: list[Matmul], is_routed: bool) -> Array:
    """Parameters that one token multiplies with, in routed experts or elsewhere."""
    return sum((item.flops_per_token / 2.0 for item in items if bool(np.any(item.experts)) is is_routed), start=np.zeros(1))


#: The share of the products from the dimensions below which layers share weights, and the one above
#: which the two agree.
PRODUCT_SHARES = (0.3, 0.97)

# Masked language modelling predicts 15 % of the tokens (Devlin et al. 2019); classification and
# question answering fewer still.
MASKED_SHARE = 0.15


def head_share(model: ModelColumns) -> Array:
    """Share of tokens that go through the vocabulary head: all for decoders, the masked ones for
    encoders, none without a head -> [1].

    Source: Chowdhery et al. 2022, appendix B; accounting of each matrix product.
    """
    return np.where(model.has_lm_head > 0, np.where(model.kind == Kind.ENCODER, MASKED_SHARE, 1.0), 0.0)


def head_matmul(model: ModelColumns) -> Matmul:
    """The product with the vocabulary; nothing where the model has no language-model head.

    Source: Chowdhery et al. 2022, appendix B; accounting of each matrix product.
    """
    share = head_share(model)
    return Matmul("head", model.hidden_size, model.vocab_size, np.where(share > 0, 1.0, 0.0), "n", share, module=False)


def attention_pairs(model: ModelColumns, seq_len: Array, *, exact: bool = True) -> tuple[Array, Array]:
    """Query-key pairs of one sequence in one full and in one sliding layer.

    `seq_len` [tokens] -> [pairs], [pairs].
    Causal: s (s + 1) / 2; encoders s^2; windowed: w s - w (w - 1) / 2. With `exact` False the
    square s^2 (or s w) is taken.

    Source: Chowdhery et al. 2022, appendix B; accounting of each matrix product.
    """
    s = seq_len
    window = np.minimum(np.where(model.sliding_window > 0, model.sliding_window, s), s)
    if not exact:
        return s * s, s * window
    bidirectional = model.kind == Kind.ENCODER
    return np.where(bidirectional, s * s, s * (s + 1) / 2), np.where(bidirectional, s * window, window * s - window * (window - 1) / 2)


def attention_width(model: ModelColumns) -> Array:
    """Elements of one query row plus one value row over all heads: the FLOPs of one pair are twice
    this -> [elements].

    Source: Chowdhery et al. 2022, appendix B; accounting of each matrix product.
    """
    latent = model.attention_kind == AttentionKind.MLA
    query = np.where(latent, model.qk_nope_head_dim + model.qk_rope_head_dim, model.head_dim)
    value = np.where(latent, model.v_head_dim, model.head_dim)
    return np.asarray(model.num_heads * (query + value))


def attention_forward_flops(model: ModelColumns, seq_len: Array, *, exact: bool = True) -> Array:
    """Forward FLOPs of scores and weighted values for one sequence, all layers.

    `seq_len` [tokens] -> [FLOP].

    Source: Chowdhery et al. 2022, appendix B; accounting of each matrix product.
    """
    full, sliding, _ = attention_layers(model)
    pairs_full, pairs_sliding = attention_pairs(model, seq_len, exact=exact)
    cross = np.where(model.kind == Kind.ENCODER_DECODER, model.num_decoder_layers * seq_len * seq_len, 0.0)
    return 2 * attention_width(model) * (full * pairs_full + sliding * pairs_sliding + cross)


def forward_flops(model: ModelColumns, seq_len: Array, *, exact: bool = True, head: bool = True) -> Array:
    """Forward FLOPs of one sequence of `seq_len` tokens.

    `seq_len` [tokens] -> [FLOP].
    For a plain decoder this is 2 P s + 4 L h s^2 (halved by causality when exact) with P the
    weights that multiply, head included.

    Source: Chowdhery et al. 2022, appendix B; accounting of each matrix product.
    """
    weights: Array = sum((item.flops_per_token for item in layer_matmuls(model)), np.zeros(1))
    if head:
        weights = weights + head_matmul(model).flops_per_token
    vision = 2.0 * model.params_vision * model.image_tokens
    return weights * seq_len + vision + attention_forward_flops(model, seq_len, exact=exact)


def trains_weights(setup: SetupColumns) -> Array:
    """1 where base weights get gradients (full, GaLore), 0 where they are frozen -> [flag].

    Source: Chowdhery et al. 2022, appendix B; accounting of each matrix product.
    """
    return np.where((setup.method == Method.FULL) | (setup.method == Method.GALORE), 1.0, 0.0)


def step_model_flops(model: ModelColumns, setup: SetupColumns, *, exact: bool = False) -> Array:
    """Model FLOPs of one optimizer step of the whole job: forward, and backward twice that (once
    when weights are frozen) -> [FLOP].

    This is the numerator of MFU. The full square of attention is counted unless `exact`, as PaLM,
    Megatron-LM and llm-foundry do.

    Source: Chowdhery et al. 2022, appendix B; accounting of each matrix product.
    """
    sequences = setup.data * setup.micro_batch * setup.grad_accum
    backward = 1.0 + trains_weights(setup)
    return sequences * (1.0 + backward) * forward_flops(model, setup.real_length, exact=exact)
