"""Options in full: the chosen rows with memory and time broken down, figures with intervals, cost terms, and reasons as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimate.figures import Figure, FigureColumns
from rightfit.estimate.intervals import interval_columns, probability_over
from rightfit.estimate.memory import MemoryColumns
from rightfit.estimate.speed import StepColumns
from rightfit.physics import money
from rightfit.physics.columns import Array, AttentionKernel, Recompute, SetupColumns
from rightfit.physics.step import Bottleneck
from rightfit.search.answer import Accelerator, Alternative, Cost, Layout, Option
from rightfit.search.data_part import data_part
from rightfit.search.doubt import both_doubts
from rightfit.search.engine import Engine
from rightfit.search.machines import behind
from rightfit.search.priced import with_credit
from rightfit.search.rank import Row, price_facts
from rightfit.search.risk import Risk, RunOfRow, risk_facts, risk_of_row
from rightfit.search.sample_wish import SampleWish
from rightfit.search.space import OFFLOAD_NAMES, SHARDING_NAMES, SetupTable
from rightfit.search.training_options import evaluate_samples, sample_facts, sample_layout

if TYPE_CHECKING:
    from rightfit.search.explore import Exploration

GBPS = 1e9 / 8


@dataclasses.dataclass(frozen=True, slots=True)
class Details:
    """Everything evaluated on a few rows, one array row each. `stored_bytes`: peak memory if no activation were recomputed; `waiting_s`: of a step
    for data. `risks`: what stops do to a run that may well be stopped, whose time and deadline then come from there."""

    setups: SetupTable
    columns: SetupColumns
    memory: MemoryColumns
    step: StepColumns
    figures: dict[str, FigureColumns]
    fit_probability: Array
    deadline_probability: Array
    uncalibrated: NDArray[np.bool_]
    stored_bytes: Array
    waiting_s: Array
    risks: tuple[Risk | None, ...]


def build_options(found: Exploration, rows: Sequence[Row], *, num_full: int | None = None) -> tuple[Option, ...]:
    """The rows as options, ranked in their order (reasons are added by grounds.py). `num_full`: of how many, from the first, the law of the time under
    interruptions is worked out; the rest keep the interval of the undisturbed run."""
    if not rows:
        return ()
    details = evaluate_rows(found, rows, num_full=num_full)
    return tuple(_option(found, details, row, position) for position, row in enumerate(rows))


def evaluate_rows(found: Exploration, rows: Sequence[Row], *, num_full: int | None = None) -> Details:
    """Run the whole physics on the rows' setups."""
    engine = found.engine
    if not isinstance(engine, Engine):
        return evaluate_samples(found, rows, engine, num_full=num_full)
    servers = found.market.offers.server_index[[row.offer for row in rows]]
    machine = found.fleet.machine_index[servers]
    setup = np.array([found.setup_of(row.offer, row.node) for row in rows], dtype=np.intp)
    setups = found.space.setups.take(setup)
    columns = setups.columns(found.base)
    device, links = found.fleet.machines.device.take(machine), found.fleet.machines.links.take(machine)
    memory, step = engine.details(columns, device, links)
    regime = engine.regime(columns, device)
    where = tuple(np.array([getattr(row, name) for row in rows], dtype=np.intp) for name in ("offer", "node"))
    total_s = found.bill.total_s[where]
    fixed_s = found.bill.startup_s[where]
    shape = total_s.shape

    def figure(metric: str, mid: Array) -> FigureColumns:
        return interval_columns(metric, np.broadcast_to(mid, shape), regime)

    at = (servers, where[1])
    waits = np.divide(found.path.run_s[at], found.path.compute_s[at])  # of computing and loading the longer counts
    step_s = step.step_s * waits
    tokens = columns.tokens_per_step / step_s
    figures = {
        "peak_memory_bytes": figure("peak_memory_bytes", memory.required_bytes),
        "step_s": figure("step_s", step_s),
        "tokens_per_s": figure("tokens_per_s", tokens),
        "samples_per_s": figure("samples_per_s", tokens / columns.seq_len),
        "mfu": figure("mfu", step.mfu(columns, device) / waits),
        "total_time_s": shifted(figure("total_time_s", total_s - fixed_s), fixed_s),
        "host_memory_bytes": figure("host_memory_bytes", memory.host_bytes),
        "disk_bytes": exact(np.broadcast_to(memory.disk_bytes + found.volume.dataset_bytes, shape)),
    }
    deadline = found.wanted.deadline_s
    late = probability_over("total_time_s", total_s - fixed_s, np.array([deadline]) - fixed_s, regime) if deadline else np.zeros(shape)
    works = figure("total_time_s", found.bill.run_s[where])
    risks = tuple(
        row_risk(found, row, works.row(position)) if num_full is None or position < num_full else None for position, row in enumerate(rows)
    )
    figures["total_time_s"] = with_risks(figures["total_time_s"], risks)
    late = np.array([known if risk is None or risk.late is None else risk.late for known, risk in zip(late, risks, strict=True)])
    fits = engine.fit_probability_of(columns, device, memory.required_bytes)
    return Details(
        setups=setups,
        columns=columns,
        memory=memory,
        step=step,
        figures=figures,
        fit_probability=np.broadcast_to(fits, shape),
        deadline_probability=np.broadcast_to(1.0 - late, shape),
        uncalibrated=np.broadcast_to(engine.uncalibrated(device), shape),
        stored_bytes=np.broadcast_to(engine.memory(columns.replace(recompute=float(Recompute.NONE))), shape),
        waiting_s=np.broadcast_to(step_s - step.step_s, shape),
        risks=risks,
    )


