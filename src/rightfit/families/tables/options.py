"""Options of a host plan: the chosen rows with RAM and time by term, figures with intervals, money, and what reasons need beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rightfit.estimate.classical_intervals import group_interval
from rightfit.estimate.figures import Figure, exact, probability_of
from rightfit.families.tables.explore import HostExploration
from rightfit.families.tables.layout import CPU, GPU, HostLayout
from rightfit.families.tables.wish import PREPARE
from rightfit.families.tables.work import memory_group, probability_within, time_group
from rightfit.search.answer import Option
from rightfit.search.bill import cost_of
from rightfit.search.doubt import BOUNDS
from rightfit.search.offered import accelerator_of, job_offer_facts, offered
from rightfit.search.option_facts import TableFacts
from rightfit.search.rank import Row
from rightfit.search.start import with_one_start


def build_host_options(exploration: HostExploration, rows: Sequence[Row]) -> tuple[Option, ...]:
    """The rows as options, ranked in their order."""
    return tuple(_option(exploration, row, position) for position, row in enumerate(rows))


def _option(exploration: HostExploration, row: Row, position: int) -> Option:
    server = int(exploration.market.offers.server_index[row.offer])
    estimate = estimate_of(exploration, row, server)
    return Option(
        **offered(exploration, row, position),
        accelerator=accelerator_of(exploration, row.offer),
        layout=layout_of(exploration, server, row.node),
        estimate=estimate,
        memory_terms=_terms(exploration.work.memory_terms, server, row.node),
        time_terms=_terms(exploration.work.time_terms, server, row.node),
        cost=cost_of(exploration.bill, exploration.market, (row.offer, row.node), time=estimate["total_time_s"]),
        facts=facts_of(exploration, row, server, estimate),
    )


def _terms(terms: Mapping[str, Any], server: int, node: int) -> dict[str, float]:
    """Terms of one row without those that are zero."""
    values = {name: float(column[server, min(node, column.shape[1] - 1)]) for name, column in terms.items()}
    return {name: value for name, value in values.items() if value > 0}


def layout_of(exploration: HostExploration, server: int, node: int) -> HostLayout:
    """How the job runs on one server."""
    wish, nodes = exploration.wish, exploration.columns[node]
    on_gpu = bool(exploration.work.on_gpu[server])
    task = wish.on_gpu if on_gpu else wish.on_cpu
    width = {4.0: "fp32", 2.0: "fp16", 1.0: "int8"}.get(task.element_bytes, "fp64") if task is not None else "fp64"
    cards = int(exploration.work.cards[server])
    return HostLayout(
        data=nodes * max(cards, 1),
        precision=width,
        method=wish.job,
        device=GPU if on_gpu else CPU,
        library=wish.preparation.library if wish.preparation else task.library if task else "",
        job=wish.job,
        threads=threads_of(exploration, server),
        cards=cards,
    )


def threads_of(exploration: HostExploration, server: int) -> int:
    """Threads of one server that work."""
    from rightfit.estimate.classical_rates import most_threads

    wish, all_of_them = exploration.wish, exploration.servers.cpu.threads[server]
    most = wish.preparation.max_threads if wish.preparation else most_threads(wish.task.kind)
    wanted = wish.workload.workers or 0
    limits = [limit for limit in (most, wanted, all_of_them) if limit > 0]
    return max(1, int(min(limits)))


def figure(group: str, value: float, doubts: float, *, source: str = "calibrated") -> Figure:
    """One figure with the intervals of its group."""
    columns = group_interval(group, np.full(1, value), doubts=np.full(1, doubts))
    return dataclasses.replace(columns.row(0), source=source)


def estimate_of(exploration: HostExploration, row: Row, server: int) -> dict[str, Figure]:
    """Figures by the contract's names. `peak_memory_bytes` is of what is scarce: the GPU where one works, else RAM."""
    wish, work, at = exploration.wish, exploration.work, (server, row.node)
    on_gpu = bool(work.on_gpu[server])
    run = float(sum(column[server, min(row.node, column.shape[1] - 1)] for column in work.time_terms.values()))
    group = time_group(wish, on_gpu=on_gpu)
    work_s = figure(group, run, wish.doubts)
    total = float(exploration.bill.total_s[row.offer, row.node])
    fixed = total - run if np.isfinite(total) else 0.0
    whole = Figure(run + fixed, **{name: getattr(work_s, name) + fixed for name in BOUNDS}, source=work_s.source)
    total_s = with_one_start(whole, max(fixed, 0.0))
    ram = figure(memory_group(wish), float(work.ram_bytes[at]), wish.doubts)
    card = figure("memory", float(work.card_bytes[server]), wish.doubts, source="extrapolated")
    amount = wish.data_bytes if wish.job == PREPARE else wish.rows
    rate = Figure(
        amount / run,
        low80=amount / work_s.high80,
        high80=amount / work_s.low80,
        low95=amount / work_s.high95,
        high95=amount / work_s.low95,
    )
    return {
        "total_time_s": total_s,
        "work_s": work_s,
        "peak_memory_bytes": card if on_gpu else ram,
        "host_memory_bytes": ram,
        "disk_bytes": exact(np.full(1, float(work.disk_bytes[at]))).row(0),
        "bytes_per_s" if wish.job == PREPARE else "rows_per_s": rate,
    }


def fit_probability(exploration: HostExploration, server: int, node: int) -> float:
    """Probability that RAM, and GPU memory where a GPU works, hold the job."""
    wish, work = exploration.wish, exploration.work
    if work.spilled_bytes[server, node] > 0:
        return 1.0
    ram = probability_within(
        memory_group(wish), float(work.ram_bytes[server, node]), float(exploration.servers.ram_bytes[server]), wish.doubts
    )
    if not work.on_gpu[server]:
        return ram
    return min(ram, probability_within("memory", float(work.card_bytes[server]), float(work.card_capacity_bytes[server]), wish.doubts))


def facts_of(exploration: HostExploration, row: Row, server: int, estimate: Mapping[str, Figure]) -> TableFacts:
    """What reasons and explanations need beside the contract's fields."""
    wish, servers = exploration.wish, exploration.market.offers.servers
    at, work = (row.offer, row.node), exploration.work
    on_gpu = bool(work.on_gpu[server])
    deadline = exploration.wanted.deadline_s
    total = estimate["total_time_s"]
    in_time = probability_of(total, deadline) if deadline else None
    return {
        "name": wish.name,
        "job": wish.job,
        "rows": wish.rows,
        "cols": wish.cols,
        "data_bytes": wish.data_bytes,
        "category": servers.category[server],
        "is_burstable": bool(exploration.servers.is_burstable[server]),
        "fit_probability": fit_probability(exploration, server, row.node),
        "deadline_probability": in_time,
        "capacity_bytes": float(work.card_capacity_bytes[server]) if on_gpu else float(exploration.servers.ram_bytes[server]),
        "ram_capacity_bytes": float(exploration.servers.ram_bytes[server]),
        "ram_needed_bytes": float(work.ram_needed_bytes[server, row.node]),
        "spilled_bytes": float(work.spilled_bytes[server, row.node]),
        "rented_bytes": float(work.stored_bytes[server, row.node]),
        "staging_s": float(work.staging_s[server, row.node]),
        "startup_s": float(exploration.bill.startup_s[at]),
        "run_s": float(exploration.bill.run_s[at]),
        **job_offer_facts(exploration, row),
    }
