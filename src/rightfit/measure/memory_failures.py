"""Out of memory: what PyTorch's message says of need, in its three spellings.

A failure is a lower bound of need only where memory was really used up; fragmentation, limits and absurd requests are told apart, because a larger card does
not help there.
"""

from __future__ import annotations

import re

from rightfit.measure.readers.item import figure
from rightfit.measure.record import Measured
from rightfit.records import dataclass

_UNITS = {"bytes": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 2.0**10}
_SIZE = r"([\d.,]+) (bytes|KiB|MiB|GiB|TiB)"
_NEW = re.compile(
    rf"Tried to allocate {_SIZE}\. GPU (\d+) has a total capac(?:i)?ty of {_SIZE} of which {_SIZE} is free\."
    rf"(?:.*?Of the allocated memory {_SIZE} is allocated by PyTorch(?:, with [^,]*?in private pools[^,]*)?,? and {_SIZE} is reserved by PyTorch but unallocated)?",
    re.DOTALL,
)
_OLD = re.compile(
    rf"Tried to allocate {_SIZE} \(GPU (\d+); {_SIZE} total capacity; {_SIZE} already allocated; {_SIZE} free; {_SIZE} reserved in total by PyTorch\)"
)
#: Share of the card beyond which unused reserved memory is fragmentation, as PyTorch's own advice has it ("reserved but unallocated memory is large").
_LARGE = 0.1


@dataclass(frozen=True, slots=True)
class MemoryFailure:
    """A refused allocation [GiB]: what was asked, the card, free, allocated, and reserved but unallocated. `kind`: need, fragmentation, limit or absurd."""

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