def row_risk(found: Exploration, row: Row, work: Figure) -> Risk | None:
    """What stops do to the run of one row; None where hardly any is expected."""
    offers, at = found.market.offers, (row.offer, row.node)
    run = RunOfRow(
        work=work,
        startup_s=float(found.bill.startup_s[at]),
        total_s=float(found.bill.total_s[at]),
        nodes=found.space.limits.node_counts[row.node],
        accelerators=float(offers.servers.num_accelerators[offers.server_index[row.offer]]),
        checkpoint_bytes=found.volume.checkpoint_bytes,
    )
    return risk_of_row(found.market.charges, row.offer, run, deadline_s=found.wanted.deadline_s)


def with_risks(times: FigureColumns, risks: Sequence[Risk | None]) -> FigureColumns:
    """The times with the intervals of those runs whose risk was worked out."""
    at = [position for position, risk in enumerate(risks) if risk is not None]
    columns = {name: np.array(getattr(times, name), dtype=np.float64) for name in ("low80", "high80", "low95", "high95")}
    for name, column in columns.items():
        column[at] = [getattr(risk.total, name) for risk in risks if risk is not None]
    return FigureColumns(times.mid, **columns, source=times.source)


def shifted(figures: FigureColumns, offset: Array) -> FigureColumns:
    """Figures plus a known amount."""
    names = ("mid", "low80", "high80", "low95", "high95")
    return dataclasses.replace(figures, **{name: getattr(figures, name) + offset for name in names})


def exact(values: Array) -> FigureColumns:
    """Figures that follow by formula alone."""
    return FigureColumns(values, values, values, values, values, source="formula")


def _option(found: Exploration, details: Details, row: Row, position: int) -> Option:
    offer = found.market.offers.row(row.offer)
    server = int(found.market.offers.server_index[row.offer])
    servers = found.market.offers.servers
    machine = int(found.fleet.machine_index[server])
    estimate = {name: figures.row(position) for name, figures in details.figures.items()}
    if details.uncalibrated[position]:
        estimate = {name: dataclasses.replace(figure, source=_extrapolated(figure.source)) for name, figure in estimate.items()}
    return Option(
        rank=position + 1,
        provider=offer["provider"],
        region=offer["region"],
        instance_type=offer["instance_type"],
        nodes=found.space.limits.node_counts[row.node],
        purchase=offer["purchase"],
        accelerator=Accelerator(
            servers.accelerator_name[server], int(servers.num_accelerators[server]), float(found.fleet.machines.memory_bytes[machine])
        ),
        vcpus=float(servers.vcpus[server]),
        memory_bytes=float(servers.memory_bytes[server]),
        network_gbps=float(servers.network_bytes_per_s[server]) / GBPS,
        price_as_of=offer["as_of"],
        price_source=offer["source"],
        layout=layout_of(found, details, position),
        estimate=estimate,
        memory_terms=memory_terms(details, position),
        time_terms=time_terms(details, position),
        cost=_cost(found, row, estimate["total_time_s"]),
        alternatives=tuple(_alternative(found, other) for other in row.folded),
        num_alternatives=row.num_folded,
        facts=_facts(found, details, row, position, offer),
        data_path=data_part(found, row.offer, row.node),
    )


