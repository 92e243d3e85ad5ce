"""Batch inference: a corpus worked off at full throughput on n servers; time and money of the whole
job by (offer, number of servers)."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from rightfit.facts.engines import published_format
from rightfit.physics.columns import Array
from rightfit.search.constraints import Failures, Filters, add_limits, filter_failures
from rightfit.search.criteria import CRITERIA, Judged, add_fabric, add_most_nodes, add_quota
from rightfit.search.family import Given
from rightfit.search.market import Bill, Volume, bill
from rightfit.search.offers import Market
from rightfit.search.rank import Row, first_row
from rightfit.search.refusals import nearest_to_passing
from rightfit.search.risk import Spread, Surety, surety_of_job
from rightfit.search.service.found import Confirmed, Queued, ServingResult, Sizing
from rightfit.search.service.grid import ReplicaGrid, capacity
from rightfit.search.service.refine import queued, refined, replica_columns
from rightfit.search.service.sizing import (
    add_memory,
    class_facts,
    format_columns,
    judge_serving,
    loaded_latency,
    monthly_bill,
    rejudged,
    replicas_needed,
    size,
    together_of,
    widened,
)
from rightfit.search.service.space import ServingFleet, ServingSpace
from rightfit.search.service.stacks import doubts_of, service_figure, weights_bytes
from rightfit.search.service.wish import ServingRequest, usual
from rightfit.search.training.space import NODE_COUNTS


def judged_batch(
    wish: ServingRequest,
    filters: Filters,
    market: Market,
    fleet: ServingFleet,
    space: ServingSpace,
    grid: ReplicaGrid,
    *,
    node_counts: tuple[int, ...] = NODE_COUNTS,
) -> ServingResult:
    """Every offer with every number of servers: how long the corpus takes and what it costs."""
    counts = np.array(node_counts, dtype=np.float64)
    able = capacity(grid, wish.limits)
    rate = able.saturation_per_s * space.fits
    sizing = batch_sizing(wish, fleet, space, rate, counts=counts)
    prices = batch_bill(wish, market, fleet, sizing, counts=counts)
    column = np.zeros(len(space), dtype=np.intp)
    sure = surety_of_job(
        prices, market, spread=lambda: rate_spread(wish), volume=batch_volume(wish), nodes=counts, is_limited=filters.is_limited
    )
    failures = judge_batch(
        market, fleet, space, wish, filters, sizing, sure, class_facts(fleet, space, able, wish, column, num_columns=1), counts=counts
    )
    return ServingResult(wish, filters, market, fleet, space, grid, able, ("16-bit",), column, sizing, prices, failures, failures.bits())


def batch_sizing(wish: ServingRequest, fleet: ServingFleet, space: ServingSpace, rate_per_s: Array, *, counts: Array) -> Sizing:
    """The candidate of each (machine class, servers) with the highest throughput, its replicas, and
    the seconds that the corpus takes."""
    per_group = np.maximum(fleet.gpus_per_node[space.machine] // np.maximum(space.tensor, 1), 1).astype(np.float64)
    replicas = np.floor(counts[None, :] / space.nodes[:, None]) * per_group[:, None]
    total = replicas * rate_per_s[:, None]
    shape = (len(fleet), counts.shape[0])
    best, row = np.zeros(shape), np.full(shape, -1, dtype=np.intp)
    for position in range(len(space)):
        machine = int(space.machine[position])
        better = total[position] > best[machine] * (1.0 + 1e-9)
        best[machine][better], row[machine][better] = total[position][better], position
    known = row >= 0
    used = np.where(known, replicas[np.maximum(row, 0), np.arange(counts.shape[0])[None, :]], np.inf) if len(space) else best + np.inf
    with np.errstate(divide="ignore"):
        run_s = np.where(known, wish.requests / best, np.inf)
    return Sizing(row, used, np.where(known, counts[None, :], np.inf), run_s, used)


def batch_bill(wish: ServingRequest, market: Market, fleet: ServingFleet, sizing: Sizing, *, counts: Array) -> Bill:
    """Time and money with start-up, restarts of spot servers and billing steps, as
    for training runs."""
    offers, servers = market.offers, market.offers.servers
    machine = fleet.machine_index[offers.server_index]
    run_s = np.full((len(offers), counts.shape[0]), np.inf)
    run_s[machine >= 0] = sizing.latency_s[machine[machine >= 0]]
    return bill(
        run_s,
        price_usd_per_h=offers.price_usd_per_h,
        accelerators=np.maximum(servers.num_accelerators, 1.0)[offers.server_index],
        network_bytes_per_s=np.nan_to_num(servers.network_bytes_per_s)[offers.server_index],
        local_nvme_bytes=np.nan_to_num(servers.local_nvme_bytes)[offers.server_index],
        nodes=counts,
        volume=batch_volume(wish),
        market=market.charges,
    )


def rate_spread(wish: ServingRequest) -> Spread:
    """How much longer a corpus may take: as sure as the rate of requests is."""
    rate = service_figure("req_per_s", 1.0, doubts=doubts_of(wish), modality="" if wish.generates else wish.modality)
    return Spread(np.full((1, 1), rate.mid / rate.low80), np.full((1, 1), rate.mid / rate.low95))


def batch_volume(wish: ServingRequest) -> Volume:
    """Bytes that a batch job fetches and saves: the model with its image, and
    how far it has come."""
    return Volume(weights_bytes(wish) + usual()["image_gb"] * 1e9, 0.0, usual()["batch_progress_bytes"], 0.0)


def judge_batch(
    market: Market,
    fleet: ServingFleet,
    space: ServingSpace,
    wish: ServingRequest,
    filters: Filters,
    sizing: Sizing,
    sure: Surety,
    by_class: dict[str, Array],
    *,
    counts: Array,
) -> Failures:
    """Every criterion on every (offer, number of servers)."""
    offers, finished = market.offers, np.isfinite(sure.bill.total_s)
    machine = fleet.machine_index[offers.server_index]
    known, pick = machine >= 0, np.maximum(machine, 0)

    def spread_out(values: Array) -> Array:
        return np.where(known[:, None], values[pick], np.nan) if values.shape[0] else np.full((len(offers), 1), np.nan)

    judged = Judged(filter_failures(offers, filters))
    judged.fails["capability"] = ~known[:, None]
    has_layout, fits = spread_out(by_class["candidates"]) > 0, spread_out(by_class["fits"]) > 0
    judged.fails["layout"] = (known[:, None] & ~has_layout) | (fits & ~finished)
    needed, usable = (spread_out(by_class[f"{name}_bytes"]) for name in ("needed", "usable"))
    add_memory(market, fleet, wish, has_layout, fits, needed, usable, judged)
    add_fabric(offers, spread_out(together_of(space, sizing)), judged)
    add_most_nodes(filters, offers, counts[None, :], judged)
    add_quota(filters, offers, counts[None, :], judged)
    add_limits(filters, sure, judged)
    return Failures.of(judged, sure)


# ---- A space of replicas judged: sized for a load or worked off as a batch, every offer priced.


def judged(
    wish: ServingRequest, filters: Filters, market: Market, fleet: ServingFleet, space: ServingSpace, grid: ReplicaGrid
) -> ServingResult:
    """Size every class for the load, price and judge every offer."""
    if wish.is_batch:
        return judged_batch(wish, filters, market, fleet, space, grid)
    wish = widened(wish, space, grid)
    able = capacity(grid, wish.limits)
    able = dataclasses.replace(able, rate_per_s=able.rate_per_s * space.fits, users=able.users * space.fits)
    formats, column = format_columns(space, published_format(wish.published_name))
    sizing = size(wish, fleet, space, grid, able, column, num_columns=len(formats))
    prices = monthly_bill(wish, market, fleet, space, sizing)
    failures = judge_serving(market, fleet, space, filters, wish, able, sizing, prices, column)
    return ServingResult(wish, filters, market, fleet, space, grid, able, formats, column, sizing, prices, failures, failures.bits())


# ---- One given server type under a service or a batch job: what so many of them do.

#: Candidates that are tried by the queue model before the one of the search is taken.
MOST_TRIED = 4


def given_servers(search_result: ServingResult, nodes: int) -> Given[ServingResult]:
    """The service or the batch job on `nodes` servers of the one type of the market, with the stack
    that serves it best there; where they are too few, as many as would do. A filter or a budget
    that the server fails does not take the answer away: the server was given."""
    search_result = on_servers(search_result, nodes)
    at = cheapest(search_result)
    fits = at is not None and search_result.nodes((at.offer, at.node)) <= nodes
    failing = (at.offer, at.node) if at is not None else nearest_to_passing(search_result, np.arange(len(search_result.market.offers)))
    return Given(search_result, search_result, at, fits, failing)


def cheapest(search_result: ServingResult) -> Row | None:
    """The cheapest offer within the user's filters, else of all that are enough, else of all that
    would be with more servers."""
    known = np.isfinite(search_result.bill.total_s)
    over = np.left_shift(1, CRITERIA.index("max_nodes"))
    for mask in (
        (search_result.bits == 0) & known,
        (search_result.bits & over == 0) & known,
        (search_result.bits & ~over == 0) & known,
        known,
    ):
        if (row := first_row(search_result, mask)) is not None:
            return row
    return None


def on_servers(search_result: ServingResult, nodes: int) -> ServingResult:
    """The search with exactly so many servers; where those are too few, with as many as are needed,
    which then breaks the limit of servers."""
    wanted = dataclasses.replace(search_result.filters, any_software=True, max_nodes=nodes)
    if search_result.wish.is_batch:
        judged = judged_batch(
            search_result.wish,
            wanted,
            search_result.market,
            search_result.fleet,
            search_result.space,
            search_result.grid,
            node_counts=(nodes,),
        )
        return dataclasses.replace(judged, passes=search_result.passes, times=search_result.times)
    search_result, _ = refined(search_result, top=1)
    search_result = _with_fixed(search_result, nodes)
    return rejudged(search_result, search_result.sizing, filters=wanted)


def _with_fixed(search_result: ServingResult, nodes: int) -> ServingResult:
    """Each (class, format) sized for `nodes` servers where a candidate carries the load on them:
    the one with the least latency."""
    row, replicas, servers, latency = (getattr(search_result.sizing, name).copy() for name in ("row", "replicas", "servers", "latency_s"))
    confirmed: dict[int, Queued] = dict(search_result.confirmed.kept)
    for machine, column in np.argwhere(row >= 0).tolist():
        best = _best_on(search_result, np.flatnonzero((search_result.space.machine == machine) & (search_result.column == column)), nodes)
        if best is None:
            continue
        at, count, seconds, known = best
        row[machine, column], replicas[machine, column], servers[machine, column], latency[machine, column] = at, count, nodes, seconds
        if known is not None:
            confirmed[at] = known
    sizing = dataclasses.replace(search_result.sizing, row=row, replicas=replicas, servers=servers, latency_s=latency)
    return dataclasses.replace(search_result, sizing=sizing, confirmed=Confirmed(confirmed, search_result.confirmed.dropped))


def _best_on(search_result: ServingResult, rows: NDArray[np.intp], nodes: int) -> tuple[int, float, float, Queued | None] | None:
    """The candidate with the least latency on so many servers: its row, replicas, latency, and the
    queue model's figures where it speaks of it."""
    space, wish = search_result.space, search_result.wish
    per_group = np.maximum(search_result.fleet.gpus_per_node[space.machine[rows]] // np.maximum(space.tensor[rows], 1), 1)
    replicas = (nodes // space.nodes[rows] * per_group).astype(np.float64)
    taken = search_result.fleet.taken
    if taken.shape[0]:
        replicas = np.maximum(replicas - np.ceil(taken[space.machine[rows]] / np.maximum(space.tensor[rows], 1)), 0.0)
    needed = replicas_needed(wish, search_result.capacity)[rows]
    queues = wish.generates and bool(wish.rate_per_s) and wish.load is not None
    # The queue model, not the quick law, says whether so many are enough where it speaks.
    enough = np.isfinite(needed) if queues else needed <= replicas
    usable = np.flatnonzero((replicas > 0) & enough)
    if not usable.shape[0]:
        return None
    rows, replicas = rows[usable], replicas[usable]
    latency = loaded_latency(wish, search_result.grid.take(rows), replicas)
    order = np.argsort(latency, kind="stable")
    if not queues:
        at = int(order[0])
        return int(rows[at]), float(replicas[at]), float(latency[at]), None
    for at in order[:MOST_TRIED].tolist():
        known = queued(wish, replica_columns(space.take(rows[at : at + 1])), replicas=float(replicas[at]))
        if known.excess <= 1.0:
            return int(rows[at]), float(replicas[at]), known.values[f"latency_s@{wish.limits.percentile:g}"], known
    return None
