"""Cards by the names that drivers and exporters give them: "NVIDIA H100 80GB HBM3"
is an H100 for SXM."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.facts.devices import named_by_driver
from rightfit.facts.tables import constant_group
from rightfit.measure.readers.item import figure
from rightfit.measure.record import Measured
from rightfit.records import dataclass

_PARTS = " MIG "


def card_named(text: str) -> str:
    """Our name of a card; the text as it is where it is none that is known, or only a
    part of a card (MIG)."""
    if not text or _PARTS in text:
        return text
    try:
        return facts.accelerator(named_by_driver(text) or text).name
    except RightfitError:
        return text


# ---- Out of memory: what PyTorch's message says of need, in its three spellings.
#
# A failure is a lower bound of need only where memory was really used up; fragmentation, limits and
# absurd requests are told apart, because a larger card does not help there.

_UNITS = {"bytes": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 2.0**10}
_SIZE = r"([\d.,]+) (bytes|KiB|MiB|GiB|TiB)"
_NEW = re.compile(
    rf"Tried to allocate {_SIZE}\. GPU (\d+) has a total capac(?:i)?ty of {_SIZE} of which {_SIZE} is free\."
    rf"(?:.{{0,2000}}?Of the allocated memory {_SIZE} is allocated by PyTorch(?:, with [^,]*?in private pools[^,]*)?,? and {_SIZE} is reserved by PyTorch but unallocated)?",
    re.DOTALL,
)
_OLD = re.compile(
    rf"Tried to allocate {_SIZE} \(GPU (\d+); {_SIZE} total capacity; {_SIZE} already allocated; {_SIZE} free; {_SIZE} reserved in total by PyTorch\)"
)
#: Share of the card beyond which unused reserved memory is fragmentation, as PyTorch's own advice
#: has it ("reserved but unallocated memory is large").
_LARGE = 0.1


@dataclass(frozen=True, slots=True)
class MemoryFailure:
    """A refused allocation [GiB]: what was asked, the card, free, allocated, and reserved but
    unallocated. `kind`: need, fragmentation, limit or absurd."""

    asked: float
    total: float
    free: float
    allocated: float
    unallocated: float

    @property
    def kind(self) -> str:
        """What the failure says."""
        if self.asked > self.total:
            return "absurd"
        if self.free >= self.asked:
            return "limit"
        if self.unallocated >= self.asked and self.unallocated > _LARGE * self.total and self.allocated + self.asked <= self.total:
            return "fragmentation"
        return "need"

    @property
    def verdict(self) -> str:
        """One sentence."""
        return {
            "absurd": f"out of memory: {self.asked:,.4g} GiB asked at once, more than the card's {self.total:.4g}: a fault of code or data, not of the card",
            "limit": f"out of memory although {self.free:.4g} GiB were free and {self.asked:.4g} asked: a limit (fraction per process, MIG, another process), not need",
            "fragmentation": f"out of memory with {self.unallocated:.4g} GiB reserved but unallocated: fragmentation; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            "need": f"out of memory: at least {self.allocated + self.asked:.4g} GiB are needed on a card of {self.total:.4g}",
        }[self.kind]

    def figures(self) -> list[Measured]:
        """The lower bound of need; nothing where the failure says nothing of need."""
        if self.kind != "need":
            return []
        return figure("peak_mem_gib_per_gpu", self.allocated + self.asked, statistic="max", bound=">=", counter="allocated")


def _gib(number: str, unit: str) -> float:
    return float(number.replace(",", "").rstrip(".")) * _UNITS[unit]


def failure_of(text: str) -> MemoryFailure | None:
    """The last out-of-memory message of a log; None without one."""
    found: MemoryFailure | None = None
    for match in _NEW.finditer(text):
        asked, total, free = _gib(match[1], match[2]), _gib(match[4], match[5]), _gib(match[6], match[7])
        allocated = _gib(match[8], match[9]) if match[8] else max(total - free, 0.0)
        found = MemoryFailure(asked, total, free, allocated, _gib(match[10], match[11]) if match[10] else 0.0)
    for match in _OLD.finditer(text):
        asked, total, allocated = _gib(match[1], match[2]), _gib(match[4], match[5]), _gib(match[6], match[7])
        reserved = _gib(match[10], match[11])
        found = MemoryFailure(asked, total, _gib(match[8], match[9]), allocated, max(reserved - allocated, 0.0))
    return found


# ---- The steady part of a run: what is warm-up, how long one step takes after it, and
# whether that has settled.


@dataclass(frozen=True, slots=True)
class Steady:
    """Intervals [s] after warm-up: mean, median and standard error of the mean; `dropped` intervals
    before; `trend` the last third over the first, less one."""

    mean: float
    median: float
    error: float
    count: int
    dropped: int
    trend: float

    @property
    def is_stable(self) -> bool:
        """Standard error, number of steps and trend within facts/data/constants/measure.csv."""
        rule = constant_group("measure", "steady")
        settled = self.error <= rule["standard_error"] * self.mean and abs(self.trend) <= rule["trend"]
        return self.count >= rule["least_steps"] and settled


def steady(intervals: Sequence[float]) -> Steady | None:
    """The steady part of positive intervals [s], oldest first; None where fewer than two remain.
    Clock jumps (intervals not positive) are left out."""
    values = np.array([value for value in intervals if np.isfinite(value) and value > 0], dtype=np.float64)
    if values.size < 2:
        return None
    dropped = _warm_up(values)
    kept = values[dropped:]
    third = max(kept.size // 3, 1)
    error = float(np.std(kept, ddof=1) / np.sqrt(kept.size)) if kept.size > 1 else float(kept[0])
    trend = float(np.mean(kept[-third:]) / np.mean(kept[:third]) - 1.0)
    return Steady(float(np.mean(kept)), float(np.median(kept)), error, int(kept.size), dropped, trend)


def _warm_up(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int:
    """How many intervals at the beginning are not steady; at least half of a short run is kept."""
    rule = constant_group("measure", "steady")
    slow = values > rule["settling"] * np.median(values)
    settling = int(np.argmin(slow)) if not slow.all() else 0
    wanted = max(int(rule["least_dropped"]), int(np.ceil(rule["dropped_share"] * values.size)), settling)
    return min(wanted, values.size // 2)
