"""From an engine with the weights that it runs on a family of devices to the fields of ServeColumns that they set."""

from __future__ import annotations

import dataclasses

from rightfit.facts.constants import constants
from rightfit.facts.engines import EngineClass, WeightFormat, family_names, format_names, weight_formats
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics.serving_columns import Math
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES

_FIGURES = constants("serving_rows")
_MATH = {
    "fp32": Math.FP32,
    "tf32": Math.TF32,
    "fp16": Math.FP16,
    "bf16": Math.BF16,
    "fp8": Math.FP8,
    "int8": Math.INT8,
    "fp4": Math.FP4,
    "mx": Math.MX,
}
#: vLLM before 0.6 captured graphs for contexts up to 8,192 tokens only (max_seq_len_to_capture).
_GRAPH_LIMIT, _GRAPH_LIMIT_UNTIL = _FIGURES["graph_limit"], _FIGURES["graph_limit_until"]
#: vLLM runs AWQ checkpoints on Marlin's kernels since 0.5.3, and on those of AWQ's own project before.
_MARLIN_FROM, _MARLIN_SINCE = _FIGURES["marlin_from"], "2024-07"


@dataclass(frozen=True, slots=True)
class ServingCase:
    """An engine of one `version` (0: not known, then its `date`) with the weights that it runs on a family of devices. `max_batch` and `chunk_tokens` as it is configured
    (0: by default), `bits` of a weight where they are told (0: the format's), `kv_bytes` of an element of the cache (None: what goes with the weights), `kernels` of AWQ weights
    that are named ("gemv", "marlin"). Of the model it matters whether its cache is latent and whether it is a mixture of experts."""

    engine: EngineClass
    family: str
    weights: WeightFormat
    is_latent: bool
    is_mixture: bool
    version: float = 0.0
    date: str = ""
    max_batch: float = 0.0
    chunk_tokens: float = 0.0
    bits: float = 0.0
    kv_bytes: float | None = None
    kernels: str = ""


def is_latent(model: TransformerArchitecture) -> bool:
    """Whether the cache of a model is latent: every head shares it."""
    return model.attention_kind == "mla"


def serving_fields(case: ServingCase) -> dict[str, float]:
    """Fields of ServeColumns that engine and formats decide; the caller adds load and layout."""
    return {**_engine_fields(case), **_format_fields(as_run(case))}


def _engine_fields(case: ServingCase) -> dict[str, float]:
    """What an engine of one version sets."""
    engine = case.engine
    return {
        "engine": float(engine.code),
        "family": float(family_names().index(case.family)),
        "version": case.version,
        "max_batch": case.max_batch or engine.max_batch,
        "chunk_tokens": case.chunk_tokens or engine.chunk_tokens,
        "memory_fraction": engine.memory_fraction,
        "fraction_of_free": engine.of_free,
        "kv_reserve": engine.kv_reserve,
        "kv_block": engine.kv_block,
        "graph_limit": _GRAPH_LIMIT if engine.name == "graph" and 0 < case.version < _GRAPH_LIMIT_UNTIL else 0.0,
    }


def as_run(case: ServingCase) -> ServingCase:
    """The case with the format that its engine makes of the weights."""
    known, kind, name, bits = weight_formats(), case.engine.name, case.weights.name, case.bits
    if kind == "eager" and name in ("int8", "int4"):
        # Transformers quantises with bitsandbytes unless the format names another way.
        name = {"int8": "int8-bnb", "int4": "nf4"}[name]
    if kind == "exllama" and name in ("int8", "int4"):
        # ExLlama knows bits a weight only.
        name, bits = "exl2", {"int8": 8.0, "int4": 4.0}[name]
    if kind == "native" and name == "mxfp4":
        # Files of llama.cpp keep what is not an expert in 8 bits.
        name = "gguf-mxfp4"
    if name == "int4-awq":
        name = "int4-awq-gemv" if case.kernels == "gemv" else name if _own_awq_kernels(case) else "int4-awq-marlin"
    if name == "nvfp4" and case.is_latent:
        name = "nvfp4-deepseek"
    return dataclasses.replace(case, weights=known[name], bits=bits)


def _own_awq_kernels(case: ServingCase) -> bool:
    """Whether AWQ weights are multiplied by the kernels of their own project: AutoAWQ, Transformers, and vLLM before it took Marlin's."""
    if case.engine.name in ("eager", "fused"):
        return True
    early = case.version < _MARLIN_FROM if case.version else bool(case.date) and case.date < _MARLIN_SINCE
    return case.engine.name in ("graph", "ungraphed") and early and case.kernels != "marlin"


def _format_fields(case: ServingCase) -> dict[str, float]:
    """What the formats of weights and cache set."""
    weights, name = case.weights, case.weights.name
    linear, expert, attention = weights.linear_bytes, weights.expert_bytes, weights.attention_bytes
    if case.bits:
        linear = expert = attention = case.bits / 8.0 * _FIGURES["unquoted_scales"]
    if name == "mxfp4" and not case.is_mixture:
        linear = attention = expert
    is_wide = name in ("fp32", "tf32")
    kv = 2.0 if case.kv_bytes is None else case.kv_bytes
    if case.kv_bytes is None and is_wide:
        kv = _FIGURES["cache_bytes_full"]
    if case.kv_bytes is None and (name.startswith("nvfp4") or (case.engine.name.startswith("vendor") and name == "fp8")):
        kv = 1.0  # NVIDIA's fp4 checkpoints carry scales for an fp8 cache, and TensorRT-LLM's fp8 engines do
    return {
        "linear_bytes": linear,
        "expert_bytes": expert,
        "attention_bytes": attention,
        "other_bytes": weights.other_bytes,
        "kv_bytes": kv,
        "activation_bytes": FP32_BYTES if is_wide else FP32_BYTES / 2.0,
        "math": float(_MATH[weights.math]),
        "dequantise_ops": weights.dequantise_ops,
        "weight_format": float(format_names().index(name)),
    }
