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
from rightfit.errors import RightfitError, UnknownNameError
from rightfit.estimate.convert import device_columns, model_columns
from rightfit.estimate.hardware import IntraKind, default_links
from rightfit.estimate.serving_words import (
    architecture,
    data_lengths,
    device_count,
    engine_classes,
    engine_parents,
    engine_rules,
    family_names,
    find_device,
    format_names,
    linked_name,
    number_in,
    version_number,
    weight_format,
)
from rightfit.facts.records import Accelerator, TransformerArchitecture
from rightfit.physics.columns import DeviceColumns, LinkColumns, ModelColumns
from rightfit.physics.serving_columns import Load, Math, ServeColumns, ServingCounter

__all__ = [
    "ServingCases",
    "architecture",
    "engine_classes",
    "engine_parents",
    "engine_rules",
    "family_names",
    "find_device",
    "format_names",
    "serving_cases",
    "weight_format",
]


_WINDOWED, _UNWINDOWED = "mistralai/Mistral-7B-v0.1", "mistralai/Mistral-7B-v0.3"


_WIRED_VENDORS = ("AWS", "Google", "Intel", "Huawei", "AMD")


#: Devices that share the fast links, where it is not eight.
_NODE_SIZES = ((re.compile("Inferentia|Trainium"), 16.0), (re.compile("TPU"), 256.0), (re.compile("GB[23]00"), 72.0))


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


_KV_BYTES = (("fp8", 1.0), ("int8", 1.0), ("int4", 0.53), ("fp4", 0.5625), ("turbo", 0.55), ("q8", 1.06), ("q4", 0.56), ("fp32", 4.0))


@dataclasses.dataclass(frozen=True, slots=True)
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
class _Case:
    arch: TransformerArchitecture
    accelerator: Accelerator
    serve: dict[str, float]
    assumptions: list[str]


def serving_cases(rows: Sequence[Mapping[str, str]]) -> ServingCases:
    """Parse rows of the measured inference table whose model is a decoder."""
    cases: list[_Case] = []
    index: list[int] = []
    refused: dict[int, str] = {}
    for position, row in enumerate(rows):
        try:
            cases.append(_read_row(row))
            index.append(position)
        except RightfitError as error:
            refused[position] = str(error)
    return _to_columns(cases, index, refused, rows)


def _to_columns(cases: list[_Case], index: list[int], refused: dict[int, str], rows: Sequence[Mapping[str, str]]) -> ServingCases:
    serve = ServeColumns.of(**{name: [case.serve[name] for case in cases] for name in (cases[0].serve if cases else ())})
    names = [linked_name(case.accelerator.name) for case in cases]
    notes = [_word(rows[i], "notes") for i in index]
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


def _own_links(links: LinkColumns, cases: list[_Case]) -> LinkColumns:
    """Links of chips that are wired to one another whatever their form (NeuronLink, ICI, Gaudi's Ethernet): their own rate."""
    wired = np.array([case.accelerator.vendor in _WIRED_VENDORS and case.accelerator.nvlink_bandwidth > 0 for case in cases], dtype=bool)
    many = wired & np.array([case.serve["tensor"] * case.serve["pipeline"] > 1 for case in cases], dtype=bool)
    rate = np.array([case.accelerator.nvlink_bandwidth / 2 for case in cases])
    return links.replace(
        intra_bandwidth=np.where(many, rate, links.intra_bandwidth), intra_kind=np.where(many, float(IntraKind.SWITCH), links.intra_kind)
    )


def _word(row: Mapping[str, str], name: str) -> str:
    return str(row.get(name) or "").strip()


def _number(row: Mapping[str, str], name: str) -> float:
    return number_in(_word(row, name))


def _read_row(row: Mapping[str, str]) -> _Case:
    taken: list[str] = []
    arch = _architecture(_word(row, "model"), _number(row, "params_b"), taken)
    accelerator, family = _device(_word(row, "device"), _number(row, "device_mem_gib"), taken)
    rules = _on_device(engine_rules(_word(row, "engine"), _stated_version(row), _word(row, "date")), family)
    if not _word(row, "engine"):
        taken.append("engine not stated: a usual serving engine taken")
    serve = engine_values(row, rules, family)
    serve |= format_values(row, rules, arch, taken)
    serve |= _load(row, rules, taken)
    serve |= _layout(row, rules, serve, arch)
    serve |= _memory(row, rules, serve, arch)
    serve["gpus_per_node"] = next((size for words, size in _NODE_SIZES if words.search(accelerator.name)), 8.0)
    return _Case(arch, accelerator, serve, taken)


