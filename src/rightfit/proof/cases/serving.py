"""Measured serving runs of language models, as rows of text, turned into the columns
that physics reads.

Every column is optional. What a row does not say is taken from the usual default and named
in its assumptions.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import AmbiguousNameError, RightfitError, UnknownNameError
from rightfit.estimation.convert import default_links, device_columns, is_consumer, linked_devices, model_columns
from rightfit.estimation.serving_steps import ServingCase, is_latent, serving_fields
from rightfit.facts.engines import (
    EngineClass,
    cache_bytes,
    device_count,
    dies_of,
    engine_class,
    family_names,
    find_device,
    format_names,
    linked_name,
    on_card,
    on_device,
    published_format,
    version_number,
    weight_format,
    weight_formats,
    worded_rows,
)
from rightfit.facts.records import Accelerator, TransformerArchitecture
from rightfit.facts.tables import constants, says, shape
from rightfit.messages import Message
from rightfit.physics.columns import DeviceColumns, IntraKind, LinkColumns, ModelColumns
from rightfit.physics.serving_columns import Load, ServeColumns, ServingCounter
from rightfit.proof.cases.reader import counts_tensors, interconnect, read_rows, word
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES

_WINDOWED, _UNWINDOWED = "mistralai/Mistral-7B-v0.1", "mistralai/Mistral-7B-v0.3"
_WIRED_VENDORS = ("AWS", "Google", "Intel", "Huawei", "AMD")
_FIGURES = constants("serving_rows")
#: What many users ask where nobody says.
_USUAL_DATA = "conversation"
_MANY_USERS = 64.0


@dataclass(frozen=True, slots=True)
class ServingCases:
    """Usable rows as columns, as TrainingCases. `names` are the architectures, `engines` and
    `formats` the classes that were recognised."""

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
class _Row:
    """One row while it is read."""

    arch: TransformerArchitecture
    accelerator: Accelerator
    serve: dict[str, float]
    assumptions: list[str]


def serving_cases(rows: Sequence[Mapping[str, str]]) -> ServingCases:
    """Parse rows of the measured inference table whose model is a decoder."""
    return _to_columns(*read_rows(rows, _read_row), rows)


def _to_columns(cases: list[_Row], index: list[int], refused: dict[int, str], rows: Sequence[Mapping[str, str]]) -> ServingCases:
    serve = ServeColumns.of(**{name: [case.serve[name] for case in cases] for name in (cases[0].serve if cases else ())})
    names = [linked_name(case.accelerator.name) for case in cases]
    notes = [interconnect(rows[i]) for i in index]
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


def _own_links(links: LinkColumns, cases: list[_Row]) -> LinkColumns:
    """Links of chips that are wired to one another whatever their form (NeuronLink, ICI, Gaudi's
    Ethernet): their own rate."""
    wired = np.array([case.accelerator.vendor in _WIRED_VENDORS and case.accelerator.nvlink_bandwidth > 0 for case in cases], dtype=bool)
    many = wired & np.array([case.serve["tensor"] * case.serve["pipeline"] > 1 for case in cases], dtype=bool)
    rate = np.array([case.accelerator.nvlink_bandwidth / 2 for case in cases])
    return links.replace(
        intra_bandwidth=np.where(many, rate, links.intra_bandwidth), intra_kind=np.where(many, float(IntraKind.SWITCH), links.intra_kind)
    )


def _read_row(row: Mapping[str, str]) -> _Row:
    taken: list[str] = []
    arch = _architecture(word(row, "model"), number_of(row, "params_b"), taken)
    accelerator, family = _device(word(row, "device"), number_of(row, "device_mem_gib"), taken)
    if not word(row, "engine"):
        taken.append("engine not stated: a usual serving engine taken")
    case = _stack(row, arch, accelerator, family, taken)
    serve = serving_fields(case)
    if case.weights.name == "fp8" and says("serving", "wide_attention", word(row, "model"), ignore_case=True):
        serve["attention_bytes"] = FP32_BYTES / 2.0
    serve |= load_values(row, case.engine, taken)
    dies = dies_of(accelerator.name, number_of(row, "device_mem_gib"))
    serve |= layout_values(row, case.engine, serve, arch, dies=dies, memory_bytes=accelerator.memory_bytes)
    serve |= _memory(row, case.engine, serve, arch)
    serve |= _limits(row, case.engine, arch)
    serve["gpus_per_node"] = linked_devices(accelerator.name)
    serve["peer_access"] = float(_reads_peers(accelerator, row))
    return _Row(arch, accelerator, serve, taken)


def _stack(row: Mapping[str, str], arch: TransformerArchitecture, accelerator: Accelerator, family: str, taken: list[str]) -> ServingCase:
    """Engine and formats of a row; assumptions made are added to `taken`."""
    name, text, flags = word(row, "engine"), word(row, "weights_dtype"), word(row, "flags")
    version, date = _stated_version(row), word(row, "date")
    engine = on_card(on_device(engine_class(name, version, date), family, name), accelerator)
    weights = weight_format(text.split(",")[0]) if text else None
    if not text and (own := published_format(word(row, "model"))):
        weights = weight_format(own)
        taken.append(f"weights not stated: {own} taken, as published")
    if weights is None:
        taken.append("weights not stated: 16 bit taken" if not text else f"weights {text!r} not known: 16 bit taken")
    bits = re.search(r"(\d+(?:\.\d+)?)\s*bpw", text.lower())
    return ServingCase(
        engine,
        family,
        weights or weight_formats()["bf16"],
        is_latent=is_latent(arch),
        is_mixture=arch.num_experts > 0,
        version=version,
        date=date,
        max_batch=number_of(row, "max_num_seqs"),
        chunk_tokens=number_of(row, "max_num_batched_tokens"),
        bits=float(bits[1]) if bits else 0.0,
        kv_bytes=cache_bytes(word(row, "kv_dtype").lower() or _cache_words(f"{text} {flags}")),
        kernels="gemv" if "gemv" in f"{flags} {name}".lower() else "marlin" if "marlin" in text.lower() else "",
    )


#: Cards that exist in virtual machines of clouds only, where PCIe cards do not read
#: one another's memory.
_VIRTUAL_ONLY = ("A10G", "T4G")


def _reads_peers(accelerator: Accelerator, row: Mapping[str, str]) -> bool:
    """Whether the cards of a server read one another's memory over PCIe: data-center cards on
    servers of their own do, GeForce cards' driver forbids it."""
    words = f"{word(row, 'device')} {word(row, 'host')}"
    return (
        accelerator.name not in _VIRTUAL_ONLY
        and not is_consumer(accelerator.name)
        and not says("serving", "virtual", words, ignore_case=True)
    )


