"""What the words of a serving row mean: engines, weight formats, devices and models by their names."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping
from typing import Any

from rightfit import facts
from rightfit.errors import AmbiguousNameError, RightfitError, UnknownNameError
from rightfit.estimate.hardware import architecture_code
from rightfit.estimate.software import architecture_names
from rightfit.facts.constants import constants
from rightfit.facts.devices import half_card
from rightfit.facts.records import Accelerator
from rightfit.facts.word_tables import shape

#: Coefficient families of devices: those of training, and two that only serve.
EXTRA_FAMILIES = ("apple", "cpu", "intel-gpu", "sambanova")


_DEFAULT_DEVICE = "A100-SXM-80GB"


def family_names() -> tuple[str, ...]:
    """Coefficient families of devices, by code."""
    return (*architecture_names(), *EXTRA_FAMILIES)


@functools.cache
def _rules(table: str) -> tuple[tuple[dict[str, str], re.Pattern[str] | None], ...]:
    return tuple((row, re.compile(row["words"]) if row["words"] else None) for row in facts.table(table))


@functools.cache
def engine_classes() -> tuple[str, ...]:
    """Names of the classes of engines, by code."""
    return tuple(row["class"] for row, _ in _rules("engines"))


@functools.cache
def engine_parents() -> Mapping[str, str]:
    """The class that each class of engines takes its missing coefficients from."""
    return {row["class"]: row["parent"] for row, _ in _rules("engines")}


#: Classes whose words decide over those of others in one name ("DeepSpeed (optimum-habana)").
_STRONG = ("xla", "cpu", "offload", "exllama")


@functools.lru_cache(maxsize=4096)
def engine_rules(text: str, version: float = 0.0, date: str = "") -> dict[str, str]:
    """The row of facts/data/engines.csv for an engine's name, version and date (of the measurement, where the version is not stated)."""
    lowered = text.lower()
    found = [
        (pattern.search(lowered), row)
        for row, pattern in _rules("engines")
        if pattern and not row["from_version"] and row["class"] != "ungraphed"
    ]
    hits = [(match.start(), -int(row["code"]), row) for match, row in found if match]
    named = [hit for hit in hits if hit[2]["class"] in _STRONG] or [hit for hit in hits if hit[2]["class"] != "eager"] or hits
    row = min(named, key=lambda hit: hit[:2])[2] if named else _rules("engines")[0][0]
    return _variant(row, lowered, version, date)


def _variant(row: dict[str, str], lowered: str, version: float, date: str) -> dict[str, str]:
    """The later or earlier generation of an engine, by its version or else the date; a recent one where neither is known."""
    # A year alone is its middle, not its first day.
    date = f"{date}-07" if re.fullmatch(r"\d{4}", date) else date
    for earlier, words in _rules("engine_generations"):
        since = float(earlier["since_version"])
        early = since == math.inf or (version < since if version else bool(date) and date < earlier["since_date"])
        if row["class"] == earlier["class"] and early and words and words.search(lowered):
            return next(other for other, _ in _rules("engines") if other["class"] == earlier["before"])
    for other, pattern in _rules("engines"):
        if other["from_version"] and row["class"] in _lineage(other["class"]) and pattern and pattern.search(lowered):
            recent = version >= float(other["from_version"]) if version else date >= other["from_date"] or not date
            if recent:
                return other
    return row


def _lineage(name: str) -> tuple[str, ...]:
    """A class of engines and those that it descends from."""
    return (name, *_lineage(engine_parents()[name])) if name else ()


@functools.lru_cache(maxsize=1024)
def weight_format(text: str) -> dict[str, str]:
    """The row of facts/data/weight_formats.csv for a format's name; the longest words that match win. Empty where none does."""
    lowered = text.lower().strip()
    for row, _ in _rules("weight_formats"):
        if row["name"] == lowered:
            return row
    hits = [
        (len(match.group(0)), row)
        for row, pattern in _rules("weight_formats")
        if pattern and (match := pattern.search(lowered)) and match.group(0)
    ]
    return max(hits, key=lambda hit: hit[0])[1] if hits else {}


