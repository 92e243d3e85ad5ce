"""Order what is feasible, fold near-duplicates, keep a varied top. Deterministic: equal scores fall
back to cost, time, certainty, table order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.market.offers import codes_of, provider_codes
from rightfit.market.sellers import by_hand, is_major, seldom_free
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search import sense
from rightfit.search.advice import counted_usd, elsewhere, means_mainland, several_of
from rightfit.search.answer import Assumption, Option, Reason
from rightfit.search.constraints import SearchResult
from rightfit.search.market import SPOT
from rightfit.search.offers import hearsay

# ---- Distinct keys of many rows, without sorting: how a million candidates cost a few
# thousand evaluations.
#
# A candidate's memory does not depend on its price, nor its arithmetic on its network. So each
# physics function is called on the distinct combinations of what it reads, found without sorting:
# combinations are numbered by mixed radix, and a flag array marks those that occur.

Index = NDArray[np.intp]

LARGEST_FLAG_TABLE = 16_000_000
RECODE_ABOVE = 4_000_000
FEW_VALUES = 64


def combine(codes: Sequence[NDArray[np.integer]], sizes: Sequence[int]) -> tuple[Index, int]:
    """One integer for each combination of small codes (mixed radix), and the
    number of possible ones."""
    combined = np.zeros(np.broadcast(*codes).shape, dtype=np.intp)
    size = 1
    for code, radix in zip(codes, sizes, strict=True):
        combined *= radix
        combined += code
        size *= radix
    return combined, size


def distinct(codes: Index, size: int) -> tuple[Index, Index]:
    """The codes that occur, ascending, and for each row the position of its code among them. Linear
    in rows plus `size`."""
    if size > LARGEST_FLAG_TABLE:
        unique, inverse = np.unique(codes, return_inverse=True)
        return unique.astype(np.intp), inverse.astype(np.intp)
    flags = np.zeros(size, dtype=bool)
    flags[codes] = True
    unique = np.flatnonzero(flags)
    position = np.empty(size, dtype=np.intp)
    position[unique] = np.arange(unique.shape[0])
    return unique, position[codes]


def dense(column: NDArray[np.integer]) -> tuple[NDArray[np.integer], int]:
    """A column with its number of possible values: one with few but large values (powers of two) is
    numbered anew, so that tables stay small."""
    radix = int(column.max(initial=0)) + 1
    if radix <= FEW_VALUES or radix > RECODE_ABOVE:
        return column, radix
    unique, codes = distinct(column.astype(np.intp), radix)
    return codes, max(1, unique.shape[0])


def distinct_rows(columns: Sequence[NDArray[np.integer]]) -> tuple[Index, Index]:
    """For small-integer columns of N rows: one representative row for each distinct combination,
    and each row's group."""
    codes, size = np.zeros(columns[0].shape[0], dtype=np.intp), 1
    for wide in columns:
        column, radix = dense(wide)
        if size > 1 and size * radix > RECODE_ABOVE:
            unique, codes = distinct(codes, size)
            size = max(1, unique.shape[0])
        codes, size = codes * radix + column, size * radix
    unique, inverse = distinct(codes, size)
    return first_rows(inverse, unique.shape[0]), inverse


def first_rows(group: Index, size: int) -> Index:
    """The first row of each group."""
    first = np.zeros(size, dtype=np.intp)
    first[group[::-1]] = np.arange(group.shape[0])[::-1]
    return first


def ragged_arange(counts: Index) -> tuple[Index, Index]:
    """For groups of `counts` rows: each row's group and its position within the group."""
    group = np.repeat(np.arange(counts.shape[0]), counts)
    ends = np.cumsum(counts)
    return group, np.arange(int(ends[-1]) if ends.shape[0] else 0) - np.repeat(ends - counts, counts)


# ---- What "best" means: a score of cost and time; smaller is better.

BALANCED_COST_WEIGHT = 2.0
SAME_TIME = 1.01


def scores(objective: str, *, total_usd: Array, total_s: Array, slack_s: float = 0.0) -> Array:
    """The score of each row, shape as the inputs.

    cost: the total cost. time: the class of the total time (see `time_classes`), so that among
    equally fast rows the cheaper leads.
    balanced: cost^2 x time: waiting half as long may cost up to sqrt(2) = 1.41 times as much. The
    balanced score of an option does not depend on which other options exist, so adding a server
    never changes the order of the rest.
    """
    if objective == "time":
        return time_classes(total_s, slack_s=slack_s)
    if objective == "balanced":
        return total_usd**BALANCED_COST_WEIGHT * total_s
    return total_usd