def _architecture(name: str, params_b: float, taken: list[str]) -> TransformerArchitecture:
    if not name and not params_b:
        raise UnknownNameError("model", "", allowed=Message("names.row_names_none"))
    record, assumption = architecture(name or f"{params_b:g}B", params_b)
    if assumption:
        taken.append(assumption)
    if record is architecture(_WINDOWED, 0.0)[0] and "0.1" not in name:
        # Only the first release of this model slides its window; a bare name means a later one.
        record = architecture(_UNWINDOWED, 0.0)[0]
    if not isinstance(record, TransformerArchitecture):
        raise UnknownNameError("language model", name, allowed=Message("names.other_kind"))
    return record


def _device(name: str, memory_gib: float, taken: list[str]) -> tuple[Accelerator, str]:
    accelerator, family, assumption = find_device(name, memory_gib)
    if assumption:
        taken.append(assumption)
    return accelerator, family


#: The version of a library that an engine is built on, which is not its own: "TensorRT 10.2.0"
#: under TensorRT-LLM.
_LIBRARY_VERSION = r"\b{built_on}[ -]v?\d[\w.+]*"


def _stated_version(row: Mapping[str, str]) -> float:
    """The engine's version from its own column or else from its name ("vLLM v0.6.0"); versions of
    what it is built on are left out."""
    stated, engine = (
        shape("serving", _LIBRARY_VERSION, ignore_case=True).sub("", word(row, column)) for column in ("engine_version", "engine")
    )
    return version_number(stated) or version_number(engine)


_CACHE_WORDS = r"(?:kv[-_ ]?(?:cache)?[-_ ]?{cache_setting}?[-_ =:]*({cache_format}))|(?:({cache_format_before})[-_ ]?kv)"


