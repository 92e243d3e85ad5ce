"""`plan`: a workload in, a ranked, priced plan out, with everything that explains it as data."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import ContradictionError, RightfitError
from rightfit.facts import bundled, tables
from rightfit.facts.bundled import exact_names
from rightfit.facts.resolve import hub_repository, is_relative, resolve_offline, usual_model
from rightfit.families.registry import settled
from rightfit.market.offers import PURCHASES
from rightfit.messages import Message
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search.advice import (
    SELLER,
    near_deadline,
    only_sellers_refuse,
    quicker_section,
    seller_section,
    several_section,
    unpriced,
    widened,
    widened_assumption,
    with_a_sequence_each,
    with_market_warnings,
)
from rightfit.search.answer import Assumption, Option, Plan, Reason, makeshifts_last
from rightfit.search.confirm import assumed_confidence, confirmed, dearer_but_certain, energy_sections, options_of
from rightfit.search.constraints import SearchResult, minimal_blame
from rightfit.search.family import Beside, Family
from rightfit.search.rank import Ranking, Row, pareto_front, score_of, with_below, with_rule
from rightfit.search.refusals import rejections, rounded_up

if TYPE_CHECKING:
    from rightfit.facts import TransformerArchitecture
    from rightfit.market import Catalog
    from rightfit.workload import Workload

#: Options of a plan where the user does not say.
TOP = 10


@functools.cache
def default_catalog() -> Catalog:
    """The catalog of this process, opened once, with the price book of the environment."""
    from rightfit.search.offers import open_priced

    return open_priced()


def plan(workload: Workload, *, catalog: Catalog | None = None, top: int = TOP, simulate: bool = False) -> Plan:
    """Rank every way to rent and lay out the workload; `simulate`: play the options of a service
    through by simulation as well.

    A wish that nothing can fulfil gives a Plan without options whose `rejected`, `blame` and
    `advice` say why and what would help. Raises InputError for what cannot be understood and
    UnavailableError for tasks of later versions.
    """
    catalog = catalog or default_catalog()
    family, workload = settled(workload)
    if simulate:
        refuse_simulation(family, workload)
    return _answered(family, workload, catalog, *explored(family, workload, catalog), top=top, simulate=simulate)


def _answered(
    family: Family[Any], workload: Workload, catalog: Catalog, found: Any, more: tuple[Assumption, ...], *, top: int, simulate: bool = False
) -> Plan:
    """The plan of what was explored."""
    found, ranking = confirmed(family, found, top)
    front = front_with_best(family.front(ranking.pareto), ranking)
    built = options_of(family, found, (*ranking.top, *front), len(ranking.top))
    ranked = with_below(built[: len(ranking.top)], found, ranking.top)
    options, points = with_market_warnings(family.reasons(found, ranked), found), built[len(ranking.top) :]
    options, by_sense = with_rule(options, found, (ranking.top[0].offer, ranking.top[0].node)) if options else (options, ())
    if simulate and family.simulate is not None:
        options = family.simulate(found, options, ranking.top)
    beside = family.beside(found, options, ranking.top, catalog)
    money = family.money(found, options[0], ranking.top[0], catalog) if options else ()
    room = family.room(found, options[0], ranking.top[0]) if options else ()
    made = (
        several_section(found, options),
        seller_section(found, options),
        quicker_section(found, options, points),
        near_deadline(found, options),
    )
    others = [section for section in made if section]
    whole = answer(family, found, options, points, Beside(beside.advice, (*others, *beside.sections, *money, *room)))
    instead = (
        ()
        if options
        else (
            *_of_named_cards(workload, catalog, whole.advice),
            *waiting_instead(family, found, whole.advice, catalog),
            *api_instead(workload, catalog),
        )
    )
    whole = dataclasses.replace(whole, options=makeshifts_last(whole.options))
    return dataclasses.replace(
        whole, assumptions=(*whole.assumptions, *more, *by_sense), advice=(*instead, *whole.advice, *unpriced(found))
    )


def _of_named_cards(workload: Workload, catalog: Catalog, advice: Sequence[Reason]) -> tuple[Reason, ...]:
    """What the accelerators that were named lack of memory, whether anybody rents them or not, and
    what a lighter way to fine-tune would rent; nothing where they probably hold it."""
    if len(workload.gpu) != 1 or not workload.num_gpus or any(one.key == "likely_fits" for one in advice):
        return ()
    from rightfit.planner.too_small import lacking_memory, lighter_rented
    from rightfit.search.ownership import read_machine

    try:
        machine = read_machine(f"{workload.num_gpus}x{workload.gpu[0]}")
    except RightfitError:  # no one card
        return ()
    lacking = lacking_memory(machine, workload, catalog, search)
    free = workload.with_changes(gpu=(), num_gpus=None)
    return (lacking, *lighter_rented(free, lambda wish: plan(wish, catalog=catalog, top=1))) if lacking else ()


def front_with_best(front: Sequence[Row], ranking: Ranking) -> list[Row]:
    """Points of the front with the best row among them, where it is on the front: in place of the
    nearest one, its ends kept."""
    shown, places = list(front), {(row.offer, row.node): at for at, row in enumerate(ranking.pareto)}
    best = places.get((ranking.top[0].offer, ranking.top[0].node)) if ranking.top else None
    at = [places[row.offer, row.node] for row in shown]
    if best is None or best in at or not shown:
        return shown
    inner = range(1, len(shown) - 1) or range(len(shown))
    shown[min(inner, key=lambda one: abs(at[one] - best))] = ranking.pareto[best]
    return shown


def assumed_model(workload: Workload) -> tuple[Assumption, ...]:
    """Which model is taken where the name means several; whose shape is counted with where the
    checkpoint is another than the record."""
    asked = workload.model or ""
    if usual := usual_model(asked):
        key = "assumed_relative_model" if is_relative(asked) else "assumed_usual_model"
        return (Assumption("model", usual, Reason(key, {"asked": asked, "value": usual})),)
    found = resolve_offline(asked)
    repository = hub_repository(asked, found)
    if found is None or not repository:
        return ()
    if repository == found.record.name:
        is_more = found.how == "spelling" and _letters(asked) != _letters(repository)
        return (Assumption("model", repository, Reason("assumed_name_meant", {"asked": asked, "value": repository})),) if is_more else ()
    key = "assumed_shape_by_name" if found.how == "spelling" and repository.casefold() not in exact_names() else "assumed_shape_lent"
    return (Assumption("model", repository, Reason(key, {"value": repository, "record": found.record.name})),)


def _letters(name: str) -> str:
    """Letters and digits of a model's name without its owner, however it is spelled."""
    return "".join(filter(str.isalnum, name.rpartition("/")[2].casefold()))


