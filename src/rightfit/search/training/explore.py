"""One search from end to end: wish and market in, every offer judged and priced out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rightfit.estimation.data_path import DataLoad, DataPath, data_path
from rightfit.estimation.figures import FigureColumns
from rightfit.estimation.training import MemoryColumns, StepColumns
from rightfit.physics.columns import Array, DeviceColumns, LinkColumns, SetupColumns
from rightfit.records import dataclass
from rightfit.search.answer import Layout
from rightfit.search.constraints import Failures, Feasibility, Filters, judge
from rightfit.search.market import Bill, Staged, Volume, bill
from rightfit.search.offers import Market, hosts_of, known_host_bytes
from rightfit.search.option_facts import WorkFacts
from rightfit.search.rank import Row, distinct_rows
from rightfit.search.risk import Risk, Spread, surety_of_job
from rightfit.search.sources import moved_usd
from rightfit.search.training.evaluate import Best, Physics, memory_of, search_setups, work_steps
from rightfit.search.training.machines import Fleet, Machines
from rightfit.search.training.space import NODE_COUNTS, SetupTable, Sharding, Space, SpaceLimits, build_space
from rightfit.search.training.wish import TrainingRequest

if TYPE_CHECKING:
    from rightfit.market.offers import ServerTable
    from rightfit.workload import Workload


# ---- All that one search for a training job found, and what the two families of training tell it:
# how a job of theirs is bounded, prepared, loaded, evaluated and told.


class TrainingEngine(Physics, Protocol):
    """The physics of one job: what evaluates every candidate, and what a few chosen rows
    are told in full by."""

    def volume(self, wish: Any, base: SetupColumns) -> Volume:
        """Bytes kept and moved by the whole job."""
        ...

    def details(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns) -> tuple[MemoryColumns, StepColumns]:
        """Memory and step of a few rows, term by term."""
        ...

    def phases(self, setup: SetupColumns, device: DeviceColumns) -> dict[str, Array]:
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
    """Everything evaluated on a few rows, one array row each. `stored_bytes`: peak memory if no
    activation were recomputed; `waiting_s`: of a step for data. `risks`: what stops do to a run
    that may well be stopped, whose time and deadline then come from there."""

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
    #: Peak memory if every linear layer had the adapters that nobody placed; None where they are
    #: placed, or there are none.
    adapted_bytes: Array | None = None


@dataclass(frozen=True, slots=True)
class Craft:
    """One family of training.

    read: a wish from a workload. limits: bounds of the space of set-ups. fleet: machine classes of
    servers. base: what every set-up has in common. engine: the physics of a job, which refuses what
    fits nowhere. load: the data of a run. evaluate: chosen rows in full. layout, facts: a layout
    and the facts of an option in the family's words. unit_cost: the key of Cost that a run is
    priced by, and how many millions of them it has.
    """

    read: Callable[[Workload], TrainingRequest]
    limits: Callable[[Any, tuple[int, ...]], SpaceLimits]
    fleet: Callable[[ServerTable, Any], Fleet]
    base: Callable[[Any, Machines], SetupColumns]
    engine: Callable[[Any, Machines], TrainingEngine]
    load: Callable[[Any, Volume], DataLoad]
    evaluate: Callable[[TrainingResult, Sequence[Row], int | None], Details]
    layout: Callable[[TrainingResult, Details, int, Layout], Layout]
    facts: Callable[[Any], WorkFacts]
    unit_cost: Callable[[TrainingRequest], tuple[str, float]]


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """All that one search found. Rows of `bill` and `failures` are offers, columns the node
    counts of `space`."""

    wish: TrainingRequest
    filters: Filters
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

    def is_tight(self, offer: NDArray[np.intp], column: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of many rows (offer, column) may lack memory on the cards."""
        server = self.market.offers.server_index[offer]
        tier = self.best.tier_of(known_host_bytes(self.market.offers.servers))[server]
        return self.best.is_tight[self.fleet.machine_index[server], column, tier]

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


