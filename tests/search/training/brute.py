"""The same search as plain Python loops over everything, one candidate at a time, written without
looking at the vectorised one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from rightfit import facts
from rightfit.estimation.convert import device_columns, link_columns
from rightfit.families.language.kind import base_setup
from rightfit.market import PURCHASES
from rightfit.market.sellers import is_any_place
from rightfit.physics.columns import Method, SetupColumns
from rightfit.search.constraints import Filters
from rightfit.search.offers import Market
from rightfit.search.training.machines import Variant, lacks, variant_of
from rightfit.search.training.wish import TrainingRequest

ADAPTERS = (Method.LORA, Method.QLORA, Method.DORA, Method.PTUNING, Method.PREFIX)


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """The best candidate, every feasible (offer, nodes) with cost and time, and how many
    candidates were tried."""

    best: tuple[float, int, int] | None
    feasible: dict[tuple[int, int], tuple[float, float]]
    num_candidates: int


def layouts(wish: TrainingRequest, gpus: int, nodes: int) -> Iterator[dict[str, int]]:
    """Every way to lay the job out on nodes x gpus accelerators."""
    model, total = wish.model, gpus * nodes
    adapter = wish.method in ADAPTERS
    splits = wish.workload.framework == "nemo"
    pipelines = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32] if splits else [1]
    for pipeline in pipelines:
        if pipeline > model.num_layers or math.ceil(model.num_layers / pipeline) * pipeline > 1.125 * model.num_layers:
            continue
        for tensor in (1, 2, 3, 4, 5, 6, 7, 8, 10, 16) if splits else (1,):
            if gpus % tensor or model.num_heads % tensor or total % (tensor * pipeline):
                continue
            data = total // (tensor * pipeline)
            if data > wish.global_batch:
                continue
            for expert in (1, 2, 4, 8, 16, 32, 64) if splits and model.num_experts > 1 else (1,):
                if data % expert or (expert > 1 and model.num_experts % expert):
                    continue
                for sharding in shardings(adapter, data, tensor, pipeline, gpus, nodes):
                    yield {"pipeline": pipeline, "tensor": tensor, "data": data, "expert": expert, **sharding}


def shardings(adapter: bool, data: int, tensor: int, pipeline: int, gpus: int, nodes: int) -> Iterator[dict[str, int]]:
    """Every sharding that goes with the degrees."""
    alone = tensor == 1 and pipeline == 1
    yield {"stage": 0, "degree": 1, "offload": 0, "parts": 0}
    if data > 1 and not adapter:
        yield {"stage": 1, "degree": data, "offload": 0, "parts": 1}
        if alone:
            yield {"stage": 2, "degree": data, "offload": 0, "parts": 1}
    if data > 1 and pipeline == 1:
        yield {"stage": 3, "degree": data, "offload": 0, "parts": 2}
        if nodes > 1 and gpus // tensor > 1:
            yield {"stage": 3, "degree": gpus // tensor, "offload": 0, "parts": 3}
    if alone:
        if not adapter:
            yield {"stage": 3, "degree": data, "offload": 1, "parts": 3}
        yield {"stage": 3, "degree": data, "offload": 2, "parts": 4}


def candidates(wish: TrainingRequest, gpus: int, nodes: int) -> Iterator[dict[str, int]]:
    """Layouts with every micro-batch and recomputation level."""
    fixed = wish.workload.micro_batch
    for layout in layouts(wish, gpus, nodes):
        micro = fixed or 1
        while fixed or micro <= wish.global_batch:
            accumulate = math.ceil(wish.global_batch / (layout["data"] * micro))
            if layout["data"] * micro * accumulate <= 1.25 * wish.global_batch:
                for recompute in (0, 1, 2):
                    yield {**layout, "micro_batch": micro, "grad_accum": accumulate, "recompute": recompute}
            if fixed:
                break
            micro *= 2


def last_resort(wish: TrainingRequest, one: dict[str, int], nodes: int) -> int:
    """How little speaks for a candidate: 1 for a mixture of experts whose adapters gather every
    expert, 2 for offloading, 3 for what nobody does: either of them over several servers, save for
    experts that are gathered within each server."""
    gathers = wish.model.num_experts > 1 and wish.method in ADAPTERS and wish.workload.framework != "nemo"
    sharded = one["stage"] == 3 and one["offload"] == 0
    if gathers and nodes > 1 and (one["offload"] == 2 or (sharded and one["parts"] == 2)):
        return 3
    return 2 if one["offload"] else int(gathers and sharded)


def moving_parts(one: dict[str, int]) -> int:
    """How elaborate a candidate is."""
    return one["parts"] + sum(one[name] > 1 for name in ("tensor", "pipeline", "expert"))


def setup_of(base: SetupColumns, one: dict[str, int], gpus: int) -> SetupColumns:
    """One candidate as columns of length one."""
    return base.replace(
        micro_batch=one["micro_batch"],
        grad_accum=one["grad_accum"],
        data=one["data"],
        tensor=one["tensor"],
        pipeline=one["pipeline"],
        context=1,
        expert=one["expert"],
        sequence_parallel=float(one["tensor"] > 1),
        shard_stage=one["stage"],
        shard_degree=one["degree"],
        offload_optimizer=float(one["offload"] >= 1),
        offload_params=float(one["offload"] >= 2),
        recompute=one["recompute"],
        gpus_per_node=gpus,
    )


def cheapest_volume(provider: str, size: float, needed: float) -> tuple[float, float, float]:
    """Bytes/s, requests/s and price over the default volume of the cheapest way to buy a volume
    that reads `needed` bytes/s, else the fastest."""
    rows = [row for row in facts.table("volumes") if row["provider"] == provider and row["kind"] in ("block", "file")]
    rows = rows or [row for row in facts.table("volumes") if row["provider"] == "*" and row["kind"] == "block"]
    usual = size / 1e9 * float(rows[0]["usd_per_gb_month"])
    ways = []
    for row in rows:
        number = {key: float(value) for key, value in row.items() if key not in ("provider", "volume", "kind", "price_key", "source")}
        gb = max(size / 1e9, number["least_gb"])
        included = min(number["base_mb_per_s"] + number["mb_per_s_per_gb"] * gb, number["max_mb_per_s"])
        requests = min(number["base_iops"] + number["iops_per_gb"] * gb, number["max_iops"])
        levels = [mb for mb in (250, 500, 750, 1000, 1200, 2000, 2400, 4000) if included < mb <= number["provisioned_mb_per_s"]]
        for mb in ([included] if included else []) + levels:
            usd = gb * number["usd_per_gb_month"] + max(mb - included, 0) * number["usd_per_mb_per_s_month"]
            ways.append((usd, -mb, requests))
    ways.sort()
    enough = [way for way in ways if -way[1] * 1e6 >= needed * (1 - 1e-12)] or [min(ways, key=lambda way: (way[1], way[0]))]
    usd, mb, requests = enough[0]
    return -mb * 1e6, requests, usd / usual


def data_of(wish: TrainingRequest, market: Market, offer: int, nodes: int, run_s: float, volume: Any, needed: float) -> dict[str, float]:
    """Seconds of staging and of the run with its waits, bytes on volumes, and their price factor,
    for tokenised data that are read once."""
    servers, server = market.offers.servers, int(market.offers.server_index[offer])
    usual = facts.coefficients("loading")
    data, weights = volume.dataset_bytes, volume.weights_bytes
    ram = servers.memory_bytes[server]
    if math.isnan(ram):
        ram = servers.num_accelerators[server] * servers.accelerator_memory_bytes[server]
        ram *= facts.coefficients("planning")["unknown_host_memory_ratio"]
    free = max(ram - needed, 0) * usual["free_memory_share"]
    cached = min(1.0, free / data)
    spare = max(servers.vcpus[server] - 2 * servers.num_accelerators[server], min(1.0, servers.vcpus[server]))
    cores = spare / 2 + usual["sibling_share"] * (spare - spare / 2)
    prepare = wish.amount.tokens / nodes * usual["ready_s_per_token"] / (3.1 * 1.1 * cores)
    uncached = (1 - cached) * data / nodes
    rate, requests, factor = cheapest_volume(servers.provider[server], weights + data, uncached * 0.8 / max(run_s, prepare))
    rate = min(rate, servers.network_bytes_per_s[server])
    nvme = servers.local_nvme_bytes[server]
    local = nvme >= weights + data
    if local:
        rate, requests = min(5e8 + nvme * 1e-3, 16e9), 1_600_000
    reading = max(uncached / rate, uncached / 1e6 / requests)
    loading = max(reading, prepare)
    store = min(8.5e8, servers.network_bytes_per_s[server])
    copy = data / (store if cached >= 1 else min(store, rate))
    copied, streamed = max(run_s, loading), max(run_s, data / nodes / store, prepare)
    stream = copy + copied > 1.01 * streamed
    in_memory = not stream and data <= free / 4 and not local
    kept = weights + (0 if in_memory or stream else data)
    stored = 0 if nvme >= kept else kept * nodes
    return {"staging": 0 if stream else copy, "run": streamed if stream else copied, "stored": stored, "factor": factor}


def cost_and_time(
    wish: TrainingRequest, market: Market, offer: int, nodes: int, run_s: float, volume: Any, needed: float
) -> tuple[float, float]:
    """Money and wall time of one offer, in scalar arithmetic."""
    offers, charges = market.offers, market.charges
    server = int(offers.server_index[offer])
    usual = facts.coefficients("planning")
    gpus = offers.servers.num_accelerators[server]
    data = data_of(wish, market, offer, nodes, run_s, volume, needed)
    run_s = data["run"]
    startup = (
        usual["startup_s"]
        + data["staging"]
        + volume.weights_bytes / min(offers.servers.network_bytes_per_s[server], usual["download_bytes_per_s"])
    )
    save = volume.checkpoint_bytes / (usual["checkpoint_bytes_per_s"] * nodes)
    monthly = (charges.spot_low[offer] + charges.spot_high[offer]) / 2
    rate = nodes * (usual["failures_per_accelerator_s"] * gpus - math.log(1 - monthly) / (730 * 3600))
    between = 1 / rate
    ratio = save / (2 * between)
    interval = math.sqrt(2 * save * between) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save if ratio < 1 else between
    segment = min(max(interval, 1.0), run_s)
    wall = between * math.exp(min(usual["restart_s"] / between, 300)) * math.expm1(min((segment + save) / between, 300)) * run_s / segment
    total_s = startup + wall
    billed = max(charges.minimum_s[offer], math.ceil(total_s / charges.increment_s[offer] - 1e-9) * charges.increment_s[offer])
    rent = billed / 3600 * offers.price_usd_per_h[offer] * nodes
    kept = usual["checkpoints_kept"] * volume.checkpoint_bytes * charges.object_usd_per_gb_month[offer]
    storage = (data["stored"] * data["factor"] * charges.storage_usd_per_gb_month[offer] + kept) / 1e9 * total_s / (730 * 3600)
    address = 0.0 if charges.public_ip_usd_per_h is None else charges.public_ip_usd_per_h[offer] * nodes * total_s / 3600
    return rent + storage + volume.result_bytes / 1e9 * charges.egress_usd_per_gb[offer] + address, total_s


def allowed(market: Market, filters: Filters, offer: int, nodes: int) -> bool:
    """The user's filters on one offer."""
    offers = market.offers
    server, region = int(offers.server_index[offer]), int(offers.region_index[offer])
    servers = offers.servers
    return not (
        servers.not_recommended[server]
        or (filters.clouds and servers.provider[server] not in filters.clouds)
        or (filters.regions and offers.regions[region] not in filters.regions)
        or (filters.countries and offers.region_countries[region] not in filters.countries)
        or ((filters.regions or filters.countries) and _any_place(offers, server, region))
        or (filters.gpus and servers.accelerator_name[server] not in filters.gpus)
        or (
            facts.accelerators()[servers.accelerator_name[server]].vendor not in ("NVIDIA", "AMD")
            and servers.accelerator_name[server] not in filters.gpus
        )
        or PURCHASES[offers.purchase_index[offer]] not in filters.purchases
        or (filters.max_nodes is not None and nodes > filters.max_nodes)
        or (nodes > 1 and not _joined(market, offer, server))
    )