def time_classes(total_s: Array, *, slack_s: float = 0.0) -> Array:
    """Number of the class of each time: class 0 holds the shortest and all that are at most
    1 % or `slack_s` longer, the next class starts at the first that is longer, and so on.
    Times are not known better than that, and twice the servers for the same minutes would be
    money for nothing."""
    order = np.argsort(total_s, kind="stable")
    times = total_s[order]
    starts, at = [], 0
    while at < times.shape[0]:
        starts.append(at)
        at = max(at + 1, int(np.searchsorted(times, max(times[at] * SAME_TIME, times[at] + slack_s), side="right")))
    classes = np.empty(total_s.shape[0])
    lengths = np.diff([*starts, times.shape[0]])
    classes[order] = np.repeat(np.arange(len(starts)), lengths)
    return classes


def pareto_front(total_usd: Array, total_s: Array) -> Index:
    """Rows that no other row beats in both cost and time, by rising cost; of equal rows the first.
    Exact, O(N log N)."""
    order = np.argsort(total_usd, kind="stable")
    times = total_s[order]
    before = np.minimum.accumulate(np.concatenate([[np.inf], times]))[:-1]
    kept = order[times < before]
    # Of rows with one cost, in whatever order they came, only the last kept is the fastest.
    last = np.append(total_usd[kept][1:] > total_usd[kept][:-1], True)
    front: Index = kept[last]
    return front


Folding = Callable[[Any, Index, Index], Index]

MOST_PER_ACCELERATOR = 2
MOST_ALTERNATIVES = 8
CONTENDERS_PER_OPTION = 20


@dataclass(frozen=True, slots=True)
class Row:
    """One offer on a number of nodes (position in the space's node counts), with the rows folded
    into it, best first."""

    offer: int
    node: int
    folded: tuple[tuple[int, int], ...] = ()
    num_folded: int = 0


@dataclass(frozen=True, slots=True)
class Ranking:
    """`top`: the best rows; `pareto`: those that nothing beats in both cost and
    time, by rising cost."""

    top: tuple[Row, ...]
    pareto: tuple[Row, ...]
    num_feasible: int


def rank(search_result: SearchResult, *, top: int, folding: Folding | None = None) -> Ranking:
    """The best `top` rows of an search_result and its Pareto front.

    Rows are first grouped by what folds together (`folding`); only the groups that can reach the
    top are put in order.
    """
    offer, node = np.nonzero(search_result.bits == 0)
    if offer.shape[0] == 0:
        return Ranking((), (), 0)
    group = (folding or folding_groups)(search_result, offer, node)
    score = score_of(search_result, offer, node)
    near = contenders(search_result, offer, score, group, top=top)
    near = near[ordered(search_result, offer[near], node[near], score[near])]
    rows = leading_rows(search_result, offer[near], node[near], group[near], top=top)
    return Ranking(rows, front_rows(search_result, offer, node, rows[0]), offer.shape[0])


def front_rows(search_result: SearchResult, offer: Index, node: Index, first: Row) -> tuple[Row, ...]:
    """The rows that nothing beats in both cost and time, by rising cost, among those that can be
    relied on and do not beat the first one."""
    late = np.any(late_of(search_result, offer, node), axis=0)
    kept = np.flatnonzero(~late) if not late.all() else np.arange(offer.shape[0])
    kept = kept[unbeaten(search_result, offer[kept], node[kept], first)]
    usd, seconds = search_result.bill.total_usd[offer[kept], node[kept]], search_result.bill.total_s[offer[kept], node[kept]]
    return tuple(Row(int(offer[row]), int(node[row])) for row in kept[pareto_front(usd, seconds)])


