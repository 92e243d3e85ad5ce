"""The physics that the search runs on where samples are trained on: evaluate.Physics for
estimate.vision_training.

A setup is told in the same columns as that of a language model (physics.columns.SetupColumns); this
module reads of them the micro-batch, accumulation, numbers of devices, precision, recomputation,
the degree over which states or tables are split, and whether weights lie in host memory.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import InputError
from rightfit.estimation import sample_training as layouts
from rightfit.estimation.figures import FigureColumns
from rightfit.estimation.loading import FRAMES_PER_S
from rightfit.estimation.sample_figures import RATE_METRICS, SAMPLE_MEMORY_METRIC, vision_interval
from rightfit.estimation.sample_training import (
    PRECISIONS,
    STACKS,
    STORED,
    TrainDevices,
    TrainSetup,
    WorkColumns,
    coefficients,
    train_devices,
    training_memory,
    training_passes,
    training_time,
    work_columns,
)
from rightfit.estimation.training import MemoryColumns, StepColumns
from rightfit.families.samples.wish import SampleRequest
from rightfit.market.offers import ServerTable
from rightfit.messages import Message
from rightfit.physics.columns import Array, Columns, DeviceColumns, Dtype, LinkColumns, MemoryCounter, Method, Recompute, SetupColumns
from rightfit.physics.passes import PassTimes
from rightfit.physics.step import Bottleneck
from rightfit.records import dataclass
from rightfit.search.market import Volume
from rightfit.search.risk import Spread
from rightfit.search.sources import published_bytes
from rightfit.search.training.machines import Fleet, behind, build_fleet, collapse, surely
from rightfit.search.training.space import Sharding, SpaceLimits
from rightfit.search.training.wish import TrainingRequest

if TYPE_CHECKING:
    from rightfit.search.training.machines import Machines


#: Arithmetic of each Dtype: half precision means autocast, unless only adapters learn (then weights
#: are held in bf16).
_ARITHMETIC = {Dtype.FP32: "fp32", Dtype.TF32: "tf32", Dtype.FP16: "amp", Dtype.BF16: "amp", Dtype.FP8: "amp"}
_MEMORY_NAMES = {"transient": "working", "allocator": "slack"}
_TIME_NAMES = {"compute": "compute_s", "tables": "tables_s", "communication": "data_s", "update": "update_s", "host": "overhead_s"}
_BOTTLENECKS = {"data_s": Bottleneck.INTER_NODE, "tables_s": Bottleneck.MEMORY_BANDWIDTH, "offload_s": Bottleneck.OFFLOAD}


@dataclass(frozen=True, slots=True)
class SampleEngine:
    """The engine for one wish. A setup is offered when it fits with 90 % probability (the upper end
    of the 80 % interval)."""

    wish: SampleRequest
    work: WorkColumns

    @classmethod
    def of(cls, wish: SampleRequest) -> SampleEngine:
        """The engine for a wish."""
        return cls(wish, work_columns([wish.work]))

    @property
    def key(self) -> None:
        """Nothing is kept: the search of a network takes a hundredth of a second."""
        return None

    @property
    def splits_tables(self) -> bool:
        """Whether what is split over devices is embedding tables and not the network."""
        return self.wish.work.tables > 0

    @property
    def doubts(self) -> float:
        """How many things were assumed about the model."""
        return float(len(self.wish.work.assumptions))

    @property
    def card_decoding_s(self) -> float:
        """Seconds in which an accelerator decodes one sample instead of training, where it is asked
        to (nvJPEG, NVDEC); taken whole, as neither overlaps well."""
        if self.wish.load.decode != "dali":
            return 0.0
        usual = facts.coefficients("loading")
        if self.wish.sample["domain"] == "video":
            return float(self.wish.sample["seconds"]) * FRAMES_PER_S / usual["gpu_video_frames_per_s"]
        return 1.0 / usual["gpu_decode_images_per_s"]

    def setup_of(self, setup: SetupColumns) -> TrainSetup:
        """The setup as the physics of samples reads it."""
        recipe = self.wish.recipe
        frozen = recipe.adapter_rank > 0 or recipe.trainable > 0
        names = dict(_ARITHMETIC) | ({Dtype.BF16: "bf16"} if frozen else {})
        codes = np.array([float(PRECISIONS.index(names[dtype])) for dtype in Dtype])
        precision = codes[setup.compute_dtype.astype(np.intp)]
        return TrainSetup(
            batch=setup.micro_batch,
            grad_accum=setup.grad_accum,
            num_gpus=setup.data,
            gpus_per_node=setup.gpus_per_node,
            precision=precision,
            software=np.array([float(STACKS.index(recipe.software))]),
            stored=np.array([float(STORED.index(recipe.stored))]),
            channels_last=np.array([float(recipe.channels_last)]),
            recompute=(setup.recompute == Recompute.FULL).astype(np.float64),
            adapter_rank=np.array([recipe.adapter_rank]),
            trainable=np.array([recipe.trainable]),
            cached=np.array([float(recipe.latents != "live")]),
            beside_on_card=np.array([float(recipe.latents == "live")]),
            offload=setup.offload_params * facts.coefficients("training")["offload_share"],
            optimizer_bytes=np.array([recipe.optimizer_bytes]),
            pure=(precision >= PRECISIONS.index("fp16")).astype(np.float64),
            tables_split=setup.shard_degree if self.splits_tables else self._graph_parts(setup),
            counter=np.array([float(MemoryCounter.DRIVER)]),
        )

    def degree(self, setup: SetupColumns) -> Array:
        """Devices over which the states of the network are split."""
        plain = self.splits_tables | (setup.offload_params > 0)
        return np.where(plain, 1.0, setup.shard_degree)

    def memory_terms(self, setup: SetupColumns) -> dict[str, Array]:
        """Bytes on one accelerator by what holds them, all that the driver counts."""
        degree = self.degree(setup)
        train = self.setup_of(setup)
        train = train.replace(adapter_rank=train.adapter_rank / degree, trainable=train.trainable / degree)
        return training_memory(layouts.split_work(self.work, degree), train, TrainDevices())[0]

    def memory(self, setup: SetupColumns) -> Array:
        """Peak memory of each setup, all that the card must hold [bytes]."""
        return np.asarray(sum(self.memory_terms(setup).values(), np.zeros(1)))

    def spared(self, device: DeviceColumns) -> Array:
        """Nothing: one share of the driver is known for all accelerators [bytes]."""
        return np.zeros(device.num_rows)

    def phases(self, setup: SetupColumns, device: DeviceColumns) -> dict[str, Array]:
        """The one moment that is counted, the backward pass: everything that a sample keeps lies on
        the card with all states [bytes]."""
        del device
        return {"backward_start": self.memory(setup)}

    def interval(self, metric: str, mid: Array) -> FigureColumns:
        """A figure with its intervals."""
        return vision_interval(metric, mid, modality=self.wish.work.modality, doubts=np.full(mid.shape, self.doubts))

    def memory_interval(self, peak_bytes: Array) -> FigureColumns:
        """Peak memory with its intervals."""
        return self.interval(SAMPLE_MEMORY_METRIC, peak_bytes)

    def safety(self, setup: SetupColumns, device: DeviceColumns, *, sure: bool = False) -> Array:
        """The factor by which the true memory exceeds the predicted one with probability 10 %, or
        5 % (`sure`)."""
        del setup, device
        known = self.memory_interval(np.ones(1))
        return np.maximum(surely(known.high80, known.high95) if sure else known.high80, 1.0)

    def caution(self, device: DeviceColumns) -> NDArray[np.intp]:
        """One class: the error of memory does not depend on the accelerator."""
        return np.zeros(device.num_rows, dtype=np.intp)

    def time_spread(self, setup: SetupColumns, device: DeviceColumns) -> Spread:
        """How far any time may lie above the predicted one: the doubt of the rate does not depend
        on the accelerator."""
        del setup, device
        rate = self.rate_interval(np.ones(1))
        return Spread(1.0 / rate.low80, 1.0 / rate.low95)

    def uncalibrated(self, device: DeviceColumns) -> NDArray[np.bool_]:
        """Accelerators of families that no time was calibrated on: silicon of other makers."""
        silicon = cast("TrainDevices", device).silicon
        return silicon >= len(facts_silicon()) - 1

    def capacity(self, device: DeviceColumns) -> Array:
        """What a job can use of each accelerator's memory [bytes]."""
        return device.memory_bytes * coefficients()["usable_fraction"]

    def host(self, setup: SetupColumns) -> Array:
        """Host memory per node [bytes]: processes, weights that were moved there, and what the job
        keeps in RAM, or a node's part of it."""
        each = facts.coefficients("training")["host_bytes_per_accelerator"] + layouts.host_weights_bytes(self.work, self.setup_of(setup))
        return np.asarray(setup.gpus_per_node * each + self.wish.recipe.host_bytes / self._graph_parts(setup))

    def _graph_parts(self, setup: SetupColumns) -> Array:
        """Servers over which a graph is partitioned: all of them where it is larger than most
        servers' memory, none else; each samples from its own copy."""
        if self.wish.recipe.host_bytes <= facts.coefficients("training")["whole_graph_bytes"]:
            return np.ones(1)
        return np.maximum(setup.data / np.maximum(setup.gpus_per_node, 1.0), 1.0)

    def compute(self, setup: SetupColumns, device: DeviceColumns) -> PassTimes:
        """Times of one pass."""
        return training_passes(self.work, self.setup_of(setup), cast("TrainDevices", device))

    def time_terms(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns, compute: PassTimes) -> dict[str, Array]:
        """Seconds of one optimizer step by what takes them."""
        train = self.setup_of(setup)
        found = training_time(self.work, train, cast("TrainDevices", device), links, passes=compute)
        names = _TIME_NAMES | ({"host": "host_s"} if self.wish.work.host_s else {})
        terms = {name: found[key] for key, name in names.items()}
        busy = terms["compute_s"]
        terms["shard_s"] = layouts.gathering_s(self.work, train, links, degree=self.degree(setup), compute=busy)
        terms["decoding_s"] = train.batch * train.grad_accum * self.card_decoding_s
        terms["offload_s"] = layouts.swapping_s(self.work, train, links, compute=busy)
        return terms

    def step_s(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns, compute: Columns) -> Array:
        """Seconds of one optimizer step."""
        assert isinstance(compute, PassTimes)
        terms = self.time_terms(setup, device, links, compute)
        return np.asarray(sum(terms.values(), np.zeros(1)))

    def volume(self, wish: TrainingRequest, base: SetupColumns) -> Volume:
        """Bytes kept and moved by the whole job: nothing is fetched for training from scratch,
        adapters alone are sent home."""
        del base
        assert isinstance(wish, SampleRequest)
        work, recipe = wish.work, wish.recipe
        whole = 4.0 * (work.params + work.tables)
        learned = recipe.trainable or recipe.adapter_rank * work.adapter_params_per_rank
        fetched = 0.0 if wish.workload.task == "train" else 2.0 * (work.params + work.beside) if learned else whole + 2.0 * work.beside
        if learned:
            return Volume(fetched, wish.amount.dataset_bytes, learned * (4.0 + recipe.optimizer_bytes), 4.0 * learned)
        state = (
            (4.0 + recipe.optimizer_bytes) * min(work.trained, work.params) + 4.0 * max(work.params - work.trained, 0.0) + 4.0 * work.tables
        )
        return Volume(fetched, wish.amount.dataset_bytes, state, whole)

    def details(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns) -> tuple[MemoryColumns, StepColumns]:
        """Everything about a few rows."""
        return self._memory_columns(setup, device), self._step_columns(setup, device, links)

    def _memory_columns(self, setup: SetupColumns, device: DeviceColumns) -> MemoryColumns:
        terms = {_MEMORY_NAMES.get(name, name): value for name, value in self.memory_terms(setup).items()}
        peak = np.asarray(sum(terms.values(), np.zeros(1)))
        volume = self.volume(self.wish, setup)
        stored = np.full(1, self._kept_bytes(volume))
        return MemoryColumns(
            terms,
            peak,
            peak,
            self.capacity(device),
            np.zeros(1, dtype=np.intp),
            self.host(setup),
            np.full(1, volume.checkpoint_bytes),
            stored,
        )

    def _kept_bytes(self, volume: Volume) -> float:
        """On disk beside the data: the files to start from, whole, checkpoints and the result."""
        files = published_bytes(self.wish.model) if volume.weights_bytes and self.wish.model is not None else 0.0
        kept = float(facts.coefficients("memory")["kept_checkpoints"]) * volume.checkpoint_bytes
        return max(volume.weights_bytes, files) + kept + volume.result_bytes

    def _step_columns(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns) -> StepColumns:
        terms = self.time_terms(setup, device, links, self.compute(setup, device))
        step = np.asarray(sum(terms.values(), np.zeros(1)))
        names = list(terms)
        longest = np.argmax(np.stack([np.broadcast_to(terms[name], step.shape) for name in names]), axis=0)
        codes = np.array([float(_BOTTLENECKS.get(name, Bottleneck.COMPUTE)) for name in names])
        return StepColumns(terms, step, self.model_flops(setup), codes[longest])

    def model_flops(self, setup: SetupColumns) -> Array:
        """Arithmetic of one step that the model needs, whatever is recomputed: three forward
        passes, two where only adapters learn."""
        passes = 2.0 if self.wish.recipe.adapter_rank or self.wish.recipe.trainable else 3.0
        work = self.work
        each = 2.0 * (passes * (work.macs + work.score_macs) + work.frozen_macs)
        return np.asarray(setup.data * setup.micro_batch * setup.grad_accum * each)

    def peak_flops(self, setup: SetupColumns, device: DeviceColumns) -> Array:
        """Peak arithmetic of all accelerators in the precision used [FLOP/s]."""
        train, known = self.setup_of(setup), cast("TrainDevices", device)
        rates = (known.fp32, known.tf32, known.half, known.half, known.bf16)
        return np.choose(train.precision.astype(np.intp), np.broadcast_arrays(*rates)) * setup.data

    def rate_interval(self, samples_per_s: Array) -> FigureColumns:
        """Samples a second with their intervals."""
        return self.interval(RATE_METRICS[1], samples_per_s)