Index = NDArray[np.intp]


def explore(
    wish: TrainingRequest,
    market: Market,
    filters: Filters,
    craft: Craft,
    *,
    node_counts: tuple[int, ...] = NODE_COUNTS,
    engine: TrainingEngine | None = None,
) -> TrainingResult:
    """Search every setup on every machine, then price and judge every offer."""
    fleet = craft.fleet(market.offers.servers, wish)
    machines = fleet.machines
    space = build_space(craft.limits(wish, node_counts), blocks=machines.blocks)
    base, engine = craft.base(wish, machines), engine or craft.engine(wish, machines)
    servers = market.offers.servers
    best = search_setups(space, machines, base, engine, tokens=wish.amount.tokens, host_memory=known_host_bytes(servers))
    run_s, feasible = by_server(best, fleet, known_host_bytes(servers))
    volume = engine.volume(wish, base)
    path = path_of(craft.load(wish, volume), market, run_s, needed_memory_bytes=feasible.least_host_bytes, node_counts=node_counts)
    prices = price(market, volume, path, moved=moved_usd(filters.source, market.offers, volume), node_counts=node_counts)
    counts = np.array(node_counts, dtype=np.float64)
    sure = surety_of_job(
        prices,
        market,
        spread=lambda: of_offers(time_spread(space, base, engine, fleet, best, known_host_bytes(servers)), market),
        volume=volume,
        nodes=counts,
        is_limited=filters.is_limited,
    )
    failures = judge(market.offers, filters, feasible=feasible, sure=sure, node_counts=counts)
    return TrainingResult(
        wish, filters, market, fleet, space, base, engine, craft, best, prices, failures, feasible, failures.bits(), volume, path
    )


def path_of(load: DataLoad, market: Market, run_s: Array, *, needed_memory_bytes: Array, node_counts: tuple[int, ...]) -> DataPath:
    """The data path of every (server, node count) from its compute time."""
    nodes = np.array(node_counts, dtype=np.float64)
    hosts = hosts_of(market.offers.servers)
    return data_path(load, hosts, run_s=run_s, nodes=nodes, needed_memory_bytes=needed_memory_bytes)


def price(market: Market, volume: Volume, path: DataPath, *, moved: Array, node_counts: tuple[int, ...]) -> Bill:
    """Time and money of every (offer, node count) from the data path of every
    (server, node count)."""
    offers, servers = market.offers, market.offers.servers
    rows = offers.server_index
    return bill(
        path.run_s[rows],
        price_usd_per_h=offers.price_usd_per_h,
        accelerators=servers.num_accelerators[offers.server_index],
        network_bytes_per_s=np.nan_to_num(servers.network_bytes_per_s)[offers.server_index],
        local_nvme_bytes=np.nan_to_num(servers.local_nvme_bytes)[offers.server_index],
        nodes=np.array(node_counts, dtype=np.float64),
        volume=volume,
        market=market.charges,
        staged=Staged(path.staging_s[rows], path.stored_bytes[rows], path.price_factor[rows], moved),
    )


def time_spread(space: Space, base: SetupColumns, engine: TrainingEngine, fleet: Fleet, best: Best, host_memory: Array) -> Spread:
    """How far the time of each (server, node count) may lie above the predicted one; 1
    where no set-up fits."""
    machine, node, tier = np.nonzero(best.setup >= 0)
    chosen, card = best.setup[machine, node, tier], fleet.machines.device_code[machine]
    first, alike = distinct_rows([chosen, card])
    known = engine.time_spread(space.setups.take(chosen[first]).columns(base), fleet.machines.device.take(machine[first]))
    able, tiers = fleet.machine_index >= 0, best.tier_of(host_memory)
    usable, at = (able & (tiers >= 0))[:, None], (np.maximum(fleet.machine_index, 0), slice(None), np.maximum(tiers, 0))
    ends = []
    for values in (known.high80, known.high95):
        cells = np.ones(best.setup.shape)
        cells[machine, node, tier] = np.broadcast_to(values, first.shape)[alike]
        ends.append(np.where(usable, cells[at], 1.0) if len(fleet.machines) else np.ones((host_memory.shape[0], best.run_s.shape[1])))
    return Spread(*ends)


