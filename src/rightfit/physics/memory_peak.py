"""The peak of GPU memory over the phases of a training step.

Five moments compete: the loss (all kept activations and the logits), the start of the backward pass
(kept activations and the working set of the last layer), its end (all gradients and the working set
of the first layer), the optimizer step (gradients and scratch), and loading where the whole model
lies on the GPU before it is sharded. In between the sum moves linearly, so the largest of them is
the peak. With pipeline parallelism the first and the last stage compete as well.

Source: accounting over phases; Korthikanti et al. 2022 for pipelines;
docs/decisions/memory-physics.md.

Buffers of sharded and distributed training: gathered weights, gradients on their way, buckets,
dequantised layers.

Source: Rajbhandari et al. 2020 (ZeRO), Li et al. 2020 (PyTorch Distributed), Zhao et al. 2023
(PyTorch FSDP); docs/decisions/memory-physics.md.

Logits and the cross-entropy spike.

Source: accounting of each copy; docs/decisions/memory-physics.md.

What is not a tensor: CUDA context, communication library, matrix-product
workspace, allocator slack.

Source: docs/decisions/memory-physics.md.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.physics import memory_states as activations
from rightfit.physics import memory_states as states
from rightfit.physics import transformer
from rightfit.physics.columns import (
    Array,
    DeviceColumns,
    Kind,
    Loss,
    MemoryCounter,
    Method,
    ModelColumns,
    Recompute,
    SetupColumns,
    ShardStage,
)
from rightfit.physics.memory_states import ParameterShare, is_full, stage_fraction
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES


def layer_share(share: ParameterShare, model: ModelColumns, setup: SetupColumns) -> Array:
    """Parameters of one layer on this GPU before ZeRO [1]; routed experts included -> [parameters].

    Source: Rajbhandari et al. 2020 (ZeRO), Li et al. 2020 (PyTorch Distributed), Zhao et al. 2023
    (PyTorch FSDP); docs/decisions/memory-physics.md.
    """
    layers = np.maximum(model.num_layers * stage_fraction(model, setup), 1.0)
    return (share.linear + share.other + share.experts) / layers


def gathered_bytes(share: ParameterShare, model: ModelColumns, setup: SetupColumns, *, prefetched_layers: float) -> Array:
    """Stage 3: whole layers gathered for computing (the current one and those prefetched).

    `prefetched_layers` [layers] -> [bytes].
    Quantised layers are gathered in their packed form.

    Source: Rajbhandari et al. 2020 (ZeRO), Li et al. 2020 (PyTorch Distributed), Zhao et al. 2023
    (PyTorch FSDP); docs/decisions/memory-physics.md.
    """
    width = np.where(setup.quantized > 0, setup.linear_weight_bytes, setup.gather_bytes)
    alive = np.where(keeps_stage(setup), np.ceil(model.num_layers / setup.pipeline), 1.0 + prefetched_layers)
    return np.where(
        (setup.shard_stage >= ShardStage.WEIGHTS) & (setup.shard_degree > 1), layer_share(share, model, setup) * width * alive, 0.0
    )


def keeps_stage(setup: SetupColumns) -> NDArray[np.bool_]:
    """Pipelines of sharded stages keep a stage's weights gathered, and its gradients whole, over
    all micro-batches of a step.

    -> [flag].

    Source: Rajbhandari et al. 2020 (ZeRO), Li et al. 2020 (PyTorch Distributed), Zhao et al. 2023
    (PyTorch FSDP); docs/decisions/memory-physics.md.
    """
    return np.greater(setup.pipeline, 1.0) & np.equal(setup.naive_pipeline, 0.0)


def root_bytes(share: ParameterShare, setup: SetupColumns) -> Array:
    """Stage 3: embedding, head and final norm, gathered together and kept from the forward to the
    end of the backward pass -> [bytes].

    Source: Rajbhandari et al. 2020 (ZeRO), Li et al. 2020 (PyTorch Distributed), Zhao et al. 2023
    (PyTorch FSDP); docs/decisions/memory-physics.md.
    """
    width = np.where(setup.quantized > 0, setup.other_weight_bytes, setup.gather_bytes)
    return np.where((setup.shard_stage >= ShardStage.WEIGHTS) & (setup.shard_degree > 1), (share.embedding + share.head) * width, 0.0)


def unsharded_gradient_bytes(share: ParameterShare, model: ModelColumns, setup: SetupColumns) -> Array:
    """Stage 2 and 3: gradients of one whole layer before they are reduced and scattered, and the
    copy in the width of the reduction.

    -> [bytes].

    Source: Rajbhandari et al. 2020 (ZeRO), Li et al. 2020 (PyTorch Distributed), Zhao et al. 2023
    (PyTorch FSDP); docs/decisions/memory-physics.md.
    """
    layer = layer_share(share, model, setup)
    wide = np.where(setup.reduce_bytes > setup.gather_bytes, setup.reduce_bytes, 0.0)
    one = layer * (setup.gather_bytes + wide)
    whole = layer * (setup.gather_bytes + setup.reduce_bytes * np.ceil(model.num_layers / setup.pipeline))
    held = np.where(keeps_stage(setup), whole, one)
    return np.where((setup.shard_stage >= ShardStage.GRADIENTS) & (setup.shard_degree > 1), held, 0.0) * is_full(setup)


def autocast_copies(share: ParameterShare, model: ModelColumns, setup: SetupColumns) -> tuple[Array, Array]:
    """16-bit copies of fp32 weights under autocast: (at the loss, in the backward
    pass) -> [bytes], [bytes].

    Without recomputation the graph holds the copies of all layers until their backward pass. With
    recomputation the cache of autocast still holds those of trained weights until the forward pass
    ends, and the backward pass sees one layer at a time. Sharded stacks cast what they gather.

    Source: Rajbhandari et al. 2020 (ZeRO), Li et al. 2020 (PyTorch Distributed), Zhao et al. 2023
    (PyTorch FSDP); docs/decisions/memory-physics.md.
    """
    casts = np.where((setup.autocast > 0) & (setup.shard_stage < ShardStage.WEIGHTS) & (setup.quantized == 0), setup.activation_bytes, 0.0)
    everything = casts * (share.linear + share.experts + share.head)
    layer = casts * layer_share(share, model, setup)
    stored = setup.recompute == Recompute.NONE
    return np.where(stored | (is_full(setup) > 0), everything, layer), np.where(stored, everything, layer)


def gradient_workspace_bytes(share: ParameterShare, model: ModelColumns, setup: SetupColumns) -> Array:
    """Standing buffers that Transformer Engine hands to autograd in place of gradients it has
    already added up: one layer's weights.

    -> [bytes].

    Source: Rajbhandari et al. 2020 (ZeRO), Li et al. 2020 (PyTorch Distributed), Zhao et al. 2023
    (PyTorch FSDP); docs/decisions/memory-physics.md.
    """
    return setup.layer_gradient_workspace * layer_share(share, model, setup) * setup.activation_bytes


def bucket_bytes(trained: Array, setup: SetupColumns, *, bucket_elements: float) -> Array:
    """Replicated training: DistributedDataParallel's buckets hold a second copy of all gradients;
    ZeRO-1/2 two reduce buckets.

    `trained` [parameters], `bucket_elements` [elements] -> [bytes].

    Source: Rajbhandari et al. 2020 (ZeRO), Li et al. 2020 (PyTorch Distributed), Zhao et al. 2023
    (PyTorch FSDP); docs/decisions/memory-physics.md.
    """
    several = setup.data > 1
    replicated = several & (setup.shard_stage == 0) & (setup.accumulation_bytes == 0)
    ddp = np.where(replicated, trained * setup.gradient_bytes, 0.0)
    zero = several & (setup.shard_stage > 0) & (setup.shard_stage < ShardStage.WEIGHTS) & (setup.accumulation_bytes == 0)
    return ddp + np.where(zero, np.minimum(bucket_elements, trained) * 2.0 * setup.reduce_bytes, 0.0)


def dequantised_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """The largest matrix of a quantised model, expanded for its product and its
    gradient -> [bytes].

    Source: Rajbhandari et al. 2020 (ZeRO), Li et al. 2020 (PyTorch Distributed), Zhao et al. 2023
    (PyTorch FSDP); docs/decisions/memory-physics.md.
    """
    dense = model.hidden_size * np.maximum(model.intermediate_size, model.moe_intermediate_size)
    largest = np.where(transformer.num_moe_layers(model) > 0, model.hidden_size * model.moe_intermediate_size, dense)
    return np.where(setup.quantized > 0, largest * setup.activation_bytes, 0.0)


def logits_bytes(model: ModelColumns, setup: SetupColumns, tokens: Array, *, masked_fraction: float) -> Array:
    """Logits and all their copies at the peak of the loss.

    `tokens` [tokens] on this GPU, `masked_fraction` [1] of positions that encoders
    predict -> [bytes].
    STANDARD: tokens x vocabulary / tensor x `logit_bytes` (the 16-bit logits, their fp32 copy,
    log-softmax, gradient). FUSED (Liger, cut cross-entropy): logits exist in pieces of about
    tokens x hidden elements; the gradient of the hidden state is kept, and of the head where
    it is trained.

    Source: accounting of each copy; docs/decisions/memory-physics.md.
    """
    vocabulary = model.vocab_size / setup.tensor
    positions = tokens * np.where(model.kind == Kind.ENCODER, masked_fraction, 1.0)
    standard = positions * vocabulary * setup.logit_bytes
    piece = np.minimum(positions * model.hidden_size, positions * vocabulary) * (FP32_BYTES + setup.activation_bytes)
    head = is_full(setup) * vocabulary * model.hidden_size * setup.activation_bytes
    fused = piece + positions * model.hidden_size * setup.activation_bytes + head
    return np.where(setup.loss == Loss.FUSED, np.minimum(fused, standard), standard) * model.has_lm_head


def kept_logits_bytes(model: ModelColumns, setup: SetupColumns, tokens: Array, *, masked_fraction: float) -> Array:
    """Copies of the logits that a stack does not let go of while the layers' backward passes run.

    `tokens` [tokens], `masked_fraction` [1] -> [bytes].

    Source: accounting of each copy; docs/decisions/memory-physics.md.
    """
    positions = tokens * np.where(model.kind == Kind.ENCODER, masked_fraction, 1.0)
    kept = positions * model.vocab_size / setup.tensor * setup.kept_logit_bytes * model.has_lm_head
    return np.where(setup.loss == Loss.FUSED, 0.0, kept)


def final_hidden_bytes(model: ModelColumns, setup: SetupColumns, tokens: Array) -> Array:
    """Last hidden state, its fp32 copy in the final normalisation, and the head's input.

    `tokens` [tokens] -> [bytes].

    Source: accounting of each copy; docs/decisions/memory-physics.md.
    """
    return tokens * model.hidden_size * (states.residual_bytes(setup) + FP32_BYTES * (1.0 - setup.fused_kernels))


def workspace_bytes(setup: SetupColumns, *, workspace: Array) -> Array:
    """cuBLAS workspaces, counted by torch's allocator: `workspace` [bytes] -> [bytes].

    Source: docs/decisions/memory-physics.md.
    """
    return workspace + 0.0 * setup.micro_batch


def driver_bytes(device: DeviceColumns, *, usual: float, per_sm: float) -> Array:
    """The CUDA context and kernels of one process: the driver sets stacks and local memory aside
    for every multiprocessor, so that small cards lose less of their memory.

    `usual` [bytes] where the multiprocessors are unknown, and at most, `per_sm` [bytes] ->
    [bytes].

    Source: docs/decisions/memory-physics.md.
    """
    return np.where(device.num_sms > 0, np.minimum(per_sm * device.num_sms, usual), usual)


def own_driver_bytes(device: DeviceColumns, *, coefficients: Mapping[str, float]) -> Array:
    """The driver's share of one process by the coefficients of memory, for every question.

    `coefficients` [bytes] -> [bytes].

    Source: docs/decisions/memory-physics.md.
    """
    return driver_bytes(device, usual=coefficients["context_bytes"], per_sm=coefficients["context_bytes_per_sm"])


def context_bytes(setup: SetupColumns, *, context: Array | float, per_peer: float, most_peers: float) -> Array:
    """CUDA context and kernels, and NCCL's buffers by number of GPUs in the job; seen
    by the driver only.

    `context`, `per_peer` [bytes], `most_peers` [GPUs] -> [bytes].
    NCCL allocates per channel and peer; within a node this grows with the peers up to `most_peers`.

    Source: docs/decisions/memory-physics.md.
    """
    return context + per_peer * (np.minimum(setup.num_gpus, most_peers) - 1.0)


def slack_bytes(moment: Mapping[str, Array], left_over: Array, setup: SetupColumns, *, coefficients: Mapping[str, float]) -> Array:
    """Memory that PyTorch's caching allocator holds beyond the live tensors of a moment: rounding
    and fragmentation.

    `moment` [bytes] of `steady` tensors, of `stored` activations (many tensors of equal sizes), of
    `spikes` (few large tensors that come and go and grow with the length: logits, a layer's working
    set) and of `buffers` of fixed sizes, `left_over` [bytes] that other moments left in the cache
    and this one cannot use (see `left_over_bytes`), `coefficients` [coefficients] -> [bytes]. A
    cached block of one size cannot serve a slightly larger tensor, so where lengths vary the cache
    holds several generations of the spikes. Expandable segments avoid most of it. Known error: the
    true figure depends on the order of allocations and differs by a factor of two between runs.

    Source: docs/decisions/memory-physics.md.
    """
    expandable = setup.expandable_segments > 0
    fixed = np.where(expandable, coefficients["slack_expandable_ratio"], coefficients["slack_moving_ratio"])
    varied = setup.variable_length * np.where(expandable, coefficients["slack_varied_expandable"], 1.0) * coefficients["slack_varied_ratio"]
    stored = coefficients["slack_stored_ratio"] * moment["stored"]
    steady = coefficients["slack_bytes"] + coefficients["slack_steady_ratio"] * moment["steady"]
    return steady + stored + (fixed + varied) * moment["spikes"] + fixed * moment["buffers"] + left_over


def left_over_bytes(scratch: Array, waiting: Array, setup: SetupColumns, *, coefficients: Mapping[str, float]) -> Array:
    """What the activations of a step leave in the cache beyond what the scratch of the
    optimizer can use.

    `scratch` [bytes] of the optimizer step, `waiting` [bytes] of activations, logits and working
    set of the forward and backward passes, `coefficients` [coefficients] -> [bytes]. If the scratch
    fitted into the cached blocks the larger of the two would be held; as blocks have other sizes, a
    part of the smaller comes on top.

    Source: docs/decisions/memory-physics.md.
    """
    unused = np.where(setup.expandable_segments > 0, coefficients["slack_expandable_ratio"], coefficients["slack_overlap_ratio"])
    too_large: Array = np.maximum(waiting - scratch, 0.0)
    shared: Array = np.minimum(scratch, waiting)
    return too_large + unused * shared


def squeezed_bytes(live: Array, *, coefficients: Mapping[str, float]) -> Array:
    """The least slack a job can run with: near the limit the allocator gives cached blocks
    back before it fails.

    `live` [bytes], `coefficients` [1] -> [bytes].

    Source: docs/decisions/memory-physics.md.
    """
    return coefficients["squeezed_ratio"] * live


def usable_bytes(device: DeviceColumns, *, coefficients: Mapping[str, float]) -> Array:
    """What of a card's nominal memory the driver hands out: cards with GDDR6 keep a sixteenth of it
    for error correction.

    `coefficients` [1] -> [bytes].

    Source: docs/decisions/memory-physics.md.
    """
    return coefficients["usable_fraction"] * device.memory_bytes * (1.0 - coefficients["inline_ecc_share"] * device.inline_ecc)


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
    """`terms` add up to `peak` [bytes per GPU], as the asked counter sees it; `required` is what
    the card must hold; `phase` as in Phase.

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
    """The last stage's figures, and in the rows `piped` the first stage's
    where those are larger."""
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


