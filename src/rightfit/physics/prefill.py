"""Time to treat prompts: products at many rows, causal attention, activations, collectives.

Known error: 10-15 % for prompts over a thousand tokens on graph engines; short prompts are bound by
launches and the engine's fixed cost.

Source: Pope et al. 2022, Agrawal et al. 2024 (Sarathi-Serve) for pieces;
docs/decisions/serving-physics.md.

Work of a vision tower before a prompt: images as patches through a transformer that is not causal.

Source: Dosovitskiy et al. 2021 (ViT); Kaplan et al. 2020 for two operations a
parameter and position.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from rightfit.physics import serving_columns, transformer
from rightfit.physics.columns import Array, DeviceColumns, Dtype, LinkColumns, ModelColumns
from rightfit.physics.decode import (
    ProductRates,
    expert_groups,
    extra_kernels_s,
    gaps_s,
    launch_factor,
    layers_collective_s,
    peak_ops,
    product_rates,
    product_s,
    soft_max,
)
from rightfit.physics.serving_columns import Math, ServeColumns, ServeRates
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class PrefillTimes:
    """Seconds of a prompt pass by term, for all pieces together.

    Units: `weights`, `attention`, `activations`, `communication`, `gaps`, `host` [s].
    """

    weights: Array
    attention: Array
    activations: Array
    communication: Array
    gaps: Array
    host: Array

    @property
    def total(self) -> Array:
        """All terms together -> [s]."""
        return self.weights + self.attention + self.activations + self.communication + self.gaps + self.host


def attention_flops(model: ModelColumns, *, prompt: Array) -> Array:
    """FLOP of causal attention over one prompt, all layers: 2 x pairs x heads x (key size + value
    size); windows cut the pairs, sparse layers take the entries that they choose beside the scores
    of their indexers.

    `prompt` [tokens] -> [FLOP].
    """
    key = np.maximum(model.head_dim, model.qk_nope_head_dim + model.qk_rope_head_dim)
    value = np.where(model.v_head_dim > 0, model.v_head_dim, model.head_dim)
    window = np.where(model.sliding_window > 0, np.minimum(model.sliding_window, prompt), prompt)
    windowed = serving_columns.sliding_layers(model)
    full = np.maximum(np.minimum(serving_columns.attention_layers(model), model.num_layers - windowed), 0.0)
    chosen = model.sparse_layers + model.pooled_layers
    pairs = np.maximum(full - chosen, 0.0) * prompt**2 / 2.0 + windowed * (prompt * window - window**2 / 2.0)
    if not np.any(chosen):
        return np.asarray(2.0 * pairs * model.num_heads * (key + value))
    most = np.minimum(np.where(model.sparse_most > 0, model.sparse_most, np.inf) * model.sparse_stride, prompt)
    beside = np.minimum(model.cache_window, prompt)
    near = chosen * (prompt * beside - beside**2 / 2.0)
    sparse = model.sparse_layers * (prompt * most - most**2 / 2.0) / model.sparse_stride
    pairs = pairs + near + sparse + model.pooled_layers * prompt**2 / 2.0 / model.pooled_stride
    return np.asarray(2.0 * pairs * model.num_heads * (key + value) + serving_columns.index_flops(model, prompt**2 / 2.0))


def prompt_ranks(serve: ServeColumns, *, sequences: Array) -> Array:
    """Devices that share the attention of `sequences` prompts: where ranks attend to sequences of
    their own, a prompt keeps to one tensor group.

    `sequences` [sequences] -> [GPUs].
    """
    return serve.tensor * np.minimum(serve.attention_data, np.maximum(sequences, 1.0))


def prefill_times(
    model: ModelColumns,
    serve: ServeColumns,
    device: DeviceColumns,
    links: LinkColumns,
    rates: ServeRates,
    *,
    prompt: Array,
    sequences: Array,
    cached: Array | float = 0.0,
    reached: ProductRates | None = None,
) -> PrefillTimes:
    """`sequences` prompts of `prompt` tokens treated together, cut into pieces of `chunk_tokens`,
    through all pipeline stages; `reached`: rates of products, where they are known already.

    `prompt` [tokens], `sequences` [sequences], `cached` [tokens] before each prompt that are in the
    cache already and only attended to. Each piece reads the weights again. Where stages overlap on
    pieces, the time is that of the pieces plus the filling of the pipeline.
    """
    tokens = np.maximum(prompt * sequences, 1.0)
    # Each rank that attends to prompts of its own takes a piece at a time.
    piece = np.maximum(serve.chunk_tokens, 1.0) * prompt_ranks(serve, sequences=sequences) / serve.tensor
    pieces = np.where(serve.chunk_tokens > 0, np.maximum(np.ceil(tokens / piece), 1.0), 1.0)
    rows = tokens / pieces
    whole = np.where(pieces > 1, np.floor(tokens / piece), 1.0)
    rest = np.where(pieces > 1, tokens - whole * piece, 0.0)
    reached = reached or product_rates(serve, device, rates)
    product = functools.partial(product_s, serve=serve, device=device, rates=rates, reached=reached)
    weights_s = functools.partial(_weights_s, model, serve, rates, sequences=sequences, product=product)
    piece_s = weights_s(rows=np.where(pieces > 1, piece, tokens))
    # A short last piece costs what its rows do; continuous batching fills its step with others.
    rest_s = np.where(serve.continuous > 0, piece_s * rest / piece, np.where(rest > 0, weights_s(rows=np.maximum(rest, 1.0)), 0.0))
    overlap = np.where(
        serve.pipelined_prefill > 0,
        (pieces + serve.pipeline - 1.0) / (pieces * serve.pipeline) * (1.0 + rates.pipeline_loss * (serve.pipeline - 1.0)),
        1.0,
    )
    overlap = np.minimum(overlap, 1.0)
    width = prompt_ranks(serve, sequences=sequences)
    scale = pieces * overlap
    traffic = rows * model.num_layers * model.hidden_size * rates.pass_bytes / width
    return PrefillTimes(
        weights=overlap * (whole * piece_s + rest_s),
        attention=overlap * attention_s(model, serve, device, rates, prompt=prompt, sequences=sequences, cached=cached),
        activations=scale * traffic / (device.memory_bandwidth * rates.stream_fraction),
        communication=scale * layers_collective_s(model, serve, links, rates, rows=rows),
        gaps=scale * gaps_s(model, rates),
        host=rates.step_s * pieces,
    )


def prefill_s(times: PrefillTimes, model: ModelColumns, serve: ServeColumns, rates: ServeRates) -> Array:
    """Seconds of the pass: the device's time or that of launching all layers, whichever is longer,
    and the host's own work -> [s].

    Graphs of decode steps do not cover prompts: their kernels are launched one by one.
    """
    extra = extra_kernels_s(model, rates)
    device = times.total - times.host - extra
    launch = np.maximum(rates.launch_s, rates.prefill_launch_s) * launch_factor(serve, rates) * model.num_layers
    launch = launch + rates.moe_prefill_launch_s * transformer.num_moe_layers(model)
    return np.maximum(device, launch) + extra + transformer.num_moe_layers(model) * rates.moe_launch_s + times.host


def _weights_s(
    model: ModelColumns, serve: ServeColumns, rates: ServeRates, *, rows: Array, sequences: Array, product: Callable[..., Array]
) -> Array:
    """All matrix products of one piece; the head sees the last token of each prompt only."""
    width = prompt_ranks(serve, sequences=sequences)
    dense = (serving_columns.attention_layer_parameters(model) + serving_columns.dense_layer_parameters(model)) / width
    bytes_each = np.where(
        dense > 0,
        (
            serving_columns.attention_layer_parameters(model) * serve.attention_bytes
            + serving_columns.dense_layer_parameters(model) * serve.linear_bytes
        )
        / np.maximum(dense * width, 1.0),
        serve.linear_bytes,
    )
    experts = transformer.routed_expert_parameters(model) / (serve.tensor * serve.attention_data)
    used = experts * np.where(model.num_experts > 0, model.experts_per_token / np.maximum(model.num_experts, 1.0), 0.0)
    reached = np.where(model.num_experts > 0, 1.0 - (1.0 - np.minimum(used / np.maximum(experts, 1.0), 1.0)) ** np.maximum(rows, 1.0), 0.0)
    head = model.vocab_size * model.hidden_size / serve.tensor
    layers = 2.0 * model.num_layers
    seconds = product(parameters_read=dense, parameters_used=dense, weight_bytes=bytes_each, rows=rows, num_products=2.0 * layers)
    seconds = seconds + product(
        parameters_read=experts * reached,
        parameters_used=used,
        weight_bytes=serve.expert_bytes,
        rows=rows,
        num_products=layers,
        groups=expert_groups(model, reached),
        grouped=rates.grouped_gemm,
    )
    head_rows = np.where(serve.full_logits > 0, rows, np.minimum(sequences, rows))
    return seconds + product(
        parameters_read=head, parameters_used=head, weight_bytes=serve.other_bytes, rows=head_rows, num_products=np.ones(1)
    )


def attention_s(
    model: ModelColumns,
    serve: ServeColumns,
    device: DeviceColumns,
    rates: ServeRates,
    *,
    prompt: Array,
    sequences: Array,
    cached: Array | float,
) -> Array:
    """Seconds of fused attention in all layers at its fraction of the 16-bit peak; the unfused kind
    also writes and reads its score matrix.

    `prompt` [tokens], `sequences` [sequences], `cached` [tokens] before each prompt -> [s]. Known
    error: short prompts take up to ten microseconds a layer more, which is in `layer_s`:
    docs/accuracy/kernels.md.
    """
    width = prompt_ranks(serve, sequences=sequences)
    math = np.where(serve.math <= float(Math.TF32), serve.math, float(Dtype.BF16))
    flops = attention_flops(model, prompt=prompt + cached) - attention_flops(model, prompt=cached + np.zeros(1))
    fused = sequences * flops / width / (peak_ops(device, math, rates) * rates.flash_fraction)
    scores = serve.eager_attention * sequences * prompt * (prompt + cached) * model.num_heads * model.num_layers * rates.score_bytes / width
    return soft_max(fused, scores / (device.memory_bandwidth * rates.stream_fraction), sharpness=rates.sharpness)


#: Tensors of the width of a layer that are live at once: residual, queries, keys, values, and the
#: four of the feed-forward block.
_LIVE = 12.0


def tower_flops(model: ModelColumns, *, patches: Array) -> Array:
    """Operations of one image.

    `patches` [tokens] of it -> [FLOP]. 2 x parameters x patches + 4 x layers x width x patches^2
    (each image attends to itself alone). Known error: towers with windows (Qwen2.5-VL) attend to
    less, up to a third too many for images of several megapixels.

    Source: Dosovitskiy et al. 2021 (ViT); Kaplan et al. 2020 for two operations a
    parameter and position.
    """
    scores = 4.0 * model.vision_layers * model.vision_hidden * patches**2
    return 2.0 * model.params_vision * patches + scores


def tower_s(model: ModelColumns, *, patches: Array, images: Array, flops_per_s: Array) -> Array:
    """Seconds before the prompt can be read.

    `patches` [tokens] of an image, `images` [1] of a request, `flops_per_s` [FLOP/s] reached by the
    devices that share the tower -> [s].

    Source: Dosovitskiy et al. 2021 (ViT); Kaplan et al. 2020 for two operations a
    parameter and position.
    """
    return np.asarray(images * tower_flops(model, patches=patches) / np.maximum(flops_per_s, 1.0))


def tower_bytes(model: ModelColumns, *, patches: Array, bytes_each: float = 2.0) -> Array:
    """Activations while one image passes the tower.

    `patches` [tokens], `bytes_each` [bytes/element] -> [bytes]; attention is taken as fused.

    Source: Dosovitskiy et al. 2021 (ViT); Kaplan et al. 2020 for two operations a
    parameter and position.
    """
    return _LIVE * patches * model.vision_hidden * bytes_each
