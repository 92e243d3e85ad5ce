"""All that one search for a training job found, and what the two families of training tell it: how a job of theirs is bounded, prepared,
loaded,
evaluated and told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rightfit.estimate.data_path import DataLoad, DataPath
from rightfit.estimate.figures import FigureColumns
from rightfit.estimate.memory import MemoryColumns
from rightfit.estimate.speed import StepColumns
from rightfit.physics.columns import Array, DeviceColumns, LinkColumns, SetupColumns
from rightfit.records import dataclass
from rightfit.search.answer import Layout
from rightfit.search.constraints import Failures, Feasibility, Wanted
from rightfit.search.market import Bill, Volume
from rightfit.search.offers import Market, known_host_bytes
from rightfit.search.option_facts import WorkFacts
from rightfit.search.rank import Row
from rightfit.search.risk import Risk
from rightfit.search.surety import Spread
from rightfit.search.training.evaluate import Best, Physics
from rightfit.search.training.machines import Fleet, Machines
from rightfit.search.training.space import SetupTable, Sharding, Space, SpaceLimits
from rightfit.search.training.wish import TrainingWish

if TYPE_CHECKING:
    from rightfit.catalog.offers import ServerTable
    from rightfit.workload import Workload


class TrainingEngine(Physics, Protocol):
    """The physics of one job: what evaluates every candidate, and what a few chosen rows are told in full by."""

    def volume(self, wish: Any, base: SetupColumns) -> Volume:
        """Bytes kept and moved by the whole job."""
        ...

    def details(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns) -> tuple[MemoryColumns, StepColumns]:
        """Memory and step of a few rows, term by term."""
        ...

    def phases(self, setup: SetupColumns) -> dict[str, Array]:
        """What the card must hold at each moment that is told apart [bytes]."""
        ...

    def time_spread(self, setup: SetupColumns, device: DeviceColumns) -> Spread:
        """How far the time of each row may lie above the predicted one."""
        ...

    def uncalibrated(self, device: DeviceColumns) -> NDArray[Any]:
        """Accelerators of families that no time was calibrated on."""
        ...


@dataclass(frozen=True, slots=True)
class Details:
    """Everything evaluated on a few rows, one array row each. `stored_bytes`: peak memory if no activation were recomputed; `waiting_s`: of
    a step
    for data. `risks`: what stops do to a run that may well be stopped, whose time and deadline then come from there."""

    setups: SetupTable
    columns: SetupColumns
    memory: MemoryColumns
    step: StepColumns
    figures: dict[str, FigureColumns]
    fit_probability: Array
    deadline_probability: Array
    uncalibrated: NDArray[np.bool_]
    stored_bytes: Array
    waiting_s: Array
    risks: tuple[Risk | None, ...]


@dataclass(frozen=True, slots=True)
class Craft:
    """One family of training.

    read: a wish from a workload. limits: bounds of the space of set-ups. fleet: machine classes of servers. base: what every set-up has in
    common. engine: the physics of a job, which
    refuses what fits nowhere. load: the data of a run. evaluate: chosen rows in full. layout, facts: a layout and the facts of an option in
    the family's
    words. unit_cost: the key of Cost that a run is priced by, and how many millions of them it has.
    """

    read: Callable[[Workload], TrainingWish]
    limits: Callable[[Any, tuple[int, ...]], SpaceLimits]
    fleet: Callable[[ServerTable, Any], Fleet]
    base: Callable[[Any, Machines], SetupColumns]
    engine: Callable[[Any, Machines], TrainingEngine]
    load: Callable[[Any, Volume], DataLoad]
    evaluate: Callable[[Exploration, Sequence[Row], int | None], Details]
    layout: Callable[[Exploration, Details, int, Layout], Layout]
    facts: Callable[[Any], WorkFacts]
    unit_cost: Callable[[TrainingWish], tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Exploration:
    """All that one search found. Rows of `bill` and `failures` are offers, columns the node counts of `space`."""

    wish: TrainingWish
    wanted: Wanted
    market: Market
    fleet: Fleet
    space: Space
    base: SetupColumns
    engine: TrainingEngine
    craft: Craft
    best: Best
    bill: Bill
    failures: Failures
    feasible: Feasibility
    bits: NDArray[np.int32]
    volume: Volume
    path: DataPath

    @property
    def workload(self) -> Workload:
        """The wish as the user gave it."""
        return self.wish.workload

    def nodes(self, cell: tuple[int, int]) -> int:
        """Servers of an (offer, column)."""
        return self.space.limits.node_counts[cell[1]]

    def num_servers(self, offer: NDArray[np.intp], column: NDArray[np.intp]) -> Array:
        """Servers of many rows (offer, column)."""
        return self.node_counts[column]

    def together(self, cell: tuple[int, int]) -> int:
        """All servers of a run work as one."""
        return self.nodes(cell)

    def last_resort(self, offer: NDArray[np.intp], column: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of many rows (offer, column) keep optimizer state or weights in host memory."""
        server = self.market.offers.server_index[offer]
        tier = self.best.tier_of(known_host_bytes(self.market.offers.servers))[server]
        setup = self.best.setup[self.fleet.machine_index[server], column, tier]
        return np.asarray((setup >= 0) & (self.space.setups.sharding[setup] >= Sharding.OFFLOAD_OPTIMIZER))

    def missing(self, server: int) -> str:
        """What a server lacks to run the job at all."""
        return self.fleet.missing[server]

    @property
    def node_counts(self) -> Array:
        """Node counts of the columns."""
        return np.array(self.space.limits.node_counts, dtype=np.float64)

    def setup_of(self, offer: int, node: int) -> int:
        """The setup row that an offer would run with, -1 where none fits."""
        server = int(self.market.offers.server_index[offer])
        machine = int(self.fleet.machine_index[server])
        tier = int(self.best.tier_of(known_host_bytes(self.market.offers.servers)[[server]])[0])
        return int(self.best.setup[machine, node, tier]) if machine >= 0 and tier >= 0 else -1