#: Chips whose engines compile the whole step ahead of time, whatever engine schedules the requests.
_COMPILED_FAMILIES = ("tpu", "neuron", "gaudi", "sambanova", "ascend")


def _on_device(rules: Mapping[str, str], family: str) -> Mapping[str, str]:
    """The engine's rules with the class that its kernels have on such a device: vLLM on a TPU runs compiled graphs, on a processor C++."""
    kind = "xla" if family in _COMPILED_FAMILIES else "cpu" if family == "cpu" and rules["class"] in _GPU_CLASSES else ""
    if not kind or rules["class"] == kind:
        return rules
    other = next(row for row in facts.table("engines") if row["class"] == kind)
    return {**rules, "code": other["code"], "class": kind, "parent": other["parent"]}


#: Classes of engines that schedule many requests on GPUs.
_GPU_CLASSES = ("graph", "async", "sglang", "vendor", "vendor-pdl", "ungraphed", "generic")


def _architecture(name: str, params_b: float, taken: list[str]) -> TransformerArchitecture:
    if not name and not params_b:
        raise UnknownNameError("model", "", allowed="the row names no model")
    record, assumption = architecture(name or f"{params_b:g}B", params_b)
    if assumption:
        taken.append(assumption)
    if record is architecture(_WINDOWED, 0.0)[0] and "0.1" not in name:
        # Only the first release of this model slides its window; a bare name means a later one.
        record = architecture(_UNWINDOWED, 0.0)[0]
    if not isinstance(record, TransformerArchitecture):
        raise UnknownNameError("language model", name, allowed="its record is of another kind")
    return record


def _device(name: str, memory_gib: float, taken: list[str]) -> tuple[Accelerator, str]:
    accelerator, family, assumption = find_device(name, memory_gib)
    if assumption:
        taken.append(assumption)
    return accelerator, family


#: vLLM before 0.6 captured graphs for contexts up to 8,192 tokens only (max_seq_len_to_capture).
_GRAPH_LIMIT, _GRAPH_LIMIT_UNTIL = 8192.0, 0.06


def _stated_version(row: Mapping[str, str]) -> float:
    """The engine's version from its own column or else from its name ("vLLM v0.6.0")."""
    return version_number(_word(row, "engine_version")) or version_number(_word(row, "engine"))


def engine_values(row: Mapping[str, str], rules: Mapping[str, str], family: str) -> dict[str, float]:
    """What an engine of one version sets, as fields of ServeColumns. row: words of the case; rules: of engines.csv; family: of the accelerator."""
    version = _stated_version(row)
    return {
        "engine": float(rules["code"]),
        "family": float(family_names().index(family)),
        "version": version,
        "max_batch": float(rules["max_batch"]),
        "chunk_tokens": float(rules["chunk_tokens"]),
        "memory_fraction": float(rules["memory_fraction"]),
        "kv_reserve": float(rules["kv_reserve"]),
        "kv_block": float(rules["kv_block"]),
        "graph_limit": _GRAPH_LIMIT if rules["class"] == "graph" and 0 < version < _GRAPH_LIMIT_UNTIL else 0.0,
    }


def format_values(row: Mapping[str, str], rules: Mapping[str, str], arch: TransformerArchitecture, taken: list[str]) -> dict[str, float]:
    """What the formats of weights and cache set, as fields of ServeColumns; assumptions made are added to `taken`."""
    text = _word(row, "weights_dtype")
    row_of = weight_format(text.split(",")[0]) if text else {}
    if rules["class"] == "eager" and row_of.get("name") in ("int8", "int4"):
        # Transformers quantises with bitsandbytes unless the format names another way.
        row_of = weight_format({"int8": "int8-bnb", "int4": "nf4"}[row_of["name"]])
    if row_of.get("name") == "int4-awq" and "gemv" in f"{_word(row, 'notes')} {_word(row, 'engine')}".lower():
        row_of = weight_format("int4-awq-gemv")
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
        linear = expert = attention = float(bits[1]) / 8.0 * 1.02
    if name == "mxfp4" and not arch.num_experts:
        linear = attention = expert
    kv_text = _word(row, "kv_dtype").lower() or _cache_words(f"{text} {_word(row, 'notes')}")
    kv = next((size for word, size in _KV_BYTES if word in kv_text), 2.0)
    if not kv_text and name in ("fp32", "tf32"):
        kv = 4.0
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


