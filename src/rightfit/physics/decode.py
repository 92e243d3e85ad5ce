"""Time of one decode step: a roofline by operator.

Each step reads the weights that the batch touches once, the cache of every sequence once, and pays
kernel gaps, launches and collectives (Pope et al., Efficiently Scaling Transformer Inference,
2022). Known error: 5-10 % for one stream on a graph engine, 20-30 % for stacks of many small
kernels whose launches overlap with the device only in part.

Source: Pope et al. 2022, Williams et al. 2009 (roofline); docs/decisions/serving-physics.md.

Speculative decoding: a cheap draft proposes tokens, the model checks them in one step.

Source: Leviathan et al., Fast Inference from Transformers via Speculative Decoding, ICML 2023; Chen
et al., Accelerating Large Language Model Decoding with Speculative Sampling, 2023.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from rightfit.physics import serving_columns, transformer
from rightfit.physics.columns import Array, DeviceColumns, IntraKind, LinkColumns, ModelColumns
from rightfit.physics.serving_columns import Math, ServeColumns, ServeRates
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class DecodeTimes:
    """Seconds of one step by term; `host` is what launching costs beyond the device's own time.

    Units: `weights`, `experts`, `attention`, `head`, `communication`, `gaps`, `host` [s].
    """

    weights: Array
    experts: Array
    attention: Array
    head: Array
    communication: Array
    gaps: Array
    host: Array

    @property
    def step(self) -> Array:
        """All terms together -> [s]."""
        return self.weights + self.experts + self.attention + self.head + self.communication + self.gaps + self.host


_HOST_TIMES = ("launch_s", "prefill_launch_s", "moe_prefill_launch_s", "ungraphed_s", "moe_launch_s", "step_s", "sequence_s", "request_s")


def on_host(rates: ServeRates, device: DeviceColumns) -> ServeRates:
    """Rates with the host's times as on the computers that hold such cards: GeForce cards sit
    beside desktop processors of high clock."""
    factor = np.where(device.price_class > 0, rates.desktop_host, 1.0)
    return rates.replace(**{name: getattr(rates, name) * factor for name in _HOST_TIMES})


def soft_max(*values: Array, sharpness: Array) -> Array:
    """A maximum whose corner is rounded: (a^p + b^p)^(1/p). Overlap is never perfect where
    two bounds are close.

    `values` [any], `sharpness` [1], p -> [any].
    """
    largest = values[0]
    for value in values[1:]:
        largest = np.maximum(largest, value)
    scale = np.maximum(largest, 1e-300)
    total = sum(((value / scale) ** sharpness for value in values), np.zeros(1))
    return np.asarray(scale * total ** (1.0 / sharpness))


def product_peak(device: DeviceColumns, math: Array, rates: ServeRates) -> Array:
    """Peak of the engine's matrix products: GeForce cards double it where sums are kept in 16 bit.

    `math` [code] -> [operations/s].
    """
    halves = np.isin(math, (float(Math.FP16), float(Math.BF16))) & (device.price_class > 0) & (device.compute_capability >= 8.0)
    return peak_ops(device, math, rates) * np.where(halves, 1.0 + rates.half_accumulation, 1.0)


def within_power(flops: Array, serve: ServeColumns, device: DeviceColumns, rates: ServeRates) -> Array:
    """A rate that the card's power sustains: products of 8 bit take half the energy of 16, those
    of 4 bit a quarter.

    `flops` [FLOP/s] -> [FLOP/s].
    """
    eighth = (serve.math >= float(Math.FP8)) & ((serve.math != float(Math.MX)) | (device.fp4_flops > 0))
    width = np.select([serve.math == float(Math.FP4), eighth], [0.25, 0.5], 1.0)
    energy = rates.joules_per_flop * width
    power = np.where((energy > 0) & (device.tdp_w > 0), device.tdp_w / np.maximum(energy, 1e-30), np.inf)
    return np.asarray((flops**-rates.sharpness + power**-rates.sharpness) ** (-1.0 / rates.sharpness))


def peak_ops(device: DeviceColumns, math: Array, rates: ServeRates) -> Array:
    """Dense peak of each row's arithmetic; falls to the next wider one that the device has.

    `math` [code] -> [operations/s].
    """
    sixteen = np.where(device.fp16_flops > 0, device.fp16_flops, np.where(device.bf16_flops > 0, device.bf16_flops, device.fp32_flops))
    single = np.where(device.fp32_flops > 0, device.fp32_flops, sixteen / rates.fp32_ratio)
    brain = np.where(device.bf16_flops > 0, device.bf16_flops, sixteen)
    eight = np.where(device.fp8_flops > 0, device.fp8_flops, brain)
    whole = np.where(device.int8_ops > 0, device.int8_ops, sixteen)
    four = np.where(device.fp4_flops > 0, device.fp4_flops, sixteen)
    mixed = np.where(device.fp4_flops > 0, eight, sixteen)
    tensor = np.where(device.tf32_flops > 0, device.tf32_flops, single)
    choices = np.broadcast_arrays(single, tensor, sixteen, brain, eight, whole, four, mixed, math)
    return np.asarray(np.choose(choices[8].astype(np.intp), choices[:8]))


def touched_experts(model: ModelColumns, tokens: Array, skew: Array) -> Array:
    """Share of the routed experts that a batch of `tokens` reaches: 1 - (1 - k / E)^(tokens^skew),
    Jensen's bound for unequal routing.

    `tokens` [tokens], `skew` [1] -> [1].
    """
    share = np.where(model.num_experts > 0, model.experts_per_token / np.maximum(model.num_experts, 1.0), 0.0)
    independent = np.maximum(tokens, 1.0) ** skew
    return np.where(model.num_experts > 0, 1.0 - (1.0 - np.minimum(share, 1.0)) ** independent, 0.0)


@dataclass(frozen=True, slots=True)
class ProductRates:
    """What a device does for matrix products of an engine, whatever their size.

    Units: `bandwidth` [bytes/s], `peak`, `vector` [operations/s].
    """

    bandwidth: Array
    peak: Array
    vector: Array


def product_rates(serve: ServeColumns, device: DeviceColumns, rates: ServeRates) -> ProductRates:
    """Rates at which weights are streamed, multiplied and expanded, for all products of one
    set of rows -> [bytes/s], [operations/s]."""
    bandwidth = np.where(serve.offload_bandwidth > 0, serve.offload_bandwidth, device.memory_bandwidth * rates.stream_fraction)
    bandwidth = bandwidth * np.where(serve.offload_bandwidth > 0, 1.0, rates.kernel_quality * rates.format_stream)
    peak = within_power(product_peak(device, serve.math, rates) * rates.gemm_fraction, serve, device, rates)
    vector = np.where(device.fp32_flops > 0, device.fp32_flops, peak_ops(device, np.full(1, float(Math.BF16)), rates) / rates.vector_ratio)
    return ProductRates(bandwidth, peak * rates.gemm_quality * rates.format_gemm, np.maximum(vector * rates.dequantise_rate, 1.0))


def product_s(
    *,
    parameters_read: Array,
    parameters_used: Array,
    weight_bytes: Array,
    rows: Array,
    num_products: Array,
    serve: ServeColumns,
    device: DeviceColumns,
    rates: ServeRates,
    groups: Array | float = 0.0,
    grouped: Array | float = 1.0,
    reached: ProductRates | None = None,
) -> Array:
    """Seconds of a chain of matrix products on one device; `reached`: its rates, where they are
    known already.

    `parameters_read` [parameters] are fetched, `parameters_used` [parameters] each of `rows`
    [tokens] multiplies, `weight_bytes` [bytes/parameter], `num_products` [1] in the chain (each
    waits `stream_ramp_s` before it streams), `groups` [1] products of as many experts, over which
    the
    rows are spread, each waste part of their last tile, at `grouped` [1] of the rate -> [s]. Soft
    maximum of traffic, arithmetic and expanding.
    """
    reached = reached or product_rates(serve, device, rates)
    traffic = parameters_read * weight_bytes / reached.bandwidth + num_products * rates.stream_ramp_s
    # Few rows waste as much again of their tile, many the tile's own height.
    waste = rates.gemm_ramp * rows / (rows + rates.gemm_ramp) + groups * rates.expert_ramp * (rows > 1.0)
    compute = 2.0 * parameters_used * (rows + waste) / (reached.peak * grouped)
    expand = parameters_read * serve.dequantise_ops / reached.vector
    return soft_max(traffic, compute, expand, sharpness=rates.sharpness)


def decode_times(
    model: ModelColumns,
    serve: ServeColumns,
    device: DeviceColumns,
    links: LinkColumns,
    rates: ServeRates,
    *,
    batch: Array,
    context: Array,
    reached: ProductRates | None = None,
) -> DecodeTimes:
    """One step of `batch` sequences of mean length `context` each; `reached`: rates of its
    products, where they are known already.

    `batch` [sequences], `context` [tokens].
    Stages of a pipeline follow one another: a token waits for all of them, with the batch cut into
    as many pieces when the engine keeps every stage busy.
    """
    pieces = np.where(serve.layer_split > 0, 1.0, np.minimum(serve.pipeline, np.maximum(batch, 1.0)))
    rows = batch / pieces
    local = np.maximum(rows / serve.attention_data, 1.0)
    layers = model.num_layers
    reached = reached or product_rates(serve, device, rates)
    product = functools.partial(product_s, serve=serve, device=device, rates=rates, reached=reached)
    attention_params = serving_columns.attention_layer_parameters(model) / serve.tensor
    dense = serving_columns.dense_layer_parameters(model) / (serve.tensor * serve.attention_data)
    weights = product(
        parameters_read=attention_params,
        parameters_used=attention_params,
        weight_bytes=serve.attention_bytes,
        rows=local,
        num_products=2.0 * layers,
    ) + product(
        parameters_read=dense,
        parameters_used=dense,
        weight_bytes=serve.linear_bytes,
        rows=rows,
        num_products=2.0 * (layers - transformer.num_moe_layers(model)),
    )
    head_params = model.vocab_size * model.hidden_size / serve.tensor
    head = product(
        parameters_read=head_params,
        parameters_used=head_params,
        weight_bytes=serve.other_bytes,
        rows=local,
        num_products=np.ones(1),
    )
    return DecodeTimes(
        weights=weights,
        experts=_experts_s(model, serve, rates, rows=rows, product=product) if np.any(model.num_experts > 0) else np.zeros(1),
        attention=attention_s(model, serve, device, rates, rows=rows, context=context),
        head=head,
        communication=_communication_s(model, serve, links, rates, rows=rows),
        gaps=gaps_s(model, rates),
        host=rates.step_s + rates.sequence_s * batch,
    )


def step_s(times: DecodeTimes, model: ModelColumns, serve: ServeColumns, rates: ServeRates) -> Array:
    """Seconds of a step: the device's time or that of launching all layers, whichever is longer,
    and the host's own work -> [s].

    Kernels beyond the usual ones of a layer (experts, latent or linear attention) add to both.
    """
    beyond = (serve.graph_limit > 0) & (serve.input_tokens + serve.output_tokens / 2.0 > serve.graph_limit)
    launch = np.where(beyond, np.maximum(rates.ungraphed_s, rates.launch_s), rates.launch_s) * launch_factor(serve, rates)
    extra = extra_kernels_s(model, rates)
    device = times.step - times.host - extra
    experts = transformer.num_moe_layers(model) * rates.moe_launch_s
    return np.maximum(device, launch * model.num_layers) + extra + experts + times.host


def _experts_s(model: ModelColumns, serve: ServeColumns, rates: ServeRates, *, rows: Array, product: Callable[..., Array]) -> Array:
    experts = transformer.routed_expert_parameters(model) / (serve.tensor * serve.attention_data)
    share = touched_experts(model, rows, rates.expert_skew)
    used = experts * np.where(model.num_experts > 0, model.experts_per_token / np.maximum(model.num_experts, 1.0), 0.0)
    seconds = product(
        parameters_read=experts * share,
        parameters_used=used,
        weight_bytes=serve.expert_bytes,
        rows=rows,
        num_products=2.0 * transformer.num_moe_layers(model),
        groups=expert_groups(model, share),
        grouped=rates.grouped_gemm,
    )
    return np.where(model.num_experts > 0, seconds, 0.0)


def expert_groups(model: ModelColumns, share: Array) -> Array:
    """Over how many experts each token's work is spread relative to those it uses:
    reached experts / k.

    `share` [1] -> [1].
    """
    return np.where(model.num_experts > 0, share * model.num_experts / np.maximum(model.experts_per_token, 1.0), 0.0)


def attention_s(
    model: ModelColumns, serve: ServeColumns, device: DeviceColumns, rates: ServeRates, *, rows: Array, context: Array
) -> Array:
    """Seconds of reading the cache in all layers, and for MLA the arithmetic of all heads on
    the shared latent.

    `rows` [sequences] with one new token each, `context` [tokens] of each -> [s]. Known error: the
    time of a kernel that reads little is not here but in `layer_s`: docs/accuracy/kernels.md.
    """
    cache = serving_columns.read_bytes(model, serve.kv_bytes, context)
    share = serving_columns.kv_replication(model, serve) / (serve.tensor * serve.attention_data)
    repeats = rates.repeat_passes * np.maximum(model.num_heads / np.maximum(model.num_kv_heads, 1.0) - 1.0, 0.0)
    traffic = (
        rows
        * cache
        * share
        * (1.0 + rates.cache_passes + np.where(transformer.is_mla(model), 0.0, repeats))
        / (device.memory_bandwidth * rates.attention_stream)
    )
    width = np.where(transformer.is_mla(model), 2.0 * model.kv_lora_rank + model.qk_rope_head_dim, 0.0)
    attended = 2.0 * serving_columns.attended_tokens(model, context) * model.num_heads * width
    flops = rows * (attended + serving_columns.index_flops(model, context)) / (serve.tensor * serve.attention_data)
    peak = peak_ops(device, np.full(1, float(Math.BF16)), rates)
    return soft_max(traffic, flops / (peak * rates.flash_fraction), sharpness=rates.sharpness)


def group_link(serve: ServeColumns, links: LinkColumns, rates: ServeRates) -> Array:
    """Bandwidth of the slowest link in a group of ranks -> [bytes/s]."""
    ranks = serve.tensor * serve.attention_data
    # Cards that do not read one another meet in the host's memory; that is counted here, so from
    # the bare PCIe link (`intra_bandwidth` of GeForce cards halves it already). Half of a server's
    # cards hang on each processor: groups beyond that share the link between the two, where there
    # are two (cards in pairs have one); a ring of cards that read one another passes it once in
    # each direction.
    staged = (links.intra_kind == float(IntraKind.PCIE)) & (serve.peer_access == 0.0)
    crossing = (serve.gpus_per_node > 2.0) & (ranks > serve.gpus_per_node / 2.0)
    met = links.host_bandwidth * rates.host_staging * np.where(crossing, rates.socket_crossing, 1.0)
    link = np.maximum(np.where(staged, met, links.intra_bandwidth) * rates.link_fraction, 1.0)
    between = np.maximum(links.inter_bandwidth, 1.0) * rates.link_fraction
    return np.where(ranks > serve.gpus_per_node, np.minimum(link, between), link)


def reduce_s(size_bytes: Array, serve: ServeColumns, links: LinkColumns, rates: ServeRates) -> Array:
    """One all-reduce over the tensor group: a latency and twice the buffer through the link.

    `size_bytes` [bytes] -> [s].
    """
    ranks = serve.tensor * serve.attention_data
    across = ranks > serve.gpus_per_node
    link = group_link(serve, links, rates)
    latency = rates.all_reduce_s * np.log2(np.maximum(ranks, 2.0)) + np.where(across, 2.0 * links.inter_latency_s, 0.0)
    return np.where(ranks > 1.0, latency + 2.0 * (ranks - 1.0) / ranks * size_bytes / link, 0.0)


def _communication_s(model: ModelColumns, serve: ServeColumns, links: LinkColumns, rates: ServeRates, *, rows: Array) -> Array:
    """The collectives of all layers, one hand-over a pipeline stage."""
    message = rows * model.hidden_size * 2.0
    stages = np.maximum(serve.pipeline - 1.0, 0.0)
    across = serve.pipeline * serve.tensor * serve.attention_data > serve.gpus_per_node
    link = np.where(across & (links.inter_bandwidth > 0), np.minimum(links.intra_bandwidth, links.inter_bandwidth), links.intra_bandwidth)
    hand_over = stages * (message / np.maximum(link * rates.link_fraction, 1.0) + rates.all_reduce_s)
    return layers_collective_s(model, serve, links, rates, rows=rows) + hand_over


def layers_collective_s(model: ModelColumns, serve: ServeColumns, links: LinkColumns, rates: ServeRates, *, rows: Array) -> Array:
    """Collectives of all layers: two all-reduces each over the tensor group.

    `rows` [tokens] -> [s].
    Where ranks attend to sequences of their own, a layer of experts instead sends each token to the
    ranks of its k experts in 8 bit and back in 16, and its attention needs no collective but that
    of its own tensor group.
    """
    reduced = 2.0 * model.num_layers * reduce_s(rows * model.hidden_size * 2.0, serve, links, rates)
    own = serve.replace(attention_data=np.ones(1))
    local = np.maximum(rows / serve.attention_data, 1.0) * model.hidden_size
    ranks = serve.tensor * serve.attention_data
    copies = np.minimum(np.maximum(model.experts_per_token, 1.0), ranks) * (ranks - 1.0) / ranks
    link = group_link(serve, links, rates)
    exchange = 2.0 * rates.all_reduce_s * np.log2(np.maximum(ranks, 2.0)) + 3.0 * local * copies / link / serve.tensor
    moe = transformer.num_moe_layers(model)
    exchanged = (2.0 * model.num_layers - moe) * reduce_s(local * 2.0, own, links, rates) + moe * exchange
    return np.where((serve.attention_data > 1.0) & (model.num_experts > 0), exchanged, reduced)


def launch_factor(serve: ServeColumns, rates: ServeRates) -> Array:
    """By how much launching a layer takes longer: kernels that expand weights, collectives and
    waiting for other ranks -> [1]."""
    return rates.format_launch * np.where(serve.tensor > 1.0, 1.0 + rates.tensor_launch, 1.0)


def extra_kernels_s(model: ModelColumns, rates: ServeRates) -> Array:
    """Time of the small kernels that MLA, mixtures of experts, linear attention and the indexer of
    sparse attention add -> [s]."""
    mla = np.where(transformer.is_mla(model), model.num_layers, 0.0) * rates.mla_layer_s
    others = model.num_linear_layers * rates.linear_layer_s + model.num_index_layers * rates.index_layer_s
    return mla + transformer.num_moe_layers(model) * rates.moe_layer_s + others


def gaps_s(model: ModelColumns, rates: ServeRates) -> Array:
    """Time between kernels on the device in all layers -> [s]."""
    return model.num_layers * rates.layer_s + extra_kernels_s(model, rates)


def expected_tokens(acceptance: Array, *, drafted: Array) -> Array:
    """Tokens that one step yields in the mean.

    `acceptance` [1] probability that a drafted token is accepted, the same for each, `drafted`
    [tokens] in a step -> [tokens], 1 to drafted
    + 1.
    (1 - a^(k + 1)) / (1 - a), Leviathan et al. (2023) equation 1; k + 1 where a = 1. Example:
    a = 0.8, k = 4: 3.36.
    Known error: acceptance falls along the draft and differs between requests (Jensen): up to 10 %
    too many for k above 4.

    Source: Leviathan et al., Fast Inference from Transformers via Speculative Decoding, ICML 2023;
    Chen et al., Accelerating Large Language Model Decoding with Speculative Sampling, 2023.
    """
    acceptance, drafted = np.broadcast_arrays(np.asarray(acceptance, dtype=np.float64), np.asarray(drafted, dtype=np.float64))
    sure = acceptance >= 1.0 - 1e-12
    rest = np.where(sure, 1.0, 1.0 - acceptance)
    return np.where(sure, drafted + 1.0, (1.0 - acceptance ** (drafted + 1.0)) / rest)


def token_s(verify_s: Array, *, draft_s: Array, drafted: Array, acceptance: Array) -> Array:
    """Seconds per token that is kept: (verify + k x draft) / expected tokens.

    `verify_s` [s] of a step of the model over the drafted tokens and one more of each
    sequence, `draft_s` [s] of one step of the draft (0 for n-grams), `drafted` [tokens],
    `acceptance` [1] -> [s].
    Theorem 3.8 of Leviathan et al. (2023) without their assumption that checking k + 1 tokens
    takes as long as one.

    Source: Leviathan et al., Fast Inference from Transformers via Speculative Decoding, ICML 2023;
    Chen et al., Accelerating Large Language Model Decoding with Speculative Sampling, 2023.
    """
    return np.asarray((verify_s + drafted * draft_s) / expected_tokens(acceptance, drafted=drafted))
