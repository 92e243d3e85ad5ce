"""`plan` for services and batch inference: the parts of a serving answer put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rightfit.search.answer import Assumption, Counts, Option, Plan, Reason
from rightfit.search.bill_part import buy_section_of_service
from rightfit.search.constraints import DEFAULT_PURCHASES, minimal_blame
from rightfit.search.priced import credit_section
from rightfit.search.rank import Row
from rightfit.search.serving_answer import build_serving_options
from rightfit.search.serving_autoscale import load_sections
from rightfit.search.serving_economics import economics
from rightfit.search.serving_fleet import solver
from rightfit.search.serving_reasons import serving_advice, serving_rejections, with_serving_reasons
from rightfit.search.serving_refine import refined
from rightfit.search.serving_search import SERVING_PURCHASES, ServingExploration, explore_serving
from rightfit.search.serving_stacks import format_rows

SAVING_WORTH_SAYING = 0.1
MOST_PARETO = 12

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload


def plan_serving(workload: Workload, *, catalog: Catalog, top: int, simulate: bool = False) -> Plan:
    """Rank every way to serve a model, or to work off a corpus with it; `simulate`: play the shown options through."""
    if workload.fleet == "mixed":
        solver()
    found, ranking = refined(explore_serving(workload, catalog), top=top)
    candidates = [found.candidate(row.offer, row.node) for row in ranking.top]
    options = with_serving_reasons(found, build_serving_options(found, ranking.top))
    if simulate:
        options = simulated_options(found, options, candidates)
    freed = freed_formats(found, options, catalog)
    return Plan(
        workload=workload,
        assumptions=serving_assumptions(found),
        options=options,
        pareto=build_serving_options(found, spread_over(ranking.pareto, MOST_PARETO)),
        rejected=serving_rejections(found),
        advice=(*serving_advice(found, options), *(quantisation_advice(freed, options) if freed else ())),
        catalog={"as_of": dict(found.market.as_of)},
        counts=serving_counts(found),
        blame=() if options else minimal_blame(found.bits),
        sections=(
            *credit_section(options, catalog),
            *load_sections(found, options, candidates[0] if candidates else -1),
            *economics(found, options, freed),
            *([buy_section_of_service(found, options[0], ranking.top[0], catalog)] if options else []),
        ),
    )


def spread_over(front: Sequence[Row], most: int) -> list[Row]:
    """At most so many points of a front, evenly over it, its two ends among them; figures of points that are not options are those of the quick law."""
    if len(front) <= most:
        return list(front)
    return [front[at] for at in np.unique(np.linspace(0, len(front) - 1, most).round().astype(int)).tolist()]


def simulated_options(found: ServingExploration, options: tuple[Option, ...], candidates: list[int]) -> tuple[Option, ...]:
    """The options with the simulation's figures."""
    from rightfit.search.serving_simulate import refuse_simulation, with_simulation

    refuse_simulation(found.wish)
    return with_simulation(found, options, candidates)


def freed_formats(found: ServingExploration, options: tuple[Option, ...], catalog: Catalog) -> ServingExploration | None:
    """The same search with any weight format, where the user left the weights open."""
    workload = found.wish.workload
    if not options or not found.wish.generates or found.wish.is_batch or workload.quantization or workload.precision:
        return None
    return explore_serving(workload.with_changes(quantization="any"), catalog)


def quantisation_advice(freed: ServingExploration, options: tuple[Option, ...]) -> tuple[Reason, ...]:
    """What the cheapest server with fewer bits would cost, where it saves a tenth or more."""
    total = np.where(freed.bits == 0, freed.bill.total_usd, np.inf)
    offer, column = (int(at) for at in np.unravel_index(int(np.argmin(total)), total.shape))
    best = options[0].cost.total_usd
    stack = freed.space.stack[freed.candidate(offer, column)]
    if not total[offer, column] <= best * (1.0 - SAVING_WORTH_SAYING) or stack.format not in format_rows():
        return ()
    row, where = format_rows()[stack.format], freed.market.offers.row(offer)
    params = {
        "format": stack.format,
        "option": row["words"].split("|")[0],
        "monthly_usd": float(total[offer, column]),
        "saving_usd": best - float(total[offer, column]),
        "quality": row["quality"],
        "evidence": row["evidence"],
        "source": row["source"],
        "provider": where["provider"],
        "instance_type": where["instance_type"],
        "nodes": int(freed.sizing.servers[freed.fleet.machine_index[freed.market.offers.server_index[offer]], column]),
    }
    return (Reason("serve_quantise", params),)


def serving_assumptions(found: ServingExploration) -> tuple[Assumption, ...]:
    """Defaults taken while reading the workload, and those of the market and the engine."""
    taken = list(found.wish.assumptions)
    workload = found.wish.workload
    if not workload.purchase:
        value = ", ".join(DEFAULT_PURCHASES if found.wish.is_batch else SERVING_PURCHASES)
        taken.append(Assumption("purchase", value, Reason("assumed_purchase", {"value": value})))
    if found.wish.generates and not workload.quantization and not workload.precision:
        taken.append(Assumption("quantization", "none", Reason("assumed_serve_format", {"value": "bf16 / fp16"})))
    if found.wish.generates and not workload.framework:
        taken.append(Assumption("framework", "vLLM", Reason("assumed_serve_engine", {"value": "vLLM"})))
    return tuple(taken)


def serving_counts(found: ServingExploration) -> Counts:
    """How much was looked at."""
    machine = found.fleet.machine_index[found.market.offers.server_index]
    per_class = np.bincount(found.space.machine, minlength=max(len(found.fleet), 1))
    return Counts(
        candidates=len(found.space),
        timed=int(found.space.fits.sum()) * int(found.grid.batch.shape[1]),
        offers=len(found.market.offers),
        servers=int((found.fleet.machine_index >= 0).sum()),
        covered=int(per_class[machine[machine >= 0]].sum()) * int(found.grid.batch.shape[1]),
    )
