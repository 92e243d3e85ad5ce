"""Rows of the measured table of training that is not of language models, turned into the columns
that physics reads.

A row that cannot be told is refused with its reason; what was taken for granted is named. Every
spelling is read by words, never by source.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.convert import default_links
from rightfit.estimation.pass_records import ForwardDevice, ModelWork, NetworkInput, usual_optimizer_bytes
from rightfit.estimation.sample_figures import DURATION_METRIC, FIT_METRICS, SAMPLE_MEMORY_METRIC, VISION_METRICS, SamplesCases
from rightfit.estimation.sample_training import PRECISIONS, STACKS, STORED, TrainSetup, device_columns, work_columns
from rightfit.estimation.sample_work import train_work
from rightfit.facts import tables
from rightfit.facts.tables import constant_group, constants, meaning, meanings, shape
from rightfit.facts.trained_networks import data_set_samples, data_set_seconds
from rightfit.facts.trainers import sample_optimizer_bytes, sample_stack
from rightfit.physics.columns import LinkColumns, MemoryCounter
from rightfit.proof.case_columns import is_known_software
from rightfit.proof.cases.reader import RefusedRowError, forward_device, interconnect, number, read_rows, word
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES

TABLE = "training"  # of words
_FIGURES = constants("training_work")


def says(chosen: str, text: str) -> bool:
    """Whether a text holds a word of a list of training."""
    return tables.says(TABLE, chosen, text)


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
class SamplesRows:
    """The cases of the rows in `index`, what was assumed for each, and by position the reasons why
    the others are none."""

    cases: SamplesCases
    index: NDArray[np.intp]
    assumptions: tuple[tuple[str, ...], ...]
    refused: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class _Row:
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


def samples_cases(rows: Sequence[Mapping[str, str]]) -> SamplesRows:
    """Columns for the rows that can be told, reasons for the others."""
    return _columns(*read_rows(rows, _read))


_PARENTHESES = re.compile(r"\s*\(.*?\)")
_HABITS = "gradient_checkpointing;cached latents"  # kohya-ss/sd-scripts: every recipe of its documentation passes them
_MESH_CHIPS = 256.0
_SOCKETS = 2.0  # processors of a server whose row counts none
_FRAMES_OF_SAMPLE = _FIGURES["audio_frames"]
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
    if word(row, "metric") not in (SAMPLE_MEMORY_METRIC, *FIT_METRICS):
        raise RefusedRowError(f"device {text[:60]!r} is not known" if text else "the row names no device")
    known = forward_device(_STAND_IN)
    assert known is not None
    return known, False, ()


#: What a task is, by the first of these that its words hold, however they are joined; the words of
#: a data set or of nothing leave it to the name of the model.
_TASKS = (
    ("instance", "instance_segmentation"),
    ("panoptic", "panoptic"),
    ("keypoint", "keypoint"),
    ("segment", "segmentation"),
    ("detection3d", "detection3d"),
    ("3d_detection", "detection3d"),
    ("detect", "detection"),
    ("classif", "classification"),
    ("dreambooth", "diffusion_finetune"),
    ("image_gen", "diffusion"),
)
_EMPTY_TASKS = ("train", "training", "pretrain", "pretraining", "vision", "image", "images", "imagenet", "coco", "computer_vision")


def _task_of(text: str) -> str:
    """The task in the words of the tables."""
    words = re.sub(r"[\s\-/]+", "_", text.lower())
    return "" if words in _EMPTY_TASKS else next((task for part, task in _TASKS if part in words), words)


def _wish(row: Mapping[str, str], size: ImageSize) -> NetworkInput:
    library = found[0] if (found := shape(TABLE, "{detection_library}").search(word(row, "framework").lower())) else ""
    return NetworkInput(
        model=word(row, "model"),
        task=_task_of(word(row, "task")),
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


def _read(row: Mapping[str, str]) -> _Row:
    metric = word(row, "metric")
    if metric not in VISION_METRICS:
        raise RefusedRowError(f"metric {metric[:60]!r} is not predicted; the metrics are {', '.join(VISION_METRICS)}")
    if not word(row, "model"):
        raise RefusedRowError("the row names no model")
    if "reinforcement" in word(row, "task"):
        raise RefusedRowError("self-play of reinforcement learning is not predicted: most of its time is search and inference")
    flags, framework = word(row, "extra_flags"), word(row, "framework")
    size = image_size(word(row, "image_size"), word(row, "task"))
    work = train_work(_wish(row, size))
    if work.modality == "speech" and work.units == 1.0 and "20 ms" in word(row, "unit"):
        work = dataclasses.replace(work, units=_FRAMES_OF_SAMPLE)
    device, has_device, taken = _device(row)
    tuned = "submitter" in word(row, "precision") or "mlperf" in word(row, "dataset").lower()
    stack = "tuned" if tuned else sample_stack(framework, flags)
    if device.silicon == "other" and "TPU" in device.name:
        stack = "jax" if stack != "tuned" else stack
    if stack == "eager" and work.modality == "diffusion" and work.kind != "graph" and "finetune" in word(row, "task"):
        stack = "tuner"  # trainers around diffusers: much work of the host in each step
    setup, assumed = _setup(row, work, device, stack)
    assumptions = (*work.assumptions, *taken, *assumed)
    unsure = any(text.startswith(COUNTER_GUESSED) for text in assumed) and setup["counter"] > MemoryCounter.ALLOCATED
    memory_doubts = len(work.assumptions) + sum(not text.startswith(COUNTER_GUESSED) for text in assumed)
    total = setup["batch"] * setup["num_gpus"] * setup["grad_accum"]
    samples = run_samples(row, work, global_batch=total) if metric == DURATION_METRIC else np.nan
    if metric == DURATION_METRIC and not np.isfinite(samples):
        raise RefusedRowError("how much data the run took is not in the row, so the time to train cannot be told")
    stated = number(row, "gpu_mem_gib") * 2.0**30
    notes = f"{interconnect(row)} {flags} {framework} {word(row, 'gpu')}"
    return _Row(
        work, setup, device, has_device, stated, notes, samples, stack == "tuned", assumptions, memory_doubts, unsure
    )  # fmt: skip


def _films(row: Mapping[str, str], work: ModelWork) -> bool:
    """Whether a row trains a denoiser of video."""
    return work.modality == "diffusion" and image_size(word(row, "image_size"), word(row, "task")).frames > 1


def _setup(row: Mapping[str, str], work: ModelWork, device: ForwardDevice, stack: str) -> tuple[dict[str, float], tuple[str, ...]]:
    """Fields of TrainSetup."""
    flags, framework, text = word(row, "extra_flags"), word(row, "framework"), word(row, "precision")
    model = word(row, "model")
    if says("kohya", framework.lower()):
        flags = f"{flags};{_HABITS}"
    numbers = _flag_numbers(flags) | {name: value for name in ("nodes", "global_batch", "grad_accum") if (value := number(row, name))}
    method = method_fields(model, flags, word(row, "task"))
    taken: list[str] = []
    if _films(row, work) and not tells_recompute(flags):
        method["recompute"] = 1.0
        taken.append("gradient checkpointing not told: taken, as every trainer of video models does by default")
    adapters = "adapter_rank" in method or "trainable" in method
    convolutions = work.kind not in ("transformer", "dit", "recurrent", "recommender")
    precision, assumed = precision_of(
        text, has_tf32=device.tf32 > device.fp32, has_bf16=device.bf16 > 0, convolutions=convolutions or stack != "eager", adapters=adapters
    )
    stored = stored_of(text, flags) if adapters else "fp32"
    counter, counted = counter_of(flags, word(row, "counter"), stack)
    taken += [assumed] if assumed else []
    if counted and word(row, "metric") == SAMPLE_MEMORY_METRIC:
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
    pure = float(precision in ("fp16", "bf16") or says("pure_half", flags.lower()))
    fields = {
        "batch": batch,
        "grad_accum": max(numbers.get("grad_accum", 1.0), 1.0) if "hifi" not in model else 1.0,
        "num_gpus": num_gpus,
        "gpus_per_node": per_node or min(num_gpus, 16.0 if "SXM3" in word(row, "gpu") else 8.0),
        "channels_last": float(channels_last(f"{flags} {framework}", precision) or stack == "tuned"),
        "optimizer_bytes": optimizer_bytes(flags, work, model, in_half=bool(pure) and not adapters),
        "pure": pure,
        "counter": counter,
        "image": float(work.modality in _VISION_TASKS and "synthetic" not in flags.lower()),
        "tables_split": num_gpus if work.tables * 4.0 > _FIGURES["split_tables_bytes"] else 1.0,
    }
    fields |= method | {
        "software": float(STACKS.index(stack)),
        "precision": float(PRECISIONS.index(precision)),
        "stored": float(STORED.index(stored)),
    }
    diffusion = work.modality == "diffusion"
    fields |= cache_fields(framework, flags, stack) if diffusion else {"cached": 1.0}
    if diffusion and not is_known_software("samples", framework) and "adapter_rank" in method and not fields["cached"]:
        # as plans take it; SimpleTuner, sd-scripts, musubi-tuner, ai-toolkit and OneTrainer do so
        fields |= {"cached": 1.0, "beside_on_card": 0.0}
        taken.append("latents and text embeddings made beforehand, as trainers of adapters do by default: taken")
    return fields, tuple(taken)


def _columns(cases: list[_Row], index: list[int], refused: dict[int, str]) -> SamplesRows:
    names = [field.name for field in dataclasses.fields(TrainSetup)]
    usual = {field.name: float(getattr(TrainSetup(), field.name)[0]) for field in dataclasses.fields(TrainSetup)}
    works = tuple(case.work for case in cases)
    columns = SamplesCases(
        works=works,
        work=work_columns(works),
        setup=TrainSetup(**{name: np.array([case.setup.get(name, usual[name]) for case in cases], dtype=np.float64) for name in names}),
        device=device_columns([case.device for case in cases]),
        links=_links(cases),
        samples=np.array([case.samples for case in cases], dtype=np.float64),
        benchmark=np.array([float(case.benchmark) for case in cases]),
        has_device=np.array([case.has_device for case in cases], dtype=np.bool_),
        stated_bytes=np.array([case.stated_bytes for case in cases], dtype=np.float64),
        doubts=np.array([float(len(case.assumptions)) for case in cases]),
        memory_doubts=np.array([float(case.memory_doubts) for case in cases]),
        unsure_counter=np.array([float(case.unsure_counter) for case in cases]),
    )
    return SamplesRows(columns, np.array(index, dtype=np.intp), tuple(case.assumptions for case in cases), refused)


def _links(cases: list[_Row]) -> LinkColumns:
    """The usual server of each device; a device that no server is known of is
    linked like a PCIe card."""
    known = facts.accelerators()
    names = [case.device.name if case.device.name in known else "A40" for case in cases]
    return default_links(
        names,
        num_gpus=np.array([case.setup["num_gpus"] for case in cases]),
        gpus_per_node=np.array([case.setup["gpus_per_node"] for case in cases]),
        notes=[case.notes for case in cases],
    )


# words --------------------------------------------------------------------------------------------


class ImageSize(NamedTuple):
    """Mean height and width, frames, pixels of the largest input, and views of a self-supervised
    recipe as (side, count); 0 = not said."""

    height: float = 0.0
    width: float = 0.0
    frames: float = 0.0
    peak_pixels: float = 0.0
    views: tuple[tuple[float, float], ...] = ()


_TRIPLE = re.compile(r"(?<!\d)(\d{2,4})\s?x\s?(\d{2,4})\s?x\s?(\d{2,4})")
_PAIR = re.compile(r"(?<!\d)(\d{2,4})\s?[x\u00d7]\s?(\d{2,4})")
#: Sampling of a clip: frames of a clip x frames between them x clips ("frames
#: 8x8x1", "frames 1x1x16").
_CLIP = re.compile(r"frames?\s*(\d{1,3})x\d{1,3}x(\d{1,3})(?!\d)")
_VIEWS = re.compile(r"(?<![\dx])(\d{1,2})x(\d{2,3})(?=\+|$)")
_MEAN_ASPECT, _PADDED = _FIGURES["mean_aspect"], _FIGURES["padded"]


@functools.lru_cache(maxsize=4096)
def image_size(text: str, task: str = "") -> ImageSize:
    """Sizes in a cell."""
    words = text.lower()
    frames = float(found[1]) if (found := shape(TABLE, r"(\d{1,3})[ -]?{frame}\b", ignore_case=True).search(words)) else 0.0
    if clip := _CLIP.search(words):
        return _cropped_clip(words[: clip.start()], float(clip[1]) * float(clip[2]))
    if views := _VIEWS.findall(words):
        return ImageSize(float(views[0][1]), float(views[0][1]), views=tuple((float(side), float(count)) for count, side in views))
    if triple := _TRIPLE.search(words):
        first, second, third = (float(triple[i]) for i in (1, 2, 3))
        if first == second == third:
            return ImageSize(first, second, frames)
        return ImageSize(second, third, first, second * third)
    if "short" in words or ("multi" in words and "-" in words):
        return _short_side(words)
    if pair := _PAIR.search(words):
        return _pair(float(pair[1]), float(pair[2]), frames, task, words)
    if spread := shape(TABLE, r"(\d{2,4})\s?{range}\s?(\d{2,4})").search(words):
        low, high = float(spread[1]), float(spread[2])
        mean = ((low**2 + high**2) / 2.0) ** 0.5
        return ImageSize(mean, mean, frames, high**2)
    if single := re.search(r"(?<![\d.])(\d{2,4})(?![\d.])(?!\s?-?frame)", words):
        return ImageSize(float(single[1]), float(single[1]), frames)
    return ImageSize(frames=frames)


def _cropped_clip(stored: str, frames: float) -> ImageSize:
    """Videos whose clips are sampled: they are stored at one size and the network sees square crops
    of another, 112 of small ones and 224 of others (Tran et al. 2015; Wang et al. 2016;
    Feichtenhofer et al. 2019)."""
    sides = [float(value) for value in re.findall(r"\d{3}", stored)]
    small = "height" not in stored and sides and min(sides) < _FIGURES["small_video_side"]
    side = _FIGURES["small_video_crop" if small else "video_crop"]
    return ImageSize(side, side, frames, side * side)


def _pair(first: float, second: float, frames: float, task: str, words: str) -> ImageSize:
    """Two numbers: a limit that keeps the shape of photographs in detection (1333x800),
    else height and width."""
    long, short = max(first, second), min(first, second)
    photographs = _FIGURES["photo_aspect_least"] < long / short < _FIGURES["photo_aspect_most"] and short > _FIGURES["photo_short_least"]
    if task in ("detection", "instance_segmentation", "panoptic", "keypoint") and photographs and long >= 1000:
        mean = short * min(long, short * _MEAN_ASPECT)
        return ImageSize(short, mean / short, frames, long * short * _PADDED)
    return ImageSize(first, second, frames, first * second)


def _short_side(words: str) -> ImageSize:
    """Images scaled by their shorter side: '640-800 short side, max 1333', '800 short'."""
    numbers = [float(value) for value in re.findall(r"\d{3,4}", words)]
    longest = max(numbers) if len(numbers) > 1 and max(numbers) > 1000 else _FIGURES["longest_side"]
    sides = [value for value in numbers if value <= 1000] or [_FIGURES["short_side"]]
    mean = (sum(side**2 for side in sides) / len(sides)) ** 0.5
    return ImageSize(mean, mean * _MEAN_ASPECT, 0.0, max(sides) * longest * _PADDED)


def precision_of(text: str, *, has_tf32: bool, has_bf16: bool, convolutions: bool, adapters: bool) -> tuple[str, str]:
    """Arithmetic and what was assumed. PyTorch and TensorFlow run fp32 convolutions in TF32
    where the card has it."""
    words = text.lower()
    if "tf32" in words:
        return ("tf32" if has_tf32 else "fp32"), ""
    if says("low_bit", words):
        return "bf16", ""
    if says("half", words):
        if adapters and ("bf16" in words or "fp16" in words):  # trainers of adapters hold the frozen rest in either, at one speed
            return "bf16", ""
        return "amp", ""
    if "fp32" in words or "float32" in words or words == "32":
        return ("tf32" if has_tf32 and convolutions else "fp32"), ""
    del has_bf16
    return ("tf32" if has_tf32 and convolutions else "fp32"), "precision not stated: fp32 taken, as libraries do"


def stored_of(text: str, flags: str) -> str:
    """How frozen weights are held."""
    words = f"{text} {flags}".lower()
    if packed := meaning(TABLE, "stored", words):
        return packed
    return "fp32" if says("stored_whole", words) or not says("stored_half", words) else "half"


def channels_last(text: str, precision: str) -> bool:
    """Whether words say that images lie in memory with the channels last."""
    words = text.lower()
    if "nhwc_in_amp" in words:
        return precision == "amp"
    return says("channels_last", words)


def optimizer_bytes(flags: str, work: ModelWork, model: str, *, in_half: bool = False) -> float:
    """Bytes of optimizer states per parameter; the usual optimizer of the task
    where none is named. States are made like the weights (torch.optim, `zeros_like`): those of
    weights held `in_half` precision have two bytes each."""
    named = shape(TABLE, r"{optimizer_flag}[=:]\s*([\w-]+(?:[ (]+8-?bit)?)").search(flags.lower())
    if says("optimizer_offloaded", flags.lower()):
        return 0.0
    text = named[1] if named else flags if says("optimizer_said", flags.lower()) else ""
    size = sample_optimizer_bytes(text)
    size = usual_optimizer_bytes(work, model) if size is None else size
    return size / 2.0 if in_half and size >= FP32_BYTES else size


def tells_recompute(words: str) -> bool:
    """Whether words say anything about gradient checkpointing."""
    return says("recompute_told", words.lower())


def method_fields(model: str, flags: str, task: str) -> dict[str, float]:
    """Which parameters learn, recomputation, and what is cached or moved off the card."""
    words = f"{flags.lower()} {task.lower()} {model.lower()}"
    fields: dict[str, float] = {"recompute": float(says("checkpointed", words))}
    if found := re.search(r"checkpointing=(\w+)", words):
        fields["recompute"] = 0.0 if found[1] in ("none", "no", "off", "false") else 1.0
    if fields["recompute"] and "reduce-overhead" in words:
        fields["recompute"] = _FIGURES["graph_recompute"]
    if shape(TABLE, r"\b{adapter}\b").search(words) and not says("without_adapter", words):
        rank = re.search(r"rank[ =:]*(\d+)|\br(\d+)\b", words)
        fields["adapter_rank"] = float(next(g for g in rank.groups() if g)) if rank else _FIGURES["usual_rank"]
        if says("kronecker", words):
            fields["adapter_rank"] = (
                min(fields["adapter_rank"], _FIGURES["kronecker_rank"]) * _FIGURES["kronecker_share"]
            )  # a Kronecker product of small factors
    elif re.search(r"textual.?inversion", words):
        fields["trainable"] = _FIGURES["inverted_params"]
    elif "controlnet" in words:
        fields["trainable"] = _FIGURES["controlnet_params"]
    elif re.search(r"linear.?prob", words):
        fields["trainable"] = _FIGURES["probed_params"]
    return fields


def cache_fields(framework: str, flags: str, stack: str) -> dict[str, float]:
    """Whether latents and text embeddings are made beforehand, and whether
    encoders stay on the card."""
    words = f"{framework} {flags}".lower()
    offload = _FIGURES["offloaded"] if says("offloaded", words) else 0.0
    if "ramtorch" in words:
        offload = _FIGURES["streamed"]  # every block's weights lie in host memory
    if swapped := re.search(r"blocks?.{0,4}swap=(\d+)", words):
        offload = min(float(swapped[1]) / _FIGURES["swappable_blocks"], _FIGURES["most_swapped"])
    cached = says("cached", words) or stack == "tuned"
    return {
        "cached": float(cached),
        "beside_on_card": float(not cached),
        "offload": offload,
        "ema": float(bool(re.search(r"\bema\b", words))),
    }


#: How the assumption begins that says what counted the memory where the row does not.
COUNTER_GUESSED = "memory counter not stated"


def counter_of(flags: str, counter: str, stack: str) -> tuple[float, str]:
    """What counted the memory, and what was assumed."""
    words = f"{flags} {counter}".lower()
    if "reserved" in words:
        return float(MemoryCounter.RESERVED), ""
    if says("driver_counted", words):
        return float(MemoryCounter.DRIVER), ""
    if says("allocator_counted", words) or stack == "library":
        return float(MemoryCounter.ALLOCATED), ""
    if says("peak_counted", words):
        return float(MemoryCounter.ALLOCATED), f"{COUNTER_GUESSED}: the peak that torch counts taken"
    if "requirement" in words or "approximate" in words:
        return float(MemoryCounter.DRIVER), f"{COUNTER_GUESSED}: the driver's view taken"
    return float(MemoryCounter.RESERVED), f"{COUNTER_GUESSED}: reserved memory taken"


# runs ---------------------------------------------------------------------------------------------


#: Mean seconds of audio per sample are in the models' work; fine-tuning of speech usually
#: runs 15-30 epochs.
_USUAL_EPOCHS = constant_group("training_work", "usual_epochs")


@functools.cache
def _points(model: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    rows = sorted((float(row["global_batch"]), float(row["samples"])) for row in facts.table("train_convergence") if row["model"] == model)
    return tuple(math.log(batch) for batch, _ in rows), tuple(math.log(samples) for _, samples in rows)


def benchmark_samples(model: str, *, global_batch: float) -> float:
    """Samples to MLPerf's target by model and global batch, from its reference convergence points;
    NaN where it is no benchmark."""
    name = next((name for words, name in meanings(TABLE, "benchmark", ignore_case=True) if words.fullmatch(model)), "")
    batches, samples = _points(name) if name else ((), ())
    if not batches or global_batch <= 0:
        return math.nan
    return math.exp(float(np.interp(math.log(global_batch), batches, samples)))


def epoch_samples(text: str) -> float:
    """Samples of the data set that `text` names; 0 where it names none."""
    return data_set_samples(meaning(TABLE, "epoch_data", text, ignore_case=True))


def audio_seconds(text: str) -> float:
    """Mean seconds of an utterance of the data set that `text` names; 0 where it names none."""
    return data_set_seconds(meaning(TABLE, "spoken_data", text, ignore_case=True))


def _flag(text: str, name: str) -> float:
    found = re.search(rf"(?<![a-z_]){name}s?[ =:]+(\d+(?:\.\d+)?)|(?<![\d.])(\d+) {name}s?\b", text, re.IGNORECASE)
    return float(found[1] or found[2]) if found else 0.0


def run_samples(row: Mapping[str, str], work: ModelWork, *, global_batch: float) -> float:
    """Samples of the run that a row times: steps x batch, epochs x data set, or the benchmark's;
    NaN where nothing tells."""
    flags, model = word(row, "extra_flags"), word(row, "model")
    if steps := number(row, "steps") or _flag(flags, "step"):
        return steps * global_batch
    if (stated := word(row, "dataset")) and not number(row, "samples") and not epoch_samples(stated) and "mlperf" not in stated.lower():
        return math.nan  # a data set that nobody knows is not the usual one
    named = number(row, "samples") or epoch_samples(f"{word(row, 'dataset')} {flags} {model} {word(row, 'task')}")
    size = named or work.epoch_samples
    if epochs := number(row, "epochs") or _flag(flags, "epoch") or _flag(model, "epoch"):
        return epochs * size if size else math.nan
    benchmark = f"{word(row, 'dataset')} {word(row, 'framework')} {word(row, 'precision')}".lower()
    if "mlperf" in benchmark or "submitter" in benchmark:
        return benchmark_samples(model, global_batch=global_batch)
    if tables.says(TABLE, "fine_tuned", f"{flags} {model} {word(row, 'task')}", ignore_case=True):
        return math.nan  # fine-tunes run as long as their author likes
    epochs = work.epochs or _USUAL_EPOCHS.get(work.modality, 0.0)
    return epochs * size if epochs and size else math.nan


_USUAL_BATCH = constant_group("training_work", "usual_batch")


def usual_batch(work: ModelWork, row: Mapping[str, str], num_gpus: float) -> float:
    """Samples per device where a row states none: what recipes of the task take."""
    if work.modality == "gan" and "style" in work.name.lower():
        side = float(re.sub(r"\D", "", word(row, "image_size"))[:4] or 1024)
        whole = num_gpus * min(_FIGURES["style_batch_pixels"] / side, _FIGURES["style_batch_per_gpu"])
        return max(min(whole, _FIGURES["style_batch_most"]), num_gpus) / num_gpus
    return _USUAL_BATCH.get(work.modality, _FIGURES["usual_batch_other"])
