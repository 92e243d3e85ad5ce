"""What the free words of a row on training (not of language models) mean: sizes, precision, software, method, optimizer, memory counter."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

from rightfit.estimate.vision_training import PRECISIONS, STACKS, STORED
from rightfit.physics.columns import MemoryCounter


class ImageSize(NamedTuple):
    """Mean height and width, frames, pixels of the largest input, and views of a self-supervised recipe as (side, count); 0 = not said."""

    height: float = 0.0
    width: float = 0.0
    frames: float = 0.0
    peak_pixels: float = 0.0
    views: tuple[tuple[float, float], ...] = ()


_TRIPLE = re.compile(r"(?<!\d)(\d{2,4})\s?x\s?(\d{2,4})\s?x\s?(\d{2,4})")
_PAIR = re.compile(r"(?<!\d)(\d{2,4})\s?[x\u00d7]\s?(\d{2,4})")
_FRAMES = re.compile(r"(\d{1,3})[ -]?(?:frames?|f)\b", re.IGNORECASE)
_VIEWS = re.compile(r"(?<![\dx])(\d{1,2})x(\d{2,3})(?=\+|$)")
_RANGE = re.compile(r"(\d{2,4})\s?(?:-|->|to|\u2192)\s?(\d{2,4})")
_MEAN_ASPECT = 1.33  # of photographs
_PADDED = 1.01  # to a multiple of 32


@functools.lru_cache(maxsize=4096)
def image_size(text: str, task: str = "") -> ImageSize:
    """Sizes in a cell."""
    words = text.lower()
    frames = float(found[1]) if (found := _FRAMES.search(words)) else 0.0
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
    if spread := _RANGE.search(words):
        low, high = float(spread[1]), float(spread[2])
        mean = ((low**2 + high**2) / 2.0) ** 0.5
        return ImageSize(mean, mean, frames, high**2)
    if single := re.search(r"(?<![\d.])(\d{2,4})(?![\d.])(?!\s?-?frame)", words):
        return ImageSize(float(single[1]), float(single[1]), frames)
    return ImageSize(frames=frames)


def _pair(first: float, second: float, frames: float, task: str, words: str) -> ImageSize:
    """Two numbers: a limit that keeps the shape of photographs in detection (1333x800), else height and width."""
    long, short = max(first, second), min(first, second)
    if task in ("detection", "instance_segmentation", "panoptic", "keypoint") and 1.4 < long / short < 2.3 and long >= 1000 and short > 450:
        mean = short * min(long, short * _MEAN_ASPECT)
        return ImageSize(short, mean / short, frames, long * short * _PADDED)
    return ImageSize(first, second, frames, first * second)


def _short_side(words: str) -> ImageSize:
    """Images scaled by their shorter side: '640-800 short side, max 1333', '800 short'."""
    numbers = [float(value) for value in re.findall(r"\d{3,4}", words)]
    longest = max(numbers) if len(numbers) > 1 and max(numbers) > 1000 else 1333.0
    sides = [value for value in numbers if value <= 1000] or [800.0]
    mean = (sum(side**2 for side in sides) / len(sides)) ** 0.5
    return ImageSize(mean, mean * _MEAN_ASPECT, 0.0, max(sides) * longest * _PADDED)


class Words(NamedTuple):
    """Codes of TrainSetup that words decide, and what was assumed."""

    fields: Mapping[str, float]
    assumptions: tuple[str, ...]


def stack_of(framework: str, precision: str, flags: str, source: str) -> str:
    """Class of software."""
    words, flag = framework.lower(), flags.lower()
    if "submitter" in precision or "mlperf" in words or "mlperf" in source.lower() or "training_results" in source.lower():
        return "tuned"
    if "compile" in flag or "compile" in words or "inductor" in flag:
        return "compiled"
    if re.search(r"jax|flax|tpu|xla", words):
        return "jax"
    if "mxnet" in words:
        return "mxnet"
    if "paddle" in words:
        return "paddle"
    if "tensorflow" in words or re.search(r"\btf[12]?\b|keras", words):
        return "xla" if re.search(r"\bxla(?!=?(?:-| )?(?:no|off|false|0)|=xla-off)", flag) else "tensorflow"
    if re.search(r"ngc|nvidia|dgx|hugectr", words):
        return "ngc"
    if re.search(r"detectron|mmdet|mmseg|mmcv|openmmlab|mmaction|mmpose|mm[a-z]+3d|simpledet|benchmark", words):
        return "library"
    return "eager"


_HALF = re.compile(r"amp|mixed|fp16|float16|half|bf16|bfloat16|autocast")


def precision_of(text: str, *, has_tf32: bool, has_bf16: bool, convolutions: bool, adapters: bool) -> tuple[str, str]:
    """Arithmetic and what was assumed. PyTorch and TensorFlow run fp32 convolutions in TF32 where the card has it."""
    words = text.lower()
    if "tf32" in words:
        return ("tf32" if has_tf32 else "fp32"), ""
    if re.search(r"int8|int4|int2|nf4|fp8|4-?bit|8-?bit", words):
        return "bf16", ""
    if _HALF.search(words):
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
    for pattern, name in (
        (r"nf4|4-?bit|int4", "nf4"),
        (r"int2|2-?bit", "int2"),
        (r"fp8wo|fp8 base", "fp8wo"),
        (r"fp8", "fp8"),
        (r"int8", "int8"),
    ):
        if re.search(pattern, words):
            return name
    return (
        "fp32"
        if re.search(r"base=(no|fp32)|^\s*(fp32|not stated|unknown)|^\s*$", words) or not re.search(r"fp16|bf16|half|amp|mixed|16", words)
        else "half"
    )


def channels_last(text: str, precision: str) -> bool:
    """Whether words say that images lie in memory with the channels last."""
    words = text.lower()
    if "nhwc_in_amp" in words:
        return precision == "amp"
    return bool(re.search(r"nhwc|channels.?last|ffcv", words))


_OPTIMIZERS = (
    (r"8.?bit|adam8|lion8|paged", 2.0),
    (r"adamw_bf16|adamw-bf16|stableadamw|bf16", 4.0),
    (r"optimi-lion|lion", 2.0),
    (r"adafactor|came|sm3", 0.5),
    (r"adam|lamb|novograd|rmsprop", 8.0),
    (r"sgd|momentum|lars", 4.0),
)


def optimizer_bytes(flags: str, modality: str, kind: str, model: str) -> float:
    """Bytes of optimizer states per parameter; the usual optimizer of the task where none is named."""
    named = re.search(r"(?:opt|optimizer|optim)=([\w-]+)", flags.lower())
    text = named[1] if named else flags.lower() if re.search(r"8.?bit adam|adam\w*8.?bit|adafactor|\bsgd\b|lion", flags.lower()) else ""
    if text:
        for pattern, size in _OPTIMIZERS:
            if re.search(pattern, text):
                return size
    if modality in ("diffusion", "speech", "contrastive", "gan", "graph", "time-series", "text", "self-supervised"):
        return 8.0
    if kind in ("window", "transformer", "convnext") or re.search(r"detr|mask2former|segformer|vit|swin", model.lower()):
        return 8.0
    return 0.0 if modality == "recommendation" else 4.0


_ADAPTERS = re.compile(r"\b(?:lora|lokr|loha|locon|lycoris|dora|adapter|qlora)\b")
_CHECKPOINTED = re.compile(
    r"checkpointing(?!=none|=no|=false|=off)|recompute(?!=none)|grad_?ckpt|\bckpt\b|with_cp|checkpoint=(?:layer|full|block)"
)


def tells_recompute(words: str) -> bool:
    """Whether words say anything about gradient checkpointing."""
    return bool(re.search(r"checkpoint|recompute|grad_?ckpt|with_cp", words.lower()))


_OFFLOADED = 0.85  # share of the weights that offloading leaves in host memory
_STREAMED = 0.97
_SWAPPABLE = 35.0  # blocks that sd-scripts can swap at most (docs/flux_train_network.md)
_GRAPH_RECOMPUTE = 0.4  # CUDA graphs keep the pools that recomputation would free (two published pairs of one model)
_USUAL_RANK = 16.0
_INVERTED = 768.0 * 4


def method_fields(model: str, flags: str, task: str) -> dict[str, float]:
    """Which parameters learn, recomputation, and what is cached or moved off the card."""
    words = f"{flags.lower()} {task.lower()} {model.lower()}"
    fields: dict[str, float] = {"recompute": float(bool(_CHECKPOINTED.search(words)))}
    if found := re.search(r"checkpointing=(\w+)", words):
        fields["recompute"] = 0.0 if found[1] in ("none", "no", "off", "false") else 1.0
    if fields["recompute"] and "reduce-overhead" in words:
        fields["recompute"] = _GRAPH_RECOMPUTE
    if _ADAPTERS.search(words) and not re.search(r"without lora|no lora", words):
        rank = re.search(r"rank[ =:]*(\d+)|\br(\d+)\b", words)
        fields["adapter_rank"] = float(next(g for g in rank.groups() if g)) if rank else _USUAL_RANK
        if re.search(r"lokr|loha", words):
            fields["adapter_rank"] = min(fields["adapter_rank"], 16.0) * 0.5  # a Kronecker product of small factors
    elif re.search(r"textual.?inversion", words):
        fields["trainable"] = _INVERTED
    elif "controlnet" in words:
        fields["trainable"] = 3.61e8
    elif re.search(r"linear.?prob", words):
        fields["trainable"] = 7.7e5
    return fields


def cache_fields(framework: str, flags: str, stack: str) -> dict[str, float]:
    """Whether latents and text embeddings are made beforehand, and whether encoders stay on the card."""
    words = f"{framework} {flags}".lower()
    offload = _OFFLOADED if re.search(r"ramtorch|blocks?.{0,4}swap|cpu.?offload|offload(?!=none)|low.?vram", words) else 0.0
    if "ramtorch" in words:
        offload = _STREAMED  # every block's weights lie in host memory
    if swapped := re.search(r"blocks?.{0,4}swap=(\d+)", words):
        offload = min(float(swapped[1]) / _SWAPPABLE, 0.95)
    cached = bool(re.search(r"simpletuner|precomput|cached|cache.?latent|finetrainers|kohya", words)) or stack == "tuned"
    return {
        "cached": float(cached),
        "beside_on_card": float(not cached),
        "offload": offload,
        "ema": float(bool(re.search(r"\bema\b", words))),
    }


#: How the assumption begins that says what counted the memory where the row does not.
COUNTER_GUESSED = "memory counter not stated"


def counter_of(flags: str, notes: str, stack: str, source: str) -> tuple[float, str]:
    """What counted the memory, and what was assumed."""
    words = f"{flags} {notes}".lower()
    if "reserved" in words:
        return float(MemoryCounter.RESERVED), ""
    if "nvidia-smi" in words or "cpu memory (whole job)" in words:
        return float(MemoryCounter.DRIVER), ""
    if "allocated" in words or stack == "library":
        return float(MemoryCounter.ALLOCATED), ""
    if re.search(r"peak (?:vram|memory)", words):
        return float(MemoryCounter.ALLOCATED), f"{COUNTER_GUESSED}: the peak that torch counts taken"
    if "requirement" in words or "approximate" in words:
        return float(MemoryCounter.DRIVER), f"{COUNTER_GUESSED}: the driver's view taken"
    return float(MemoryCounter.RESERVED), f"{COUNTER_GUESSED}: reserved memory taken"


def codes(stack: str, precision: str, stored: str) -> dict[str, float]:
    """Positions in STACKS, PRECISIONS and STORED."""
    return {"software": float(STACKS.index(stack)), "precision": float(PRECISIONS.index(precision)), "stored": float(STORED.index(stored))}
