"""What the free words of a measured row mean: engine, arithmetic, sizes, steps."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

from rightfit.estimate.forward_models import Wish, first_match

ENGINES = (
    "eager",
    "eager_script",
    "compiled",
    "tensorrt",
    "fused",
    "onnxruntime",
    "openvino",
    "tensorflow",
    "tensorflow_xla",
    "mxnet",
    "paddle",
    "ctranslate2",
    "ggml",
    "webui",
    "neuron",
)
DTYPES = ("fp32", "tf32", "fp16", "amp", "bf16", "int8", "fp8")
SCENARIOS = ("batch", "offline", "server", "single")

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class Batch(NamedTuple):
    """Inputs that run together (0 = the engine chose) and how the load came."""

    size: float
    scenario: str


@functools.lru_cache(maxsize=4096)
def engine_of(text: str, notes: str, device: str) -> str:
    """Engine class of a row from its engine, notes and device; the notes name the engine only where its own cell is empty."""
    if re.search(r"inferentia|trainium", device, re.IGNORECASE):
        return "neuron"
    row = first_match("forward_engines", text or notes)
    engine = row["engine"] if row else "eager"
    lowered = f"{text} {notes}".lower()
    if engine == "tensorflow" and re.search(r"\bxla\b", lowered):
        return "tensorflow_xla"
    if engine in ("eager", "eager_script") and re.search(r"torch\.?compile|cuda ?graph|inductor", lowered):
        return "compiled"
    return engine


_DTYPE_WORDS = (
    (re.compile(r"int8|\bi8\b|w8a8|qdq|ptq|\bq8\b|u8s8"), "int8"),
    (re.compile(r"fp8|float8|e4m3|e5m2|fp4|mxfp"), "fp8"),
    (re.compile(r"tf32|tensorfloat"), "tf32"),
    (re.compile(r"bf16|bfloat16|brain"), "bf16"),
    (re.compile(r"fp16|float16|\bf16\b|half|fp 16"), "fp16"),
    (re.compile(r"fp32|float32|\bf32\b|single|full precision|^float$|fp 32"), "fp32"),
)


def dtype_of(text: str, notes: str) -> str:
    """Arithmetic of the matrix products; empty where nothing is said."""
    lowered = text.lower()
    if lowered == "fp32" and "mlperf" in notes.lower() and "closed" in notes.lower():
        return "int8"  # closed submissions through TensorRT are quantised; the field of the result file says otherwise
    if "autocast matmult-bf16" in notes.lower():
        return "bf16"
    if "amp" in lowered or "mixed" in lowered:
        return "amp"
    found = next((dtype for word, dtype in _DTYPE_WORDS if word.search(lowered)), "")
    return found or ("fp16" if lowered.strip() else "")  # 4-bit weights and the like are multiplied in fp16


def number(text: str) -> float:
    """The first number in `text`, 0 when there is none."""
    found = _NUMBER.search(text)
    return float(found[0]) if found else 0.0


def batch_of(row: Mapping[str, str]) -> Batch:
    """Batch and scenario of a row; a rate without a batch is an open load."""
    text, rate, notes = (row.get(name, "").lower() for name in ("batch_or_concurrency", "request_rate", "notes"))
    scenario = f"{text} {'' if number(text) else notes}"
    if "slo" in rate or re.search(r"\bserver\b", scenario):
        return Batch(0.0, "server")
    if re.search(r"single.?stream|\bsync\b", scenario):
        return Batch(1.0, "single")
    if re.search(r"multi.?stream", scenario):
        return Batch(_MULTISTREAM, "single")
    if re.search(r"offline|\bmax", text) or rate == "inf":
        return Batch(0.0, "offline")
    size = number(text) or _found(_BATCH, notes)
    if size:
        return Batch(size, "single" if "stream" in notes else "batch")
    return Batch(0.0 if row.get("metric", "").endswith("per_s") else 1.0, "offline")


_MULTISTREAM = 8.0  # samples of one query of MLPerf's multi-stream scenario
_BATCH = re.compile(r"\b(?:batch(?:[ _-]?size)?|bs)[ =:]*(\d+)", re.IGNORECASE)
_PIXELS = re.compile(
    r"(?<![\d.])(\d{2,4})\s?(?:px|pix)|(?:input|image|img|resolution|\bres|crop)[ _]?(?:size|sz)?[ =:]+(\d{2,4})\b(?!\s?x)|imgsz[ =:]*(\d{2,4})\b",
    re.IGNORECASE,
)
_SIZES = re.compile(r"(?<![\w.])(\d{2,4})\s?[x\u00d7]\s?(\d{2,4})(?:\s?[x\u00d7]\s?(\d{1,4}))?(?![\d_])")
_LINES = re.compile(r"(?<![\w.])(\d{3,4})p\b", re.IGNORECASE)
_PER_STEP = re.compile(r"per (?:denoising )?(?:step|iteration)|ms/(?:step|it)", re.IGNORECASE)
_STEPS = re.compile(r"(\d{1,3})[ -](?:denoising |inference |sampling )?steps?\b|steps?[ =:]+(\d{1,3})\b", re.IGNORECASE)
_FRAMES = re.compile(r"(\d{1,3})[ -]?frames?\b|frames?[ =:]+(\d{1,3})\b", re.IGNORECASE)
_AUDIO = re.compile(
    r"(\d+(?:\.\d+)?)[ -]?(hours?|h|minutes?|mins?|m|seconds?|secs?|s)\b[^;,]*(?:audio|speech|file)|audio[^;,]*?(\d+(?:\.\d+)?)[ -]?(hours?|minutes?|mins?|seconds?|s)\b",
    re.IGNORECASE,
)
_MACS = re.compile(r"(\d+(?:\.\d+)?)\s?gmacs", re.IGNORECASE)
_ACTIVATIONS = re.compile(r"(\d+(?:\.\d+)?)\s?m activations", re.IGNORECASE)
_MEMORY = re.compile(r"memory length[ =:]*([\d,]+)", re.IGNORECASE)
_BEAMS = re.compile(r"beam(?:s| size)?[ =:]*(\d+)", re.IGNORECASE)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}


def _found(pattern: re.Pattern[str], text: str) -> float:
    match = pattern.search(text)
    if not match:
        return 0.0
    return float(next(group for group in match.groups() if group).replace(",", ""))


def _audio_seconds(text: str) -> float:
    match = _AUDIO.search(text)
    if not match:
        return 0.0
    value, unit = (match[1], match[2]) if match[1] else (match[3], match[4])
    return float(value) * _UNITS[unit[0].lower()]


def _image(text: str) -> tuple[float, float, float]:
    """Height, width, frames; zeros where the text names none. A third small number after two sizes is channels, not frames."""
    frames = _found(_FRAMES, text)
    if pixels := _found(_PIXELS, text):
        return pixels, pixels, frames
    if lines := _found(_LINES, text):
        return lines, lines * 16.0 / 9.0, frames
    if size := _SIZES.search(text):
        first, second, third = float(size[1]), float(size[2]), float(size[3] or 0)
        if third > 99 and first < 99:
            return second, third, first
        return first, second, frames or (third if third > 4 and third != first else 0.0)
    return 0.0, 0.0, frames


@functools.lru_cache(maxsize=16384)
def wish_of(model: str, params_b: str, input_tokens: str, output_tokens: str, notes: str, metric: str) -> Wish:
    """The input of a row as far as its cells and notes tell."""
    height, width, frames = _image(notes)
    if "dimension=3" in notes.lower():
        height, width, frames = 0.0, 0.0, 0.0
    tokens = number(input_tokens)
    if "mlperf" in notes.lower() and "bert" in model.lower():
        tokens = _MLPERF_TOKENS
    return Wish(
        model=model,
        params=number(params_b) * 1e9,
        height=height,
        width=width,
        frames=frames,
        tokens=tokens,
        output_tokens=number(output_tokens),
        memory_tokens=_found(_MEMORY, notes),
        steps=_found(_STEPS, notes),
        audio_s=_audio_seconds(notes),
        beams=_found(_BEAMS, notes) or 1.0,
        macs=_found(_MACS, notes) * 1e9,
        activations=_found(_ACTIVATIONS, notes) * 1e6,
        language_head="maskedlm" in notes.lower().replace("for", ""),
        denoise_only=metric == "denoise_steps_per_s" or bool(_PER_STEP.search(notes)),
    )


_MLPERF_TOKENS = 180.0  # mean tokens of a SQuAD question with its paragraph; engines of MLPerf submissions skip the padding