def _cache_words(text: str) -> str:
    """The cache's format where it is told beside the weights' or in the flags: "fp8 KV cache",
    "kv_cache_dtype=fp8"."""
    found = shape("serving", _CACHE_WORDS).search(text.lower())
    return next((word for word in found.groups() if word), "") if found else ""


def _unties(weight_format: str, version: float) -> bool:
    """Whether Transformers loads a head of its own from a quantised checkpoint of a model with tied
    embeddings: AWQ always, GPTQ before 4.45."""
    return weight_format.startswith("int4-awq") or (weight_format in ("int4-gptq", "int8-gptq") and 0 < version < 4.45)


def _memory(row: Mapping[str, str], engine: EngineClass, serve: Mapping[str, float], arch: TransformerArchitecture) -> dict[str, float]:
    """Which counter, and what the stack keeps beside weights and cache."""
    eager = engine.name == "eager"
    scope = word(row, "counter_scope").lower()
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
    name = word(row, "engine").lower()
    keeps = (eager and 0 < serve["version"] < _FIGURES["full_logits_until"] and "transformers" in name) or "awq" in name
    # ExLlama reserves the cache for the model's longest context unless told otherwise.
    reserved = number_of(row, "cache_tokens") or (float(arch.max_position) if engine.name == "exllama" else 0.0)
    offload = {"gpu": 0.0, "cpu": _FIGURES["offload_cpu_bytes"], "disk": _FIGURES["offload_disk_bytes"]}
    return {
        "counter": float(counter),
        "weight_copies": 2.0 if on_processor and serve["linear_bytes"] < 1.0 and engine.name in ("eager", "fused") else 1.0,
        "full_logits": _FIGURES["full_logits"] if keeps else 0.0,
        "cache_tokens": reserved,
        "head_copies": float(arch.tied_embeddings and eager and _unties(format_names()[int(serve["weight_format"])], serve["version"])),
        "offload_bandwidth": offload.get(word(row, "offload").lower(), 0.0),
    }


#: How engines spell the share of the memory that they take, and the longest request of a service.
_SHARE = r"\b{cache_share}[\s=:]*([01]?\.\d+|1(?![\d.]))"
_LONGEST = r"\b{longest_request}[\s=:]*(\d[\d,_]*k?)"
#: Classes of engines that refuse to start where the cache cannot hold the longest request, which is
#: the model's longest context unless they are told another.
_HOLD_LONGEST = ("graph", "async", "ungraphed")


def _limits(row: Mapping[str, str], engine: EngineClass, arch: TransformerArchitecture) -> dict[str, float]:
    """The share of the memory that the engine is told to take, and the longest request that it must
    hold to start."""
    flags = word(row, "flags").lower()
    found, longest = shape("serving", _SHARE).search(flags), shape("serving", _LONGEST).search(flags)
    share = number_of(row, "gpu_memory_utilization") or (float(found[1]) if found else 0.0)
    tokens = number_of(row, "cache_tokens") or (number_in(longest[1]) if longest else 0.0)
    states_lengths = number_of(row, "input_tokens") or number_of(row, "output_tokens")
    if not tokens and not states_lengths and engine.name in _HOLD_LONGEST:
        tokens = float(arch.max_position)
    return {"memory_fraction": share if 0 < share <= 1 else engine.memory_fraction, "longest_tokens": tokens}


# loads and layouts --------------------------------------------------------------------------------


