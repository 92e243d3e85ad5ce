"""Time of one optimizer step of a model that is not a language model: forward, backward, recomputation, tables, gradients, optimizer.

A step is three forward passes in arithmetic (the backward pass computes gradients of inputs and of weights: Kaplan et al. 2020, appendix;
the same for convolutions) and about as many in memory traffic; a frozen part costs one. Each pass is the roofline of `physics.forward`.
Tables of a recommender cost bytes, not arithmetic. Gradients travel while the backward pass runs. Nothing here knows models, cards or
frameworks.

Source: Williams et al. 2009 (roofline), Kaplan et al. 2020; docs/decisions/vision-training.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics import collectives
from rightfit.physics.columns import Array, Columns, LinkColumns, column
from rightfit.physics.forward import ForwardColumns, ForwardRates, device_s
from rightfit.physics.rates import RateColumns
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class StepWork(Columns):
    """Work of one sample, whatever device runs it.

    `macs` multiply-adds of matrix products and convolutions, `score_macs` those of attention scores, `activations` elements that weighted
    layers write, all of one forward pass; `frozen_macs`, `frozen_activations` the same of parts that run forward only (a frozen stem, a
    text encoder, an image encoder); `layers` weighted layers in sequence; `weights` parameters that a pass reads; `trained` parameters that
    get a gradient; `gathered` elements read from embedding tables, `exchanged` elements of them that travel to another device when tables
    are split; `host_s` seconds of one processor core per sample for work that no device does; `streamed_bytes` of weights that lie in host
    memory and travel to the device in each pass (per pass, not per sample).
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
    """How a step is run: `batch` samples per device and pass, `grad_accum` passes a step, `num_gpus`, `gpus_per_node`.

    `recompute` 0-1: share of the forward pass that the backward pass runs again; `input_gradients_only` 1 where weights are frozen and only
    adapters learn, so that the backward pass lacks its second half.
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

    `backward_traffic` memory traffic of the backward pass over that of the forward pass; `gradient_bytes` of one gradient and
    `exchange_bytes` of one element of a table row on the wire; `update_bytes` memory traffic of the optimizer per trained parameter;
    `gather_bytes` memory traffic per gathered element, forward, backward and update; `overlap` share of the backward pass that hides
    communication; `local_straggler`, `straggler` slow-down per doubling of devices in a server and of servers; `loader_s` seconds per
    sample and device that the input pipeline needs at least; `step_s` fixed seconds a step; `host_forward` 0-1 share of the host's work of
    a pass and its backward pass that the forward pass takes: interpreted, where the backward pass is replayed from a graph, so that
    recomputation costs the host more than a third.
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
    """Forward passes that the arithmetic of one pass and its backward pass is worth: 3, or 2 without weight gradients, plus recomputation.

    -> [1].
    """
    return 3.0 - layout.input_gradients_only + layout.recompute


def compute_s(work: StepWork, layout: StepLayout, rates: ForwardRates, step: StepRates) -> Array:
    """Seconds that a device computes one pass and its backward pass; the slower of host and device counts -> [s]."""
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
    """Seconds that embedding tables of one pass cost: bytes gathered, scattered back and updated over memory bandwidth -> [s]."""
    return layout.batch * work.gathered * step.gather_bytes / rates.bandwidth


def update_s(work: StepWork, rates: ForwardRates, step: StepRates) -> Array:
    """Seconds of the optimizer: weights, gradients and states read and written once over memory bandwidth -> [s]."""
    return work.trained * step.update_bytes / rates.bandwidth


def communication_s(work: StepWork, layout: StepLayout, links: LinkColumns, bus: RateColumns, step: StepRates) -> tuple[Array, Array]:
    """Seconds of the all-reduce of gradients and of the all-to-all of split tables in one step -> [s], [s]."""
    ranks = collectives.group(layout.num_gpus, stride=np.ones(1), gpus_per_node=layout.gpus_per_node)
    reduce = collectives.all_reduce_s(work.trained * step.gradient_bytes, ranks, links, bus)
    if not (work.exchanged > 0).any():  # no tables are split: nearly every model
        return reduce, np.zeros_like(reduce)
    exchanged = layout.grad_accum * layout.batch * work.exchanged * step.exchange_bytes
    exchange = np.where(work.exchanged > 0, 2.0 * collectives.all_to_all_s(exchanged, ranks, links, bus), 0.0)
    return reduce, exchange


def stream_s(work: StepWork, layout: StepLayout, links: LinkColumns) -> Array:
    """Seconds that weights kept in host memory travel in one step: forward, recomputation and backward pass each read them once.

    -> [s].
    """
    passes = layout.grad_accum * (2.0 + layout.recompute)
    return np.where(work.streamed_bytes > 0, passes * work.streamed_bytes / np.maximum(links.host_bandwidth, 1.0), 0.0)


def straggler_factor(layout: StepLayout, step: StepRates) -> Array:
    """Slow-down of a step that waits for the slowest device: 1 + a log2(devices in a server) + b log2(servers) -> [1]."""
    inside = np.minimum(layout.num_gpus, layout.gpus_per_node)
    nodes = np.maximum(np.ceil(layout.num_gpus / np.maximum(layout.gpus_per_node, 1.0)), 1.0)
    return 1.0 + step.local_straggler * np.log2(np.maximum(inside, 1.0)) + step.straggler * np.log2(nodes)


@dataclass(frozen=True, slots=True)
class PassTimes(Columns):
    """Seconds that do not depend on how many devices there are: `compute` and `tables` of one pass, `update` of one step."""

    compute: Array = column(0, "s")
    tables: Array = column(0, "s")
    update: Array = column(0, "s")


def pass_times(work: StepWork, layout: StepLayout, rates: ForwardRates, step: StepRates) -> PassTimes:
    """The parts of a step that one device decides; a search evaluates them once for many numbers of devices."""
    return PassTimes(compute_s(work, layout, rates, step), table_s(work, layout, rates, step), update_s(work, rates, step))


def joined_terms(
    parts: PassTimes, work: StepWork, layout: StepLayout, step: StepRates, *, links: LinkColumns, bus: RateColumns
) -> dict[str, Array]:
    """Seconds of one optimizer step by what takes them, from the times of a pass; they add up to the step -> [s] by part.

    `compute` includes waiting for the slowest device; `communication` is what the backward pass does not hide; `loading` what the input
    pipeline adds where it is slower than all the rest.
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