def assumptions_of(family: Family[Any], found: SearchResult) -> tuple[Assumption, ...]:
    """Everything that was taken without being said."""
    return (*assumed_model(found.workload), *assumed_month(found.workload), *family.assumptions(found), *assumed_confidence(found))


def assumed_month(workload: Workload) -> tuple[Assumption, ...]:
    """That a budget of a service is one of a month, where nobody said of what."""
    if workload.budget_usd is None or not workload.budget_per_month or "budget_per_month" not in workload.assumed:
        return ()
    return (Assumption("budget", workload.budget or "", Reason("assumed_budget_month", {"total_usd": workload.budget_usd})),)


def api_instead(workload: Workload, catalog: Catalog) -> tuple[Reason, ...]:
    """That an API carries a service within the month's budget where no server does: its price, from
    the plan without the budget."""
    if workload.task != "serve" or workload.budget_usd is None:
        return ()
    rich = plan(workload.with_changes(budget_usd=None, budget=None, budget_per_month=False, confidence=None), catalog=catalog, top=1)
    reasons = [reason for section in rich.sections if section.name == "api" for reason in section.reasons]
    within = [one for one in reasons if float(one.params.get("api_usd", float("inf"))) <= workload.budget_usd]
    return tuple(Reason("serve_api_within", one.params) for one in within[:1])


#: How many times as long as assumed the users of a service may wait: what is planned for where
#: nothing keeps an assumed limit, and what is only named as a way out.
WAIT, LONGER_WAITS = 2.0, (4.0, 8.0)
#: Criteria that more servers or faster ones would meet, which a longer wait makes needless.
OF_SIZE = frozenset({"gpu", "num_gpus", "max_nodes", "budget", "quota", "stock", "throughput"})