@functools.cache
def format_names() -> tuple[str, ...]:
    """Names of weight formats, by code."""
    return tuple(row["name"] for row, _ in _rules("weight_formats"))


@functools.lru_cache(maxsize=4096)
def architecture(name: str, params_b: float) -> tuple[object, str]:
    """The record that a model's name means and what was assumed: the first of several that fit, or a usual shape of its size."""
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
    """The name less one after the other of the endings that tell of a format or a tuning ("gemma-3-4b-it-qat")."""
    ending, found = shape("serving", r"[-_ ]{model_end}$", ignore_case=True), []
    while (shorter := ending.sub("", name)) != name:
        found.append(shorter)
        name = shorter
    return found


def _of_size(name: str, size: float) -> tuple[object, str] | None:
    """The bundled model that the name means without its size, where that model has about this many billions of parameters ("R1 671B")."""
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


@functools.lru_cache(maxsize=2048)
def find_device(name: str, memory_gib: float = 0.0) -> tuple[Accelerator, str, str]:
    """The accelerator or processor that `name` means, its coefficient family, and what was assumed."""
    if not name:
        return _with_family(facts.accelerators()[_DEFAULT_DEVICE], f"device not stated: {_DEFAULT_DEVICE} taken")
    first = _COUNT.sub("", name.split(" + ")[0].strip())
    if named := next((row["device"] for row, pattern in _rules("serving_instances") if pattern and pattern.search(first.lower())), ""):
        return find_device(named, memory_gib)
    if shape("serving", "{mobile}", ignore_case=True).search(first) and (listed := _listed_name(first)):
        return _listed(listed)
    exact = facts.accelerators().get(first)
    if exact is not None and not first.lower().startswith("mi250"):  # software sees each die of an MI250 as a device of its own
        return _with_family(half_card(exact, memory_gib), "")
    if matches := () if first.lower().startswith(("cpu", "mi250")) else facts.match_accelerators(first):
        found = [facts.accelerators()[match] for match in matches]
        best = min(found, key=lambda item: (abs(item.memory_bytes / 2**30 - memory_gib) if memory_gib else 0.0, item.form == "pcie"))
        return _with_family(half_card(best, memory_gib), "" if len(found) == 1 else f"device {name!r} taken as {best.name}")
    if listed := _listed_name(first):
        return _listed(listed)
    plain = " ".join(shape("serving", "{ornament}", ignore_case=True).sub(" ", first).split())
    if plain and plain != first:
        return find_device(plain, memory_gib)
    facts.accelerator(first)  # raises, naming the nearest
    raise UnknownNameError("device", name)


def _listed_name(text: str) -> str:
    """The row of facts/data/serving_devices.csv that the words of a device's name match; empty where none does."""
    return next((row["name"] for row, pattern in _rules("serving_devices") if pattern and pattern.search(text.lower())), "")


def device_count(name: str) -> float:
    """How many devices a name tells of ("8x H100", "A100 x 4"); 0 where it tells none."""
    found = _COUNT.search(name.split(" + ")[0].strip())
    return number_in(re.sub(r"[^\d]", " ", found[0])) if found else 0.0


# What sellers and drivers write around the name of a card: counts, makers, memory kinds, slices of TPU pods.
_COUNT = re.compile(r"^\s*\d+\s*[x*\u00d7]\s*|\s*(?:\s[x*\u00d7]|[*\u00d7])\s*\d+\s*$", re.IGNORECASE)


def _with_family(card: Accelerator, assumption: str) -> tuple[Accelerator, str, str]:
    return card, architecture_names()[architecture_code(card.vendor, card.architecture, card.compute_capability)], assumption


_UNITS = {"memory_gib": ("memory_bytes", 2.0**30), "memory_bw_gbps": ("memory_bandwidth", 1e9), "fp32_tflops": ("fp32_flops", 1e12)}