def _extrapolated(source: str) -> str:
    return "extrapolated" if source == "calibrated" else source


def _terms(terms: Any, position: int) -> dict[str, float]:
    """Terms of one row without those that are zero."""
    values = {name: float(column[position if column.shape[0] > 1 else 0]) for name, column in terms.items()}
    return {name: value for name, value in values.items() if value}


def time_terms(details: Details, position: int) -> dict[str, float]:
    """Terms that add up to the step, waiting for data among them where there is any worth a name."""
    terms, waiting = _terms(details.step.terms, position), float(details.waiting_s[position])
    return {**terms, "loading_s": waiting} if waiting > 1e-9 * sum(terms.values()) else terms


def memory_terms(details: Details, position: int) -> dict[str, float]:
    """Terms that add up to what the card must hold. The allocator's slack is what is left of it under pressure: it gives cached blocks back before
    it fails, so a roomy card shows a larger figure in use."""
    terms = _terms(details.memory.terms, position)
    required = float(np.broadcast_to(details.memory.required_bytes, details.fit_probability.shape)[position])
    slack = terms.get("slack", 0.0) + required - sum(terms.values())
    return {**terms, "slack": max(slack, 0.0)}


def layout_of(found: Exploration, details: Details, position: int) -> Layout:
    """The setup of one row in words and degrees."""
    setup, columns = details.setups, details.columns
    number = {name: int(getattr(setup, name)[position]) for name in ("data", "tensor", "pipeline", "expert", "context")}
    sharding = int(setup.sharding[position])
    attention = columns.attention[position if columns.attention.shape[0] > 1 else 0]
    layout = Layout(
        **number,
        sharding=SHARDING_NAMES[sharding] if setup.data[position] > 1 else "none",
        shard_degree=int(setup.shard_degree[position]),
        micro_batch=int(setup.micro_batch[position]),
        grad_accum=int(setup.grad_accum[position]),
        recompute=Recompute(int(setup.recompute[position])).name.lower(),
        precision=found.fleet.machines.variants[int(setup.variant[position])].precision,
        attention=AttentionKernel(int(attention)).name.lower(),
        offload=OFFLOAD_NAMES[sharding],
        method=found.wish.workload.method or "full",
    )
    return sample_layout(found, details, position, layout) if isinstance(found.wish, SampleWish) else layout


def _cost(found: Exploration, row: Row, time: Figure) -> Cost:
    """Money of one row. Its interval is that of the time, through the billing steps: a term that is owed whole does not vary; where the price is
    an estimate, its own doubt is added."""
    bill = found.bill
    at = (row.offer, row.node)
    total, seconds = float(bill.total_usd[at]), float(bill.total_s[at])
    servers, storage, egress, network = (
        float(getattr(bill, name)[at]) for name in ("servers_usd", "storage_usd", "egress_usd", "network_usd")
    )
    names = ("low80", "high80", "low95", "high95")
    times = np.array([getattr(time, name) for name in names])
    charges = found.market.charges.take(np.array([row.offer]))
    billed = money.billed_s(times, minimum_s=charges.minimum_s, increment_s=charges.increment_s)
    hourly = bill.hourly_usd[[row.offer], [row.node]]
    rent = money.server_usd(billed, price_usd_per_h=hourly, nodes=np.ones(1))
    doubt = found.market.doubt
    if doubt is not None and servers > 0:
        rent = servers * both_doubts(rent / servers, doubt.factors[row.offer])
    grown = rent + (storage + network) * times / seconds + egress
    terms = with_credit({"servers_usd": servers, "storage_usd": storage, "egress_usd": egress, "network_usd": network}, total)
    if "credit_usd" in terms:
        grown = np.maximum(grown + terms["credit_usd"], facts.coefficients("planning")["credit_unpaid_share"] * grown)
    return Cost(
        hourly_usd=float(hourly[0]),
        total_usd=total,
        total=Figure(total, **dict(zip(names, grown.tolist(), strict=True)), source=time.source),
        terms=terms,
        per_million_tokens_usd=np.nan if isinstance(found.wish, SampleWish) else total * 1e6 / found.wish.amount.tokens,
        per_million_samples_usd=total * 1e6 / found.wish.amount.samples if isinstance(found.wish, SampleWish) else None,
    )


