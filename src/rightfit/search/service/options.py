"""The serving answer as data: options with latencies, capacity, monthly cost; the fields beside
those of a training plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.figures import Figure, probability_of
from rightfit.estimation.serving import served_columns
from rightfit.estimation.serving_extras import fixed_bytes
from rightfit.facts.records import Accelerator
from rightfit.market.offers import PURCHASES
from rightfit.physics.columns import Array
from rightfit.physics.serving_columns import engine_workspace_bytes, kv_bytes_per_device, kv_room_bytes, weights_bytes_per_device
from rightfit.records import dataclass
from rightfit.search.answer import Cost, Layout, Option, OptionAccelerator
from rightfit.search.bill import cost_of
from rightfit.search.family import offer_doubts, offered, spot_facts
from rightfit.search.market import Bill
from rightfit.search.option_facts import BatchFacts, ScoringFacts, ServiceFacts
from rightfit.search.price_facts import price_facts
from rightfit.search.rank import Row
from rightfit.search.risk import Risk, RunOfRow, risk_facts, risk_of_row, with_one_start
from rightfit.search.service.found import ServingResult
from rightfit.search.service.grid import PASS_BATCHES, ReplicaGrid, at_load, pass_grid, pass_latency_s, token_grid
from rightfit.search.service.refine import queue_values
from rightfit.search.service.sizing import capacity_of, host_need_bytes, pooled_s, share_of_load, takes_turns
from rightfit.search.service.space import CPU_FAMILY, ServingSpace
from rightfit.search.service.stacks import WEIGHT_BYTES, disk_bytes, doubts_of, fit_figure, kept_of, service_figure
from rightfit.search.service.wish import think_s, usual
from rightfit.search.sources import num_parameters

PERCENTILES = (0.5, 0.95, 0.99)
METRICS = {"ttft_s": "ttft_ms", "tpot_s": "tpot_ms", "latency_s": "latency_ms"}


@dataclass(frozen=True, slots=True)
class ServingLayout(Layout):
    """How a service runs: `replicas` of `tensor` x `pipeline` x `attention_data` accelerators each;
    `max_batch` requests that one holds at most.

    `slice`: the part of a card that a replica has, empty where it has whole ones.

    With `attention_data` over 1 each accelerator attends to its own requests and the experts are
    spread over all of them (`expert`).
    """

    engine: str = ""
    weight_format: str = ""
    kv_format: str = ""
    replicas: int = 1
    replicas_per_node: int = 1
    max_batch: int = 1
    attention_data: int = 1
    slice: str = ""


@dataclass(frozen=True, slots=True)
class ServingCost(Cost):
    """Money of a service: `monthly_usd` of the hours of use (730 where none are stated) at the load
    asked for, and what a thousand requests and a million tokens cost at that load.

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


def build_serving_options(search_result: ServingResult, rows: Sequence[Row]) -> tuple[Option, ...]:
    """The chosen rows as options, in order."""
    if not rows:
        return ()
    details = _evaluate(search_result, rows)
    return tuple(_option(search_result, details, row, position) for position, row in enumerate(rows))


@dataclass(frozen=True, slots=True)
class _Details:
    """Everything evaluated on a few rows: candidate, replicas and servers of each; figures by name;
    memory and time terms; where one queue feeds several replicas."""

    candidate: list[int]
    replicas: Array
    servers: Array
    values: Mapping[str, Array]
    memory: Mapping[str, Array]
    time: Mapping[str, Array]
    batch: Array
    total_s: Array
    startup_s: Array
    one_queue: NDArray[np.bool_]
    #: Cache of a sequence on its fullest device [bytes] by its length [tokens]; empty of one pass.
    sequence: Mapping[float, Array] = dataclasses.field(default_factory=dict)


