"""One server or several: what several would save where one is taken, and what one would cost where several are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.physics.columns import Array
from rightfit.search.advice import cheapest_of, effect_of
from rightfit.search.answer import Option, Reason, Section

if TYPE_CHECKING:
    from rightfit.search.found import Found

Mask = NDArray[np.bool_]


def several_mask(exploration: Found) -> Mask:
    """Rows that rent more than one server, shape of `bits`."""
    offer, column = np.indices(exploration.bits.shape)
    return several_of(exploration, offer.ravel(), column.ravel()).reshape(exploration.bits.shape)


def several_of(exploration: Found, offer: NDArray[np.intp], column: NDArray[np.intp]) -> Mask:
    """Whether each row (offer, column) rents more than one server."""
    number = exploration.num_servers(offer, column)
    return np.asarray(np.isfinite(number) & (number > 1))


def counted_usd(exploration: Found, usd: Array, offer: NDArray[np.intp], column: NDArray[np.intp]) -> Array:
    """Money of rows (offer, column) as the order of options counts it: several servers must save more than the one is worth, for each is one
    more that can fail, be late or be out of stock; and a last resort (offloading) must save more than doing without is worth."""
    usual = facts.coefficients("planning")
    several = np.where(several_of(exploration, offer, column), usual["one_server_worth"], 1.0)
    return np.asarray(usd * several * np.where(exploration.last_resort(offer, column), usual["last_resort_worth"], 1.0))


def several_section(exploration: Found, options: Sequence[Option]) -> Section | None:
    """The other way beside the first option: several servers that cost less than the one, or the one that costs more than the several."""
    if not options or exploration.workload.objective == "time":
        return None
    best, several = options[0], several_mask(exploration)
    wanted = several if best.nodes == 1 else ~several
    at = cheapest_of(exploration, (exploration.bits == 0) & wanted)
    if at is None:
        return None
    effect = effect_of(exploration, at, best)
    saves = float(exploration.bill.total_usd[at]) < best.cost.total_usd
    if best.nodes == 1 and not saves:
        return None
    key = "several_cheaper" if best.nodes == 1 else "one_instead"
    return Section("servers", effect, (Reason(key + month_of(exploration), {**effect, "best_usd": best.cost.total_usd}),))


def headline_key(exploration: Found, option: Option, key: str) -> str:
    """The headline of an option: of one server that stands before several that cost less, that it is the cheapest alone."""
    if exploration.workload.objective != "cost" or option.nodes > 1:
        return key
    at = cheapest_of(exploration, (exploration.bits == 0) & several_mask(exploration))
    return f"{key}_alone" if at is not None and float(exploration.bill.total_usd[at]) < option.cost.total_usd else key


BELOW = "_below"


def below_of(exploration: Found, options: Sequence[Option]) -> Option | None:
    """The first option shown below the first one although it costs less (the objective being cost): the first is not simply the cheapest then."""
    if exploration.workload.objective != "cost" or not options:
        return None
    return next((one for one in options[1:] if one.cost.total_usd < options[0].cost.total_usd), None)


def below_cause(option: Option, other: Option) -> str:
    """Why an option that costs less stands below another: the end of a key of `reasons.below_*`."""
    if other.facts.get("is_estimate") and not option.facts.get("is_estimate"):
        return "estimate"
    if other.nodes > 1 and option.nodes == 1:
        return "several"
    price = other.facts.get("price") or {}
    if price and float(price["ranked_usd"]) > other.cost.total_usd:
        return "old"
    if getattr(other.layout, "offload", "none") not in ("none", "") and getattr(option.layout, "offload", "none") in ("none", ""):
        return "offload"
    return "place" if option.facts.get("country") != other.facts.get("country") else "order"


def month_of(exploration: Found) -> str:
    """The ending of a statement whose money is that of a month."""
    return month_of_task(exploration.workload.task)


def month_of_task(task: str) -> str:
    """The same of a task."""
    return "_month" if task == "serve" else ""


def slower_than_one(option: Option, one: Option) -> tuple[Reason, ...]:
    """That several given servers are slower, or dearer, than one of them."""
    mine, its = option.estimate.get("total_time_s"), one.estimate.get("total_time_s")
    params: dict[str, Any] = {"nodes": option.nodes, "total_usd": option.cost.total_usd, "one_usd": one.cost.total_usd}
    if mine is None or its is None or one.cost.total_usd >= option.cost.total_usd:
        return ()
    key = "several_slower" if mine.mid >= its.mid else "several_dearer"
    return (Reason(key, {**params, "total_time_s": mine.mid, "one_time_s": its.mid}),)
