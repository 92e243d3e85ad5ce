"""One search for a server that does classical machine learning or prepares data: every server of the catalog, with and without GPU, priced
and judged."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rightfit.catalog.offers import PURCHASES, codes_of
from rightfit.estimate.classical_intervals import group_interval
from rightfit.estimate.hosts import common_volume
from rightfit.families.tables.machines import HostServers, host_servers
from rightfit.families.tables.wish import PREPARE, HostWish, read_host_wish
from rightfit.families.tables.work import HostWork, classical_work, is_divisible, preparation_work, time_group
from rightfit.physics import money
from rightfit.physics.columns import Array
from rightfit.physics.interruption import LARGEST_EXPONENT
from rightfit.records import dataclass
from rightfit.search.constraints import Failures, Feasibility, Wanted, filter_failures, judge, read_wanted
from rightfit.search.factor import combine, distinct_rows
from rightfit.search.market import SPOT, Bill, Staged, Volume, bill, failure_rate_per_s
from rightfit.search.offers import Market, whole_market
from rightfit.search.sources import check_storage, moved_usd
from rightfit.search.surety import Spread, surety_of_job

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload

Index = NDArray[np.intp]

ONE = (1,)
SEVERAL = (1, 2, 4, 8, 16, 32)
#: Libraries that write what they have learned while they go on; the others start again after an interruption.
SAVES = ("xgboost", "lightgbm", "catboost", "h2o", "h2o_xgboost", "spark", "network")


@dataclass(frozen=True, slots=True)
class HostExploration:
    """All that one search found. Rows of `bill` and `bits` are offers, columns the numbers of servers in `columns`."""

    wish: HostWish
    wanted: Wanted
    market: Market
    servers: HostServers
    columns: tuple[int, ...]
    work: HostWork
    volume: Volume
    bill: Bill
    failures: Failures
    bits: NDArray[np.int32]

    @property
    def workload(self) -> Workload:
        """The wish as the user gave it."""
        return self.wish.workload

    def nodes(self, cell: tuple[int, int]) -> int:
        """Servers of an (offer, column)."""
        return self.columns[cell[1]]

    def num_servers(self, offer: Index, column: Index) -> Array:
        """Servers of many rows (offer, column)."""
        return self.node_counts[column]

    def together(self, cell: tuple[int, int]) -> int:
        """Each server works off its own part of the data."""
        return 1

    def last_resort(self, offer: Index, column: Index) -> NDArray[np.bool_]:
        """Which of many rows are last resorts: none is."""
        return np.zeros(offer.shape, dtype=np.bool_)

    def missing(self, server: int) -> str:
        """What a server lacks to run the job at all."""
        return self.work.missing[server]

    @property
    def node_counts(self) -> Array:
        """Numbers of servers of the columns."""
        return np.array(self.columns, dtype=np.float64)


def explore_host(workload: Workload, catalog: Catalog) -> HostExploration:
    """Search every server for the job of a workload."""
    return explore(read_host_wish(workload), whole_market(catalog), read_wanted(workload, catalog))


def node_counts_of(wish: HostWish, filters: Wanted) -> tuple[int, ...]:
    """Several servers only where they can share the work and it can be worth it: one server is always the cheapest way to work off a
    pile."""
    in_haste = filters.deadline_s is not None or wish.workload.objective != "cost"
    return SEVERAL if is_divisible(wish) and in_haste else ONE


def explore(
    wish: HostWish, market: Market, filters: Wanted, *, node_counts: tuple[int, ...] = (), any_server: bool = False, as_if: bool = False
) -> HostExploration:
    """Evaluate every server, then price and judge every offer. `any_server`: those that were given by name, burstable ones too; `as_if`:
    what
    does not fit is priced as if it did."""
    check_storage(wish.workload.storage or "")
    counts = node_counts or node_counts_of(wish, filters)
    nodes = np.array(counts, dtype=np.float64)
    market = market if len(counts) == 1 else cheapest_places(market, filters)
    servers = host_servers(market.offers.servers)
    work = (
        preparation_work(wish, servers, nodes, any_server=any_server)
        if wish.job == PREPARE
        else classical_work(wish, servers, any_server=any_server)
    )
    if wish.job != PREPARE and counts != ONE:
        work = on_one_server(work, nodes)
    volume = volume_of(wish, work)
    prices = price(wish, market, filters, work, volume, nodes, as_if=as_if)
    sure = surety_of_job(
        prices, market, spread=lambda: time_spread(wish, market, work), volume=volume, nodes=nodes, is_limited=filters.is_limited
    )
    failures = judge(market.offers, filters, feasible=feasibility(work, servers), sure=sure, node_counts=nodes, as_one=False)
    return HostExploration(wish, filters, market, servers, counts, work, volume, prices, failures, failures.bits())


def cheapest_places(market: Market, filters: Wanted) -> Market:
    """Of each (server, way to pay) the cheapest offer that the user's filters leave, and the cheapest of those that they refuse: where many
    numbers of
    servers are looked at, other regions at a higher price are not."""
    offers = market.offers
    refused = np.zeros(len(offers), dtype=np.bool_)
    for mask in filter_failures(offers, filters).values():
        refused |= mask
    order = np.argsort(offers.price_usd_per_h, kind="stable")
    group, _ = combine(
        [offers.server_index[order], offers.purchase_index[order], refused[order].astype(np.intp)], [len(offers.servers), len(PURCHASES), 2]
    )
    _, first = np.unique(group, return_index=True)
    rows = np.sort(order[first])
    return market.take(rows)


def on_one_server(work: HostWork, nodes: Array) -> HostWork:
    """A job that one server does: on more of them there is no way to run it."""
    return dataclasses.replace(work, fits=np.asarray(work.fits & (nodes[None, :] == 1)))


def volume_of(wish: HostWish, work: HostWork) -> Volume:
    """Bytes that come in, and the trained model that is saved; the model and prepared data stay in the object store of their region."""
    model = float(work.memory_terms["model"].max(initial=0.0)) if "model" in work.memory_terms else 0.0
    return Volume(0.0, wish.data_bytes, model, 0.0)


def price(wish: HostWish, market: Market, filters: Wanted, work: HostWork, volume: Volume, nodes: Array, *, as_if: bool = False) -> Bill:
    """Time and money of every (offer, number of servers)."""
    offers, servers = market.offers, market.offers.servers
    rows = offers.server_index
    accelerators = np.maximum(np.nan_to_num(servers.num_accelerators), 1.0)[rows]
    run_s = (work.work_s if as_if else work.run_s)[rows]
    if wish.job != PREPARE and wish.task.library not in SAVES:
        run_s = repeated_s(run_s, rate_per_s=failure_rate_per_s(market.charges, accelerators=accelerators, nodes=nodes))
    moved = moved_usd(filters.source, offers, volume)
    billed = bill(
        run_s,
        price_usd_per_h=offers.price_usd_per_h,
        accelerators=accelerators,
        network_bytes_per_s=np.nan_to_num(servers.network_bytes_per_s)[rows],
        local_nvme_bytes=np.nan_to_num(servers.local_nvme_bytes)[rows],
        nodes=nodes,
        volume=volume,
        market=market.charges,
        staged=Staged(work.staging_s[rows], work.stored_bytes[rows], work.price_factor[rows], moved),
    )
    return with_store(wish, market, billed) if wish.job == PREPARE else billed


def with_store(wish: HostWish, market: Market, billed: Bill) -> Bill:
    """A bill of preparation with the object store that holds what comes in and what is made, for as long as the job takes; where a place
    has no price of its own, at that of the general table."""
    task = wish.preparation
    assert task is not None
    listed = market.charges.object_usd_per_gb_month
    price = np.where(listed > 0, listed, common_volume("object").usd_per_gb_month)
    kept_s = np.where(np.isfinite(billed.total_s), billed.total_s, 0.0)
    more = money.storage_usd(np.array([task.input_bytes + task.output_bytes]), kept_s=kept_s, price_usd_per_gb_month=price[:, None])
    return dataclasses.replace(billed, storage_usd=billed.storage_usd + more, total_usd=billed.total_usd + more)


def time_spread(wish: HostWish, market: Market, work: HostWork) -> Spread:
    """How far the time of every offer (O, 1) may lie above the predicted one: by where the job runs."""
    groups = [group_interval(time_group(wish, on_gpu=on_gpu), np.ones(1), doubts=np.full(1, wish.doubts)) for on_gpu in (False, True)]
    on_gpu = work.on_gpu[market.offers.server_index].astype(np.intp)[:, None]
    return Spread(*(np.array([float(getattr(group, name)[0]) for group in groups])[on_gpu] for name in ("high80", "high95")))


def repeated_s(run_s: Array, *, rate_per_s: Array) -> Array:
    """Expected seconds of work that starts from the beginning after every interruption: (e^(rate x run) - 1) / rate, exponential law."""
    finite = np.where(np.isfinite(run_s), run_s, 0.0)
    repeated = np.expm1(np.minimum(rate_per_s * finite, LARGEST_EXPONENT)) / rate_per_s
    return np.where(np.isfinite(run_s), np.maximum(repeated, finite), np.inf)


def feasibility(work: HostWork, servers: HostServers) -> Feasibility:
    """Which servers hold the job, in the terms of the search for training: what one GPU and what the host must hold."""
    shape = work.fits.shape
    able, fits_card = work.able[:, None], work.fits_card[:, None]
    fits_ram = (work.ram_needed_bytes <= servers.ram_bytes[:, None]) | work.fits
    return Feasibility(
        missing=work.missing,
        has_layout=np.broadcast_to(able, shape),
        fits_accelerator=np.broadcast_to(able & fits_card, shape),
        fits_host=np.broadcast_to(fits_ram, shape),
        least_bytes=np.broadcast_to(work.card_needed_bytes[:, None], shape),
        capacity_bytes=work.card_capacity_bytes,
        least_host_bytes=np.broadcast_to(work.ram_needed_bytes, shape),
        host_bytes=servers.ram_bytes,
    )


# ---- ranking


def folding_groups(exploration: HostExploration, offer: Index, node: Index) -> Index:
    """Rows of one provider with the same vCPUs, RAM, cores and GPUs on as many servers, spot apart from the rest, are one option."""
    servers, hosts = exploration.market.offers.servers, exploration.servers
    kinds = [
        codes_of(servers.provider),
        codes_of(servers.accelerator_name),
        *(_codes(values) for values in (np.nan_to_num(servers.num_accelerators), hosts.cpu.threads, hosts.ram_bytes, hosts.cpu.speed)),
    ]
    _, kind = distinct_rows(kinds)
    spot = (exploration.market.offers.purchase_index[offer] == SPOT).astype(np.intp)
    _, group = distinct_rows([kind[exploration.market.offers.server_index[offer]], node, spot])
    return group


def _codes(values: Array) -> Index:
    return np.unique(values, return_inverse=True)[1].astype(np.intp)