_UNITS |= {
    "fp16_dense_tflops": ("fp16_flops", 1e12),
    "bf16_dense_tflops": ("bf16_flops", 1e12),
    "tdp_w": ("tdp_w", 1.0),
    "sm_count": ("num_sms", 1.0),
}


@functools.cache
def _listed(name: str) -> tuple[Accelerator, str, str]:
    """A device of facts/data/serving_devices.csv: nothing that it does not state is taken from the one that it is like, but links."""
    row = next(row for row, _ in _rules("serving_devices") if row["name"] == name)
    like = facts.accelerators()[row["like"]]
    values: dict[str, Any] = {field: float(row[column] or 0.0) * unit for column, (field, unit) in _UNITS.items()}
    values |= {"fp8_flops": 0.0, "int8_ops": 0.0, "fp4_flops": 0.0, "tf32_flops": 0.0, "int4_ops": 0.0}
    card = dataclasses.replace(like, name=name, source=row["source"], **values)
    known = _with_family(like, "")[1]
    return card, row["family"] or known, ""


@functools.lru_cache(maxsize=512)
def linked_name(name: str) -> str:
    """The accelerator of the fact base whose links a device has."""
    return next((row["like"] for row, _ in _rules("serving_devices") if row["name"] == name), name)


def data_lengths(text: str, model: str) -> tuple[float, float]:
    """Mean tokens of prompt and answer of the data set that a text names (facts/data/serving_datasets.csv); zeros where it names none."""
    for row, pattern in _rules("serving_datasets"):
        if pattern and pattern.search(text.lower()) and (not row["models"] or re.search(row["models"], model.lower())):
            return float(row["input_tokens"]), float(row["output_tokens"])
    return 0.0, 0.0


_PERCENTILE = r"^{percentile_before}?[ _-]?(\d{1,2}(?:\.\d+)?){percentile_after}?$"


def quantile_of(text: str) -> float:
    """Quantile that words of a percentile mean ("p99", "median", "99th"); 0 where the mean is asked for or nothing is understood."""
    words = text.strip().lower()
    if words == "median":
        return 0.5
    found = shape("serving", _PERCENTILE).match(words)
    return float(found[1]) / 100.0 if found else 0.0


_AMOUNT = re.compile(r"(\d[\d,_]*(?:\.\d+)?|\.\d+)\s*(k|m)?(?![a-z]*\d)", re.IGNORECASE)


def number_in(text: str) -> float:
    """The number that a cell means: "1,024", "1k" (1,024; "1.5k" is 1,500), "~500 tokens", "bs=8", "128-256" (their mean); 0 where there is
    none."""
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


def word_in(row: Mapping[str, str], name: str) -> str:
    """A cell's text without spaces around it; empty where the row has none."""
    return str(row.get(name) or "").strip()


def number_of(row: Mapping[str, str], name: str) -> float:
    """The number that a cell means; 0 where it has none."""
    return number_in(word_in(row, name))


#: Words of the column `counter` (and `mem_kind`) -> what counted the memory.
_COUNTERS = {
    "allocated": "allocator",
    "allocator": "allocator",
    "reserved": "reserved",
    "driver": "driver",
    "nvidia-smi": "driver",
    "process": "process",
}


def counter_of(row: Mapping[str, str]) -> str:
    """What counted the memory of a case: allocator, reserved, driver or process; empty where it does not say."""
    return _COUNTERS.get(word_in(row, "counter").lower(), "")


def counts_tensors(row: Mapping[str, str]) -> bool:
    """Whether the counter of a case sees what the program asked its allocator for, and not what driver, context and libraries take beside it."""
    return counter_of(row) in ("allocator", "reserved")


def version_number(text: str) -> float:
    """A version as major + minor / 100 + patch / 10,000: 0.6.3 is 0.0603; 0 where there is none."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return float(found[1]) + float(found[2]) / 100.0 + float(found[3] or 0) / 10000.0 if found else 0.0