def assumed_limits(family: Family[Any], refused: Any) -> dict[str, float]:
    """The latency limits [s] that nobody stated, of a search of a service that found nothing for
    want of size; empty for others."""
    if refused.workload.task != "serve" or not {name for group in minimal_blame(refused.bits) for name in group} & OF_SIZE:
        return {}
    from rightfit.search.service.wish import LATENCY_LIMITS

    return {one.field: float(one.value) for one in family.assumptions(refused) if one.field in LATENCY_LIMITS}


def waited(workload: Workload, limits: dict[str, float], wait: float) -> Workload:
    """The request with some assumed limits that many times as long."""
    return workload.with_changes(**{name: f"{rounded_up(limit_s * wait):g}s" for name, limit_s in limits.items()})


def waiting(family: Family[Any], refused: Any, workload: Workload, catalog: Catalog) -> tuple[Any, tuple[Assumption, ...]] | None:
    """The search with one assumed limit of latency twice as long, where that is all that refuses:
    what nobody asked for refuses nothing. None where it does not help."""
    for name, limit_s in assumed_limits(family, refused).items():
        longer = waited(workload, {name: limit_s}, WAIT)
        found = family.explore(longer, catalog)
        if bool((found.bits == 0).any()):
            now_s = float(getattr(longer, f"{name}_s"))
            told = Reason("assumed_serve_wait", {"value": now_s, "usual_s": limit_s, "option": name})
            return found, (Assumption(name, now_s, told),)
    return None


def waiting_instead(family: Family[Any], refused: Any, told: tuple[Reason, ...], catalog: Catalog) -> tuple[Reason, ...]:
    """The assumed limit of a latency without which a service that nothing does could be done, with
    what it gives then: it decides as much as what was asked for."""
    limits, workload = assumed_limits(family, refused), refused.workload
    if not limits or any(reason.key == "serve_change_assumed" for reason in told):
        return ()
    if len(limits) > 1 and not bool((family.explore(waited(workload, limits, LONGER_WAITS[-1]), catalog).bits == 0).any()):
        return ()  # one look where no wait helps
    for name, limit_s in limits.items():
        for wait in LONGER_WAITS:
            longer = waited(workload, {name: limit_s}, wait)
            there, more = explored(family, longer, catalog)
            if bool((there.bits == 0).any()) and (best := _answered(family, longer, catalog, there, more, top=1).best):
                limit = {"metric": name, "option": name, "usual_s": limit_s, "limit_s": getattr(longer, f"{name}_s")}
                effect = {each: getattr(best, each) for each in ("provider", "instance_type", "nodes", "purchase")}
                return (Reason("serve_wait_assumed", {**limit, **effect, "monthly_usd": best.cost.total_usd}),)
    return ()


def explored(family: Family[Any], workload: Workload, catalog: Catalog) -> tuple[Any, tuple[Assumption, ...]]:
    """The search over the sellers that are taken; over all where nobody said which and only the
    others can do it, with a larger batch where nobody said one and only that can be split, which is
    assumed aloud; with a longer wait where only a limit that nobody stated refuses."""
    found = family.explore(workload, catalog)
    if not bool((found.bits == 0).any()) and (larger := with_a_sequence_each(workload, family.name)):
        split = family.explore(larger, catalog)
        if bool((split.bits == 0).any()):
            return split, ()
    wider = widened(workload) if only_sellers_refuse(found) else None
    if wider:
        return family.explore(wider, catalog), (widened_assumption(),)
    if bool((found.bits == 0).any()):
        return found, ()
    is_open = workload.method == "lora" and "method" in workload.assumed  # nobody said how to tune
    if is_open and workload.gpu and family.name == "language":
        few_bits, more = explored(family, workload.with_changes(method="qlora"), catalog)
        told = Assumption("method", "qlora", Reason("assumed_by_qlora", {}))
        return (few_bits, (told, *more)) if bool((few_bits.bits == 0).any()) else (found, ())
    if workload.task != "serve":
        return found, ()
    # The quick law of a service may refuse by any limit what its queue does not.
    wider = widened(workload) if bool(np.any(found.bits & SELLER)) else None
    wide = family.explore(wider, catalog) if wider else found
    if bool((wide.bits == 0).any()):
        return wide, (widened_assumption(),)
    later = waiting(family, found, workload, catalog)
    return later or (wide, (widened_assumption(),) if wider else ())  # the least change may be another seller's


