"""Memory of serving: weights by format, key-value cache by architecture, workspace, and how many sequences fit.

All functions take columns of shape (N,) or (1,) and return bytes or counts of the broadcast shape.

Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2); docs/decisions/serving-physics.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rightfit.physics import parameters
from rightfit.physics.columns import Array, AttentionKind, DeviceColumns, ModelColumns, remembered
from rightfit.physics.serving_columns import ServeColumns
from rightfit.units import FP32_BYTES

STATE_HEAD = 64.0  # elements; Dao and Gu 2024 (Mamba-2): the usual head of a state-space layer


def attention_layers(model: ModelColumns) -> Array:
    """Layers that attend to the whole context: those stated, else all that are neither sliding nor linear -> [layers]."""
    rest = model.num_layers - model.num_sliding_layers - model.num_linear_layers
    return np.where(model.num_full_attention_layers > 0, model.num_full_attention_layers, np.maximum(rest, 0.0))


def sliding_layers(model: ModelColumns) -> Array:
    """Layers whose attention spans `sliding_window` tokens; a purely sliding model has no other -> [layers]."""
    only = np.equal(model.attention_kind, AttentionKind.SLIDING) & (model.num_sliding_layers == 0) & (model.sliding_window > 0)
    return np.where(only, model.num_layers, model.num_sliding_layers)


def kv_bytes_per_token_layer(model: ModelColumns, kv_bytes: Array) -> Array:
    """Cache of one token in one attention layer: 2 x kv heads x head size, or MLA's latent and rope key.

    `kv_bytes` [bytes/element] -> [bytes].
    """
    return parameters.key_value_width(model) * kv_bytes


def attended_tokens(model: ModelColumns, context: Array) -> Array:
    """Sum over layers of the tokens that a new one attends to: context in full layers, at most the window in sliding ones.

    `context` [tokens] -> [tokens].
    """
    windowed = sliding_layers(model)
    full = np.where((windowed >= model.num_layers) & (model.num_full_attention_layers == 0), 0.0, attention_layers(model))
    full = np.minimum(full, np.maximum(model.num_layers - windowed, 0.0))
    window = np.where(model.sliding_window > 0, np.minimum(context, model.sliding_window), context)
    return full * context + windowed * window


def kv_cache_bytes(model: ModelColumns, serve: ServeColumns, *, tokens: Array) -> Array:
    """Cache of one sequence of `tokens` [bytes, all devices, without replication], rounded up to blocks.

    `tokens` [tokens] -> [bytes].
    State-space layers hold a state of fixed size, counted as 16 bytes x hidden x head size per layer.
    """
    block = np.maximum(serve.kv_block, 1.0)
    rounded = np.ceil(tokens / block) * block
    state = model.num_linear_layers * model.hidden_size * np.maximum(model.head_dim, STATE_HEAD) * 2.0 * 2.0
    return attended_tokens(model, rounded) * kv_bytes_per_token_layer(model, serve.kv_bytes) + state


def kv_replication(model: ModelColumns, serve: ServeColumns) -> Array:
    """How many tensor ranks hold the same part of the cache: all of them for MLA's latent, tensor / kv heads where heads are fewer.

    -> [1].
    """
    heads = np.where(parameters.is_mla(model), 1.0, np.maximum(model.num_kv_heads, 1.0))
    return np.maximum(serve.tensor / heads, 1.0)


@remembered
def attention_layer_parameters(model: ModelColumns) -> Array:
    """Parameters of all attention blocks, at most what the body holds beside the experts -> [parameters]."""
    rest = np.maximum(parameters.linear_parameters(model) - parameters.routed_expert_parameters(model), 0.0)
    return np.minimum(model.num_layers * parameters.attention_parameters(model), rest)


@remembered
def dense_layer_parameters(model: ModelColumns) -> Array:
    """Parameters of dense feed-forward blocks and shared experts -> [parameters]."""
    rest = parameters.linear_parameters(model) - parameters.routed_expert_parameters(model) - attention_layer_parameters(model)
    return np.maximum(rest, 0.0)


def head_and_embedding_parameters(model: ModelColumns) -> Array:
    """Token embedding, output head when it is its own, norms and routers -> [parameters]."""
    return np.maximum(parameters.total_parameters(model) - parameters.linear_parameters(model) - model.params_vision, 0.0)


def weights_bytes(model: ModelColumns, serve: ServeColumns) -> Array:
    """All weights once, each part in its format; the vision tower in 16 bit -> [bytes]."""
    return (
        attention_layer_parameters(model) * serve.attention_bytes
        + dense_layer_parameters(model) * serve.linear_bytes
        + parameters.routed_expert_parameters(model) * serve.expert_bytes
        + head_and_embedding_parameters(model) * serve.other_bytes
        + model.params_vision * 2.0
    )


def weights_bytes_per_device(model: ModelColumns, serve: ServeColumns) -> Array:
    """Weights of one device: cut by tensor and pipeline; experts also by attention-data ranks; attention is replicated over those.

    -> [bytes].
    """
    shared = weights_bytes(model, serve) - parameters.routed_expert_parameters(model) * serve.expert_bytes
    experts = parameters.routed_expert_parameters(model) * serve.expert_bytes / serve.attention_data
    return (shared + experts) / (serve.tensor * serve.pipeline)


def prompt_workspace_bytes(
    model: ModelColumns, serve: ServeColumns, *, tokens: Array, sequences: Array, block_share: Array | float = 1.0
) -> Array:
    """Largest temporary tensors of a prompt pass of `tokens` [bytes on one device].

    `tokens` [tokens], `sequences` [sequences], `block_share` [1] -> [bytes].
    The larger of a feed-forward block's tensors (gate, up, product and residual; `block_share` of them live at once) and the logits,
    each with its copies.
    """
    width = np.where(model.num_experts > 0, model.moe_intermediate_size * (model.experts_per_token + 1.0), model.intermediate_size)
    block = block_share * tokens * (3.0 * width / serve.tensor + 4.0 * model.hidden_size) * serve.activation_bytes
    heads = serve.eager_attention * tokens**2 * model.num_heads / serve.tensor * (serve.activation_bytes + FP32_BYTES)
    logits = np.where(serve.full_logits > 0, tokens * serve.full_logits, sequences * (serve.activation_bytes + FP32_BYTES))
    logits = logits * model.vocab_size
    return np.maximum(np.maximum(block, heads), logits)


def kv_room_bytes(
    model: ModelColumns, serve: ServeColumns, device: DeviceColumns, *, overhead_bytes: Array, coefficients: Mapping[str, float]
) -> Array:
    """What is left for the cache on one device: its share of memory less weights, workspace and overheads, or that share of what is free
    beside those (TensorRT-LLM: free_gpu_memory_fraction; LMDeploy: cache_max_entry_count).

    `overhead_bytes` [bytes], `coefficients` [coefficients] -> [bytes].
    """
    taken = weights_bytes_per_device(model, serve) + engine_workspace_bytes(model, serve, coefficients=coefficients) + overhead_bytes
    return np.maximum(usable_bytes(serve, device, taken_bytes=taken) - taken, 0.0)


def engine_workspace_bytes(model: ModelColumns, serve: ServeColumns, *, coefficients: Mapping[str, float]) -> Array:
    """Temporary tensors that an engine keeps room for on one device: those of its longest piece of prompts.

    `coefficients` [coefficients]: `longest_piece_tokens` where it does not cut prompts, `most_prompts` at once -> [bytes].
    """
    tokens = np.where(
        serve.chunk_tokens > 0, serve.chunk_tokens, np.minimum(serve.input_tokens + 1.0, coefficients["longest_piece_tokens"])
    )
    return prompt_workspace_bytes(model, serve, tokens=tokens, sequences=np.minimum(serve.max_batch, coefficients["most_prompts"]))


def usable_bytes(serve: ServeColumns, device: DeviceColumns, *, taken_bytes: Array) -> Array:
    """What an engine may fill of a device, cache included, where weights, workspace and overheads take `taken_bytes` of it.

    `taken_bytes` [bytes] -> [bytes].
    """
    of_free = taken_bytes + (device.memory_bytes - taken_bytes) * serve.memory_fraction
    return np.where(serve.fraction_of_free > 0, of_free, device.memory_bytes * serve.memory_fraction)


def kv_bytes_per_device(model: ModelColumns, serve: ServeColumns, *, tokens: Array) -> Array:
    """Cache of one sequence on the fullest device, replication counted; attention-data ranks each hold their own sequences.

    `tokens` [tokens] -> [bytes].
    """
    whole = kv_cache_bytes(model, serve, tokens=tokens)
    return whole * kv_replication(model, serve) / (serve.tensor * serve.pipeline * serve.attention_data)


def max_sequences(
    model: ModelColumns, serve: ServeColumns, device: DeviceColumns, *, overhead_bytes: Array, coefficients: Mapping[str, float]
) -> Array:
    """Sequences that fit at once, at least one: cache room over the cache of a request with the share of its output that is kept free.

    `overhead_bytes` [bytes], `coefficients` [coefficients] -> [sequences].
    """
    tokens = serve.input_tokens + serve.output_tokens * serve.kv_reserve
    one = kv_bytes_per_device(model, serve, tokens=np.maximum(tokens, 1.0))
    room = kv_room_bytes(model, serve, device, overhead_bytes=overhead_bytes, coefficients=coefficients)
    return np.clip(np.floor(room / np.maximum(one, 1.0)), 1.0, serve.max_batch * serve.attention_data)