def _evaluate(search_result: ServingResult, rows: Sequence[Row]) -> _Details:
    wish = search_result.wish
    candidate = [search_result.candidate(row.offer, row.node) for row in rows]
    where = tuple(np.array([getattr(row, name) for row in rows]) for name in ("offer", "node"))
    total_s = search_result.bill.total_s[where]
    startup_s = search_result.bill.startup_s[where] if isinstance(search_result.bill, Bill) else np.zeros(total_s.shape)
    machine = search_result.space.machine[candidate]
    column = np.array([row.node for row in rows])
    replicas, servers = (getattr(search_result.sizing, name)[machine, column] for name in ("replicas", "servers"))
    space = search_result.space.take(np.array(candidate, dtype=np.intp))
    load = share_of_load(wish, replicas)
    values: dict[str, Array] = {}
    metrics = METRICS if wish.generates else {"latency_s": "latency_ms"}
    one_queue = np.zeros(replicas.shape, dtype=np.bool_)
    for percentile in dict.fromkeys((wish.limits.percentile, *PERCENTILES)):
        grid = _grid_of(search_result, candidate, percentile=percentile)
        for name in metrics:
            values[f"{name}@{percentile:g}"] = at_load(grid, getattr(grid, name), **load)
        if search_result.passes is not None and "rate_per_s" in load:  # at the load itself, not between two loads of the grid
            exact = pass_latency_s(search_result.passes[candidate], load["rate_per_s"], percentile=percentile)
            if takes_turns(wish):  # from one queue where that keeps the limit better than queues apart
                pooled = pooled_s(wish, search_result.passes[candidate, 0], replicas, percentile=percentile)
                one_queue = (replicas > 1) & (pooled < exact) if percentile == wish.limits.percentile else one_queue
                exact = np.where(one_queue, pooled, exact)
            values[f"latency_s@{percentile:g}"] = exact
    batch = np.where(one_queue, 1.0, at_load(grid, grid.batch, **load))
    values["rate_per_s"] = at_load(grid, grid.rate_per_s, **load)
    values["saturation_per_s"] = search_result.capacity.saturation_per_s[candidate]
    if search_result.passes is not None:
        values["saturation_per_s"] = np.where(one_queue, 1.0 / search_result.passes[candidate, 0], values["saturation_per_s"])
    values["limit"] = grid.limit
    values, batch = queue_values(search_result, candidate, values, batch)
    if search_result.passes is not None:
        pass_s = _pass_at(search_result.passes[candidate], batch)
        weights = np.minimum(num_parameters(wish.model) * _weight_bytes(space), space.needed_bytes)
        memory = {"weights": weights, "workspace": space.needed_bytes - weights}
        return _Details(
            candidate, replicas, servers, values, memory, _pass_terms(search_result, pass_s), batch, total_s, startup_s, one_queue
        )
    times = served_columns(space.model, space.serve.replace(batch=batch), space.device, space.links)
    memory, sequence = _memory_terms(space), _sequences(search_result, space)
    return _Details(candidate, replicas, servers, values, memory, times.decode_terms, batch, total_s, startup_s, one_queue, sequence)


def _sequences(search_result: ServingResult, space: ServingSpace) -> dict[float, Array]:
    """What the cache of one sequence takes of its fullest device [bytes] by its length: that of a
    request, and each doubling up to the longest of the model."""
    wish = search_result.wish
    longest = int(getattr(wish.model, "max_position", 0) or 0)
    doubled = [2.0**power for power in range(10, longest.bit_length())]
    lengths = sorted({float(wish.input_tokens + wish.output_tokens), *doubled, *([float(longest)] if longest else [])})
    shape = (len(space),)
    return {
        length: np.broadcast_to(kv_bytes_per_device(space.model, space.serve, tokens=np.full(1, length)), shape)
        for length in lengths
        if length > 0
    }


