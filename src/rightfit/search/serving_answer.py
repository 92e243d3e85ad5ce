"""The serving answer as data: options with latencies, capacity, monthly cost; the fields beside those of a training plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rightfit import facts
from rightfit.catalog.offers import PURCHASES
from rightfit.estimate.figures import Figure
from rightfit.estimate.serving import serving_columns
from rightfit.estimate.serving_extras import fixed_bytes
from rightfit.estimate.serving_intervals import serving_interval
from rightfit.physics import serving_memory
from rightfit.physics.columns import Array
from rightfit.search.answer import Accelerator, Alternative, Cost, Layout, Option
from rightfit.search.doubt import BOUNDS, both_doubts
from rightfit.search.market import Bill
from rightfit.search.priced import with_credit
from rightfit.search.rank import Row, price_facts
from rightfit.search.risk import Risk, RunOfRow, risk_facts, risk_of_row
from rightfit.search.serving_grid import ReplicaGrid, at_load, token_grid
from rightfit.search.serving_refine import queue_values
from rightfit.search.serving_search import ServingExploration, num_parameters, share_of_load
from rightfit.search.serving_space import CPU_FAMILY, ServingSpace
from rightfit.search.serving_wish import usual

GBPS = 1e9 / 8
TABLE = "table"
PERCENTILES = (0.5, 0.95, 0.99)
METRICS = {"ttft_s": "ttft_ms", "tpot_s": "tpot_ms", "latency_s": "latency_ms"}


@dataclasses.dataclass(frozen=True, slots=True)
class ServingLayout(Layout):
    """How a service runs: `replicas` of `tensor` x `pipeline` x `attention_data` accelerators each; `max_batch` requests that one holds at most.

    With `attention_data` over 1 each accelerator attends to its own requests and the experts are spread over all of them (`expert`).
    """

    engine: str = ""
    weight_format: str = ""
    kv_format: str = ""
    replicas: int = 1
    replicas_per_node: int = 1
    max_batch: int = 1
    attention_data: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class ServingCost(Cost):
    """Money of a service: `monthly_usd` of 730 hours at the load asked for, and what a thousand requests and a million tokens cost at that load.

    `by_purchase`: the month in the other ways to pay for the same servers in the same region.
    """

    monthly_usd: float | None = None
    per_thousand_requests_usd: float | None = None
    by_purchase: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As in the plan's JSON."""
        values = Cost.to_dict(self)
        if self.monthly_usd is None:
            return {**values, "per_thousand_requests_usd": self.per_thousand_requests_usd}
        del values["total"], values["total_usd"]
        return {
            **values,
            "monthly_usd": self.monthly_usd,
            "per_thousand_requests_usd": self.per_thousand_requests_usd,
            "by_purchase": dict(self.by_purchase),
        }


def build_serving_options(found: ServingExploration, rows: Sequence[Row]) -> tuple[Option, ...]:
    """The chosen rows as options, in order."""
    if not rows:
        return ()
    details = _evaluate(found, rows)
    return tuple(_option(found, details, row, position) for position, row in enumerate(rows))


@dataclasses.dataclass(frozen=True, slots=True)
class _Details:
    """Everything evaluated on a few rows: candidate, replicas and servers of each; figures by name; memory and time terms."""

    candidate: list[int]
    replicas: Array
    servers: Array
    values: Mapping[str, Array]
    memory: Mapping[str, Array]
    time: Mapping[str, Array]
    batch: Array
    total_s: Array
    startup_s: Array


