"""Several kinds of servers for one service at least cost: whole servers of each kind in one region,
with one to spare, as an integer programme.

    min sum p_i x_i   so that for each kind j in use   sum c_i x_i - c_j >= load,   x_i whole

p_i price and c_i capacity of a unit of kind i (the servers of one replica, or one server with
several), so that any one unit may fail. Solved by HiGHS (Huangfu and Hall, Mathematical Programming
Computation, 2018), which is the optional extra `fleet`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import MissingComponentError
from rightfit.messages import Message
from rightfit.physics import scaling
from rightfit.physics.columns import Array, once
from rightfit.records import dataclass
from rightfit.search.answer import Option, Reason, Section
from rightfit.search.criteria import has_fabric
from rightfit.search.service.found import ServingResult
from rightfit.search.service.options import ServingCost, ServingLayout
from rightfit.search.service.refine import queued, replica_columns
from rightfit.search.service.sizing import capacity_of, weights_gb
from rightfit.search.service.wish import usual
from rightfit.search.solver import quiet_highs, solver_module

Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

#: The user's own criteria on single servers; what the whole fleet costs or how many there
#: are is decided here.
OF_A_SERVER = ("status", "cloud", "region", "country", "gpu", "software", "purchase")
MOST_KINDS = 24
GAP = 1e-6


@dataclass(frozen=True, slots=True)
class ServerKinds:
    """Units that may be rented, one row each: offer and candidate, price [USD/h] and load that one
    carries, servers in it."""

    offer: Index
    row: Index
    usd_per_h: Array
    capacity: Array
    servers: Array

    def take(self, index: Index) -> ServerKinds:
        """Rows `index`."""
        return ServerKinds(*(getattr(self, field.name)[index] for field in dataclasses.fields(self)))


def solver() -> Any:
    """The solver's module; raises where the extra is not installed."""
    try:
        return solver_module()
    except ImportError:
        raise MissingComponentError(Message("search.no_solver")) from None


def cover(usd_per_h: Array, capacity: Array, *, load: float) -> NDArray[np.intp]:
    """Whole numbers of each kind that carry `load` at least cost even without any one unit;
    usd_per_h, capacity: (K,)."""
    capacity, load = capacity / load, 1.0  # figures near one suit the solver's tolerances
    highs = quiet_highs()
    highs.setOptionValue("mip_rel_gap", GAP)
    most = [math.ceil(load / one - 1e-9) + 1 for one in capacity.tolist()]
    counts = [highs.addIntegral(0, top, price) for top, price in zip(most, usd_per_h.tolist(), strict=True)]
    used = [highs.addBinary() for _ in most]
    carried = sum(one * count for one, count in zip(capacity.tolist(), counts, strict=True))
    for count, flag, top, one in zip(counts, used, most, capacity.tolist(), strict=True):
        highs.addConstr(count <= top * flag)
        highs.addConstr(carried - one * flag >= load)
    highs.minimize()
    return np.array([round(highs.val(count)) for count in counts], dtype=np.intp)


def undominated(usd_per_h: Array, capacity: Array) -> Index:
    """Kinds to which no other is as cheap and as able: in any fleet such a one could stand in its
    place, also where one unit fails."""
    order = np.lexsort((-capacity, usd_per_h))
    best = np.maximum.accumulate(np.concatenate([[-np.inf], capacity[order][:-1]]))
    return np.sort(order[capacity[order] > best])


