"""One serving search from end to end: every candidate's capacity, the replicas that the load needs, every offer priced and judged."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.physics.columns import Array
from rightfit.search.constraints import OWNED, Failures, Wanted, accelerators_of, filter_failures, read_wanted
from rightfit.search.explore import Market, known_host_bytes
from rightfit.search.limits import add_quota
from rightfit.search.market import Bill, address_usd, balancer_usd
from rightfit.search.serving_cpu import cpu_machines, least_bytes, suits_cpus, token_market
from rightfit.search.serving_grid import Capacity, ReplicaGrid, TokenTimes, at_load, capacity, token_grid, token_times
from rightfit.search.serving_refine import Confirmed
from rightfit.search.serving_space import ServingFleet, ServingSpace, build_serving_space, family_of, known_accelerator, serving_fleet
from rightfit.search.serving_stacks import StackWish, published_format, read_stack_wish, refuse_wrong_pair
from rightfit.search.serving_wish import ServingWish, read_serving_wish, usual

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload

Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

SERVING_PURCHASES = ("on-demand", "subscription-1m")
MOST_SERVERS = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class ServingBill:
    """Money of a month by (offer, format column); `total_s` is the latency of a request under the load, which `--objective time` ranks by."""

    total_usd: Array
    total_s: Array
    hourly_usd: Array
    servers_usd: Array
    storage_usd: Array
    egress_usd: Array
    network_usd: Array


@dataclasses.dataclass(frozen=True, slots=True)
class Sizing:
    """The best candidate of each (machine class, format column): its row (-1: none), replicas, servers and latency under the load."""

    row: Index
    replicas: Array
    servers: Array
    latency_s: Array


@dataclasses.dataclass(frozen=True, slots=True)
class ServingExploration:
    """All that one serving search found. Rows of `bill` and `bits` are offers; columns are weight formats (column 0: as published)."""

    wish: ServingWish
    wanted: Wanted
    market: Market
    fleet: ServingFleet
    space: ServingSpace
    grid: ReplicaGrid
    capacity: Capacity
    formats: tuple[str, ...]
    column: Index
    sizing: Sizing
    bill: ServingBill | Bill
    failures: Failures
    bits: NDArray[np.int32]
    passes: Array | None = None
    times: TokenTimes | None = None
    confirmed: Confirmed = dataclasses.field(default_factory=Confirmed)

    def sizing_of(self, candidate: int) -> float:
        """Replicas that a candidate was given, where it is the best of its class and format."""
        at = int(self.space.machine[candidate]), int(self.column[candidate])
        return float(self.sizing.replicas[at])

    def candidate(self, offer: int, column: int) -> int:
        """The row of the space that an offer would run."""
        machine = int(self.fleet.machine_index[int(self.market.offers.server_index[offer])])
        return int(self.sizing.row[machine, column]) if machine >= 0 else -1


def stack_wish_of(workload: Workload, model: str) -> StackWish:
    """Engine and formats that the workload names for a model."""
    words = {"engine": workload.framework or "", "quantization": workload.quantization or "", "precision": workload.precision or ""}
    return read_stack_wish(**words, model=model, kv_cache=workload.kv_cache or "")


def serving_wanted(workload: Workload, catalog: Catalog) -> Wanted:
    """The user's filters; without a wish a service is priced by the hour or by the month."""
    wanted = read_wanted(workload, catalog)
    return wanted if workload.purchase or workload.task == "batch" else dataclasses.replace(wanted, purchases=(*SERVING_PURCHASES, OWNED))


def explore_serving(workload: Workload, catalog: Catalog, *, market: Market | None = None) -> ServingExploration:
    """Search every way to serve a model; on the servers of `market` alone where one is given."""
    wish = read_serving_wish(workload)
    return (explore_tokens if wish.generates else explore_forward)(wish, catalog, market=market)


