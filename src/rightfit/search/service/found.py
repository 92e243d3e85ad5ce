"""All that one search for a service or a batch of inference found."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rightfit.errors import ContradictionError, InputError
from rightfit.facts.devices import cut, slice_of
from rightfit.messages import Message
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search.answer import Reason, Section
from rightfit.search.constraints import Failures, Filters, accelerators_of
from rightfit.search.criteria import NO_RDMA
from rightfit.search.market import Bill
from rightfit.search.offers import Market
from rightfit.search.service.grid import Capacity, ReplicaGrid, TokenTimes
from rightfit.search.service.space import CPU_FAMILY, ServingFleet, ServingSpace
from rightfit.search.service.wish import ServingRequest

if TYPE_CHECKING:
    from rightfit.market import ServerTable
    from rightfit.search.answer import Option
    from rightfit.workload import Workload


Index = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Queued:
    """One candidate at one number of replicas by the queue model: percentiles by "metric@share",
    capacity of a replica, sequences in flight."""

    replicas: float
    values: Mapping[str, float]
    capacity_per_s: float
    batch: float
    utilisation: float
    excess: float


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What was found of candidates: row of the space -> the queue model's figures, or the least
    latencies of one that was dropped."""

    kept: Mapping[int, Queued] = dataclasses.field(default_factory=dict)
    dropped: Mapping[int, Queued] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.kept or self.dropped)


@dataclass(frozen=True, slots=True)
class ServingBill:
    """Money of a month by (offer, format column); `total_s` is the latency of a request under the
    load, which `--objective time` ranks by."""

    total_usd: Array
    total_s: Array
    hourly_usd: Array
    servers_usd: Array
    storage_usd: Array
    egress_usd: Array
    network_usd: Array


@dataclass(frozen=True, slots=True)
class Sizing:
    """The best candidate of each (machine class, format column): its row (-1: none), replicas,
    servers and latency under the load; `needed` the fewest replicas that would do."""

    row: Index
    replicas: Array
    servers: Array
    latency_s: Array
    needed: Array


@dataclass(frozen=True, slots=True)
class ServingResult:
    """All that one serving search found. Rows of `bill` and `bits` are offers; columns are weight
    formats (column 0: as published)."""

    wish: ServingRequest
    filters: Filters
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
        """Servers of an (offer, column); infinity where no number of them is enough, one where the
        server can run nothing."""
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
        if not split.any():
            return split
        plain = np.array([word in NO_RDMA for word in servers.rdma], dtype=np.bool_)
        return np.asarray(split & plain[self.market.offers.server_index[offer]])

    def is_tight(self, offer: Index, column: Index) -> NDArray[np.bool_]:
        """Which of many rows may lack memory: none, since engines take fewer requests at once."""
        return np.zeros(offer.shape, dtype=np.bool_)

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


# ---- Several models on one server: replicas on slices of its cards, and neighbours that
# take some of them.


def sliced_fleet(fleet: ServingFleet, workload: Workload, servers: ServerTable) -> ServingFleet:
    """The fleet with the slices that a workload asks for in place of whole cards; classes whose
    cards have none such serve nothing."""
    if not workload.slice:
        return fleet
    names = [servers.accelerator_name[row] for row in fleet.first.tolist()]
    parts = [slice_of(name, workload.slice) if name else None for name in names]
    asked = tuple(name for gpu in workload.gpu for name in accelerators_of(gpu) if name)
    if asked and not any(slice_of(name, workload.slice) for name in asked):
        raise ContradictionError(
            Message("search.no_such_slice", slice=workload.slice, cards=", ".join(workload.gpu), card=asked[0]),
            field="slice",
        )
    known = np.array([part is not None for part in parts] or np.zeros(0), dtype=np.bool_)
    number = np.cumsum(known) - 1
    listed = fleet.machine_index >= 0
    machine = np.where(listed, np.where(known[np.maximum(fleet.machine_index, 0)], number[np.maximum(fleet.machine_index, 0)], -1), -1)
    kept = np.flatnonzero(known)
    lacking = listed & (machine < 0)
    return dataclasses.replace(
        fleet,
        accelerators=tuple(cut(card, part) for card, part in zip(fleet.accelerators, parts, strict=True) if part is not None),
        families=tuple(fleet.families[at] for at in kept.tolist()),
        gpus_per_node=np.array(
            [count * part.per_card for count, part in zip(fleet.gpus_per_node.tolist(), parts, strict=True) if part is not None],
            dtype=np.intp,
        ),
        first=fleet.first[kept],
        machine_index=machine.astype(np.intp),
        missing=tuple("slices" if lacks else text for lacks, text in zip(lacking.tolist(), fleet.missing, strict=True)),
        stacks=tuple(fleet.stacks[at] for at in kept.tolist()),
    )


