"""What the free words of a measured row mean: engine, arithmetic, sizes, steps."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

from rightfit.estimate.forward_records import ForwardWish
from rightfit.estimate.pattern_tables import first_match
from rightfit.facts.word_tables import meaning, says, shape

TABLE = "forward"  # of words
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
def engine_of(text: str, flags: str, device: str) -> str:
    """Engine class of a row from its engine, flags and device; the flags name the engine only where its own cell is empty."""
    if says(TABLE, "neuron", device, ignore_case=True):
        return "neuron"
    row = first_match("forward_engines", text or flags)
    engine = row["engine"] if row else "eager"
    lowered = f"{text} {flags}".lower()
    if engine == "tensorflow" and re.search(r"\bxla\b", lowered):
        return "tensorflow_xla"
    if engine in ("eager", "eager_script") and says(TABLE, "compiled", lowered):
        return "compiled"
    return engine


def dtype_of(text: str, computed: str = "") -> str:
    """Arithmetic of the matrix products: that which a row says it computes in, else that of its weights; empty where nothing is said."""
    lowered = (computed or text).lower()
    if "amp" in lowered or "mixed" in lowered:
        return "amp"
    return meaning(TABLE, "dtype", lowered) or ("fp16" if lowered.strip() else "")  # 4-bit weights and the like are multiplied in fp16


def number(text: str) -> float:
    """The first number in `text`, 0 when there is none."""
    found = _NUMBER.search(text)
    return float(found[0]) if found else 0.0


def batch_of(row: Mapping[str, str]) -> Batch:
    """Batch and scenario of a row; a rate without a batch is an open load."""
    text, rate, arrival = (row.get(name, "").strip().lower() for name in ("batch_or_concurrency", "request_rate", "arrival"))
    if "slo" in rate or re.search(r"\bserver\b", text) or (arrival == "open" and not number(text)):
        return Batch(0.0, "server")
    if says(TABLE, "one_stream", text):
        return Batch(1.0, "single")
    if re.search(r"multi.?stream", text):
        return Batch(_MULTISTREAM, "single")
    if says(TABLE, "offline", text) or rate == "inf":
        return Batch(0.0, "offline")
    size = number(text)
    if size or arrival == "single":
        return Batch(size or 1.0, "single" if arrival == "single" else "batch")
    return Batch(0.0 if row.get("metric", "").endswith("per_s") else 1.0, "offline")


_MULTISTREAM = 8.0  # samples of one query of MLPerf's multi-stream scenario
_PIXELS = r"(?<![\d.])(\d{2,4})\s?{pixel}|{side_name}[ _]?{size_name}?[ =:]+(\d{2,4})\b(?!\s?x)|imgsz[ =:]*(\d{2,4})\b"
_SIZES = re.compile(r"(?<![\w.])(\d{2,4})\s?[x\u00d7]\s?(\d{2,4})(?:\s?[x\u00d7]\s?(\d{1,4}))?(?![\d_])")
_LINES = r"(?<![\w.])(\d{3,4})p\b"
_FRAMES = r"(\d{1,3})[ -]?frames?\b|frames?[ =:]+(\d{1,3})\b"
_SIDE = re.compile(r"\d{2,4}(?:\.0)?")


def _found(name: str, text: str) -> float:
    """The number that a shape finds in a text; 0 where it finds none."""
    match = shape(TABLE, name, ignore_case=True).search(text)
    if not match:
        return 0.0
    return float(next(group for group in match.groups() if group).replace(",", ""))


def _image(text: str) -> tuple[float, float, float]:
    """Height, width, frames; zeros where the text names none. A third small number after two sizes is channels, not frames."""
    if _SIDE.fullmatch(text.strip()):
        return float(text), float(text), 0.0
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


#: Cells of a row that say what its input is, besides the model.
INPUT_COLUMNS = (
    "params_b", "input_tokens", "output_tokens", "image_size", "frames", "denoise_steps", "audio_s", "beams", "gmacs", "mactivations",
    "memory_tokens", "latency_scope", "flags", "metric",
)  # fmt: skip


def wish_of(row: Mapping[str, str]) -> ForwardWish:
    """The input of a row as its cells tell."""
    return _wish(row.get("model", ""), *(row.get(name, "") for name in INPUT_COLUMNS))


@functools.lru_cache(maxsize=16384)
def _wish(model: str, *cells: str) -> ForwardWish:
    cell = dict(zip(INPUT_COLUMNS, cells, strict=True))
    height, width, frames = _image(cell["image_size"])
    flags = cell["flags"].lower()
    return ForwardWish(
        model=model,
        params=number(cell["params_b"]) * 1e9,
        height=height,
        width=width,
        frames=number(cell["frames"]) or frames,
        tokens=number(cell["input_tokens"]),
        output_tokens=number(cell["output_tokens"]),
        memory_tokens=number(cell["memory_tokens"]),
        steps=number(cell["denoise_steps"]),
        audio_s=number(cell["audio_s"]),
        beams=number(cell["beams"]) or 1.0,
        macs=number(cell["gmacs"]) * 1e9,
        activations=number(cell["mactivations"]) * 1e6,
        language_head="maskedlm" in flags,
        denoise_only=cell["metric"] == "denoise_steps_per_s" or cell["latency_scope"].strip().lower() == "step",
    )