def _evaluate(found: ServingExploration, rows: Sequence[Row]) -> _Details:
    wish = found.wish
    candidate = [found.candidate(row.offer, row.node) for row in rows]
    where = tuple(np.array([getattr(row, name) for row in rows]) for name in ("offer", "node"))
    total_s = found.bill.total_s[where]
    startup_s = found.bill.startup_s[where] if isinstance(found.bill, Bill) else np.zeros(total_s.shape)
    machine = found.space.machine[candidate]
    column = np.array([row.node for row in rows])
    replicas, servers = (getattr(found.sizing, name)[machine, column] for name in ("replicas", "servers"))
    space = found.space.take(np.array(candidate, dtype=np.intp))
    load = share_of_load(wish, replicas)
    values: dict[str, Array] = {}
    metrics = METRICS if wish.generates else {"latency_s": "latency_ms"}
    for percentile in dict.fromkeys((*PERCENTILES, wish.limits.percentile)):
        grid = _grid_of(found, candidate, percentile=percentile)
        for name in metrics:
            values[f"{name}@{percentile:g}"] = at_load(grid, getattr(grid, name), **load)
    batch = at_load(grid, grid.batch, **load)
    values["rate_per_s"] = at_load(grid, grid.rate_per_s, **load)
    values["saturation_per_s"] = found.capacity.saturation_per_s[candidate]
    values["limit"] = grid.limit
    values, batch = queue_values(found, candidate, values, batch)
    if found.passes is not None:
        pass_s = at_load(grid, found.passes[candidate], **load)
        weights = np.minimum(num_parameters(wish) * _weight_bytes(space), space.needed_bytes)
        memory = {"weights": weights, "workspace": space.needed_bytes - weights}
        return _Details(candidate, replicas, servers, values, memory, _pass_terms(found, pass_s), batch, total_s, startup_s)
    times = serving_columns(space.model, space.serve.replace(batch=batch), space.device, space.links)
    return _Details(candidate, replicas, servers, values, _memory_terms(space), times.decode_terms, batch, total_s, startup_s)


def _pass_terms(found: ServingExploration, pass_s: Array) -> dict[str, Array]:
    """What a pass is spent on; of classical models the request's parts, of others the computation as a whole."""
    if not found.wish.scores_rows:
        return {"compute": pass_s}
    from rightfit.estimate.classical_service import core_shares

    return {name: share * pass_s for name, share in core_shares(found.wish.model).items()}


def _grid_of(found: ServingExploration, candidate: list[int], *, percentile: float) -> ReplicaGrid:
    """The grid of a few candidates at a percentile."""
    if found.times is not None:
        return token_grid(found.times.take(np.array(candidate, dtype=np.intp)), found.wish, percentile=percentile)
    assert found.passes is not None
    from rightfit.search.serving_forward import forward_grid

    return forward_grid(found.passes[candidate], percentile=percentile)


def _weight_bytes(space: ServingSpace) -> Array:
    return np.array([{"fp32": 4.0, "int8": 1.0}.get(stack.format, 2.0) for stack in space.stack])


def _memory_terms(space: Any) -> dict[str, Array]:
    """What one accelerator holds [bytes]: engines reserve the whole cache at start."""
    model, serve = space.model, space.serve
    shape = (len(space),)
    weights = serving_memory.weights_bytes_per_device(model, serve)
    context = space.held_bytes
    room = serving_memory.kv_room_bytes(model, serve, space.device, overhead_bytes=context)
    workspace = serving_memory.engine_workspace_bytes(model, serve)
    extras = fixed_bytes(space.extras, model, serve)
    terms = {"weights": weights, "kv_cache": room, "workspace": workspace, "context": context - extras}
    terms |= {"extras": extras} if space.extras else {}
    return {name: np.broadcast_to(value, shape) for name, value in terms.items()}


def _figure(metric: str, value: float, *, doubts: float, modality: str = "") -> Figure:
    if modality == TABLE:
        return _table_figure(metric, value, doubts=doubts)
    return serving_interval(metric, np.array([value]), doubts=np.array([doubts]), modality=modality).row(0)


def _table_figure(metric: str, value: float, *, doubts: float) -> Figure:
    """A figure of a service of a classical model: as sure as predictions of such models on machines of other people."""
    from rightfit.estimate.classical_intervals import classical_interval

    known = "peak_ram_gib" if metric == "peak_mem_gib" else "predict_time_s"
    return classical_interval(known, np.array([value]), doubts=np.array([doubts]), gpu=False).row(0)


def _modality(found: ServingExploration) -> str:
    """Kind of input of a model of one forward pass."""
    from rightfit.search.serving_forward import modality_of

    return modality_of(found.wish)[0]