def refuse_simulation(family: Family[Any], workload: Workload) -> None:
    """Simulation is for services."""
    if family.simulate is None:
        what = f"model {workload.model}" if family.is_service else f"task {workload.task}"
        raise ContradictionError(Message("planner.simulate", what=what), field="simulate")


def search(workload: Workload, *, catalog: Catalog | None = None) -> Any:
    """Everything that the market offers for a workload, judged and priced."""
    family, workload = settled(workload)
    return family.explore(workload, catalog or default_catalog())


def answer(
    family: Family[Any], search_result: SearchResult, options: tuple[Option, ...], points: tuple[Option, ...], beside: Beside
) -> Plan:
    """The plan from its parts."""
    return Plan(
        workload=search_result.workload,
        assumptions=assumptions_of(family, search_result),
        options=options,
        pareto=points,
        rejected=rejections(search_result),
        advice=(*dearer_but_certain(search_result, options[0] if options else None), *beside.advice),
        catalog={"as_of": dict(search_result.market.as_of)},
        counts=family.counts(search_result),
        blame=() if options else minimal_blame(search_result.bits),
        sections=(*beside.sections, *energy_sections(options)),
    )


# ---- Everything feasible that one search found, as arrays: the points of a chart of cost against
# time, one for each offer at its best.

Index = NDArray[np.intp]
MOST_POINTS = 4000


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """Feasible offers (server x region x way to pay), each with the number of servers that
    suits the objective best, and also with any other number that nothing beats; row i of every
    column is one.

    `nodes` [servers], `hourly_usd` [USD/h, all servers], `total_usd` [USD; a month's for a
    service], `total_s` [s; of a request for a service].
    `is_front`: nothing beats it in both money and time. `num_feasible`: how many there were before
    the least promising were left out.
    """

    provider: tuple[str, ...]
    instance_type: tuple[str, ...]
    region: tuple[str, ...]
    purchase: tuple[str, ...]
    accelerator: tuple[str, ...]
    accelerators_per_node: Array
    nodes: Array
    hourly_usd: Array
    total_usd: Array
    total_s: Array
    is_front: NDArray[np.bool_]
    num_feasible: int

    def __len__(self) -> int:
        return len(self.provider)


def market_field(workload: Workload, *, catalog: Catalog | None = None, most: int = MOST_POINTS) -> Field:
    """Every feasible offer for a workload, at most `most`: then each server and way to pay at its
    cheapest place first. Figures are those of the search; the ranked options of a plan are worked
    out further."""
    found = search(workload, catalog=catalog)
    offer, column = _best_columns(found)
    kept = _most_telling(found, offer, column, most=most)
    return _field(found, offer[kept], column[kept], num_feasible=offer.shape[0])


def _best_columns(search_result: SearchResult) -> tuple[Index, Index]:
    """Of each offer the column of the best score, and every row that nothing beats in
    both money and time."""
    feasible = search_result.bits == 0
    offer, column = np.nonzero(feasible)
    if offer.shape[0] == 0:
        return offer, column
    score = np.full(feasible.shape, np.inf)
    score[offer, column] = score_of(search_result, offer, column)
    rows = np.flatnonzero(feasible.any(axis=1))
    chosen = np.zeros(feasible.shape, dtype=np.bool_)
    chosen[rows, np.argmin(score[rows], axis=1)] = True
    front = pareto_front(search_result.bill.total_usd[offer, column], search_result.bill.total_s[offer, column])
    chosen[offer[front], column[front]] = True
    kept = np.nonzero(chosen)
    return kept[0].astype(np.intp), kept[1].astype(np.intp)


def _most_telling(search_result: SearchResult, offer: Index, column: Index, *, most: int) -> Index:
    """Positions of at most `most` rows: the cheapest place of each server and way to pay, then the
    cheapest of the rest."""
    if offer.shape[0] <= most:
        return np.arange(offer.shape[0], dtype=np.intp)
    usd, offers = search_result.bill.total_usd[offer, column], search_result.market.offers
    order = np.argsort(usd, kind="stable")
    kind = offers.server_index[offer[order]].astype(np.intp) * len(PURCHASES) + offers.purchase_index[offer[order]]
    first = np.zeros(order.shape[0], dtype=np.bool_)
    first[np.unique(kind, return_index=True)[1]] = True
    first |= np.isin(order, pareto_front(usd, search_result.bill.total_s[offer, column]))
    return np.sort(np.concatenate([order[first], order[~first]])[:most])


