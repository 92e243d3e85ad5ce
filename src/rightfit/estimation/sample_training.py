"""Training of models that are not language models (vision, detection, diffusion, speech,
recommenders, graphs): time and memory of a step, as columns.

For a search over servers, everything broadcasts (fields of length 1 or N)::

    # estimate.{model_work,train_work}; UnknownNameError for a stranger
    work = train_work(NetworkInput("resnet50", task="classification", height=224))
    setup = TrainSetup.of(batch=[256, 512, ...], num_gpus=[8, ...], gpus_per_node=[8, ...],
        precision=PRECISIONS.index("amp"))
    # names of facts.accelerators(), one row each
    devices = train_devices(["A100-SXM4-80GB", ...])
    # links: hardware.link_columns or default_links
    found = training_columns(work_columns([work]), setup, devices, links)
    # (N,) one optimizer step; whole job
    found.step_s, found.samples_per_s
    # add up to step_s and peak_bytes
    found.time_terms["compute"], found.memory_terms["activations"]
    # as asked by setup.counter; what the card must hold
    found.peak_bytes, found.required_bytes, found.capacity_bytes, found.fits

Intervals: `vision_interval` of estimate.vision_predict. Coefficients:
facts/data/coefficients/vision.toml.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.forward_models import KINDS as FORWARD_KINDS
from rightfit.estimation.pass_records import GENERATION, SILICON, ForwardDevice, ModelWork, card_device
from rightfit.facts.tables import constant_group
from rightfit.physics import collectives
from rightfit.physics.columns import Array, Columns, LinkColumns, MemoryCounter, column
from rightfit.physics.operators import RateColumns
from rightfit.physics.passes import (
    ForwardRates,
    MemoryWork,
    PassTimes,
    StepLayout,
    StepRates,
    StepWork,
    TrainMemoryRates,
    joined_terms,
    memory_terms,
    pass_times,
    sustained_flops,
)
from rightfit.records import dataclass

Coefficients = Mapping[str, float]

KINDS = (*FORWARD_KINDS, "graph")
STACKS = ("eager", "ngc", "tuned", "tensorflow", "xla", "mxnet", "paddle", "compiled", "jax", "library", "tuner")
PRECISIONS = ("fp32", "tf32", "amp", "fp16", "bf16")
#: Stacks that leave the layout of images to the user.
_CHANNELS_FIRST = tuple(STACKS.index(name) for name in ("eager", "ngc", "library", "tuner", "compiled"))
#: Stacks whose operators run one by one, as a framework brings them: nobody fused or narrowed what
#: follows the convolutions.
_PLAIN = tuple(STACKS.index(name) for name in ("eager", "ngc", "tensorflow", "library", "tuner", "paddle"))
#: How the weights of a frozen network are stored.
STORED = ("fp32", "half", "int8", "fp8", "fp8wo", "nf4", "int2")
STORED_BYTES = tuple(constant_group("training_work", "stored")[name] for name in STORED)
#: Bytes of a kept element under autocast, by kind of block where counted.
_KEPT_AMP = constant_group("training_work", "kept_amp")
#: Arithmetic: activations as the kernels move them, gradients on the wire, and how weights are
#: held while they learn.
_MOVED_BYTES = (4.0, 4.0, 2.0, 2.0, 2.0)
_GRADIENT_BYTES = (4.0, 4.0, 4.0, 2.0, 2.0)


@dataclass(frozen=True, slots=True)
class WorkColumns(Columns):
    """ModelWork as columns; `kind` is a position in KINDS."""

    kind: Array = column(0)
    macs: Array = column(0)
    score_macs: Array = column(0)
    activations: Array = column(0)
    frozen_macs: Array = column(0)
    frozen_activations: Array = column(0)
    layers: Array = column(1)
    params: Array = column(0)
    trained: Array = column(0)
    beside: Array = column(0)
    tables: Array = column(0)
    gathered: Array = column(0)
    kept: Array = column(0)
    block_inputs: Array = column(0)
    block: Array = column(0)
    widest: Array = column(0)
    fixed_bytes: Array = column(0)
    host_s: Array = column(0)
    side_macs: Array = column(0)
    side_elements: Array = column(0)
    adapter_params_per_rank: Array = column(0)
    pointwise: Array = column(1)
    wide: Array = column(1)


@dataclass(frozen=True, slots=True)
class TrainSetup(Columns):
    """How a model is trained.

    `batch` samples per device and pass, `grad_accum`, `num_gpus`, `gpus_per_node`; `precision` a
    position in PRECISIONS, `software` in STACKS, `stored` in STORED; `channels_last` 1 or 0;
    `recompute` 0-1; `adapter_rank` > 0 where only adapters learn (LoRA), `trainable` parameters
    that learn where a number is known (textual inversion, a frozen backbone; 0 = all); `cached` 1
    where latents and text embeddings are computed beforehand; `beside_on_card` 1 where frozen
    encoders stay on the device; `offload` 0-1 share of weights kept in host memory;
    `optimizer_bytes` of states per trained parameter (4 SGD with momentum, 8 Adam, 2 with 8 bits),
    `pure` 1 where weights that learn are held in half precision; `ema` 1; `tables_split` devices
    over which embedding tables are spread; `counter` a MemoryCounter code; `loader` 1 where the
    input pipeline is inside the measured step, `image` 1 where samples are decoded images.
    """

    batch: Array = column(1)
    grad_accum: Array = column(1)
    num_gpus: Array = column(1)
    gpus_per_node: Array = column(8)
    precision: Array = column(2)
    software: Array = column(0)
    stored: Array = column(0)
    channels_last: Array = column(0)
    recompute: Array = column(0)
    adapter_rank: Array = column(0)
    trainable: Array = column(0)
    cached: Array = column(1)
    beside_on_card: Array = column(0)
    offload: Array = column(0)
    optimizer_bytes: Array = column(8)
    pure: Array = column(0)
    ema: Array = column(0)
    tables_split: Array = column(1)
    counter: Array = column(MemoryCounter.ALLOCATED)
    image: Array = column(0)


@dataclass(frozen=True, slots=True)
class TrainDevices(Columns):
    """Devices: class of chip (position in SILICON), peaks [FLOP/s], memory rate [bytes/s] and size
    [bytes], power [W], units, cache [bytes]."""

    silicon: Array = column(0)
    fp32: Array = column(0)
    tf32: Array = column(0)
    half: Array = column(0)
    bf16: Array = column(0)
    bandwidth: Array = column(1)
    memory_bytes: Array = column(0)
    tdp_w: Array = column(0)
    units: Array = column(80)
    l2_bytes: Array = column(0)


@dataclass(frozen=True, slots=True)
class TrainingColumns:
    """Time [s] and memory [bytes] of every row. `time_terms` add up to `step_s`, `memory_terms` to
    `peak_bytes` as the asked counter sees it."""

    step_s: Array
    samples_per_s: Array
    time_terms: dict[str, Array]
    memory_terms: dict[str, Array]
    peak_bytes: Array
    required_bytes: Array
    capacity_bytes: Array

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether the job fits the card."""
        return np.less_equal(self.required_bytes, self.capacity_bytes)