def layout_values(
    row: Mapping[str, str],
    engine: EngineClass,
    serve: Mapping[str, float],
    arch: TransformerArchitecture,
    *,
    dies: float,
    memory_bytes: float = 0.0,
) -> dict[str, float]:
    """Degrees of parallelism of one replica and the number of replicas. `memory_bytes` of one
    device: under load, where the layout is not stated, replicas of the smallest group that holds
    the model run beside each other."""
    devices, tensor, pipeline, replicas = (number_of(row, name) for name in ("n_devices", "tp", "pp", "replicas"))
    kind = engine.name
    copies, experts = max(number_of(row, "dp"), 1.0), max(number_of(row, "ep"), 1.0)
    # Copies inside one engine are those of the attention where experts are shared, and whole
    # replicas otherwise.
    attention_data = copies if arch.num_experts > 1 or arch.attention_kind == "mla" else 1.0
    split = word(row, "split").lower().startswith("layer") or kind in ("native", "eager")
    if not devices:
        devices = max(max(tensor, 1.0) * max(pipeline, 1.0) * copies, device_count(word(row, "device")))
        devices *= max(replicas, 1.0)
    if dies > 1:
        devices = devices * dies
        # Engines that split by layers give each die its own; others cut tensors twice as often.
        tensor, pipeline = (tensor, pipeline * dies) if split else (tensor * dies, pipeline)
    if kind == "xla" and tensor > devices:
        # Degrees that count the cores of a chip: the rates and memory are those of whole chips.
        tensor = devices
    if not tensor and not pipeline and devices > 1:
        group = max(devices / max(replicas, 1.0) / (copies / attention_data), 1.0)
        if not replicas and not split and serve["load"] in (Load.OPEN, Load.OFFLINE):
            group = smallest_group(group, arch, serve, memory_bytes)
        tensor, pipeline = (1.0, group) if split else (group, 1.0)
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
        "expert": experts,
        "data": data if data >= 1.99 else 1.0,
        "layer_split": float(split and pipeline > 1),
        "pipelined_prefill": float(kind == "native" and pipeline > 1),
    }


def smallest_group(devices: float, arch: TransformerArchitecture, serve: Mapping[str, float], memory_bytes: float) -> float:
    """Devices of the smallest group, a power of two that divides `devices`, whose memory holds the
    weights and as much again of a quarter."""
    experts = max(arch.params_total - arch.params_active, 0)
    needed = _FIGURES["room_over_weights"] * ((arch.params_total - experts) * serve["linear_bytes"] + experts * serve["expert_bytes"])
    group = 1.0
    while group < devices and (group * memory_bytes < needed or devices % group):
        group *= 2.0
    return min(group, devices) if memory_bytes > 0 else devices


def _rate(text: str) -> float:
    """Requests per second: "4", "4 req/s", "QPS=4", "120/min"."""
    if says("serving", "at_once", text) or "slo" in text:
        return 0.0
    per_minute = says("serving", "per_minute", text)
    return number_in(text) / (60.0 if per_minute else 1.0)


def load_values(row: Mapping[str, str], engine: EngineClass, taken: list[str]) -> dict[str, float]:
    """How requests come and how long they are."""
    arrival, metric = word(row, "arrival").lower(), word(row, "metric")
    stated, rate_text = word(row, "batch_or_concurrency").lower(), word(row, "request_rate").lower()
    rate = _rate(rate_text)
    batch = 0.0 if says("serving", "queued", stated) else number_of(row, "batch_or_concurrency")
    count = shape("serving", r"([\d,]+)\s*(?:k )?{counted}").search(stated)
    requests = number_of(row, "num_requests") or (float(count[1].replace(",", "")) if count and count[1].strip(",") else 0.0)
    at_once = says("serving", "at_once", rate_text) or arrival == "burst"
    if at_once and not requests and is_count_of_prompts(batch):
        requests, batch = batch, 0.0
        taken.append(f"{requests:.0f} taken as the number of requests, which all come at once")
    if rate:
        load = Load.OPEN
    elif (at_once and requests and not batch) or (
        says("serving", "engine_chooses", stated)
        or (says("serving", "at_once", rate_text) and not batch)
        or (arrival == "burst" and not batch)
    ):
        load = Load.OFFLINE
    elif (batch > 1 or arrival == "closed") and engine.continuous and arrival not in ("batch", "single") and not is_prefill_only(row):
        load = Load.CLOSED
    else:
        load = Load.STATIC
    if not batch and load in (Load.STATIC, Load.CLOSED):
        batch = 1.0
        if metric not in ("decode_tok_per_s_single", "ttft_ms", "tpot_ms", "peak_mem_gib", "prefill_tok_per_s"):
            taken.append("batch not stated: 1 taken")
    prompt, output, usual = _lengths(row, metric, taken, loaded=load != Load.STATIC)
    return {
        "load": float(load),
        "batch": batch,
        "requests": requests,
        "rate": rate,
        "quantile": quantile_of(word(row, "percentile")),
        "cached_tokens": min(number_of(row, "prefix_share"), 1.0) * prompt,
        "first_limit_s": number_of(row, "slo_ttft_ms") / 1e3,
        "token_limit_s": number_of(row, "slo_tpot_ms") / 1e3,
        "varied_lengths": float(are_varied(row, usual, load, taken)),
        "front_end": float(at_once and not says("serving", "engine_chooses", stated)),
        "kv_reserve": 0.5 if load in (Load.CLOSED, Load.STATIC) else engine.kv_reserve,
        "continuous": float(engine.continuous),
        "input_tokens": prompt,
        "output_tokens": output,
    }