def kinds_of(search_result: ServingResult) -> ServerKinds:
    """Every offer that passes by itself, with the candidate that carries most per server within
    the latency limits."""
    space, offers = search_result.space, search_result.market.offers
    able = search_result.capacity.rate_per_s if search_result.wish.rate_per_s else search_result.capacity.users
    each = np.maximum(search_result.fleet.gpus_per_node[space.machine] // np.maximum(space.tensor, 1), 1)
    unit = np.where(space.nodes > 1, 1, each) * able
    per_server = np.where(space.fits, unit / space.nodes, 0.0)
    best = np.full(len(search_result.fleet), -1, dtype=np.intp)
    order = np.argsort(per_server, kind="stable")
    best[space.machine[order]] = order
    machine = search_result.fleet.machine_index[offers.server_index]
    row = np.where(machine >= 0, best[np.maximum(machine, 0)], -1)
    refused = np.zeros(len(offers), dtype=np.bool_)
    for name in OF_A_SERVER:
        refused |= search_result.failures.fails[name][:, 0] if name in search_result.failures.fails else False
    refused |= (space.nodes[np.maximum(row, 0)] > 1) & ~has_fabric(offers) if len(space) else False
    passes = np.flatnonzero((row >= 0) & ~refused & _holds(search_result) & (per_server[np.maximum(row, 0)] > 0))
    picked = row[passes]
    nodes = space.nodes[picked].astype(np.float64)
    hourly = nodes * (offers.price_usd_per_h[passes] + _disk_usd_per_h(search_result, passes))
    return ServerKinds(passes, picked, hourly, unit[picked], nodes)


def _holds(search_result: ServingResult) -> Mask:
    """Whether each offer's server has the host memory that it needs in any format."""
    shape = search_result.failures.shape
    fails = np.broadcast_to(search_result.failures.fails.get("host_memory", np.zeros((1, 1), dtype=np.bool_)), shape)
    return np.asarray(~fails.all(axis=1))


def _disk_usd_per_h(search_result: ServingResult, passes: Index) -> Array:
    """Price of the disk that a server without its own needs [USD/h]."""
    offers, disk_gb = search_result.market.offers, weights_gb(search_result.wish)
    nvme = np.nan_to_num(offers.servers.local_nvme_bytes)[offers.server_index[passes]] >= disk_gb * 1e9
    monthly = disk_gb * search_result.market.charges.storage_usd_per_gb_month[passes]
    return np.asarray(np.where(nvme, 0.0, monthly) / search_result.wish.month_h)


def cheapest_fleet(search_result: ServingResult) -> tuple[ServerKinds, NDArray[np.intp]] | None:
    """The cheapest fleet of all regions: its kinds and how many of each. Regions are solved in the
    order of their bound load x least price / capacity."""
    kinds, load = kinds_of(search_result), search_result.wish.rate_per_s or float(search_result.wish.users)
    offers = search_result.market.offers
    servers = offers.server_index[kinds.offer]
    providers = {name: code for code, name in enumerate(dict.fromkeys(offers.servers.provider))}
    place = np.array([providers[offers.servers.provider[server]] for server in servers.tolist()], dtype=np.int64) * len(offers.regions)
    place = place + offers.region_index[kinds.offer]
    groups = [np.flatnonzero(place == code) for code in once(place)]
    bounds = [load * float((kinds.usd_per_h[group] / kinds.capacity[group]).min()) for group in groups]
    best: tuple[float, ServerKinds, NDArray[np.intp]] | None = None
    for at in np.argsort(bounds).tolist():
        if best is not None and bounds[at] >= best[0]:
            break
        part = kinds.take(groups[at])
        part = part.take(undominated(part.usd_per_h, part.capacity))
        part = part.take(np.argsort(part.usd_per_h / part.capacity, kind="stable")[:MOST_KINDS])
        counts = cover(part.usd_per_h, part.capacity, load=load)
        total = float(counts @ part.usd_per_h)
        if best is None or total < best[0] - 1e-9:
            best = (total, part, counts)
    return None if best is None else best[1:]


def fleet_section(search_result: ServingResult, option: Option) -> Section | None:
    """The mixed fleet with one unit to spare, against the cheapest of one kind
    with one to spare."""
    chosen = cheapest_fleet(search_result)
    if chosen is None:
        return None
    kinds, counts = chosen
    load = search_result.wish.rate_per_s or float(search_result.wish.users)
    hours = search_result.wish.month_h
    every = kinds_of(search_result)
    single = float(((np.ceil(load / every.capacity - 1e-9) + 1.0) * every.usd_per_h).min()) * hours
    parts = [
        _part(search_result, kinds, at, int(counts[at]), carried=float(counts @ kinds.capacity)) for at in np.flatnonzero(counts).tolist()
    ]
    monthly = float(counts @ kinds.usd_per_h) * hours
    content = {"parts": parts, "monthly_usd": monthly, "single_usd": single, "saving_usd": single - monthly}
    content |= {"capacity": float(counts @ kinds.capacity), "load": load, "without_spare_usd": option.cost.total_usd}
    verdict = "serve_fleet_mixed" if len(parts) > 1 else "serve_fleet_single"
    return Section("fleet", content, (Reason(verdict, content),))


def _part(search_result: ServingResult, kinds: ServerKinds, index: int, count: int, *, carried: float) -> dict[str, Any]:
    """One kind of the fleet: what to rent, how it serves, and its share of the load."""
    where, stack = search_result.market.offers.row(int(kinds.offer[index])), search_result.space.stack[int(kinds.row[index])]
    return {
        **{name: where[name] for name in ("provider", "region", "instance_type", "purchase")},
        "nodes": count * int(kinds.servers[index]),
        "engine": stack.name,
        "weight_format": stack.format,
        "hourly_usd": count * float(kinds.usd_per_h[index]),
        "capacity": count * float(kinds.capacity[index]),
        "load_share": count * float(kinds.capacity[index]) / carried,
    }


# ---- Load over time: what lies beyond saturation, how the fleet follows the day, when a scaler
# acts, and how long a new replica takes to answer.

#: What is shown of an overload: this much more than saturation, for this long.
OVERLOAD = 1.2
OVERLOAD_S = 600.0
HOURLY_PURCHASES = ("on-demand", "spot")


def load_sections(search_result: ServingResult, options: tuple[Option, ...], candidate: int) -> tuple[Section, ...]:
    """Saturation and autoscaling of the first option, whose row of the space is `candidate`;
    nothing for batch jobs."""
    if not options or search_result.wish.is_batch:
        return ()
    return saturation_section(options[0]), autoscaling_section(search_result, options[0], candidate)


def saturation_section(option: Option) -> Section:
    """Where the queue begins to grow without end, and how bad it is ten minutes into a load
    a fifth above that."""
    replicas = float(option.layout.data)
    each = float(option.estimate["requests_per_s"].mid) / replicas
    first = option.estimate.get("ttft_p50_s", option.estimate["latency_p50_s"]).mid
    content = {
        "replica_per_s": each,
        "all_per_s": each * replicas,
        "overload_per_s": OVERLOAD * each * replicas,
        "grows_per_s": (OVERLOAD - 1.0) * each * replicas,
        "after_s": OVERLOAD_S,
        "wait_s": (OVERLOAD - 1.0) * OVERLOAD_S + first,
    }
    key = "serve_saturation" if "ttft_p50_s" in option.estimate else "serve_saturation_whole"
    return Section("saturation", content, (Reason(key, {**content, "count": replicas}),))


def cold_start_of(weights_bytes: float, *, weights_from: str = "weights_local_disk") -> scaling.ColdStart:
    """Seconds until a new replica answers: server, image, weights from a store of
    facts/data/cold_start.csv, warm-up of the engine."""
    known = {row["name"]: float(row["value"]) for row in facts.table("cold_start")}
    one = {name: np.array([value]) for name, value in known.items()}
    return scaling.cold_start(
        weights_bytes=np.array([weights_bytes]),
        weights_bytes_per_s=one[weights_from],
        device_bytes_per_s=one["weights_page_cache"],
        image_bytes=one["engine_image"],
        image_bytes_per_s=one["image_pull"],
        unpack_bytes_per_s=one["image_unpack"],
        provision_s=one["server_provision"],
        warm_up_s=one["engine_warm_up"],
    )


def server_start_s() -> float:
    """Seconds until a new server's node is ready."""
    return float(cold_start_of(0.0).provision_s[0])


def cold_start_content(option: Option) -> dict[str, float]:
    """The parts of a cold start [s], and the weights' part from other stores."""
    weights = option.memory_terms.get("weights", 0.0) * option.layout.tensor
    parts = cold_start_of(weights)
    stores = {name: cold_start_of(weights, weights_from=f"weights_{name}").weights_s[0] for name in ("cold_disk", "object_store")}
    return {
        "provision_s": float(parts.provision_s[0]),
        "image_s": float(parts.image_s[0]),
        "weights_s": float(parts.weights_s[0]),
        "warm_up_s": float(parts.warm_up_s[0]),
        "total_s": float(parts.total_s[0]),
        **{f"weights_{name}_s": float(value) for name, value in stores.items()},
    }


def capacity_at_limits(search_result: ServingResult, candidate: int, *, replicas: float) -> float:
    """The rate [1/s] that one replica may get within the limits: by the queue model where it judged
    the option, else of the quick law."""
    able = capacity_of(search_result, candidate, replicas=replicas)
    known = search_result.confirmed.kept.get(candidate)
    if known is None or not search_result.wish.rate_per_s:
        return able
    columns = replica_columns(search_result.space.take(np.array([candidate], dtype=np.intp)))
    low, high = search_result.wish.rate_per_s / replicas, float(usual()["most_utilisation"]) * known.capacity_per_s
    for _ in range(5):
        middle = 0.5 * (low + high)
        within = queued(search_result.wish, columns, replicas=search_result.wish.rate_per_s / middle).excess <= 1.0
        low, high = (middle, high) if within else (low, middle)
    return low


def hourly_of(search_result: ServingResult, option: Option) -> tuple[Array, bool]:
    """Rates over the day (24,) [1/s], and whether they were given; else the same rate all day."""
    wish = search_result.wish
    rate = float(option.facts["rate_per_s"])
    if wish.load is not None and wish.load.hourly_per_s is not None:
        return wish.load.hourly_per_s, True
    if wish.workload.profile:
        from rightfit.workload.traces import hourly_rates

        return hourly_rates(wish.workload.profile, peak_per_s=rate), True
    return np.full(24, rate), False


def autoscaling_section(search_result: ServingResult, option: Option, candidate: int) -> Section:
    """Thresholds of a scaler, the cold start by part, and (with a profile) the fleet that follows
    the day against the fixed one."""
    hourly, given = hourly_of(search_result, option)
    replicas = float(option.layout.data)
    capacity = capacity_at_limits(search_result, candidate, replicas=replicas) if given else float(option.facts["replica_rate_per_s"])
    cold = cold_start_content(option)
    known = {row["name"]: float(row["value"]) for row in facts.table("cold_start")}
    found_settings = scaling.autoscale(
        hourly[None],
        capacity_per_s=np.array([capacity]),
        latency_s=np.array([option.estimate["latency_p50_s"].mid]),
        headroom=np.zeros(1),
        spare=np.zeros(1),
        cold_start_s=np.array([cold["total_s"]]),
        reaction_s=np.array([known["keda_polling"]]),
        least_cooldown_s=np.array([known["hpa_cooldown"]]),
        cooldown_starts=np.array([usual()["cooldown_starts"]]),
        least_target=np.array([usual()["least_target"]]),
    )
    saturation = float(option.estimate["requests_per_s"].mid) / replicas
    content: dict[str, Any] = {
        "replica_rate_per_s": capacity,
        "headroom": 1.0 - capacity / saturation,
        "target_in_flight": float(found_settings.target_in_flight[0]),
        "target_waiting": waiting_target(search_result, capacity),
        "cooldown_s": float(found_settings.cooldown_s[0]),
        "polling_s": known["keda_polling"],
        "cold_start": cold,
        "n_plus_one_usd": float(option.facts["n_plus_one_usd"]),
        "load_balancer_usd": load_balancer_usd(replicas, servers=option.nodes),
    }
    if given:
        counts = scaling.daily_replicas(
            hourly[None], capacity_per_s=np.array([capacity]), headroom=1.0 - found_settings.target_load, spare=np.zeros(1)
        )[0]
        content |= day_content(option, hourly, np.minimum(counts, replicas))  # what serves the peak serves any hour
    return Section("autoscaling", content, tuple(_autoscaling_reasons(content, with_day=given)))


def waiting_target(search_result: ServingResult, capacity_per_s: float) -> float:
    """Requests that wait at a replica at which another should come: half of those that it takes up
    within the limit of the first token (or the answer)."""
    limits = search_result.wish.limits
    limit = next((value for value in (limits.ttft_s, limits.latency_s) if math.isfinite(value)), float(usual()["ttft_s"]))
    return max(float(math.floor(0.5 * capacity_per_s * limit)), 1.0)


def load_balancer_usd(replicas: float, *, servers: int) -> float:
    """A month of a managed load balancer [USD] that is not in the price: of several servers it is,
    and a single replica needs none."""
    known = usual()
    return float(known["load_balancer_usd_per_h"] * known["hours_per_month"]) if replicas > 1 and servers == 1 else 0.0


def servers_of(option: Option, replicas: Array) -> Array:
    """Servers that so many replicas of an option take."""
    layout = option.layout
    assert isinstance(layout, ServingLayout)
    span = max(float(option.facts["servers_per_replica"]), 1.0)
    each = float(layout.replicas_per_node) if span == 1.0 else 1.0
    servers: Array = np.ceil(replicas / max(each, 1.0)) * span
    return servers


def day_content(option: Option, hourly: Array, counts: Array) -> dict[str, Any]:
    """Replicas of each hour, and the month's rent [USD] when they follow the day and when the
    option's own servers stay."""
    cost = option.cost
    assert isinstance(cost, ServingCost)
    purchase = option.purchase if option.purchase in HOURLY_PURCHASES else "on-demand"
    month = cost.by_purchase.get(purchase)
    each = month / option.nodes if month is not None else math.nan
    servers = servers_of(option, counts)
    scaled = float(servers.mean()) * each
    fixed = cost.terms["servers_usd"]
    return {
        "hourly_per_s": hourly.tolist(),
        "hourly_replicas": counts.astype(int).tolist(),
        "min_replicas": int(counts.min()),
        "max_replicas": int(counts.max()),
        "min_servers": int(servers.min()),
        "max_servers": int(servers.max()),
        "purchase": purchase,
        "autoscaled_usd": scaled,
        "fixed_usd": fixed,
        "saving_usd": fixed - scaled,
    }


def _autoscaling_reasons(content: dict[str, Any], *, with_day: bool) -> list[Reason]:
    cold = content["cold_start"]
    plain = {name: value for name, value in content.items() if not isinstance(value, dict | list)}
    reasons = []
    if with_day:
        same = content["min_servers"] == content["max_servers"]
        known = math.isfinite(content["autoscaled_usd"])
        key = (
            "serve_day_flat"
            if same
            else "serve_day_no_hours"
            if not known
            else "serve_day"
            if content["saving_usd"] > 0
            else "serve_day_dearer"
        )
        reasons.append(Reason(key, plain))
    reasons.append(Reason("serve_thresholds", plain))
    reasons.append(Reason("serve_cold_start", {f"cold_{name}": value for name, value in cold.items()}))
    if content["load_balancer_usd"] > 0:
        reasons.append(Reason("serve_load_balancer", {"monthly_usd": content["load_balancer_usd"]}))
    return reasons