def coefficients() -> Coefficients:
    """The shipped coefficients."""
    return facts.coefficients("vision")


def work_columns(works: Sequence[ModelWork]) -> WorkColumns:
    """Models as columns, one row each."""
    fields = [field.name for field in dataclasses.fields(WorkColumns) if field.name != "kind"]
    values = {name: np.array([getattr(work, name) for work in works], dtype=np.float64) for name in fields}
    return WorkColumns(kind=np.array([float(KINDS.index(work.kind)) for work in works]), **values)


def train_devices(names: Sequence[str]) -> TrainDevices:
    """Devices by name, one row each; an unknown one raises KeyError."""
    return device_columns([_device(name) for name in names])


@functools.cache
def _device(name: str) -> ForwardDevice:
    return card_device(facts.accelerators()[name])


def device_columns(devices: Sequence[ForwardDevice]) -> TrainDevices:
    """Devices as the forward physics knows them, as columns, with their memory from the facts."""
    known = facts.accelerators()

    def values(name: str) -> Array:
        return np.array([getattr(device, name) for device in devices], dtype=np.float64)

    return TrainDevices(
        silicon=np.array([float(SILICON.index(device.silicon)) for device in devices]),
        fp32=np.where(values("fp32") > 0, values("fp32"), values("bf16") / 2.0),
        tf32=np.maximum(values("tf32"), values("fp32")),
        half=np.where(values("fp16") > values("fp32"), values("fp16"), np.maximum(values("bf16"), values("fp32"))),
        bf16=np.maximum(np.where(values("bf16") > 0, values("bf16"), values("fp16")), values("fp32")),
        bandwidth=values("bandwidth"),
        memory_bytes=np.array([float(known[d.name].memory_bytes) if d.name in known else 0.0 for d in devices]),
        tdp_w=values("tdp_w"),
        units=values("units"),
        l2_bytes=values("l2_bytes"),
    )