def is_prefill_only(row: Mapping[str, str]) -> bool:
    """Whether users get one token each: every prompt then waits for all others,
    as in a fixed batch."""
    return 0 < number_of(row, "output_tokens") <= 1


def is_count_of_prompts(number: float) -> bool:
    """Whether a number beside a rate of infinity counts prompts, not users: users are few
    or a power of two."""
    some = _FIGURES["some_prompts"]
    return number >= _FIGURES["many_prompts"] or (number >= some and number % some == 0)


#: Beginning of what is said where nothing tells how much answers of a finite run differ.
SPREAD_UNSAID = "spread of the answers"


def are_varied(row: Mapping[str, str], usual: tuple[float, float], load: Load, taken: list[str]) -> bool:
    """Whether answers differ in length as those of a chat do: said, or those of a data set that is
    named or was taken. Where nothing tells, they are taken as equal, which is said where requests
    come all at once: the longest answers then decide how long the run takes."""
    spread, longest, output = word(row, "output_spread").lower(), number_of(row, "max_tokens"), number_of(row, "output_tokens")
    if spread in ("fixed", "varied"):
        return spread == "varied"
    if longest and output:
        return longest > _FIGURES["told_longest"] * output
    if usual[1] > 1 and (word(row, "dataset") or not output):
        return True
    if load == Load.OFFLINE and output != 1:
        taken.append(f"{SPREAD_UNSAID} not stated (output_spread): equal lengths taken")
    return False


_LENGTH_PAIR = re.compile(r"(\d[\d.,]*\s*k?)\s*(?:/|\+|in\b.*?)\s*(\d[\d.,]*\s*k?)", re.IGNORECASE)


def _lengths(row: Mapping[str, str], metric: str, taken: list[str], *, loaded: bool) -> tuple[float, float, tuple[float, float]]:
    """Tokens of a prompt and of an answer, and those of the data that are named or taken (zeros:
    none). Many users ask what those of a conversation do
    where nothing names other data, and their answers decide how busy the service is whatever
    is asked about it."""
    prompt, output = number_of(row, "input_tokens"), number_of(row, "output_tokens")
    pair = _LENGTH_PAIR.search(word(row, "input_tokens"))
    if pair and not output:
        prompt, output = number_in(pair[1]), number_in(pair[2])
    usual = data_lengths(
        " ".join(word(row, name) for name in ("dataset", "model", "engine", "engine_version", "input_tokens")), word(row, "model")
    )
    several = number_of(row, "batch_or_concurrency") > 1 or bool(word(row, "request_rate"))
    if not usual[0] and (loaded or (several and not prompt and not output)):
        usual = data_lengths(_USUAL_DATA, "")
    if not prompt and word(row, "input_tokens") not in ("0", "0.0"):
        prompt = usual[0] or (32.0 if output else 128.0)
        taken.append(f"input length not stated: {prompt:.0f} taken")
    if not output:
        alone = metric in ("ttft_ms", "prefill_tok_per_s") and not (loaded and word(row, "request_rate"))
        output = 1.0 if alone else usual[1] or 128.0
        if not alone:
            taken.append(f"output length not stated: {output:.0f} taken")
    return prompt, output, usual


# words --------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def architecture(name: str, params_b: float) -> tuple[object, str]:
    """The record that a model's name means and what was assumed: the first of several that fit, or
    a usual shape of its size."""
    # The text in brackets and the words before it are tried too: "bert (bert-base-cased)".
    tries = [
        name,
        *re.findall(r"\(([^()]+)\)", name),
        re.sub(r"\s*\([^()]*\)", "", name),
        *_without_endings(name),
    ]
    last: RightfitError = UnknownNameError("model", name)
    for text in dict.fromkeys(part for part in tries if part):
        try:
            return facts.model(text, network=False), ""
        except AmbiguousNameError as error:
            return facts.model(error.candidates[0], network=False), f"model {name!r} taken as {error.candidates[0]}"
        except RightfitError as error:
            last = error
    size = params_b or _size_in(name)
    if size and (found := _of_size(name, size)):
        return found
    if size:
        return facts.model(f"{size:g}B", network=False), f"model {name!r} not known: usual shape of {size:g}B taken"
    raise last


