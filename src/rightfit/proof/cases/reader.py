"""How the cells of measured rows are read: one way for every table.

A table's module says which cell means what; the words that it knows are lists of facts/data/words
and pattern tables of facts/data, and what a row does not say, or says in words that nobody knows,
is named in the assumptions of its case.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.estimation.pass_records import ForwardDevice, card_device, processor_device, unrented_device
from rightfit.facts.machines import card_of_instance, processor_kind, unrented_card
from rightfit.facts.tables import constants, says, shape
from rightfit.units import parse_count

Row = Mapping[str, str]
_MAX_COUNT = 1e15
Case = TypeVar("Case")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def first_number(text: str) -> float:
    """The first number in `text`, 0 when there is none."""
    found = _NUMBER.search(text)
    return float(found[0]) if found else 0.0


def count_of(text: str) -> float:
    """A number as tables write it ("11M", "1e6", "10,500,000"); 0 where there is none."""
    cleaned = text.strip().replace(",", "").replace(" ", "")
    try:
        return float(cleaned) if cleaned else 0.0
    except ValueError:
        pass
    try:
        return float(parse_count(cleaned))
    except (RightfitError, ValueError):
        return 0.0


class RefusedRowError(Exception):
    """A row that cannot be turned into a case; the message is the reason."""


def read_rows(rows: Sequence[Mapping[str, str]], read: Callable[[Mapping[str, str]], Case]) -> tuple[list[Case], list[int], dict[int, str]]:
    """The rows that `read` can tell, their positions, and by position why the others cannot be."""
    cases: list[Case] = []
    index: list[int] = []
    refused: dict[int, str] = {}
    for position, row in enumerate(rows):
        try:
            cases.append(read(row))
            index.append(position)
        except (RefusedRowError, RightfitError) as reason:
            refused[position] = str(reason)
    return cases, index, refused


def word(row: Mapping[str, str], name: str) -> str:
    """A cell as stripped text, empty where it is absent."""
    value = row.get(name)
    return str(value).strip() if value is not None else ""


def number(row: Mapping[str, str], name: str) -> float:
    """A cell as a number, 0 where it is empty; nonsense is refused."""
    return _parse_number(name, word(row, name))


@functools.lru_cache(maxsize=65536)
def _parse_number(name: str, text: str) -> float:
    if not text or text.lower() in ("nan", "none", "unknown", "?"):
        return 0.0
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        raise RefusedRowError(f"{name} {text[:40]!r} is not a number") from None
    if not math.isfinite(value) or value < 0 or value > _MAX_COUNT:
        raise RefusedRowError(f"{name} {text[:40]!r} is not a sensible number")
    return value


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
    """What counted the memory of a case: allocator, reserved, driver or process; empty
    where it does not say."""
    return _COUNTERS.get(word(row, "counter").lower(), "")


def counts_tensors(row: Mapping[str, str]) -> bool:
    """Whether the counter of a case sees what the program asked its allocator for, and not what
    driver, context and libraries take beside it."""
    return counter_of(row) in ("allocator", "reserved")


# ---- Devices that the cells of measured rows name, as the forward physics sees them.

_MIG = re.compile(r"\(?(?:mig[ -]*)?(\d)g\.\d+gb\)?(?: mig)?", re.IGNORECASE)
_MIG_SLICES = constants("forward_work")["mig_slices"]
_CORES = r"\((\d+)\s?{core_name}|\b(\d+)[ -]?cores?\b"
_GOOGLE_SIZE = r"-{google_kind}-(\d+)"
_XLARGE = re.compile(r"\.(\d*)xlarge", re.IGNORECASE)
_VIRTUAL_PER_XLARGE = constants("forward_work")["vcpus_per_xlarge"]


@functools.cache
def forward_device(text: str, memory_gib: str = "") -> ForwardDevice | None:
    """The device that a cell names; None when nobody knows it."""
    if _says("processor", text):
        return _processor(text)
    if found := _MIG.search(text):
        whole = forward_device(_MIG.sub("", text).strip(" ()[]-_,"), memory_gib)
        return whole.share(float(found[1]) / _MIG_SLICES) if whole else None
    plain = shape("forward", "{decoration}", ignore_case=True).sub(" ", text).strip()
    for name in dict.fromkeys((f"{text} {memory_gib}GB" if memory_gib else text, text, plain)):
        try:
            record = facts.accelerator(name, typical=True)
        except RightfitError:
            continue
        return card_device(record, assumption="" if len(facts.match_accelerators(text)) == 1 else f"{text} taken as {record.name}")
    if card := unrented_card(text):
        return unrented_device(card)
    rented = card_of_instance(text)
    return forward_device(rented) if rented else _processor(text) if _says("small_processor", text) else None


def _says(chosen: str, text: str) -> bool:
    return says("forward", chosen, text, ignore_case=True)


def _processor(text: str) -> ForwardDevice:
    return processor_device(processor_kind(text), cores=_cores(text), name=text, is_client=_says("client", text))


def _cores(text: str) -> float:
    """Cores that words about a processor tell: their number, or the size of a server of AWS or
    Google; 0 where they tell none."""
    if stated := shape("forward", _CORES, ignore_case=True).search(text):
        return float(stated[1] or stated[2])
    if rented := shape("forward", _GOOGLE_SIZE, ignore_case=True).search(text):
        return float(rented[1]) / 2
    if size := _XLARGE.search(text):
        threads = 1.0 if "graviton" in text.lower() or re.search(r"\b\w\dg", text) else 2.0
        return float(size[1] or 1) * _VIRTUAL_PER_XLARGE / threads
    return 0.0


def interconnect(row: Mapping[str, str]) -> str:
    """The words of the links inside and between servers; a plain number is a rate between servers
    in Gbps, as the column's unit says."""
    told = word(row, "interconnect")
    return f"{told} Gbps" if re.fullmatch(r"\d+(\.\d+)?", told) else told