def _look(values: Coefficients, prefix: str, names: Sequence[str], codes: Array) -> Array:
    table = np.array([values[f"{prefix}.{name}"] for name in names])
    return table[codes.astype(np.intp)]


def _pick(table: Sequence[float], codes: Array) -> Array:
    return np.asarray(table, dtype=np.float64)[codes.astype(np.intp)]


def pass_rates(work: WorkColumns, setup: TrainSetup, device: TrainDevices, values: Coefficients) -> ForwardRates:
    """Rates of one forward pass of every row."""
    half = setup.precision >= 2
    convolution = work.kind < KINDS.index("window")
    peak_table = np.choose(
        setup.precision.astype(np.intp), np.broadcast_arrays(device.fp32, device.tf32, device.half, device.half, device.bf16)
    )
    silicon = device.silicon
    per_watt = _look(values, "flops_per_watt", SILICON, silicon) * _look(values, "watt_dtype", PRECISIONS, setup.precision)
    peak = sustained_flops(peak_table, device.tdp_w, per_watt)
    fraction = (
        _look(values, "fraction_silicon", SILICON, silicon)
        * _look(values, "fraction_stack", STACKS, setup.software)
        * _look(values, "fraction_kind", KINDS, work.kind)
        * _look(values, "fraction_dtype", PRECISIONS, setup.precision)
    )
    most = _look(values, "fraction_most", PRECISIONS, setup.precision)
    flops = peak * fraction / (1.0 + (fraction / most) ** 4) ** 0.25
    stored = _look(values, "stored_rate", STORED, setup.stored)
    unfused = _look(values, "unfused_stack", STACKS, setup.software)
    passes = _look(values, "passes_kind", KINDS, work.kind) + unfused * work.pointwise * _look(values, "pointwise_kind", KINDS, work.kind)
    # Tensor cores want the channels last; cuDNN transposes the other layout in and out of every
    # convolution (TF32 as well as half precision).
    tensor_cores = half | (setup.precision == PRECISIONS.index("tf32")) & (device.tf32 > device.fp32)
    transposes = tensor_cores & convolution & (setup.channels_last == 0) & np.isin(setup.software, _CHANNELS_FIRST)
    passes = passes + np.where(transposes, values["passes_transpose"], 0.0)
    moved = _pick(_MOVED_BYTES, setup.precision) * np.where(setup.precision == PRECISIONS.index("amp"), values["amp_traffic"], 1.0)
    # Boxes, masks and losses of region detectors stay wide under autocast: regions are pooled,
    # normalised by frozen constants and matched in fp32. Those of one stage that train their own
    # normalisation (YOLO) are convolutions like any other.
    detects = half & (work.wide > 0) & (work.kind == KINDS.index("detection")) & np.isin(setup.software, _PLAIN)
    moved = moved * np.where(detects, values["wide_detection"], 1.0)
    scale = _look(values, "layers_kind", KINDS, work.kind)
    autocast = np.where(setup.precision == PRECISIONS.index("amp"), values["amp_launch"], 1.0)
    return ForwardRates(
        flops=flops * stored,
        score_flops=flops * _look(values, "score_fraction", KINDS, work.kind),
        bandwidth=device.bandwidth * _look(values, "bandwidth_fraction", SILICON, silicon),
        activation_bytes=moved,
        weight_bytes=_pick(_MOVED_BYTES, setup.precision),
        passes=passes,
        fill_elements=values["fill_time"] * peak * _look(values, "fraction_silicon", SILICON, silicon),
        cache_bytes=device.l2_bytes * values["cache_fraction"],
        layer_s=scale * _look(values, "layer_s", STACKS, setup.software),
        launch_s=scale
        * np.where(setup.adapter_rank > 0, values["adapter_launch"], 1.0)
        * _look(values, "launch_stored", STORED, setup.stored)
        * autocast
        * _look(values, "launch_s", STACKS, setup.software)
        * _look(values, "launch_silicon", GENERATION, silicon),
        call_s=np.zeros(1),
        mixing=np.array([values["mixing"]]),
        host_sharpness=np.array([facts.coefficients("operators")["host_sharpness"]]),
    )