def neighbours_of(workload: Workload) -> tuple[Workload, ...]:
    """The wishes of the models that are to stand on the same servers: "MODEL" or
    "MODEL@RATE" each."""
    found = []
    for text in workload.beside:
        name, _, rate = text.rpartition("@") if "@" in text else (text, "", "")
        if not name.strip():
            raise InputError(Message("search.beside_no_model", text=text), field="beside")
        shared = {key: value for key in ("cloud", "region", "country", "gpu", "purchase") if (value := getattr(workload, key))}
        wishes = {"model": name.strip(), "task": "serve", **({"rate": rate} if rate else {}), **shared}
        found.append(type(workload)(**wishes, **({"slice": workload.slice} if workload.slice else {})))
    return tuple(found)


def taken_by(neighbours: tuple[ServingResult, ...], fleet: ServingFleet) -> Array:
    """Cards or slices of a fleet of each class that the replicas of neighbours take (classes,);
    infinity where one of them does not run.

    A neighbour that would run on the server's processors is not meant: it stands on its cards.
    """
    taken = np.zeros(len(fleet))
    for other in neighbours:
        for machine, server in enumerate(fleet.first.tolist()):
            theirs = int(other.fleet.machine_index[server]) if server < other.fleet.machine_index.shape[0] else -1
            taken[machine] += _devices(other, theirs)
    return taken


def _devices(other: ServingResult, machine: int) -> float:
    if machine < 0 or other.fleet.families[machine].startswith(CPU_FAMILY):
        return math.inf
    rows = [int(row) for row in other.sizing.row[machine] if row >= 0]
    needs = [
        float(other.sizing.needed[machine, column]) * float(other.space.tensor[row])
        for column, row in enumerate(other.sizing.row[machine].tolist())
        if row >= 0 and int(other.space.nodes[row]) == 1
    ]
    return min(needs) if rows and needs else math.inf


def shared_fleet(fleet: ServingFleet, workload: Workload, servers: ServerTable, explored: Callable[[Workload], object]) -> ServingFleet:
    """The fleet as slices where they are asked for, with what the neighbours of a workload
    take of each class.

    `explored`: what the family of a neighbour, which is any family of services, finds for it.
    """
    fleet = sliced_fleet(fleet, workload, servers)
    if not workload.beside:
        return fleet
    others = tuple(_served(explored(other)) for other in neighbours_of(workload))
    return dataclasses.replace(fleet, taken=taken_by(others, fleet))


def _served(found: object) -> ServingResult:
    """What is found for a neighbour, which is asked to serve."""

    assert isinstance(found, ServingResult)
    return found


def sharing_section(search_result: ServingResult, option: Option, *, server: int) -> Section | None:
    """How the cards of the first option are shared: slices, what each has, what is lost, and who
    stands beside. `server`: its row in the market's table."""
    workload = search_result.wish.workload
    if not workload.slice and not workload.beside:
        return None
    reasons: list[Reason] = []
    content: dict[str, float | str] = {"used": option.layout.data, "servers": option.nodes}
    if workload.slice and (part := slice_of(option.accelerator.name, workload.slice)):
        card = next(card for card in search_result.fleet.accelerators if card.name.startswith(f"{option.accelerator.name}/"))
        slots = part.per_card * option.accelerator.count_per_node * option.nodes
        content |= {
            "slice": part.name,
            "memory_bytes": card.memory_bytes,
            "compute_share": part.compute_share,
            "per_card": part.per_card,
            "slots": slots,
            "unused_share": max(0.0, 1.0 - part.per_card * part.compute_share),
            "source": part.source,
        }
        reasons.append(Reason("serve_slice" if part.isolated else "serve_fraction", content))
    if workload.beside:
        machine = int(search_result.fleet.machine_index[server])
        content |= {"beside": ", ".join(workload.beside), "taken": float(search_result.fleet.taken[machine])}
        reasons.append(Reason("serve_beside", content))
    return Section("sharing", content, tuple(reasons))