def _any_place(offers: Any, server: int, region: int) -> bool:
    """Whether the region of an offer stands for any of its seller's."""
    return is_any_place(offers.servers.provider[server], offers.servers.instance_type[server], offers.regions[region])


def _joined(market: Market, offer: int, server: int) -> bool:
    """Whether several servers of an offer are known to be able to work as one."""
    servers = market.offers.servers
    private = servers.network_bytes_per_s[server] > 0 and not market.offers.is_pseudo_region[offer]
    return bool(servers.rdma[server] != "none" or private)


def brute_force(wish: TrainingRequest, market: Market, filters: Filters, physics: Any, *, node_counts: tuple[int, ...]) -> SearchResult:
    """Try everything."""
    servers = market.offers.servers
    fastest: dict[tuple[int, int], tuple[float, float]] = {}
    least_host: dict[tuple[int, int], float] = {}
    tried = 0
    precision, attention = wish.workload.precision or "", wish.workload.attention or ""
    for server in range(len(servers)):
        accelerator = facts.accelerators()[servers.accelerator_name[server]]
        if lacks(accelerator, method=wish.method, precision=precision):
            continue
        variant: Variant = variant_of(accelerator, precision=precision, attention=attention)
        base = base_setup(wish, [variant])
        device = device_columns([accelerator])
        gpus = int(servers.num_accelerators[server])
        links = link_columns(
            [accelerator.name],
            num_accelerators=[gpus],
            gpu_interconnect=[servers.gpu_interconnect[server]],
            rdma=[servers.rdma[server]],
            network_bytes_per_s=[servers.network_bytes_per_s[server]],
        )
        host = servers.memory_bytes[server]
        if math.isnan(host):  # not published: little is assumed
            host = (
                servers.num_accelerators[server]
                * servers.accelerator_memory_bytes[server]
                * facts.coefficients("planning")["unknown_host_memory_ratio"]
            )
        for nodes in node_counts:
            for one in candidates(wish, gpus, nodes):
                tried += 1
                last = last_resort(wish, one, nodes)
                if last == 3:
                    continue
                setup = setup_of(base, one, gpus)
                margin, capacity = float(physics.safety(setup, device)[0]), float(physics.capacity(device)[0])
                needed = float((physics.memory(setup) - physics.spared(device))[0])
                if needed * margin > capacity:
                    continue
                # what may not fit is taken only where what surely does takes twice as long
                is_tight = needed * float(physics.safety(setup, device, sure=True)[0]) > capacity
                # what the leanest setup that fits the cards needs of the host, over all servers of
                # the same kind, leaves the rest to the data
                kind = (server, nodes)
                least_host[kind] = min(least_host.get(kind, math.inf), float(physics.host(setup)[0]))
                if float(physics.host(setup)[0]) > host:
                    continue
                step_s = float(physics.step_s(setup, device, links, physics.compute(setup, device))[0])
                batch = one["data"] * one["micro_batch"] * one["grad_accum"]
                run_s = step_s * max(1, math.ceil(wish.amount.tokens / (batch * wish.seq_len) - 1e-9))
                weighed = run_s * (1 + 0.01 * moving_parts(one)) * 1e3**last * (2.0 if is_tight else 1.0)
                fastest[server, nodes] = min(fastest.get((server, nodes), (math.inf, math.inf)), (weighed, run_s))
    volume = physics.volume(wish, base_setup(wish, [Variant("bf16", True)]))
    return judge(wish, market, filters, fastest, volume, node_counts, tried, least_host)