def _pass_at(pass_s: Array, batch: Array) -> Array:
    """Seconds of a pass of a batch (N,), linear between those that are known [s]."""
    at = np.clip(np.searchsorted(PASS_BATCHES, batch), 1, PASS_BATCHES.shape[0] - 1)
    rows = np.arange(batch.shape[0])
    first, second = pass_s[rows, at - 1], pass_s[rows, at]
    part = np.clip((batch - PASS_BATCHES[at - 1]) / (PASS_BATCHES[at] - PASS_BATCHES[at - 1]), 0.0, 1.0)
    second = np.where(np.isfinite(second), second, first)
    return np.asarray(first + part * (second - first))


def _pass_terms(search_result: ServingResult, pass_s: Array) -> dict[str, Array]:
    """What a pass is spent on; of classical models the request's parts, of others the
    computation as a whole."""
    if not search_result.wish.scores_rows:
        return {"compute": pass_s}
    from rightfit.estimation.classical_service import core_shares

    return {name: share * pass_s for name, share in core_shares(search_result.wish.model).items()}


def _grid_of(search_result: ServingResult, candidate: list[int], *, percentile: float) -> ReplicaGrid:
    """The grid of a few candidates at a percentile."""
    if search_result.times is not None:
        return token_grid(search_result.times.take(np.array(candidate, dtype=np.intp)), search_result.wish, percentile=percentile)
    assert search_result.passes is not None
    return pass_grid(search_result.passes[candidate], search_result.wish, percentile=percentile)


def _weight_bytes(space: ServingSpace) -> Array:
    return np.array([WEIGHT_BYTES.get(stack.format, 2.0) for stack in space.stack])


def _memory_terms(space: Any) -> dict[str, Array]:
    """What one accelerator holds [bytes]: engines reserve the whole cache at start."""
    model, serve = space.model, space.serve
    shape = (len(space),)
    weights = weights_bytes_per_device(model, serve)
    context = space.held_bytes
    room = kv_room_bytes(model, serve, space.device, overhead_bytes=context, coefficients=facts.coefficients("operators"))
    workspace = engine_workspace_bytes(model, serve, coefficients=facts.coefficients("operators"))
    extras = fixed_bytes(space.extras, model, serve)
    terms = {"weights": weights, "kv_cache": room, "workspace": workspace, "context": context - extras}
    terms |= {"extras": extras} if space.extras else {}
    return {name: np.broadcast_to(value, shape) for name, value in terms.items()}


def _option(search_result: ServingResult, details: _Details, row: Row, position: int) -> Option:
    servers = search_result.market.offers.servers
    server = int(search_result.market.offers.server_index[row.offer])
    at = details.candidate[position]
    card = search_result.fleet.accelerators[int(search_result.space.machine[at])]
    estimate = _estimate(search_result, details, row, position)
    return Option(
        **offered(search_result, row, position),
        accelerator=OptionAccelerator(
            servers.accelerator_name[server], int(servers.num_accelerators[server]), _whole_memory(search_result, server, card)
        ),
        layout=_layout(search_result, details, position),
        estimate=estimate,
        memory_terms={name: float(value[position]) for name, value in details.memory.items()},
        time_terms={name: float(value[position]) for name, value in details.time.items() if value[position] > 0},
        cost=_batch_cost(search_result, row, estimate["total_time_s"])
        if search_result.wish.is_batch
        else _cost(search_result, details, row, position),
        facts={
            **_facts(search_result, details, row, position),
            **(_batch_facts(search_result, row, estimate) if search_result.wish.is_batch else {}),
        },
    )


def _whole_memory(search_result: ServingResult, server: int, card: Accelerator) -> float:
    """Memory of an option's card [bytes]: of all of it where replicas have a slice."""
    if not search_result.wish.workload.slice:
        return card.memory_bytes
    return facts.accelerators()[search_result.market.offers.servers.accelerator_name[server]].memory_bytes