def of_offers(spread: Spread, market: Market) -> Spread:
    """The spread of every offer from those of the servers."""
    rows = market.offers.server_index
    return Spread(spread.high80[rows], spread.high95[rows])


def by_server(best: Best, fleet: Fleet, host_memory: Array) -> tuple[Array, Feasibility]:
    """Run time and feasibility of each (server, node count) from those of its machine
    class and host tier."""
    able = fleet.machine_index >= 0
    machine, tier = np.maximum(fleet.machine_index, 0), best.tier_of(host_memory)
    if not len(fleet.machines):
        nothing = np.full((host_memory.shape[0], best.run_s.shape[1]), np.inf)
        return nothing, Feasibility(fleet.missing, nothing < 0, nothing < 0, nothing < 0, nothing, host_memory, nothing, host_memory)
    run_s = np.where((able & (tier >= 0))[:, None], best.run_s[machine, :, np.maximum(tier, 0)], np.inf)
    least = np.where(able[:, None], best.least_bytes[machine], np.inf)
    return run_s, Feasibility(
        missing=fleet.missing,
        has_layout=np.isfinite(least),
        fits_accelerator=np.isfinite(best.least_host_bytes[machine]) & able[:, None],
        fits_host=np.isfinite(run_s),
        least_bytes=least,
        capacity_bytes=np.where(able, best.capacity_bytes[machine], np.nan),
        least_host_bytes=best.least_host_bytes[machine],
        host_bytes=host_memory,
    )


# ---- Where no set-up fits a server: what the one that needs least memory would take, as if it did.


def with_least_memory(search_result: TrainingResult) -> TrainingResult:
    """Where no setup fits: the search as if the one that needs least memory did, to say how much
    that is and how long it would take."""
    space, machines = search_result.space, search_result.fleet.machines
    need = memory_of(space.setups, search_result.base, machines, search_result.engine)
    if not space.setups.num_rows:
        return search_result
    over = np.maximum(
        need.safe_bytes[need.caution[0]], search_result.best.capacity_bytes[0]
    )  # what fits the accelerators is equally good: then the host decides
    chosen = int(np.lexsort((np.arange(space.setups.num_rows), need.host_bytes, over))[0])
    setup = space.setups.take(np.array([chosen]))
    _, step = search_result.engine.details(
        setup.columns(search_result.base), machines.device.take(np.zeros(1, dtype=np.intp)), machines.links
    )
    run_s = step.step_s[:1] * work_steps(setup, tokens=search_result.wish.amount.tokens, seq_len=search_result.wish.seq_len)
    best = dataclasses.replace(
        search_result.best,
        run_s=np.full_like(search_result.best.run_s, run_s[0]),
        setup=np.full_like(search_result.best.setup, chosen),
        tiers=np.array([np.inf]),
    )
    best = dataclasses.replace(best, run_s=best.run_s[:, :, :1], setup=best.setup[:, :, :1], tiers=np.zeros(1))
    times, _ = by_server(best, search_result.fleet, search_result.market.offers.servers.memory_bytes)
    node_counts = space.limits.node_counts
    path = path_of(
        search_result.craft.load(search_result.wish, search_result.volume),
        search_result.market,
        times,
        needed_memory_bytes=np.full((1, 1), np.inf),
        node_counts=node_counts,
    )
    moved = moved_usd(search_result.filters.source, search_result.market.offers, search_result.volume)
    return dataclasses.replace(
        search_result,
        best=best,
        path=path,
        bill=price(search_result.market, search_result.volume, path, moved=moved, node_counts=node_counts),
    )