def judge(
    wish: TrainingRequest,
    market: Market,
    filters: Filters,
    fastest: dict,
    volume: Any,
    node_counts: tuple[int, ...],
    tried: int,
    least_host: dict,
) -> SearchResult:
    """Price every offer and keep what meets the wish."""
    feasible = {}
    for offer in range(len(market.offers)):
        for nodes in node_counts:
            _, run_s = fastest.get((int(market.offers.server_index[offer]), nodes), (None, None))
            if run_s is None or not allowed(market, filters, offer, nodes):
                continue
            needed = least_host[int(market.offers.server_index[offer]), nodes]
            usd, seconds = cost_and_time(wish, market, offer, nodes, run_s, volume, needed)
            hourly = market.offers.price_usd_per_h[offer] * nodes
            spent = min(usd, 730 * hourly) if filters.budget_per_month else usd
            if filters.deadline_s is not None and seconds > filters.deadline_s:
                continue
            if filters.budget_usd is not None and spent > filters.budget_usd:
                continue
            feasible[offer, nodes] = (usd, seconds)
    quickest = min((s for _, s in feasible.values()), default=0.0)
    score = {
        "cost": lambda usd, s: usd,
        "time": lambda usd, s: usd if s <= max(1.01 * quickest, quickest + 120.0) else math.inf,  # the cheapest of those that are as fast
        "balanced": lambda usd, s: usd**2 * s,
    }[wish.workload.objective]
    ranked = sorted((score(*value), offer, nodes) for (offer, nodes), value in feasible.items())
    return SearchResult(ranked[0] if ranked else None, feasible, tried)


def front(points: dict[tuple[int, int], tuple[float, float]]) -> set[tuple[float, float]]:
    """Points that no other point beats in both values."""
    values = set(points.values())
    return {(usd, s) for usd, s in values if not any((a <= usd and b <= s) and (a, b) != (usd, s) for a, b in values)}


def rounded(points: set[tuple[float, float]]) -> set[tuple[float, float]]:
    """Points to nine digits, so that another order of additions does not matter."""
    return {tuple(float(np.format_float_scientific(value, 8)) for value in point) for point in points}