def _layout(search_result: ServingResult, details: _Details, position: int) -> ServingLayout:
    at = details.candidate[position]
    card = search_result.fleet.accelerators[int(search_result.space.machine[at])]
    stack, cards = search_result.space.stack[at], int(search_result.space.tensor[at])
    per_node = int(search_result.fleet.gpus_per_node[int(search_result.space.machine[at])]) // cards
    spread = int(np.broadcast_to(search_result.space.serve.attention_data, (len(search_result.space),))[at])
    return ServingLayout(
        data=int(details.replicas[position]),
        tensor=cards if spread == 1 else 1,
        pipeline=int(search_result.space.nodes[at]) if spread == 1 else 1,
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
        slice=card.name.partition("/")[2] if search_result.wish.workload.slice else "",
    )


def _estimate(search_result: ServingResult, details: _Details, row: Row, position: int) -> dict[str, Figure]:
    """Figures by the contract's names. Latencies without a percentile in their name are at the
    percentile asked for."""
    wish, values = search_result.wish, details.values
    doubts = doubts_of(wish)
    if wish.generates and search_result.fleet.families[int(search_result.space.machine[details.candidate[position]])] == CPU_FAMILY:
        doubts += 1.0
    metrics = METRICS if wish.generates else {"latency_s": "latency_ms"}
    modality = "" if wish.generates else search_result.wish.modality
    out = {
        name: service_figure(metric, float(values[f"{name}@{wish.limits.percentile:g}"][position]), doubts=doubts, modality=modality)
        for name, metric in metrics.items()
    }
    for name, metric in metrics.items():
        for percentile in PERCENTILES:
            label = f"{name.removesuffix('_s')}_p{percentile * 100:g}_s"
            out[label] = service_figure(metric, float(values[f"{name}@{percentile:g}"][position]), doubts=doubts, modality=modality)
    replicas = float(details.replicas[position])
    most = float(values["saturation_per_s"][position]) * replicas
    out["requests_per_s"] = service_figure("req_per_s", most, doubts=doubts, modality=modality)
    if wish.output_tokens:
        out["tokens_per_s"] = service_figure("output_tok_per_s_total", most * wish.output_tokens, doubts=doubts, modality=modality)
    if wish.is_batch:
        out = _batch_estimate(search_result, out, row)
    out["peak_memory_bytes"] = service_figure(
        "peak_mem_gib", float(sum(term[position] for term in details.memory.values())), doubts=doubts, modality=modality
    )
    machine = int(search_result.space.machine[details.candidate[position]])
    on_cards = not search_result.fleet.families[machine].startswith(CPU_FAMILY)
    kept = kept_of(wish) / max(float(details.servers[position]), 1.0)
    ram = float(host_need_bytes(wish, search_result.fleet)[machine]) + (kept if wish.extras.kv_tier == "host" else 0.0)
    out["host_memory_bytes"] = Figure(ram, ram, ram, ram, ram, source="formula") if on_cards else out["peak_memory_bytes"]
    disk = disk_bytes(wish, search_result.space.stack[details.candidate[position]].format) + (kept if wish.extras.kv_tier == "ssd" else 0.0)
    out["disk_bytes"] = Figure(disk, disk, disk, disk, disk, source="formula")
    return out


def _batch_estimate(search_result: ServingResult, figures: dict[str, Figure], row: Row) -> dict[str, Figure]:
    """Of a batch job: throughput, and the time of the whole job with the interval of the throughput
    and, on spot, of chance."""
    rate, risk = figures["requests_per_s"], batch_risk(search_result, row, figures["requests_per_s"])
    at = (row.offer, row.node)
    fixed_s = float(_batch_bill(search_result).startup_s[at])
    time = risk.total if risk else _slower(float(search_result.bill.total_s[at]), rate, fixed_s=fixed_s)
    kept = {name: figure for name, figure in figures.items() if name in ("requests_per_s", "tokens_per_s")}
    return {**kept, "total_time_s": with_one_start(time, fixed_s)}


