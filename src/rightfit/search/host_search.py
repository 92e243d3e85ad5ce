"""One search for a server that does classical machine learning or prepares data: every server of the catalog, with and without GPU, priced and judged."""

from __future__ import annotations

import dataclasses
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit.catalog.offers import PURCHASES
from rightfit.physics.columns import Array
from rightfit.physics.interruption import LARGEST_EXPONENT
from rightfit.search.constraints import Failures, Feasibility, Wanted, filter_failures, judge, read_wanted
from rightfit.search.explore import Market, read_market
from rightfit.search.factor import combine, distinct_rows
from rightfit.search.host_machines import HostServers, host_servers
from rightfit.search.host_wish import PREPARE, HostWish, read_host_wish
from rightfit.search.host_work import HostWork, classical_work, is_divisible, preparation_work
from rightfit.search.loads import check_storage, moved_usd
from rightfit.search.market import SPOT, Bill, Staged, Volume, bill, failure_rate_per_s
from rightfit.search.objective import pareto_front
from rightfit.search.rank import MOST_ALTERNATIVES, Ranking, Row, codes_of, contenders, leading_rows, ordered, score_of

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload

Index = NDArray[np.intp]

ONE = (1,)
SEVERAL = (1, 2, 4, 8, 16, 32)
#: Libraries that write what they have learned while they go on; the others start again after an interruption.
SAVES = ("xgboost", "lightgbm", "catboost", "h2o", "h2o_xgboost", "spark", "network")


@dataclasses.dataclass(frozen=True, slots=True)
class HostLimits:
    """Numbers of servers that were looked at: columns of the bill."""

    node_counts: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class HostSpace:
    """What was varied beside the offers."""

    limits: HostLimits


@dataclasses.dataclass(frozen=True, slots=True)
class HostFleet:
    """What each server lacks to run the job at all (empty: nothing)."""

    missing: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class HostExploration:
    """All that one search found. Rows of `bill` and `bits` are offers, columns numbers of servers."""

    wish: HostWish
    wanted: Wanted
    market: Market
    servers: HostServers
    fleet: HostFleet
    space: HostSpace
    work: HostWork
    volume: Volume
    bill: Bill
    failures: Failures
    bits: NDArray[np.int32]

    @property
    def node_counts(self) -> Array:
        """Numbers of servers of the columns."""
        return np.array(self.space.limits.node_counts, dtype=np.float64)


_markets: weakref.WeakKeyDictionary[Any, Market] = weakref.WeakKeyDictionary()


def host_market(catalog: Catalog) -> Market:
    """Every sound offer of a catalog, with accelerators and without, read once."""
    if catalog not in _markets:
        table = catalog.all_offers()
        offers = table.take(~table.is_quarantined & np.isfinite(table.price_usd_per_h))
        _markets[catalog] = read_market(catalog, offers)
    return _markets[catalog]


def explore_host(workload: Workload, catalog: Catalog) -> HostExploration:
    """Search every server for the job of a workload."""
    return explore(read_host_wish(workload), host_market(catalog), read_wanted(workload, catalog))


def node_counts_of(wish: HostWish, wanted: Wanted) -> tuple[int, ...]:
    """Several servers only where they can share the work and it can be worth it: one server is always the cheapest way to work off a pile."""
    in_haste = wanted.deadline_s is not None or wish.workload.objective != "cost"
    return SEVERAL if is_divisible(wish) and in_haste else ONE


def explore(
    wish: HostWish, market: Market, wanted: Wanted, *, node_counts: tuple[int, ...] = (), any_server: bool = False, as_if: bool = False
) -> HostExploration:
    """Evaluate every server, then price and judge every offer. `any_server`: those that were given by name, burstable ones too; `as_if`: what
    does not fit is priced as if it did."""
    check_storage(wish.workload.storage or "")
    counts = node_counts or node_counts_of(wish, wanted)
    nodes = np.array(counts, dtype=np.float64)
    market = market if len(counts) == 1 else cheapest_places(market, wanted)
    servers = host_servers(market.offers.servers)
    work = (
        preparation_work(wish, servers, nodes, any_server=any_server)
        if wish.job == PREPARE
        else classical_work(wish, servers, any_server=any_server)
    )
    if wish.job != PREPARE and counts != ONE:
        work = on_one_server(work, nodes)
    volume = volume_of(wish, work)
    prices = price(wish, market, wanted, work, volume, nodes, as_if=as_if)
    failures = judge(market.offers, wanted, feasible=feasibility(work, servers), bill=prices, node_counts=nodes)
    space = HostSpace(HostLimits(counts))
    return HostExploration(wish, wanted, market, servers, HostFleet(work.missing), space, work, volume, prices, failures, failures.bits())


def cheapest_places(market: Market, wanted: Wanted) -> Market:
    """Of each (server, way to pay) the cheapest offer that the user's filters leave, and the cheapest of those that they refuse: where many numbers of
    servers are looked at, other regions at a higher price are not."""
    offers = market.offers
    refused = np.zeros(len(offers), dtype=np.bool_)
    for mask in filter_failures(offers, wanted).values():
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


def price(wish: HostWish, market: Market, wanted: Wanted, work: HostWork, volume: Volume, nodes: Array, *, as_if: bool = False) -> Bill:
    """Time and money of every (offer, number of servers)."""
    offers, servers = market.offers, market.offers.servers
    rows = offers.server_index
    accelerators = np.maximum(np.nan_to_num(servers.num_accelerators), 1.0)[rows]
    run_s = (work.work_s if as_if else work.run_s)[rows]
    if wish.job != PREPARE and wish.task.library not in SAVES:
        run_s = repeated_s(run_s, rate_per_s=failure_rate_per_s(market.charges, accelerators=accelerators, nodes=nodes))
    moved = moved_usd(wanted.source, offers, volume)
    return bill(
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


def rank_host(found: HostExploration, *, top: int) -> Ranking:
    """The best rows and the Pareto front. Sizes of servers are options of their own here: for processors the size is the choice."""
    known: Any = found
    offer, node = np.nonzero(found.bits == 0)
    if offer.shape[0] == 0:
        return Ranking((), (), 0)
    usd, seconds = found.bill.total_usd[offer, node], found.bill.total_s[offer, node]
    pareto = tuple(Row(int(offer[row]), int(node[row])) for row in pareto_front(usd, seconds))
    group = folding_groups(found, offer, node)
    score = score_of(known, offer, node)
    near = contenders(known, offer, score, group, top=top)
    near = near[ordered(known, offer[near], node[near], score[near])]
    return Ranking(leading_rows(known, offer[near], node[near], group[near], top=top), pareto, offer.shape[0])


def folding_groups(found: HostExploration, offer: Index, node: Index) -> Index:
    """Rows of one provider with the same vCPUs, RAM, cores and GPUs on as many servers, spot apart from the rest, are one option."""
    servers, hosts = found.market.offers.servers, found.servers
    kinds = [
        codes_of(servers.provider),
        codes_of(servers.accelerator_name),
        *(_codes(values) for values in (np.nan_to_num(servers.num_accelerators), hosts.cpu.threads, hosts.ram_bytes, hosts.cpu.speed)),
    ]
    _, kind = distinct_rows(kinds)
    spot = (found.market.offers.purchase_index[offer] == SPOT).astype(np.intp)
    _, group = distinct_rows([kind[found.market.offers.server_index[offer]], node, spot])
    return group


def _codes(values: Array) -> Index:
    return np.unique(values, return_inverse=True)[1].astype(np.intp)


__all__ = ["MOST_ALTERNATIVES", "HostExploration", "explore", "explore_host", "host_market", "rank_host"]
