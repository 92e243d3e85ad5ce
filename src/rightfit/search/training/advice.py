"""What would serve the user better, each with its predicted effect: another method, spot, more time, more nodes, a smaller card, fewer
cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rightfit.errors import RightfitError
from rightfit.search.advice import WORTHWHILE, cheaper_spot, cheapest_of, effect_of, relaxed
from rightfit.search.answer import Option, Reason
from rightfit.search.refusals import least_changes
from rightfit.search.training.explore import explore
from rightfit.search.training.found import Exploration

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


def advise(exploration: Exploration, options: tuple[Option, ...], more: Iterable[Reason] = ()) -> tuple[Reason, ...]:
    """Advice for a plan: the least changes first where nothing is feasible; `more`: what only the family knows."""
    best = options[0] if options else None
    changes = () if best else least_changes(exploration)
    return (
        *changes,
        *_other_methods(exploration, best),
        *more,
        *relaxed(exploration, best),
        *cheaper_spot(exploration, best),
        *_fewest(exploration, best),
    )


def _other_methods(exploration: Exploration, best: Option | None) -> Iterable[Reason]:
    """Lighter methods on one server: what the cheapest would cost under the same limits."""
    workload = exploration.wish.workload
    if workload.task != "finetune":
        return
    method = workload.method or "full"
    for other in LIGHTER_METHODS.get(method, ()):
        try:
            wish = exploration.craft.read(workload.with_changes(method=other))
        except RightfitError:
            continue  # an option of the user's (a quantisation, an optimizer) does not go with it
        there = explore(wish, exploration.market, exploration.wanted, exploration.craft, node_counts=ONE_NODE)
        at = cheapest_of(there, there.bits == 0)
        if at is None:
            continue
        effect = effect_of(there, at, best)
        if best is not None and workload.objective == "time" and there.bill.total_s[at] > best.estimate["total_time_s"].mid:
            continue  # who asks for speed is not helped by a slower way that costs less
        if best is None or float(there.bill.total_usd[at]) < WORTHWHILE * best.cost.total_usd:
            yield Reason("method", {"from_method": method, "to_method": other, **effect})


def _fewest(exploration: Exploration, best: Option | None) -> Iterable[Reason]:
    """The least number of the best option's accelerators that can run the job at all."""
    if best is None:
        return
    count = least_accelerators(exploration, best.accelerator.name)
    if count and count < best.num_accelerators:
        yield Reason("least_accelerators", {"accelerator": best.accelerator.name, "count": count})


def least_accelerators(exploration: Exploration, accelerator: str) -> int:
    """The least number of accelerators of this name, over servers and node counts of the market, that a setup fits on, the host's RAM
    included; 0 where none does."""
    servers = exploration.market.offers.servers
    rows = np.array([name == accelerator for name in servers.accelerator_name], dtype=np.bool_)
    fits = exploration.feasible.fits_host & rows[:, None]
    total = servers.num_accelerators[:, None] * exploration.node_counts[None, :]
    return int(total[fits].min()) if fits.any() else 0
