"""All that one search for a service or a batch of inference found."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search.constraints import Failures, Wanted
from rightfit.search.market import Bill
from rightfit.search.offers import Market
from rightfit.search.placement import NO_RDMA
from rightfit.search.service.grid import Capacity, ReplicaGrid, TokenTimes
from rightfit.search.service.space import ServingFleet, ServingSpace
from rightfit.search.service.wish import ServingWish

if TYPE_CHECKING:
    from rightfit.workload import Workload

Index = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Queued:
    """One candidate at one number of replicas by the queue model: percentiles by "metric@share", capacity of a replica, sequences in
    flight."""

    replicas: float
    values: Mapping[str, float]
    capacity_per_s: float
    batch: float
    utilisation: float
    excess: float


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What was found of candidates: row of the space -> the queue model's figures, or the least latencies of one that was dropped."""

    kept: Mapping[int, Queued] = dataclasses.field(default_factory=dict)
    dropped: Mapping[int, Queued] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.kept or self.dropped)


@dataclass(frozen=True, slots=True)
class ServingBill:
    """Money of a month by (offer, format column); `total_s` is the latency of a request under the load, which `--objective time` ranks
    by."""

    total_usd: Array
    total_s: Array
    hourly_usd: Array
    servers_usd: Array
    storage_usd: Array
    egress_usd: Array
    network_usd: Array


@dataclass(frozen=True, slots=True)
class Sizing:
    """The best candidate of each (machine class, format column): its row (-1: none), replicas, servers and latency under the load."""

    row: Index
    replicas: Array
    servers: Array
    latency_s: Array


@dataclass(frozen=True, slots=True)
class ServingExploration:
    """All that one serving search found. Rows of `bill` and `bits` are offers; columns are weight formats (column 0: as published)."""

    wish: ServingWish
    wanted: Wanted
    market: Market
    fleet: ServingFleet
    space: ServingSpace
    grid: ReplicaGrid
    capacity: Capacity
    formats: tuple[str, ...]
    column: Index
    sizing: Sizing
    bill: ServingBill | Bill
    failures: Failures
    bits: NDArray[np.int32]
    passes: Array | None = None
    times: TokenTimes | None = None
    confirmed: Confirmed = dataclasses.field(default_factory=Confirmed)

    @property
    def workload(self) -> Workload:
        """The wish as the user gave it."""
        return self.wish.workload

    def nodes(self, cell: tuple[int, int]) -> float:
        """Servers of an (offer, column); infinity where no number of them is enough, one where the server can run nothing."""
        machine = int(self.fleet.machine_index[int(self.market.offers.server_index[cell[0]])])
        return float(self.sizing.servers[machine, cell[1]]) if machine >= 0 else 1.0

    def num_servers(self, offer: Index, column: Index) -> Array:
        """Servers of many rows (offer, column); infinity where no number of them is enough."""
        machine = self.fleet.machine_index[self.market.offers.server_index[offer]]
        if not self.sizing.servers.shape[0]:
            return np.ones(offer.shape)
        return np.where(machine >= 0, self.sizing.servers[np.maximum(machine, 0), column], 1.0)

    def together(self, cell: tuple[int, int]) -> int:
        """Servers of one replica: replicas do not talk to each other."""
        at = self.candidate(*cell)
        return int(self.space.nodes[at]) if at >= 0 else 1

    def last_resort(self, offer: Index, column: Index) -> NDArray[np.bool_]:
        """Which of many rows split a replica over servers that RDMA does not join."""
        servers = self.market.offers.servers
        machine = self.fleet.machine_index[self.market.offers.server_index[offer]]
        if not len(self.space) or not self.sizing.row.shape[0]:
            return np.zeros(offer.shape, dtype=np.bool_)
        row = np.where(machine >= 0, self.sizing.row[np.maximum(machine, 0), column], -1)
        split = (row >= 0) & (self.space.nodes[np.maximum(row, 0)] > 1)
        plain = np.array([word in NO_RDMA for word in servers.rdma], dtype=np.bool_)
        return np.asarray(split & plain[self.market.offers.server_index[offer]])

    def missing(self, server: int) -> str:
        """What a server lacks to run the model at all."""
        return self.fleet.missing[server]

    def sizing_of(self, candidate: int) -> float:
        """Replicas that a candidate was given, where it is the best of its class and format."""
        at = int(self.space.machine[candidate]), int(self.column[candidate])
        return float(self.sizing.replicas[at])

    def candidate(self, offer: int, column: int) -> int:
        """The row of the space that an offer would run."""
        machine = int(self.fleet.machine_index[int(self.market.offers.server_index[offer])])
        return int(self.sizing.row[machine, column]) if machine >= 0 else -1
