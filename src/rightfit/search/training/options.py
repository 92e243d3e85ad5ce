"""Options in full: the chosen rows with memory and time broken down, figures with intervals, cost terms, and reasons as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.estimate.figures import Figure, FigureColumns
from rightfit.physics.columns import Array, AttentionKernel, Recompute
from rightfit.physics.step import Bottleneck
from rightfit.search.answer import Cost, Layout, Option, OptionAccelerator
from rightfit.search.bill import cost_of
from rightfit.search.offered import offer_doubts, offered, spot_facts
from rightfit.search.option_facts import TrainingFacts
from rightfit.search.rank import Row, price_facts, price_regions
from rightfit.search.risk import Risk, RunOfRow, risk_facts, risk_of_row
from rightfit.search.training.data_path import data_part
from rightfit.search.training.machines import behind
from rightfit.search.training.space import OFFLOAD_NAMES, SHARDING_NAMES

if TYPE_CHECKING:
    from rightfit.search.training.found import Details, Exploration


def build_options(exploration: Exploration, rows: Sequence[Row], num_full: int | None = None) -> tuple[Option, ...]:
    """The rows as options, ranked in their order (reasons are added by grounds.py). `num_full`: of how many, from the first, the law of the
    time under
    interruptions is worked out; the rest keep the interval of the undisturbed run."""
    if not rows:
        return ()
    details = exploration.craft.evaluate(exploration, rows, num_full)
    return tuple(_option(exploration, details, row, position) for position, row in enumerate(rows))


def row_risk(exploration: Exploration, row: Row, work: Figure) -> Risk | None:
    """What stops do to the run of one row; None where hardly any is expected."""
    offers, at = exploration.market.offers, (row.offer, row.node)
    run = RunOfRow(
        work=work,
        startup_s=float(exploration.bill.startup_s[at]),
        total_s=float(exploration.bill.total_s[at]),
        nodes=exploration.space.limits.node_counts[row.node],
        accelerators=float(offers.servers.num_accelerators[offers.server_index[row.offer]]),
        checkpoint_bytes=exploration.volume.checkpoint_bytes,
    )
    return risk_of_row(exploration.market.charges, row.offer, run, deadline_s=exploration.wanted.deadline_s)


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


def _option(exploration: Exploration, details: Details, row: Row, position: int) -> Option:
    server = int(exploration.market.offers.server_index[row.offer])
    servers = exploration.market.offers.servers
    machine = int(exploration.fleet.machine_index[server])
    estimate = {name: figures.row(position) for name, figures in details.figures.items()}
    if details.uncalibrated[position]:
        estimate = {name: dataclasses.replace(figure, source=_extrapolated(figure.source)) for name, figure in estimate.items()}
    return Option(
        **offered(exploration, row, position),
        accelerator=OptionAccelerator(
            servers.accelerator_name[server], int(servers.num_accelerators[server]), float(exploration.fleet.machines.memory_bytes[machine])
        ),
        layout=layout_of(exploration, details, position),
        estimate=estimate,
        memory_terms=memory_terms(details, position),
        time_terms=time_terms(details, position),
        cost=_cost(exploration, row, estimate["total_time_s"]),
        facts=_facts(exploration, details, row, position),
        data_path=data_part(exploration, row.offer, row.node),
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
    """Terms that add up to what the card must hold. The allocator's slack is what is left of it under pressure: it gives cached blocks back
    before
    it fails, so a roomy card shows a larger figure in use."""
    terms = _terms(details.memory.terms, position)
    required = float(np.broadcast_to(details.memory.required_bytes, details.fit_probability.shape)[position])
    slack = terms.get("slack", 0.0) + required - sum(terms.values())
    return {**terms, "slack": max(slack, 0.0)}


def layout_of(exploration: Exploration, details: Details, position: int) -> Layout:
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
        precision=exploration.fleet.machines.variants[int(setup.variant[position])].precision,
        attention=AttentionKernel(int(attention)).name.lower(),
        offload="activations" if np.any(columns.offload_activations) else OFFLOAD_NAMES[sharding],
        method=exploration.wish.workload.method or "full",
        update="",
        rollout="",
    )
    return exploration.craft.layout(exploration, details, position, layout)


def _cost(exploration: Exploration, row: Row, time: Figure) -> Cost:
    """Money of one row, and what a million tokens or samples come to."""
    cost = cost_of(exploration.bill, exploration.market, (row.offer, row.node), time=time)
    key, count = exploration.craft.unit_cost(exploration.wish)
    changed: dict[str, Any] = {key: cost.total_usd * 1e6 / count}
    return dataclasses.replace(cost, **changed)


def _facts(exploration: Exploration, details: Details, row: Row, position: int) -> TrainingFacts:
    """What reasons and explanations need beside the contract's fields."""
    at, servers = (row.offer, row.node), exploration.market.offers.servers
    server = int(exploration.market.offers.server_index[row.offer])
    capacity = np.broadcast_to(details.memory.capacity_bytes, details.fit_probability.shape)
    bottleneck = np.broadcast_to(details.step.bottleneck, details.fit_probability.shape)
    setups = details.setups
    listed = facts.accelerators()[servers.accelerator_name[server]]
    chip = behind(listed)
    batch = int(setups.data[position]) * int(setups.micro_batch[position]) * int(setups.grad_accum[position])
    return {
        "fit_probability": float(details.fit_probability[position]),
        "deadline_probability": float(details.deadline_probability[position]) if exploration.wanted.deadline_s else None,
        "capacity_bytes": float(capacity[position]),
        "bottleneck": Bottleneck(int(bottleneck[position])).name.lower(),
        "steps": float(np.ceil(exploration.wish.amount.tokens / (batch * exploration.wish.seq_len) - 1e-9)),
        **exploration.craft.facts(exploration.wish),
        "dataset_bytes": exploration.volume.dataset_bytes,
        "startup_s": float(exploration.bill.startup_s[at]),
        "run_s": float(exploration.bill.run_s[at]),
        "save_and_restart_s": float(exploration.bill.save_and_restart_s[at]),
        "checkpoint_bytes": exploration.volume.checkpoint_bytes,
        **spot_facts(exploration, row),
        "without_recompute_bytes": float(details.stored_bytes[position]),
        "vendor": chip.vendor,
        "equivalent_to": chip.equivalent_to if chip is not listed else "",
        "billing_minimum_s": float(exploration.market.charges.minimum_s[row.offer]),
        "gpu_interconnect": servers.gpu_interconnect[server],
        "rdma": servers.rdma[server],
        "price_regions": price_regions(exploration, row.offer),
        "risk": risk_facts(details.risks[position], exploration.bill.hourly_usd[at]),
        "price": price_facts(exploration, row),
        **offer_doubts(exploration, row),
    }
