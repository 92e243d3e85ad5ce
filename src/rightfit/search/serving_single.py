"""One given server under a service or a batch job: what a number of them does (`estimate_serving`), and why it was or was not chosen (`why_serving`)."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array
from rightfit.search.answer import Option, Plan, Reason, Rejection
from rightfit.search.explore import Market, read_market
from rightfit.search.rank import Row, ordered, score_of
from rightfit.search.reasons import CRITERIA
from rightfit.search.serving_answer import build_serving_options
from rightfit.search.serving_batch import judged_batch
from rightfit.search.serving_grid import at_load
from rightfit.search.serving_planner import serving_assumptions, serving_counts
from rightfit.search.serving_reasons import near_miss, needed_and_had, with_serving_reasons
from rightfit.search.serving_refine import Confirmed, Queued, queued, refined
from rightfit.search.serving_replicas import replica_columns
from rightfit.search.serving_search import ServingExploration, explore_serving, judge_serving, monthly_bill, replicas_needed, share_of_load
from rightfit.search.single import OFFER_CRITERIA, Verdict, find_server, names_of

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload

#: Candidates that are tried by the queue model before the one of the search is taken.
MOST_TRIED = 4
REFUSED_FAR = 1e9
#: Criteria that no change of the wish mends: a format that does not run here counts as far off.
HOPELESS, HOPELESS_WEIGHT = frozenset({"status", "capability", "layout"}), 10.0
UNSERVED = frozenset({"ttft", "tpot", "latency", "throughput"})


def estimate_serving(workload: Workload, *, on: str, nodes: int, catalog: Catalog) -> Plan:
    """The service or the batch job on `nodes` servers of one type, with the stack that serves it best there.

    One option where they carry the load within the limits; else none, `rejected` says why not, and `unfit` is the number of these servers that would,
    where there is one. A filter or a budget that the server fails is in `rejected` but does not take the option away: the server was given.
    """
    row = find_server(catalog, on)
    market, is_priced = market_of_server(catalog, row)
    found = on_servers(explore_serving(workload, catalog, market=market), nodes)
    at = _cheapest(found)
    enough = at is not None and _servers_of(found, at) <= nodes
    option = _explained(found, at, is_priced=is_priced) if at is not None else None
    failed = failed_criteria(found, _nearest(found, np.arange(len(found.market.offers))) if at is None else (at.offer, at.node))
    if not is_priced:  # what has no price looks as if it could not be had at all
        unknown = OFFER_CRITERIA | (UNSERVED if at is not None else frozenset())
        failed = tuple(_placeless(rejection) for rejection in failed if rejection.criterion not in unknown)
    return Plan(
        workload=workload,
        assumptions=serving_assumptions(found),
        options=(option,) if option and enough else (),
        pareto=(),
        rejected=failed,
        advice=(),
        catalog={"as_of": {name: date for name, date in market.as_of.items() if name == market.offers.servers.provider[0]}},
        counts=serving_counts(found),
        blame=() if enough else tuple((rejection.criterion,) for rejection in failed),
        unfit=None if enough else option,
        given="/".join(names_of(catalog, on)),
    )


def market_of_server(catalog: Catalog, row: int) -> tuple[Market, bool]:
    """The market of one server alone, with or without accelerators, and whether it has prices; one without gets an offer of unknown price."""
    table = catalog.all_offers()
    sound = ~table.is_quarantined & np.isfinite(table.price_usd_per_h)
    rows = np.flatnonzero(sound & (table.server_index == row))
    is_priced = rows.shape[0] > 0
    rows = rows if is_priced else np.zeros(1, dtype=np.intp)
    whole = read_market(catalog, table.take(rows))
    servers = catalog.servers().take(np.array([row], dtype=np.intp))
    offers = dataclasses.replace(whole.offers, servers=servers, server_index=np.zeros(rows.shape[0], dtype=np.intp))
    if not is_priced:
        offers = dataclasses.replace(offers, price_usd_per_h=np.full(1, np.nan))
    return dataclasses.replace(whole, offers=offers), is_priced


def on_servers(found: ServingExploration, nodes: int) -> ServingExploration:
    """The search with exactly so many servers; where those are too few, with as many as are needed, which then breaks the limit of servers."""
    wanted = dataclasses.replace(found.wanted, any_software=True, max_nodes=nodes)
    if found.wish.is_batch:
        judged = judged_batch(found.wish, wanted, found.market, found.fleet, found.space, found.grid, node_counts=(nodes,))
        return dataclasses.replace(judged, passes=found.passes, times=found.times)
    found, _ = refined(found, top=1)
    found = _with_fixed(found, nodes)
    bill = monthly_bill(found.wish, found.market, found.fleet, found.space, found.sizing)
    failures = judge_serving(found.market, found.fleet, found.space, wanted, found.wish, found.capacity, found.sizing, bill, found.column)
    return dataclasses.replace(found, wanted=wanted, bill=bill, failures=failures, bits=failures.bits())


def _with_fixed(found: ServingExploration, nodes: int) -> ServingExploration:
    """Each (class, format) sized for `nodes` servers where a candidate carries the load on them: the one with the least latency."""
    row, replicas, servers, latency = (getattr(found.sizing, name).copy() for name in ("row", "replicas", "servers", "latency_s"))
    confirmed: dict[int, Queued] = dict(found.confirmed.kept)
    for machine, column in np.argwhere(row >= 0).tolist():
        best = _best_on(found, np.flatnonzero((found.space.machine == machine) & (found.column == column)), nodes)
        if best is None:
            continue
        at, count, seconds, known = best
        row[machine, column], replicas[machine, column], servers[machine, column], latency[machine, column] = at, count, nodes, seconds
        if known is not None:
            confirmed[at] = known
    sizing = dataclasses.replace(found.sizing, row=row, replicas=replicas, servers=servers, latency_s=latency)
    return dataclasses.replace(found, sizing=sizing, confirmed=Confirmed(confirmed, found.confirmed.dropped))


def _best_on(found: ServingExploration, rows: NDArray[np.intp], nodes: int) -> tuple[int, float, float, Queued | None] | None:
    """The candidate with the least latency on so many servers: its row, replicas, latency, and the queue model's figures where it speaks of it."""
    space, wish = found.space, found.wish
    per_group = np.maximum(found.fleet.gpus_per_node[space.machine[rows]] // np.maximum(space.tensor[rows], 1), 1)
    replicas = (nodes // space.nodes[rows] * per_group).astype(np.float64)
    needed = replicas_needed(wish, found.capacity)[rows]
    usable = np.flatnonzero((replicas > 0) & (needed <= replicas))
    if not usable.shape[0]:
        return None
    rows, replicas = rows[usable], replicas[usable]
    part = found.grid.take(rows)
    latency: Array = at_load(part, part.latency_s, **share_of_load(wish, replicas))
    order = np.argsort(latency, kind="stable")
    if not (wish.generates and wish.rate_per_s and wish.load is not None):
        at = int(order[0])
        return int(rows[at]), float(replicas[at]), float(latency[at]), None
    for at in order[:MOST_TRIED].tolist():
        known = queued(wish, replica_columns(space.take(rows[at : at + 1])), replicas=float(replicas[at]))
        if known.excess <= 1.0:
            return int(rows[at]), float(replicas[at]), known.values[f"latency_s@{wish.limits.percentile:g}"], known
    return None


def _servers_of(found: ServingExploration, at: Row) -> float:
    machine = int(found.fleet.machine_index[int(found.market.offers.server_index[at.offer])])
    return float(found.sizing.servers[machine, at.node]) if machine >= 0 else math.inf


def _cheapest(found: ServingExploration) -> Row | None:
    """The cheapest offer within the user's filters, else of all that are enough, else of all that would be with more servers."""
    known = np.isfinite(found.bill.total_s)
    over = np.left_shift(1, CRITERIA.index("max_nodes"))
    for mask in ((found.bits == 0) & known, (found.bits & over == 0) & known, (found.bits & ~over == 0) & known, known):
        offer, column = np.nonzero(mask)
        if offer.shape[0]:
            one = cast("Any", found)
            best = int(ordered(one, offer, column, score_of(one, offer, column))[0])
            return Row(int(offer[best]), int(column[best]))
    return None


def _explained(found: ServingExploration, at: Row, *, is_priced: bool) -> Option:
    """One row as an option with its reasons; a server without prices has no region and no purchase mode."""
    option = with_serving_reasons(found, build_serving_options(found, [at]))[0]
    if is_priced:
        return option
    nothing = dataclasses.replace(option, region="", purchase="", price_as_of="", price_source="")
    return dataclasses.replace(nothing, warnings=(Reason("price_unknown", {}),))


def _placeless(rejection: Rejection) -> Rejection:
    nearest = dataclasses.replace(rejection.nearest, region="", purchase="") if rejection.nearest else None
    return dataclasses.replace(rejection, nearest=nearest)


def failed_criteria(found: ServingExploration, at: tuple[int, int]) -> tuple[Rejection, ...]:
    """The criteria that one (offer, format) fails, each with its least change."""
    bits = int(found.bits[at])
    out = []
    for position, criterion in enumerate(CRITERIA):
        if bits >> position & 1:
            needed, had = needed_and_had(found, criterion, at)
            miss = near_miss(found, criterion, at)
            margin = float(found.failures.margin(criterion)[at])
            out.append(Rejection(criterion, 1, 1, needed, had, margin, f"{miss.provider}/{miss.instance_type}", miss))
    return tuple(out)


def _nearest(found: ServingExploration, offers: NDArray[np.intp]) -> tuple[int, int]:
    """Of these offers the (offer, format) that is nearest to passing: fewest failing criteria, then least margin."""
    bits = found.bits[offers]
    failing, margin = np.zeros(bits.shape), np.zeros(bits.shape)
    for position, criterion in enumerate(CRITERIA):
        fails = (bits >> position) & 1
        failing += fails * (HOPELESS_WEIGHT if criterion in HOPELESS else 1.0)
        margin += fails * np.minimum(np.nan_to_num(found.failures.margin(criterion)[offers], nan=REFUSED_FAR), REFUSED_FAR)
    offer, column = np.unravel_index(int(np.lexsort((margin.ravel(), failing.ravel()))[0]), bits.shape)
    return int(offers[offer]), int(column)


def why_serving(workload: Workload, server: str, *, catalog: Catalog) -> Verdict:
    """Where a server stands in the plan of a service or batch job: its rank and cost beside the choice, or what excluded it and the least change."""
    find_server(catalog, server)
    owner, kind = names_of(catalog, server)
    found, _ = refined(explore_serving(workload, catalog), top=1)
    servers = found.market.offers.servers
    mine = np.array([pair == (owner, kind) for pair in zip(servers.provider, servers.instance_type, strict=True)])
    offers = np.flatnonzero(mine[found.market.offers.server_index])
    if offers.shape[0] and (found.bits[offers] == 0).any():
        return _feasible(found, offers, owner, kind)
    if offers.shape[0]:
        return _refused(found, offers, workload, catalog, owner, kind)
    return _absent(found, workload, catalog, owner, kind)


def _feasible(found: ServingExploration, offers: NDArray[np.intp], owner: str, kind: str) -> Verdict:
    """Where a feasible server stands among all feasible ones, and the price at which it would lead."""
    one = cast("Any", found)
    offer, column = np.nonzero(found.bits == 0)
    order = ordered(one, offer, column, score_of(one, offer, column))
    position = int(np.argmax(np.isin(offer[order], offers)))
    first, at = (Row(int(offer[order[place]]), int(column[order[place]])) for place in (0, position))
    built = build_serving_options(found, [first, at] if position else [at])
    rank = np.unique(found.market.offers.server_index[offer[order[:position]]]).shape[0] + 1 if position else 1
    option = dataclasses.replace(built[-1], rank=rank)
    standing = (_standing(found, option, built[0]),)
    return Verdict(
        found.wish.workload, serving_assumptions(found), owner, kind, True, with_serving_reasons(found, [option])[0], standing, ()
    )


def _standing(found: ServingExploration, option: Option, best: Option) -> Reason:
    """Best, or its rank with cost and time beside those of the choice."""
    time = "total_time_s" if found.wish.is_batch else "latency_s"
    money = "total_usd" if found.wish.is_batch else "monthly_usd"
    params: dict[str, Any] = {money: option.cost.total_usd, time: option.estimate[time].mid}
    if option is best or option.rank == 1:
        return Reason("why_best", params)
    ratio = best.cost.total_usd / option.cost.total_usd
    others = {"best_usd": best.cost.total_usd, "best_time_s": best.estimate[time].mid, "price_factor": ratio}
    return Reason("why_ranked", {**params, **others, "rank": option.rank, "best": f"{best.nodes} x {best.provider} {best.instance_type}"})


def _refused(found: ServingExploration, offers: NDArray[np.intp], workload: Workload, catalog: Catalog, owner: str, kind: str) -> Verdict:
    """What excluded a server, the least changes, and what as many of them as are needed would do."""
    at = _nearest(found, offers)
    failed = failed_criteria(found, at)
    nodes = failed[0].nearest.nodes if failed and failed[0].nearest else 1
    alone = estimate_serving(workload, on=f"{owner}/{kind}", nodes=nodes, catalog=catalog)
    changes = tuple(rejection.nearest.change for rejection in failed if rejection.nearest)
    standing = (*(_refusal(rejection) for rejection in failed), *changes)
    return Verdict(workload, serving_assumptions(found), owner, kind, alone.best is not None, alone.best or alone.unfit, standing, failed)


def _absent(found: ServingExploration, workload: Workload, catalog: Catalog, owner: str, kind: str) -> Verdict:
    """A server that the search left out: it has no sound price, or (of CPU servers) a cheaper one of its kind or another filter stands in its place."""
    alone = estimate_serving(workload, on=f"{owner}/{kind}", nodes=1, catalog=catalog)
    option = alone.best or alone.unfit
    is_priced = market_of_server(catalog, find_server(catalog, f"{owner}/{kind}"))[1]
    reason = Reason("why_unlisted", {}) if is_priced else Reason("why_unpriced", {})
    standing = (reason, *(_refusal(rejection) for rejection in alone.rejected))
    return Verdict(workload, serving_assumptions(found), owner, kind, alone.best is not None, option, standing, alone.rejected)


def _refusal(rejection: Rejection) -> Reason:
    nodes = rejection.nearest.nodes if rejection.nearest else 1
    values = {name: getattr(rejection, name) for name in ("criterion", "needed", "had", "margin")}
    return Reason("why_refused", {**values, "nodes": nodes})