def _without_endings(name: str) -> list[str]:
    """The name less one after the other of the endings that tell of a format or a tuning
    ("gemma-3-4b-it-qat")."""
    ending, found = shape("serving", r"[-_ ]{model_end}$", ignore_case=True), []
    while (shorter := ending.sub("", name)) != name:
        found.append(shorter)
        name = shorter
    return found


def _of_size(name: str, size: float) -> tuple[object, str] | None:
    """The bundled model that the name means without its size, where that model has about this many
    billions of parameters ("R1 671B")."""
    plain = re.sub(r"[-_ ]*(?<![\d.])\d+(?:\.\d+)?\s*b\b", "", name, flags=re.IGNORECASE).strip(" -_")
    try:
        candidates = [facts.model(plain, network=False)] if re.search("[a-z]", plain, re.IGNORECASE) else []
    except AmbiguousNameError as error:
        candidates = [facts.model(text, network=False) for text in error.candidates]
    except RightfitError:
        return None
    near = [one for one in candidates if abs(getattr(one, "params_total", 0) / 1e9 / size - 1.0) < constants("serving_rows")["same_size"]]
    return (near[0], f"model {name!r} taken as {near[0].name}") if near else None


def _size_in(name: str) -> float:
    found = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)\s*b\b", name.lower())
    return float(found[1]) if found else 0.0


def data_lengths(text: str, model: str) -> tuple[float, float]:
    """Mean tokens of prompt and answer of the data set that a text names
    (facts/data/serving_datasets.csv); zeros where it names none."""
    for row, pattern in worded_rows("serving_datasets"):
        if pattern and pattern.search(text.lower()) and (not row["models"] or re.search(row["models"], model.lower())):
            return float(row["input_tokens"]), float(row["output_tokens"])
    return 0.0, 0.0


_PERCENTILE = r"^{percentile_before}?[ _-]?(\d{1,2}(?:\.\d+)?){percentile_after}?$"


def quantile_of(text: str) -> float:
    """Quantile that words of a percentile mean ("p99", "median", "99th"); 0 where the mean is asked
    for or nothing is understood."""
    words = text.strip().lower()
    if words == "median":
        return 0.5
    found = shape("serving", _PERCENTILE).match(words)
    return float(found[1]) / 100.0 if found else 0.0


_AMOUNT = re.compile(r"(\d[\d,_]*(?:\.\d+)?|\.\d+)\s*(k|m)?(?![a-z]*\d)", re.IGNORECASE)


def number_in(text: str) -> float:
    """The number that a cell means: "1,024", "1k" (1,024; "1.5k" is 1,500), "~500 tokens", "bs=8",
    "128-256" (their mean); 0 where there is none."""
    try:
        value = float(text)
        return value if 0 < value < 1e15 else 0.0
    except ValueError:
        pass
    if text.lstrip().startswith("-"):
        return 0.0
    found = [_amount(*match.groups()) for match in _AMOUNT.finditer(text)]
    span = re.search(r"\d\s*k?\s*(?:-|\u2013|to|\.\.)\s*\d", text, re.IGNORECASE)
    value = sum(found[:2]) / 2.0 if span and len(found) > 1 else found[0] if found else 0.0
    return value if 0 < value < 1e15 else 0.0


def _amount(digits: str, unit: str | None) -> float:
    value = float(digits.replace(",", "").replace("_", ""))
    if not unit:
        return value
    # Lengths are told in binary thousands where they are whole: 8k is 8,192 tokens.
    return value * (1024.0 if value.is_integer() else 1000.0) if unit.lower() == "k" else value * 1e6


def number_of(row: Mapping[str, str], name: str) -> float:
    """The number that a cell means; 0 where it has none."""
    return number_in(word(row, name))
