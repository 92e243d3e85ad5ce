"""Batch inference: a corpus worked off at full throughput on n servers; time and money of the whole job by (offer, number of servers)."""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array
from rightfit.search.constraints import Failures, Wanted, add_limits, filter_failures
from rightfit.search.criteria import Judged
from rightfit.search.limits import add_most_nodes, add_quota
from rightfit.search.market import Bill, Volume, bill
from rightfit.search.offers import Market
from rightfit.search.placement import add_fabric
from rightfit.search.service.disk import weights_bytes
from rightfit.search.service.figures import doubts_of, service_figure
from rightfit.search.service.found import ServingExploration, Sizing
from rightfit.search.service.grid import ReplicaGrid, capacity
from rightfit.search.service.sizing import add_memory, class_facts, together_of
from rightfit.search.service.space import ServingFleet, ServingSpace
from rightfit.search.service.wish import ServingWish, usual
from rightfit.search.surety import Spread, Surety, surety_of_job
from rightfit.search.training.space import NODE_COUNTS


def judged_batch(
    wish: ServingWish,
    filters: Wanted,
    market: Market,
    fleet: ServingFleet,
    space: ServingSpace,
    grid: ReplicaGrid,
    *,
    node_counts: tuple[int, ...] = NODE_COUNTS,
) -> ServingExploration:
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
    return ServingExploration(
        wish, filters, market, fleet, space, grid, able, ("16-bit",), column, sizing, prices, failures, failures.bits()
    )


def batch_sizing(wish: ServingWish, fleet: ServingFleet, space: ServingSpace, rate_per_s: Array, *, counts: Array) -> Sizing:
    """The candidate of each (machine class, servers) with the highest throughput, its replicas, and the seconds that the corpus takes."""
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
    return Sizing(row, used, np.where(known, counts[None, :], np.inf), run_s)


def batch_bill(wish: ServingWish, market: Market, fleet: ServingFleet, sizing: Sizing, *, counts: Array) -> Bill:
    """Time and money with start-up, restarts of spot servers and billing steps, as for training runs."""
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


def rate_spread(wish: ServingWish) -> Spread:
    """How much longer a corpus may take: as sure as the rate of requests is."""
    rate = service_figure("req_per_s", 1.0, doubts=doubts_of(wish), modality="" if wish.generates else wish.modality)
    return Spread(np.full((1, 1), rate.mid / rate.low80), np.full((1, 1), rate.mid / rate.low95))


def batch_volume(wish: ServingWish) -> Volume:
    """Bytes that a batch job fetches and saves: the model with its image, and how far it has come."""
    return Volume(weights_bytes(wish) + usual()["image_gb"] * 1e9, 0.0, usual()["batch_progress_bytes"], 0.0)


def judge_batch(
    market: Market,
    fleet: ServingFleet,
    space: ServingSpace,
    wish: ServingWish,
    filters: Wanted,
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
    add_most_nodes(filters, counts[None, :], judged)
    add_quota(filters, offers, counts[None, :], judged)
    add_limits(filters, sure, judged)
    return Failures.of(judged, sure)