def score_of(search_result: SearchResult, offer: Index, node: Index, *, is_unhurried: bool = True) -> Array:
    """The objective's score of feasible rows; smaller is better. One server goes before
    several that cost little less; prices that nobody asks (estimates, formulas, floors) and those
    older than what is known of such prices stand behind all others, however low they are, and so
    do many servers on spot, what is seldom free, and places outside mainland China where the wish
    means it. What differs by less than is known does not decide (search.sense), nor, unless
    `is_unhurried` is off, little time that costs several times the money."""
    usd = counted_usd(search_result, search_result.bill.total_usd[offer, node], offer, node)
    slack_s = 0.0 if search_result.workload.task == "serve" else facts.coefficients("planning")["same_time_s"]
    score = scores(search_result.workload.objective, total_usd=usd, total_s=search_result.bill.total_s[offer, node], slack_s=slack_s)
    money = sense.usual_place_first(search_result, offer, node, score)
    late = late_of(search_result, offer, node)
    moved = money
    for is_behind in late:
        moved = behind(moved, is_behind)
    kinds = np.stack(late, axis=-1) @ (1 << np.arange(len(late)))
    moved = sense.unhurried(search_result, offer, node, moved, usd=usd, kinds=kinds) if is_unhurried else moved
    return sense.sensible(search_result, offer, node, moved, money=money, kinds=kinds)


def late_of(search_result: SearchResult, offer: Index, node: Index) -> tuple[NDArray[np.bool_], ...]:
    """What stands behind all other rows, however little it costs, the weightiest last: what is
    seldom to be had, of old prices those of much older days, what nobody asks, what no launcher
    rents (clouds of mainland China that a wish in yuan means as well), what is in mainland China,
    or outside of it where that is meant."""
    scarce = sense.many_at_once(search_result, offer, node) | seldom_free(search_result.market.offers)[offer]
    old = hearsay(search_result.market)[offer] & ~far_below(search_result, offer, node)
    oldest = sense.much_older(search_result, offer, node)
    named = search_result.workload.cloud or search_result.workload.sellers or search_result.workload.region
    manual = np.zeros(offer.shape, dtype=np.bool_) if named else by_hand(search_result.market.offers)[offer]
    away, means = elsewhere(search_result)[offer], means_mainland(search_result)
    return scarce, oldest, old, manual, away & (not means), away & means


#: Names of `late_of`, in its order, for the words.
LATE = ("scarce", "older", "old", "manual", "elsewhere", "abroad")


def with_below(options: tuple[Option, ...], search_result: SearchResult, rows: Sequence[Row]) -> tuple[Option, ...]:
    """The options, each that costs less than the first one with the rule that put it below
    (`facts["below_by"]`): of `LATE` the weightiest, else the first of sense.RULES that speaks
    against it and not against the first."""
    below = [at for at, one in enumerate(options[1:], 1) if one.cost.total_usd < options[0].cost.total_usd]
    if search_result.workload.objective != "cost" or not below:
        return options
    offer, node = np.nonzero(search_result.bits == 0)
    late = late_of(search_result, offer, node)
    at = [int(np.flatnonzero((offer == row.offer) & (node == row.node))[0]) for row in (rows[0], *(rows[place] for place in below))]
    marks: dict[str, Any] = {name: mark[at] for name, mark in reversed(tuple(zip(LATE, late, strict=True)))}
    marks |= sense.marks_of(search_result, offer[at], node[at], search_result.bill.total_usd[offer[at], node[at]])
    out = list(options)
    for number, place in enumerate(below, 1):
        is_near = bool(sense.as_good_as(np.array(options[0].cost.total_usd), out[place].cost.total_usd, task=search_result.workload.task))
        told = marks if is_near else (*LATE, *sense.WEIGHED)
        rule = next((name for name in marks if name in told and marks[name][0] < marks[name][number]), "")
        out[place] = dataclasses.replace(out[place], facts={**out[place].facts, "below_by": rule})
    return tuple(out)


