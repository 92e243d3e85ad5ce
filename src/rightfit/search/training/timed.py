"""What every candidate needs and how long its step takes, kept between questions: neither depends on the amount of work, prices, limits or
places, which are what most next questions change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search.training.machines import Machines

Index = NDArray[np.intp]
Codes = NDArray[Any]

_ROW_BYTES = 16  # two numbers of four bytes and the seconds


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """What each setup needs [bytes]: on one accelerator at the peak, the same with the margin for safety, shape (caution class, setup), and
    on one host. `caution`: each machine's caution class."""

    peak_bytes: Array
    safe_bytes: Array
    host_bytes: Array
    caution: Index


@dataclass(frozen=True, slots=True)
class Timed:
    """The memory of every setup, what each machine class has [bytes], and (machine class, setup, seconds of a step) of all that fits, in
    pieces."""

    need: MemoryNeed
    capacity: Array
    pieces: Iterable[tuple[Codes, Codes, Array]]


class KeptTimes:
    """The times of the last few jobs, within a number of bytes. A job's key names all that its times depend on but the
    machine classes, which are told apart by identity. Safe between threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._lock = most_bytes, threading.Lock()
        self._known: OrderedDict[Hashable, tuple[Machines, Timed, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Hashable, machines: Machines) -> Timed | None:
        """The times of a job on these machine classes, where they are kept."""
        with self._lock:
            found = self._known.get((key, id(machines)))
            if found is None:
                return None
            self._known.move_to_end((key, id(machines)))
            _, timed, _ = found
        wide = ((machine.astype(np.intp), setup.astype(np.intp), step_s) for machine, setup, step_s in timed.pieces)
        return Timed(timed.need, timed.capacity, wide)

    def kept(self, key: Hashable, machines: Machines, timed: Timed) -> Timed:
        """The same times, which are kept once all pieces were taken; what would fill more than a quarter of the room is not."""

        def pieces() -> Iterator[tuple[Codes, Codes, Array]]:
            narrow: list[tuple[Codes, Codes, Array]] = []
            size = sum(part.nbytes for part in (timed.need.peak_bytes, timed.need.safe_bytes, timed.need.host_bytes, timed.need.caution))
            for machine, setup, step_s in timed.pieces:
                size += step_s.shape[0] * _ROW_BYTES
                if size <= self._most_bytes // 4:
                    narrow.append((machine.astype(np.int32), setup.astype(np.int32), step_s))
                else:
                    narrow.clear()
                yield machine, setup, step_s
            if size <= self._most_bytes // 4:
                self._put(key, machines, Timed(timed.need, timed.capacity, narrow), size)

        return Timed(timed.need, timed.capacity, pieces())

    def _put(self, key: Hashable, machines: Machines, timed: Timed, size: int) -> None:
        with self._lock:
            self._drop((key, id(machines)))
            # The machine classes are held, so that no other ones can come to have their identity.
            self._known[key, id(machines)] = (machines, timed, size)
            self._bytes += size
            while self._bytes > self._most_bytes:
                self._drop(next(iter(self._known)))

    def cache_clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._known.clear()
            self._bytes = 0

    def _drop(self, key: Hashable) -> None:
        found = self._known.pop(key, None)
        if found is not None:
            self._bytes -= found[2]


#: Some fifty fine-tunings or three pretrainings on the whole market.
KEPT = KeptTimes(most_bytes=64_000_000)
