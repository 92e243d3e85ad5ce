"""Sense before pennies: what leads among options whose costs differ by less than is known.

Costs that differ by under a tenth or a dollar (of a service under a tenth or $50 a month) do not
decide. Among what is as good as equal these do, in this order (RULES): what runs without last
resorts such as state in host RAM, what surely fits its memory, what surely keeps a deadline or a
budget, measured stacks before unmeasured ones, x86 before Arm, on demand before spot while it costs
under $5, one server before several, what ends soon before what takes days, few cards before many,
established sellers first, usual places first. Arm must save 15 % and $2 of a job to go before x86
at all, an unusual region as much to go before a usual one, a server whose GPU would be idle 30 %,
and a GPU without measured runs 30 % and a day's work to go before one that has them (`counted`).
Of work that is done many times these dollars are those of all of it (`repeated`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.market.offers import PURCHASES, ages_of_dates, today
from rightfit.market.packed_tables import rules
from rightfit.market.sellers import offer_tiers
from rightfit.physics.columns import Array
from rightfit.search.market import SPOT
from rightfit.search.offers import Market, hearsay

if TYPE_CHECKING:
    from rightfit.market import OfferTable, ServerTable
    from rightfit.search.constraints import SearchResult

Index = NDArray[np.intp]
Flags = NDArray[np.bool_]

#: What decides among equals, the weightiest first.
RULES = ("plain", "room", "sure", "measured", "arch", "held", "servers", "soon", "cards", "seller", "place")
#: Those that count as money too (advice.counted_usd), so that more than a tenth may lie between.
WEIGHED = ("plain", "measured", "arch", "servers", "place")
#: What stands behind whatever can be had, however little it costs.
SCARCE = ("elsewhere", "abroad", "manual", "free", "many", "older")
ARM, MAINLAND = "arm64", "CN"
ESTABLISHED = 2
DAYS_PER_YEAR = 365.0
CALIBRATED = ("NVIDIA", "")


def is_arm(offers: OfferTable) -> Flags:
    """Offers (O,) of servers with Arm processors: images and wheels must be built for them."""
    return _on_arm(offers.servers)[offers.server_index]


@functools.lru_cache(maxsize=4)
def _on_arm(servers: ServerTable) -> Flags:
    return np.array([arch == ARM for arch in servers.arch], dtype=np.bool_)


def is_unmeasured(offers: OfferTable) -> Flags:
    """Offers (O,) of servers whose accelerators no measured run of ours stands behind."""
    return _uncalibrated(offers.servers)[offers.server_index]


@functools.lru_cache(maxsize=4)
def _uncalibrated(servers: ServerTable) -> Flags:
    cards, names = facts.accelerators(), servers.accelerator_name
    measured = {name: not name or cards[name].vendor in CALIBRATED for name in set(names)}
    return np.array([not measured[name] for name in names], dtype=np.bool_)


def counted(search_result: SearchResult, usd: Array, offer: Index) -> Array:
    """What money of rows counts for: that of Arm as much as x86 might cost instead, that of
    unusual regions as much as usual ones might, that of accelerators without measured runs as much
    as those with them might."""
    usual, offers = facts.coefficients("planning"), search_result.market.offers
    odd = [("arm_saves", is_arm(offers)[offer]), ("place_saves", _is_unusual(search_result)[offer])]
    if search_result.workload.task == "prepare":  # processors do it: a GPU beside them stands idle
        odd.append(("idle_gpu_saves", offers.servers.num_accelerators[offers.server_index[offer]] > 0))
    least = 0.0 if search_result.workload.task == "serve" else usual["odd_saves_usd"] / _TIMES.get()
    for name, rows in odd:  # cents are worth none of them
        usd = np.where(rows, np.maximum(usd / (1.0 - usual[name]), usd + least), usd)
    instead = np.maximum(usd / (1.0 - usual["unmeasured_saves"]), usd + usual["unmeasured_saves_usd"] / _TIMES.get())
    return np.where(is_unmeasured(offers)[offer], instead, usd)


def slowness(search_result: SearchResult, seconds: Array) -> Array:
    """What waiting multiplies money of rows by where a deadline was stated: a tenth for each
    doubling of what anybody waits for. Without one nobody said that time matters, so that a later
    deadline and none never cost more."""
    usual, deadline_s = facts.coefficients("planning"), search_result.filters.deadline_s
    if deadline_s is None or search_result.workload.task == "serve":
        return np.ones(seconds.shape)
    patience_s = max(usual["patience_s"], usual["patience_share"] * deadline_s)
    doublings = np.log2(np.maximum(seconds / patience_s, 1.0))
    return np.asarray(np.where(np.isfinite(doublings), 1.0 + usual["equal_share"] * doublings, 1.0))


#: How often the work of a plan is done: what is cents of one run is dollars of a hundred.
_TIMES: ContextVar[float] = ContextVar("times", default=1.0)


@contextlib.contextmanager
def repeated(times: float) -> Iterator[None]:
    """Plans within are of work that is done so many times."""
    token = _TIMES.set(max(times, 1.0))
    try:
        yield
    finally:
        _TIMES.reset(token)


def as_good_as(usd: Array, least: Array | float, *, task: str) -> Flags:
    """Costs (any shape) that do not differ from a least one by more than decides."""
    usual = facts.coefficients("planning")
    apart = usual["equal_usd_per_month" if task == "serve" else "equal_usd"] / _TIMES.get()
    return np.asarray(usd <= np.maximum(np.asarray(least) * (1.0 + usual["equal_share"]), np.asarray(least) + apart))


def sensible(search_result: SearchResult, offer: Index, node: Index, score: Array, *, money: Array, kinds: Index) -> Array:
    """Scores of rows with sense in them, where cost is what counts: of all that are as good as the
    first the most sensible one leads. `money`: the scores before rows were moved behind others,
    `kinds`: why each was (a code); only rows of one kind are as good as each other."""
    if search_result.workload.objective != "cost" or not score.size:
        return score
    leading = int(np.argmin(score))
    usd, task = search_result.bill.total_usd[offer, node], search_result.workload.task
    # Equal in money too: what one server is worth beside several counts once, not twice.
    near = as_good_as(money, money[leading], task=task) & as_good_as(usd, usd[leading], task=task)
    equal = np.flatnonzero((kinds == kinds[leading]) & near)
    if equal.size < 2:
        return score
    rows, columns = offer[equal], node[equal]
    marks = marks_of(search_result, rows, columns, search_result.bill.total_usd[rows, columns])
    keys = [*(marks[name] for name in RULES), score[equal], search_result.bill.total_s[rows, columns]]
    left = np.arange(equal.size)
    for key in keys:  # the first of a sort, without sorting
        left = left[key[left] == key[left].min()]
    out = score.copy()
    out[equal[left[0]]] = min(float(score.min()), 0.0) - 1.0
    return out


def unhurried(search_result: SearchResult, offer: Index, node: Index, score: Array, *, usd: Array, kinds: Index) -> Array:
    """Scores of rows where time is what counts, for a job: a row that takes little longer than the
    first leads where the first costs several times as much. `usd`: what rows count as; `kinds`: as
    for `sensible`."""
    if search_result.workload.objective != "time" or search_result.workload.task == "serve" or not score.size:
        return score
    usual, seconds = facts.coefficients("planning"), search_result.bill.total_s[offer, node]
    leading = int(np.lexsort((usd, score))[0])
    near = (kinds == kinds[leading]) & (seconds <= seconds[leading] * (1.0 + usual["equal_share"]))
    spared = np.flatnonzero(near & (usd * usual["haste_times"] <= usd[leading]))
    if not spared.size:
        return score
    out = score.copy()
    out[spared[np.argmin(usd[spared])]] = min(float(score.min()), 0.0) - 1.0
    return out


def usual_place_first(search_result: SearchResult, offer: Index, node: Index, score: Array) -> Array:
    """Scores in which, where cost counts, of one server and way to pay a row that is cheaper
    by less than decides but in a less usual place comes directly behind the usual one."""
    if search_result.workload.objective != "cost" or not score.size:
        return score
    offers, unusual = search_result.market.offers, _unusual(search_result)[offer] > 0
    kind = (offers.server_index[offer] * len(PURCHASES) + offers.purchase_index[offer]) * (int(node.max()) + 1) + node
    least, usual = np.full(int(kind.max()) + 1, np.inf), np.full(int(kind.max()) + 1, np.inf)
    np.fmin.at(least, kind, score)
    near = ~unusual & as_good_as(score, least[kind], task=search_result.workload.task)
    np.fmin.at(usual, kind[near], score[near])
    leading = usual[kind]
    return np.where((score < leading) & np.isfinite(leading), np.nextafter(leading, np.inf), score)


def marks_of(search_result: SearchResult, offer: Index, node: Index, usd: Array) -> Mapping[str, Array]:
    """What speaks against each row, by rule: 0 nothing."""
    offers, several = search_result.market.offers, _servers(search_result, offer, node) > 1
    # One limit for all that are compared: else the dearer of two on spot would lead.
    is_small = float(usd.min(initial=np.inf)) * _TIMES.get() < facts.coefficients("planning")["held_under_usd"]
    return {
        "plain": search_result.last_resort(offer, node).astype(np.float64),
        "room": search_result.is_tight(offer, node).astype(np.float64),
        "sure": _unsure(search_result, offer, node),
        "measured": is_unmeasured(offers)[offer].astype(np.float64),
        "arch": is_arm(offers)[offer].astype(np.float64),
        "held": (offers.purchase_index[offer] == SPOT) * float(is_small and search_result.workload.task != "serve"),
        "servers": several.astype(np.float64),
        "soon": _late(search_result, search_result.bill.total_s[offer, node], several),
        "cards": _cards(search_result, offer, node),
        "seller": (offer_tiers(offers)[offer] > ESTABLISHED).astype(np.float64),
        "place": _unusual(search_result)[offer],
    }


def _unusual(search_result: SearchResult) -> Array:
    """Places (O,) that are not usual; 0 everywhere where the user named a place."""
    offers = search_result.market.offers
    return np.zeros(len(offers)) if search_result.filters.regions else _unusual_places(offers)


def _is_unusual(search_result: SearchResult) -> Flags:
    """Offers (O,) in named regions that are not usual, of clouds with a usual one in the countries
    that the user allows; none where the user named a region."""
    offers, allowed = search_result.market.offers, search_result.filters.countries
    unusual = _unusual_regions(offers.region_providers, offers.regions) > 0
    if search_result.filters.regions or not unusual.any():
        return np.zeros(len(offers), dtype=np.bool_)
    unusual &= _has_usual_region(offers.region_providers, offers.regions, offers.region_countries, tuple(allowed))
    return np.asarray(unusual[offers.region_index] & ~offers.is_pseudo_region)


@functools.lru_cache(maxsize=8)
def _has_usual_region(owners: tuple[str, ...], names: tuple[str, ...], countries: tuple[str, ...], allowed: tuple[str, ...]) -> Flags:
    """Regions (R,) of clouds with a usual region in the allowed countries; in any where none are
    named."""
    known: Mapping[str, list[str]] = rules()["usual_regions"]
    places = zip(owners, names, countries, strict=True)
    near = {owner for owner, name, country in places if name in known.get(owner, ()) and (not allowed or country in allowed)}
    return np.array([owner in near for owner in owners], dtype=np.bool_)


def _unusual_places(offers: OfferTable) -> Array:
    """Places (O,) that are not among the usual ones of their cloud, or are not named at all; 0 for
    clouds of which none is called usual."""
    return np.maximum(_unusual_regions(offers.region_providers, offers.regions)[offers.region_index], offers.is_pseudo_region)


def leading_rows(market: Market, rows: Index, kind: Index) -> Index:
    """Of offers of one kind (a code of each of the rows, of way to pay too) those that may lead
    whatever the wish, ascending: by expected price the cheapest, and the cheapest in a usual place;
    on either side of the border of mainland China, of prices that somebody asks and of others."""
    offers = market.offers
    home = np.array([country == MAINLAND for country in offers.region_countries], dtype=np.intp)[offers.region_index[rows]]
    unusual = _unusual_places(offers)[rows] > 0
    kind, usd = (kind * 2 + home) * 2 + hearsay(market)[rows], offers.price_usd_per_h[rows]
    usual = np.flatnonzero(~unusual)
    leads = np.zeros(rows.shape[0], dtype=np.bool_)
    leads[_least_of_each(kind, usd, unusual)] = True
    leads[usual[_least_of_each(kind[usual], usd[usual], unusual[usual])]] = True
    return np.sort(rows[leads])


def _least_of_each(kind: Index, usd: Array, is_behind: Flags) -> Index:
    """The row of the least price of each kind; of equal ones the first that is not behind."""
    size, number = int(kind.max(initial=-1)) + 1, kind.shape[0]
    least, first = np.full(size, np.inf), np.full(size, 2 * number)
    usd = np.where(np.isnan(usd), np.inf, usd)
    np.minimum.at(least, kind, usd)
    equal = np.flatnonzero(usd == least[kind])
    np.minimum.at(first, kind[equal], equal + number * is_behind[equal])
    return np.asarray(first[first < 2 * number] % max(number, 1), dtype=np.intp)


@functools.lru_cache(maxsize=4)
def _unusual_regions(providers: tuple[str, ...], regions: tuple[str, ...]) -> Array:
    known: Mapping[str, list[str]] = {name: row for name, row in rules()["usual_regions"].items() if isinstance(row, list)}
    return np.array(
        [float(owner in known and name not in known[owner]) for owner, name in zip(providers, regions, strict=True)], dtype=np.float64
    )


def many_at_once(search_result: SearchResult, offer: Index, node: Index) -> Flags:
    """Rows of many servers on spot: so many at once are seldom had, and seldom kept; where time is
    what counts, of many servers at all, which nothing but haste asks for."""
    in_haste = search_result.workload.objective == "time"
    is_short = (search_result.market.offers.purchase_index[offer] == SPOT) | in_haste
    return np.asarray(is_short & (_servers(search_result, offer, node) >= facts.coefficients("planning")["many_servers"]))


def much_older(search_result: SearchResult, offer: Index, node: Index) -> NDArray[np.bool_]:
    """Rows whose price is older than what is known of such prices, and a year or more older than
    another such price that is not several times as high."""
    offers, doubt = search_result.market.offers, search_result.market.doubt
    if doubt is None:
        return np.zeros(offer.shape, dtype=np.bool_)
    ages = np.where(doubt.is_beyond & ~offers.is_estimate, ages_of_dates(offers.as_of_dates, today())[offers.as_of_index], np.nan)[offer]
    usd, usual = search_result.bill.total_usd[offer, node], facts.coefficients("planning")
    newest = float(np.fmin.reduce(ages, initial=np.inf))
    least = usd[ages <= newest + DAYS_PER_YEAR].min(initial=np.inf)
    return np.asarray((ages > newest + DAYS_PER_YEAR) & (usd * usual["old_price_rise"] >= least))


def _servers(search_result: SearchResult, offer: Index, node: Index) -> Array:
    """Servers of rows; 0 where nothing runs."""
    number = search_result.num_servers(offer, node)
    return np.where(np.isfinite(number), number, 0.0)


def _unsure(search_result: SearchResult, offer: Index, node: Index) -> Array:
    """1 for rows (N,) that keep a deadline or a budget with less than 19 chances in 20."""
    sure, wanted, told = search_result.failures.sure, search_result.filters, facts.coefficients("planning")["surely"]
    missed = np.zeros(offer.shape, dtype=np.bool_)
    if sure is not None and wanted.deadline_s is not None:
        missed |= sure.time_s(told)[offer, node] > wanted.deadline_s
    if sure is not None and wanted.budget_usd is not None:
        missed |= sure.usd(told)[offer, node] > wanted.budget_usd
    return missed.astype(np.float64)


def _late(search_result: SearchResult, seconds: Array, several: Flags) -> Array:
    """1 for rows (N,) of a job that take longer than anybody waits where another takes clearly less
    for as good as the same money: a night, or a share of the deadline. What several servers do
    sooner does not count beside one."""
    if search_result.workload.task == "serve" or not seconds.size:
        return np.zeros(seconds.shape)
    usual, deadline_s = facts.coefficients("planning"), search_result.filters.deadline_s
    patience_s = max(usual["patience_s"], usual["patience_share"] * (deadline_s or 0.0))
    soonest_s = float(seconds[~several].min() if not several.all() else seconds.min())
    return np.asarray((seconds > patience_s) & (seconds > usual["clearly_longer"] * soonest_s)).astype(np.float64)


def _cards(search_result: SearchResult, offer: Index, node: Index) -> Array:
    """Cards (O,): each is one more that must be free, be driven and keep up with the others. Of a
    service each answer of many small ones waits for all of them; a job that needs fewer takes them
    unless many save clearly, or end it in time."""
    offers = search_result.market.offers
    return np.asarray(np.ceil(offers.servers.num_accelerators[offers.server_index[offer]]) * _servers(search_result, offer, node))