def phase_memory(
    model: ModelColumns, setup: SetupColumns, device: DeviceColumns, *, coefficients: Mapping[str, float]
) -> tuple[Array, ...]:
    """What the card must hold at each moment of a step, in the order of Phase, the worse of the
    first and the last pipeline stage.

    The largest is `required` of `peak_memory` on that device. `coefficients` [coefficients] ->
    [bytes].
    coefficients: see facts/data/coefficients/memory.toml.
    """
    last = _needed(_live(model, setup, coefficients, first=False, last=True), setup, device, coefficients)
    if not np.any(setup.pipeline > 1):
        return last
    first = _needed(_live(model, setup, coefficients, first=True, last=False), setup, device, coefficients)
    return tuple(np.where(setup.pipeline > 1, np.maximum(one, other), one) for one, other in zip(last, first, strict=True))


def _needed(
    phases: tuple[dict[str, Array], ...], setup: SetupColumns, device: DeviceColumns, coefficients: Mapping[str, float]
) -> tuple[Array, ...]:
    """Tensors of each moment, the least slack it can run with, and what lies
    outside of the allocator."""
    outside, live = _outside(setup, device, coefficients), [_sum(phase, TERMS) for phase in phases]
    return tuple(one + squeezed_bytes(one, coefficients=coefficients) + outside for one in live)


