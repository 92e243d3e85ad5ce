"""Options of a host plan: the chosen rows with RAM and time by term, figures with intervals, money, and what reasons need beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rightfit.estimate.classical_intervals import group_interval
from rightfit.estimate.figures import Figure
from rightfit.physics import money
from rightfit.search.answer import Accelerator, Alternative, Cost, Layout, Option
from rightfit.search.doubt import both_doubts
from rightfit.search.host_search import HostExploration
from rightfit.search.host_wish import PREPARE
from rightfit.search.host_work import memory_group, probability_within, time_group
from rightfit.search.options import exact, price_regions
from rightfit.search.rank import Row, price_facts

GBPS = 1e9 / 8
CPU, GPU = "cpu", "gpu"
_BOUNDS = ("low80", "high80", "low95", "high95")


@dataclasses.dataclass(frozen=True, slots=True)
class HostLayout(Layout):
    """How the job runs: on `device` (cpu or gpu) with `library`; `threads` of the server at work, `cards` GPUs in use on it."""

    device: str = CPU
    library: str = ""
    job: str = ""
    threads: int = 1
    cards: int = 0


def build_host_options(found: HostExploration, rows: Sequence[Row]) -> tuple[Option, ...]:
    """The rows as options, ranked in their order."""
    return tuple(_option(found, row, position) for position, row in enumerate(rows))


def _option(found: HostExploration, row: Row, position: int) -> Option:
    offer = found.market.offers.row(row.offer)
    servers = found.market.offers.servers
    server = int(found.market.offers.server_index[row.offer])
    estimate = estimate_of(found, row, server)
    known = bool(servers.accelerator_name[server])
    return Option(
        rank=position + 1,
        provider=offer["provider"],
        region=offer["region"],
        instance_type=offer["instance_type"],
        nodes=found.space.limits.node_counts[row.node],
        purchase=offer["purchase"],
        accelerator=Accelerator(
            servers.accelerator_name[server],
            int(servers.num_accelerators[server]) if known else 0,
            float(np.nan_to_num(servers.accelerator_memory_bytes[server])) if known else 0.0,
        ),
        vcpus=float(servers.vcpus[server]),
        memory_bytes=float(servers.memory_bytes[server]),
        network_gbps=float(servers.network_bytes_per_s[server]) / GBPS,
        price_as_of=offer["as_of"],
        price_source=offer["source"],
        layout=layout_of(found, server, row.node),
        estimate=estimate,
        memory_terms=_terms(found.work.memory_terms, server, row.node),
        time_terms=_terms(found.work.time_terms, server, row.node),
        cost=cost_of(found, row, estimate["total_time_s"]),
        alternatives=tuple(_alternative(found, other) for other in row.folded),
        num_alternatives=row.num_folded,
        facts=facts_of(found, row, server, estimate, offer),
    )


def _terms(terms: Mapping[str, Any], server: int, node: int) -> dict[str, float]:
    """Terms of one row without those that are zero."""
    values = {name: float(column[server, min(node, column.shape[1] - 1)]) for name, column in terms.items()}
    return {name: value for name, value in values.items() if value > 0}


def layout_of(found: HostExploration, server: int, node: int) -> HostLayout:
    """How the job runs on one server."""
    wish, nodes = found.wish, found.space.limits.node_counts[node]
    on_gpu = bool(found.work.on_gpu[server])
    task = wish.on_gpu if on_gpu else wish.on_cpu
    width = {4.0: "fp32", 2.0: "fp16", 1.0: "int8"}.get(task.element_bytes, "fp64") if task is not None else "fp64"
    cards = int(found.work.cards[server])
    return HostLayout(
        data=nodes * max(cards, 1),
        tensor=1,
        pipeline=1,
        expert=1,
        context=1,
        sharding="none",
        shard_degree=1,
        micro_batch=1,
        grad_accum=1,
        recompute="none",
        precision=width,
        attention="none",
        offload="none",
        method=wish.job,
        device=GPU if on_gpu else CPU,
        library=wish.preparation.library if wish.preparation else task.library if task else "",
        job=wish.job,
        threads=threads_of(found, server),
        cards=cards,
    )


def threads_of(found: HostExploration, server: int) -> int:
    """Threads of one server that work."""
    from rightfit.estimate.classical_rates import most_threads

    wish, all_of_them = found.wish, found.servers.cpu.threads[server]
    most = wish.preparation.max_threads if wish.preparation else most_threads(wish.task.kind)
    wanted = wish.workload.workers or 0
    limits = [limit for limit in (most, wanted, all_of_them) if limit > 0]
    return max(1, int(min(limits)))


def figure(group: str, value: float, doubts: float, *, source: str = "calibrated") -> Figure:
    """One figure with the intervals of its group."""
    columns = group_interval(group, np.full(1, value), doubts=np.full(1, doubts))
    return dataclasses.replace(columns.row(0), source=source)


def estimate_of(found: HostExploration, row: Row, server: int) -> dict[str, Figure]:
    """Figures by the contract's names. `peak_memory_bytes` is of what is scarce: the GPU where one works, else RAM."""
    wish, work, at = found.wish, found.work, (server, row.node)
    on_gpu = bool(work.on_gpu[server])
    run = float(sum(column[server, min(row.node, column.shape[1] - 1)] for column in work.time_terms.values()))
    group = time_group(wish, on_gpu=on_gpu)
    work_s = figure(group, run, wish.doubts)
    total = float(found.bill.total_s[row.offer, row.node])
    fixed = total - run if np.isfinite(total) else 0.0
    total_s = Figure(run + fixed, **{name: getattr(work_s, name) + fixed for name in _BOUNDS}, source=work_s.source)
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
    stored = found.work.stored_bytes[at]
    return {
        "total_time_s": total_s,
        "work_s": work_s,
        "peak_memory_bytes": card if on_gpu else ram,
        "host_memory_bytes": ram,
        "disk_bytes": exact(np.full(1, float(stored))).row(0),
        "bytes_per_s" if wish.job == PREPARE else "rows_per_s": rate,
    }