def decided(search_result: SearchResult, offer: int, node: int) -> dict[str, Any] | None:
    """Which rule put a row before the cheapest that is as good, with that one; None where its cost
    did."""
    if search_result.workload.objective != "cost":
        return None
    rows, columns = np.nonzero(search_result.bits == 0)
    usd = search_result.bill.total_usd[rows, columns]
    doubted = hearsay(search_result.market)
    usd = np.where((search_result.market.offers.is_estimate if doubted[offer] else doubted)[rows], np.inf, usd)
    if not usd.size or not np.isfinite(usd.min()):
        return None
    best = int(np.argmin(usd))
    mine = float(search_result.bill.total_usd[offer, node])
    if not usd[best] < mine * (1.0 - 1e-9):
        return None
    pair_offer, pair_node = np.array([offer, rows[best]]), np.array([node, columns[best]])
    late = dict(zip(LATE, late_of(search_result, rows, columns), strict=True))
    pair = [int(np.flatnonzero((rows == offer) & (columns == node))[0]), best]
    marks = {
        **sense.marks_of(search_result, pair_offer, pair_node, np.array([mine, usd[best]])),
        "free": seldom_free(search_result.market.offers)[pair_offer],
        "many": sense.many_at_once(search_result, pair_offer, pair_node),
        **{name: late[name][pair] for name in ("older", "manual", "elsewhere", "abroad")},
    }
    is_near = bool(sense.as_good_as(np.array(mine), float(usd[best]), task=search_result.workload.task))
    rules = (*sense.SCARCE, *(sense.RULES if is_near else sense.WEIGHED))
    rule = next((name for name in rules if marks[name][0] < marks[name][1]), "")
    other = search_result.market.offers.row(int(rows[best]))
    told = {name: other[name] for name in ("provider", "instance_type", "region", "purchase")}
    return {"rule": rule, **told, "total_usd": float(usd[best]), "saving_usd": mine - float(usd[best])} if rule else None


def passed_over(search_result: SearchResult, offer: int, node: int) -> dict[str, Any] | None:
    """What is faster than a row and was passed over for what its little time costs; None where
    nothing was."""
    if search_result.workload.objective != "time" or search_result.workload.task == "serve":
        return None
    rows, columns = np.nonzero(search_result.bits == 0)
    near = ordered(search_result, rows, columns, score_of(search_result, rows, columns, is_unhurried=False))[0]
    at = (int(rows[near]), int(columns[near]))
    seconds, usd = (getattr(search_result.bill, name) for name in ("total_s", "total_usd"))
    if not (seconds[at] < seconds[offer, node] and usd[at] > usd[offer, node]):
        return None
    other = search_result.market.offers.row(at[0])
    told = {name: other[name] for name in ("provider", "instance_type", "region", "purchase")}
    return {
        "rule": "haste",
        **told,
        "total_time_s": float(seconds[at]),
        "total_usd": float(usd[at]),
        "times": float(usd[at] / usd[offer, node]),
    }


def with_rule(
    options: tuple[Option, ...], search_result: SearchResult, first: tuple[int, int]
) -> tuple[tuple[Option, ...], tuple[Assumption, ...]]:
    """The options, the first one with the rule that put it before a cheaper one, and that as
    something assumed. `first`: offer and column of the first one."""
    found = (decided(search_result, *first) or passed_over(search_result, *first)) if options else None
    if found is None:
        return options, ()
    rule = found.pop("rule")
    server = f"{found.pop('provider')}/{found.pop('instance_type')}"
    monthly = "_month" if search_result.workload.task == "serve" else ""
    usual = facts.coefficients("planning")
    limits = {"share": usual["unmeasured_saves"], "least_usd": usual["unmeasured_saves_usd"]} if rule == "measured" else {}
    reason = Reason(f"decided_{rule}{monthly}", {"server": server, **found, **limits})
    best = dataclasses.replace(options[0], why=(*options[0].why, reason), facts={**options[0].facts, "decided_by": rule})
    return (best, *options[1:]), (Assumption("choice", rule, reason),)


def far_below(search_result: SearchResult, offer: Index, node: Index) -> NDArray[np.bool_]:
    """Rows whose price is older than what is known of such prices and that would cost less than
    anything fresh if it had risen several times: then the age does not matter, and is said."""
    market = search_result.market
    old, is_sound = ~market.offers.is_estimate[offer], ~hearsay(market)[offer]
    usd = search_result.bill.total_usd[offer, node]
    fresh = usd[is_sound].min(initial=np.inf)
    risen = facts.coefficients("planning")["old_price_rise"]
    return np.asarray(old & ~is_sound & np.isfinite(fresh) & (usd * risen < fresh))


def behind(score: Array, is_behind: NDArray[np.bool_]) -> Array:
    """Scores with some rows moved behind all others, in their own order."""
    known = score[np.isfinite(score)]
    span = float(known.max() - known.min()) + 1.0 if known.size else 0.0
    return score + np.where(is_behind & ~np.all(is_behind), span, 0.0)


