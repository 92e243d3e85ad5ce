"""Order what is feasible, fold near-duplicates, keep a varied top. Deterministic: equal scores fall back to cost, time, certainty, table order."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array
from rightfit.search.doubt import BOUNDS
from rightfit.search.factor import distinct_rows, first_rows
from rightfit.search.market import SPOT
from rightfit.search.objective import pareto_front, scores

if TYPE_CHECKING:
    from rightfit.search.explore import Exploration

Index = NDArray[np.intp]

MOST_PER_ACCELERATOR = 2
MOST_ALTERNATIVES = 8
CONTENDERS_PER_OPTION = 20


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
    """The best `top` rows of an exploration and its Pareto front.

    Rows are first grouped by what folds together; only the groups that can reach the top are put in order.
    """
    offer, node = np.nonzero(found.bits == 0)
    if offer.shape[0] == 0:
        return Ranking((), (), 0)
    usd, seconds = ranked_usd(found, offer, node), found.bill.total_s[offer, node]
    front = pareto_front(usd, seconds)
    pareto = tuple(Row(int(offer[row]), int(node[row])) for row in front)
    group = folding_groups(found, offer, node)
    score = score_of(found, offer, node)
    near = contenders(found, offer, score, group, top=top)
    near = near[ordered(found, offer[near], node[near], score[near])]
    rows = leading_rows(found, offer[near], node[near], group[near], top=top)
    return Ranking(rows, pareto, offer.shape[0])


def ranked_usd(found: Exploration, offer: Index, node: Index) -> Array:
    """What rows count as in ranking: their cost, with estimated prices at the upper end of what they are likely to be."""
    total, doubt = found.bill.total_usd[offer, node], found.market.doubt
    return total if doubt is None else total + found.bill.servers_usd[offer, node] * (doubt.rank_factor[offer] - 1.0)


def price_facts(found: Any, row: Row) -> dict[str, float]:
    """How sure the price of a row is: the source's figure, the expected one with its interval, and the total that the row is ranked by."""
    doubt, price = found.market.doubt, float(found.market.offers.price_usd_per_h[row.offer])
    factors = doubt.factors[row.offer].tolist() if doubt is not None else [1.0] * len(BOUNDS)
    return {
        "listed_usd_per_h": float(doubt.listed_usd_per_h[row.offer]) if doubt is not None else price,
        "expected_usd_per_h": price,
        **{f"{name}_usd_per_h": price * factor for name, factor in zip(BOUNDS, factors, strict=True)},
        "ranked_usd": float(ranked_usd(found, np.array([row.offer]), np.array([row.node]))[0]),
    }


def score_of(found: Exploration, offer: Index, node: Index) -> Array:
    """The objective's score of feasible rows; smaller is better."""
    return scores(found.wish.workload.objective, total_usd=ranked_usd(found, offer, node), total_s=found.bill.total_s[offer, node])


def contenders(found: Exploration, offer: Index, score: Array, group: Index, *, top: int) -> Index:
    """Rows of the groups whose best score is among the best; the best of each purchase kind, and of more groups than can be left out for variety."""
    groups = int(group.max()) + 1
    best = np.full(groups, np.inf)
    np.minimum.at(best, group, score)
    is_spot = np.zeros(groups, dtype=np.bool_)
    is_spot[group] = found.market.offers.purchase_index[offer] == SPOT
    wanted = np.zeros(groups, dtype=np.bool_)
    for kind in (is_spot, ~is_spot):
        members = np.flatnonzero(kind)
        leading = np.argsort(best[members], kind="stable")[: CONTENDERS_PER_OPTION * top]
        limit = best[members[leading]].max(initial=-np.inf)
        wanted[members[best[members] <= limit]] = True
    return np.flatnonzero(wanted[group])


def leading_rows(found: Exploration, offer: Index, node: Index, group: Index, *, top: int) -> tuple[Row, ...]:
    """The first row of each group, as far as there is room, with the rest of the group folded into it. Rows come in order."""
    _, dense = np.unique(group, return_inverse=True)
    leaders = np.sort(first_rows(dense, int(dense.max()) + 1))
    chosen = varied(found, offer[leaders], top=top)
    chosen = with_other_purchases(found, offer[leaders], chosen, top=top)
    chosen = with_another_provider(found, offer[leaders], chosen)
    return tuple(_row(offer, node, group, int(leader)) for leader in leaders[chosen])


def ordered(found: Exploration, offer: Index, node: Index, score: Array) -> Index:
    """Rows by objective, then cost, time, sound price before estimate, real region before pseudo region, fresh before stale, table order."""
    usd, seconds = ranked_usd(found, offer, node), found.bill.total_s[offer, node]
    offers = found.market.offers
    doubt = offers.is_estimate[offer] * 4 + offers.is_pseudo_region[offer] * 2 + offers.is_stale[offer] * 1
    return np.lexsort((node, offer, doubt, seconds, usd, score))


def folding_groups(found: Exploration, offer: Index, node: Index) -> Index:
    """Rows of one provider with the same accelerators on the same number of nodes, spot apart from the rest, are one option: they differ in
    region, purchase mode, host size."""
    offers, servers = found.market.offers, found.market.offers.servers
    kinds = [codes_of(servers.provider), codes_of(servers.accelerator_name), servers.num_accelerators.astype(np.intp)]
    _, kind = distinct_rows(kinds)
    spot = (offers.purchase_index[offer] == SPOT).astype(np.intp)
    _, group = distinct_rows([kind[offers.server_index[offer]], node, spot])
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


def with_another_provider(found: Exploration, offer: Index, chosen: list[int]) -> list[int]:
    """Make sure that two providers are among three rows or more: the best row of another one takes the last place that no way to pay depends on."""
    offers = found.market.offers
    provider = codes_of(offers.servers.provider)[offers.server_index[offer]]
    others = np.flatnonzero(provider != provider[chosen[0]])
    if len(chosen) < 3 or not others.shape[0] or bool(np.any(provider[chosen] != provider[chosen[0]])):
        return chosen
    spot = (offers.purchase_index[offer] == SPOT).tolist()
    kinds = [spot[position] for position in chosen]
    spare = [position for position in chosen[1:] if kinds.count(spot[position]) > 1 or spot[position] == spot[others[0]]]
    return sorted([*(position for position in chosen if position != spare[-1]), int(others[0])]) if spare else chosen


def _row(offer: Index, node: Index, group: Index, leader: int) -> Row:
    members = np.flatnonzero(group == group[leader])[1:]
    folded = tuple((int(offer[member]), int(node[member])) for member in members[:MOST_ALTERNATIVES])
    return Row(int(offer[leader]), int(node[leader]), folded, int(members.shape[0]))
