"""One search for a server that does classical machine learning or prepares data: every server of
the catalog, with and without GPU, priced and judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit.estimation.data_path import common_volume
from rightfit.estimation.figures import Figure, exact, group_interval, probability_of
from rightfit.families.tables.match import CPU, GPU, HostLayout
from rightfit.families.tables.wish import PREPARE, TableRequest, read_host_wish
from rightfit.families.tables.work import (
    HostServers,
    HostWork,
    classical_work,
    host_servers,
    is_divisible,
    memory_group,
    preparation_work,
    probability_within,
    surely_needed,
    time_group,
)
from rightfit.market.offers import PURCHASES, codes_of
from rightfit.physics import money
from rightfit.physics.columns import Array
from rightfit.physics.interruption import LARGEST_EXPONENT
from rightfit.records import dataclass
from rightfit.search.answer import Option
from rightfit.search.bill import cost_of
from rightfit.search.constraints import Failures, Feasibility, Filters, filter_failures, judge, read_filters
from rightfit.search.family import accelerator_of, job_offer_facts, offered
from rightfit.search.market import SPOT, Bill, Staged, Volume, bill, failure_rate_per_s
from rightfit.search.offers import BOUNDS, Market, whole_market
from rightfit.search.option_facts import TableFacts
from rightfit.search.rank import Row, combine, distinct_rows
from rightfit.search.risk import Spread, surety_of_job, with_one_start
from rightfit.search.sense import leading_rows
from rightfit.search.sources import is_elsewhere, moved_usd

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.workload import Workload


Index = NDArray[np.intp]

ONE = (1,)
SEVERAL = (1, 2, 4, 8, 16, 32)
#: Libraries that write what they have learned while they go on; the others start again
#: after an interruption.
SAVES = ("xgboost", "lightgbm", "catboost", "h2o", "h2o_xgboost", "spark", "network")


@dataclass(frozen=True, slots=True)
class TableResult:
    """All that one search found. Rows of `bill` and `bits` are offers, columns the numbers of
    servers in `columns`."""

    wish: TableRequest
    filters: Filters
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

    def is_tight(self, offer: Index, column: Index) -> NDArray[np.bool_]:
        """Which of many rows may lack RAM, or memory of the card."""
        server, work, doubts = self.market.offers.server_index[offer], self.work, self.wish.doubts
        ram = surely_needed(memory_group(self.wish), work.ram_bytes, doubts) > self.servers.ram_bytes[:, None]
        card = work.on_gpu & (surely_needed("memory", work.card_bytes, doubts) > work.card_capacity_bytes)
        short = (ram & ~(work.spilled_bytes > 0)) | card[:, None]
        return np.asarray(short[server, np.minimum(column, short.shape[1] - 1)])

    def missing(self, server: int) -> str:
        """What a server lacks to run the job at all."""
        return self.work.missing[server]

    @property
    def node_counts(self) -> Array:
        """Numbers of servers of the columns."""
        return np.array(self.columns, dtype=np.float64)


def explore_host(workload: Workload, catalog: Catalog) -> TableResult:
    """Search every server for the job of a workload."""
    return explore(read_host_wish(workload), whole_market(catalog), read_filters(workload, catalog))


def node_counts_of(wish: TableRequest, filters: Filters) -> tuple[int, ...]:
    """Several servers only where they can share the work and it can be worth it: one server is
    always the cheapest way to work off a pile."""
    in_haste = filters.deadline_s is not None or wish.workload.objective != "cost"
    return SEVERAL if is_divisible(wish) and in_haste else ONE


def explore(
    wish: TableRequest,
    market: Market,
    filters: Filters,
    *,
    node_counts: tuple[int, ...] = (),
    any_server: bool = False,
    as_if: bool = False,
) -> TableResult:
    """Evaluate every server, then price and judge every offer. `any_server`: those that were given
    by name, burstable ones too; `as_if`: what does not fit is priced as if it did."""
    counts = node_counts or node_counts_of(wish, filters)
    nodes = np.array(counts, dtype=np.float64)
    market = market if len(counts) == 1 else leading_places(market, filters)
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
    return TableResult(wish, filters, market, servers, counts, work, volume, prices, failures, failures.bits())


def leading_places(market: Market, filters: Filters) -> Market:
    """Of each (server, way to pay) the offers that may lead, of those that the user's filters leave
    and of those that they refuse, near the data and away from them: where many numbers of servers
    are looked at, other regions at a higher price are not."""
    offers = market.offers
    refused = np.zeros(len(offers), dtype=np.intp)
    for mask in filter_failures(offers, filters).values():
        refused |= mask
    away = is_elsewhere(filters.source, offers).astype(np.intp)
    kind, _ = combine([offers.server_index, offers.purchase_index, refused, away], [len(offers.servers), len(PURCHASES), 2, 3])
    return market.take(leading_rows(market, np.arange(len(offers)), kind))


def on_one_server(work: HostWork, nodes: Array) -> HostWork:
    """A job that one server does: on more of them there is no way to run it."""
    return dataclasses.replace(work, fits=np.asarray(work.fits & (nodes[None, :] == 1)))


def volume_of(wish: TableRequest, work: HostWork) -> Volume:
    """Bytes that come in, and the trained model that is saved; the model and prepared data stay in
    the object store of their region."""
    model = float(work.memory_terms["model"].max(initial=0.0)) if "model" in work.memory_terms else 0.0
    return Volume(0.0, wish.data_bytes, model, 0.0)


def price(
    wish: TableRequest, market: Market, filters: Filters, work: HostWork, volume: Volume, nodes: Array, *, as_if: bool = False
) -> Bill:
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


def with_store(wish: TableRequest, market: Market, billed: Bill) -> Bill:
    """A bill of preparation with the object store that holds what comes in and what is made, for as
    long as the job takes; where a place has no price of its own, at that of the general table."""
    task = wish.preparation
    assert task is not None
    listed = market.charges.object_usd_per_gb_month
    price = np.where(listed > 0, listed, common_volume("object").usd_per_gb_month)
    kept_s = np.where(np.isfinite(billed.total_s), billed.total_s, 0.0)
    more = money.storage_usd(np.array([task.input_bytes + task.output_bytes]), kept_s=kept_s, price_usd_per_gb_month=price[:, None])
    return dataclasses.replace(billed, storage_usd=billed.storage_usd + more, total_usd=billed.total_usd + more)


def time_spread(wish: TableRequest, market: Market, work: HostWork) -> Spread:
    """How far the time of every offer (O, 1) may lie above the predicted one: by
    where the job runs."""
    groups = [group_interval(time_group(wish, on_gpu=on_gpu), np.ones(1), doubts=np.full(1, wish.doubts)) for on_gpu in (False, True)]
    on_gpu = work.on_gpu[market.offers.server_index].astype(np.intp)[:, None]
    return Spread(*(np.array([float(getattr(group, name)[0]) for group in groups])[on_gpu] for name in ("high80", "high95")))


def repeated_s(run_s: Array, *, rate_per_s: Array) -> Array:
    """Expected seconds of work that starts from the beginning after every interruption: (e^(rate x
    run) - 1) / rate, exponential law."""
    finite = np.where(np.isfinite(run_s), run_s, 0.0)
    repeated = np.expm1(np.minimum(rate_per_s * finite, LARGEST_EXPONENT)) / rate_per_s
    return np.where(np.isfinite(run_s), np.maximum(repeated, finite), np.inf)


def feasibility(work: HostWork, servers: HostServers) -> Feasibility:
    """Which servers hold the job, in the terms of the search for training: what one GPU and what
    the host must hold."""
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


def folding_groups(search_result: TableResult, offer: Index, node: Index) -> Index:
    """Rows of one provider with the same vCPUs, RAM, cores and GPUs on as many servers, spot apart
    from the rest, are one option."""
    servers, hosts = search_result.market.offers.servers, search_result.servers
    kinds = [
        codes_of(servers.provider),
        codes_of(servers.accelerator_name),
        *(_codes(values) for values in (np.nan_to_num(servers.num_accelerators), hosts.cpu.threads, hosts.ram_bytes, hosts.cpu.speed)),
    ]
    _, kind = distinct_rows(kinds)
    spot = (search_result.market.offers.purchase_index[offer] == SPOT).astype(np.intp)
    _, group = distinct_rows([kind[search_result.market.offers.server_index[offer]], node, spot])
    return group


def _codes(values: Array) -> Index:
    return np.unique(values, return_inverse=True)[1].astype(np.intp)


# ---- Options of a host plan: the chosen rows with RAM and time by term, figures with intervals,
# money, and what reasons need beside them.


def build_host_options(search_result: TableResult, rows: Sequence[Row]) -> tuple[Option, ...]:
    """The rows as options, ranked in their order."""
    return tuple(_option(search_result, row, position) for position, row in enumerate(rows))


def _option(search_result: TableResult, row: Row, position: int) -> Option:
    server = int(search_result.market.offers.server_index[row.offer])
    estimate = estimate_of(search_result, row, server)
    return Option(
        **offered(search_result, row, position),
        accelerator=accelerator_of(search_result, row.offer),
        layout=layout_of(search_result, server, row.node),
        estimate=estimate,
        memory_terms=_terms(search_result.work.memory_terms, server, row.node),
        time_terms=_terms(search_result.work.time_terms, server, row.node),
        cost=cost_of(search_result.bill, search_result.market, (row.offer, row.node), time=estimate["total_time_s"]),
        facts=facts_of(search_result, row, server, estimate),
    )


def _terms(terms: Mapping[str, Any], server: int, node: int) -> dict[str, float]:
    """Terms of one row without those that are zero."""
    values = {name: float(column[server, min(node, column.shape[1] - 1)]) for name, column in terms.items()}
    return {name: value for name, value in values.items() if value > 0}


def layout_of(search_result: TableResult, server: int, node: int) -> HostLayout:
    """How the job runs on one server."""
    wish, nodes = search_result.wish, search_result.columns[node]
    on_gpu = bool(search_result.work.on_gpu[server])
    task = wish.on_gpu if on_gpu else wish.on_cpu
    width = {4.0: "fp32", 2.0: "fp16", 1.0: "int8"}.get(task.element_bytes, "fp64") if task is not None else "fp64"
    cards = int(search_result.work.cards[server])
    return HostLayout(
        data=nodes * max(cards, 1),
        precision=width,
        method=wish.job,
        device=GPU if on_gpu else CPU,
        library=wish.preparation.library if wish.preparation else task.library if task else "",
        job=wish.job,
        threads=threads_of(search_result, server),
        cards=cards,
    )


def threads_of(search_result: TableResult, server: int) -> int:
    """Threads of one server that work."""
    from rightfit.estimation.classical_rates import most_threads

    wish, all_of_them = search_result.wish, search_result.servers.cpu.threads[server]
    most = wish.preparation.max_threads if wish.preparation else most_threads(wish.task.kind)
    wanted = wish.workload.workers or 0
    limits = [limit for limit in (most, wanted, all_of_them) if limit > 0]
    return max(1, int(min(limits)))


def figure(group: str, value: float, doubts: float, *, source: str = "calibrated") -> Figure:
    """One figure with the intervals of its group."""
    columns = group_interval(group, np.full(1, value), doubts=np.full(1, doubts))
    return dataclasses.replace(columns.row(0), source=source)


def estimate_of(search_result: TableResult, row: Row, server: int) -> dict[str, Figure]:
    """Figures by the contract's names. `peak_memory_bytes` is of what is scarce: one GPU where
    GPUs work, which share the table, else RAM."""
    wish, work, at = search_result.wish, search_result.work, (server, row.node)
    on_gpu = bool(work.on_gpu[server])
    run = float(sum(column[server, min(row.node, column.shape[1] - 1)] for column in work.time_terms.values()))
    group = time_group(wish, on_gpu=on_gpu)
    work_s = figure(group, run, wish.doubts)
    total = float(search_result.bill.total_s[row.offer, row.node])
    fixed = total - run if np.isfinite(total) else 0.0
    whole = Figure(run + fixed, **{name: getattr(work_s, name) + fixed for name in BOUNDS}, source=work_s.source)
    total_s = with_one_start(whole, max(fixed, 0.0))
    ram = figure(memory_group(wish), float(work.ram_bytes[at]), wish.doubts)
    card = figure("memory", float(work.card_bytes[server]) / max(float(work.cards[server]), 1.0), wish.doubts, source="extrapolated")
    amount = wish.data_bytes if wish.job == PREPARE else wish.rows
    rate = Figure(
        amount / run,
        low80=amount / work_s.high80,
        high80=amount / work_s.low80,
        low95=amount / work_s.high95,
        high95=amount / work_s.low95,
    )
    return {
        "total_time_s": total_s,
        "work_s": work_s,
        "peak_memory_bytes": card if on_gpu else ram,
        "host_memory_bytes": ram,
        "disk_bytes": exact(np.full(1, float(work.disk_bytes[at]))).row(0),
        "bytes_per_s" if wish.job == PREPARE else "rows_per_s": rate,
    }


def fit_probability(search_result: TableResult, server: int, node: int) -> float:
    """Probability that RAM, and GPU memory where a GPU works, hold the job."""
    wish, work = search_result.wish, search_result.work
    if work.spilled_bytes[server, node] > 0:
        return 1.0
    ram = probability_within(
        memory_group(wish), float(work.ram_bytes[server, node]), float(search_result.servers.ram_bytes[server]), wish.doubts
    )
    if not work.on_gpu[server]:
        return ram
    return min(ram, probability_within("memory", float(work.card_bytes[server]), float(work.card_capacity_bytes[server]), wish.doubts))


def facts_of(search_result: TableResult, row: Row, server: int, estimate: Mapping[str, Figure]) -> TableFacts:
    """What reasons and explanations need beside the contract's fields."""
    wish, servers = search_result.wish, search_result.market.offers.servers
    at, work = (row.offer, row.node), search_result.work
    on_gpu = bool(work.on_gpu[server])
    deadline = search_result.filters.deadline_s
    total = estimate["total_time_s"]
    in_time = probability_of(total, deadline) if deadline else None
    return {
        "name": wish.name,
        "job": wish.job,
        "rows": wish.rows,
        "cols": wish.cols,
        "data_bytes": wish.data_bytes,
        "category": servers.category[server],
        "is_burstable": bool(search_result.servers.is_burstable[server]),
        "fit_probability": fit_probability(search_result, server, row.node),
        "deadline_probability": in_time,
        "capacity_bytes": float(work.card_capacity_bytes[server]) / max(float(work.cards[server]), 1.0)
        if on_gpu
        else float(search_result.servers.ram_bytes[server]),
        "ram_capacity_bytes": float(search_result.servers.ram_bytes[server]),
        "ram_needed_bytes": float(work.ram_needed_bytes[server, row.node]),
        "spilled_bytes": float(work.spilled_bytes[server, row.node]),
        "rented_bytes": float(work.stored_bytes[server, row.node]),
        "staging_s": float(work.staging_s[server, row.node]),
        "startup_s": float(search_result.bill.startup_s[at]),
        "run_s": float(search_result.bill.run_s[at]),
        **job_offer_facts(search_result, row),
    }
