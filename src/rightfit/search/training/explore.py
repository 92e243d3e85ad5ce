"""One search from end to end: wish and market in, every offer judged and priced out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightfit.estimate.data_path import DataLoad, DataPath, data_path
from rightfit.physics.columns import Array, SetupColumns
from rightfit.search.constraints import Feasibility, Wanted, judge
from rightfit.search.factor import distinct_rows
from rightfit.search.hosts import hosts_of
from rightfit.search.market import Bill, Staged, Volume, bill
from rightfit.search.offers import Market, known_host_bytes
from rightfit.search.sources import moved_usd
from rightfit.search.surety import Spread, surety_of_job
from rightfit.search.training.evaluate import Best, search_setups
from rightfit.search.training.found import Craft, Exploration, TrainingEngine
from rightfit.search.training.machines import Fleet
from rightfit.search.training.space import NODE_COUNTS, Space, build_space
from rightfit.search.training.wish import TrainingWish

Index = NDArray[np.intp]


def explore(
    wish: TrainingWish,
    market: Market,
    filters: Wanted,
    craft: Craft,
    *,
    node_counts: tuple[int, ...] = NODE_COUNTS,
    engine: TrainingEngine | None = None,
) -> Exploration:
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
    return Exploration(
        wish, filters, market, fleet, space, base, engine, craft, best, prices, failures, feasible, failures.bits(), volume, path
    )


def path_of(load: DataLoad, market: Market, run_s: Array, *, needed_memory_bytes: Array, node_counts: tuple[int, ...]) -> DataPath:
    """The data path of every (server, node count) from its compute time."""
    nodes = np.array(node_counts, dtype=np.float64)
    hosts = hosts_of(market.offers.servers)
    return data_path(load, hosts, run_s=run_s, nodes=nodes, needed_memory_bytes=needed_memory_bytes)


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


def time_spread(space: Space, base: SetupColumns, engine: TrainingEngine, fleet: Fleet, best: Best, host_memory: Array) -> Spread:
    """How far the time of each (server, node count) may lie above the predicted one; 1 where no set-up fits."""
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