def contenders(search_result: SearchResult, offer: Index, score: Array, group: Index, *, top: int) -> Index:
    """Rows of the groups whose best score is among the best; the best of each purchase kind, and of
    more groups than can be left out for variety."""
    groups = int(group.max()) + 1
    best = np.full(groups, np.inf)
    np.minimum.at(best, group, score)
    is_spot = np.zeros(groups, dtype=np.bool_)
    is_spot[group] = search_result.market.offers.purchase_index[offer] == SPOT
    wanted = np.zeros(groups, dtype=np.bool_)
    is_major = np.zeros(groups, dtype=np.bool_)
    is_major[group] = of_major_cloud(search_result, offer)
    for kind in (is_spot, ~is_spot, is_major):
        members = np.flatnonzero(kind)
        leading = np.argsort(best[members], kind="stable")[: CONTENDERS_PER_OPTION * top]
        limit = best[members[leading]].max(initial=-np.inf)
        wanted[members[best[members] <= limit]] = True
    return np.flatnonzero(wanted[group])


def leading_rows(search_result: SearchResult, offer: Index, node: Index, group: Index, *, top: int) -> tuple[Row, ...]:
    """The first row of each group, as far as there is room, with the rest of the group folded into
    it. Rows come in order."""
    _, dense = np.unique(group, return_inverse=True)
    leaders = np.sort(first_rows(dense, int(dense.max()) + 1))
    first = Row(int(offer[leaders[0]]), int(node[leaders[0]]))
    leaders = leaders[unbeaten(search_result, offer[leaders], node[leaders], first)]
    chosen = varied(search_result, offer[leaders], top=top)
    chosen = with_other_purchases(search_result, offer[leaders], chosen, top=top)
    chosen = with_another_provider(search_result, offer[leaders], chosen)
    chosen = with_a_major_cloud(search_result, offer[leaders], chosen)
    return tuple(_row(offer, node, group, int(leader)) for leader in leaders[chosen])


def unbeaten(search_result: SearchResult, offer: Index, node: Index, first: Row) -> NDArray[np.bool_]:
    """Which rows do not beat the first one in cost and time: it leads because such differ by less
    than decides, or cannot be relied on, and what they are is said in words
    (`facts["decided_by"]`)."""
    usd, seconds = search_result.bill.total_usd[offer, node], search_result.bill.total_s[offer, node]
    its_usd, its_s = search_result.bill.total_usd[first.offer, first.node], search_result.bill.total_s[first.offer, first.node]
    beats = (usd < its_usd) & (seconds <= its_s) | (usd <= its_usd) & (seconds < its_s)
    return np.asarray(~beats)


def cheapest_row(search_result: SearchResult) -> Row | None:
    """The cheapest row within the user's filters, else of all whose time is known; price
    unknown counts last."""
    known = np.isfinite(search_result.bill.total_s)
    for mask in ((search_result.bits == 0) & known, known):
        if (row := first_row(search_result, mask)) is not None:
            return row
    return None


def first_row(search_result: SearchResult, mask: NDArray[np.bool_]) -> Row | None:
    """The row of a mask that the objective puts first."""
    offer, node = np.nonzero(mask)
    if not offer.shape[0]:
        return None
    best = ordered(search_result, offer, node, score_of(search_result, offer, node))[0]
    return Row(int(offer[best]), int(node[best]))


def ordered(search_result: SearchResult, offer: Index, node: Index, score: Array) -> Index:
    """Rows by objective, then cost, time, sound price before estimate, real region before pseudo
    region, fresh before stale, table order."""
    usd = counted_usd(search_result, search_result.bill.total_usd[offer, node], offer, node)
    seconds = search_result.bill.total_s[offer, node]
    offers = search_result.market.offers
    doubt = hearsay(search_result.market)[offer] * 4 + offers.is_pseudo_region[offer] * 2 + offers.is_stale[offer] * 1
    # Where time is what counts and is the same, one server goes before several:
    # fewer have to start.
    several = several_of(search_result, offer, node) & (search_result.workload.objective == "time")
    return np.lexsort((node, offer, doubt, seconds, usd, several, score))


