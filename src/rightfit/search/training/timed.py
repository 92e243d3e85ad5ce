"""What every setup needs and how long the steps of the contenders take, kept between questions: neither depends on the amount of work, prices,
limits or places, which are what most next questions change."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array
from rightfit.recent import Recent
from rightfit.records import dataclass
from rightfit.search.training.machines import Machines

Codes = NDArray[Any]


class Piece(NamedTuple):
    """Contenders of some machine classes: machine class, setup, seconds of a step. `num_timed` candidates were timed to find them."""

    machine: Codes
    setup: Codes
    step_s: Array
    num_timed: int


@dataclass(frozen=True, slots=True)
class Timed:
    """What each setup needs of a host, the least that any needs of an accelerator, by (machine class, node count), and what each machine class has of
    it [bytes]; the contenders among all that fits, in pieces."""

    host_bytes: Array
    least_bytes: Array
    capacity: Array
    pieces: Iterable[Piece]

    def with_pieces(self, pieces: Iterable[Piece]) -> Timed:
        """The same with other pieces."""
        return Timed(self.host_bytes, self.least_bytes, self.capacity, pieces)


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
        wide = (piece._replace(machine=piece.machine.astype(np.intp), setup=piece.setup.astype(np.intp)) for piece in timed.pieces)
        return timed.with_pieces(wide)

    def kept(self, key: Hashable, machines: Machines, timed: Timed) -> Timed:
        """The same times, which are kept once all pieces were taken, if they are not too large."""

        def pieces() -> Iterator[Piece]:
            narrow: list[Piece] = []
            entry = timed.with_pieces(narrow)
            for piece in timed.pieces:
                if _size_of(entry) <= self._known.largest_bytes:  # no more is copied of what will not be kept
                    narrow.append(piece._replace(machine=piece.machine.astype(np.int32), setup=piece.setup.astype(np.int32)))
                yield piece
            self._known.put((key, id(machines)), (machines, entry))

        return timed.with_pieces(pieces())

    def cache_clear(self) -> None:
        """Forget everything."""
        self._known.clear()


def _size_of(timed: Timed) -> int:
    """What kept times cost [bytes]."""
    arrays = (timed.host_bytes, timed.least_bytes, timed.capacity)
    return sum(array.nbytes for array in (*arrays, *(part for piece in timed.pieces for part in piece[:3])))


#: Some fifty jobs on the whole market.
KEPT = KeptTimes(most_bytes=64_000_000)