@functools.cache
def facts_silicon() -> tuple[str, ...]:
    """Classes of chips; the last one collects what is not known well."""
    from rightfit.estimation.pass_records import SILICON

    return tuple(SILICON)


# ---- The search for training on samples: the same candidates, market and criteria as for language
# models, with the physics of training_engine.

_DTYPES = {"fp32": Dtype.FP32, "tf32": Dtype.TF32, "fp16": Dtype.FP16, "bf16": Dtype.BF16}
#: Layers whose blocks may be computed again in the backward pass.
_RECOMPUTED = ("conv", "grouped", "depthwise", "convnext", "window", "transformer", "unet", "detection", "conv3d", "denoiser", "dit")


@functools.lru_cache(maxsize=8)
def sample_fleet(servers: ServerTable, precision: str) -> Fleet:
    """Machine classes of the servers, their devices as the physics of samples takes them."""
    fleet = build_fleet(servers, method=Method.FULL, precision=precision)
    machines = fleet.machines
    if not len(machines):
        return fleet
    names = dict.fromkeys(machines.accelerators)
    device = train_devices([_chip(name) for name in names])
    code = {name: number for number, name in enumerate(names)}
    rows = np.array([code[name] for name in machines.accelerators], dtype=np.intp)
    columns = device.take(rows).replace(memory_bytes=machines.memory_bytes)
    # The search only hands devices through to the engine, which knows that they
    # are of another kind.
    return dataclasses.replace(fleet, machines=dataclasses.replace(machines, device=cast("DeviceColumns", columns)))


