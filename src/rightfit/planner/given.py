"""One given server: what a job does on it (`estimate_one`), and why it was or was
not chosen (`why`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import InputError
from rightfit.families.registry import settled
from rightfit.market.names import find_provider
from rightfit.messages import Message
from rightfit.physics.columns import once
from rightfit.planner.plan import TOP, assumptions_of, default_catalog, explored, plan
from rightfit.records import dataclass
from rightfit.search.advice import slower_than_one, with_a_sequence_each, with_market_warnings
from rightfit.search.answer import Option, Plan, Reason
from rightfit.search.confirm import confirmed, energy_sections, options_of
from rightfit.search.constraints import SearchResult
from rightfit.search.family import Family
from rightfit.search.offers import Market
from rightfit.search.option_reasons import of_given, of_unpriced
from rightfit.search.rank import Row, ordered, score_of
from rightfit.search.refusals import failed_criteria, nearest_to_passing, placeless, refusal, standing_of
from rightfit.search.servers import Verdict, find_server, former_name, market_of_one, names_of
from rightfit.workload.vocabulary import read_cards

if TYPE_CHECKING:
    from rightfit.estimation.figures import Figure
    from rightfit.market import Catalog
    from rightfit.market.offers import ServerTable
    from rightfit.workload import Workload


LARGEST_NODES = 4096
#: Criteria that nothing is known of where a server has no price.
OFFER_CRITERIA = frozenset({"status", "region", "country", "purchase", "budget"})
UNSERVED = frozenset({"ttft", "tpot", "latency", "throughput"})


def usual_server(workload: Workload, on: str, catalog: Catalog | None = None) -> str:
    """A server as PROVIDER/INSTANCE; for so many cards ("H100", "8xH100") the one with them that is
    best for the job where nothing limits it; the cheapest with them where the job runs on none."""
    said = read_cards(on)
    if said is None or "/" in on or not facts.match_accelerators(said[1]):
        return on
    free: dict[str, Any] = {"deadline": None, "budget": None, "confidence": None}
    best = plan(workload.with_changes(gpu=(said[1],), num_gpus=said[0], max_nodes=1, **free), catalog=catalog, top=1).best
    return f"{best.provider}/{best.instance_type}" if best else _cheapest_with(catalog or default_catalog(), said[1], said[0]) or on


def _cheapest_with(catalog: Catalog, card: str, count: int) -> str:
    """The server with so many of a card that costs least; empty where there is none."""
    table, names = catalog.all_offers(has_accelerator=True), set(facts.match_accelerators(card))
    servers = table.servers
    fits = np.array([name in names for name in servers.accelerator_name]) & (servers.num_accelerators == count) & servers.is_recommendable
    prices = np.where(fits[table.server_index] & ~table.is_quarantined, table.price_usd_per_h, np.inf)
    row = int(table.server_index[np.argmin(prices)])
    return f"{servers.provider[row]}/{servers.instance_type[row]}" if np.isfinite(prices).any() else ""


def estimate_one(workload: Workload, *, on: str, nodes: int = 1, catalog: Catalog | None = None) -> Plan:
    """The job on `nodes` servers of one type, with the layout that the workload fixes and the best
    one for what it leaves open.

    The plan has one option, or none and `unfit` where the job does not run on them; a deadline, a
    budget or a filter that the server fails is in `rejected` but does not take the option away: the
    server was given.
    """
    catalog = catalog or default_catalog()
    on = usual_server(workload, on, catalog)
    family, workload = settled(workload)
    if not 1 <= nodes <= LARGEST_NODES:
        raise InputError(Message("planner.nodes", nodes=nodes, most=LARGEST_NODES), field="nodes")
    market, is_priced = market_of_one(catalog, find_server(catalog, on))
    given = family.given(workload, market, nodes, catalog)
    cards = nodes * float(market.offers.servers.num_accelerators[0])
    if not given.at and (larger := with_a_sequence_each(workload, family.name, cards)):
        given = family.given(larger, market, nodes, catalog)
    option = explained(family, given.shown, given.at, is_priced=is_priced) if given.at else None
    failed = failed_criteria(given.found, given.failing)
    if not is_priced:  # what has no price looks as if it could not be had at all
        failed = placeless(failed, OFFER_CRITERIA | (UNSERVED if option else frozenset()))
    fits = given.fits and option is not None
    beside = _beside_one(family, workload, market, option, catalog) if fits and option else ()
    option = of_given(option, fits=fits) if option else None
    return Plan(
        workload=workload,
        assumptions=assumptions_of(family, given.found),
        options=(option,) if option and fits else (),
        pareto=(),
        rejected=failed,
        advice=(*given.advice, *beside),
        catalog={"as_of": {name: date for name, date in market.as_of.items() if name == market.offers.servers.provider[0]}},
        counts=family.counts(given.found),
        blame=() if fits else tuple((rejection.criterion,) for rejection in failed),
        unfit=None if fits else option,
        given="/".join(names_of(catalog, on)),
        sections=(
            *(family.money(given.found, option, given.at, catalog) if option and given.at and fits and is_priced else ()),
            *(family.room(given.found, option, given.at) if option and given.at and fits else ()),
            *energy_sections((option,) if option and fits else ()),
        ),
    )


def figures_of_one(workload: Workload, *, on: str, catalog: Catalog | None = None) -> Option | None:
    """The figures that `estimate_one` gives, without its reasons and what it says beside: for a
    question that another one brings up."""
    catalog = catalog or default_catalog()
    family, workload = settled(workload)
    market, _ = market_of_one(catalog, find_server(catalog, on))
    given = family.given(workload, market, 1, catalog)
    return options_of(family, given.shown, [given.at], 1)[0] if given.at else None


def _beside_one(family: Family[Any], workload: Workload, market: Market, option: Option, catalog: Catalog) -> tuple[Reason, ...]:
    """Where several servers were given for a job that ends: whether one of them does it
    sooner, or for less."""
    if option.nodes == 1 or "total_time_s" not in option.estimate:
        return ()
    one = family.given(workload, market, 1, catalog)
    if not one.fits or one.at is None:
        return ()
    return slower_than_one(option, family.options(one.shown, [one.at], 1)[0])


def explained(family: Family[Any], search_result: SearchResult, row: Row, *, is_priced: bool) -> Option:
    """One row as an option with its reasons; a server without prices has no region
    and no way to pay."""
    option = family.reasons(search_result, options_of(family, search_result, [row], 1))[0]
    return with_market_warnings([option if is_priced else of_unpriced(option)], search_result)[0]


def why(workload: Workload, server: str, *, catalog: Catalog | None = None) -> Verdict:
    """Why a server was or was not chosen for a workload, and the least change
    that would alter it."""
    catalog = catalog or default_catalog()
    family, workload = settled(workload)
    named = _named(catalog, server)
    if isinstance(named, _Stand) and named.cloud and (not workload.cloud or named.cloud in workload.cloud):
        best = plan(workload.with_changes(cloud=(named.cloud,)), catalog=catalog, top=1).best
        named = (best.provider, best.instance_type) if best else named
    found, _ = confirmed(family, explored(family, workload, catalog)[0], TOP)  # as many as a plan confirms, so that both name one choice
    names = _server_with(named, found, catalog) if isinstance(named, _Stand) else named
    servers = found.market.offers.servers
    mine = np.array([pair == names for pair in zip(servers.provider, servers.instance_type, strict=True)], dtype=np.bool_)
    offers = np.flatnonzero(mine[found.market.offers.server_index])
    if offers.shape[0] and (found.bits[offers] == 0).any():
        return _feasible(family, found, offers, names)
    return _refused(family, found, offers, names, catalog)


class _Stand(NamedTuple):
    """What servers are named by that is none itself: which of a table have it, what is said where
    none has, and the cloud that it is."""

    has: Callable[[ServerTable], NDArray[np.bool_]]
    none: Message
    cloud: str = ""


def _named(catalog: Catalog, server: str) -> tuple[str, str] | _Stand:
    """The server of a name, or which servers have the accelerators ("L4", "2x RTX 4090") or are of
    the cloud ("gcp") that it names, and what is said where none is; of a name that is both, the
    accelerator, which is what people mean."""
    said = None if set(server) & set("/._") else read_cards(server)
    if said is not None and (cards := facts.match_accelerators(said[1])):
        count = said[0]
        title = f"{count} x {cards[0]}" if count > 1 else " / ".join(cards)
        return _Stand(lambda table: _with_cards(table, cards, count), Message("planner.no_server_with", card=title))
    if cloud := find_provider(server):
        none = Message("planner.no_server_of", cloud=cloud)
        return _Stand(lambda table: np.array([name == cloud for name in table.provider], dtype=np.bool_), none, cloud)
    return names_of(catalog, server)


def _server_with(stand: _Stand, found: SearchResult, catalog: Catalog) -> tuple[str, str]:
    """The server that stands for accelerators or a cloud: the first feasible one, else the cheapest
    of those that fail the fewest criteria, else one that nobody offers."""
    table = found.market.offers
    servers = table.servers
    offers = np.flatnonzero(stand.has(servers)[table.server_index])
    if not offers.shape[0]:
        for listed in (catalog.servers(has_accelerator=True), catalog.servers()):
            unoffered = np.flatnonzero(stand.has(listed))
            if unoffered.shape[0]:
                return listed.provider[unoffered[0]], listed.instance_type[unoffered[0]]
        raise InputError(stand.none, field="on")
    failed = np.array([[int(bits).bit_count() for bits in row] for row in found.bits[offers]])
    fewest = np.flatnonzero(failed.min(axis=1) == failed.min())
    if failed.min() == 0:
        offer, column = np.nonzero(found.bits == 0)
        order = ordered(found, offer, column, score_of(found, offer, column))
        chosen = next(int(one) for one in offer[order] if one in set(offers.tolist()))
    else:
        prices = np.nan_to_num(table.price_usd_per_h[offers[fewest]], nan=np.inf)
        chosen = int(offers[fewest][int(np.argmin(prices))])
    row = int(table.server_index[chosen])
    return str(servers.provider[row]), str(servers.instance_type[row])


def _with_cards(servers: ServerTable, cards: tuple[str, ...], count: int) -> NDArray[np.bool_]:
    """Which servers have one of these accelerators; of a count over 1, exactly so many."""
    has = np.array([name in cards for name in servers.accelerator_name], dtype=np.bool_)
    return has & (servers.num_accelerators == count) if count > 1 else has


def _feasible(family: Family[Any], search_result: SearchResult, offers: NDArray[np.intp], names: tuple[str, str]) -> Verdict:
    """Where a feasible server stands among all feasible ones, and the price at
    which it would lead."""
    offer, column = np.nonzero(search_result.bits == 0)
    order = ordered(search_result, offer, column, score_of(search_result, offer, column))
    position = int(np.argmax(np.isin(offer[order], offers)))
    first, at = (Row(int(offer[order[place]]), int(column[order[place]])) for place in (0, position))
    built = options_of(family, search_result, [first, at] if position else [at], 2)
    rank = once(search_result.market.offers.server_index[offer[order[:position]]]).shape[0] + 1 if position else 1
    option = dataclasses.replace(built[-1], rank=rank)
    standing = (_standing(family.told(search_result), option, built[0]),)
    return Verdict(
        search_result.workload,
        assumptions_of(family, search_result),
        *names,
        True,
        of_given(family.reasons(search_result, [option])[0], fits=True),
        standing,
        (),
    )


def _standing(told: tuple[str, str], option: Option, best: Option) -> Reason:
    """Best, or its rank with money and time beside those of the choice."""
    money, time = told
    params: dict[str, Any] = {money: option.cost.total_usd, time: option.estimate[time].mid}
    if option.rank == 1:
        return Reason("why_best", params)
    ratio = best.cost.total_usd / option.cost.total_usd
    others = {"best_usd": best.cost.total_usd, "best_time_s": best.estimate[time].mid, "price_factor": ratio}
    return Reason("why_ranked", {"rank": option.rank, **params, "best": f"{best.nodes} x {best.provider} {best.instance_type}", **others})


def _refused(
    family: Family[Any], search_result: SearchResult, offers: NDArray[np.intp], names: tuple[str, str], catalog: Catalog
) -> Verdict:
    """What excluded a server, the least changes, and what it would do all the same; of one that the
    search left out, why it did."""
    server = "/".join(names)
    if offers.shape[0]:
        failed = failed_criteria(search_result, nearest_to_passing(search_result, offers))
        alone = estimate_one(search_result.workload, on=server, nodes=failed[0].nearest.nodes if failed[0].nearest else 1, catalog=catalog)
        standing = standing_of(failed)
    else:
        alone = _enough(search_result.workload, server, catalog)
        row = find_server(catalog, server)
        is_priced, failed = market_of_one(catalog, row)[1], alone.rejected
        unlisted = (Reason("why_unlisted", {}),) if is_priced else (Reason("why_unpriced", {}), *former_name(catalog, row))
        standing = (*unlisted, *map(refusal, failed))
    return Verdict(
        search_result.workload,
        assumptions_of(family, search_result),
        *names,
        alone.best is not None,
        alone.best or alone.unfit,
        standing,
        failed,
    )


def _enough(workload: Workload, server: str, catalog: Catalog) -> Plan:
    """As many servers of a type as a load needs, and no more than the user allows."""
    one = estimate_one(workload, on=server, catalog=catalog)
    if one.unfit is None or one.unfit.nodes == 1 or workload.max_nodes == 1:
        return one
    return estimate_one(workload, on=server, nodes=min(one.unfit.nodes, workload.max_nodes or one.unfit.nodes), catalog=catalog)


# ---- One server type at growing numbers of servers: how time, money and throughput move, each
# number planned anew.

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True, slots=True)
class ScalePoint:
    """`nodes` servers: `time_s` of the job, or the latency of a request of a service; `usd` of the
    job, or of a month; `requests_per_s` of a service. `gain`: how many times the speed (a service:
    the throughput) of the smallest number that works, and `share` what that is of as many times
    the servers."""

    nodes: int
    time_s: Figure
    usd: Figure
    requests_per_s: Figure | None
    gain: float
    share: float


def scaling(workload: Workload, *, on: str, catalog: Catalog | None = None) -> tuple[ScalePoint, ...]:
    """A point for each number of servers on which the work runs; empty where it runs on none."""
    found: list[ScalePoint] = []
    for nodes in COUNTS:
        option = estimate_one(workload, on=on, nodes=nodes, catalog=catalog).best
        if option is None:
            if found:
                break  # more of them do not help either
            continue
        time = option.estimate["total_time_s" if "total_time_s" in option.estimate else "latency_s"]
        requests = None if "total_time_s" in option.estimate else option.estimate.get("requests_per_s")
        first = found[0] if found else None
        gain = 1.0
        if first is not None:
            gain = requests.mid / first.requests_per_s.mid if requests and first.requests_per_s else first.time_s.mid / time.mid
        found.append(ScalePoint(nodes, time, option.cost.total, requests, gain, gain * (first.nodes if first else nodes) / nodes))
    return tuple(found)
