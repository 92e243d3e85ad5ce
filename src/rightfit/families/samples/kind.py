"""The family of samples: training of vision, detection, diffusion, speech,
recommendation and graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.estimation.data_path import DataLoad
from rightfit.estimation.figures import FigureColumns, exact, probability_within
from rightfit.families.samples.engine import SampleEngine, refuse_what_never_fits, sample_base, sample_fleet, sample_limits
from rightfit.families.samples.wish import SampleRequest, read_sample_wish
from rightfit.physics.columns import Array, DeviceColumns, Recompute, SetupColumns
from rightfit.search.advice import cheapest, effect_of
from rightfit.search.answer import Layout, Option, Reason
from rightfit.search.market import Volume
from rightfit.search.option_facts import WorkFacts
from rightfit.search.rank import Row
from rightfit.search.risk import with_start
from rightfit.search.training.explore import Craft, Details, TrainingResult, explore
from rightfit.search.training.kind import training_family
from rightfit.search.training.options import row_risk, with_risks
from rightfit.search.training.space import Sharding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rightfit.search.training.machines import Machines


# ---- Advice that only training on samples knows: compiled kernels, and decoding that does
# not starve the cards.

COMPILED = "torch.compile"
FASTER_DECODERS = ("dali", "ffcv")
WORTHWHILE = 0.9
#: Networks of many small kernels, which compilation joins; tables and graphs are not bound by them,
#: detectors change shape from image to image.
_COMPILABLE = ("conv", "grouped", "depthwise", "convnext", "window", "transformer", "unet", "denoiser", "dit")


def sample_advice(search_result: TrainingResult, best: Option | None) -> Iterable[Reason]:
    """Each with the option that it makes possible: the best one under the changed wish."""
    wish = search_result.wish
    if best is None:
        return
    assert isinstance(wish, SampleRequest)
    if not wish.workload.framework and wish.work.kind in _COMPILABLE:
        yield from _tried(search_result, best, "compile", framework=COMPILED)
    if wish.load.decode == "pillow" and not wish.workload.decode and _loading_matters(best):
        for decoder in FASTER_DECODERS[:1]:
            yield from _tried(search_result, best, "decoder", decode=decoder)
    if larger := _larger_batch(wish, best):
        yield from _tried(search_result, best, "larger_batch", global_batch=str(larger))


def _larger_batch(wish: SampleRequest, best: Option) -> int:
    """The batch that the linear scaling rule allows on the cards of the best option, where nobody
    said one: the usual batch of a card on each, up to what reached the same accuracy (Goyal et al.
    2017); 0 where that is no larger, or no network for images is trained from scratch."""
    usual = facts.coefficients("training")
    if wish.workload.task != "train" or wish.workload.global_batch is not None or wish.work.modality != "classification":
        return 0
    batch = int(min(usual["scaled_batch_per_card"] * best.num_accelerators, usual["largest_scaled_batch"]))
    return batch if batch > wish.global_batch else 0


def _loading_matters(best: Option) -> bool:
    """Whether preparing the data keeps a good part of the host busy."""
    return float(best.data_path.get("loading_share", 0.0)) > 0.5


def _tried(search_result: TrainingResult, best: Option, key: str, **changes: str) -> Iterable[Reason]:
    """What the best option would be with one change of the recipe, if that saves a tenth of money,
    or of time where time is asked for."""
    try:
        wish = search_result.craft.read(search_result.wish.workload.with_changes(**changes))
    except RightfitError:
        return
    there = explore(wish, search_result.market, search_result.filters, search_result.craft, node_counts=(best.nodes,))
    objective = search_result.wish.workload.objective
    at = cheapest(there, there.bits == 0, objective)
    if at is None:
        return
    now, then = (
        (best.estimate["total_time_s"].mid, float(there.bill.total_s[at]))
        if objective == "time"
        else (best.cost.total_usd, float(there.bill.total_usd[at]))
    )
    if then < WORTHWHILE * now:
        yield Reason(key, {**effect_of(there, at, best), **changes})


# ---- Options in full where samples are trained on: figures with intervals, terms, layout, and what
# explanations need beside.

_NAMES = ("mid", "low80", "high80", "low95", "high95")
TABLES = "tables"


def evaluate_rows(search_result: TrainingResult, rows: Sequence[Row], num_full: int | None = None) -> Details:
    """Run the whole physics on the rows' setups."""
    engine = search_result.engine
    assert isinstance(engine, SampleEngine)

    servers = search_result.market.offers.server_index[[row.offer for row in rows]]
    machine = search_result.fleet.machine_index[servers]
    setups = search_result.space.setups.take(np.array([search_result.setup_of(row.offer, row.node) for row in rows], dtype=np.intp))
    columns = setups.columns(search_result.base)
    device, links = search_result.fleet.machines.device.take(machine), search_result.fleet.machines.links.take(machine)
    memory, step = engine.details(columns, device, links)
    where = tuple(np.array([getattr(row, name) for row in rows], dtype=np.intp) for name in ("offer", "node"))
    total_s, fixed_s = search_result.bill.total_s[where], search_result.bill.startup_s[where]
    shape = total_s.shape
    at = (servers, where[1])
    step_s = step.step_s * np.divide(
        search_result.path.run_s[at], search_result.path.compute_s[at]
    )  # of computing and loading the longer counts
    figures = _figures(engine, columns, device, step_s, shape)
    figures["peak_memory_bytes"] = engine.memory_interval(np.broadcast_to(memory.required_bytes, shape))
    figures["total_time_s"] = _like(figures["step_s"], total_s - fixed_s, fixed_s)
    figures["host_memory_bytes"] = exact(np.broadcast_to(memory.host_bytes, shape))
    figures["disk_bytes"] = exact(np.broadcast_to(memory.disk_bytes + search_result.volume.dataset_bytes, shape))
    works = _like(figures["step_s"], search_result.bill.run_s[where], np.zeros(shape))
    counted = len(rows) if num_full is None else num_full
    risks = tuple(row_risk(search_result, row, works.row(position)) if position < counted else None for position, row in enumerate(rows))
    figures["total_time_s"] = with_start(with_risks(figures["total_time_s"], risks), fixed_s)
    deadline = search_result.filters.deadline_s
    return Details(
        setups=setups,
        columns=columns,
        memory=memory,
        step=step,
        figures={name: figures[name] for name in _ORDER},
        fit_probability=probability_within(figures["peak_memory_bytes"], np.broadcast_to(memory.capacity_bytes, shape)),
        deadline_probability=probability_within(figures["total_time_s"], np.full(shape, deadline or np.inf)),
        uncalibrated=np.broadcast_to(engine.uncalibrated(device), shape),
        stored_bytes=np.broadcast_to(engine.memory(columns.replace(recompute=float(Recompute.NONE))) - engine.spared(device), shape),
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


def _like(like: FigureColumns, mid: Array, offset: Array) -> FigureColumns:
    """Figures whose relative doubt is that of `like`, plus a known amount."""
    return FigureColumns(**{name: getattr(like, name) / like.mid * mid + offset for name in _NAMES})


def layout_of(search_result: TrainingResult, details: Details, position: int, layout: Layout) -> Layout:
    """The layout in words that fit: tables split, no attention kernel of ours."""
    wish = search_result.wish
    assert isinstance(wish, SampleRequest)
    mode = int(details.setups.sharding[position])
    sharding = layout.sharding
    if mode == Sharding.OFFLOAD_ALL:
        sharding = "ddp" if layout.data > 1 else "none"
    elif mode == Sharding.ZERO3 and wish.work.tables > 0:
        sharding = TABLES
    return dataclasses.replace(
        layout, attention="none", sharding=sharding, offload="parameters" if mode == Sharding.OFFLOAD_ALL else "none"
    )


def facts_of(wish: SampleRequest) -> WorkFacts:
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


def engine_of(wish: SampleRequest, machines: Machines) -> SampleEngine:
    """The physics of a wish; refuses a sample that no card holds."""
    engine = SampleEngine.of(wish)
    refuse_what_never_fits(wish, engine, machines)
    return engine


def load_of(wish: SampleRequest, volume: Volume) -> DataLoad:
    """The data of a run: what the wish says of them, with the weights that are read beside."""
    return dataclasses.replace(wish.load, weights_bytes=volume.weights_bytes)


CRAFT = Craft(
    read=read_sample_wish,
    limits=sample_limits,
    fleet=lambda servers, wish: sample_fleet(servers, wish.workload.precision or ""),
    base=lambda _wish, machines: sample_base(machines),
    engine=engine_of,
    load=load_of,
    evaluate=evaluate_rows,
    layout=layout_of,
    facts=facts_of,
    unit_cost=lambda wish: ("per_million_samples_usd", wish.amount.samples),
)
FAMILY = training_family("samples", CRAFT, more=sample_advice)