def tokens_per_gpu(setup: SetupColumns) -> Array:
    """Tokens of one micro-batch on one GPU [1] -> [tokens]."""
    return setup.micro_batch * setup.seq_len * setup.token_fraction / setup.context


def in_flight(setup: SetupColumns, *, first: bool) -> Array:
    """Micro-batches whose activations a stage holds at once: the first of a 1F1B pipeline as many
    as there are stages, the last one.

    Interleaved schedules hold (1 + (p - 1) / (p v)) times as much (Korthikanti et al. 2022). Stages
    that work one after the other hold one.

    -> [micro-batches].
    """
    if not first:
        return np.ones_like(setup.pipeline)
    waiting = np.minimum(setup.pipeline, np.maximum(setup.grad_accum, 1.0))
    interleaved = 1.0 + (setup.pipeline - 1.0) / (setup.pipeline * setup.virtual_pipeline)
    plain = waiting * np.where(setup.virtual_pipeline > 1, interleaved, 1.0)
    return np.where((setup.naive_pipeline > 0) | (setup.pipeline <= 1), 1.0, plain)


def trained_depth(model: ModelColumns, setup: SetupColumns) -> Array:
    """Part of the layers that the backward pass runs through: all, or the last ones where the
    others are frozen -> [1]."""
    body = np.maximum(transformer.body_parameters(model), 1.0)
    trained: Array = np.clip(setup.trainable_params / body, 0.0, 1.0)
    return np.where((setup.method == Method.FREEZE) & (trained > 0), trained, 1.0)