def _chip(name: str) -> str:
    """The accelerator whose figures stand for `name`."""
    card = behind(facts.accelerators()[name])
    return card.equivalent_to or card.name


def sample_limits(wish: SampleRequest, node_counts: tuple[int, ...]) -> SpaceLimits:
    """Data parallelism only; states or tables split where that can help, weights in host memory
    where denoisers are tuned."""
    workload = wish.workload
    levels = (Recompute.NONE, Recompute.FULL) if wish.work.kind in _RECOMPUTED else (Recompute.NONE,)
    if workload.recompute:
        levels = (Recompute[workload.recompute.upper()],)
    return SpaceLimits(
        num_heads=1,
        num_layers=1,
        num_experts=0,
        global_batch=wish.global_batch,
        seq_len=1,
        method=Method.FULL,
        splits_models=False,
        node_counts=node_counts,
        micro_batch=(workload.micro_batch,) if workload.micro_batch else (),
        recompute=tuple(int(level) for level in levels),
        sharding=shardings(wish),
    )


def shardings(wish: SampleRequest) -> tuple[int, ...]:
    """Ways to hold the state that this model leaves open."""
    usual, work, workload = facts.coefficients("training"), wish.work, wish.workload
    if workload.offload in ("params", "all"):
        return (Sharding.OFFLOAD_ALL,)
    if workload.sharding == "none":
        return (Sharding.NONE,)
    if workload.sharding in ("zero3", "fsdp"):
        return (Sharding.ZERO3, Sharding.NONE)
    modes = [Sharding.NONE]
    if work.tables * 4.0 > usual["large_tables_bytes"] or work.params > usual["sharded_params"]:
        modes.append(Sharding.ZERO3)
    if work.kind in ("dit", "denoiser") and (wish.recipe.adapter_rank or wish.recipe.trainable) and workload.offload is None:
        modes.append(Sharding.OFFLOAD_ALL)
    return tuple(modes)