_CACHE_WORDS = re.compile(
    r"(?:kv[-_ ]?(?:cache)?[-_ ]?(?:dtype|quant\w*|type)?[-_ =:]*(fp8|int8|int4|q8|q4))|(?:(fp8|int8|int4|q8_0|q4_0)[-_ ]?kv)"
)


def _cache_words(text: str) -> str:
    """The cache's format where it is told beside the weights' or in the notes: "fp8 KV cache", "kv_cache_dtype=fp8"."""
    found = _CACHE_WORDS.search(text.lower())
    return next((word for word in found.groups() if word), "") if found else ""


_MANY_USERS = 64.0


_DEGREE = re.compile(r"(attn_dp|attention_dp|moe_tp|moe_ep|dp|ep)[= ](\d+)")


def _layout(
    row: Mapping[str, str], rules: Mapping[str, str], serve: Mapping[str, float], arch: TransformerArchitecture
) -> dict[str, float]:
    """Degrees of parallelism of one replica and the number of replicas."""
    notes = _word(row, "notes").lower()
    words = {name: float(value) for name, value in _DEGREE.findall(notes)}
    devices, tensor, pipeline = (_number(row, name) for name in ("n_devices", "tp", "pp"))
    kind = rules["class"]
    attention_data = words.get("attn_dp", words.get("attention_dp", 1.0))
    split = "layer split" in notes or "layer_split" in notes or "device_map" in notes or kind in ("native", "eager")
    if not devices:
        devices = max(max(tensor, 1.0) * max(pipeline, 1.0), device_count(_word(row, "device")))
    if kind == "xla" and tensor > devices:
        # Degrees that count the cores of a chip: the rates and memory are those of whole chips.
        tensor = devices
    if not tensor and not pipeline and devices > 1:
        tensor, pipeline = (1.0, devices) if split else (devices, 1.0)
    tensor, pipeline = max(tensor, 1.0), max(pipeline, 1.0)
    if arch.attention_kind == "mla" and attention_data == 1 and serve["batch"] >= _MANY_USERS * tensor:
        # So many users need attention-data parallelism: a latent cache cannot be cut by heads.
        attention_data, tensor = tensor, 1.0
    if attention_data > 1 and tensor * attention_data > devices * 1.01:
        tensor = max(tensor / attention_data, 1.0)
    if split and tensor == 1 and pipeline == 1 and devices > 1:
        pipeline = devices
    data = max(devices / (tensor * pipeline * attention_data), 1.0)
    return {
        "tensor": tensor,
        "pipeline": pipeline,
        "attention_data": attention_data,
        "expert": words.get("moe_ep", words.get("ep", 1.0)),
        "data": data if data >= 1.99 else 1.0,
        "layer_split": float(split and pipeline > 1),
        "pipelined_prefill": float(kind == "native" and pipeline > 1),
    }


#: Words of a batch that the engine chooses, of a number of prompts in place of a batch, and of a rate without limit.
_ENGINE_CHOOSES = re.compile(
    r"^(max(?!_|imum of)|offline|auto|all|inf|unlimited|unbounded|saturat|throughput|engine|dynamic|continuous)|prompts|requests"
)
_QUEUED = re.compile(r"prompts|requests|reqs\b")
_AT_ONCE = re.compile(r"^(inf|max|unlimited|\u221e|all at once|offline|saturat)")


def _rate(text: str) -> float:
    """Requests per second: "4", "4 req/s", "QPS=4", "120/min"."""
    if _AT_ONCE.search(text) or "slo" in text:
        return 0.0
    per_minute = bool(re.search(r"/\s*min|per min|rpm", text))
    return number_in(text) / (60.0 if per_minute else 1.0)