def _field(search_result: SearchResult, offer: Index, column: Index, *, num_feasible: int) -> Field:
    offers, servers = search_result.market.offers, search_result.market.offers.servers
    rows = offers.server_index[offer]
    nodes = np.array([search_result.nodes(at) for at in zip(offer.tolist(), column.tolist(), strict=True)], dtype=np.float64)
    usd, seconds = search_result.bill.total_usd[offer, column], search_result.bill.total_s[offer, column]
    is_front = np.zeros(offer.shape[0], dtype=np.bool_)
    if offer.shape[0]:
        is_front[pareto_front(usd, seconds)] = True
    return Field(
        provider=tuple(servers.provider[row] for row in rows.tolist()),
        instance_type=tuple(servers.instance_type[row] for row in rows.tolist()),
        region=tuple(offers.regions[row] for row in offers.region_index[offer].tolist()),
        purchase=tuple(PURCHASES[code] for code in offers.purchase_index[offer].tolist()),
        accelerator=tuple(servers.accelerator_name[row] for row in rows.tolist()),
        accelerators_per_node=servers.num_accelerators[rows],
        nodes=nodes,
        hourly_usd=offers.price_usd_per_h[offer] * nodes,
        total_usd=usd,
        total_s=seconds,
        is_front=is_front,
        num_feasible=num_feasible,
    )


# ---- A stronger and a cheaper model of the same family, each planned for the same wish (`plan
# --alternatives`). Models of one family differ in size only: the larger one is the stronger one.

_SIZE = re.compile(r"(?i)(?<![a-z0-9.])[ae]?\d+(?:[._]\d+)?[bmt](?![a-z0-9])")  # 8B, A3B of experts, E4B of Gemma


@dataclass(frozen=True, slots=True)
class Alternative:
    """A model beside the asked one, what it is to that ("stronger", "cheaper"), and its plan."""

    role: str
    model: TransformerArchitecture
    plan: Plan


def family_of(name: str) -> tuple[str, ...]:
    """Words of a model's name without its size and its stage: (qwen, 3) of Qwen/Qwen3-8B."""
    return tables.without_noise(tables.tokens(_SIZE.sub(" ", tables.base_name(name)) + " 1b"))[:-1]


def relatives(model: str) -> dict[str, TransformerArchitecture]:
    """The next larger and the next smaller model of a family by role; empty for a model without
    sizes. A mixture of experts counts by all and by its active parameters."""
    found = facts.resolve_offline(model)
    own = found.record if found else None
    if not isinstance(own, facts.TransformerArchitecture) or not any(
        _SIZE.fullmatch(word) for word in tables.tokens(tables.base_name(own.name))
    ):
        return {}
    family = family_of(own.name)
    others = [
        bundled.load(entry)
        for entry in bundled.index()
        if entry.family == "transformer" and entry.name != own.name and family_of(entry.name) == family
    ]
    sizes = [(one.params_total, one.params_active, one) for one in others if isinstance(one, facts.TransformerArchitecture)]
    total, active = own.params_total, own.params_active
    larger = [one for one in sizes if one[0] > total and one[1] >= active]
    smaller = [one for one in sizes if one[0] < total and one[1] <= active]
    chosen = {
        "stronger": min(larger, key=lambda one: one[:2], default=None),
        "cheaper": max(smaller, key=lambda one: one[:2], default=None),
    }
    return {role: one[2] for role, one in chosen.items() if one}


def alternatives(plan: Plan, planned: Callable[[Any], Plan]) -> list[Alternative]:
    """The relatives of a plan's model, each as `planned` answers the same wish for it; one that
    nothing carries is left out."""
    found = []
    for role, model in relatives(plan.workload.model or "").items():
        try:
            answer = planned(plan.workload.with_changes(model=model.name))
        except RightfitError:  # such as a prompt longer than its context
            continue
        if answer.best is not None:
            found.append(Alternative(role, model, answer))
    return found
