"""What the free words of a row on training (not of language models) mean: sizes, precision, software, method, optimizer, memory counter."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

from rightfit.estimate.vision_training import PRECISIONS, STACKS, STORED
from rightfit.facts import word_tables
from rightfit.facts.constants import constants
from rightfit.facts.word_tables import meaning, shape
from rightfit.physics.columns import MemoryCounter


class ImageSize(NamedTuple):
    """Mean height and width, frames, pixels of the largest input, and views of a self-supervised recipe as (side, count); 0 = not said."""

    height: float = 0.0
    width: float = 0.0
    frames: float = 0.0
    peak_pixels: float = 0.0
    views: tuple[tuple[float, float], ...] = ()


TABLE = "training"  # of words


def says(chosen: str, text: str) -> bool:
    """Whether a text holds a word of a list of training."""
    return word_tables.says(TABLE, chosen, text)


_TRIPLE = re.compile(r"(?<!\d)(\d{2,4})\s?x\s?(\d{2,4})\s?x\s?(\d{2,4})")
_PAIR = re.compile(r"(?<!\d)(\d{2,4})\s?[x\u00d7]\s?(\d{2,4})")
#: Sampling of a clip: frames of a clip x frames between them x clips ("frames 8x8x1", "frames 1x1x16").
_CLIP = re.compile(r"frames?\s*(\d{1,3})x\d{1,3}x(\d{1,3})(?!\d)")
_VIEWS = re.compile(r"(?<![\dx])(\d{1,2})x(\d{2,3})(?=\+|$)")
_FIGURES = constants("training_work")
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
    """Videos whose clips are sampled: they are stored at one size and the network sees square crops of another, 112 of small ones and 224 of others (Tran
    et al. 2015; Wang et al. 2016; Feichtenhofer et al. 2019)."""
    sides = [float(value) for value in re.findall(r"\d{3}", stored)]
    small = "height" not in stored and sides and min(sides) < _FIGURES["small_video_side"]
    side = _FIGURES["small_video_crop" if small else "video_crop"]
    return ImageSize(side, side, frames, side * side)


def _pair(first: float, second: float, frames: float, task: str, words: str) -> ImageSize:
    """Two numbers: a limit that keeps the shape of photographs in detection (1333x800), else height and width."""
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


class Words(NamedTuple):
    """Codes of TrainSetup that words decide, and what was assumed."""

    fields: Mapping[str, float]
    assumptions: tuple[str, ...]


def stack_of(framework: str, precision: str, flags: str, dataset: str = "") -> str:
    """Class of software."""
    words, flag = framework.lower(), flags.lower()
    if "submitter" in precision or "mlperf" in words or "mlperf" in dataset.lower():
        return "tuned"
    if says("compiled", f"{flag} ; {words}"):
        return "compiled"
    if says("jax", words):
        return "jax"
    if "mxnet" in words:
        return "mxnet"
    if "paddle" in words:
        return "paddle"
    if "tensorflow" in words or says("tensorflow", words):
        return "xla" if shape(TABLE, r"\bxla(?!=?(?:-| )?{off}|=xla-off)").search(flag) else "tensorflow"
    if says("nvidia_stack", words):
        return "ngc"
    if says("library", words):
        return "library"
    return "eager"


def precision_of(text: str, *, has_tf32: bool, has_bf16: bool, convolutions: bool, adapters: bool) -> tuple[str, str]:
    """Arithmetic and what was assumed. PyTorch and TensorFlow run fp32 convolutions in TF32 where the card has it."""
    words = text.lower()
    if "tf32" in words:
        return ("tf32" if has_tf32 else "fp32"), ""
    if says("low_bit", words):
        return "bf16", ""
    if says("half", words):
        if adapters and "bf16" in words:
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


def optimizer_bytes(flags: str, modality: str, kind: str, model: str) -> float:
    """Bytes of optimizer states per parameter; the usual optimizer of the task where none is named."""
    named = shape(TABLE, r"{optimizer_flag}[=:]\s*([\w-]+(?:[ (]+8-?bit)?)").search(flags.lower())
    if says("optimizer_offloaded", flags.lower()):
        return 0.0
    text = named[1] if named else flags.lower() if says("optimizer_said", flags.lower()) else ""
    if size := meaning(TABLE, "optimizer", text):
        return float(size)
    if modality in ("diffusion", "speech", "contrastive", "gan", "graph", "time-series", "text", "self-supervised"):
        return _FIGURES["attention_optimizer_bytes"]
    if kind in ("window", "transformer", "convnext") or says("attention_model", model.lower()):
        return _FIGURES["attention_optimizer_bytes"]
    return 0.0 if modality == "recommendation" else _FIGURES["momentum_bytes"]


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
    """Whether latents and text embeddings are made beforehand, and whether encoders stay on the card."""
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


def codes(stack: str, precision: str, stored: str) -> dict[str, float]:
    """Positions in STACKS, PRECISIONS and STORED."""
    return {"software": float(STACKS.index(stack)), "precision": float(PRECISIONS.index(precision)), "stored": float(STORED.index(stored))}