def _load(row: Mapping[str, str], rules: Mapping[str, str], taken: list[str]) -> dict[str, float]:
    """How requests come and how long they are."""
    notes, metric = _word(row, "notes").lower(), _word(row, "metric")
    stated, rate_text = _word(row, "batch_or_concurrency").lower(), _word(row, "request_rate").lower()
    rate = _rate(rate_text)
    batch = 0.0 if _QUEUED.search(stated) else _number(row, "batch_or_concurrency")
    count = re.search(r"([\d,]+)\s*(?:k )?(?:requests|prompts)", f"{stated} {notes}")
    requests = float(count[1].replace(",", "")) if count and count[1].strip(",") else 0.0
    if rate:
        load = Load.OPEN
    elif _ENGINE_CHOOSES.search(stated) or (_AT_ONCE.search(rate_text) and not batch):
        load = Load.OFFLINE
    elif batch > 1 and rules["continuous"] == "1" and "static" not in notes:
        load = Load.CLOSED
    else:
        load = Load.STATIC
    if not batch and load in (Load.STATIC, Load.CLOSED):
        batch = 1.0
        if metric not in ("decode_tok_per_s_single", "ttft_ms", "tpot_ms", "peak_mem_gib", "prefill_tok_per_s"):
            taken.append("batch not stated: 1 taken")
    prompt, output = _lengths(row, metric, taken)
    return {
        "load": float(load),
        "batch": batch,
        "requests": requests,
        "rate": rate,
        "kv_reserve": 0.5 if load in (Load.CLOSED, Load.STATIC) else float(rules["kv_reserve"]),
        "continuous": float(rules["continuous"]),
        "input_tokens": prompt,
        "output_tokens": output,
    }


_LENGTH_PAIR = re.compile(r"(\d[\d.,]*\s*k?)\s*(?:/|\+|in\b.*?)\s*(\d[\d.,]*\s*k?)", re.IGNORECASE)


def _lengths(row: Mapping[str, str], metric: str, taken: list[str]) -> tuple[float, float]:
    prompt, output = _number(row, "input_tokens"), _number(row, "output_tokens")
    pair = _LENGTH_PAIR.search(_word(row, "input_tokens"))
    if pair and not output:
        prompt, output = number_in(pair[1]), number_in(pair[2])
    usual = data_lengths(" ".join(_word(row, name) for name in ("notes", "engine", "engine_version", "input_tokens")), _word(row, "model"))
    if not prompt and _word(row, "input_tokens") not in ("0", "0.0"):
        prompt = usual[0] or (32.0 if output else 128.0)
        taken.append(f"input length not stated: {prompt:.0f} taken")
    if not output:
        output = 1.0 if metric in ("ttft_ms", "prefill_tok_per_s") else usual[1] or 128.0
        if metric not in ("ttft_ms", "prefill_tok_per_s"):
            taken.append(f"output length not stated: {output:.0f} taken")
    return prompt, output


def _memory(
    row: Mapping[str, str], rules: Mapping[str, str], serve: Mapping[str, float], arch: TransformerArchitecture
) -> dict[str, float]:
    """Which counter, and what the stack keeps beside weights and cache."""
    notes = _word(row, "notes").lower()
    eager = rules["class"] == "eager"
    # Who splits a model by layers reports the cards' memory together.
    together = any(words in notes for words in ("sum over", "total over")) or serve["layer_split"] > 0
    tensors = any(words in notes for words in ("torch", "allocated"))
    counters = {
        (True, True): ServingCounter.TENSORS_ALL,
        (True, False): ServingCounter.DRIVER_ALL,
        (False, True): ServingCounter.TENSORS_ONE,
    }
    counter = counters.get((together, tensors), ServingCounter.DRIVER_ONE)
    on_processor = serve["family"] == family_names().index("cpu")
    # Transformers before 4.45 computed the logits of the whole prompt and a float32 copy of them.
    engine = _word(row, "engine").lower()
    keeps = (eager and 0 < serve["version"] < 4.45 and "transformers" in engine) or "awq" in engine
    cache = re.search(r"cache seq (\d+)", notes)
    offload = {"gpu": 0.0, "cpu": 12e9, "disk": 1.5e9}
    device = re.search(r"offload device: (\w+)", notes)
    return {
        "counter": float(counter),
        "weight_copies": 2.0 if on_processor and serve["linear_bytes"] < 1.0 and rules["class"] in ("eager", "fused") else 1.0,
        "full_logits": 6.0 if keeps else 0.0,
        "cache_tokens": float(cache[1]) if cache else 0.0,
        "offload_bandwidth": offload.get(device[1], 0.0) if device else 0.0,
    }