def kept_and_working(model: ModelColumns, setup: SetupColumns) -> tuple[Array, Array]:
    """Bytes per token that one layer keeps, and those it adds while its backward pass runs ->
    [bytes/token], [bytes/token]. What was offloaded of the layer at work is back for its pass."""
    whole = activations.layer_activations(model, setup).total
    scratch = activations.backward_scratch_bytes(model, setup)
    selective = activations.selective_bytes(model, setup)
    checkpoint = activations.checkpoint_bytes(model, setup)
    chosen = [setup.recompute == Recompute.NONE, setup.recompute == Recompute.SELECTIVE]
    kept = np.select(chosen, [whole, selective], checkpoint)
    working = np.select(chosen, [0.0 * whole, np.maximum(whole - selective, 0.0)], whole)
    working = np.where(setup.offload_activations > 0, whole, working) + scratch
    held = setup.frozen_input_copies * checkpoint
    return kept * (1.0 - setup.offload_activations) + held, working


def _stage_peak(
    model: ModelColumns, setup: SetupColumns, device: DeviceColumns, coefficients: Mapping[str, float], *, first: bool, last: bool
) -> PeakColumns:
    phases = _live(model, setup, coefficients, first=first, last=last)
    waiting = np.maximum(*(_sum(phase, BY_LENGTH) for phase in phases[:2]))
    left_over = left_over_bytes(phases[Phase.STEP]["scratch"], waiting, setup, coefficients=coefficients)
    slacks = [_slack(phase, setup, left_over * (index == Phase.STEP), coefficients) for index, phase in enumerate(phases)]
    usable = usable_bytes(device, coefficients=coefficients)
    outside = _outside(setup, device, coefficients)
    live = [_sum(phase, TERMS) for phase in phases]
    room = usable - outside
    whole = [np.maximum(np.minimum(slack, room - tensors), 0.0) for tensors, slack in zip(live, slacks, strict=True)]
    seen = setup.memory_counter != MemoryCounter.ALLOCATED
    moments = [{**phase, "slack": np.where(seen, slack, 0.0)} for phase, slack in zip(phases, whole, strict=True)]
    peak, phase, terms = _largest(moments, [tensors + moment["slack"] for tensors, moment in zip(live, moments, strict=True)])
    context = np.where(setup.memory_counter == MemoryCounter.DRIVER, outside, 0.0)
    most = functools.reduce(np.maximum, live)
    required = most + squeezed_bytes(most, coefficients=coefficients) + outside
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