def sample_base(machines: Machines) -> SetupColumns:
    """What the arithmetic decides, one row for each variant."""
    dtypes = [float(_DTYPES[variant.precision]) for variant in machines.variants]
    return collapse(SetupColumns.of(seq_len=1.0, compute_dtype=dtypes, memory_counter=float(MemoryCounter.DRIVER)))


def refuse_what_never_fits(wish: SampleRequest, engine: SampleEngine, machines: Machines) -> None:
    """An image or clip of a wanted size that alone is larger than any card holds is the user's
    slip, not a shortage of servers."""
    workload = wish.workload
    if not len(machines) or not (workload.image_size or workload.frames or workload.audio_length_s):
        return
    one = SetupColumns.of(seq_len=1.0, micro_batch=1.0, data=512.0, shard_degree=512.0, recompute=float(Recompute.FULL))
    needed = float(engine.memory(one)[0])
    largest = max(card.memory_bytes for card in facts.accelerators().values())
    if needed <= largest:
        return
    field = "image_size" if workload.image_size else "frames" if workload.frames else "audio_length"
    size = getattr(workload, field) if field != "audio_length" else f"{workload.audio_length_s:g}s"
    raise InputError(
        Message("families.sample_never_fits", option=field, size=size, needed=needed / 2**30, largest=largest / 2**30),
        field=field,
    )
