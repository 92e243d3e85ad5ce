"""Replicas for a load: sized, priced by the month, and every offer judged."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.physics import batch_queue
from rightfit.physics.columns import Array
from rightfit.search.answer import Assumption, Reason
from rightfit.search.constraints import LATENCIES, OWNED, Failures, Filters, add_limits, filter_failures, read_filters
from rightfit.search.criteria import Judged, add_fabric, add_host_cpus, add_most_nodes, add_quota
from rightfit.search.market import address_usd, balancer_usd
from rightfit.search.offers import Market, known_host_bytes
from rightfit.search.risk import surety_of_month
from rightfit.search.service.found import ServingBill, ServingResult, Sizing
from rightfit.search.service.grid import Capacity, ReplicaGrid, at_load, capacity
from rightfit.search.service.space import CPU_FAMILY, ServingFleet, ServingSpace
from rightfit.search.service.stacks import kept_of, weights_bytes
from rightfit.search.service.wish import LATENCY_LIMITS, ServingRequest, usual
from rightfit.search.sources import num_parameters
from rightfit.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.workload import Workload


# ---- What a server with accelerators needs beside them for a service: RAM and processors of its
# engine's processes.

_OTHER_BITS = 16.0
_BITS = {"fp32": 32.0}


def host_need_bytes(wish: ServingRequest, fleet: ServingFleet) -> Array:
    """Host RAM [bytes] that a server of each machine class needs (classes,): the engine's
    processes, and weights on their way to the cards.

    Engines of language models read one file after another, each process its own; other models are
    read whole, in the arithmetic that runs, and then moved (from_pretrained, torch.load). Classes
    without accelerators hold the model in RAM: their need is that of the estimate.
    """
    known = usual()
    cards = fleet.gpus_per_node.astype(np.float64)
    if wish.generates:
        staged = cards * min(weights_bytes(wish), float(known["host_file_bytes"]))
    else:
        bits = [_BITS.get(stacks[0].format if stacks else "", _OTHER_BITS) for stacks in fleet.stacks]
        staged = num_parameters(wish.model) * np.array(bits) / 8.0
    return np.asarray(known["host_bytes_per_server"] + cards * known["host_bytes_per_process"] + staged)


def least_vcpus(wish: ServingRequest, accelerators: Array) -> Array:
    """Hardware threads that the processes of an engine need at least; `accelerators` of one server,
    0 of those without, which need none."""
    apart = float(usual()["engine_processes"]) if wish.generates else float(facts.coefficients("planning")["job_processes"])
    return np.where(accelerators > 0, apart + accelerators, 0.0)


Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

SERVING_PURCHASES = ("on-demand", "subscription-1m")
MOST_SERVERS = 4096


def serving_wanted(workload: Workload, catalog: Catalog) -> Filters:
    """The user's filters; without a wish a service is priced by the hour or by the month."""
    wanted = read_filters(workload, catalog)
    return wanted if workload.purchase or workload.task == "batch" else dataclasses.replace(wanted, purchases=(*SERVING_PURCHASES, OWNED))


def format_columns(space: ServingSpace, published: str) -> tuple[tuple[str, ...], Index]:
    """Weight formats as columns of the answer: as published first, whatever its
    arithmetic is called."""
    names = [
        "16-bit" if stack.kv == "16-bit" and (stack.is_full_precision or stack.format == published) else f"{stack.format}/{stack.kv}"
        for stack in space.stack
    ]
    order = tuple(dict.fromkeys(sorted(names, key=lambda name: name != "16-bit"))) or ("16-bit",)
    return order, np.array([order.index(name) for name in names], dtype=np.intp)


