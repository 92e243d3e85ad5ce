"""Accelerators and processors that models are served on, as people write their names: instances of clouds, counts, mobile cards, processors."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any

from rightfit.errors import UnknownNameError
from rightfit.facts.devices import accelerator, accelerators, family_of, half_card, match_accelerators
from rightfit.facts.engines import worded_rows
from rightfit.facts.records import Accelerator
from rightfit.facts.word_tables import shape

_DEFAULT_DEVICE = "A100-SXM-80GB"
#: Cards whose dies software sees as devices of their own: name of one die, dies of a card.
_DIES = {"MI250-1GCD": 2.0}
# What sellers and drivers write around the name of a card: counts, makers, memory kinds, slices of TPU pods.
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
    """The accelerator or processor that `name` means, its coefficient family, and what was assumed."""
    if not name:
        return _with_family(accelerators()[_DEFAULT_DEVICE], f"device not stated: {_DEFAULT_DEVICE} taken")
    first = _COUNT.sub("", name.split(" + ")[0].strip())
    if named := next((row["device"] for row, pattern in worded_rows("serving_instances") if pattern and pattern.search(first.lower())), ""):
        return find_device(named, memory_gib)
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
    """The row of facts/data/serving_devices.csv that the words of a device's name match; empty where none does."""
    return next((row["name"] for row, pattern in worded_rows("serving_devices") if pattern and pattern.search(text.lower())), "")


@functools.cache
def _listed(name: str) -> tuple[Accelerator, str, str]:
    """A device of facts/data/serving_devices.csv: nothing that it does not state is taken from the one that it is like, but links."""
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
    """Devices that software sees in one that is counted: two where the stated memory is that of a card of two dies."""
    dies = _DIES.get(device, 1.0)
    one = next((float(row["memory_gib"]) for row, _ in worded_rows("serving_devices") if row["name"] == device), 0.0)
    return dies if dies > 1 and memory_gib > 1.5 * one else 1.0