def _step_rates(work: WorkColumns, setup: TrainSetup, values: Coefficients) -> StepRates:
    stack = setup.software
    pooled = work.tables > 0
    return StepRates(
        backward_traffic=_look(values, "backward_traffic", KINDS, work.kind),
        gradient_bytes=_pick(_GRADIENT_BYTES, setup.precision),
        exchange_bytes=_pick(_MOVED_BYTES, setup.precision),
        update_bytes=8.0 + 2.0 * setup.optimizer_bytes + 4.0,
        gather_bytes=np.where(pooled, values["gather_bytes"], 4.0),
        overlap=np.array([values["overlap"]]),
        least_exposed=np.array([facts.coefficients("operators")["least_exposed"]]),
        local_straggler=_look(values, "local_straggler", STACKS, stack),
        straggler=_look(values, "straggler", STACKS, stack),
        loader_s=np.where(setup.image > 0, _look(values, "loader_s", STACKS, stack), 0.0),
        host_forward=np.array([values["host_forward"]]),
        step_s=_look(values, "step_s", STACKS, stack) * np.where(work.kind == KINDS.index("recommender"), values["step_share_tables"], 1.0),
    )


def _trained(work: WorkColumns, setup: TrainSetup) -> Array:
    """Parameters that learn."""
    adapters = np.where(setup.adapter_rank > 0, setup.adapter_rank * work.adapter_params_per_rank, work.trained)
    return np.where(setup.trainable > 0, setup.trainable, adapters)


def communication_rates() -> RateColumns:
    """Rates of collectives, those of language models."""
    from rightfit.facts import coefficients as read

    network = {**read("operators"), **read("network")}
    known = {field.name for field in dataclasses.fields(RateColumns)}
    return RateColumns.of(**{name: value for name, value in network.items() if name in known})


def _step_work(work: WorkColumns, setup: TrainSetup, values: Coefficients) -> StepWork:
    frozen = work.frozen_macs + np.where(setup.cached > 0, 0.0, work.side_macs)
    split = np.maximum(setup.tables_split, 1.0)
    adapters = (setup.adapter_rank > 0) | (setup.trainable > 0)
    wide = np.where(setup.precision >= PRECISIONS.index("amp"), 2.0, 4.0)
    return StepWork(
        macs=work.macs,
        score_macs=work.score_macs,
        activations=work.activations,
        frozen_macs=frozen,
        frozen_activations=work.frozen_activations + np.where(setup.cached > 0, 0.0, work.side_macs / 1500.0),
        layers=work.layers,
        weights=work.params,
        trained=_trained(work, setup),
        gathered=work.gathered,
        exchanged=np.where(split > 1, work.gathered * values["exchanged_share"], 0.0),
        host_s=work.host_s * _look(values, "host_stack", STACKS, setup.software),
        streamed_bytes=setup.offload * work.params * np.where(adapters, _pick(STORED_BYTES, setup.stored), wide),
    )