def cost_of(found: HostExploration, row: Row, time: Figure) -> Cost:
    """Money of one row; its interval is that of the time, and that of an estimated price beside."""
    bill, at = found.bill, (row.offer, row.node)
    total, seconds = float(bill.total_usd[at]), float(bill.total_s[at])
    terms = {name: float(getattr(bill, name)[at]) for name in ("servers_usd", "storage_usd", "egress_usd")}
    charges = found.market.charges.take(np.array([row.offer]))
    times = np.array([getattr(time, name) for name in _BOUNDS])
    billed = money.billed_s(times, minimum_s=charges.minimum_s, increment_s=charges.increment_s)
    hourly = bill.hourly_usd[[row.offer], [row.node]]
    rent = money.server_usd(billed, price_usd_per_h=hourly, nodes=np.ones(1))
    if (doubt := found.market.doubt) is not None and terms["servers_usd"] > 0:
        rent = terms["servers_usd"] * both_doubts(rent / terms["servers_usd"], doubt.factors[row.offer])
    grown = rent + terms["storage_usd"] * times / (seconds if np.isfinite(seconds) else 1.0) + terms["egress_usd"]
    return Cost(
        hourly_usd=float(hourly[0]),
        total_usd=total,
        total=Figure(total, **dict(zip(_BOUNDS, grown.tolist(), strict=True)), source=time.source),
        terms=terms,
        per_million_tokens_usd=float("nan"),
    )


def _alternative(found: HostExploration, at: tuple[int, int]) -> Alternative:
    offer = found.market.offers.row(at[0])
    return Alternative(
        region=offer["region"],
        instance_type=offer["instance_type"],
        purchase=offer["purchase"],
        hourly_usd=float(found.bill.hourly_usd[at]),
        total_usd=float(found.bill.total_usd[at]),
        total_time_s=float(found.bill.total_s[at]),
    )


def fit_probability(found: HostExploration, server: int, node: int) -> float:
    """Probability that RAM, and GPU memory where a GPU works, hold the job."""
    wish, work = found.wish, found.work
    if work.spilled_bytes[server, node] > 0:
        return 1.0
    ram = probability_within(memory_group(wish), float(work.ram_bytes[server, node]), float(found.servers.ram_bytes[server]), wish.doubts)
    if not work.on_gpu[server]:
        return ram
    return min(ram, probability_within("memory", float(work.card_bytes[server]), float(work.card_capacity_bytes[server]), wish.doubts))


def facts_of(found: HostExploration, row: Row, server: int, estimate: Mapping[str, Figure], offer: Mapping[str, Any]) -> dict[str, Any]:
    """What reasons and explanations need beside the contract's fields."""
    known: Any = found
    wish, charges, servers = found.wish, found.market.charges, found.market.offers.servers
    at, work = (row.offer, row.node), found.work
    on_gpu = bool(work.on_gpu[server])
    deadline = found.wanted.deadline_s
    total, run = estimate["total_time_s"], estimate["work_s"]
    in_time = (
        probability_within(time_group(wish, on_gpu=on_gpu), run.mid, deadline - (total.mid - run.mid), wish.doubts) if deadline else None
    )
    return {
        "name": wish.name,
        "job": wish.job,
        "rows": wish.rows,
        "cols": wish.cols,
        "data_bytes": wish.data_bytes,
        "category": servers.category[server],
        "is_burstable": bool(found.servers.is_burstable[server]),
        "fit_probability": fit_probability(found, server, row.node),
        "deadline_probability": in_time,
        "capacity_bytes": float(work.card_capacity_bytes[server]) if on_gpu else float(found.servers.ram_bytes[server]),
        "ram_capacity_bytes": float(found.servers.ram_bytes[server]),
        "ram_needed_bytes": float(work.ram_needed_bytes[server, row.node]),
        "spilled_bytes": float(work.spilled_bytes[server, row.node]),
        "staging_s": float(work.staging_s[server, row.node]),
        "startup_s": float(found.bill.startup_s[at]),
        "run_s": float(found.bill.run_s[at]),
        "spot_low": float(charges.spot_low[row.offer]),
        "spot_high": float(charges.spot_high[row.offer]),
        "spot_known": bool(charges.spot_known[row.offer]),
        "billing_minimum_s": float(charges.minimum_s[row.offer]),
        "price_regions": price_regions(known, row.offer),
        "price": price_facts(found, row),
        **{name: offer[name] for name in ("is_estimate", "is_stale", "is_pseudo_region", "country")},
    }
