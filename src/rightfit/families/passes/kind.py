"""The family of services of one pass: encoders, vision, diffusion, speech, recommenders, classical
models; online, and batches worked off."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rightfit import facts
from rightfit.errors import ContradictionError, InputError, UnavailableError
from rightfit.estimation.classical import classical_task
from rightfit.estimation.classical_rates import cpu_columns
from rightfit.estimation.classical_service import ClassicalService, classical_service, service_passes
from rightfit.facts.classical import classical_model
from rightfit.facts.machines import host_processor
from rightfit.facts.networks import PassEngine
from rightfit.families.passes import forward
from rightfit.families.passes.forward import (
    ForwardChoice,
    forward_fleet,
    forward_limits,
    forward_rate,
    forward_space,
    read_forward_wish,
)
from rightfit.messages import Message
from rightfit.search.answer import Option
from rightfit.search.classical_wish import gpu_only_libraries, library_asked, note_assumed, refuse_idle_words, table_case, table_of
from rightfit.search.family import Beside
from rightfit.search.offers import Market, whole_market
from rightfit.search.request_checks import Notes
from rightfit.search.service.batch import judged
from rightfit.search.service.economics import economics
from rightfit.search.service.found import ServingResult
from rightfit.search.service.grid import PASS_BATCHES, pass_grid
from rightfit.search.service.kind import service_family
from rightfit.search.service.sizing import serving_wanted
from rightfit.search.service.stacks import PassMachine, cpu_offers
from rightfit.search.service.wish import ServingRequest, refuse_law, start_notes, usual

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.physics.columns import Array
    from rightfit.search.constraints import Filters
    from rightfit.search.service.found import ServingResult
    from rightfit.search.service.stacks import ServingStack
    from rightfit.workload import Workload


# ---- Serving classical models: one row a request, on the processors of CPU servers behind a web
# server, one worker process a core. A replica is a server. Workers take one request at a time, so
# what waits is answered at workers / core seconds; the rest is as for models of one forward pass
# (passes/forward.py), whose space and grid are used.

#: What answers requests to classical models. No coefficients of forward passes are its own: single
#: rows are timed apart.
_ENGINE = PassEngine("FastAPI", ("fastapi", "uvicorn"), "FastAPI", "", ("table",), ("cpu", "cpu-amx"), ("fp32",))


def read_classical_service(workload: Workload, notes: Notes) -> ServingRequest:
    """The workload as numbers: how wide a request is, how large the model, how many requests,
    how soon answered."""
    named = classical_model(workload.model)
    assert named is not None
    _refuse_accelerators(workload)
    rows, cols = _trained_on(workload, notes)
    library, is_named = library_asked(workload, named)
    if library in gpu_only_libraries():
        raise UnavailableError(Message("families.library_on_gpus", library=library))
    task = classical_task(table_case(workload, named, library=library, rows=rows, cols=cols))
    refuse_idle_words(workload, named, task)
    for text in task.assumptions:
        note_assumed(notes, text, task)
    if not is_named:
        notes.take("library", library, "host_library")
    return ServingRequest(
        workload=workload,
        model=dataclasses.replace(classical_service(named.name, task), certainty="typical" if task.assumptions else "exact"),
        rate_per_s=forward_rate(workload, notes),
        users=workload.users or 0,
        requests=0.0,
        input_tokens=0,
        output_tokens=0,
        limits=forward_limits(workload, "table", notes),
        assumptions=tuple(notes.taken),
        modality="table",
    )


def _refuse_accelerators(workload: Workload) -> None:
    if any(workload.gpu):
        raise ContradictionError(Message("families.rows_on_processors", model=workload.model), field="gpu")


def _trained_on(workload: Workload, notes: Notes) -> tuple[float, float]:
    """Rows and columns of the table that the model was trained on; a request is one row of it."""
    if workload.data is not None:
        rows, cols, _ = table_of(workload, notes)
        return rows, cols
    if not workload.columns:
        raise InputError(
            Message("families.columns_unsaid"),
            field="columns",
        )
    rows = float(usual()["trained_rows"])
    notes.take("data_rows", rows, "serve_trained_rows")
    return rows, float(workload.columns)


def explore_classical(wish: ServingRequest, filters: Filters, catalog: Catalog, *, market: Market | None = None) -> ServingResult:
    """Every CPU server as a replica."""
    market = market or _cpu_market(catalog, filters)
    fleet, machines = forward_fleet(market.offers.servers, market.offers, ForwardChoice((_ENGINE,), "fp32"))
    space, seconds = forward_space(fleet, machines, wish, timed=_timed)
    grid = pass_grid(seconds, wish, percentile=wish.limits.percentile)
    return dataclasses.replace(judged(wish, filters, market, fleet, space, grid), passes=seconds)


def _cpu_market(catalog: Catalog, filters: Filters) -> Market:
    market = whole_market(catalog)
    return market.take(cpu_offers(market, filters))


def _timed(machines: Sequence[PassMachine], stacks: Sequence[ServingStack], wish: ServingRequest) -> tuple[Array, Array]:
    """Seconds and memory of so many waiting requests, (machines, PASS_BATCHES)."""
    service = wish.model
    assert isinstance(service, ClassicalService)
    cores = np.array([float(one.card.num_sms) for one in machines])
    memory = np.array([one.memory_bytes for one in machines])
    cpus = cpu_columns([host_processor(one.device) for one in machines], vcpus=cores, memory_bytes=memory)
    return service_passes(service, cpus.replace(cores=cores), PASS_BATCHES)


# ---- From a workload to numbers where one pass answers a request.


def read_pass_wish(workload: Workload) -> ServingRequest:
    """The workload as numbers; raises what the user must know."""
    notes = start_notes(workload)
    if workload.task == "serve" and workload.model and classical_model(workload.model) is not None:
        return read_classical_service(workload, notes)
    model = facts.model(workload.model)
    refuse_law(workload)
    return read_forward_wish(workload, model, notes)


# ---- Every way to serve a model of one pass: on cards and processors.


def explore(workload: Workload, catalog: Catalog, *, market: Market | None = None) -> ServingResult:
    """Search every way to serve a model; on the servers of `market` alone where one is given."""
    return explore_passes(read_pass_wish(workload), catalog, market=market)


def explore_passes(wish: ServingRequest, catalog: Catalog, *, market: Market | None = None) -> ServingResult:
    """Models of one forward pass: accelerators and CPU servers."""
    wanted = serving_wanted(wish.workload, catalog)
    if wish.scores_rows:
        return explore_classical(wish, wanted, catalog, market=market)
    choice = forward.read_forward_choice(wish.workload, wish.modality)
    market = market or forward.forward_market(catalog, wanted, with_cpus=forward.suits_cpu(wish))
    fleet, machines = forward.forward_fleet(market.offers.servers, market.offers, choice)
    fleet, machines = forward.shared_machines(fleet, machines, wish.workload, market, catalog)
    space, passes = forward.forward_space(fleet, machines, wish)
    grid = pass_grid(passes, wish, percentile=wish.limits.percentile)
    return dataclasses.replace(judged(wish, wanted, market, fleet, space, grid), passes=passes)


def other_ways(search_result: ServingResult, options: tuple[Option, ...], _catalog: Catalog) -> Beside:
    """Serverless, spot, a mixed fleet."""
    return Beside(sections=economics(search_result, options))


FAMILY = service_family("passes", explore, ways=other_ways)
