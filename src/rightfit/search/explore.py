"""One search from end to end: wish and market in, every offer judged and priced out."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.catalog.offers import OfferTable, ServerTable
from rightfit.estimate.data_path import DataPath, data_path
from rightfit.estimate.hosts import HostColumns, host_columns
from rightfit.physics.columns import Array, Method, Recompute, SetupColumns
from rightfit.search.charges import read_market_facts
from rightfit.search.constraints import Failures, Feasibility, Wanted, judge
from rightfit.search.doubt import PriceDoubt, with_doubt
from rightfit.search.engine import Engine
from rightfit.search.evaluate import Best, search_setups
from rightfit.search.loads import moved_usd, read_load
from rightfit.search.machines import Fleet, Machines, base_setup, build_fleet
from rightfit.search.market import Bill, MarketFacts, Staged, Volume, bill
from rightfit.search.sample_wish import SampleWish
from rightfit.search.software import splits_models
from rightfit.search.space import NODE_COUNTS, Sharding, Space, SpaceLimits, build_space
from rightfit.search.wish import Wish

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.search.training_engine import SampleEngine

Index = NDArray[np.intp]

SHARDINGS = {"none": (Sharding.NONE,), "zero1": (Sharding.ZERO1,), "zero2": (Sharding.ZERO2,), "zero3": (Sharding.ZERO3,)}
FULLY_SHARDED = (Sharding.ZERO3, Sharding.HYBRID)


@dataclasses.dataclass(frozen=True, slots=True)
class Market:
    """What can be rented: offers (sound prices only, estimates at their expected price), what else they charge, the age of the prices, and how sure each
    price is (None: all are quotes)."""

    offers: OfferTable
    charges: MarketFacts
    as_of: Mapping[str, str]
    doubt: PriceDoubt | None = None

    def take(self, rows: NDArray[np.intp]) -> Market:
        """The given offers, with all that belongs to them."""
        return Market(self.offers.take(rows), self.charges.take(rows), self.as_of, self.doubt.take(rows) if self.doubt else None)


@dataclasses.dataclass(frozen=True, slots=True)
class Exploration:
    """All that one search found. Rows of `bill` and `failures` are offers, columns the node counts of `space`."""

    wish: Wish
    wanted: Wanted
    market: Market
    fleet: Fleet
    space: Space
    base: SetupColumns
    engine: Engine | SampleEngine
    best: Best
    bill: Bill
    failures: Failures
    feasible: Feasibility
    bits: NDArray[np.int32]
    volume: Volume
    path: DataPath

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


_markets: weakref.WeakKeyDictionary[Any, Market] = weakref.WeakKeyDictionary()


def open_market(catalog: Catalog) -> Market:
    """The market of a catalog, read once."""
    if catalog not in _markets:
        table = catalog.all_offers(has_accelerator=True)
        offers = table.take(~table.is_quarantined & np.isfinite(table.price_usd_per_h))
        _markets[catalog] = read_market(catalog, offers)
    return _markets[catalog]


def read_market(catalog: Catalog, offers: OfferTable) -> Market:
    """The market of some of the catalog's offers: estimated prices corrected, with their doubt."""
    priced, doubt = with_doubt(
        offers, among=catalog.all_offers(has_accelerator=None if np.any(offers.servers.num_accelerators == 0) else True)
    )
    return Market(priced, read_market_facts(catalog, offers), catalog.as_of(), doubt)


def space_limits(wish: Wish, *, node_counts: tuple[int, ...] = NODE_COUNTS) -> SpaceLimits:
    """The bounds of the space that the model and the user's choices set."""
    if isinstance(wish, SampleWish):
        from rightfit.search.training_search import sample_limits

        return sample_limits(wish, node_counts)
    workload, model = wish.workload, wish.model
    return SpaceLimits(
        num_heads=max(1, model.num_heads),
        num_layers=max(1, model.num_layers),
        num_experts=model.num_experts,
        global_batch=wish.global_batch,
        seq_len=wish.seq_len,
        method=wish.method,
        splits_models=splits_models(workload, wish.method),
        node_counts=node_counts,
        tensor=(workload.tensor_parallel,) if workload.tensor_parallel else (),
        pipeline=(workload.pipeline_parallel,) if workload.pipeline_parallel else (),
        micro_batch=(workload.micro_batch,) if workload.micro_batch else (),
        recompute=(int(Recompute[workload.recompute.upper()]),) if workload.recompute else (),
        sharding=chosen_shardings(workload.sharding, workload.offload),
    )


