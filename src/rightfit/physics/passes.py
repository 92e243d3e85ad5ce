"""Time of one forward pass of a model that does not generate token by token: vision, encoders,
diffusion denoisers, speech encoders.

A pass is a chain of layers. The device works through matrix products (bounded by arithmetic) and
element-wise traffic (bounded by memory bandwidth); each layer also costs a fixed time on the
device, and the host must enqueue it. Whichever of host and device is slower sets the pace. Nothing
here knows models or engines: callers give work and rates.

Source: Williams et al. 2009 (roofline); docs/decisions/forward-passes.md.

Peak memory of one device while a model that is not a language model trains: states, activations,
frozen parts, tables, overheads.

What autograd keeps between forward and backward pass is counted in elements per sample by the
caller (a convolution keeps its input, a batch normalisation its input, an activation its output).
With recomputation only the inputs of blocks stay, plus one block while it is computed again.

Source: accounting; docs/decisions/vision-training.md.

Time of one optimizer step of a model that is not a language model: forward, backward,
recomputation, tables, gradients, optimizer.

A step is three forward passes in arithmetic (the backward pass computes gradients of inputs and of
weights: Kaplan et al. 2020, appendix; the same for convolutions) and about as many in memory
traffic; a frozen part costs one. Each pass is the roofline of `physics.forward`. Tables of a
recommender cost bytes, not arithmetic. Gradients travel while the backward pass runs. Nothing here
knows models, cards or frameworks.

Source: Williams et al. 2009 (roofline), Kaplan et al. 2020; docs/decisions/vision-training.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics import collectives
from rightfit.physics.columns import Array, Columns, LinkColumns, MemoryCounter, column
from rightfit.physics.operators import RateColumns
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES


@dataclass(frozen=True, slots=True)
class ForwardColumns(Columns):
    """Work of one forward pass over `items` inputs that run together on one device.

    `macs` multiply-adds of matrix products and `activations` elements written by the weighted
    layers, both per item; `score_macs` those of attention scores per item; `weights` parameters
    read once a pass; `layers` weighted layers in sequence.
    """

    items: Array = column(1, "items")
    macs: Array = column(0, "MAC")
    score_macs: Array = column(0, "MAC")
    activations: Array = column(0, "elements")
    weights: Array = column(0, "parameters")
    layers: Array = column(1, "layers")


@dataclass(frozen=True, slots=True)
class ForwardRates(Columns):
    """What device and engine make of the work.

    `flops` sustained arithmetic [FLOP/s]; `score_flops` that of attention scores; `bandwidth`
    [bytes/s]; `activation_bytes` and `weight_bytes` per element; `passes` how often an activation
    crosses the memory bus; `fill_elements` output elements that one layer must have to fill the
    device; `cache_bytes` of activations that one layer hands to the next without the memory bus;
    `layer_s` fixed device time and `launch_s` host time per layer; `call_s` host time per pass;
    `mixing` the exponent by which arithmetic and traffic overlap (1 = none, infinity = full),
    `host_sharpness` that by which the slower of host and device takes over.
    """

    flops: Array = column(1, "FLOP/s")
    score_flops: Array = column(1, "FLOP/s")
    bandwidth: Array = column(1, "bytes/s")
    activation_bytes: Array = column(2, "bytes/element")
    weight_bytes: Array = column(2, "bytes/parameter")
    passes: Array = column(1, "1")
    fill_elements: Array = column(0, "elements")
    cache_bytes: Array = column(0, "bytes")
    layer_s: Array = column(0, "s")
    launch_s: Array = column(0, "s")
    call_s: Array = column(0, "s")
    mixing: Array = column(1, "1")
    host_sharpness: Array = column(1, "1")


def filled_fraction(work: ForwardColumns, rates: ForwardRates) -> Array:
    """Share of the device that the layers of a small batch keep busy, 0-1 -> [1].

    u = n / (n + f) with n the output elements of a mean layer [elements] and f `fill_elements`: the
    tail of half-filled waves of thread blocks (NVIDIA, Matrix Multiplication Background, "wave
    quantisation"), smoothed because layers differ.
    """
    elements = work.items * work.activations / np.maximum(work.layers, 1.0)
    return elements / np.maximum(elements + rates.fill_elements, 1e-9)


def matrix_s(work: ForwardColumns, rates: ForwardRates) -> Array:
    """Seconds of the matrix products of one pass: 2 FLOP per multiply-add over the sustained rate
    of a device so filled -> [s]."""
    products = 2.0 * work.items * (work.macs / rates.flops + work.score_macs / rates.score_flops)
    return products / np.maximum(filled_fraction(work, rates), 1e-6)


def missed_fraction(work: ForwardColumns, rates: ForwardRates) -> Array:
    """Share of activations that do not stay in the last-level cache from one layer to the next,
    0-1: x / (x + c) -> [1].

    x are the bytes of a mean layer [bytes], c `cache_bytes`; smooth because layers differ in size.
    With no cache all miss.
    """
    layer_bytes = work.items * work.activations / np.maximum(work.layers, 1.0) * rates.activation_bytes
    return np.where(rates.cache_bytes > 0, layer_bytes / np.maximum(layer_bytes + rates.cache_bytes, 1.0), 1.0)


def traffic_s(work: ForwardColumns, rates: ForwardRates) -> Array:
    """Seconds of memory traffic of one pass: activations that miss the cache as often as they cross
    the bus, weights once -> [s]."""
    moved = work.items * work.activations * rates.passes * rates.activation_bytes * missed_fraction(work, rates)
    return (moved + work.weights * rates.weight_bytes) / rates.bandwidth


def device_s(work: ForwardColumns, rates: ForwardRates) -> Array:
    """Seconds that the device works on one pass: (matrix^m + traffic^m)^(1/m) + layers x
    fixed time -> [s].

    The exponent m stands for the mix of layers: were all alike, the roofline would take the larger
    of the two (m = infinity); with some bound by arithmetic and some by traffic the sum of maxima
    lies between the maximum and the sum.
    """
    matrix, traffic = matrix_s(work, rates), traffic_s(work, rates)
    larger = np.maximum(np.maximum(matrix, traffic), 1e-15)
    mixed = larger * ((matrix / larger) ** rates.mixing + (traffic / larger) ** rates.mixing) ** (1.0 / rates.mixing)
    return mixed + work.layers * rates.layer_s


def host_s(work: ForwardColumns, rates: ForwardRates) -> Array:
    """Seconds that the host needs to enqueue one pass -> [s]."""
    return rates.call_s + work.layers * rates.launch_s


def forward_s(work: ForwardColumns, rates: ForwardRates) -> Array:
    """Seconds of one pass: host and device run side by side and the slower one counts -> [s]."""
    device, host = device_s(work, rates), host_s(work, rates)
    larger = np.maximum(device, host)
    return larger * ((device / larger) ** rates.host_sharpness + (host / larger) ** rates.host_sharpness) ** (1.0 / rates.host_sharpness)


def sustained_flops(peak_flops: Array, tdp_w: Array, flops_per_watt: Array) -> Array:
    """Arithmetic that a card holds under load: its peak or what its power budget pays for,
    whichever is less.

    `peak_flops` [FLOP/s], `tdp_w` [W] (0 = unknown, no limit), `flops_per_watt` [FLOP/J] of the
    dtype on that silicon -> [FLOP/s]. A T4 (65 TFLOP/s in 70 W) and an L4 (121 in 72 W) are bound
    by power, a V100 is not.
    """
    powered = np.where(tdp_w > 0, tdp_w * flops_per_watt, np.inf)
    ratio = peak_flops / np.maximum(powered, 1.0)
    return peak_flops / (1.0 + ratio**3) ** (1.0 / 3.0)


@dataclass(frozen=True, slots=True)
class MemoryWork(Columns):
    """What a model holds. Elements are per sample.

    `params` of the trained network; `trained` of them (or of adapters beside them) that learn;
    `beside` parameters of frozen networks that stay on the device (text encoders, image decoder);
    `tables` parameters of embedding tables per device; `kept` elements kept for the backward
    pass, `block_inputs` those that stay with full recomputation, `block` those of one block;
    `widest` elements of the largest layer output; `fixed_bytes` anything else (features of a
    graph, buffers).
    """

    params: Array = column(0, "parameters")
    trained: Array = column(0, "parameters")
    beside: Array = column(0, "parameters")
    tables: Array = column(0, "parameters")
    kept: Array = column(0, "elements")
    block_inputs: Array = column(0, "elements")
    block: Array = column(0, "elements")
    widest: Array = column(0, "elements")
    fixed_bytes: Array = column(0, "bytes")


@dataclass(frozen=True, slots=True)
class TrainMemoryRates(Columns):
    """Bytes by what they hold, and overheads.

    `weight_bytes` per parameter as stored; `state_bytes` per trained parameter: gradient and
    optimizer states (and a master copy); `beside_bytes` per parameter of frozen networks;
    `table_bytes` per table parameter with its states; `activation_bytes` per element; `live_layers`
    widest layers that live beside what is kept, in the backward pass; `workspace_bytes` of
    libraries; `slack` share that an allocator holds unused; `context_bytes` of driver and runtime;
    `opened_bytes` per parameter of quantised weights that the backward pass keeps dequantised,
    where blocks are not recomputed; `recompute` as in StepLayout; `counter` a MemoryCounter code;
    `ema` 1 with a moving average of the weights.
    """

    weight_bytes: Array = column(0, "bytes/parameter")
    state_bytes: Array = column(0, "bytes/parameter")
    beside_bytes: Array = column(2, "bytes/parameter")
    table_bytes: Array = column(0, "bytes/parameter")
    activation_bytes: Array = column(0, "bytes/element")
    live_layers: Array = column(2, "layers")
    workspace_bytes: Array = column(0, "bytes")
    slack: Array = column(0, "1")
    context_bytes: Array = column(0, "bytes")
    recompute: Array = column(0, "1")
    counter: Array = column(MemoryCounter.ALLOCATED, "code")
    ema: Array = column(0, "flag")
    offload: Array = column(0, "1")
    opened_bytes: Array = column(0, "bytes/parameter")


def activation_elements(work: MemoryWork, recompute: Array) -> Array:
    """Elements kept per sample at the turn from forward to backward pass: all, or with full
    recomputation block inputs and one block.

    `recompute` [1] -> [elements].

    Source: accounting; docs/decisions/vision-training.md.
    """
    least = np.minimum(work.block_inputs + work.block, work.kept)
    return np.asarray(work.kept + recompute * (least - work.kept), dtype=np.float64)


def memory_terms(work: MemoryWork, rates: TrainMemoryRates, *, batch: Array) -> dict[str, Array]:
    """Peak memory of one device by what holds it, as the asked counter sees it; the terms add up.

    `batch` [samples] -> [bytes] by part.
    `batch` (N,) samples per device and pass. Allocated counts tensors only; reserved adds what the
    allocator holds; the driver's view adds the context.

    Source: accounting; docs/decisions/vision-training.md.
    """
    on_card = 1.0 - rates.offload
    opened = work.params * rates.opened_bytes * (1.0 - rates.recompute) * on_card
    weights = work.params * rates.weight_bytes * on_card + opened + work.trained * FP32_BYTES * rates.ema
    states = work.trained * rates.state_bytes
    activations = batch * activation_elements(work, rates.recompute) * rates.activation_bytes
    transient = batch * work.widest * rates.live_layers * rates.activation_bytes + rates.workspace_bytes
    terms = {
        "weights": weights,
        "states": states,
        "frozen_networks": work.beside * rates.beside_bytes,
        "tables": work.tables * rates.table_bytes + work.fixed_bytes,
        "activations": activations,
        "transient": transient,
    }
    tensors = sum(terms.values(), np.zeros(1))
    held = np.where(rates.counter >= MemoryCounter.RESERVED, rates.slack * tensors, 0.0)
    driver = np.where(rates.counter >= MemoryCounter.DRIVER, rates.context_bytes, 0.0)
    terms |= {"allocator": held, "context": driver}
    return {name: np.asarray(value, dtype=np.float64) for name, value in terms.items()}


@dataclass(frozen=True, slots=True)
class StepWork(Columns):
    """Work of one sample, whatever device runs it.

    `macs` multiply-adds of matrix products and convolutions, `score_macs` those of attention
    scores, `activations` elements that weighted layers write, all of one forward pass;
    `frozen_macs`, `frozen_activations` the same of parts that run forward only (a frozen stem, a
    text encoder, an image encoder); `layers` weighted layers in sequence; `weights` parameters
    that a pass reads; `trained` parameters that get a gradient; `gathered` elements read from
    embedding tables, `exchanged` elements of them that travel to another device when tables are
    split; `host_s` seconds of one processor core per sample for work that no device does;
    `streamed_bytes` of weights that lie in host memory and travel to the device in each pass (per
    pass, not per sample).
    """

    macs: Array = column(0, "MAC")
    score_macs: Array = column(0, "MAC")
    activations: Array = column(0, "elements")
    frozen_macs: Array = column(0, "MAC")
    frozen_activations: Array = column(0, "elements")
    layers: Array = column(1, "layers")
    weights: Array = column(0, "parameters")
    trained: Array = column(0, "parameters")
    gathered: Array = column(0, "elements")
    exchanged: Array = column(0, "elements")
    host_s: Array = column(0, "s")
    streamed_bytes: Array = column(0, "bytes")


@dataclass(frozen=True, slots=True)
class StepLayout(Columns):
    """How a step is run: `batch` samples per device and pass, `grad_accum` passes a step,
    `num_gpus`, `gpus_per_node`.

    `recompute` 0-1: share of the forward pass that the backward pass runs again;
    `input_gradients_only` 1 where weights are frozen and only adapters learn, so that the backward
    pass lacks its second half.
    """

    batch: Array = column(1, "samples")
    grad_accum: Array = column(1, "passes")
    num_gpus: Array = column(1, "GPUs")
    gpus_per_node: Array = column(8, "GPUs")
    recompute: Array = column(0, "1")
    input_gradients_only: Array = column(0, "flag")


@dataclass(frozen=True, slots=True)
class StepRates(Columns):
    """What devices and software make of it beyond the rates of one pass (`ForwardRates`).

    `backward_traffic` memory traffic of the backward pass over that of the forward pass;
    `gradient_bytes` of one gradient and `exchange_bytes` of one element of a table row on the wire;
    `update_bytes` memory traffic of the optimizer per trained parameter; `gather_bytes` memory
    traffic per gathered element, forward, backward and update; `overlap` share of the backward pass
    that hides communication; `local_straggler`, `straggler` slow-down per doubling of devices in a
    server and of servers; `loader_s` seconds per sample and device that the input pipeline needs at
    least; `step_s` fixed seconds a step; `host_forward` 0-1 share of the host's work of a pass and
    its backward pass that the forward pass takes: interpreted, where the backward pass is replayed
    from a graph, so that recomputation costs the host more than a third.
    """

    backward_traffic: Array = column(2, "1")
    gradient_bytes: Array = column(0, "bytes/parameter")
    exchange_bytes: Array = column(0, "bytes/element")
    update_bytes: Array = column(0, "bytes/parameter")
    gather_bytes: Array = column(0, "bytes/element")
    overlap: Array = column(1, "1")
    local_straggler: Array = column(0, "1")
    straggler: Array = column(0, "1")
    loader_s: Array = column(0, "s")
    step_s: Array = column(0, "s")
    host_forward: Array = column(1, "1")
    least_exposed: Array = column(0, "1")


def _pass(work: StepWork, layout: StepLayout, *, macs: Array, score_macs: Array, activations: Array, layers: Array) -> ForwardColumns:
    return ForwardColumns(
        items=np.maximum(layout.batch, 1e-3),
        macs=macs,
        score_macs=score_macs,
        activations=activations,
        weights=work.weights,
        layers=layers,
    )


def matrix_factor(layout: StepLayout) -> Array:
    """Forward passes that the arithmetic of one pass and its backward pass is worth: 3, or 2
    without weight gradients, plus recomputation.

    -> [1].

    Source: Williams et al. 2009 (roofline), Kaplan et al. 2020; docs/decisions/vision-training.md.
    """
    return 3.0 - layout.input_gradients_only + layout.recompute


def compute_s(work: StepWork, layout: StepLayout, rates: ForwardRates, step: StepRates) -> Array:
    """Seconds that a device computes one pass and its backward pass; the slower of host and
    device counts -> [s].

    Source: Williams et al. 2009 (roofline), Kaplan et al. 2020; docs/decisions/vision-training.md.
    """
    factor = matrix_factor(layout)
    traffic = (1.0 + step.backward_traffic + layout.recompute) / factor
    main = device_s(
        _pass(
            work,
            layout,
            macs=factor * work.macs,
            score_macs=(factor + 0.5) * work.score_macs,  # fused kernels compute the scores again
            activations=factor * work.activations,
            layers=np.maximum(factor * work.layers, 1.0),
        ),
        rates.replace(passes=rates.passes * traffic),
    )
    frozen = device_s(
        _pass(
            work,
            layout,
            macs=work.frozen_macs,
            score_macs=np.zeros(1),
            activations=np.maximum(work.frozen_activations, 1e-9),
            layers=np.ones(1),
        ),
        rates.replace(layer_s=np.zeros(1)),
    )
    device = main + np.where(work.frozen_macs > 0, frozen, 0.0)
    host = rates.call_s + 3.0 * (1.0 + layout.recompute * step.host_forward) * work.layers * rates.launch_s
    larger = np.maximum(np.maximum(device, host), 1e-12)
    return np.asarray(
        larger * ((device / larger) ** rates.host_sharpness + (host / larger) ** rates.host_sharpness) ** (1.0 / rates.host_sharpness)
    )


def table_s(work: StepWork, layout: StepLayout, rates: ForwardRates, step: StepRates) -> Array:
    """Seconds that embedding tables of one pass cost: bytes gathered, scattered back and updated
    over memory bandwidth -> [s].

    Source: Williams et al. 2009 (roofline), Kaplan et al. 2020; docs/decisions/vision-training.md.
    """
    return layout.batch * work.gathered * step.gather_bytes / rates.bandwidth


def update_s(work: StepWork, rates: ForwardRates, step: StepRates) -> Array:
    """Seconds of the optimizer: weights, gradients and states read and written once over
    memory bandwidth -> [s].

    Source: Williams et al. 2009 (roofline), Kaplan et al. 2020; docs/decisions/vision-training.md.
    """
    return work.trained * step.update_bytes / rates.bandwidth


def communication_s(work: StepWork, layout: StepLayout, links: LinkColumns, bus: RateColumns, step: StepRates) -> tuple[Array, Array]:
    """Seconds of the all-reduce of gradients and of the all-to-all of split tables in
    one step -> [s], [s].

    Source: Williams et al. 2009 (roofline), Kaplan et al. 2020; docs/decisions/vision-training.md.
    """
    ranks = collectives.group(layout.num_gpus, stride=np.ones(1), gpus_per_node=layout.gpus_per_node)
    reduce = collectives.all_reduce_s(work.trained * step.gradient_bytes, ranks, links, bus)
    if not (work.exchanged > 0).any():  # no tables are split: nearly every model
        return reduce, np.zeros_like(reduce)
    exchanged = layout.grad_accum * layout.batch * work.exchanged * step.exchange_bytes
    exchange = np.where(work.exchanged > 0, 2.0 * collectives.all_to_all_s(exchanged, ranks, links, bus), 0.0)
    return reduce, exchange


def stream_s(work: StepWork, layout: StepLayout, links: LinkColumns) -> Array:
    """Seconds that weights kept in host memory travel in one step: forward, recomputation and
    backward pass each read them once.

    -> [s].

    Source: Williams et al. 2009 (roofline), Kaplan et al. 2020; docs/decisions/vision-training.md.
    """
    passes = layout.grad_accum * (2.0 + layout.recompute)
    return np.where(work.streamed_bytes > 0, passes * work.streamed_bytes / np.maximum(links.host_bandwidth, 1.0), 0.0)


def straggler_factor(layout: StepLayout, step: StepRates) -> Array:
    """Slow-down of a step that waits for the slowest device: 1 + a log2(devices in a server) + b
    log2(servers) -> [1].

    Source: Williams et al. 2009 (roofline), Kaplan et al. 2020; docs/decisions/vision-training.md.
    """
    inside = np.minimum(layout.num_gpus, layout.gpus_per_node)
    nodes = np.maximum(np.ceil(layout.num_gpus / np.maximum(layout.gpus_per_node, 1.0)), 1.0)
    return 1.0 + step.local_straggler * np.log2(np.maximum(inside, 1.0)) + step.straggler * np.log2(nodes)


@dataclass(frozen=True, slots=True)
class PassTimes(Columns):
    """Seconds that do not depend on how many devices there are: `compute` and `tables` of one pass,
    `update` of one step."""

    compute: Array = column(0, "s")
    tables: Array = column(0, "s")
    update: Array = column(0, "s")


def pass_times(work: StepWork, layout: StepLayout, rates: ForwardRates, step: StepRates) -> PassTimes:
    """The parts of a step that one device decides; a search evaluates them once for many
    numbers of devices.

    Source: Williams et al. 2009 (roofline), Kaplan et al. 2020; docs/decisions/vision-training.md.
    """
    return PassTimes(compute_s(work, layout, rates, step), table_s(work, layout, rates, step), update_s(work, rates, step))


def joined_terms(
    parts: PassTimes, work: StepWork, layout: StepLayout, step: StepRates, *, links: LinkColumns, bus: RateColumns
) -> dict[str, Array]:
    """Seconds of one optimizer step by what takes them, from the times of a pass; they add up to
    the step -> [s] by part.

    `compute` includes waiting for the slowest device; `communication` is what the backward pass
    does not hide; `loading` what the input pipeline adds where it is slower than all the rest.

    Source: Williams et al. 2009 (roofline), Kaplan et al. 2020; docs/decisions/vision-training.md.
    """
    passes = parts.compute * layout.grad_accum
    tables = parts.tables * layout.grad_accum
    reduce, exchange = communication_s(work, layout, links, bus, step)
    backward = parts.compute * 2.0 / 3.0
    exposed = np.maximum(reduce - step.overlap * backward, step.least_exposed * reduce) + exchange
    compute = passes * straggler_factor(layout, step)
    streamed = np.maximum(stream_s(work, layout, links) - compute, 0.0)  # copies run beside the kernels of the block before
    host = layout.batch * layout.grad_accum * work.host_s + streamed
    busy = compute + tables + exposed + parts.update + step.step_s + host
    loading = np.maximum(layout.batch * layout.grad_accum * step.loader_s - busy, 0.0)
    terms = {
        "compute": compute,
        "tables": tables,
        "communication": exposed,
        "update": parts.update,
        "host": host + step.step_s,
        "loading": loading,
    }
    return {name: np.asarray(value, dtype=np.float64) for name, value in terms.items()}
