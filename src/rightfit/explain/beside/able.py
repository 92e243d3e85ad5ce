"""Whether it can be done: yes or no with what it takes, and what does it where the GPUs that are
named cannot."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.beside.in_words import offload_words, usd, way_text
from rightfit.explain.beside.questions import worded
from rightfit.facts.tables import says
from rightfit.market.offers import OfferFilter
from rightfit.messages import Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Option, Plan, Reason
    from rightfit.workload import Workload


#: A limit that holds with at least this probability is kept.
_SURE = 0.9
#: The least probability that `--confidence` takes: the middle estimate keeps the limit.
_LEAST_SURE = "50%"


#: Criteria of what is sold, which say nothing of what the cards can do.
_OFFERING = frozenset({"status", "cloud", "region", "country", "gpu", "purchase", "num_gpus", "seller", "software", "max_nodes", "quota"})


def able_lines(plan: Plan, lang: Lang, catalog: Catalog) -> list[str]:
    """Yes or no to "can it be done", with the time; where hardware, a deadline or a budget was
    named, without which anything can be done."""
    from rightfit.explain.sheets import OWN_REFUSED

    wish, best = plan.workload, plan.best
    if best is None:
        over = next((reason.params for reason in plan.advice if reason.key.endswith("change_budget")), None)
        if over is not None:  # whatever else is in the way, the money is not enough
            return [worded("able_over_budget", lang, money=usd(float(over["budget_usd"])), period=_period(wish, lang))]
        assumed = assumed_limit(plan)
        if assumed is None:
            is_missing = all(one.criterion in _OFFERING for one in plan.rejected) and not _is_offered(wish, catalog)
            return [_unrented(plan, catalog, lang) or worded("able_not_offered" if is_missing else "able_no", lang)]
        limit = q.duration_text(float(assumed["limit_s"]), lang)  # it runs, slower than a limit that nobody asked for
        return [worded("able_slow", lang, limit=limit, option=assumed["option"])]
    if refused := next((reason for reason in plan.advice if reason.key in OWN_REFUSED), None):
        key = "able_card" if refused.key.startswith("card_") else "able_rented"
        return [worded(key, lang, way=way_text(best, lang), machine=refused.params.get("machine", ""))]
    chances = [chance for name in ("deadline", "budget") if (chance := best.probability.get(name)) is not None]
    if best.purchase != "owned" and not chances and not wish.gpu and wish.num_gpus is None:
        return []
    chance = min(chances, default=1.0)
    lean = _by_pieces(plan, best, catalog)
    way = way_text(best, lang) + (_lean_text(lean, lang) if lean is not None else offload_words(best, lang))
    return [worded("able_likely" if chance < _SURE else "able_yes", lang, way=way, chance=q.percent_text(chance))]


def _period(wish: Workload, lang: Lang) -> str:
    return worded("a_month", lang) if wish.task == "serve" else ""


#: A stack that computes the loss in pieces, so that the logits are never stored whole.
_BY_PIECES = "unsloth"


def _by_pieces(plan: Plan, best: Option, catalog: Catalog) -> Option | None:
    """Fine-tuning by adapters on the same GPUs without what the host lends, by a stack that stores
    no logits; None where nobody needs it, a stack is named, or it does not do it either."""
    from rightfit.planner.plan import plan as plan_again
    from rightfit.search.ownership import PLACE_WORDS, read_machine, with_machine

    wish = plan.workload
    is_offloaded = getattr(best.layout, "offload", "none") not in ("", "none")
    if not is_offloaded or wish.method not in ("lora", "qlora") or wish.framework:
        return None
    if best.purchase == "owned":
        place = f"@{best.region}" if best.region in PLACE_WORDS.values() else ""
        catalog = with_machine(catalog, read_machine(f"{best.num_accelerators}x{best.accelerator.name}{place}"))
    try:
        found = plan_again(wish.with_changes(framework=_BY_PIECES), catalog=catalog, top=1).best
    except RightfitError:
        return None
    is_same = found is not None and (found.provider, found.instance_type) == (best.provider, best.instance_type)
    return found if is_same and found is not None and found.layout.offload in ("", "none") else None


def _lean_text(lean: Option, lang: Lang) -> str:
    fields = {"time": q.duration_text(lean.estimate["total_time_s"].mid, lang), "framework": _BY_PIECES}
    return worded("lean", lang, memory=q.memory_text(lean.estimate["peak_memory_bytes"].mid), **fields)


def _is_offered(wish: Workload, catalog: Catalog) -> bool:
    """Whether anybody rents a server with the cards that are named, in their number."""
    if not (cards := _cards_named(wish)) or wish.num_gpus is None:
        return False
    offers = catalog.offers(OfferFilter(gpus=cards))
    return bool((offers.servers.num_accelerators[offers.server_index] == wish.num_gpus).any())


def unrented_machine(wish: Workload, catalog: Catalog) -> str:
    """The machine of the cards that a wish names, where no cloud rents any of them; else ""."""
    cards = _cards_named(wish)
    return "" if not cards or len(catalog.offers(OfferFilter(gpus=cards))) else f"{wish.num_gpus or 1}x{cards[-1]}"


def _cards_named(wish: Workload) -> tuple[str, ...]:
    return tuple(card for name in wish.gpu for card in facts.match_accelerators(name))


def within_unsaid(
    plan: Plan, catalog: Catalog, lang: Lang, *, again: Callable[..., Plan], is_asked: bool = False, **asked: Any
) -> tuple[Plan, list[str]]:
    """Where nothing does what a sentence asks: the plan on a machine of one's own, or within a
    longer wait where only a limit that nobody stated is in the way; and what is said of that.
    `is_asked`: the sentence asks whether its GPUs do it, so that where they do not the plan goes
    on with what does."""
    if plan.best is not None:
        return _within_patience(plan, catalog, lang, again=again, **asked)
    own, told = on_unrented(plan, catalog, lang, again=again, **asked)
    assumed = assumed_limit(plan)
    if own.best is not None or assumed is None:
        return (own, told) if own.best is not None or not is_asked else (_beyond_cards(plan, catalog, again=again, **asked), [])
    fields = {name: q.duration_text(float(assumed[name]), lang) for name in ("limit_s", "usual_s") if name in assumed}
    longer = again(plan.workload.with_changes(**{assumed["option"]: f"{float(assumed['limit_s']):g}s"}), catalog=catalog, **asked)
    if longer.best is None:
        return plan, []
    return longer, [
        worded("waited", lang, metric=worded(f"waited_{assumed['option']}", lang), option=assumed["option"], limit=fields["limit_s"])
    ]


def less_certain(plan: Plan, lang: Lang, *, again: Callable[[Workload], Plan]) -> tuple[Plan, list[str]]:
    """Where no server keeps a deadline and a budget as surely as is usual and nobody said how sure:
    what keeps them by its middle estimate; and what is said of that."""
    wish = plan.workload
    if plan.best is not None or wish.confidence or not (wish.deadline_s or wish.budget_usd):
        return plan, []
    found = again(wish.with_changes(confidence=_LEAST_SURE))
    if found.best is None:
        return plan, []
    chance = min((one for name in ("deadline", "budget") if (one := found.best.probability.get(name)) is not None), default=1.0)
    return found, [worded("less_certain", lang, sure=q.percent_text(_SURE), chance=q.percent_text(chance))]


def is_private(sentence: str) -> bool:
    """Whether a model must run where nobody else computes: no API is held against it."""
    return says("quantities", "kept_private", sentence, ignore_case=True)


def without_api(plan: Plan) -> Plan:
    """A plan that is not compared with an API."""
    return dataclasses.replace(plan, sections=tuple(one for one in plan.sections if one.name != "api"))


def _within_patience(plan: Plan, catalog: Catalog, lang: Lang, *, again: Callable[..., Plan], **asked: Any) -> tuple[Plan, list[str]]:
    """A run of years that is cheapest where nobody set a deadline, as one that somebody waits
    for, where more servers do it."""
    time = plan.best.estimate.get("total_time_s") if plan.best else None
    figures = facts.coefficients("planning")
    if plan.best is None or plan.workload.deadline_s is not None or time is None or time.mid <= figures["longest_run_days"] * 86_400.0:
        return plan, []
    for days in (figures["usual_run_days"], figures["longest_run_days"]):
        sooner = again(plan.workload.with_changes(deadline=f"{days:g} days"), catalog=catalog, **asked)
        if sooner.best is not None:
            return sooner, [worded("sooner", lang, days=f"{days:g}", way=way_text(plan.best, lang))]
    return plan, []


def _beyond_cards(plan: Plan, catalog: Catalog, *, again: Callable[..., Plan], **asked: Any) -> Plan:
    """The plan without the GPUs that are named, and why these do not do it; the plan itself where
    no other GPU does it either."""
    from rightfit.planner.cards import plan_on_own

    wish = plan.workload
    if not (cards := _cards_named(wish)):
        return plan
    try:
        machine = f"{wish.num_gpus or 1}x{cards[-1]}"
        free = plan_on_own(wish.with_changes(gpu=(), num_gpus=None, max_nodes=None), machine, again, catalog, **asked)
    except RightfitError:
        return plan
    if free.best is None or free.best.purchase == "owned":
        return plan
    advice = tuple(_of_card(reason) for reason in free.advice if reason.key != "own_by_lighter")
    return dataclasses.replace(free, advice=advice, assumptions=tuple(one for one in free.assumptions if one.field != "have"))


def _of_card(reason: Reason) -> Reason:
    """The refusal of a machine as that of a GPU that is asked about."""
    return dataclasses.replace(reason, key=f"card_{reason.key.removeprefix('own_')}") if reason.key.startswith("own_") else reason


def assumed_limit(plan: Plan) -> Mapping[str, Any] | None:
    """The latency that nobody stated and that keeps all servers out: what would let one pass."""
    return next((reason.params for reason in plan.advice if reason.key in ("serve_change_assumed", "serve_wait_assumed")), None)


def on_unrented(plan: Plan, catalog: Catalog, lang: Lang, *, again: Callable[..., Plan], **asked: Any) -> tuple[Plan, list[str]]:
    """The plan on a machine of one's own with the cards that a wish names, where no cloud rents
    them, or games' cards in this number for this job, and the machine does it; and what is said of
    that. `again` plans."""
    from rightfit.planner.cards import plan_on_own

    wish = plan.workload
    if plan.best is not None:
        return plan, []
    machine, key = unrented_machine(wish, catalog), "unrented_planned"
    if not machine and wish.num_gpus and (cards := _cards_named(wish)) and all(says("setup", "geforce", card) for card in cards):
        machine, key = f"{wish.num_gpus}x{cards[-1]}", "rented_not_planned"  # cards that people own
    servers, number = wish.max_nodes or 1, wish.num_gpus or 0
    if servers > 1 and number > servers and number % servers == 0 and _cards_named(wish):  # a machine of one's own is one server
        machine, key = f"{number // servers}x{_cards_named(wish)[-1]}", "unrented_one_of"
    if not machine:
        return plan, []
    try:
        own = plan_on_own(wish.with_changes(gpu=None, num_gpus=None, max_nodes=None), machine, again, catalog, **asked)
    except RightfitError:
        return plan, []
    if own.best is None or own.best.purchase != "owned":
        return plan, []
    return own, [worded(key, lang, card="/".join(wish.gpu), machine=machine, servers=servers)]


def _unrented(plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Of cards that nobody rents: whether one's own do it; "" of any other."""
    from rightfit.planner.cards import plan_on_own
    from rightfit.planner.plan import plan as plan_again

    wish = plan.workload
    machine = unrented_machine(wish, catalog)
    if not machine:
        return ""
    fields = {"card": "/".join(wish.gpu), "machine": machine}
    try:
        own = plan_on_own(wish.with_changes(gpu=None, num_gpus=None), machine, plan_again, catalog, top=1).best
    except RightfitError:
        own = None
    key = "able_unrented_own" if own is not None and own.purchase == "owned" else "able_unrented"
    return worded(key, lang, **fields)
