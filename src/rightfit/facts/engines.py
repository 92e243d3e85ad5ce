"""Engines that serve models and the formats of the weights that they run, found by name:
facts/data/engines.csv, weight_formats.csv and the tables beside them."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping
from typing import Any

from rightfit.errors import UnknownNameError
from rightfit.facts.devices import accelerator, accelerators, architecture_names, family_of, half_card, match_accelerators
from rightfit.facts.records import Accelerator
from rightfit.facts.tables import constant_group, filled, says, shape, table
from rightfit.records import dataclass

#: Coefficient families of devices: those of training, and two that only serve.
EXTRA_FAMILIES = ("apple", "cpu", "intel-gpu", "sambanova")
#: Classes whose words decide over those of others in one name ("DeepSpeed (optimum-habana)").
_STRONG = ("xla", "cpu", "offload", "exllama")
#: Chips whose engines compile the whole step ahead of time, whatever engine schedules the requests.
_COMPILED_FAMILIES = ("tpu", "neuron", "gaudi", "sambanova", "ascend")
#: Classes of engines that schedule many requests on GPUs.
_GPU_CLASSES = ("graph", "async", "sglang", "vendor", "vendor-torch", "vendor-pdl", "ungraphed", "vendor-mmha", "generic")


@dataclass(frozen=True, slots=True)
class EngineClass:
    """A class of engines, of engines.csv: its code, the class that it takes missing coefficients
    from, and what such engines take by default: sequences at once, tokens of a step, share of the
    memory (of what is free beside the weights, where `of_free`), share of the answer that room is
    kept for, slots of a block of the cache."""

    code: int
    name: str
    parent: str
    max_batch: float
    chunk_tokens: float
    memory_fraction: float
    of_free: float
    kv_reserve: float
    continuous: bool
    kv_block: float


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """A format of weights, of weight_formats.csv: bytes per parameter of each part, its arithmetic,
    and operations to expand one stored weight."""

    name: str
    linear_bytes: float
    expert_bytes: float
    attention_bytes: float
    other_bytes: float
    math: str
    dequantise_ops: float


def family_names() -> tuple[str, ...]:
    """Coefficient families of devices, by code."""
    return (*architecture_names(), *EXTRA_FAMILIES)


@functools.cache
def worded_rows(name: str) -> tuple[tuple[dict[str, str], re.Pattern[str] | None], ...]:
    """The rows of a table, each with its expression of words."""
    return tuple((row, re.compile(row["words"]) if row["words"] else None) for row in table(name))


# engines ------------------------------------------------------------------------------------------


@functools.cache
def engines() -> Mapping[str, EngineClass]:
    """Every class of engines by its name, in the order of their codes."""
    return {row["class"]: filled(EngineClass, row, name=row["class"]) for row in table("engines")}


def engine_classes() -> tuple[str, ...]:
    """Names of the classes of engines, by code."""
    return tuple(engines())


@functools.cache
def engine_parents() -> Mapping[str, str]:
    """The class that each class of engines takes its missing coefficients from."""
    return {name: found.parent for name, found in engines().items()}


@functools.lru_cache(maxsize=4096)
def engine_class(name: str, version: float = 0.0, date: str = "") -> EngineClass:
    """The class of an engine by its name, version and date (of the measurement, where the
    version is not stated)."""
    lowered, rows = name.lower(), worded_rows("engines")
    found = [(pattern.search(lowered), row) for row, pattern in rows if pattern and not row["from_version"] and row["class"] != "ungraphed"]
    hits = [(match.start(), -int(row["code"]), row["class"]) for match, row in found if match]
    named = [hit for hit in hits if hit[2] in _STRONG] or [hit for hit in hits if hit[2] != "eager"] or hits
    return engines()[_generation(min(named)[2] if named else rows[0][0]["class"], lowered, version, date)]


def _generation(kind: str, lowered: str, version: float, date: str) -> str:
    """The later or earlier generation of an engine, by its version or else the date; a recent one
    where neither is known."""
    # A year alone is its middle, not its first day.
    date = f"{date}-07" if re.fullmatch(r"\d{4}", date) else date
    for earlier, words in worded_rows("engine_generations"):
        since = float(earlier["since_version"])
        early = since == math.inf or (version < since if version else bool(date) and date < earlier["since_date"])
        if kind == earlier["class"] and early and words and words.search(lowered):
            return earlier["before"]
    for other, pattern in worded_rows("engines"):
        if other["from_version"] and kind in _lineage(other["class"]) and pattern and pattern.search(lowered):
            recent = version >= float(other["from_version"]) if version else date >= other["from_date"] or not date
            if recent:
                return other["class"]
    return kind


def _lineage(name: str) -> tuple[str, ...]:
    """A class of engines and those that it descends from."""
    return (name, *_lineage(engine_parents()[name])) if name else ()


def on_device(engine: EngineClass, family: str, name: str) -> EngineClass:
    """The engine with the class that its kernels have on such a device: vLLM on a TPU runs compiled
    graphs, on a processor C++; TensorRT-LLM has kernels for Blackwell modules alone."""
    kind = "xla" if family in _COMPILED_FAMILIES else "cpu" if family == "cpu" and engine.name in _GPU_CLASSES else ""
    if engine.name == "vendor-torch" and family == "blackwell-hbm":
        kind = "vendor-pdl"
    if engine.name == "fused" and family == "cpu" and says("serving", "cuda_modules", name, ignore_case=True):
        kind = "eager"
    if not kind or engine.name == kind:
        return engine
    other = engines()[kind]
    return dataclasses.replace(engine, code=other.code, name=kind, parent=other.parent)


def on_card(engine: EngineClass, accelerator: Accelerator) -> EngineClass:
    """The engine with what it takes by default on such a card: tokens a step and sequences
    (facts/data/engine_cards.csv)."""
    for row in table("engine_cards"):
        least, most = float(row["from_memory_bytes"] or 0), float(row["below_memory_bytes"] or math.inf)
        named = not row["devices"] or any(name in accelerator.name for name in row["devices"].split("|"))
        if row["class"] == engine.name and named and least <= accelerator.memory_bytes < most:
            chunk, most = (float(row[key]) if row[key] else getattr(engine, key) for key in ("chunk_tokens", "max_batch"))
            return dataclasses.replace(engine, chunk_tokens=chunk, max_batch=most)
    return engine


@functools.lru_cache(maxsize=1024)
def version_number(text: str) -> float:
    """A version as major + minor / 100 + patch / 10,000: 0.6.3 is 0.0603; 0 where there is none."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return float(found[1]) + float(found[2]) / 100.0 + float(found[3] or 0) / 10000.0 if found else 0.0