def folding_groups(search_result: SearchResult, offer: Index, node: Index) -> Index:
    """Rows of one provider with the same accelerators on the same number of nodes, spot apart from
    the rest, are one option: they differ in region, purchase mode, host size."""
    offers, servers = search_result.market.offers, search_result.market.offers.servers
    kinds = [provider_codes(servers)[1], codes_of(servers.accelerator_name), servers.num_accelerators.astype(np.intp)]
    _, kind = distinct_rows(kinds)
    spot = (offers.purchase_index[offer] == SPOT).astype(np.intp)
    _, group = distinct_rows([kind[offers.server_index[offer]], node, spot])
    return group


def varied(search_result: SearchResult, offer: Index, *, top: int) -> list[int]:
    """Positions of the best rows with at most two of one provider's accelerator, filled up from
    the rest in order."""
    servers = search_result.market.offers.servers
    taken: dict[tuple[str, str], int] = {}
    chosen: list[int] = []
    left: list[int] = []
    for position, row in enumerate(offer.tolist()):
        if len(chosen) >= top:
            break
        server = int(search_result.market.offers.server_index[row])
        key = (servers.provider[server], servers.accelerator_name[server])
        taken[key] = taken.get(key, 0) + 1
        (chosen if taken[key] <= MOST_PER_ACCELERATOR else left).append(position)
    return sorted(chosen + left[: max(0, top - len(chosen))])


def with_other_purchases(search_result: SearchResult, offer: Index, chosen: list[int], *, top: int) -> list[int]:
    """Make sure that the best row that cannot be interrupted is among them, and the best spot row
    too where there is one."""
    spot = search_result.market.offers.purchase_index[offer] == SPOT
    for wanted in (False, True):
        candidates = np.flatnonzero(spot == wanted)
        if candidates.shape[0] and top > 1 and not any(bool(spot[position]) == wanted for position in chosen):
            chosen = sorted([*chosen[: top - 1], int(candidates[0])])
    return chosen


def with_another_provider(search_result: SearchResult, offer: Index, chosen: list[int]) -> list[int]:
    """Make sure that two providers are among three rows or more: the best row of another one takes
    the last place that no way to pay depends on."""
    offers = search_result.market.offers
    provider = provider_codes(offers.servers)[1][offers.server_index[offer]]
    others = np.flatnonzero(provider != provider[chosen[0]])
    if len(chosen) < 3 or not others.shape[0] or bool(np.any(provider[chosen] != provider[chosen[0]])):
        return chosen
    spot = (offers.purchase_index[offer] == SPOT).tolist()
    kinds = [spot[position] for position in chosen]
    spare = [position for position in chosen[1:] if kinds.count(spot[position]) > 1 or spot[position] == spot[others[0]]]
    return sorted([*(position for position in chosen if position != spare[-1]), int(others[0])]) if spare else chosen


def of_major_cloud(search_result: SearchResult, offer: Index) -> NDArray[np.bool_]:
    """Which offers are of a major cloud."""
    offers = search_result.market.offers
    providers, row = provider_codes(offers.servers)
    major = np.array([is_major(provider) for provider in providers], dtype=np.bool_)
    return np.asarray(major[row[offers.server_index[offer]]])


def with_a_major_cloud(search_result: SearchResult, offer: Index, chosen: list[int]) -> list[int]:
    """Make sure that a major cloud is among three rows or more: its best row takes the last place
    that no way to pay depends on."""
    major = of_major_cloud(search_result, offer)
    if len(chosen) < 3 or not major.any() or bool(major[chosen].any()):
        return chosen
    spot = (search_result.market.offers.purchase_index[offer] == SPOT).tolist()
    kinds, first = [spot[position] for position in chosen], int(np.flatnonzero(major)[0])
    spare = [position for position in chosen[1:] if kinds.count(spot[position]) > 1 or spot[position] == spot[first]] or chosen[-1:]
    return sorted([*(position for position in chosen if position != spare[-1]), first])


def _row(offer: Index, node: Index, group: Index, leader: int) -> Row:
    members = np.flatnonzero(group == group[leader])[1:]
    folded = tuple((int(offer[member]), int(node[member])) for member in members[:MOST_ALTERNATIVES])
    return Row(int(offer[leader]), int(node[leader]), folded, int(members.shape[0]))
