"""How many parameters the dimensions of a transformer give: plain integers, matrix by matrix.

Counts every parameter once: a tied head is not counted again; buffers and multi-token-prediction
layers are left out. The physics room has the same sums over arrays; these serve records that come
from a config file, where no count was published.
"""

from __future__ import annotations

import dataclasses
import functools
import re

from rightfit.facts.records import TransformerArchitecture
from rightfit.facts.tables import filled, table
from rightfit.records import dataclass

_GATED = frozenset({"swiglu", "geglu"})


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Parameters by part. `routed_experts` is inside `layers`; `idle_experts` are those that one
    token does not pass through."""

    embedding: int
    head: int
    positions: int
    layers: int
    final_norms: int
    towers: int
    other: int
    routed_experts: int
    idle_experts: int

    @property
    def total(self) -> int:
        """All parameters."""
        return self.embedding + self.head + self.positions + self.layers + self.final_norms + self.towers + self.other

    @property
    def active(self) -> int:
        """Parameters that one token passes through, embeddings included."""
        return self.total - self.idle_experts


def count_parameters(
    architecture: TransformerArchitecture,
    *,
    norms_per_layer: int = 2,
    linear_layer_parameters: int = 0,
    other_parameters: int = 0,
) -> ParameterCount:
    """Parameters of an architecture from its dimensions.

    `norms_per_layer` is 4 where blocks are normalised before and after (Gemma 2 and later, OLMo 2
    keeps 2), 1 where attention and feed-forward share one. `linear_layer_parameters` is one
    state-space or linear-attention mixer. `other_parameters` are added as given (poolers, token
    types, projections).
    Equation: sum over the matrices of Vaswani et al. (2017), Shazeer (2020) for gated blocks,
    DeepSeek-V2 (2024) for latent attention.
    Known error: see data/parameter_exceptions.csv, which lists every bundled model that the formula
    misses by over 0.5 %.
    """
    one = architecture
    routed = one.num_moe_layers * one.num_experts * expert_parameters(one)
    idle = routed // one.num_experts * max(one.num_experts - one.experts_per_token, 0) if one.num_experts else 0
    embedding = one.vocab_size * one.hidden_size
    stacks = 2 if one.kind == "encoder-decoder" else 1
    return ParameterCount(
        embedding=embedding,
        head=0 if one.tied_embeddings or one.kind in ("encoder", "embedding") else embedding,
        positions=one.max_position * one.hidden_size * stacks if one.learned_positions else 0,
        layers=_stack_parameters(one, norms_per_layer, linear_layer_parameters),
        final_norms=stacks * norm_parameters(one),
        towers=one.params_vision + one.params_audio,
        other=other_parameters,
        routed_experts=routed,
        idle_experts=idle,
    )


def _stack_parameters(one: TransformerArchitecture, norms_per_layer: int, linear_layer_parameters: int) -> int:
    attention_layers = one.num_full_attention_layers + one.num_sliding_layers or one.num_layers - one.num_linear_layers
    mixers = attention_layers * attention_parameters(one) + one.num_linear_layers * linear_layer_parameters
    cross = one.num_decoder_layers * (attention_parameters(one) + norm_parameters(one)) if one.kind == "encoder-decoder" else 0
    return mixers + cross + _feed_forward_parameters(one) + one.num_layers * norms_per_layer * norm_parameters(one)


def _feed_forward_parameters(one: TransformerArchitecture) -> int:
    if one.attention_kind == "ssm":  # the mixer has the inner width in place of a feed-forward block
        return 0
    dense_layers = one.num_layers - one.num_moe_layers
    experts = (one.num_experts + one.num_shared_experts) * expert_parameters(one) + one.hidden_size * one.num_experts
    return dense_layers * mlp_parameters(one) + one.num_moe_layers * experts


def attention_parameters(one: TransformerArchitecture) -> int:
    """Queries, keys, values, output, their biases and the norms on queries and
    keys of one layer."""
    if one.kv_lora_rank:
        return _latent_attention_parameters(one)
    hidden, query, key_value = one.hidden_size, one.num_heads * one.head_dim, 2 * one.num_kv_heads * one.head_dim
    matrices = hidden * (2 * query + key_value)
    biases = one.qkv_bias * (query + key_value) + one.attention_out_bias * hidden
    norms = one.qk_norm * (query + key_value // 2 if one.qk_norm_full else 2 * one.head_dim)
    return matrices + biases + norms


def _latent_attention_parameters(one: TransformerArchitecture) -> int:
    hidden, heads, rank = one.hidden_size, one.num_heads, one.q_lora_rank
    query_width = heads * (one.qk_nope_head_dim + one.qk_rope_head_dim)
    query = hidden * rank + rank + rank * query_width if rank else hidden * query_width
    down = hidden * (one.kv_lora_rank + one.qk_rope_head_dim) + one.kv_lora_rank
    up = one.kv_lora_rank * heads * (one.qk_nope_head_dim + one.v_head_dim)
    return query + down + up + heads * one.v_head_dim * hidden + one.attention_out_bias * hidden


def mlp_parameters(one: TransformerArchitecture) -> int:
    """One dense feed-forward block: three matrices when gated, two otherwise."""
    wide = 2 if one.mlp_kind in _GATED else 1
    bias = one.mlp_bias * (wide * one.intermediate_size + one.hidden_size)
    return (wide + 1) * one.hidden_size * one.intermediate_size + bias


def expert_parameters(one: TransformerArchitecture) -> int:
    """One expert of a mixture of experts."""
    matrices = 3 if one.mlp_kind in _GATED else 2
    bias = one.mlp_bias * ((matrices - 1) * one.moe_intermediate_size + one.hidden_size)
    return matrices * one.hidden_size * one.moe_intermediate_size + bias


def norm_parameters(one: TransformerArchitecture) -> int:
    """One normalisation layer: scale, and shift too for LayerNorm."""
    return norm_parameters_of(one.hidden_size, one.norm)


def norm_parameters_of(hidden_size: int, norm: str) -> int:
    """One normalisation layer of a given width."""
    return hidden_size * (2 if norm == "layernorm" else 1)


def mamba_parameters(*, hidden_size: int, inner_size: int, state_size: int, conv_kernel: int, time_step_rank: int) -> int:
    """One Mamba-1 mixer (Gu and Dao 2023): in, convolution, x, dt and out projections, A and D."""
    into = hidden_size * 2 * inner_size
    convolution = inner_size * (conv_kernel + 1)
    selection = inner_size * (time_step_rank + 2 * state_size) + time_step_rank * inner_size + inner_size
    return into + convolution + selection + inner_size * state_size + inner_size + inner_size * hidden_size


def vision_tower_parameters(
    *, layers: int, hidden_size: int, intermediate_size: int, patch: int, channels: int, positions: int, gated: bool
) -> int:
    """A vision transformer: patch embedding, positions, attention and feed-forward with biases, two
    LayerNorms a layer."""
    attention = 4 * hidden_size * (hidden_size + 1)
    wide = 2 if gated else 1
    feed = (wide + 1) * hidden_size * intermediate_size + wide * intermediate_size + hidden_size
    embedding = patch * patch * channels * hidden_size + hidden_size + positions * hidden_size
    return embedding + layers * (attention + feed + 4 * hidden_size) + 2 * hidden_size


# ---- Draft heads: one layer that drafts from a model's own hidden states (EAGLE, multi-token
# prediction), with the acceptance that is published.


@dataclass(frozen=True, slots=True)
class DraftHead:
    """A kind of head. `acceptance` of a drafted token as published, with its ends; `models`: which
    have one in their checkpoint (empty: one must be found or trained)."""

    name: str
    words: tuple[str, ...]
    layers: int
    keeps_experts: bool
    draft_tokens: int
    acceptance: float
    acceptance_low: float
    acceptance_high: float
    models: str
    source: str

    def suits(self, model: TransformerArchitecture) -> bool:
        """Whether a model has such a head, or may be given one."""
        return not self.models or re.search(self.models, f"{model.name} {model.family}", re.IGNORECASE) is not None

    def of(self, model: TransformerArchitecture) -> TransformerArchitecture:
        """The head as an architecture: one layer of the model's width and vocabulary, dense unless
        it keeps the model's experts.

        The product that joins hidden state and embedding (two times the width squared) counts
        into its parameters.
        """
        is_moe = self.keeps_experts and model.num_experts > 0
        inner = model.intermediate_size or 4 * model.hidden_size
        head = dataclasses.replace(
            model,
            name=f"{self.name} head",
            kind="moe-decoder" if is_moe else "decoder",
            num_layers=self.layers,
            num_moe_layers=self.layers if is_moe else 0,
            num_experts=model.num_experts if is_moe else 0,
            experts_per_token=model.experts_per_token if is_moe else 0,
            num_shared_experts=model.num_shared_experts if is_moe else 0,
            first_dense_layers=0,
            num_full_attention_layers=min(model.num_full_attention_layers, self.layers),
            num_sliding_layers=0,
            num_linear_layers=0,
            intermediate_size=inner,
            params_vision=0,
            params_audio=0,
            vision_layers=0,
            params_stored=0,
            tied_embeddings=True,
        )
        count = count_parameters(head)
        joined = 2 * model.hidden_size**2
        return dataclasses.replace(
            head, params_total=count.total + joined, params_active=count.active + joined, params_embedding=count.embedding
        )


@functools.cache
def draft_heads() -> tuple[DraftHead, ...]:
    """Every kind of head that is known."""
    return tuple(filled(DraftHead, row, words=tuple(row["words"].split("|"))) for row in table("draft_heads"))


def draft_head(text: str) -> DraftHead | None:
    """The head that a word means; None where it is none of them."""
    word = text.strip().casefold().replace("_", "-")
    return next((head for head in draft_heads() if word in head.words), None)