def _layout(setup: TrainSetup) -> StepLayout:
    only_inputs = np.where((setup.adapter_rank > 0) | (setup.trainable > 0), 1.0, 0.0)
    return StepLayout(setup.batch, setup.grad_accum, setup.num_gpus, setup.gpus_per_node, setup.recompute, only_inputs)


def training_passes(work: WorkColumns, setup: TrainSetup, device: TrainDevices, *, values: Coefficients | None = None) -> PassTimes:
    """Times of one pass and of the update, which do not depend on the number of
    devices, shape (N,)."""
    values = values or coefficients()
    rates = pass_rates(work, setup, device, values)
    return pass_times(_step_work(work, setup, values), _layout(setup), rates, _step_rates(work, setup, values))


def training_time(
    work: WorkColumns,
    setup: TrainSetup,
    device: TrainDevices,
    links: LinkColumns,
    *,
    values: Coefficients | None = None,
    passes: PassTimes | None = None,
) -> dict[str, Array]:
    """Seconds of one optimizer step by what takes them, shape (N,); they add up to the step.
    `passes`: those of `training_passes`, if known."""
    values = values or coefficients()
    passes = passes or training_passes(work, setup, device, values=values)
    return joined_terms(
        passes, _step_work(work, setup, values), _layout(setup), _step_rates(work, setup, values), links=links, bus=communication_rates()
    )


def training_memory(
    work: WorkColumns, setup: TrainSetup, device: TrainDevices, *, values: Coefficients | None = None
) -> tuple[dict[str, Array], Array]:
    """Bytes at the peak by what holds them as `setup.counter` sees it, and what the card must hold
    (the driver's view), shape (N,)."""
    values = values or coefficients()
    adapters = (setup.adapter_rank > 0) | (setup.trainable > 0)
    trained = _trained(work, setup)
    half = setup.precision >= PRECISIONS.index("amp")
    wide = np.where(setup.pure > 0, 2.0, 4.0)
    # Under autocast the half-precision copies of the weights live through the backward pass.
    casts = np.where((setup.precision == PRECISIONS.index("amp")) & (setup.pure == 0) & ~adapters, values["autocast_copy_bytes"], 0.0)
    stored = np.where(adapters, _pick(STORED_BYTES, setup.stored), wide + casts)
    state = wide + setup.optimizer_bytes + np.where(adapters, wide, 0.0)
    quantised = 1.0 + (_look(values, "kept_stored", STORED, setup.stored) - 1.0) * (
        1.0 - setup.offload
    )  # streamed weights keep to plain kernels
    # Under autocast what stays in 32 bits of a block is counted where blocks are known.
    amp_bytes = np.array([_KEPT_AMP.get(name, values["kept_amp_bytes"]) for name in KINDS])[work.kind.astype(np.intp)]
    kept_bytes = np.where(half, amp_bytes, 4.0)
    kept_bytes = np.where(setup.pure + adapters > 0, values["kept_pure_bytes"], kept_bytes)
    rates = TrainMemoryRates(
        weight_bytes=stored,
        state_bytes=state,
        beside_bytes=np.array([2.0]),
        table_bytes=np.array([values["table_bytes"]]),
        activation_bytes=kept_bytes * quantised * _look(values, "kept_kind", KINDS, work.kind),
        live_layers=_look(values, "live_layers", KINDS, work.kind),
        workspace_bytes=np.array([values["workspace_bytes"]]),
        slack=np.array([values["slack"]]),
        context_bytes=np.array([values["context_bytes"]]),
        recompute=setup.recompute,
        counter=setup.counter,
        ema=setup.ema,
        offload=setup.offload,
        opened_bytes=np.where(adapters, _look(values, "opened_bytes", STORED, setup.stored), 0.0),
    )
    held = MemoryWork(
        params=work.params,
        trained=trained,
        beside=np.where(setup.beside_on_card > 0, work.beside, 0.0),
        tables=work.tables / np.maximum(setup.tables_split, 1.0),
        kept=work.kept * np.where(adapters, values["kept_adapter"], 1.0),
        block_inputs=work.block_inputs,
        block=work.block,
        widest=work.widest + np.where(setup.cached > 0, 0.0, work.side_elements),
        fixed_bytes=work.fixed_bytes,
    )
    terms = memory_terms(held, rates, batch=setup.batch)
    required = sum(memory_terms(held, rates.replace(counter=float(MemoryCounter.DRIVER)), batch=setup.batch).values(), np.zeros(1))
    return terms, np.asarray(required, dtype=np.float64)