def _alternative(found: Exploration, at: tuple[int, int]) -> Alternative:
    offer = found.market.offers.row(at[0])
    return Alternative(
        region=offer["region"],
        instance_type=offer["instance_type"],
        purchase=offer["purchase"],
        hourly_usd=float(found.bill.hourly_usd[at]),
        total_usd=float(found.bill.total_usd[at]),
        total_time_s=float(found.bill.total_s[at]),
    )


def price_regions(found: Exploration, offer: int) -> int:
    """In how many regions the catalog has a price of this server bought this way."""
    offers = found.market.offers
    same = (offers.server_index == offers.server_index[offer]) & (offers.purchase_index == offers.purchase_index[offer])
    return int(np.count_nonzero(np.bincount(offers.region_index[same])))


def _facts(found: Exploration, details: Details, row: Row, position: int, offer: dict[str, Any]) -> dict[str, Any]:
    """What reasons and explanations need beside the contract's fields."""
    at, charges = (row.offer, row.node), found.market.charges
    capacity = np.broadcast_to(details.memory.capacity_bytes, details.fit_probability.shape)
    bottleneck = np.broadcast_to(details.step.bottleneck, details.fit_probability.shape)
    setups = details.setups
    listed = facts.accelerators()[found.market.offers.servers.accelerator_name[int(found.market.offers.server_index[row.offer])]]
    chip = behind(listed)
    batch = int(setups.data[position]) * int(setups.micro_batch[position]) * int(setups.grad_accum[position])
    return {
        "fit_probability": float(details.fit_probability[position]),
        "deadline_probability": float(details.deadline_probability[position]) if found.wanted.deadline_s else None,
        "capacity_bytes": float(capacity[position]),
        "bottleneck": Bottleneck(int(bottleneck[position])).name.lower(),
        "steps": float(np.ceil(found.wish.amount.tokens / (batch * found.wish.seq_len) - 1e-9)),
        **(
            sample_facts(found.wish)
            if isinstance(found.wish, SampleWish)
            else {"seq_len": found.wish.seq_len, "tokens": found.wish.amount.tokens}
        ),
        "dataset_bytes": found.volume.dataset_bytes,
        "startup_s": float(found.bill.startup_s[at]),
        "run_s": float(found.bill.run_s[at]),
        "save_and_restart_s": float(found.bill.save_and_restart_s[at]),
        "checkpoint_bytes": found.volume.checkpoint_bytes,
        "spot_low": float(charges.spot_low[row.offer]),
        "spot_high": float(charges.spot_high[row.offer]),
        "spot_known": bool(charges.spot_known[row.offer]),
        "without_recompute_bytes": float(details.stored_bytes[position]),
        "vendor": chip.vendor,
        "equivalent_to": chip.equivalent_to if chip is not listed else "",
        "billing_minimum_s": float(charges.minimum_s[row.offer]),
        "gpu_interconnect": found.market.offers.servers.gpu_interconnect[int(found.market.offers.server_index[row.offer])],
        "rdma": found.market.offers.servers.rdma[int(found.market.offers.server_index[row.offer])],
        "price_regions": price_regions(found, row.offer),
        "risk": risk_facts(details.risks[position], found.bill.hourly_usd[at]),
        "price": price_facts(found, row),
        **{name: offer[name] for name in ("is_estimate", "is_stale", "is_pseudo_region", "country")},
    }
