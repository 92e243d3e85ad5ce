"""`plan`: a workload in, a ranked, priced plan out, with everything that explains it as data."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from rightfit.errors import ContradictionError
from rightfit.facts.architectures import exact_names
from rightfit.facts.resolve import hub_repository, resolve_offline, usual_model
from rightfit.families.registry import settled
from rightfit.messages import Message
from rightfit.search.answer import Assumption, Option, Plan, Reason
from rightfit.search.confirm import assumed_confidence, confirmed, dearer_but_certain, options_of
from rightfit.search.constraints import minimal_blame
from rightfit.search.energy import energy_sections
from rightfit.search.family import Beside, Family
from rightfit.search.found import Found
from rightfit.search.mainland import unpriced
from rightfit.search.refusals import rejections
from rightfit.search.several import several_section
from rightfit.search.trust import only_sellers_refuse, seller_section, widened, widened_assumption, with_market_warnings

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload

#: Options of a plan where the user does not say.
TOP = 10


@functools.cache
def default_catalog() -> Catalog:
    """The catalog of this process, opened once, with the price book of the environment."""
    from rightfit.search.priced import open_priced

    return open_priced()


def plan(workload: Workload, *, catalog: Catalog | None = None, top: int = TOP, simulate: bool = False) -> Plan:
    """Rank every way to rent and lay out the workload; `simulate`: play the options of a service through by simulation as well.

    A wish that nothing can fulfil gives a Plan without options whose `rejected`, `blame` and `advice` say why and what would help. Raises
    InputError for what cannot be understood and UnavailableError for tasks of later versions.
    """
    catalog = catalog or default_catalog()
    family, workload = settled(workload)
    if simulate:
        refuse_simulation(family, workload)
    found, more = explored(family, workload, catalog)
    found, ranking = confirmed(family, found, top)
    front = family.front(ranking.pareto)
    built = options_of(family, found, (*ranking.top, *front), len(ranking.top))
    options, points = with_market_warnings(family.reasons(found, built[: len(ranking.top)]), found), built[len(ranking.top) :]
    if simulate and family.simulate is not None:
        options = family.simulate(found, options, ranking.top)
    beside = family.beside(found, options, ranking.top, catalog)
    money = family.money(found, options[0], ranking.top[0], catalog) if options else ()
    room = family.room(found, options[0], ranking.top[0]) if options else ()
    others = [section for section in (several_section(found, options), seller_section(found, options)) if section]
    whole = answer(family, found, options, points, Beside(beside.advice, (*others, *beside.sections, *money, *room)))
    instead = () if options else api_instead(workload, catalog)
    return dataclasses.replace(whole, assumptions=(*whole.assumptions, *more), advice=(*instead, *whole.advice, *unpriced(found)))


def assumed_model(workload: Workload) -> tuple[Assumption, ...]:
    """Which model is taken where the name means several; whose shape is counted with where the checkpoint is another than the record."""
    asked = workload.model or ""
    if usual := usual_model(asked):
        return (Assumption("model", usual, Reason("assumed_usual_model", {"asked": asked, "value": usual})),)
    found = resolve_offline(asked)
    repository = hub_repository(asked, found)
    if found is None or not repository or repository == found.record.name:
        return ()
    key = "assumed_shape_by_name" if found.how == "spelling" and repository.casefold() not in exact_names() else "assumed_shape_lent"
    return (Assumption("model", repository, Reason(key, {"value": repository, "record": found.record.name})),)


def assumptions_of(family: Family[Any], found: Found) -> tuple[Assumption, ...]:
    """Everything that was taken without being said."""
    return (*assumed_model(found.workload), *family.assumptions(found), *assumed_confidence(found))


def api_instead(workload: Workload, catalog: Catalog) -> tuple[Reason, ...]:
    """That an API carries a service within the month's budget where no server does: its price, from the plan without the budget."""
    if workload.task != "serve" or workload.budget_usd is None:
        return ()
    rich = plan(workload.with_changes(budget_usd=None, budget=None, budget_per_month=False, confidence=None), catalog=catalog, top=1)
    reasons = [reason for section in rich.sections if section.name == "api" for reason in section.reasons]
    within = [one for one in reasons if float(one.params.get("api_usd", float("inf"))) <= workload.budget_usd]
    return tuple(Reason("serve_api_within", one.params) for one in within[:1])


def explored(family: Family[Any], workload: Workload, catalog: Catalog) -> tuple[Any, tuple[Assumption, ...]]:
    """The search over the sellers that are taken; over all where nobody said which and only the others can do it, which is assumed aloud."""
    found = family.explore(workload, catalog)
    wider = widened(workload) if only_sellers_refuse(found) else None
    return (family.explore(wider, catalog), (widened_assumption(),)) if wider else (found, ())


def refuse_simulation(family: Family[Any], workload: Workload) -> None:
    """Simulation is for services."""
    if family.simulate is None:
        what = f"model {workload.model}" if family.is_service else f"task {workload.task}"
        raise ContradictionError(Message("planner.simulate", what=what), field="simulate")


def search(workload: Workload, *, catalog: Catalog | None = None) -> Any:
    """Everything that the market offers for a workload, judged and priced."""
    family, workload = settled(workload)
    return family.explore(workload, catalog or default_catalog())


def answer(family: Family[Any], exploration: Found, options: tuple[Option, ...], points: tuple[Option, ...], beside: Beside) -> Plan:
    """The plan from its parts."""
    return Plan(
        workload=exploration.workload,
        assumptions=assumptions_of(family, exploration),
        options=options,
        pareto=points,
        rejected=rejections(exploration),
        advice=(*dearer_but_certain(exploration, options[0] if options else None), *beside.advice),
        catalog={"as_of": dict(exploration.market.as_of)},
        counts=family.counts(exploration),
        blame=() if options else minimal_blame(exploration.bits),
        sections=(*beside.sections, *energy_sections(options)),
    )
