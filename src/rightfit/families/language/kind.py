"""The family of language models: training and fine-tuning of transformers on tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rightfit.estimation.figures import FigureColumns, exact, probability_within
from rightfit.families.language.engine import LanguageEngine
from rightfit.families.language.space import base_setup, fleet_of, load_of, space_limits
from rightfit.families.language.wish import read_wish, tuned_layout
from rightfit.physics.columns import Array, Recompute
from rightfit.search.option_facts import WorkFacts
from rightfit.search.rank import Row
from rightfit.search.risk import with_start
from rightfit.search.training.explore import Craft, Details, TrainingResult
from rightfit.search.training.kind import training_family
from rightfit.search.training.options import row_risk, shifted, with_risks
from rightfit.search.training.wish import TrainingRequest

# ---- Chosen rows in full where language models are trained: memory and step term by term,
# figures with intervals.


def evaluate_rows(search_result: TrainingResult, rows: Sequence[Row], num_full: int | None = None) -> Details:
    """Run the whole physics on the rows' setups."""
    engine = search_result.engine
    assert isinstance(engine, LanguageEngine)
    servers = search_result.market.offers.server_index[[row.offer for row in rows]]
    machine = search_result.fleet.machine_index[servers]
    setup = np.array([search_result.setup_of(row.offer, row.node) for row in rows], dtype=np.intp)
    setups = search_result.space.setups.take(setup)
    columns = setups.columns(search_result.base)
    device, links = search_result.fleet.machines.device.take(machine), search_result.fleet.machines.links.take(machine)
    memory, step = engine.details(columns, device, links)
    regime = engine.regime(columns, device)
    where = tuple(np.array([getattr(row, name) for row in rows], dtype=np.intp) for name in ("offer", "node"))
    total_s = search_result.bill.total_s[where]
    fixed_s = search_result.bill.startup_s[where]
    shape = total_s.shape

    def figure(metric: str, mid: Array) -> FigureColumns:
        return engine.figure(metric, np.broadcast_to(mid, shape), regime)

    at = (servers, where[1])
    waits = np.divide(search_result.path.run_s[at], search_result.path.compute_s[at])  # of computing and loading the longer counts
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
        "disk_bytes": exact(np.broadcast_to(memory.disk_bytes + search_result.volume.dataset_bytes, shape)),
    }
    deadline = search_result.filters.deadline_s
    works = figure("total_time_s", search_result.bill.run_s[where])
    risks = tuple(
        row_risk(search_result, row, works.row(position)) if num_full is None or position < num_full else None
        for position, row in enumerate(rows)
    )
    figures["total_time_s"] = with_start(with_risks(figures["total_time_s"], risks), fixed_s)
    in_time = probability_within(figures["total_time_s"], np.full(shape, deadline or np.inf))
    fits = engine.fit_probability_of(columns, device, memory.required_bytes)
    if search_result.wish.tuning is not None:  # its intervals are wider than those that the two probabilities know
        fits = probability_within(figures["peak_memory_bytes"], np.broadcast_to(engine.capacity(device), shape))
    return Details(
        setups=setups,
        columns=columns,
        memory=memory,
        step=step,
        figures=figures,
        fit_probability=np.broadcast_to(fits, shape),
        deadline_probability=in_time,
        uncalibrated=np.broadcast_to(engine.uncalibrated(device), shape),
        stored_bytes=np.broadcast_to(engine.memory(columns.replace(recompute=float(Recompute.NONE))), shape),
        waiting_s=np.broadcast_to(step_s - step.step_s, shape),
        risks=risks,
    )


def facts_of(wish: TrainingRequest) -> WorkFacts:
    """What explanations need beside: how long sequences are, how many tokens there are in all, and
    in how many passes."""
    return {"seq_len": wish.seq_len, "tokens": wish.amount.tokens, "epochs": wish.workload.epochs or 1.0}


def engine_of(wish: TrainingRequest) -> LanguageEngine:
    """The physics of a wish; that of tuning knows how engines answer, and few plans need it."""
    if wish.tuning is None:
        return LanguageEngine.of(wish.model)
    from rightfit.families.language.engine import TunedEngine

    return TunedEngine.tuned(wish)


CRAFT = Craft(
    read=read_wish,
    limits=space_limits,
    fleet=fleet_of,
    base=lambda wish, machines: base_setup(wish, machines.variants),
    engine=lambda wish, _machines: engine_of(wish),
    load=load_of,
    evaluate=evaluate_rows,
    layout=lambda found, _details, _position, layout: tuned_layout(found.wish, layout),
    facts=facts_of,
    unit_cost=lambda wish: ("per_million_tokens_usd", wish.amount.tokens),
)
FAMILY = training_family("language", CRAFT)
