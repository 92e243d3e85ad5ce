"""An option in words: where, how long, and what it costs in the currency of the plan; and what
leads where the wish is changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.beside.questions import worded
from rightfit.explain.reasons import offload_text
from rightfit.explain.trials import cost_text, where_text
from rightfit.messages import Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Option, Plan

_MANY = 300


def leading(plan: Plan) -> Option:
    """What leads a plan; nothing is asked of one without it."""
    assert plan.best is not None
    return plan.best


told_currency: ContextVar[str] = ContextVar("told_currency", default="usd")


@contextlib.contextmanager
def told_in(currency: str) -> Iterator[None]:
    """Money in the currency of the plan, so that one answer has one."""
    token = told_currency.set(currency)
    try:
        yield
    finally:
        told_currency.reset(token)


def cost_of(option: Option, lang: Lang) -> str:
    return cost_text(option, told_currency.get())[lang]


def usd(amount: float) -> str:
    return q.money_text(amount, told_currency.get())


def total_usd(option: Option) -> float:
    return float(option.cost.total_usd)


def led_if(plan: Plan, catalog: Catalog, **changes: Any) -> Option | None:
    """What leads where the wish is changed; None where nothing does."""
    from rightfit.planner.plan import plan as plan_again

    try:
        return plan_again(plan.workload.with_changes(**changes), catalog=catalog, top=1).best
    except RightfitError:
        return None


def all_ways(plan: Plan, catalog: Catalog) -> Sequence[Option]:
    """As many ways to do it as there are."""
    from rightfit.planner.plan import plan as plan_again

    return plan_again(plan.workload, catalog=catalog, top=_MANY).options or (leading(plan),)


def offload_words(option: Option, lang: Lang) -> str:
    """That a job fits only with what the host lends, "" where it fits by the GPUs alone."""
    offload = str(getattr(option.layout, "offload", "none") or "none")
    return "" if offload == "none" else worded("offloaded", lang, what=offload_text(offload, lang))


def way_text(option: Option, lang: Lang) -> str:
    """A server with the time and the money of the job on it."""
    time = option.estimate.get("total_time_s")
    told = worded("compared_time", lang, time=q.duration_text(time.mid, lang)) if time else ""
    where = worded("own_machine", lang) if option.purchase == "owned" else where_text(option)
    return worded("way", lang, where=where, time=told, cost=cost_of(option, lang))
