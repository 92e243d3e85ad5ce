"""Accelerators by exact or loose name: "A100" covers every A100, "a100-80gb" those with 80 GB, "4090" is the RTX 4090."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rightfit.errors import AmbiguousNameError, UnknownNameError
from rightfit.facts import fuzzy, tables
from rightfit.facts.constants import constants
from rightfit.facts.records import Accelerator
from rightfit.facts.word_tables import senses

_MEMORY = re.compile(r"(\d+)g(?:i?b)?")
_SOCKET = re.compile(r"(sxm|oam)\d?")
# "rtx4090" and "4090ti" are two words each; "a100", "v5e" and "mi300x" are one.
_GLUED = re.compile(r"\b(rtx|gtx|tpu|gaudi|quadro)(?=[a-z]?\d)|(?<=\d{4})(?=(?:ti|super|d)\b)|(?<=\b)(a\d{2,3})(?=\d{2}gb?\b)")
_MAKERS = frozenset(senses("names", "card_maker"))
_SERIES = frozenset(["rtx", "gtx", "quadro", "tpu", "ascend", "ali"])
_VARIANTS = frozenset(["pcie", "sxm", "oam", "nvl", "nvlink", "server", "ws"])
# Nominal and usable sizes differ by up to 8 % (B200: 192 GB on the box, 179 GiB in software).
_MEMORY_TOLERANCE = 0.08


class _Name(NamedTuple):
    product: frozenset[str]
    series: frozenset[str]
    variants: frozenset[str]
    memory_gb: int


@functools.cache
def accelerators() -> Mapping[str, Accelerator]:
    """Every bundled accelerator by name, in file order."""
    return tables.to_records(Accelerator, tables.read_rows(tables.read_text("accelerators.csv")))


@functools.cache
def _exact_names() -> Mapping[str, str]:
    return {name.casefold(): name for name in accelerators()}


@functools.cache
def _aliases() -> Mapping[str, tuple[str, ...]]:
    return {row["alias"]: tuple(row["accelerators"].split(";")) for row in tables.table("accelerator_aliases")}


@functools.cache
def _driver_names() -> Mapping[str, str]:
    return {row["driver_name"].casefold(): row["accelerator"] for row in tables.table("driver_names")}


def named_by_driver(name: str) -> str:
    """The accelerator of a product name as its driver gives it (nvidia-smi, torch.cuda.get_device_name); empty where none has that name."""
    return _driver_names().get(" ".join(name.casefold().split()), "")


@functools.cache
def _parse(text: str) -> _Name:
    spaced = _GLUED.sub(lambda match: match.group(0) + " ", text.casefold())
    words = re.findall(r"[a-z0-9.]+", re.sub(r"(\d+)\s+(gi?b)\b", r"\1\2", spaced))
    memory, variants, series, product = 0, set(), set(), set()
    for word in words:
        if size := _MEMORY.fullmatch(word):
            memory = int(size.group(1))
        elif socket := _SOCKET.fullmatch(word):
            variants.add(socket.group(1))
        elif word in _VARIANTS:
            variants.add(word)
        elif word in _SERIES:
            series.add(word)
        elif word not in _MAKERS:
            product.add(word)
    return _Name(frozenset(product), frozenset(series), frozenset(variants), memory)


def _covers(name: _Name, record: Accelerator) -> bool:
    known = _parse(record.name)
    if name.product != known.product or not name.series <= known.series:
        return False
    if not name.variants <= known.variants | {record.form}:
        return False
    memory_gb = record.memory_bytes / 2**30
    return not name.memory_gb or name.memory_gb == known.memory_gb or abs(name.memory_gb / memory_gb - 1) <= _MEMORY_TOLERANCE


def match_accelerators(name: str) -> tuple[str, ...]:
    """Names of all accelerators that a loose name covers: () when none. An exact name covers itself only. A driver's name is taken where no person would mean
    more by it: "NVIDIA H200" covers the NVL card too, although its driver calls that by another name."""
    text = name.strip()[: fuzzy.LONGEST_NAME]
    if exact := _exact_names().get(text.casefold()):
        return (exact,)
    if listed := _aliases().get(" ".join(re.findall(r"[a-z0-9.]+", text.casefold()))):
        return listed
    wanted = _parse(text)
    found = [record.name for record in accelerators().values() if record.memory_bytes and wanted.product and _covers(wanted, record)]
    return tuple(found or filter(None, [named_by_driver(text)]))


def named_accelerators(name: str, *, field: str) -> tuple[str, ...]:
    """Names of all accelerators that a loose name covers, one at least; UnknownNameError about `field` otherwise, with the nearest."""
    found = match_accelerators(name)
    if not found:
        raise UnknownNameError("GPU", name, nearest=nearest_accelerators(name), field=field)
    return found


def accelerator(name: str, *, typical: bool = False) -> Accelerator:
    """The one accelerator called `name`.

    A loose name that covers several raises AmbiguousNameError, unless `typical` asks for the most usual of them
    (the form with its own links before the PCIe card and, of those, the largest memory).
    """
    found = match_accelerators(name)
    if len(found) == 1:
        return accelerators()[found[0]]
    if found and typical:
        return max(
            (accelerators()[one] for one in found), key=lambda record: (record.form != "pcie", record.nvlink_bandwidth, record.memory_bytes)
        )
    if found:
        raise AmbiguousNameError("accelerator", name, found)
    raise UnknownNameError("accelerator", name, nearest=nearest_accelerators(name))


def nearest_accelerators(name: str, *, count: int = 3) -> tuple[str, ...]:
    """Accelerator names most like `name`, compared with whole names and with what is left of them without memory and form ("A100")."""
    short = {"".join(sorted(_parse(one).series | _parse(one).product)): one for one in accelerators()}
    known = {**short, **{one: one for one in accelerators()}}
    return tuple(dict.fromkeys(known[text] for text in fuzzy.nearest(name, known, count=3 * count, cutoff=0.3)))[:count]


def half_card(card: Accelerator, memory_gib: float) -> Accelerator:
    """One die of a two-die card (MI250) where the stated memory is half of the card's: software sees each die as a device."""
    if not memory_gib or memory_gib * 2.0**30 > constants("training_words")["half_card_memory"] * card.memory_bytes:
        return card
    halves = ("memory_bytes", "memory_bandwidth", "fp32_flops", "tf32_flops", "fp16_flops", "bf16_flops", "fp8_flops", "tdp_w", "l2_bytes")
    values: dict[str, Any] = {name: getattr(card, name) / 2 for name in halves}
    return dataclasses.replace(card, num_sms=card.num_sms // 2, **values)


@functools.cache
def architecture_code(vendor: str, architecture: str, compute_capability: float) -> int:
    """Coefficient family of an accelerator: the `code` of its row in facts/data/architectures.csv; 0 where none fits."""
    for row in tables.table("architectures"):
        if row["vendor"] != vendor or architecture not in row["architectures"].split("|"):
            continue
        low, high = row["compute_capability_from"], row["compute_capability_to"]
        if not low or float(low) <= compute_capability <= float(high):
            return int(row["code"])
    return 0


@functools.cache
def architecture_names() -> tuple[str, ...]:
    """Names of the coefficient families of accelerators, by code."""
    return tuple(row["name"] for row in tables.table("architectures"))


def family_of(accelerator: Accelerator) -> str:
    """The coefficient family of an accelerator."""
    return architecture_names()[architecture_code(accelerator.vendor, accelerator.architecture, accelerator.compute_capability)]


@functools.cache
def trains_and_packs(name: str) -> tuple[bool, bool]:
    """Whether an accelerator can train, and whether it has kernels for 4-bit weights: the first row of facts/data/capabilities.csv that matches; both where none does."""
    for row in tables.table("capabilities"):
        if re.search(row["match"], name):
            return row["training"] == "1", row["nf4"] == "1"
    return True, True