def _option(found: ServingExploration, details: _Details, row: Row, position: int) -> Option:
    offer = found.market.offers.row(row.offer)
    servers = found.market.offers.servers
    server = int(found.market.offers.server_index[row.offer])
    at = details.candidate[position]
    card = found.fleet.accelerators[int(found.space.machine[at])]
    estimate = _estimate(found, details, row, position)
    return Option(
        rank=position + 1,
        provider=offer["provider"],
        region=offer["region"],
        instance_type=offer["instance_type"],
        nodes=int(details.servers[position]),
        purchase=offer["purchase"],
        accelerator=Accelerator(servers.accelerator_name[server], int(servers.num_accelerators[server]), card.memory_bytes),
        vcpus=float(servers.vcpus[server]),
        memory_bytes=float(servers.memory_bytes[server]),
        network_gbps=float(servers.network_bytes_per_s[server]) / GBPS,
        price_as_of=offer["as_of"],
        price_source=offer["source"],
        layout=_layout(found, details, position),
        estimate=estimate,
        memory_terms={name: float(value[position]) for name, value in details.memory.items()},
        time_terms={name: float(value[position]) for name, value in details.time.items() if value[position] > 0},
        cost=_batch_cost(found, row, estimate["total_time_s"]) if found.wish.is_batch else _cost(found, details, row, position),
        alternatives=tuple(_alternative(found, other) for other in row.folded),
        num_alternatives=row.num_folded,
        facts=_facts(found, details, row, position, offer) | (_batch_facts(found, row, estimate) if found.wish.is_batch else {}),
    )


def _layout(found: ServingExploration, details: _Details, position: int) -> ServingLayout:
    at = details.candidate[position]
    stack, cards = found.space.stack[at], int(found.space.tensor[at])
    per_node = int(found.fleet.gpus_per_node[int(found.space.machine[at])]) // cards
    spread = int(np.broadcast_to(found.space.serve.attention_data, (len(found.space),))[at])
    return ServingLayout(
        data=int(details.replicas[position]),
        tensor=cards if spread == 1 else 1,
        pipeline=int(found.space.nodes[at]) if spread == 1 else 1,
        expert=spread,
        context=1,
        sharding="none",
        shard_degree=1,
        micro_batch=max(1, round(float(details.batch[position]))),
        grad_accum=1,
        recompute="none",
        precision=stack.format,
        attention="flash",
        offload="none",
        method="serve",
        engine=stack.name,
        weight_format=stack.format,
        kv_format=stack.kv,
        replicas=int(details.replicas[position]),
        replicas_per_node=per_node,
        max_batch=int(details.values["limit"][position]),
        attention_data=spread,
    )


def _estimate(found: ServingExploration, details: _Details, row: Row, position: int) -> dict[str, Figure]:
    """Figures by the contract's names. Latencies without a percentile in their name are at the percentile asked for."""
    wish, values = found.wish, details.values
    doubts = 0.0 if getattr(found.wish.model, "certainty", "exact") != "typical" else 1.0
    if wish.generates and found.fleet.families[int(found.space.machine[details.candidate[position]])] == CPU_FAMILY:
        doubts += 1.0
    metrics = METRICS if wish.generates else {"latency_s": "latency_ms"}
    modality = "" if wish.generates else _modality(found)
    out = {
        name: _figure(metric, float(values[f"{name}@{wish.limits.percentile:g}"][position]), doubts=doubts, modality=modality)
        for name, metric in metrics.items()
    }
    for name, metric in metrics.items():
        for percentile in PERCENTILES:
            label = f"{name.removesuffix('_s')}_p{percentile * 100:g}_s"
            out[label] = _figure(metric, float(values[f"{name}@{percentile:g}"][position]), doubts=doubts, modality=modality)
    replicas = float(details.replicas[position])
    most = float(values["saturation_per_s"][position]) * replicas
    out["requests_per_s"] = _figure("req_per_s", most, doubts=doubts, modality=modality)
    if wish.output_tokens:
        out["tokens_per_s"] = _figure("output_tok_per_s_total", most * wish.output_tokens, doubts=doubts, modality=modality)
    if wish.is_batch:
        return {
            **_batch_estimate(found, out, row),
            "peak_memory_bytes": _figure(
                "peak_mem_gib", float(sum(term[position] for term in details.memory.values())), doubts=doubts, modality=modality
            ),
        }
    out["peak_memory_bytes"] = _figure(
        "peak_mem_gib", float(sum(term[position] for term in details.memory.values())), doubts=doubts, modality=modality
    )
    return out


def _batch_estimate(found: ServingExploration, figures: dict[str, Figure], row: Row) -> dict[str, Figure]:
    """Of a batch job: throughput, and the time of the whole job with the interval of the throughput and, on spot, of chance."""
    rate, risk = figures["requests_per_s"], batch_risk(found, row, figures["requests_per_s"])
    at = (row.offer, row.node)
    time = risk.total if risk else _slower(float(found.bill.total_s[at]), rate, fixed_s=float(_batch_bill(found).startup_s[at]))
    kept = {name: figure for name, figure in figures.items() if name in ("requests_per_s", "tokens_per_s")}
    return {**kept, "total_time_s": time}


