"""What every candidate needs and how long its step takes, kept between questions: neither depends on the amount of work, prices, limits or
places, which are what most next questions change."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array
from rightfit.recent import Recent
from rightfit.records import dataclass
from rightfit.search.training.machines import Machines

Index = NDArray[np.intp]
Codes = NDArray[Any]


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
        # The machine classes are held, so that no other ones can come to have their identity.
        self._known: Recent[Hashable, tuple[Machines, Timed]] = Recent(most_bytes, size_of=lambda entry: _size_of(entry[1]))

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Hashable, machines: Machines) -> Timed | None:
        """The times of a job on these machine classes, where they are kept."""
        found = self._known.get((key, id(machines)))
        if found is None:
            return None
        _, timed = found
        wide = ((machine.astype(np.intp), setup.astype(np.intp), step_s) for machine, setup, step_s in timed.pieces)
        return Timed(timed.need, timed.capacity, wide)

    def kept(self, key: Hashable, machines: Machines, timed: Timed) -> Timed:
        """The same times, which are kept once all pieces were taken, if they are not too large."""

        def pieces() -> Iterator[tuple[Codes, Codes, Array]]:
            narrow: list[tuple[Codes, Codes, Array]] = []
            entry = Timed(timed.need, timed.capacity, narrow)
            for machine, setup, step_s in timed.pieces:
                if _size_of(entry) <= self._known.largest_bytes:  # no more is copied of what will not be kept
                    narrow.append((machine.astype(np.int32), setup.astype(np.int32), step_s))
                yield machine, setup, step_s
            self._known.put((key, id(machines)), (machines, entry))

        return Timed(timed.need, timed.capacity, pieces())

    def cache_clear(self) -> None:
        """Forget everything."""
        self._known.clear()


def _size_of(timed: Timed) -> int:
    """What kept times cost [bytes]."""
    need = timed.need
    arrays = [need.peak_bytes, need.safe_bytes, need.host_bytes, need.caution, *(part for piece in timed.pieces for part in piece)]
    return sum(array.nbytes for array in arrays)


#: Some fifty fine-tunings or three pretrainings on the whole market.
KEPT = KeptTimes(most_bytes=64_000_000)