def chosen_shardings(sharding: str | None, offload: str | None) -> tuple[int, ...]:
    """Sharding modes that the user's words leave open; an empty tuple means all."""
    if offload in ("optimizer",):
        return (Sharding.OFFLOAD_OPTIMIZER,)
    if offload in ("params", "all", "activations"):
        return (Sharding.OFFLOAD_ALL,)
    modes = FULLY_SHARDED if sharding == "fsdp" else SHARDINGS.get(sharding or "", ())
    if sharding == "zero3":
        modes = FULLY_SHARDED
    if not modes and offload == "none":
        return tuple(mode for mode in Sharding if mode < Sharding.OFFLOAD_OPTIMIZER)
    if modes and offload is None and sharding not in ("none",):
        return (*modes, Sharding.NONE)  # one accelerator has nothing to shard over
    return tuple(modes)


@functools.lru_cache(maxsize=8)
def _fleet(servers: ServerTable, method: Method, precision: str, attention: str) -> Fleet:
    """A table of servers is hashed by identity, so the cache keeps the fleets of the last few markets."""
    return build_fleet(servers, method=method, precision=precision, attention=attention)


def fleet_of(market: Market, wish: Wish) -> Fleet:
    """Machine classes of the market's servers for this method and precision."""
    if isinstance(wish, SampleWish):
        from rightfit.search.training_search import sample_fleet

        return sample_fleet(market.offers.servers, wish.workload.precision or "")
    return _fleet(market.offers.servers, wish.method, wish.workload.precision or "", wish.workload.attention or "")


def explore(
    wish: Wish, market: Market, wanted: Wanted, *, node_counts: tuple[int, ...] = NODE_COUNTS, engine: Engine | SampleEngine | None = None
) -> Exploration:
    """Search every setup on every machine, then price and judge every offer."""
    fleet = fleet_of(market, wish)
    machines = fleet.machines
    space = build_space(space_limits(wish, node_counts=node_counts), blocks=machines.blocks)
    base, engine = prepared(wish, machines, engine)
    servers = market.offers.servers
    best = search_setups(space, machines, base, engine, tokens=wish.amount.tokens, host_memory=known_host_bytes(servers))
    run_s, feasible = by_server(best, fleet, known_host_bytes(servers))
    volume = engine.volume(wish, base)
    path = path_of(wish, market, volume, run_s, needed_memory_bytes=feasible.least_host_bytes, node_counts=node_counts)
    prices = price(market, volume, path, moved=moved_usd(wanted.source, market.offers, volume), node_counts=node_counts)
    failures = judge(market.offers, wanted, feasible=feasible, bill=prices, node_counts=np.array(node_counts, dtype=np.float64))
    return Exploration(wish, wanted, market, fleet, space, base, engine, best, prices, failures, feasible, failures.bits(), volume, path)


def prepared(wish: Wish, machines: Machines, engine: Engine | SampleEngine | None) -> tuple[SetupColumns, Engine | SampleEngine]:
    """What every setup has in common, and the physics for this kind of model."""
    if not isinstance(wish, SampleWish):
        return base_setup(wish, machines.variants), engine or Engine.of(wish.model)
    from rightfit.search import training_engine, training_search

    physics = training_engine.SampleEngine.of(wish)
    training_search.refuse_what_never_fits(wish, physics, machines)
    return training_search.sample_base(machines), physics


@functools.lru_cache(maxsize=8)
def hosts_of(servers: ServerTable) -> HostColumns:
    """What each server brings to the data path."""
    return host_columns(
        provider=servers.provider,
        instance_type=servers.instance_type,
        cpu_model=servers.cpu_model,
        arch=servers.arch,
        vcpus=servers.vcpus,
        memory_bytes=known_host_bytes(servers),
        local_nvme_bytes=servers.local_nvme_bytes,
        network_bytes_per_s=servers.network_bytes_per_s,
        accelerators=servers.num_accelerators,
    )


def path_of(
    wish: Wish, market: Market, volume: Volume, run_s: Array, *, needed_memory_bytes: Array, node_counts: tuple[int, ...]
) -> DataPath:
    """The data path of every (server, node count) from its compute time."""
    nodes = np.array(node_counts, dtype=np.float64)
    hosts = hosts_of(market.offers.servers)
    return data_path(read_load(wish, volume), hosts, run_s=run_s, nodes=nodes, needed_memory_bytes=needed_memory_bytes)


def price(market: Market, volume: Volume, path: DataPath, *, moved: Array, node_counts: tuple[int, ...]) -> Bill:
    """Time and money of every (offer, node count) from the data path of every (server, node count)."""
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


def known_host_bytes(servers: ServerTable) -> Array:
    """RAM of each server; where a provider does not publish it, little: what nine in ten servers with as much accelerator memory have."""
    accelerators = servers.num_accelerators * servers.accelerator_memory_bytes
    return np.where(
        np.isfinite(servers.memory_bytes), servers.memory_bytes, accelerators * facts.coefficients("planning")["unknown_host_memory_ratio"]
    )


def by_server(best: Best, fleet: Fleet, host_memory: Array) -> tuple[Array, Feasibility]:
    """Run time and feasibility of each (server, node count) from those of its machine class and host tier."""
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
