"""Rows of the measured table of training that is not of language models, as columns for `vision_training`.

A row that cannot be told is refused with its reason; what was taken for granted is named. Every spelling is read by words, never by source.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimate import train_words
from rightfit.estimate.case_cells import RefusedRowError, number, read_rows, word
from rightfit.estimate.device_words import forward_device
from rightfit.estimate.forward_devices import ForwardDevice
from rightfit.estimate.hardware import default_links
from rightfit.estimate.model_work import ModelWork, TrainWish
from rightfit.estimate.train_runs import audio_seconds, run_samples, usual_batch
from rightfit.estimate.train_work import train_work
from rightfit.estimate.vision_training import KINDS, TrainDevices, TrainSetup, WorkColumns, device_columns, work_columns
from rightfit.facts.constants import constants
from rightfit.facts.word_tables import shape
from rightfit.physics.columns import Array, LinkColumns, MemoryCounter
from rightfit.records import dataclass

MEMORY_METRIC = "peak_mem_gib_per_gpu"
RATE_METRICS = ("images_per_s_total", "samples_per_s_total")
STEP_METRIC = "s_per_iter"
DURATION_METRIC = "time_to_train_min"
FIT_METRICS = ("fits", "does_not_fit")
VISION_METRICS = (*RATE_METRICS, STEP_METRIC, DURATION_METRIC, MEMORY_METRIC, *FIT_METRICS)

_VISION_TASKS = (
    "classification",
    "detection",
    "instance_segmentation",
    "keypoint",
    "panoptic",
    "segmentation",
    "self-supervised",
    "contrastive",
)


@dataclass(frozen=True, slots=True)
class TrainCases:
    """Columns of the rows in `index`; `samples` of the whole run (NaN = not told), `benchmark` 1 for a tuned benchmark run, `stated_bytes`
    the
    card's size where the row gives one, `memory_doubts` assumed inputs that memory depends on, `unsure_counter` 1 where what counted it is
    a
    guess; reasons of the others in `refused`."""

    index: NDArray[np.intp]
    work: WorkColumns
    setup: TrainSetup
    device: TrainDevices
    links: LinkColumns
    samples: Array
    benchmark: Array
    has_device: NDArray[np.bool_]
    stated_bytes: Array
    memory_doubts: Array
    unsure_counter: Array
    works: tuple[ModelWork, ...]
    refused: Mapping[int, str]
    assumptions: Mapping[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _TrainCase:
    work: ModelWork
    setup: dict[str, float]
    device: ForwardDevice
    has_device: bool
    stated_bytes: float
    notes: str
    samples: float
    benchmark: bool
    assumptions: tuple[str, ...]
    memory_doubts: int
    unsure_counter: bool


def train_cases(rows: Sequence[Mapping[str, str]]) -> TrainCases:
    """Columns for the rows that can be told, reasons for the others."""
    return _columns(*read_rows(rows, _read))


_PARENTHESES = re.compile(r"\s*\(.*?\)")
_HABITS = "gradient_checkpointing;cached latents"  # kohya-ss/sd-scripts: every recipe of its documentation passes them
_MESH_CHIPS = 256.0
_SOCKETS = 2.0  # processors of a server whose row counts none
_FRAMES_OF_SAMPLE = constants("training_work")["audio_frames"]
_STAND_IN = "A100-SXM-80GB"


def _device(row: Mapping[str, str]) -> tuple[ForwardDevice, bool, tuple[str, ...]]:
    """The device of a row, whether it names one, and what was assumed. A memory row needs none."""
    text = word(row, "gpu")
    memory = word(row, "gpu_mem_gib").removesuffix(".0")
    bare = _PARENTHESES.sub("", text).strip()
    alternatives = re.split(r"\s+or\s+|/(?=[A-Z])", bare)
    for name in dict.fromkeys((text, bare, alternatives[0], re.sub(r"[- ]\d+ ?GB$", "", bare))):
        if name and name.lower() not in ("not stated", "unknown") and (found := forward_device(name, memory)) is not None:
            taken = (f"{text} taken as {found.name}",) if name != text and len(alternatives) > 1 else ()
            return found, True, (*taken, *((found.assumption,) if found.assumption else ()))
    if word(row, "metric") not in (MEMORY_METRIC, *FIT_METRICS):
        raise RefusedRowError(f"device {text[:60]!r} is not known" if text else "the row names no device")
    known = forward_device(_STAND_IN)
    assert known is not None
    return known, False, ()


def _wish(row: Mapping[str, str], size: train_words.ImageSize) -> TrainWish:
    library = found[0] if (found := shape(train_words.TABLE, "{detection_library}").search(word(row, "framework").lower())) else ""
    return TrainWish(
        model=word(row, "model"),
        task=word(row, "task"),
        height=size.height,
        width=size.width,
        frames=size.frames,
        peak_pixels=size.peak_pixels,
        library=library,
        params=number(row, "params"),
        audio_s=audio_seconds(f"{word(row, 'extra_flags')} {word(row, 'model')}"),
        views=size.views,
    )


_FLAG_NUMBER = re.compile(r"([a-z_]+)=(\d+(?:\.\d+)?)(?![\w.])", re.IGNORECASE)


def _flag_numbers(flags: str) -> dict[str, float]:
    return {name.lower(): float(value) for name, value in _FLAG_NUMBER.findall(flags)}


def _read(row: Mapping[str, str]) -> _TrainCase:
    metric = word(row, "metric")
    if metric not in VISION_METRICS:
        raise RefusedRowError(f"metric {metric[:60]!r} is not predicted; the metrics are {', '.join(VISION_METRICS)}")
    if not word(row, "model"):
        raise RefusedRowError("the row names no model")
    if "reinforcement" in word(row, "task"):
        raise RefusedRowError("self-play of reinforcement learning is not predicted: most of its time is search and inference")
    flags, framework = word(row, "extra_flags"), word(row, "framework")
    size = train_words.image_size(word(row, "image_size"), word(row, "task"))
    work = train_work(_wish(row, size))
    if work.modality == "speech" and work.units == 1.0 and "20 ms" in word(row, "unit"):
        work = dataclasses.replace(work, units=_FRAMES_OF_SAMPLE)
    device, has_device, taken = _device(row)
    stack = train_words.stack_of(framework, word(row, "precision"), flags, word(row, "dataset"))
    if device.silicon == "other" and "TPU" in device.name:
        stack = "jax" if stack != "tuned" else stack
    if stack == "eager" and work.modality == "diffusion" and work.kind != "graph" and "finetune" in word(row, "task"):
        stack = "tuner"  # trainers around diffusers: much work of the host in each step
    setup, assumed = _setup(row, work, device, stack)
    assumptions = (*work.assumptions, *taken, *assumed)
    unsure = any(text.startswith(train_words.COUNTER_GUESSED) for text in assumed) and setup["counter"] > MemoryCounter.ALLOCATED
    memory_doubts = len(work.assumptions) + sum(not text.startswith(train_words.COUNTER_GUESSED) for text in assumed)
    total = setup["batch"] * setup["num_gpus"] * setup["grad_accum"]
    samples = run_samples(row, work, global_batch=total) if metric == DURATION_METRIC else np.nan
    if metric == DURATION_METRIC and not np.isfinite(samples):
        raise RefusedRowError("how much data the run took is not in the row, so the time to train cannot be told")
    stated = number(row, "gpu_mem_gib") * 2.0**30
    notes = f"{word(row, 'interconnect')} {flags} {framework} {word(row, 'gpu')}"
    return _TrainCase(
        work, setup, device, has_device, stated, notes, samples, stack == "tuned", assumptions, memory_doubts, unsure
    )  # fmt: skip


def _films(row: Mapping[str, str], work: ModelWork) -> bool:
    """Whether a row trains a denoiser of video."""
    return work.modality == "diffusion" and train_words.image_size(word(row, "image_size"), word(row, "task")).frames > 1


def _setup(row: Mapping[str, str], work: ModelWork, device: ForwardDevice, stack: str) -> tuple[dict[str, float], tuple[str, ...]]:
    """Fields of TrainSetup."""
    flags, framework, text = word(row, "extra_flags"), word(row, "framework"), word(row, "precision")
    model = word(row, "model")
    if train_words.says("kohya", framework.lower()):
        flags = f"{flags};{_HABITS}"
    numbers = _flag_numbers(flags) | {name: value for name in ("nodes", "global_batch", "grad_accum") if (value := number(row, name))}
    method = train_words.method_fields(model, flags, word(row, "task"))
    taken: list[str] = []
    if _films(row, work) and not train_words.tells_recompute(flags):
        method["recompute"] = 1.0
        taken.append("gradient checkpointing not told: taken, as every trainer of video models does by default")
    adapters = "adapter_rank" in method or "trainable" in method
    convolutions = work.kind not in ("transformer", "dit", "recurrent", "recommender")
    precision, assumed = train_words.precision_of(
        text, has_tf32=device.tf32 > device.fp32, has_bf16=device.bf16 > 0, convolutions=convolutions or stack != "eager", adapters=adapters
    )
    stored = train_words.stored_of(text, flags) if adapters else "fp32"
    counter, counted = train_words.counter_of(flags, word(row, "counter"), stack)
    taken += [assumed] if assumed else []
    if counted and word(row, "metric") == MEMORY_METRIC:
        taken.append(counted)
    num_gpus = number(row, "n_gpus") or (numbers.get("nodes", 1.0) * _SOCKETS if device.silicon == "cpu" else 1.0)
    batch = number(row, "batch_per_gpu")
    if not batch:
        batch = numbers["global_batch"] / num_gpus if "global_batch" in numbers else usual_batch(work, row, num_gpus)
        if "global_batch" not in numbers:
            taken.append(f"batch not stated: {batch:g} per device taken")
    per_node = numbers.get("apn") or (num_gpus / numbers["nodes"] if numbers.get("nodes", 0) > 0 else 0.0)
    if "TPU" in device.name:
        per_node = min(num_gpus, _MESH_CHIPS)  # the chips of a slice are one mesh
    fields = {
        "batch": batch,
        "grad_accum": max(numbers.get("grad_accum", 1.0), 1.0) if "hifi" not in model else 1.0,
        "num_gpus": num_gpus,
        "gpus_per_node": per_node or min(num_gpus, 16.0 if "SXM3" in word(row, "gpu") else 8.0),
        "channels_last": float(train_words.channels_last(f"{flags} {framework}", precision) or stack == "tuned"),
        "optimizer_bytes": train_words.optimizer_bytes(flags, work.modality, work.kind, model),
        "pure": float(precision in ("fp16", "bf16") or train_words.says("pure_half", flags.lower())),
        "counter": counter,
        "image": float(work.modality in _VISION_TASKS and "synthetic" not in flags.lower()),
        "tables_split": num_gpus if work.tables * 4.0 > constants("training_work")["split_tables_bytes"] else 1.0,
    }
    fields |= method | train_words.codes(stack, precision, stored)
    diffusion = work.modality == "diffusion"
    fields |= train_words.cache_fields(framework, flags, stack) if diffusion else {"cached": 1.0}
    return fields, tuple(taken)


def _columns(cases: list[_TrainCase], index: list[int], refused: dict[int, str]) -> TrainCases:
    names = [field.name for field in dataclasses.fields(TrainSetup)]
    usual = {field.name: float(getattr(TrainSetup(), field.name)[0]) for field in dataclasses.fields(TrainSetup)}
    setup = TrainSetup(**{name: np.array([case.setup.get(name, usual[name]) for case in cases], dtype=np.float64) for name in names})
    works = tuple(case.work for case in cases)
    return TrainCases(
        index=np.array(index, dtype=np.intp),
        work=work_columns(works),
        setup=setup,
        device=device_columns([case.device for case in cases]),
        links=_links(cases),
        samples=np.array([case.samples for case in cases], dtype=np.float64),
        benchmark=np.array([float(case.benchmark) for case in cases]),
        has_device=np.array([case.has_device for case in cases], dtype=np.bool_),
        stated_bytes=np.array([case.stated_bytes for case in cases], dtype=np.float64),
        memory_doubts=np.array([float(case.memory_doubts) for case in cases]),
        unsure_counter=np.array([float(case.unsure_counter) for case in cases]),
        works=works,
        refused=refused,
        assumptions={position: case.assumptions for position, case in zip(index, cases, strict=True)},
    )


def _links(cases: list[_TrainCase]) -> LinkColumns:
    """The usual server of each device; a device that no server is known of is linked like a PCIe card."""
    known = facts.accelerators()
    names = [case.device.name if case.device.name in known else "A40" for case in cases]
    return default_links(
        names,
        num_gpus=np.array([case.setup["num_gpus"] for case in cases]),
        gpus_per_node=np.array([case.setup["gpus_per_node"] for case in cases]),
        notes=[case.notes for case in cases],
    )


def kind_names(cases: TrainCases) -> list[str]:
    """Kind of layers of every case."""
    return [KINDS[int(code)] for code in cases.work.kind]
