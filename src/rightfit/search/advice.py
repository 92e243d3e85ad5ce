"""What other offers of the same market would save: a later deadline, spot."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from rightfit.search.answer import Option, Reason
from rightfit.search.criteria import CRITERIA
from rightfit.search.found import Found
from rightfit.search.market import SPOT

WORTHWHILE = 0.95


def cheapest_of(exploration: Found, mask: NDArray[np.bool_]) -> tuple[int, int] | None:
    """The cheapest row of a mask."""
    usd = np.where(mask, exploration.bill.total_usd, np.inf)
    flat = int(np.argmin(usd)) if usd.size else 0
    at = divmod(flat, usd.shape[1])
    return at if usd.size and np.isfinite(usd[at]) else None


def cheapest(exploration: Found, mask: NDArray[np.bool_], objective: str = "cost") -> tuple[int, int] | None:
    """The cheapest row of a mask; the fastest where time is asked for."""
    if objective != "time":
        return cheapest_of(exploration, mask)
    seconds = np.where(mask, exploration.bill.total_s, np.inf)
    at = divmod(int(np.argmin(seconds)), seconds.shape[1]) if seconds.size else (0, 0)
    return at if seconds.size and np.isfinite(seconds[at]) else None


def effect_of(exploration: Found, cell: tuple[int, int], best: Option | None) -> dict[str, object]:
    """What the offer of a row costs and takes, and what it saves against the best option."""
    offer = exploration.market.offers.row(cell[0])
    server = int(exploration.market.offers.server_index[cell[0]])
    usd = float(exploration.bill.total_usd[cell])
    return {
        "provider": offer["provider"],
        "instance_type": offer["instance_type"],
        "nodes": exploration.nodes(cell),
        "accelerator": exploration.market.offers.servers.accelerator_name[server],
        "total_usd": usd,
        "total_time_s": float(exploration.bill.total_s[cell]),
        "saving_usd": best.cost.total_usd - usd if best else None,
    }


def relaxed(exploration: Found, best: Option | None) -> Iterable[Reason]:
    """What a later deadline would save."""
    deadline = 1 << CRITERIA.index("deadline")
    if best is None or exploration.wanted.deadline_s is None:
        return
    at = cheapest_of(exploration, (exploration.bits & ~deadline) == 0)
    if at is not None and exploration.bill.total_usd[at] < WORTHWHILE * best.cost.total_usd:
        effect = effect_of(exploration, at, best)
        yield Reason("relax_deadline", {**effect, "deadline_s": float(exploration.failures.had["deadline"][at])})


def cheaper_spot(exploration: Found, best: Option | None) -> Iterable[Reason]:
    """What spot would save where it was not asked for."""
    purchase = 1 << CRITERIA.index("purchase")
    if best is None or "spot" in exploration.wanted.purchases:
        return
    is_spot = (exploration.market.offers.purchase_index == SPOT)[:, None]
    at = cheapest_of(exploration, ((exploration.bits & ~purchase) == 0) & is_spot)
    if at is not None and exploration.bill.total_usd[at] < WORTHWHILE * best.cost.total_usd:
        yield Reason("spot", effect_of(exploration, at, best))
