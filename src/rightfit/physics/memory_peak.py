"""The peak of GPU memory over the phases of a training step.

Five moments compete: the loss (all kept activations and the logits), the start of the backward pass (kept activations and the working set
of the last layer), its end (all gradients and the working set of the first layer), the optimizer step (gradients and scratch), and loading
where the whole model lies on the GPU before it is sharded. In between the sum moves linearly, so the largest of them is the peak. With
pipeline parallelism the first and the last stage compete as well.

Source: accounting over phases; Korthikanti et al. 2022 for pipelines; docs/decisions/memory-physics.md.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.physics import memory_activations as activations
from rightfit.physics import memory_buffers as buffers
from rightfit.physics import memory_logits as logits
from rightfit.physics import memory_overheads as overheads
from rightfit.physics import memory_states as states
from rightfit.physics import parameters
from rightfit.physics.columns import Array, DeviceColumns, MemoryCounter, Method, ModelColumns, Recompute, SetupColumns, ShardStage
from rightfit.records import dataclass

TERMS = (
    "weights",
    "adapters",
    "gradients",
    "optimizer",
    "master",
    "activations",
    "logits",
    "working",
    "buffers",
    "scratch",
    "workspace",
    "slack",
    "context",
)
STEADY = ("weights", "adapters", "optimizer", "master", "gradients", "scratch")
BY_LENGTH = ("activations", "logits", "working")


class Phase(IntEnum):
    """When the peak happens."""

    LOSS = 0
    BACKWARD_START = 1
    BACKWARD_END = 2
    STEP = 3
    LOAD = 4


@dataclass(frozen=True, slots=True)
class PeakColumns:
    """`terms` add up to `peak` [bytes per GPU], as the asked counter sees it; `required` is what the card must hold; `phase` as in Phase.

    Units: `terms`, `peak`, `required` [bytes], `phase` [code].
    """

    terms: dict[str, Array]
    peak: Array
    required: Array
    phase: NDArray[np.intp]


def peak_memory(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, *, coefficients: Mapping[str, float]) -> PeakColumns:
    """Peak memory per GPU, the worse of the first and the last pipeline stage.

    `coefficients` [coefficients].
    coefficients: see facts/data/coefficients/memory.toml.
    """
    last = _stage_peak(model, setup, device, coefficients, first=False, last=True)
    if not np.any(setup.pipeline > 1):
        return last
    piped = np.flatnonzero(np.broadcast_to(setup.pipeline > 1, last.peak.shape))
    first = _stage_peak(model.take(piped), setup.take(piped), device.take(piped), coefficients, first=True, last=False)
    return _worse_stage(last, first, piped)


def _worse_stage(last: PeakColumns, first: PeakColumns, piped: NDArray[np.intp]) -> PeakColumns:
    """The last stage's figures, and in the rows `piped` the first stage's where those are larger."""
    worse = np.broadcast_to(first.peak, piped.shape) > last.peak[piped]
    rows = piped[worse]

    def pick(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[Any]:
        answer = np.broadcast_to(ours, last.peak.shape).copy()
        answer[rows] = np.broadcast_to(theirs, piped.shape)[worse]
        return answer

    required = last.required.copy()
    required[piped] = np.maximum(required[piped], first.required)
    return PeakColumns(
        terms={name: pick(last.terms[name], first.terms[name]) for name in TERMS},
        peak=pick(last.peak, first.peak),
        required=required,
        phase=pick(last.phase, first.phase),
    )


def phase_memory(model: ModelColumns, setup: SetupColumns, *, coefficients: Mapping[str, float]) -> tuple[Array, ...]:
    """What the card must hold at each moment of a step, in the order of Phase, the worse of the first and the last pipeline stage.

    The largest is `required` of `peak_memory`. `coefficients` [coefficients] -> [bytes].
    coefficients: see facts/data/coefficients/memory.toml.
    """
    last = _needed(_live(model, setup, coefficients, first=False, last=True), setup, coefficients)
    if not np.any(setup.pipeline > 1):
        return last
    first = _needed(_live(model, setup, coefficients, first=True, last=False), setup, coefficients)
    return tuple(np.where(setup.pipeline > 1, np.maximum(one, other), one) for one, other in zip(last, first, strict=True))


def _needed(phases: tuple[dict[str, Array], ...], setup: SetupColumns, coefficients: Mapping[str, float]) -> tuple[Array, ...]:
    """Tensors of each moment, the least slack it can run with, and what lies outside of the allocator."""
    outside, live = _outside(setup, coefficients), [_sum(phase, TERMS) for phase in phases]
    return tuple(one + overheads.squeezed_bytes(one, coefficients=coefficients) + outside for one in live)


def tokens_per_gpu(setup: SetupColumns) -> Array:
    """Tokens of one micro-batch on one GPU [1] -> [tokens]."""
    return setup.micro_batch * setup.seq_len * setup.token_fraction / setup.context


def in_flight(setup: SetupColumns, *, first: bool) -> Array:
    """Micro-batches whose activations a stage holds at once: the first of a 1F1B pipeline as many as there are stages, the last one.

    Interleaved schedules hold (1 + (p - 1) / (p v)) times as much (Korthikanti et al. 2022). Stages that work one after the other hold one.

    -> [micro-batches].
    """
    if not first:
        return np.ones_like(setup.pipeline)
    waiting = np.minimum(setup.pipeline, np.maximum(setup.grad_accum, 1.0))
    interleaved = 1.0 + (setup.pipeline - 1.0) / (setup.pipeline * setup.virtual_pipeline)
    plain = waiting * np.where(setup.virtual_pipeline > 1, interleaved, 1.0)
    return np.where((setup.naive_pipeline > 0) | (setup.pipeline <= 1), 1.0, plain)


def trained_depth(model: ModelColumns, setup: SetupColumns) -> Array:
    """Part of the layers that the backward pass runs through: all, or the last ones where the others are frozen -> [1]."""
    body = np.maximum(parameters.body_parameters(model), 1.0)
    trained: Array = np.clip(setup.trainable_params / body, 0.0, 1.0)
    return np.where((setup.method == Method.FREEZE) & (trained > 0), trained, 1.0)


def kept_and_working(model: ModelColumns, setup: SetupColumns) -> tuple[Array, Array]:
    """Bytes per token that one layer keeps, and those it adds while its backward pass runs -> [bytes/token], [bytes/token]."""
    whole = activations.layer_activations(model, setup).total
    scratch = activations.backward_scratch_bytes(model, setup)
    selective = activations.selective_bytes(model, setup)
    checkpoint = activations.checkpoint_bytes(model, setup)
    chosen = [setup.recompute == Recompute.NONE, setup.recompute == Recompute.SELECTIVE]
    kept = np.select(chosen, [whole, selective], checkpoint)
    working = np.select(chosen, [0.0 * whole, np.maximum(whole - selective, 0.0)], whole) + scratch
    held = setup.frozen_input_copies * checkpoint
    return kept * (1.0 - setup.offload_activations) + held, working


def _stage_peak(
    model: ModelColumns, setup: SetupColumns, device: DeviceColumns, coefficients: Mapping[str, float], *, first: bool, last: bool
) -> PeakColumns:
    phases = _live(model, setup, coefficients, first=first, last=last)
    waiting = np.maximum(*(_sum(phase, BY_LENGTH) for phase in phases[:2]))
    left_over = overheads.left_over_bytes(phases[Phase.STEP]["scratch"], waiting, setup, coefficients=coefficients)
    slacks = [_slack(phase, setup, left_over * (index == Phase.STEP), coefficients) for index, phase in enumerate(phases)]
    usable = overheads.usable_bytes(device, coefficients=coefficients)
    outside = _outside(setup, coefficients)
    live = [_sum(phase, TERMS) for phase in phases]
    room = usable - outside
    whole = [np.maximum(np.minimum(slack, room - tensors), 0.0) for tensors, slack in zip(live, slacks, strict=True)]
    seen = setup.memory_counter != MemoryCounter.ALLOCATED
    moments = [{**phase, "slack": np.where(seen, slack, 0.0)} for phase, slack in zip(phases, whole, strict=True)]
    peak, phase, terms = _largest(moments, [tensors + moment["slack"] for tensors, moment in zip(live, moments, strict=True)])
    context = np.where(setup.memory_counter == MemoryCounter.DRIVER, outside, 0.0)
    most = functools.reduce(np.maximum, live)
    required = most + overheads.squeezed_bytes(most, coefficients=coefficients) + outside
    return PeakColumns(terms={**terms, "context": context + 0.0 * peak}, peak=peak + context, required=required, phase=phase)


def _live(
    model: ModelColumns, setup: SetupColumns, coefficients: Mapping[str, float], *, first: bool, last: bool
) -> tuple[dict[str, Array], ...]:
    """Tensors of each moment on one stage, by term."""
    first = first or not np.any(setup.pipeline > 1)
    share = states.parameter_share(model, setup, first=first, last=last)
    steady = _steady(model, setup, share, coefficients)
    moving = _moving(model, setup, share, coefficients, first=first, last=last)
    return _phases(steady, moving, setup)


def _outside(setup: SetupColumns, coefficients: Mapping[str, float]) -> Array:
    """What the driver holds beside the allocator."""
    return overheads.context_bytes(
        setup, context=coefficients["context_bytes"], per_peer=coefficients["nccl_peer_bytes"], most_peers=coefficients["nccl_most_peers"]
    )


def _largest(moments: list[dict[str, Array]], totals: list[Array]) -> tuple[Array, NDArray[np.intp], dict[str, Array]]:
    """Of several moments the one with the largest total, row by row: total, position, terms."""
    shape = np.broadcast_shapes(*(total.shape for total in totals))
    peak, phase = np.broadcast_to(totals[0], shape), np.zeros(shape, dtype=np.intp)
    zero = np.zeros(1)
    terms = {name: moments[0].get(name, zero) for name in TERMS if name != "context"}
    for position, (moment, total) in enumerate(zip(moments[1:], totals[1:], strict=True), start=1):
        larger = total > peak
        if np.any(larger):
            peak, phase = np.where(larger, total, peak), np.where(larger, position, phase)
            terms = {name: _either(larger, moment.get(name, zero), term) for name, term in terms.items()}
    return peak, phase, {name: np.broadcast_to(term, shape) for name, term in terms.items()}


def _either(larger: NDArray[np.bool_], one: Array, other: Array) -> Array:
    return other if one is other else np.where(larger, one, other)


def _sum(terms: Mapping[str, Array], names: tuple[str, ...]) -> Array:
    return sum((terms[name] for name in names if name in terms), start=np.zeros(1))


def _slack(phase: dict[str, Array], setup: SetupColumns, left_over: Array, coefficients: Mapping[str, float]) -> Array:
    """What the allocator holds beyond the live tensors of one moment."""
    groups = {"steady": STEADY, "stored": ("activations",), "spikes": ("logits", "working"), "buffers": ("buffers",)}
    moment = {name: _sum(phase, terms) for name, terms in groups.items()}
    return overheads.slack_bytes(moment, left_over, setup, coefficients=coefficients)


def _steady(model: ModelColumns, setup: SetupColumns, share: states.ParameterShare, coefficients: Mapping[str, float]) -> dict[str, Array]:
    """What stays through the whole step."""
    dense, experts = states.trained_share(share, model, setup)
    on_gpu = np.where(setup.offload_params > 0, 0.0, 1.0)
    return {
        "weights": states.weights_bytes(share, setup) * on_gpu,
        "adapters": states.adapter_bytes(dense, setup),
        "gradients": states.gradients_bytes(dense, experts, setup)
        * np.where(setup.offload_optimizer * (setup.shard_stage >= ShardStage.GRADIENTS) > 0, 0.0, 1.0),
        "optimizer": states.optimizer_bytes(dense, experts, setup),
        "master": states.master_bytes(dense, experts, setup),
        "scratch": states.step_scratch_bytes(dense, experts, setup),
        "loaded": setup.loads_whole * (share.total * setup.other_weight_bytes),
        "gradient_workspace": buffers.gradient_workspace_bytes(share, model, setup),
        "buckets": buffers.bucket_bytes(dense, setup, bucket_elements=coefficients["zero_bucket_elements"]),
        "workspace": overheads.workspace_bytes(setup, workspace=np.full(1, coefficients["workspace_bytes"])),
    }


def _moving(
    model: ModelColumns, setup: SetupColumns, share: states.ParameterShare, coefficients: Mapping[str, float], *, first: bool, last: bool
) -> dict[str, Array]:
    """What comes and goes within the step."""
    tokens = tokens_per_gpu(setup)
    kept, working = kept_and_working(model, setup)
    layers = np.ceil(np.maximum(model.num_layers, 1.0) / setup.pipeline) * trained_depth(model, setup)
    gathered = buffers.gathered_bytes(share, model, setup, prefetched_layers=coefficients["prefetched_layers"])
    spike = logits.logits_bytes(model, setup, tokens, masked_fraction=coefficients["masked_fraction"]) if last else 0.0 * tokens
    return {
        "kept": kept * tokens * layers * in_flight(setup, first=first and not last),
        "one_kept": kept * tokens,
        "working": working * tokens,
        "logits": spike + (logits.final_hidden_bytes(model, setup, tokens) if last else 0.0),
        "kept_logits": logits.kept_logits_bytes(model, setup, tokens, masked_fraction=coefficients["masked_fraction"]) * float(last),
        "copies_forward": buffers.autocast_copies(share, model, setup)[0],
        "copies_backward": buffers.autocast_copies(share, model, setup)[1],
        "root": buffers.root_bytes(share, setup),
        "gathered": gathered,
        "gradient_layer": buffers.unsharded_gradient_bytes(share, model, setup),
        "dequantised": buffers.dequantised_bytes(model, setup),
    }


def _phases(steady: dict[str, Array], moving: dict[str, Array], setup: SetupColumns) -> tuple[dict[str, Array], ...]:
    """Terms of each moment, in the order of Phase."""
    always = {name: steady[name] for name in ("weights", "adapters", "optimizer", "master", "workspace")}
    accumulated = np.where(setup.grad_accum + (setup.accumulation_bytes > 0) > 1, 1.0, 0.0) * steady["gradients"]
    buckets, nothing = steady["buckets"], 0.0 * steady["weights"]
    buckets = buckets + steady["gradient_workspace"]
    layer = moving["gathered"] + moving["dequantised"] + moving["copies_backward"]
    return (
        {**always, "gradients": accumulated, "activations": moving["kept"], "logits": moving["logits"], "working": nothing,
         "buffers": buckets + moving["root"] + moving["gathered"] + moving["copies_forward"], "scratch": nothing},
        {**always, "gradients": accumulated, "activations": moving["kept"], "logits": moving["kept_logits"], "working": moving["working"],
         "buffers": buckets + moving["root"] + layer + moving["gradient_layer"], "scratch": nothing},
        {**always, "gradients": steady["gradients"], "activations": moving["one_kept"], "logits": moving["kept_logits"],
         "working": moving["working"], "buffers": buckets + moving["root"] + layer + moving["gradient_layer"], "scratch": nothing},
        {**always, "gradients": steady["gradients"], "activations": nothing, "logits": nothing, "working": nothing, "buffers": buckets,
         "scratch": steady["scratch"]},
        {"weights": steady["weights"], "adapters": steady["adapters"], "workspace": steady["workspace"], "buffers": steady["loaded"]},
    )  # fmt: skip
