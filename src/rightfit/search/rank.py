"""Order what is feasible, fold near-duplicates, keep a varied top. Deterministic: equal scores fall back to cost, time, certainty, table order."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rightfit.search.factor import distinct_rows, first_rows
from rightfit.search.market import SPOT
from rightfit.search.objective import pareto_front, scores

if TYPE_CHECKING:
    from rightfit.search.explore import Exploration

Index = NDArray[np.intp]

MOST_PER_ACCELERATOR = 2
MOST_ALTERNATIVES = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One offer on a number of nodes (position in the space's node counts), with the rows folded into it, best first."""

    offer: int
    node: int
    folded: tuple[tuple[int, int], ...] = ()
    num_folded: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Ranking:
    """`top`: the best rows; `pareto`: those that nothing beats in both cost and time, by rising cost."""

    top: tuple[Row, ...]
    pareto: tuple[Row, ...]
    num_feasible: int


def rank(found: Exploration, *, top: int) -> Ranking:
    """The best `top` rows of an exploration and its Pareto front."""
    offer, node = np.nonzero(found.bits == 0)
    if offer.shape[0] == 0:
        return Ranking((), (), 0)
    order = ordered(found, offer, node)
    offer, node = offer[order], node[order]
    group = folding_groups(found, offer, node)
    leaders = np.sort(first_rows(group, int(group.max()) + 1))
    chosen = varied(found, offer[leaders], top=top)
    chosen = with_other_purchases(found, offer[leaders], chosen, top=top)
    rows = tuple(_row(offer, node, group, int(leader)) for leader in leaders[chosen])
    front = pareto_front(found.bill.total_usd[offer, node], found.bill.total_s[offer, node])
    return Ranking(rows, tuple(Row(int(offer[row]), int(node[row])) for row in front), offer.shape[0])


def ordered(found: Exploration, offer: Index, node: Index) -> Index:
    """Rows by objective, then cost, time, sound price before estimate, real region before pseudo region, fresh before stale, table order."""
    usd, seconds = found.bill.total_usd[offer, node], found.bill.total_s[offer, node]
    offers = found.market.offers
    doubt = offers.is_estimate[offer] * 4 + offers.is_pseudo_region[offer] * 2 + offers.is_stale[offer] * 1
    score = scores(found.wish.workload.objective, total_usd=usd, total_s=seconds)
    return np.lexsort((node, offer, doubt, seconds, usd, score))


def folding_groups(found: Exploration, offer: Index, node: Index) -> Index:
    """Rows of one provider with the same accelerators on the same number of nodes, spot apart from the rest, are one option: they differ in
    region, purchase mode, host size."""
    offers, servers = found.market.offers, found.market.offers.servers
    provider = codes_of(servers.provider)
    accelerator = codes_of(servers.accelerator_name)
    server = offers.server_index[offer]
    spot = (offers.purchase_index[offer] == SPOT).astype(np.intp)
    count = servers.num_accelerators[server].astype(np.intp)
    _, group = distinct_rows([provider[server], accelerator[server], count, node, spot])
    return group


def codes_of(labels: tuple[str, ...]) -> Index:
    """A small integer for each distinct label."""
    code = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return np.array([code[label] for label in labels], dtype=np.intp)


def varied(found: Exploration, offer: Index, *, top: int) -> list[int]:
    """Positions of the best rows with at most two of one provider's accelerator, filled up from the rest in order."""
    servers = found.market.offers.servers
    taken: dict[tuple[str, str], int] = {}
    chosen: list[int] = []
    left: list[int] = []
    for position, row in enumerate(offer.tolist()):
        if len(chosen) >= top:
            break
        server = int(found.market.offers.server_index[row])
        key = (servers.provider[server], servers.accelerator_name[server])
        taken[key] = taken.get(key, 0) + 1
        (chosen if taken[key] <= MOST_PER_ACCELERATOR else left).append(position)
    return sorted(chosen + left[: max(0, top - len(chosen))])


def with_other_purchases(found: Exploration, offer: Index, chosen: list[int], *, top: int) -> list[int]:
    """Make sure that the best row that cannot be interrupted is among them, and the best spot row too where there is one."""
    spot = found.market.offers.purchase_index[offer] == SPOT
    for wanted in (False, True):
        candidates = np.flatnonzero(spot == wanted)
        if candidates.shape[0] and top > 1 and not any(bool(spot[position]) == wanted for position in chosen):
            chosen = sorted([*chosen[: top - 1], int(candidates[0])])
    return chosen


def _row(offer: Index, node: Index, group: Index, leader: int) -> Row:
    members = np.flatnonzero(group == group[leader])[1:]
    folded = tuple((int(offer[member]), int(node[member])) for member in members[:MOST_ALTERNATIVES])
    return Row(int(offer[leader]), int(node[leader]), folded, int(members.shape[0]))
