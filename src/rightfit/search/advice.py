"""What would serve the user better, each with its predicted effect: another method, spot, more time, more nodes, a smaller card, fewer cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rightfit.errors import RightfitError
from rightfit.search.answer import Option, Reason
from rightfit.search.explore import Exploration, explore
from rightfit.search.market import SPOT
from rightfit.search.reasons import CRITERIA
from rightfit.search.refusals import least_changes
from rightfit.search.training_advice import sample_advice
from rightfit.search.wish import read_wish

if TYPE_CHECKING:
    from collections.abc import Iterable

LIGHTER_METHODS = {
    "full": ("lora", "qlora"),
    "lora": ("qlora",),
    "dora": ("qlora",),
    "freeze": ("lora", "qlora"),
    "galore": ("lora", "qlora"),
}
ONE_NODE = (1,)
WORTHWHILE = 0.95


def advise(found: Exploration, options: tuple[Option, ...]) -> tuple[Reason, ...]:
    """Advice for a plan: the least changes first where nothing is feasible."""
    best = options[0] if options else None
    changes = () if best else least_changes(found)
    return (
        *changes,
        *_other_methods(found, best),
        *sample_advice(found, best),
        *_relaxed(found, best),
        *_spot(found, best),
        *_fewest(found, best),
    )


def _at(found: Exploration, mask: NDArray[np.bool_]) -> tuple[int, int] | None:
    """The cheapest row of a mask."""
    usd = np.where(mask, found.bill.total_usd, np.inf)
    flat = int(np.argmin(usd)) if usd.size else 0
    at = divmod(flat, usd.shape[1])
    return at if usd.size and np.isfinite(usd[at]) else None


def cheapest(found: Exploration, mask: NDArray[np.bool_], objective: str = "cost") -> tuple[int, int] | None:
    """The cheapest row of a mask; the fastest where time is asked for."""
    if objective != "time":
        return _at(found, mask)
    seconds = np.where(mask, found.bill.total_s, np.inf)
    at = divmod(int(np.argmin(seconds)), seconds.shape[1]) if seconds.size else (0, 0)
    return at if seconds.size and np.isfinite(seconds[at]) else None


def effect_of(found: Exploration, at: tuple[int, int], best: Option | None) -> dict[str, object]:
    """What the offer of a row costs and takes, and what it saves against the best option."""
    return _effect(found, at, best)


def _effect(found: Exploration, at: tuple[int, int], best: Option | None) -> dict[str, object]:
    """What an offer costs and takes, and what it saves against the best option."""
    offer = found.market.offers.row(at[0])
    server = int(found.market.offers.server_index[at[0]])
    usd = float(found.bill.total_usd[at])
    return {
        "provider": offer["provider"],
        "instance_type": offer["instance_type"],
        "nodes": found.space.limits.node_counts[at[1]],
        "accelerator": found.market.offers.servers.accelerator_name[server],
        "total_usd": usd,
        "total_time_s": float(found.bill.total_s[at]),
        "saving_usd": best.cost.total_usd - usd if best else None,
    }


def _other_methods(found: Exploration, best: Option | None) -> Iterable[Reason]:
    """Lighter methods on one server: what the cheapest would cost under the same limits."""
    workload = found.wish.workload
    if workload.task != "finetune":
        return
    method = workload.method or "full"
    for other in LIGHTER_METHODS.get(method, ()):
        try:
            wish = read_wish(workload.with_changes(method=other))
        except RightfitError:
            continue  # an option of the user's (a quantisation, an optimizer) does not go with it
        there = explore(wish, found.market, found.wanted, node_counts=ONE_NODE)
        at = _at(there, there.bits == 0)
        if at is None:
            continue
        effect = _effect(there, at, best)
        if best is not None and workload.objective == "time" and there.bill.total_s[at] > best.estimate["total_time_s"].mid:
            continue  # who asks for speed is not helped by a slower way that costs less
        if best is None or float(there.bill.total_usd[at]) < WORTHWHILE * best.cost.total_usd:
            yield Reason("method", {"from_method": method, "to_method": other, **effect})


def _relaxed(found: Exploration, best: Option | None) -> Iterable[Reason]:
    """What a later deadline would save."""
    deadline = 1 << CRITERIA.index("deadline")
    if best is None or found.wanted.deadline_s is None:
        return
    at = _at(found, (found.bits & ~deadline) == 0)
    if at is not None and found.bill.total_usd[at] < WORTHWHILE * best.cost.total_usd:
        effect = _effect(found, at, best)
        yield Reason("relax_deadline", {**effect, "deadline_s": float(found.bill.total_s[at])})


def _spot(found: Exploration, best: Option | None) -> Iterable[Reason]:
    """What spot would save where it was not asked for."""
    purchase = 1 << CRITERIA.index("purchase")
    if best is None or "spot" in found.wanted.purchases:
        return
    is_spot = (found.market.offers.purchase_index == SPOT)[:, None]
    at = _at(found, ((found.bits & ~purchase) == 0) & is_spot)
    if at is not None and found.bill.total_usd[at] < WORTHWHILE * best.cost.total_usd:
        yield Reason("spot", _effect(found, at, best))


def _fewest(found: Exploration, best: Option | None) -> Iterable[Reason]:
    """The least number of the best option's accelerators that can run the job at all."""
    if best is None:
        return
    count = least_accelerators(found, best.accelerator.name)
    if count and count < best.num_accelerators:
        yield Reason("least_accelerators", {"accelerator": best.accelerator.name, "count": count})


def least_accelerators(found: Exploration, accelerator: str) -> int:
    """The least number of accelerators of this name, over servers and node counts of the market, that a setup fits on, the host's RAM
    included; 0 where none does."""
    servers = found.market.offers.servers
    rows = np.array([name == accelerator for name in servers.accelerator_name], dtype=np.bool_)
    fits = found.feasible.fits_host & rows[:, None]
    total = servers.num_accelerators[:, None] * np.array(found.space.limits.node_counts, dtype=np.float64)[None, :]
    return int(total[fits].min()) if fits.any() else 0