# weights ------------------------------------------------------------------------------------------


@functools.cache
def weight_formats() -> Mapping[str, WeightFormat]:
    """Every format of weights by its name."""
    return {row["name"]: filled(WeightFormat, row) for row in table("weight_formats")}


@functools.lru_cache(maxsize=1024)
def weight_format(name: str) -> WeightFormat | None:
    """The format that a name means; the longest words that match win. None where none does."""
    lowered, known = name.lower().strip(), weight_formats()
    if lowered in known:
        return known[lowered]
    hits = [
        (len(match[0]), row["name"])
        for row, pattern in worded_rows("weight_formats")
        if pattern and (match := pattern.search(lowered)) and match[0]
    ]
    return known[max(hits, key=lambda hit: hit[0])[1]] if hits else None


@functools.cache
def format_names() -> tuple[str, ...]:
    """Names of weight formats, by code."""
    return tuple(weight_formats())


def cache_bytes(name: str) -> float | None:
    """Bytes of an element of a cache in the format of that name, those of 16 bit where it is not
    known; None without a name."""
    sizes = constant_group("serving_rows", "cache_bytes")
    return next((size for word, size in sizes.items() if word in name), 2.0) if name else None


@functools.cache
def _served_formats() -> Mapping[str, Mapping[str, str]]:
    return {row["name"]: row for row in table("serving_formats")}


def makes(engine: str, name: str) -> bool:
    """Whether an engine makes weights of a format of wide ones as it loads (`made_by` of
    serving_formats.csv); it reads all others as a repository holds them."""
    row = _served_formats().get(name.casefold(), {})
    return engine.casefold() in row.get("made_by", "").casefold().split("|")


def starts_from_wide(engine: str, name: str) -> bool:
    """Whether an engine serves a repository of 16-bit weights in a format. GGUF is a file of its
    own: which one is asked when it is exported."""
    return name.startswith(("gguf", "bf16", "fp16", "fp32")) or makes(engine, name)


@functools.cache
def _repositories() -> Mapping[str, str]:
    return {row["repository"].casefold(): row["repository"] for row in table("chat_templates")}


def packed_copy(repository: str, name: str) -> str:
    """The repository that holds a model's weights in a format, by the form of its name; where none
    is known that form alone."""
    suffix = _served_formats().get(name.casefold(), {}).get("copies", "")
    known = _repositories().get(f"{repository}{suffix}".casefold(), "")
    return known if known and suffix and published_format(known) == name.casefold() else f"OWNER/NAME{suffix}"


@functools.lru_cache(maxsize=1024)
def published_format(model: str) -> str:
    """The format of fewer than 16 bits in which a model was published itself; empty for most."""
    rows = table("published_formats")
    return next((row["format"] for row in rows if re.search(row["pattern"], model, re.IGNORECASE)), "")


def stacks_named(name: str) -> tuple[str, ...]:
    """Engines of facts/data/serving_stacks.csv that a name means."""
    lowered = name.strip().lower()
    return tuple(row["name"] for row in table("serving_stacks") if row["name"].lower() == lowered or re.fullmatch(row["words"], lowered))


