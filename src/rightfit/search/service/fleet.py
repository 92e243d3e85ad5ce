"""Several kinds of servers for one service at least cost: whole servers of each kind in one region, with one to spare, as an integer
programme.

    min sum p_i x_i   so that for each kind j in use   sum c_i x_i - c_j >= load,   x_i whole

p_i price and c_i capacity of a unit of kind i (the servers of one replica, or one server with several), so that any one unit may fail.
Solved by HiGHS (Huangfu and
Hall, Mathematical Programming Computation, 2018), which is the optional extra `fleet`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.errors import MissingComponentError
from rightfit.messages import Message
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search.answer import Option, Reason, Section
from rightfit.search.placement import has_fabric
from rightfit.search.service.found import ServingExploration
from rightfit.search.service.sizing import weights_gb
from rightfit.search.service.wish import usual
from rightfit.search.solver import quiet_highs, solver_module

Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

#: The user's own criteria on single servers; what the whole fleet costs or how many there are is decided here.
OF_A_SERVER = ("status", "cloud", "region", "country", "gpu", "software", "purchase")
MOST_KINDS = 24
GAP = 1e-6


@dataclass(frozen=True, slots=True)
class ServerKinds:
    """Units that may be rented, one row each: offer and candidate, price [USD/h] and load that one carries, servers in it."""

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
    """Whole numbers of each kind that carry `load` at least cost even without any one unit; usd_per_h, capacity: (K,)."""
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
    """Kinds to which no other is as cheap and as able: in any fleet such a one could stand in its place, also where one unit fails."""
    order = np.lexsort((-capacity, usd_per_h))
    best = np.maximum.accumulate(np.concatenate([[-np.inf], capacity[order][:-1]]))
    return np.sort(order[capacity[order] > best])


def kinds_of(exploration: ServingExploration) -> ServerKinds:
    """Every offer that passes by itself, with the candidate that carries most per server within the latency limits."""
    space, offers = exploration.space, exploration.market.offers
    able = exploration.capacity.rate_per_s if exploration.wish.rate_per_s else exploration.capacity.users
    each = np.maximum(exploration.fleet.gpus_per_node[space.machine] // np.maximum(space.tensor, 1), 1)
    unit = np.where(space.nodes > 1, 1, each) * able
    per_server = np.where(space.fits, unit / space.nodes, 0.0)
    best = np.full(len(exploration.fleet), -1, dtype=np.intp)
    order = np.argsort(per_server, kind="stable")
    best[space.machine[order]] = order
    machine = exploration.fleet.machine_index[offers.server_index]
    row = np.where(machine >= 0, best[np.maximum(machine, 0)], -1)
    refused = np.zeros(len(offers), dtype=np.bool_)
    for name in OF_A_SERVER:
        refused |= exploration.failures.fails[name][:, 0] if name in exploration.failures.fails else False
    refused |= (space.nodes[np.maximum(row, 0)] > 1) & ~has_fabric(offers) if len(space) else False
    passes = np.flatnonzero((row >= 0) & ~refused & _holds(exploration) & (per_server[np.maximum(row, 0)] > 0))
    picked = row[passes]
    nodes = space.nodes[picked].astype(np.float64)
    hourly = nodes * (offers.price_usd_per_h[passes] + _disk_usd_per_h(exploration, passes))
    return ServerKinds(passes, picked, hourly, unit[picked], nodes)


def _holds(exploration: ServingExploration) -> Mask:
    """Whether each offer's server has the host memory that it needs in any format."""
    shape = exploration.failures.shape
    fails = np.broadcast_to(exploration.failures.fails.get("host_memory", np.zeros((1, 1), dtype=np.bool_)), shape)
    return np.asarray(~fails.all(axis=1))


def _disk_usd_per_h(exploration: ServingExploration, passes: Index) -> Array:
    """Price of the disk that a server without its own needs [USD/h]."""
    offers, disk_gb = exploration.market.offers, weights_gb(exploration.wish)
    nvme = np.nan_to_num(offers.servers.local_nvme_bytes)[offers.server_index[passes]] >= disk_gb * 1e9
    monthly = disk_gb * exploration.market.charges.storage_usd_per_gb_month[passes]
    return np.asarray(np.where(nvme, 0.0, monthly) / usual()["hours_per_month"])


def cheapest_fleet(exploration: ServingExploration) -> tuple[ServerKinds, NDArray[np.intp]] | None:
    """The cheapest fleet of all regions: its kinds and how many of each. Regions are solved in the order of their bound load x least price
    / capacity."""
    kinds, load = kinds_of(exploration), exploration.wish.rate_per_s or float(exploration.wish.users)
    offers = exploration.market.offers
    servers = offers.server_index[kinds.offer]
    providers = {name: code for code, name in enumerate(dict.fromkeys(offers.servers.provider))}
    place = np.array([providers[offers.servers.provider[server]] for server in servers.tolist()], dtype=np.int64) * len(offers.regions)
    place = place + offers.region_index[kinds.offer]
    groups = [np.flatnonzero(place == code) for code in np.unique(place)]
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


def fleet_section(exploration: ServingExploration, option: Option) -> Section | None:
    """The mixed fleet with one unit to spare, against the cheapest of one kind with one to spare."""
    chosen = cheapest_fleet(exploration)
    if chosen is None:
        return None
    kinds, counts = chosen
    load = exploration.wish.rate_per_s or float(exploration.wish.users)
    hours = usual()["hours_per_month"]
    every = kinds_of(exploration)
    single = float(((np.ceil(load / every.capacity - 1e-9) + 1.0) * every.usd_per_h).min()) * hours
    parts = [
        _part(exploration, kinds, at, int(counts[at]), carried=float(counts @ kinds.capacity)) for at in np.flatnonzero(counts).tolist()
    ]
    monthly = float(counts @ kinds.usd_per_h) * hours
    content = {"parts": parts, "monthly_usd": monthly, "single_usd": single, "saving_usd": single - monthly}
    content |= {"capacity": float(counts @ kinds.capacity), "load": load, "without_spare_usd": option.cost.total_usd}
    verdict = "serve_fleet_mixed" if len(parts) > 1 else "serve_fleet_single"
    return Section("fleet", content, (Reason(verdict, content),))


def _part(exploration: ServingExploration, kinds: ServerKinds, index: int, count: int, *, carried: float) -> dict[str, Any]:
    """One kind of the fleet: what to rent, how it serves, and its share of the load."""
    where, stack = exploration.market.offers.row(int(kinds.offer[index])), exploration.space.stack[int(kinds.row[index])]
    return {
        **{name: where[name] for name in ("provider", "region", "instance_type", "purchase")},
        "nodes": count * int(kinds.servers[index]),
        "engine": stack.name,
        "weight_format": stack.format,
        "hourly_usd": count * float(kinds.usd_per_h[index]),
        "capacity": count * float(kinds.capacity[index]),
        "load_share": count * float(kinds.capacity[index]) / carried,
    }
