"""Serving classical models: one row a request, on the processors of CPU servers behind a web server, one worker process a core.

A replica is a server. Workers take one request at a time, so what waits is answered at workers / core seconds; the rest is as for models of one forward
pass (serving_forward.py), whose space and grid are used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rightfit.errors import ContradictionError, InputError, UnavailableError
from rightfit.estimate.classical import classical_task, cpu_columns
from rightfit.estimate.classical_service import ClassicalService, classical_service, service_passes
from rightfit.facts.classical import classical_model
from rightfit.search.explore import Market, read_market
from rightfit.search.host_wish import gpu_only_libraries, library_asked, note_assumed, settings_text, table_of
from rightfit.search.serving_forward import (
    BATCHES,
    ForwardChoice,
    ForwardMachine,
    cheapest_cpu_offers,
    forward_fleet,
    forward_grid,
    forward_space,
)
from rightfit.search.serving_load import refuse_laws
from rightfit.search.serving_wish import Limits, ServingWish, usual
from rightfit.search.wish import Notes

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.physics.columns import Array
    from rightfit.search.constraints import Wanted
    from rightfit.search.serving_search import ServingExploration
    from rightfit.search.serving_stacks import Stack
    from rightfit.workload import Workload

_ENGINE = {
    "name": "FastAPI",
    "words": "fastapi|uvicorn",
    "engine": "FastAPI",
    "modalities": "table",
    "families": "cpu|cpu-amx",
    "dtypes": "fp32",
}
_TOKEN_OPTIONS = ("api_price", "prefix_share", "cached_tokens", "adapters", "speculative", "kv_cache", "quantization")


def read_classical_service(workload: Workload, notes: Notes) -> ServingWish:
    """The workload as numbers: how wide a request is, how large the model, how many requests, how soon answered."""
    named = classical_model(workload.model)
    assert named is not None
    _refuse_options(workload)
    rows, cols = _trained_on(workload, notes)
    library, is_named = library_asked(workload, named)
    if library in gpu_only_libraries():
        raise UnavailableError(
            f"task serve: {library} scores on GPUs, and such services are not measured; leave library out for processors"
        )
    task = classical_task(named.words, rows=rows, cols=cols, library=library, settings=settings_text(workload, named))
    for text in task.assumptions:
        note_assumed(notes, text, task)
    if not is_named:
        notes.take("library", library, "host_library")
    rate = workload.rate_per_s or 0.0
    if not rate and not workload.users:
        rate = float(usual()["rate_per_s"])
        notes.take("rate", rate, "serve_rate")
    return ServingWish(
        workload=workload,
        model=dataclasses.replace(classical_service(named.name, task), certainty="typical" if task.assumptions else "exact"),
        rate_per_s=rate,
        users=workload.users or 0,
        requests=0.0,
        input_tokens=0,
        output_tokens=0,
        limits=_limits(workload, notes),
        assumptions=tuple(notes.taken),
    )


def _refuse_options(workload: Workload) -> None:
    refuse_laws(workload)
    for option in _TOKEN_OPTIONS:
        if getattr(workload, option) is not None:
            raise ContradictionError(f"{option} contradicts model {workload.model}: it is for neural networks; leave it out", field=option)
    if any(workload.gpu):
        raise ContradictionError(
            f"gpu contradicts model {workload.model}: single rows are scored on processors; leave gpu out", field="gpu"
        )


def _trained_on(workload: Workload, notes: Notes) -> tuple[float, float]:
    """Rows and columns of the table that the model was trained on; a request is one row of it."""
    if workload.data is not None:
        rows, cols, _ = table_of(workload, notes)
        return rows, cols
    if not workload.columns:
        raise InputError(
            "columns: how many numbers has a request? give --columns 30, or with --data '1Mrows x 30cols' the table that the model was trained on",
            field="columns",
        )
    rows = float(usual()["trained_rows"])
    notes.take("data_rows", rows, "serve_trained_rows")
    return rows, float(workload.columns)


def _limits(workload: Workload, notes: Notes) -> Limits:
    infinity = float("inf")
    latency = workload.latency_s
    if latency is None:
        latency = float(usual()["forward_latency_s"])
        notes.take("latency", latency, "serve_latency")
    return Limits(infinity, infinity, float(latency), (workload.percentile or usual()["percentile"]) / 100.0)


def explore_classical(wish: ServingWish, wanted: Wanted, catalog: Catalog, *, market: Market | None = None) -> ServingExploration:
    """Every CPU server as a replica."""
    from rightfit.search.serving_search import judged

    market = market or _cpu_market(catalog, wanted)
    fleet, machines = forward_fleet(market.offers.servers, market.offers, ForwardChoice((_ENGINE,), "fp32"))
    space, seconds = forward_space(fleet, machines, wish, timed=_timed)
    grid = forward_grid(seconds, percentile=wish.limits.percentile)
    return dataclasses.replace(judged(wish, wanted, market, fleet, space, grid), passes=seconds)


def _cpu_market(catalog: Catalog, wanted: Wanted) -> Market:
    table = catalog.all_offers()
    sound = ~table.is_quarantined & np.isfinite(table.price_usd_per_h)
    no_card = (table.servers.num_accelerators <= 0)[table.server_index]
    return read_market(catalog, table.take(cheapest_cpu_offers(table, sound & no_card, wanted)))


def _timed(machines: Sequence[ForwardMachine], stacks: Sequence[Stack], wish: ServingWish) -> tuple[Array, Array]:
    """Seconds and memory of so many waiting requests, (machines, BATCHES)."""
    service = wish.model
    assert isinstance(service, ClassicalService)
    cores = np.array([float(one.card.num_sms) for one in machines])
    memory = np.array([one.memory_bytes for one in machines])
    cpus = cpu_columns([one.device for one in machines], vcpus=cores, memory_bytes=memory)
    return service_passes(service, cpus.replace(cores=cores), BATCHES)
