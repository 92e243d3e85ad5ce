"""Measured serving runs of language models, as rows of text, turned into the columns that physics reads.

Every column is optional. What a row does not say is taken from the usual default and named in its assumptions.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import UnknownNameError
from rightfit.estimate.case_cells import read_rows
from rightfit.estimate.convert import device_columns, is_consumer, model_columns
from rightfit.estimate.hardware import default_links, linked_devices
from rightfit.estimate.serving_loads import dies_of, layout_values, load_values
from rightfit.estimate.serving_words import (
    architecture,
    counts_tensors,
    engine_classes,
    engine_parents,
    engine_rules,
    family_names,
    find_device,
    format_names,
    linked_name,
    number_of,
    version_number,
    weight_format,
    word_in,
)
from rightfit.facts.constants import constant_group, constants
from rightfit.facts.records import Accelerator, TransformerArchitecture
from rightfit.facts.word_tables import says, shape
from rightfit.messages import Message
from rightfit.physics.columns import DeviceColumns, IntraKind, LinkColumns, ModelColumns
from rightfit.physics.serving_columns import Math, ServeColumns, ServingCounter
from rightfit.records import dataclass

__all__ = [
    "ServingCases",
    "architecture",
    "engine_classes",
    "engine_parents",
    "engine_rules",
    "family_names",
    "find_device",
    "format_names",
    "on_device",
    "serving_cases",
    "weight_format",
]


_WINDOWED, _UNWINDOWED = "mistralai/Mistral-7B-v0.1", "mistralai/Mistral-7B-v0.3"


_WIRED_VENDORS = ("AWS", "Google", "Intel", "Huawei", "AMD")


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


_CACHE_BYTES = constant_group("serving_rows", "cache_bytes")
_FIGURES = constants("serving_rows")


@dataclass(frozen=True, slots=True)
class ServingCases:
    """Usable rows as columns, as TrainingCases. `names` are the architectures, `engines` and `formats` the classes that were recognised."""

    model: ModelColumns
    serve: ServeColumns
    device: DeviceColumns
    links: LinkColumns
    index: NDArray[np.intp]
    refused: dict[int, str]
    assumptions: tuple[tuple[str, ...], ...]
    device_names: tuple[str, ...]
    names: tuple[str, ...]


@dataclasses.dataclass(slots=True)
class _ServingCase:
    arch: TransformerArchitecture
    accelerator: Accelerator
    serve: dict[str, float]
    assumptions: list[str]


def serving_cases(rows: Sequence[Mapping[str, str]]) -> ServingCases:
    """Parse rows of the measured inference table whose model is a decoder."""
    return _to_columns(*read_rows(rows, _read_row), rows)


def _to_columns(cases: list[_ServingCase], index: list[int], refused: dict[int, str], rows: Sequence[Mapping[str, str]]) -> ServingCases:
    serve = ServeColumns.of(**{name: [case.serve[name] for case in cases] for name in (cases[0].serve if cases else ())})
    names = [linked_name(case.accelerator.name) for case in cases]
    notes = [word_in(rows[i], "interconnect") for i in index]
    devices = serve.num_devices if cases else np.zeros(0)
    links = _own_links(default_links(names, num_gpus=devices, gpus_per_node=np.full(len(cases), 8.0), notes=notes), cases)
    return ServingCases(
        model_columns([case.arch for case in cases]),
        serve,
        device_columns([case.accelerator for case in cases]),
        links,
        np.array(index, dtype=np.intp),
        refused,
        tuple(tuple(case.assumptions) for case in cases),
        tuple(case.accelerator.name for case in cases),
        tuple(case.arch.name for case in cases),
    )


def _own_links(links: LinkColumns, cases: list[_ServingCase]) -> LinkColumns:
    """Links of chips that are wired to one another whatever their form (NeuronLink, ICI, Gaudi's Ethernet): their own rate."""
    wired = np.array([case.accelerator.vendor in _WIRED_VENDORS and case.accelerator.nvlink_bandwidth > 0 for case in cases], dtype=bool)
    many = wired & np.array([case.serve["tensor"] * case.serve["pipeline"] > 1 for case in cases], dtype=bool)
    rate = np.array([case.accelerator.nvlink_bandwidth / 2 for case in cases])
    return links.replace(
        intra_bandwidth=np.where(many, rate, links.intra_bandwidth), intra_kind=np.where(many, float(IntraKind.SWITCH), links.intra_kind)
    )


def _read_row(row: Mapping[str, str]) -> _ServingCase:
    taken: list[str] = []
    arch = _architecture(word_in(row, "model"), number_of(row, "params_b"), taken)
    accelerator, family = _device(word_in(row, "device"), number_of(row, "device_mem_gib"), taken)
    rules = on_device(engine_rules(word_in(row, "engine"), _stated_version(row), word_in(row, "date")), family, word_in(row, "engine"))
    rules = on_card(rules, accelerator)
    if not word_in(row, "engine"):
        taken.append("engine not stated: a usual serving engine taken")
    serve = engine_values(row, rules, family)
    serve |= format_values(row, rules, arch, taken)
    serve |= load_values(row, rules, taken)
    serve |= layout_values(
        row, rules, serve, arch, dies=dies_of(accelerator.name, number_of(row, "device_mem_gib")), memory_bytes=accelerator.memory_bytes
    )
    serve |= _memory(row, rules, serve, arch)
    serve["gpus_per_node"] = linked_devices(accelerator.name)
    serve["peer_access"] = float(_reads_peers(accelerator, row))
    return _ServingCase(arch, accelerator, serve, taken)


#: Cards that exist in virtual machines of clouds only, where PCIe cards do not read one another's memory.
_VIRTUAL_ONLY = ("A10G", "T4G")


def _reads_peers(accelerator: Accelerator, row: Mapping[str, str]) -> bool:
    """Whether the cards of a server read one another's memory over PCIe: data-center cards on servers of their own do, GeForce cards'
    driver forbids it."""
    words = f"{word_in(row, 'device')} {word_in(row, 'host')}"
    return (
        accelerator.name not in _VIRTUAL_ONLY
        and not is_consumer(accelerator.name)
        and not says("serving", "virtual", words, ignore_case=True)
    )


#: Chips whose engines compile the whole step ahead of time, whatever engine schedules the requests.
_COMPILED_FAMILIES = ("tpu", "neuron", "gaudi", "sambanova", "ascend")


def on_device(rules: Mapping[str, str], family: str, engine: str) -> Mapping[str, str]:
    """The engine's rules with the class that its kernels have on such a device: vLLM on a TPU runs compiled graphs, on a processor C++;
    TensorRT-LLM has
    kernels for Blackwell modules alone."""
    kind = "xla" if family in _COMPILED_FAMILIES else "cpu" if family == "cpu" and rules["class"] in _GPU_CLASSES else ""
    if rules["class"] == "vendor-torch" and family == "blackwell-hbm":
        kind = "vendor-pdl"
    if rules["class"] == "fused" and family == "cpu" and says("serving", "cuda_modules", engine, ignore_case=True):
        kind = "eager"
    if not kind or rules["class"] == kind:
        return rules
    other = next(row for row in facts.table("engines") if row["class"] == kind)
    return {**rules, "code": other["code"], "class": kind, "parent": other["parent"]}


def on_card(rules: Mapping[str, str], accelerator: Accelerator) -> Mapping[str, str]:
    """The engine's rules with what it takes by default on such a card: tokens a step and sequences (facts/data/engine_cards.csv)."""
    for row in facts.table("engine_cards"):
        least, most = float(row["from_memory_bytes"] or 0), float(row["below_memory_bytes"] or np.inf)
        named = not row["devices"] or any(name in accelerator.name for name in row["devices"].split("|"))
        if row["class"] == rules["class"] and named and least <= accelerator.memory_bytes < most:
            return {**rules, **{key: row[key] for key in ("chunk_tokens", "max_batch") if row[key]}}
    return rules


#: Classes of engines that schedule many requests on GPUs.
_GPU_CLASSES = ("graph", "async", "sglang", "vendor", "vendor-torch", "vendor-pdl", "ungraphed", "vendor-mmha", "generic")


def _architecture(name: str, params_b: float, taken: list[str]) -> TransformerArchitecture:
    if not name and not params_b:
        raise UnknownNameError("model", "", allowed=Message("names.part_row_names_none"))
    record, assumption = architecture(name or f"{params_b:g}B", params_b)
    if assumption:
        taken.append(assumption)
    if record is architecture(_WINDOWED, 0.0)[0] and "0.1" not in name:
        # Only the first release of this model slides its window; a bare name means a later one.
        record = architecture(_UNWINDOWED, 0.0)[0]
    if not isinstance(record, TransformerArchitecture):
        raise UnknownNameError("language model", name, allowed=Message("names.part_other_kind"))
    return record


def _device(name: str, memory_gib: float, taken: list[str]) -> tuple[Accelerator, str]:
    accelerator, family, assumption = find_device(name, memory_gib)
    if assumption:
        taken.append(assumption)
    return accelerator, family


#: vLLM before 0.6 captured graphs for contexts up to 8,192 tokens only (max_seq_len_to_capture).
_GRAPH_LIMIT, _GRAPH_LIMIT_UNTIL = _FIGURES["graph_limit"], _FIGURES["graph_limit_until"]


#: The version of a library that an engine is built on, which is not its own: "TensorRT 10.2.0" under TensorRT-LLM.
_LIBRARY_VERSION = r"\b{built_on}[ -]v?\d[\w.+]*"


def _stated_version(row: Mapping[str, str]) -> float:
    """The engine's version from its own column or else from its name ("vLLM v0.6.0"); versions of what it is built on are left out."""
    stated, engine = (
        shape("serving", _LIBRARY_VERSION, ignore_case=True).sub("", word_in(row, column)) for column in ("engine_version", "engine")
    )
    return version_number(stated) or version_number(engine)


def engine_values(row: Mapping[str, str], rules: Mapping[str, str], family: str) -> dict[str, float]:
    """What an engine of one version sets, as fields of ServeColumns. row: words of the case; rules: of engines.csv; family: of the
    accelerator."""
    version = _stated_version(row)
    return {
        "engine": float(rules["code"]),
        "family": float(family_names().index(family)),
        "version": version,
        "max_batch": number_of(row, "max_num_seqs") or float(rules["max_batch"]),
        "chunk_tokens": number_of(row, "max_num_batched_tokens") or float(rules["chunk_tokens"]),
        "memory_fraction": float(rules["memory_fraction"]),
        "fraction_of_free": float(rules["of_free"]),
        "kv_reserve": float(rules["kv_reserve"]),
        "kv_block": float(rules["kv_block"]),
        "graph_limit": _GRAPH_LIMIT if rules["class"] == "graph" and 0 < version < _GRAPH_LIMIT_UNTIL else 0.0,
    }


def format_values(row: Mapping[str, str], rules: Mapping[str, str], arch: TransformerArchitecture, taken: list[str]) -> dict[str, float]:
    """What the formats of weights and cache set, as fields of ServeColumns; assumptions made are added to `taken`."""
    text = word_in(row, "weights_dtype")
    row_of = weight_format(text.split(",")[0]) if text else {}
    if rules["class"] == "eager" and row_of.get("name") in ("int8", "int4"):
        # Transformers quantises with bitsandbytes unless the format names another way.
        row_of = weight_format({"int8": "int8-bnb", "int4": "nf4"}[row_of["name"]])
    if rules["class"] == "exllama" and row_of.get("name") in ("int8", "int4"):
        # ExLlama knows bits a weight only.
        text = {"int8": "exl2 8.0 bpw", "int4": "exl2 4.0 bpw"}[row_of["name"]]
        row_of = weight_format("exl2")
    if rules["class"] == "native" and row_of.get("name") == "mxfp4":
        # Files of llama.cpp keep what is not an expert in 8 bits.
        row_of = weight_format("gguf-mxfp4")
    if row_of.get("name") == "int4-awq" and "gemv" in f"{word_in(row, 'flags')} {word_in(row, 'engine')}".lower():
        row_of = weight_format("int4-awq-gemv")
    if row_of.get("name") == "int4-awq" and not _own_awq_kernels(row, rules):
        row_of = weight_format("int4-awq-marlin")
    if not row_of:
        taken.append("weights not stated: 16 bit taken" if not text else f"weights {text!r} not known: 16 bit taken")
        row_of = weight_format("bf16")
    if row_of["name"] == "nvfp4" and arch.attention_kind == "mla":
        row_of = weight_format("nvfp4-deepseek")
    name = row_of["name"]
    linear, expert, attention, other = (
        float(row_of[column]) for column in ("linear_bytes", "expert_bytes", "attention_bytes", "other_bytes")
    )
    if bits := re.search(r"(\d+(?:\.\d+)?)\s*bpw", text.lower()):
        linear = expert = attention = float(bits[1]) / 8.0 * _FIGURES["unquoted_scales"]
    if name == "mxfp4" and not arch.num_experts:
        linear = attention = expert
    kv_text = word_in(row, "kv_dtype").lower() or _cache_words(f"{text} {word_in(row, 'flags')}")
    kv = next((size for word, size in _CACHE_BYTES.items() if word in kv_text), 2.0)
    if not kv_text and name in ("fp32", "tf32"):
        kv = _FIGURES["cache_bytes_full"]
    if not kv_text and (name.startswith("nvfp4") or (rules["class"].startswith("vendor") and name == "fp8")):
        kv = 1.0  # NVIDIA's fp4 checkpoints carry scales for an fp8 cache, and TensorRT-LLM's fp8 engines do
    return {
        "linear_bytes": linear,
        "expert_bytes": expert,
        "attention_bytes": attention,
        "other_bytes": other,
        "kv_bytes": kv,
        "activation_bytes": 4.0 if name in ("fp32", "tf32") else 2.0,
        "math": float(_MATH[row_of["math"]]),
        "dequantise_ops": float(row_of["dequantise_ops"]),
        "weight_format": float(format_names().index(name)),
    }


_CACHE_WORDS = r"(?:kv[-_ ]?(?:cache)?[-_ ]?{cache_setting}?[-_ =:]*({cache_format}))|(?:({cache_format_before})[-_ ]?kv)"


def _cache_words(text: str) -> str:
    """The cache's format where it is told beside the weights' or in the flags: "fp8 KV cache", "kv_cache_dtype=fp8"."""
    found = shape("serving", _CACHE_WORDS).search(text.lower())
    return next((word for word in found.groups() if word), "") if found else ""


#: vLLM runs AWQ checkpoints on Marlin's kernels since 0.5.3, and on those of AWQ's own project before.
_MARLIN_FROM, _MARLIN_SINCE = _FIGURES["marlin_from"], "2024-07"


def _own_awq_kernels(row: Mapping[str, str], rules: Mapping[str, str]) -> bool:
    """Whether AWQ weights are multiplied by the kernels of their own project: AutoAWQ, Transformers, and vLLM before it took Marlin's."""
    if rules["class"] in ("eager", "fused"):
        return True
    version, date = _stated_version(row), word_in(row, "date")
    early = version < _MARLIN_FROM if version else bool(date) and date < _MARLIN_SINCE
    return rules["class"] in ("graph", "ungraphed") and early and "marlin" not in word_in(row, "weights_dtype").lower()


def _unties(weight_format: str, version: float) -> bool:
    """Whether Transformers loads a head of its own from a quantised checkpoint of a model with tied embeddings: AWQ always, GPTQ before
    4.45."""
    return weight_format.startswith("int4-awq") or (weight_format in ("int4-gptq", "int8-gptq") and 0 < version < 4.45)


def _memory(
    row: Mapping[str, str], rules: Mapping[str, str], serve: Mapping[str, float], arch: TransformerArchitecture
) -> dict[str, float]:
    """Which counter, and what the stack keeps beside weights and cache."""
    eager = rules["class"] == "eager"
    scope = word_in(row, "counter_scope").lower()
    # Who splits a model by layers reports the cards' memory together.
    together = scope == "sum" or (not scope and serve["layer_split"] > 0)
    tensors = counts_tensors(row)
    counters = {
        (True, True): ServingCounter.TENSORS_ALL,
        (True, False): ServingCounter.DRIVER_ALL,
        (False, True): ServingCounter.TENSORS_ONE,
    }
    counter = counters.get((together, tensors), ServingCounter.DRIVER_ONE)
    on_processor = serve["family"] == family_names().index("cpu")
    # Transformers before 4.45 computed the logits of the whole prompt and a float32 copy of them.
    engine = word_in(row, "engine").lower()
    keeps = (eager and 0 < serve["version"] < _FIGURES["full_logits_until"] and "transformers" in engine) or "awq" in engine
    # ExLlama reserves the cache for the model's longest context unless told otherwise.
    reserved = number_of(row, "cache_tokens") or (float(arch.max_position) if rules["class"] == "exllama" else 0.0)
    offload = {"gpu": 0.0, "cpu": _FIGURES["offload_cpu_bytes"], "disk": _FIGURES["offload_disk_bytes"]}
    return {
        "counter": float(counter),
        "weight_copies": 2.0 if on_processor and serve["linear_bytes"] < 1.0 and rules["class"] in ("eager", "fused") else 1.0,
        "full_logits": _FIGURES["full_logits"] if keeps else 0.0,
        "cache_tokens": reserved,
        "head_copies": float(arch.tied_embeddings and eager and _unties(format_names()[int(serve["weight_format"])], serve["version"])),
        "offload_bandwidth": offload.get(word_in(row, "offload").lower(), 0.0),
    }
