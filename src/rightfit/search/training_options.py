"""Options in full where samples are trained on: figures with intervals, terms, layout, and what explanations need beside."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.estimate.figures import FigureColumns
from rightfit.physics.columns import Array, Recompute
from rightfit.search.sample_wish import SampleWish
from rightfit.search.space import Sharding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rightfit.physics.columns import DeviceColumns, SetupColumns
    from rightfit.search.answer import Layout
    from rightfit.search.explore import Exploration
    from rightfit.search.options import Details
    from rightfit.search.rank import Row
    from rightfit.search.training_engine import SampleEngine

_NAMES = ("mid", "low80", "high80", "low95", "high95")
_PROBABILITIES = np.array([0.025, 0.1, 0.5, 0.9, 0.975])
_NORMAL = np.array([-1.959964, -1.281552, 0.0, 1.281552, 1.959964])
TABLES = "tables"


def evaluate_samples(found: Exploration, rows: Sequence[Row], engine: SampleEngine, *, num_full: int | None = None) -> Details:
    """Run the whole physics on the rows' setups."""
    from rightfit.search.options import Details, row_risk, with_risks

    servers = found.market.offers.server_index[[row.offer for row in rows]]
    machine = found.fleet.machine_index[servers]
    setups = found.space.setups.take(np.array([found.setup_of(row.offer, row.node) for row in rows], dtype=np.intp))
    columns = setups.columns(found.base)
    device, links = found.fleet.machines.device.take(machine), found.fleet.machines.links.take(machine)
    memory, step = engine.details(columns, device, links)
    where = tuple(np.array([getattr(row, name) for row in rows], dtype=np.intp) for name in ("offer", "node"))
    total_s, fixed_s = found.bill.total_s[where], found.bill.startup_s[where]
    shape = total_s.shape
    at = (servers, where[1])
    step_s = step.step_s * np.divide(found.path.run_s[at], found.path.compute_s[at])  # of computing and loading the longer counts
    figures = _figures(engine, columns, device, step_s, shape)
    figures["peak_memory_bytes"] = engine.memory_interval(np.broadcast_to(memory.required_bytes, shape))
    figures["total_time_s"] = _like(figures["step_s"], total_s - fixed_s, fixed_s)
    figures["host_memory_bytes"] = _exact(np.broadcast_to(memory.host_bytes, shape))
    figures["disk_bytes"] = _exact(np.broadcast_to(memory.disk_bytes + found.volume.dataset_bytes, shape))
    works = _like(figures["step_s"], found.bill.run_s[where], np.zeros(shape))
    counted = len(rows) if num_full is None else num_full
    risks = tuple(row_risk(found, row, works.row(position)) if position < counted else None for position, row in enumerate(rows))
    figures["total_time_s"] = with_risks(figures["total_time_s"], risks)
    deadline = found.wanted.deadline_s
    return Details(
        setups=setups,
        columns=columns,
        memory=memory,
        step=step,
        figures={name: figures[name] for name in _ORDER},
        fit_probability=probability_within(figures["peak_memory_bytes"], np.broadcast_to(memory.capacity_bytes, shape)),
        deadline_probability=probability_within(figures["total_time_s"], np.full(shape, deadline or np.inf)),
        uncalibrated=np.broadcast_to(engine.uncalibrated(device), shape),
        stored_bytes=np.broadcast_to(engine.memory(columns.replace(recompute=float(Recompute.NONE))), shape),
        waiting_s=np.broadcast_to(step_s - step.step_s, shape),
        risks=risks,
    )


_ORDER = ("peak_memory_bytes", "step_s", "samples_per_s", "mfu", "total_time_s", "host_memory_bytes", "disk_bytes")


def _figures(
    engine: SampleEngine, columns: SetupColumns, device: DeviceColumns, step_s: Array, shape: tuple[int, ...]
) -> dict[str, FigureColumns]:
    """Rate, step and utilisation: one doubt, seen as a rate and as a time."""
    samples = np.broadcast_to(columns.data * columns.micro_batch * columns.grad_accum / step_s, shape)
    rate = engine.rate_interval(samples)
    step = np.broadcast_to(step_s, shape)
    slow = FigureColumns(
        step, step * samples / rate.high80, step * samples / rate.low80, step * samples / rate.high95, step * samples / rate.low95
    )
    used = np.broadcast_to(engine.model_flops(columns) / (step_s * np.maximum(engine.peak_flops(columns, device), 1.0)), shape)
    return {"samples_per_s": rate, "step_s": slow, "mfu": _like(rate, used, np.zeros(shape))}


def _like(known: FigureColumns, mid: Array, offset: Array) -> FigureColumns:
    """Figures whose relative doubt is that of `known`, plus a known amount."""
    return FigureColumns(**{name: getattr(known, name) / known.mid * mid + offset for name in _NAMES})


def _exact(values: Array) -> FigureColumns:
    return FigureColumns(values, values, values, values, values, source="formula")


def probability_within(figures: FigureColumns, limit: Array) -> Array:
    """Probability that each figure is at most `limit`, from its intervals: between their ends by the normal law of the logarithm."""
    from math import erf, sqrt

    ends = np.stack([figures.low95, figures.low80, figures.mid, figures.high80, figures.high95])
    out = np.ones(figures.mid.shape)
    for row in range(len(out)):
        logs, target = np.log(np.maximum.accumulate(ends[:, row] * (1.0 + 1e-9 * np.arange(5)))), np.log(limit[row])
        score = float(np.interp(target, logs, _NORMAL))
        if target > logs[-1]:
            score = float(min(_NORMAL[-1] + (target - logs[-1]) * (_NORMAL[-1] - _NORMAL[-2]) / (logs[-1] - logs[-2]), 8.0))
        elif target < logs[0]:
            score = float(max(_NORMAL[0] - (logs[0] - target) * (_NORMAL[1] - _NORMAL[0]) / (logs[1] - logs[0]), -8.0))
        out[row] = 0.5 * (1.0 + erf(score / sqrt(2.0)))
    return out


def sample_layout(found: Exploration, details: Details, position: int, layout: Layout) -> Layout:
    """The layout in words that fit: tables split, no attention kernel of ours."""
    wish = found.wish
    assert isinstance(wish, SampleWish)
    mode = int(details.setups.sharding[position])
    sharding = layout.sharding
    if mode == Sharding.OFFLOAD_ALL:
        sharding = "ddp" if layout.data > 1 else "none"
    elif mode == Sharding.ZERO3 and wish.work.tables > 0:
        sharding = TABLES
    return dataclasses.replace(
        layout, attention="none", sharding=sharding, offload="parameters" if mode == Sharding.OFFLOAD_ALL else "none"
    )


def sample_facts(wish: SampleWish) -> dict[str, Any]:
    """What explanations need beside: what a sample is, how many there are, and the recipe."""
    amount, load, recipe = wish.amount, wish.load, wish.recipe
    return {
        "samples": amount.samples,
        "samples_per_epoch": load.samples,
        "epochs": load.epochs,
        "sample": dict(wish.sample),
        "latents": recipe.latents,
        "channels_last": recipe.channels_last,
        "software": recipe.software,
        "modality": wish.work.modality,
        "params": wish.work.params,
        "table_params": wish.work.tables,
    }