def explore_forward(wish: ServingWish, catalog: Catalog, *, market: Market | None = None) -> ServingExploration:
    """Models of one forward pass: accelerators and CPU servers."""
    from rightfit.search import serving_forward as forward

    wanted = serving_wanted(wish.workload, catalog)
    if wish.scores_rows:
        from rightfit.search.serving_classical import explore_classical

        return explore_classical(wish, wanted, catalog, market=market)
    choice = forward.read_forward_choice(wish.workload, forward.modality_of(wish)[0])
    market = market or forward.forward_market(catalog, wanted, with_cpus=forward.suits_cpu(wish))
    fleet, machines = forward.forward_fleet(market.offers.servers, market.offers, choice)
    space, passes = forward.forward_space(fleet, machines, wish)
    grid = forward.forward_grid(passes, percentile=wish.limits.percentile)
    return dataclasses.replace(judged(wish, wanted, market, fleet, space, grid), passes=passes)


def explore_tokens(wish: ServingWish, catalog: Catalog, *, market: Market | None = None) -> ServingExploration:
    """Language models."""
    workload = wish.workload
    stacks = stack_wish_of(workload, wish.model.name)
    cards = tuple(known_accelerator(name) for gpu in workload.gpu for name in accelerators_of(gpu) if name)
    refuse_wrong_pair(stacks, tuple((card, family_of(card)) for card in cards))
    wanted = serving_wanted(workload, catalog)
    every_cpu = market is not None or bool(wanted.gpus)
    with_cpus = market is not None or suits_cpus(wish, stacks, wanted)
    market = market or token_market(catalog, wanted, with_cpus=with_cpus, least_bytes=least_bytes(wish, stacks))
    servers = market.offers.servers
    processors = cpu_machines(servers, np.unique(market.offers.server_index), wish, stacks, every=every_cpu) if with_cpus else {}
    fleet = serving_fleet(servers, stacks, processors=processors)
    space = build_serving_space(servers, fleet, wish)
    times = token_times(space)
    grid = token_grid(times, wish, percentile=wish.limits.percentile)
    return dataclasses.replace(judged(wish, wanted, market, fleet, space, grid), times=times)


def judged(
    wish: ServingWish, wanted: Wanted, market: Market, fleet: ServingFleet, space: ServingSpace, grid: ReplicaGrid
) -> ServingExploration:
    """Size every class for the load, price and judge every offer."""
    if wish.is_batch:
        from rightfit.search.serving_batch import judged_batch

        return judged_batch(wish, wanted, market, fleet, space, grid)
    able = capacity(grid, wish.limits)
    able = dataclasses.replace(able, rate_per_s=able.rate_per_s * space.fits, users=able.users * space.fits)
    formats, column = format_columns(space, published_format(wish.model.name))
    sizing = size(wish, fleet, space, grid, able, column, num_columns=len(formats))
    prices = monthly_bill(wish, market, fleet, space, sizing)
    failures = judge_serving(market, fleet, space, wanted, wish, able, sizing, prices, column)
    return ServingExploration(wish, wanted, market, fleet, space, grid, able, formats, column, sizing, prices, failures, failures.bits())


def format_columns(space: ServingSpace, published: str) -> tuple[tuple[str, ...], Index]:
    """Weight formats as columns of the answer: as published first, whatever its arithmetic is called."""
    names = [
        "16-bit" if stack.kv == "16-bit" and (stack.is_full_precision or stack.format == published) else f"{stack.format}/{stack.kv}"
        for stack in space.stack
    ]
    order = tuple(dict.fromkeys(sorted(names, key=lambda name: name != "16-bit"))) or ("16-bit",)
    return order, np.array([order.index(name) for name in names], dtype=np.intp)


