"""`plan`: a workload in, a ranked, priced plan out, with everything that explains it as data."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rightfit.errors import ContradictionError
from rightfit.search.advice import advise
from rightfit.search.answer import Assumption, Counts, Option, Plan, Reason, Section
from rightfit.search.constraints import DEFAULT_PURCHASES, minimal_blame, read_wanted
from rightfit.search.explore import Exploration, explore, open_market
from rightfit.search.grounds import with_reasons
from rightfit.search.host_names import is_host_work
from rightfit.search.options import build_options
from rightfit.search.rank import Row, rank
from rightfit.search.refusals import rejections
from rightfit.search.software import listed_stacks
from rightfit.search.wish import read_wish

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload

MOST_PARETO = 12


@functools.cache
def default_catalog() -> Catalog:
    """The catalog of this process, opened once, with the price book of the environment."""
    from rightfit.search.priced import open_priced

    return open_priced()


def plan(workload: Workload, *, catalog: Catalog | None = None, top: int = 10, simulate: bool = False) -> Plan:
    """Rank every way to rent and lay out the workload; `simulate`: play the options of a service through by simulation as well.

    A wish that nothing can fulfil gives a Plan without options whose `rejected`, `blame` and `advice` say why and what would help. Raises
    InputError for what cannot be understood and UnavailableError for tasks of later versions.
    """
    if is_host_work(workload):
        from rightfit.search.host_planner import plan_host

        return plan_host(workload, catalog=catalog or default_catalog(), top=top)
    if workload.task in ("serve", "batch"):
        from rightfit.search.serving_planner import plan_serving

        return plan_serving(workload, catalog=catalog or default_catalog(), top=top, simulate=simulate)
    if simulate:
        raise ContradictionError(
            f"simulate contradicts task {workload.task}: it is for services; leave it out, or say task serve", field="simulate"
        )
    found = search(workload, catalog=catalog)
    ranking = rank(found, top=top)
    built = build_options(found, (*ranking.top, *ranking.pareto[:MOST_PARETO]), num_full=len(ranking.top))
    options = with_reasons(found, built[: len(ranking.top)])
    sections = money_parts(found, options, ranking.top, catalog or default_catalog())
    return dataclasses.replace(answer(found, options, built[len(ranking.top) :]), sections=sections)


def money_parts(found: Exploration, options: tuple[Option, ...], rows: Sequence[Row], catalog: Catalog) -> tuple[Section, ...]:
    """How to buy the best server, and every line of its bill."""
    if not options:
        return ()
    from rightfit.search.bill_part import bill_section, buy_section

    return buy_section(found, options[0], rows[0], catalog), bill_section(found, options[0], rows[0], catalog)


def search(workload: Workload, *, catalog: Catalog | None = None) -> Exploration:
    """Everything that the market offers for a workload, judged and priced."""
    wish = read_wish(workload)
    catalog = catalog or default_catalog()
    return explore(wish, open_market(catalog), read_wanted(workload, catalog))


def answer(found: Exploration, options: tuple[Option, ...], pareto: tuple[Option, ...]) -> Plan:
    """The plan from its parts."""
    return Plan(
        workload=found.wish.workload,
        assumptions=assumptions(found),
        options=options,
        pareto=pareto,
        rejected=rejections(found),
        advice=advise(found, options),
        catalog={"as_of": dict(found.market.as_of)},
        counts=counts(found),
        blame=() if options else minimal_blame(found.bits),
    )


def assumptions(found: Exploration) -> tuple[Assumption, ...]:
    """Defaults taken while reading the workload, and those of the market."""
    taken = list(found.wish.assumptions)
    if not found.wish.workload.purchase:
        value = ", ".join(DEFAULT_PURCHASES)
        taken.append(Assumption("purchase", value, Reason("assumed_purchase", {"value": value})))
    if not found.wanted.gpus and not found.wanted.any_software:
        value = listed_stacks()
        taken.append(Assumption("gpu", value, Reason("assumed_software", {"value": value})))
    if not found.wish.workload.precision:
        value = ", ".join(dict.fromkeys(variant.precision for variant in found.fleet.machines.variants))
        taken.append(Assumption("precision", value, Reason("assumed_precision", {"value": value})))
    return tuple(taken)


def counts(found: Exploration) -> Counts:
    """How much was looked at."""
    offers, space, machines = found.market.offers, found.space, found.fleet.machines
    server = found.fleet.machine_index[offers.server_index]
    block = space.block(machines.variant, machines.gpus_per_node)
    per_machine = space.counts[block]
    return Counts(
        candidates=found.best.num_candidates,
        timed=found.best.num_timed,
        offers=len(offers),
        servers=int((found.fleet.machine_index >= 0).sum()),
        covered=int(per_machine[server[server >= 0]].sum()),
    )