def _batch_bill(found: ServingExploration) -> Bill:
    assert isinstance(found.bill, Bill)
    return found.bill


def _slower(time_s: float, rate: Figure, *, fixed_s: float = 0.0) -> Figure:
    """A time [s] whose part beyond `fixed_s` goes as the inverse of a rate."""
    part = time_s - fixed_s
    opposite = {"low80": rate.high80, "high80": rate.low80, "low95": rate.high95, "high95": rate.low95}
    return Figure(time_s, **{name: fixed_s + part * rate.mid / value for name, value in opposite.items()}, source=rate.source)


def batch_risk(found: ServingExploration, row: Row, rate: Figure) -> Risk | None:
    """What interruptions do to a batch job on one row; None where hardly any is expected."""
    bill, at, offers = _batch_bill(found), (row.offer, row.node), found.market.offers
    run = RunOfRow(
        work=_slower(float(bill.run_s[at]), rate),
        startup_s=float(bill.startup_s[at]),
        total_s=float(bill.total_s[at]),
        nodes=max(round(float(bill.hourly_usd[at]) / float(offers.price_usd_per_h[row.offer])), 1),
        accelerators=max(float(offers.servers.num_accelerators[offers.server_index[row.offer]]), 1.0),
        checkpoint_bytes=float(usual()["batch_progress_bytes"]),
    )
    return risk_of_row(found.market.charges, row.offer, run, deadline_s=found.wanted.deadline_s)


def requests_per_month(found: ServingExploration, rate_per_s: float) -> float:
    """Requests of a month at a steady rate."""
    return rate_per_s * float(usual()["hours_per_month"]) * 3600.0


def _cost(found: ServingExploration, details: _Details, row: Row, position: int) -> ServingCost:
    bill, at = found.bill, (row.offer, row.node)
    monthly = float(bill.total_usd[at])
    rate = found.wish.rate_per_s or float(details.values["rate_per_s"][position]) * float(details.replicas[position])
    requests = requests_per_month(found, rate)
    tokens = requests * (found.wish.input_tokens + found.wish.output_tokens)
    terms = {
        "servers_usd": float(bill.servers_usd[at]),
        "storage_usd": float(bill.storage_usd[at]),
        "egress_usd": float(bill.egress_usd[at]),
        "network_usd": float(bill.network_usd[at]),
    }
    return ServingCost(
        hourly_usd=float(bill.hourly_usd[at]),
        total_usd=monthly,
        total=_monthly_figure(found, row, monthly),
        terms=terms,
        per_million_tokens_usd=monthly / tokens * 1e6 if tokens else float("nan"),
        monthly_usd=monthly,
        per_thousand_requests_usd=monthly / requests * 1e3,
        by_purchase=_by_purchase(found, row, float(details.servers[position])),
    )


def _monthly_figure(found: ServingExploration, row: Row, monthly: float) -> Figure:
    """A month's cost; it is known as well as the price is."""
    doubt, rent = found.market.doubt, float(found.bill.servers_usd[row.offer, row.node])
    factors = doubt.factors[row.offer] if doubt is not None else np.ones(len(BOUNDS))
    bounds = {name: monthly + rent * (factor - 1.0) for name, factor in zip(BOUNDS, factors.tolist(), strict=True)}
    return Figure(monthly, **bounds, source="formula")


def _batch_cost(found: ServingExploration, row: Row, estimate: Figure) -> ServingCost:
    """Money of a whole batch job."""
    bill, at, wish = found.bill, (row.offer, row.node), found.wish
    total = float(bill.total_usd[at])
    tokens = wish.requests * (wish.input_tokens + wish.output_tokens)
    doubt = found.market.doubt
    factors = np.array([getattr(estimate, name) / estimate.mid for name in BOUNDS])
    spread = both_doubts(factors, doubt.factors[row.offer] if doubt is not None else np.ones(len(BOUNDS))) * total
    return ServingCost(
        hourly_usd=float(bill.hourly_usd[at]),
        total_usd=total,
        total=Figure(total, **dict(zip(BOUNDS, spread.tolist(), strict=True)), source=estimate.source),
        terms=with_credit(
            {name: float(getattr(bill, name)[at]) for name in ("servers_usd", "storage_usd", "egress_usd", "network_usd")}, total
        ),
        per_million_tokens_usd=total / tokens * 1e6 if tokens else float("nan"),
        per_thousand_requests_usd=total / wish.requests * 1e3,
    )