def size(
    wish: ServingRequest, fleet: ServingFleet, space: ServingSpace, grid: ReplicaGrid, able: Capacity, column: Index, *, num_columns: int
) -> Sizing:
    """Replicas and servers of every candidate, and the best candidate of each class and format:
    fewest servers, then least latency. Servers that are rented are filled: each of their cards
    costs the same whether it holds a replica or not."""
    needed = replicas_needed(wish, able)
    per_group = np.maximum(fleet.gpus_per_node[space.machine] // np.maximum(space.tensor, 1), 1).astype(np.float64)
    with np.errstate(invalid="ignore"):
        beside = np.ceil(fleet.taken[space.machine] / np.maximum(space.tensor, 1)) if fleet.taken.shape[0] else 0.0
        servers = np.where(np.isfinite(needed + beside), np.ceil((needed + beside) / per_group) * space.nodes, np.inf)
        # On the same servers: one of them holds a replica and all neighbours.
        servers = np.where((np.asarray(beside) > 0) & (space.nodes == 1) & (per_group < 1.0 + beside), np.inf, servers)
    servers = np.where(servers <= MOST_SERVERS, servers, np.inf)
    with np.errstate(invalid="ignore"):
        replicas = np.where(np.isfinite(servers), servers / space.nodes * per_group - beside, needed)
    latency = loaded_latency(wish, grid, replicas)
    order = np.lexsort((space.tensor, latency, servers))
    order = order[np.isfinite(servers[order])]
    group = space.machine[order] * num_columns + column[order]
    _, first = np.unique(group, return_index=True)
    flat = np.full(len(fleet) * num_columns, -1, dtype=np.intp)
    flat[group[first]] = order[first]
    row: Index = flat.reshape(len(fleet), num_columns)
    known = row >= 0
    pick = np.maximum(row, 0)

    def of(values: Array) -> Array:
        return np.where(known, values[pick] if values.shape[0] else np.inf, np.inf)

    return Sizing(row, of(replicas), of(servers), of(latency), of(needed))


def replicas_needed(wish: ServingRequest, able: Capacity) -> Array:
    """The least number of replicas for the rate and the users; infinity where one
    replica can take nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        for_rate = np.ceil(wish.rate_per_s / able.rate_per_s - 1e-9) if wish.rate_per_s else np.ones_like(able.rate_per_s)
        for_users = np.ceil(wish.users / able.users - 1e-9) if wish.users else np.ones_like(able.users)
    usable = (able.rate_per_s > 0) & ((able.users > 0) if wish.users else True)
    needed = np.where(usable, np.maximum(np.maximum(for_rate, for_users), 1.0), np.inf)
    return _with_one_queue(wish, able, needed) if takes_turns(wish) else needed


def takes_turns(wish: ServingRequest) -> bool:
    """Whether requests can go to whichever replica is free: those of a rate that are answered in
    one pass, with no state between them."""
    return bool(wish.rate_per_s) and not (wish.generates or wish.is_batch or wish.users)


def _with_one_queue(wish: ServingRequest, able: Capacity, apart: Array) -> Array:
    """Replicas where one queue feeds all of them, if it takes fewer than queues `apart`."""
    usable = np.flatnonzero(np.isfinite(apart))
    alone_s, group = np.unique(np.stack([able.alone_latency_s, apart])[:, usable], axis=1, return_inverse=True)
    needed = batch_queue.pooled_servers(
        alone_s[0],
        wish.rate_per_s,
        share=wish.limits.percentile,
        limit_s=wish.limits.latency_s,
        utilisation=usual()["most_utilisation"],
        most=alone_s[1],
    )
    out = apart.copy()
    out[usable] = needed[group.reshape(-1)]
    return out


def capacity_of(search_result: ServingResult, candidate: int, *, replicas: float) -> float:
    """The rate that one of so many replicas of a candidate gets within the limits [1/s]: what a
    replica can take by itself, or what it has of one queue."""
    able, wish = float(search_result.capacity.rate_per_s[candidate]), search_result.wish
    return max(able, float(wish.rate_per_s) / replicas) if takes_turns(wish) else able


def pooled_s(wish: ServingRequest, alone_s: Array, replicas: Array, *, percentile: float) -> Array:
    """Latency at a percentile where one queue feeds so many replicas, each of which takes one
    request at a time for `alone_s` [s]."""
    rate = np.full(alone_s.shape, wish.rate_per_s)
    return batch_queue.pooled_latency_s(alone_s, rate, replicas, shares=np.array([percentile]))[:, 0]


def loaded_latency(wish: ServingRequest, grid: ReplicaGrid, replicas: Array) -> Array:
    """Latency of a request at the percentile when the load is shared by so many replicas [s];
    infinity where there are none."""
    known = np.flatnonzero(np.isfinite(replicas))
    out = np.full(replicas.shape, np.inf)
    if known.shape[0]:
        part = grid.take(known)
        load = share_of_load(wish, replicas[known])
        out[known] = at_load(part, part.latency_s, **load)
        if takes_turns(wish):
            out[known] = np.minimum(out[known], pooled_s(wish, part.latency_s[:, 0], replicas[known], percentile=wish.limits.percentile))
    return out


def share_of_load(wish: ServingRequest, replicas: Array) -> dict[str, Any]:
    """What one of so many replicas gets: a rate, a number of users, or (a batch job)
    all that it can take."""
    if wish.is_batch:
        return {"batch": np.full(replicas.shape, np.inf)}
    return {"rate_per_s": wish.rate_per_s / replicas} if wish.rate_per_s else {"batch": wish.users / replicas}


def monthly_bill(wish: ServingRequest, market: Market, fleet: ServingFleet, space: ServingSpace, sizing: Sizing) -> ServingBill:
    """Rent, disks and traffic of a month for every (offer, format): rent of the hours of use that
    are stated, of all hours where a term is owed; disks, addresses and balancers are kept."""
    offers = market.offers
    machine = fleet.machine_index[offers.server_index]
    known = machine >= 0
    pick = np.maximum(machine, 0)

    def by_offer(values: Array) -> Array:
        return np.where(known[:, None], values[pick], np.inf) if values.shape[0] else np.full((len(offers), values.shape[1]), np.inf)

    servers, latency = by_offer(sizing.servers), by_offer(sizing.latency_s)
    hours, asked_h = usual()["hours_per_month"], wish.month_h
    finite = np.isfinite(servers)
    count = np.where(finite, servers, 0.0)
    hourly = count * offers.price_usd_per_h[:, None]
    disk_gb = weights_gb(wish) + (kept_of(wish) / 1e9 / np.maximum(count, 1.0) if wish.extras.kv_tier == "ssd" else 0.0)
    nvme = np.nan_to_num(offers.servers.local_nvme_bytes)[offers.server_index][:, None] >= disk_gb * 1e9
    storage = count * np.where(nvme, 0.0, disk_gb * market.charges.storage_usd_per_gb_month[:, None])
    egress = np.broadcast_to((egress_gb(wish, asked_h) * market.charges.egress_usd_per_gb)[:, None], count.shape)
    is_owed = market.charges.minimum_s >= hours * SECONDS_PER_HOUR
    rent = hourly * np.where(is_owed, hours, asked_h)[:, None]
    balancer = np.where(count > 1, balancer_usd(market.charges, hours=hours, sent_gb=egress_gb(wish, asked_h))[:, None], 0.0)
    network = count * address_usd(market.charges, np.full(count.shape, hours * 3600.0)) + balancer
    total = np.where(finite, rent + storage + egress + network, np.inf)
    return ServingBill(total, np.where(finite, latency, np.inf), hourly, rent, storage, egress, network)


def weights_gb(wish: ServingRequest) -> float:
    """Disk that a server needs for what is fetched and for its image [GB]."""
    return weights_bytes(wish) / 1e9 + float(usual()["image_gb"])


def egress_gb(wish: ServingRequest, hours: float) -> float:
    """Answers sent out in a month [GB]: text of four bytes a token; users count by the
    rate that they make."""
    requests = wish.rate_per_s * hours * 3600.0
    return requests * wish.output_tokens * float(facts.coefficients("planning")["bytes_per_token"]) / 1e9


def judge_serving(
    market: Market,
    fleet: ServingFleet,
    space: ServingSpace,
    filters: Filters,
    wish: ServingRequest,
    able: Capacity,
    sizing: Sizing,
    prices: ServingBill,
    column: Index,
) -> Failures:
    """Every criterion on every (offer, format)."""
    offers, shape = market.offers, prices.total_usd.shape
    machine = fleet.machine_index[offers.server_index]
    known, pick = machine >= 0, np.maximum(machine, 0)
    by_class = class_facts(fleet, space, able, wish, column, num_columns=shape[1])

    def spread_out(values: Array) -> Array:
        return np.where(known[:, None], values[pick], np.nan) if values.shape[0] else np.full(shape, np.nan)

    judged = Judged(filter_failures(offers, filters))
    judged.fails["capability"] = ~known[:, None]
    has_layout, fits = spread_out(by_class["candidates"]) > 0, spread_out(by_class["fits"]) > 0
    judged.fails["layout"] = known[:, None] & ~has_layout
    servers = spread_out(sizing.servers)
    kept = kept_of(wish) / np.maximum(np.nan_to_num(servers, nan=1.0, posinf=1.0), 1.0) if wish.extras.kv_tier == "host" else 0.0
    needed, usable = (spread_out(by_class[f"{name}_bytes"]) for name in ("needed", "usable"))
    add_memory(market, fleet, wish, has_layout, fits, needed, usable, judged, kept_bytes=kept)
    add_fabric(offers, spread_out(together_of(space, sizing)), judged)
    unserved = fits & ~np.isfinite(prices.total_usd)
    excused = np.zeros(shape, dtype=np.bool_)
    for name in LATENCIES:
        limit, alone = getattr(wish.limits, f"{name}_s"), spread_out(by_class[f"{name}_s"])
        if np.isfinite(limit):
            judged.put(name, unserved & (alone > limit), needed=np.full((1, 1), limit), had=alone)
            excused |= judged.fails[name]
    judged.fails["throughput"] = unserved & ~excused
    add_quota(filters, offers, servers, judged)
    add_most_nodes(filters, offers, servers, judged)
    sure = surety_of_month(prices, market)
    add_limits(filters, sure, judged)
    return Failures.of(judged, sure)


def rejudged(
    search_result: ServingResult, sizing: Sizing, *, able: Capacity | None = None, filters: Filters | None = None
) -> ServingResult:
    """The search with another sizing (and other capacities or filters), priced and judged again."""
    able, filters, wish = able or search_result.capacity, filters or search_result.filters, search_result.wish
    market, fleet, space = search_result.market, search_result.fleet, search_result.space
    bill = monthly_bill(wish, market, fleet, space, sizing)
    failures = judge_serving(market, fleet, space, filters, wish, able, sizing, bill, search_result.column)
    changed: dict[str, Any] = {
        "capacity": able,
        "filters": filters,
        "sizing": sizing,
        "bill": bill,
        "failures": failures,
        "bits": failures.bits(),
    }
    return dataclasses.replace(search_result, **changed)


def together_of(space: ServingSpace, sizing: Sizing) -> Array:
    """Servers of one replica of the best candidate of each (machine class, column); 1
    where there is none."""
    if not len(space):
        return np.ones(sizing.row.shape)
    return np.where(sizing.row >= 0, space.nodes[np.maximum(sizing.row, 0)], 1).astype(np.float64)


def add_memory(
    market: Market,
    fleet: ServingFleet,
    wish: ServingRequest,
    has_layout: Mask,
    fits: Mask,
    needed_bytes: Array,
    usable_bytes: Array,
    judged: Judged,
    *,
    kept_bytes: Array | float = 0.0,
) -> None:
    """Put memory and processors beside the other criteria: what a candidate needs is memory of the
    cards, or of the server where it has none; beside cards the server needs RAM and processors of
    its own. `kept_bytes`: caches of prompts that one server keeps in its RAM."""
    offers = market.offers
    machine = fleet.machine_index[offers.server_index]
    on_cpu = np.array([*(family.startswith(CPU_FAMILY) for family in fleet.families), False])[machine][:, None]
    ram = known_host_bytes(offers.servers)[offers.server_index][:, None]
    least_ram = np.append(host_need_bytes(wish, fleet), np.nan)[machine][:, None] + kept_bytes
    lacking = has_layout & ~fits
    judged.put("gpu_memory", lacking & ~on_cpu, needed=needed_bytes, had=usable_bytes)
    small = (lacking & on_cpu) | (fits & ~on_cpu & (ram < least_ram))
    judged.put("host_memory", small, needed=np.where(on_cpu, needed_bytes, least_ram), had=np.where(on_cpu, usable_bytes, ram))
    add_host_cpus(offers, least_vcpus(wish, np.nan_to_num(offers.servers.num_accelerators)), judged)


def class_facts(
    fleet: ServingFleet, space: ServingSpace, able: Capacity, wish: ServingRequest, column: Index, *, num_columns: int
) -> dict[str, Array]:
    """Of each (class, format): how many candidates there are and fit, the least memory need with
    its margin, and the least latencies of a lone request."""
    size = len(fleet) * num_columns
    group = space.machine * num_columns + column
    shape = (len(fleet), num_columns)
    counts = {"candidates": np.ones(len(space)), "fits": space.fits.astype(np.float64)}
    out: dict[str, Array] = {
        name: np.asarray(np.bincount(group, weights=ones, minlength=size), dtype=np.float64).reshape(shape) for name, ones in counts.items()
    }
    order = np.lexsort((space.safe_bytes / np.maximum(space.usable_bytes, 1.0),))
    present, first = np.unique(group[order], return_index=True)
    for name, values in (("needed_bytes", space.safe_bytes), ("usable_bytes", space.usable_bytes)):
        lowest = np.full(size, np.nan)
        lowest[present] = values[order[first]]
        out[name] = lowest.reshape(shape)
    for name in ("ttft", "tpot", "latency"):
        least = np.full(size, np.inf)
        np.minimum.at(least, group, np.where(space.fits, getattr(able, f"alone_{name}_s"), np.inf))
        out[f"{name}_s"] = least.reshape(shape)
    return out


# ---- Usual limits that no server keeps give way: a service never fails on a default that
# its user did not say.


def widened(wish: ServingRequest, space: ServingSpace, grid: ReplicaGrid) -> ServingRequest:
    """The wish with each latency limit that was assumed, and that no candidate keeps even for a
    request alone, at `wide_limit` times the time of the fastest."""
    assumed = [
        name for name in LATENCY_LIMITS if getattr(wish.workload, f"{name}_s") is None and np.isfinite(getattr(wish.limits, f"{name}_s"))
    ]
    usable = np.flatnonzero(space.fits)
    if not assumed or not usable.shape[0]:
        return wish
    alone = capacity(grid, wish.limits)
    for name in assumed:
        limit, least = getattr(wish.limits, f"{name}_s"), float(getattr(alone, f"alone_{name}_s")[usable].min())
        if np.isfinite(least) and least > limit:
            wish = _with_limit(wish, name, usual_s=limit, limit_s=float(usual()["wide_limit"]) * least)
    return wish


def _with_limit(wish: ServingRequest, name: str, *, usual_s: float, limit_s: float) -> ServingRequest:
    told = Assumption(name, limit_s, Reason("assumed_serve_latency_wide", {"value": limit_s, "usual_s": usual_s}))
    others = tuple(one for one in wish.assumptions if one.field != name)
    changed: dict[str, float] = {f"{name}_s": limit_s}
    return dataclasses.replace(wish, limits=dataclasses.replace(wish.limits, **changed), assumptions=(*others, told))