def _outside(setup: SetupColumns, device: DeviceColumns, coefficients: Mapping[str, float]) -> Array:
    """What the driver holds beside the allocator."""
    own = own_driver_bytes(device, coefficients=coefficients)
    return context_bytes(setup, context=own, per_peer=coefficients["nccl_peer_bytes"], most_peers=coefficients["nccl_most_peers"])


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
    return slack_bytes(moment, left_over, setup, coefficients=coefficients)


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
        "gradient_workspace": gradient_workspace_bytes(share, model, setup),
        "buckets": bucket_bytes(dense, setup, bucket_elements=coefficients["zero_bucket_elements"]),
        "workspace": workspace_bytes(setup, workspace=np.full(1, coefficients["workspace_bytes"]))
        + states.decomposed_scratch_bytes(model, setup),
    }


def _moving(
    model: ModelColumns, setup: SetupColumns, share: states.ParameterShare, coefficients: Mapping[str, float], *, first: bool, last: bool
) -> dict[str, Array]:
    """What comes and goes within the step."""
    tokens = tokens_per_gpu(setup)
    kept, working = kept_and_working(model, setup)
    layers = np.ceil(np.maximum(model.num_layers, 1.0) / setup.pipeline) * trained_depth(model, setup)
    gathered = gathered_bytes(share, model, setup, prefetched_layers=coefficients["prefetched_layers"])
    spike = logits_bytes(model, setup, tokens, masked_fraction=coefficients["masked_fraction"]) if last else 0.0 * tokens
    return {
        "kept": kept * tokens * layers * in_flight(setup, first=first and not last),
        "one_kept": kept * tokens,
        "working": working * tokens,
        "logits": spike + (final_hidden_bytes(model, setup, tokens) if last else 0.0),
        "kept_logits": kept_logits_bytes(model, setup, tokens, masked_fraction=coefficients["masked_fraction"]) * float(last),
        "copies_forward": autocast_copies(share, model, setup)[0],
        "copies_backward": autocast_copies(share, model, setup)[1],
        "root": root_bytes(share, setup),
        "gathered": gathered,
        "gradient_layer": unsharded_gradient_bytes(share, model, setup),
        "dequantised": dequantised_bytes(model, setup),
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