def training_columns(
    work: WorkColumns, setup: TrainSetup, device: TrainDevices, links: LinkColumns, *, values: Coefficients | None = None
) -> TrainingColumns:
    """Step time, rate, and peak memory of every row; see the head of this module."""
    values = values or coefficients()
    times = training_time(work, setup, device, links, values=values)
    step = np.asarray(sum(times.values(), np.zeros(1)), dtype=np.float64)
    memory, required = training_memory(work, setup, device, values=values)
    peak = np.asarray(sum(memory.values(), np.zeros(1)), dtype=np.float64)
    samples = setup.batch * setup.grad_accum * setup.num_gpus
    capacity = device.memory_bytes * values["usable_fraction"]
    return TrainingColumns(step, samples / step, times, memory, peak, required, capacity)


# ---- State of a model that is not a language model, split over devices or held in host memory:
# what that saves on a card and costs in time.
#
# Splitting is FSDP's: weights, gradients and optimizer states of a network are cut over `degree`
# devices; each pass gathers the weights of two blocks at a time, once forward and once backward
# (Zhao et al. 2023, arXiv 2304.11277). Embedding tables are cut by rows or columns and exchange
# what they look up (physics.train_step). Held in host memory, frozen weights come over PCIe block
# by block, once forward and once backward. Known error: how much of either the computation hides is
# taken, not measured.


def split_work(work: WorkColumns, degree: Array) -> WorkColumns:
    """The work as one device of `degree` holds it, shape (N,): its part of the states and two
    gathered blocks beside."""
    usual = facts.coefficients("training")
    blocks = np.maximum(work.layers / usual["units_of_layers"], 2.0)
    gathered = np.where(degree > 1, 2.0 * work.params / blocks * usual["gathered_bytes"], 0.0)
    return work.replace(params=work.params / degree, trained=work.trained / degree, fixed_bytes=work.fixed_bytes + gathered)


def gathering_s(work: WorkColumns, setup: TrainSetup, links: LinkColumns, *, degree: Array, compute: Array) -> Array:
    """Seconds of a step that gathering split weights adds [s], shape (N,): two gathers each pass,
    less what `compute` [s] hides."""
    usual = facts.coefficients("training")
    ranks = collectives.group(setup.num_gpus, stride=np.ones(1), gpus_per_node=setup.gpus_per_node)
    whole = setup.grad_accum * collectives.all_reduce_s(work.params * usual["gathered_bytes"], ranks, links, communication_rates())
    return np.where(degree > 1, _exposed(whole, compute), 0.0)


def swapping_s(work: WorkColumns, setup: TrainSetup, links: LinkColumns, *, compute: Array) -> Array:
    """Seconds of a step that weights in host memory add [s], shape (N,): there and back each pass,
    less what `compute` [s] hides."""
    moved = 2.0 * setup.grad_accum * host_weights_bytes(work, setup)
    return np.where(setup.offload > 0, _exposed(moved / np.maximum(links.host_bandwidth, 1e9), compute), 0.0)


def host_weights_bytes(work: WorkColumns, setup: TrainSetup) -> Array:
    """Bytes of weights that each device keeps in host memory, shape (N,)."""
    frozen = (setup.adapter_rank > 0) | (setup.trainable > 0)
    stored = np.where(frozen, np.asarray(STORED_BYTES)[setup.stored.astype(np.intp)], STORED_BYTES[STORED.index("fp32")])
    return setup.offload * work.params * stored


def _exposed(seconds: Array, compute: Array) -> Array:
    usual = facts.coefficients("training")
    return np.maximum(seconds - usual["overlap"] * compute, usual["exposed_least"] * seconds)