def size(
    wish: ServingWish, fleet: ServingFleet, space: ServingSpace, grid: ReplicaGrid, able: Capacity, column: Index, *, num_columns: int
) -> Sizing:
    """Replicas and servers of every candidate, and the best candidate of each class and format: fewest servers, then least latency."""
    replicas = replicas_needed(wish, able)
    per_group = np.maximum(fleet.gpus_per_node[space.machine] // np.maximum(space.tensor, 1), 1).astype(np.float64)
    with np.errstate(invalid="ignore"):
        servers = np.where(np.isfinite(replicas), np.ceil(replicas / per_group) * space.nodes, np.inf)
    servers = np.where(servers <= MOST_SERVERS, servers, np.inf)
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

    return Sizing(row, of(replicas), of(servers), of(latency))


def replicas_needed(wish: ServingWish, able: Capacity) -> Array:
    """The least number of replicas for the rate and the users; infinity where one replica can take nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        for_rate = np.ceil(wish.rate_per_s / able.rate_per_s - 1e-9) if wish.rate_per_s else np.ones_like(able.rate_per_s)
        for_users = np.ceil(wish.users / able.users - 1e-9) if wish.users else np.ones_like(able.users)
    usable = (able.rate_per_s > 0) & (able.users > 0)
    return np.where(usable, np.maximum(np.maximum(for_rate, for_users), 1.0), np.inf)


def loaded_latency(wish: ServingWish, grid: ReplicaGrid, replicas: Array) -> Array:
    """Latency of a request at the percentile when the load is shared by so many replicas [s]; infinity where there are none."""
    known = np.flatnonzero(np.isfinite(replicas))
    out = np.full(replicas.shape, np.inf)
    if known.shape[0]:
        part = grid.take(known)
        load = share_of_load(wish, replicas[known])
        out[known] = at_load(part, part.latency_s, **load)
    return out


def share_of_load(wish: ServingWish, replicas: Array) -> dict[str, Any]:
    """What one of so many replicas gets: a rate, a number of users, or (a batch job) all that it can take."""
    if wish.is_batch:
        return {"batch": np.full(replicas.shape, np.inf)}
    return {"rate_per_s": wish.rate_per_s / replicas} if wish.rate_per_s else {"batch": wish.users / replicas}


def monthly_bill(wish: ServingWish, market: Market, fleet: ServingFleet, space: ServingSpace, sizing: Sizing) -> ServingBill:
    """Rent, disks and traffic of a month for every (offer, format)."""
    offers = market.offers
    machine = fleet.machine_index[offers.server_index]
    known = machine >= 0
    pick = np.maximum(machine, 0)

    def by_offer(values: Array) -> Array:
        return np.where(known[:, None], values[pick], np.inf) if values.shape[0] else np.full((len(offers), values.shape[1]), np.inf)

    servers, latency = by_offer(sizing.servers), by_offer(sizing.latency_s)
    hours = usual()["hours_per_month"]
    finite = np.isfinite(servers)
    count = np.where(finite, servers, 0.0)
    hourly = count * offers.price_usd_per_h[:, None]
    disk_gb = weights_gb(wish)
    nvme = np.nan_to_num(offers.servers.local_nvme_bytes)[offers.server_index] >= disk_gb * 1e9
    storage = count * np.where(nvme, 0.0, disk_gb * market.charges.storage_usd_per_gb_month)[:, None]
    egress = np.broadcast_to((egress_gb(wish, hours) * market.charges.egress_usd_per_gb)[:, None], count.shape)
    rent = hourly * hours
    balancer = np.where(count > 1, balancer_usd(market.charges, hours=hours, sent_gb=egress_gb(wish, hours))[:, None], 0.0)
    network = count * address_usd(market.charges, np.full(count.shape, hours * 3600.0)) + balancer
    total = np.where(finite, rent + storage + egress + network, np.inf)
    return ServingBill(total, np.where(finite, latency, np.inf), hourly, rent, storage, egress, network)


def weights_gb(wish: ServingWish) -> float:
    """Disk that a server needs for the model and its image [GB], weights in 16 bit."""
    return num_parameters(wish) * 2.0 / 1e9 + float(usual()["image_gb"])


def num_parameters(wish: ServingWish) -> float:
    """Parameters of the model, all components together."""
    return float(getattr(wish.model, "params_total", 0) or getattr(wish.model, "total_params", 0))


def egress_gb(wish: ServingWish, hours: float) -> float:
    """Answers sent out in a month [GB]: text of four bytes a token; users count by the rate that they make."""
    requests = wish.rate_per_s * hours * 3600.0
    return requests * wish.output_tokens * float(facts.coefficients("planning")["bytes_per_token"]) / 1e9


def judge_serving(
    market: Market,
    fleet: ServingFleet,
    space: ServingSpace,
    wanted: Wanted,
    wish: ServingWish,
    able: Capacity,
    sizing: Sizing,
    prices: ServingBill,
    column: Index,
) -> Failures:
    """Every criterion on every (offer, format)."""
    offers = market.offers
    shape = prices.total_usd.shape
    machine = fleet.machine_index[offers.server_index]
    known, pick = machine >= 0, np.maximum(machine, 0)
    fails: dict[str, Mask] = {name: mask[:, None] for name, mask in filter_failures(offers, wanted).items()}
    needed: dict[str, Array] = {}
    had: dict[str, Array] = {}
    fails["capability"] = ~known[:, None]
    by_class = class_facts(fleet, space, able, wish, column, num_columns=shape[1])

    def spread_out(values: Array) -> Array:
        return np.where(known[:, None], values[pick], np.nan) if values.shape[0] else np.full(shape, np.nan)

    has_layout = spread_out(by_class["candidates"]) > 0
    fits = spread_out(by_class["fits"]) > 0
    fails["layout"] = known[:, None] & ~has_layout
    fails["gpu_memory"] = has_layout & ~fits
    needed["gpu_memory"], had["gpu_memory"] = spread_out(by_class["needed_bytes"]), spread_out(by_class["usable_bytes"])
    ram = known_host_bytes(offers.servers)[offers.server_index][:, None]
    least_ram = (usual()["host_bytes_per_accelerator"] * offers.servers.num_accelerators)[offers.server_index][:, None]
    fails["host_memory"] = fits & (ram < least_ram)
    needed["host_memory"], had["host_memory"] = least_ram, ram
    for name in ("ttft", "tpot", "latency"):
        limit = getattr(wish.limits, f"{name}_s")
        if np.isfinite(limit):
            alone = spread_out(by_class[f"{name}_s"])
            fails[name] = fits & ~np.isfinite(prices.total_usd) & (alone > limit)
            needed[name], had[name] = np.full((1, 1), limit), alone
    unserved = fits & ~np.isfinite(prices.total_usd)
    excused = np.zeros(shape, dtype=np.bool_)
    for name in ("ttft", "tpot", "latency"):
        excused |= fails.get(name, excused & False)
    fails["throughput"] = unserved & ~excused
    add_quota(wanted.quotas, offers, spread_out(sizing.servers), fails=fails, needed=needed, had=had)
    if wanted.max_nodes is not None:
        servers = spread_out(sizing.servers)
        fails["max_nodes"] = np.isfinite(servers) & (servers > wanted.max_nodes)
        needed["max_nodes"], had["max_nodes"] = np.full((1, 1), float(wanted.max_nodes)), servers
    if wanted.budget_usd is not None:
        fails["budget"] = np.isfinite(prices.total_usd) & (prices.total_usd > wanted.budget_usd)
        needed["budget"], had["budget"] = np.full((1, 1), wanted.budget_usd), prices.total_usd
    return Failures(fails, needed, had, shape)


def class_facts(
    fleet: ServingFleet, space: ServingSpace, able: Capacity, wish: ServingWish, column: Index, *, num_columns: int
) -> dict[str, Array]:
    """Of each (class, format): how many candidates there are and fit, the least memory need, and the least latencies of a lone request."""
    size = len(fleet) * num_columns
    group = space.machine * num_columns + column
    shape = (len(fleet), num_columns)
    counts = {"candidates": np.ones(len(space)), "fits": space.fits.astype(np.float64)}
    out: dict[str, Array] = {
        name: np.asarray(np.bincount(group, weights=ones, minlength=size), dtype=np.float64).reshape(shape) for name, ones in counts.items()
    }
    order = np.lexsort((space.needed_bytes / np.maximum(space.usable_bytes, 1.0),))
    present, first = np.unique(group[order], return_index=True)
    for name in ("needed_bytes", "usable_bytes"):
        lowest = np.full(size, np.nan)
        lowest[present] = getattr(space, name)[order[first]]
        out[name] = lowest.reshape(shape)
    for name in ("ttft", "tpot", "latency"):
        least = np.full(size, np.inf)
        np.minimum.at(least, group, np.where(space.fits, getattr(able, f"alone_{name}_s"), np.inf))
        out[f"{name}_s"] = least.reshape(shape)
    return out