def _batch_bill(search_result: ServingResult) -> Bill:
    assert isinstance(search_result.bill, Bill)
    return search_result.bill


def _slower(time_s: float, rate: Figure, *, fixed_s: float = 0.0) -> Figure:
    """A time [s] whose part beyond `fixed_s` goes as the inverse of a rate."""
    part = time_s - fixed_s
    opposite = {"low80": rate.high80, "high80": rate.low80, "low95": rate.high95, "high95": rate.low95}
    return Figure(time_s, **{name: fixed_s + part * rate.mid / value for name, value in opposite.items()}, source=rate.source)


def batch_risk(search_result: ServingResult, row: Row, rate: Figure) -> Risk | None:
    """What interruptions do to a batch job on one row; None where hardly any is expected."""
    bill, at, offers = _batch_bill(search_result), (row.offer, row.node), search_result.market.offers
    run = RunOfRow(
        work=_slower(float(bill.run_s[at]), rate),
        startup_s=float(bill.startup_s[at]),
        total_s=float(bill.total_s[at]),
        nodes=int(search_result.nodes(at)),
        accelerators=max(float(offers.servers.num_accelerators[offers.server_index[row.offer]]), 1.0),
        checkpoint_bytes=float(usual()["batch_progress_bytes"]),
    )
    return risk_of_row(search_result.market.charges, row.offer, run, deadline_s=search_result.filters.deadline_s)


def requests_per_month(search_result: ServingResult, rate_per_s: float) -> float:
    """Requests of a month at a steady rate, in the hours of use."""
    return rate_per_s * search_result.wish.month_h * 3600.0


def _cost(search_result: ServingResult, details: _Details, row: Row, position: int) -> ServingCost:
    """Money of a month, and what requests and tokens come to at the load."""
    rate = search_result.wish.rate_per_s or float(details.values["rate_per_s"][position]) * float(details.replicas[position])
    requests = requests_per_month(search_result, rate)
    cost = cost_of(search_result.bill, search_result.market, (row.offer, row.node))
    others = _by_purchase(search_result, row, float(details.servers[position]))
    return _by_unit(search_result, cost, requests, monthly_usd=cost.total_usd, by_purchase=others)


def _batch_cost(search_result: ServingResult, row: Row, time: Figure) -> ServingCost:
    """Money of a whole batch job."""
    return _by_unit(
        search_result, cost_of(search_result.bill, search_result.market, (row.offer, row.node), time=time), search_result.wish.requests
    )


def _by_unit(search_result: ServingResult, cost: Cost, requests: float, **fields: Any) -> ServingCost:
    """A cost with what a thousand requests and a million tokens come to."""
    tokens = requests * (search_result.wish.input_tokens + search_result.wish.output_tokens)
    shared = {field.name: getattr(cost, field.name) for field in dataclasses.fields(Cost)}
    per_million = cost.total_usd / tokens * 1e6 if tokens else float("nan")
    each = {"per_million_tokens_usd": per_million, "per_thousand_requests_usd": cost.total_usd / requests * 1e3}
    return ServingCost(**{**shared, **each, **fields})


def _by_purchase(search_result: ServingResult, row: Row, servers: float) -> dict[str, float]:
    """A month's rent of the same servers in the same region in every way to pay [USD]."""
    offers = search_result.market.offers
    same = (offers.server_index == offers.server_index[row.offer]) & (offers.region_index == offers.region_index[row.offer])
    out, hours = dict[str, float](), float(usual()["hours_per_month"])
    for other in np.flatnonzero(same).tolist():
        name = PURCHASES[int(offers.purchase_index[other])]
        is_owed = search_result.market.charges.minimum_s[other] >= hours * 3600.0
        price = float(offers.price_usd_per_h[other]) * servers * (hours if is_owed else search_result.wish.month_h)
        out[name] = min(price, out.get(name, np.inf))
    return dict(sorted(out.items(), key=lambda item: item[1]))