def _by_purchase(found: ServingExploration, row: Row, servers: float) -> dict[str, float]:
    """A month's rent of the same servers in the same region in every way to pay [USD]."""
    offers = found.market.offers
    same = (offers.server_index == offers.server_index[row.offer]) & (offers.region_index == offers.region_index[row.offer])
    out: dict[str, float] = {}
    for other in np.flatnonzero(same).tolist():
        name = PURCHASES[int(offers.purchase_index[other])]
        price = float(offers.price_usd_per_h[other]) * servers * usual()["hours_per_month"]
        out[name] = min(price, out.get(name, np.inf))
    return dict(sorted(out.items(), key=lambda item: item[1]))


def _alternative(found: ServingExploration, at: tuple[int, int]) -> Alternative:
    offer = found.market.offers.row(at[0])
    return Alternative(
        region=offer["region"],
        instance_type=offer["instance_type"],
        purchase=offer["purchase"],
        hourly_usd=float(found.bill.hourly_usd[at]),
        total_usd=float(found.bill.total_usd[at]),
        total_time_s=float(found.bill.total_s[at]),
    )


def _facts(found: ServingExploration, details: _Details, row: Row, position: int, offer: dict[str, Any]) -> dict[str, Any]:
    """What reasons and explanations need beside the contract's fields."""
    wish, charges = found.wish, found.market.charges
    at = details.candidate[position]
    replicas, servers = float(details.replicas[position]), float(details.servers[position])
    rate = wish.rate_per_s or float(details.values["rate_per_s"][position]) * replicas
    card = found.fleet.accelerators[int(found.space.machine[at])]
    name = found.market.offers.servers.accelerator_name[int(found.market.offers.server_index[row.offer])]
    is_hidden = bool(name) and facts.accelerators()[name] is not card
    return {
        "rate_per_s": rate,
        "utilisation": rate / (float(details.values["saturation_per_s"][position]) * replicas),
        "batch": float(details.batch[position]),
        "max_batch": float(details.values["limit"][position]),
        "capacity_bytes": float(found.space.usable_bytes[at]),
        "percentile": wish.limits.percentile,
        "latency_law": "queue" if at in found.confirmed.kept else "quick",
        "n_plus_one_usd": _n_plus_one(found, details, row, position),
        "replica_rate_per_s": float(found.capacity.rate_per_s[at]),
        "servers_per_replica": float(found.space.nodes[at]),
        "family": found.fleet.families[int(found.space.machine[at])],
        "spot_low": float(charges.spot_low[row.offer]),
        "spot_high": float(charges.spot_high[row.offer]),
        "spot_known": bool(charges.spot_known[row.offer]),
        "billing_minimum_s": float(charges.minimum_s[row.offer]),
        "vendor": card.vendor,
        "equivalent_to": card.equivalent_to if is_hidden else "",
        "servers": servers,
        "requests": wish.requests,
        "price": price_facts(found, row),
        **({"library": wish.model.library, "workers": float(card.num_sms), "columns": wish.model.cols} if wish.scores_rows else {}),
        **{name: offer[name] for name in ("is_estimate", "is_stale", "is_pseudo_region", "country")},
    }


def _batch_facts(found: ServingExploration, row: Row, estimate: Mapping[str, Figure]) -> dict[str, Any]:
    """What interruptions do to a batch job."""
    risk = batch_risk(found, row, estimate["requests_per_s"])
    late = risk.late if risk else None
    return {
        "risk": risk_facts(risk, float(found.bill.hourly_usd[row.offer, row.node])),
        "run_s": float(_batch_bill(found).run_s[row.offer, row.node]),
        "deadline_probability": None if late is None else 1.0 - late,
        "deadline_s": found.wanted.deadline_s,
    }


def _n_plus_one(found: ServingExploration, details: _Details, row: Row, position: int) -> float:
    """A month's rent [USD] with one server (or group of servers) more, so that one may fail."""
    at = details.candidate[position]
    bill = found.bill
    servers = float(details.servers[position])
    return float(bill.total_usd[row.offer, row.node]) * (servers + float(found.space.nodes[at])) / servers