# ---- Accelerators and processors that models are served on, as people write their names: instances
# of clouds, counts, mobile cards, processors.

_DEFAULT_DEVICE = "A100-SXM-80GB"
#: Cards whose dies software sees as devices of their own: name of one die, dies of a card.
_DIES = {"MI250-1GCD": 2.0}
# What sellers and drivers write around the name of a card: counts, makers, memory kinds,
# slices of TPU pods.
_COUNT = re.compile(r"^\s*\d+\s*[x*\u00d7]\s*|\s*(?:\s[x*\u00d7]|[*\u00d7])\s*\d+\s*$", re.IGNORECASE)
_UNITS = {
    "memory_gib": ("memory_bytes", 2.0**30),
    "memory_bw_gbps": ("memory_bandwidth", 1e9),
    "fp32_tflops": ("fp32_flops", 1e12),
    "fp16_dense_tflops": ("fp16_flops", 1e12),
    "bf16_dense_tflops": ("bf16_flops", 1e12),
    "tdp_w": ("tdp_w", 1.0),
    "sm_count": ("num_sms", 1.0),
}


@functools.lru_cache(maxsize=2048)
def find_device(name: str, memory_gib: float = 0.0) -> tuple[Accelerator, str, str]:
    """The accelerator or processor that `name` means, its coefficient family,
    and what was assumed."""
    if not name:
        return _with_family(accelerators()[_DEFAULT_DEVICE], f"device not stated: {_DEFAULT_DEVICE} taken")
    first = _COUNT.sub("", name.split(" + ")[0].strip())
    if instance := _worded("serving_instances", first):
        return find_device(instance["device"], memory_gib)
    if shape("serving", "{mobile}", ignore_case=True).search(first) and (listed := _listed_name(first)):
        return _listed(listed)
    exact = accelerators().get(first)
    if exact is not None and not first.lower().startswith("mi250"):  # software sees each die of an MI250 as a device of its own
        return _with_family(half_card(exact, memory_gib), "")
    if matches := () if first.lower().startswith(("cpu", "mi250")) else match_accelerators(first):
        found = [accelerators()[match] for match in matches]
        best = min(found, key=lambda item: (abs(item.memory_bytes / 2**30 - memory_gib) if memory_gib else 0.0, item.form == "pcie"))
        return _with_family(half_card(best, memory_gib), "" if len(found) == 1 else f"device {name!r} taken as {best.name}")
    if listed := _listed_name(first):
        return _listed(listed)
    plain = " ".join(shape("serving", "{ornament}", ignore_case=True).sub(" ", first).split())
    if plain and plain != first:
        return find_device(plain, memory_gib)
    accelerator(first)  # raises, naming the nearest
    raise UnknownNameError("device", name)


def _with_family(card: Accelerator, assumption: str) -> tuple[Accelerator, str, str]:
    return card, family_of(card), assumption


def _listed_name(text: str) -> str:
    """The row of facts/data/serving_devices.csv that the words of a device's name match;
    empty where none does."""
    return row["name"] if (row := _worded("serving_devices", text)) else ""


def _worded(name: str, text: str) -> dict[str, str] | None:
    """The first row of a table whose words a text holds."""
    small = text.lower()
    return next((row for row, pattern in worded_rows(name) if pattern and pattern.search(small)), None)


@functools.cache
def _listed(name: str) -> tuple[Accelerator, str, str]:
    """A device of facts/data/serving_devices.csv: nothing that it does not state is taken from the
    one that it is like, but links."""
    row = next(row for row, _ in worded_rows("serving_devices") if row["name"] == name)
    like = accelerators()[row["like"]]
    values: dict[str, Any] = {field: float(row[column] or 0.0) * unit for column, (field, unit) in _UNITS.items()}
    values |= {"fp8_flops": 0.0, "int8_ops": 0.0, "fp4_flops": 0.0, "tf32_flops": 0.0, "int4_ops": 0.0}
    card = dataclasses.replace(like, name=name, source=row["source"], **values)
    return card, row["family"] or family_of(like), ""


@functools.lru_cache(maxsize=512)
def linked_name(name: str) -> str:
    """The accelerator of the fact base whose links a device has."""
    return next((row["like"] for row, _ in worded_rows("serving_devices") if row["name"] == name), name)


@functools.lru_cache(maxsize=2048)
def device_count(name: str) -> float:
    """How many devices a name tells of ("8x H100", "A100 x 4"); 0 where it tells none."""
    found = _COUNT.search(name.split(" + ")[0].strip())
    return float(re.sub(r"\D", "", found[0])) if found else 0.0


def dies_of(device: str, memory_gib: float) -> float:
    """Devices that software sees in one that is counted: two where the stated memory is that of
    a card of two dies."""
    dies = _DIES.get(device, 1.0)
    one = next((float(row["memory_gib"]) for row, _ in worded_rows("serving_devices") if row["name"] == device), 0.0)
    return dies if dies > 1 and memory_gib > 1.5 * one else 1.0
