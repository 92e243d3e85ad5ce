"""What every search hands to the frame: the frame ranks, refuses, bills and judges through this and knows no family of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array
from rightfit.search.constraints import Failures, Wanted
from rightfit.search.market import BillColumns
from rightfit.search.offers import Market

if TYPE_CHECKING:
    from rightfit.workload import Workload

Bits = NDArray[np.int32]
Index = NDArray[np.intp]


class Found(Protocol):
    """All that one search found. Rows of `bill` and `bits` are offers of `market`; what the columns are (numbers of servers, formats of
    weights) is the
    family's own business."""

    @property
    def wanted(self) -> Wanted: ...
    @property
    def market(self) -> Market: ...
    @property
    def bill(self) -> BillColumns: ...
    @property
    def failures(self) -> Failures: ...
    @property
    def bits(self) -> Bits: ...
    @property
    def workload(self) -> Workload: ...

    def nodes(self, cell: tuple[int, int]) -> float:
        """Servers that an (offer, column) rents; infinity where no number of them is enough."""
        ...

    def num_servers(self, offer: Index, column: Index) -> Array:
        """`nodes` of many rows at once."""
        ...

    def together(self, cell: tuple[int, int]) -> int:
        """Of the servers of an (offer, column) how many work as one: they exchange data at every step."""
        ...

    def last_resort(self, offer: Index, column: Index) -> NDArray[np.bool_]:
        """Which of many rows run in a way that an engineer takes only where nothing else is affordable: state of the run in host memory, a
        replica over servers that RDMA does not join."""
        ...

    def missing(self, server: int) -> str:
        """What a server of the market lacks to run the job at all; empty where nothing."""
        ...