def _facts(search_result: ServingResult, details: _Details, row: Row, position: int) -> ServiceFacts:
    """What reasons and explanations need beside the contract's fields."""
    wish, at = search_result.wish, details.candidate[position]
    replicas, servers = float(details.replicas[position]), float(details.servers[position])
    rate = wish.rate_per_s or float(details.values["rate_per_s"][position]) * replicas
    card = search_result.fleet.accelerators[int(search_result.space.machine[at])]
    name = search_result.market.offers.servers.accelerator_name[int(search_result.market.offers.server_index[row.offer])]
    needed, capacity = float(search_result.space.needed_bytes[at]), float(search_result.space.usable_bytes[at])
    is_hidden = bool(name) and not wish.workload.slice and facts.accelerators()[name] is not card
    scoring: ScoringFacts = (
        {"library": wish.model.library, "workers": float(card.num_sms), "columns": wish.model.cols} if wish.scores_rows else {}
    )
    return {
        "rate_per_s": rate,
        "utilisation": rate / (float(details.values["saturation_per_s"][position]) * replicas),
        "batch": float(details.batch[position]),
        "max_batch": float(details.values["limit"][position]),
        "capacity_bytes": capacity,
        "fit_probability": probability_of(fit_figure(float(details.memory["weights"][position]), needed, wish), capacity),
        "percentile": wish.limits.percentile,
        "latency_law": "queue" if at in search_result.confirmed.kept else "one-queue" if details.one_queue[position] else "quick",
        "month_h": wish.month_h,
        "always_usd": _always(search_result, row) if wish.workload.office_hours and not wish.is_batch else None,
        "n_plus_one_usd": _n_plus_one(search_result, details, row, position),
        "replica_rate_per_s": capacity_of(search_result, at, replicas=replicas),
        "servers_per_replica": float(search_result.space.nodes[at]),
        "family": search_result.fleet.families[int(search_result.space.machine[at])],
        **spot_facts(search_result, row),
        "billing_minimum_s": float(search_result.market.charges.minimum_s[row.offer]),
        "vendor": card.vendor,
        "equivalent_to": card.equivalent_to if is_hidden else "",
        "servers": servers,
        "sequence_bytes": {length: float(held[position]) for length, held in details.sequence.items()},
        "requests": wish.requests,
        "input_tokens": float(wish.input_tokens),
        "output_tokens": float(wish.output_tokens),
        "think_s": 0.0
        if wish.users or not wish.workload.users or wish.modality == "audio"
        else think_s(wish.workload),  # who speaks does not pause
        "one_input": dict(wish.told),
        "price": price_facts(search_result, row),
        **scoring,
        **offer_doubts(search_result, row),
    }


def _batch_facts(search_result: ServingResult, row: Row, estimate: Mapping[str, Figure]) -> BatchFacts:
    """What interruptions do to a batch job."""
    risk = batch_risk(search_result, row, estimate["requests_per_s"])
    return {
        "risk": risk_facts(risk, float(search_result.bill.hourly_usd[row.offer, row.node])),
        "run_s": float(_batch_bill(search_result).run_s[row.offer, row.node]),
        "deadline_probability": None,
        "deadline_s": search_result.filters.deadline_s,
    }


def _always(search_result: ServingResult, row: Row) -> float:
    """A month [USD] of the same servers if they ran at all hours."""
    bill, at = search_result.bill, (row.offer, row.node)
    return float(bill.total_usd[at] - bill.servers_usd[at] + bill.hourly_usd[at] * usual()["hours_per_month"])


def _n_plus_one(search_result: ServingResult, details: _Details, row: Row, position: int) -> float:
    """A month's rent [USD] with one server (or group of servers) more, so that one may fail."""
    at = details.candidate[position]
    bill = search_result.bill
    servers = float(details.servers[position])
    return float(bill.total_usd[row.offer, row.node]) * (servers + float(search_result.space.nodes[at])) / servers
