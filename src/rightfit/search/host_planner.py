"""`plan` for classical machine learning and data preparation: the parts of the answer put together; `estimate` and `why` of one server."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import InputError
from rightfit.search.answer import Assumption, Counts, Option, Plan, Reason, Rejection
from rightfit.search.constraints import DEFAULT_PURCHASES, minimal_blame, read_wanted
from rightfit.search.host_answer import build_host_options
from rightfit.search.host_reasons import host_advice, with_host_reasons
from rightfit.search.host_search import HostExploration, explore, explore_host, host_market, rank_host
from rightfit.search.host_wish import is_embedding, read_host_wish
from rightfit.search.rank import Row, ordered, score_of
from rightfit.search.refusals import rejections

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.search.single import Verdict
    from rightfit.workload import Workload

MOST_PARETO = 12
LARGEST_NODES = 4096


def plan_host(workload: Workload, *, catalog: Catalog, top: int) -> Plan:
    """Rank every server, with GPU and without, for a job of classical machine learning or data preparation."""
    if is_embedding(workload):
        return plan_embedding(workload, catalog=catalog, top=top)
    found = explore_host(workload, catalog)
    ranking = rank_host(found, top=top)
    built = build_host_options(found, (*ranking.top, *ranking.pareto[:MOST_PARETO]))
    options = with_host_reasons(found, built[: len(ranking.top)])
    known: Any = found
    return Plan(
        workload=workload,
        assumptions=host_assumptions(found),
        options=options,
        pareto=built[len(ranking.top) :],
        rejected=rejections(known),
        advice=host_advice(found, options),
        catalog={"as_of": dict(found.market.as_of)},
        counts=host_counts(found),
        blame=() if options else minimal_blame(found.bits),
    )


def plan_embedding(workload: Workload, *, catalog: Catalog, top: int) -> Plan:
    """Embedding is inference of a model over the data: a batch job."""
    from rightfit.search.serving_planner import plan_serving

    return plan_serving(embedding_workload(workload), catalog=catalog, top=top)


def embedding_workload(workload: Workload) -> Workload:
    """The batch job that embedding data is."""
    if not workload.model:
        raise InputError(
            "operation embed runs a model over the data: name it, for example rightfit plan bge-large-en --task prepare --operation embed",
            field="model",
        )
    changed: dict[str, Any] = {"task": "batch", "operation": None}
    if workload.data_bytes is not None and workload.data_unit == "bytes":
        changed["data"] = f"{workload.data_bytes / facts.coefficients('planning')['bytes_per_token']:.0f}tok"
    return workload.with_changes(**changed)


def host_assumptions(found: HostExploration) -> tuple[Assumption, ...]:
    """Defaults taken while reading the workload, and those of the market."""
    taken = list(found.wish.assumptions)
    if not found.wish.workload.purchase:
        value = ", ".join(DEFAULT_PURCHASES)
        taken.append(Assumption("purchase", value, Reason("assumed_purchase", {"value": value})))
    return tuple(taken)


def host_counts(found: HostExploration) -> Counts:
    """How much was looked at."""
    rows = len(found.market.offers) * found.bits.shape[1]
    able = found.work.able
    return Counts(
        candidates=int(found.work.fits.size),
        timed=int(found.work.fits.sum()),
        offers=len(found.market.offers),
        servers=int(able.sum()),
        covered=rows,
    )


# ---- one given server


def estimate_host(workload: Workload, *, on: str, nodes: int, catalog: Catalog) -> Plan:
    """The job on `nodes` servers of one type; wishes that the server fails are in `rejected` but do not take the option away."""
    from rightfit.search.single import OFFER_CRITERIA, _failed, _placeless, find_server, market_of_one, names_of

    if not 1 <= nodes <= LARGEST_NODES:
        raise InputError(f"nodes: {nodes} is not possible; give 1 to {LARGEST_NODES}", field="nodes")
    row = find_server(catalog, on)
    market, priced = market_of_one(catalog, row, whole=host_market(catalog))
    wanted = dataclasses.replace(read_wanted(workload, catalog), any_software=True)
    wish = read_host_wish(workload)
    found = explore(wish, market, wanted, node_counts=(nodes,), any_server=True)
    fits = bool(found.work.fits.any())
    if not fits:
        found = explore(wish, market, wanted, node_counts=(nodes,), any_server=True, as_if=True)
    at = _cheapest(found)
    option = _given_option(found, at, priced=priced) if found.work.able.any() else None
    known: Any = found
    failed: tuple[Rejection, ...] = _failed(known, at.offer, at.node)
    if not priced:
        failed = tuple(_placeless(rejection) for rejection in failed if rejection.criterion not in OFFER_CRITERIA)
    return Plan(
        workload=workload,
        assumptions=host_assumptions(found),
        options=(option,) if fits and option else (),
        pareto=(),
        rejected=failed,
        advice=() if fits else host_advice(found, ()),
        catalog={"as_of": {name: date for name, date in market.as_of.items() if name == market.offers.servers.provider[0]}},
        counts=host_counts(found),
        blame=() if fits else tuple((rejection.criterion,) for rejection in failed),
        unfit=None if fits else option,
        given="/".join(names_of(catalog, on)),
    )


def _cheapest(found: HostExploration) -> Row:
    """The cheapest offer within the user's filters, else of all."""
    known: Any = found
    for mask in ((found.bits == 0), np.isfinite(found.bill.total_s)):
        offer, node = np.nonzero(mask)
        if offer.shape[0]:
            first = ordered(known, offer, node, score_of(known, offer, node))[0]
            return Row(int(offer[first]), int(node[first]))
    return Row(int(np.nanargmin(np.nan_to_num(found.market.offers.price_usd_per_h, nan=np.inf))), 0)


def _given_option(found: HostExploration, at: Row, *, priced: bool) -> Option:
    option = with_host_reasons(found, build_host_options(found, [at]))[0]
    if priced:
        return option
    nothing = dataclasses.replace(option, region="", purchase="", price_as_of="", price_source="")
    return dataclasses.replace(nothing, warnings=(*option.warnings, Reason("price_unknown", {})))


def why_host(workload: Workload, server: str, *, catalog: Catalog) -> Verdict:
    """Why a server was or was not chosen, and the least change that would alter it."""
    from rightfit.search.single import Verdict, find_server, names_of

    row = find_server(catalog, server)
    names = names_of(catalog, server)
    found = explore_host(workload, catalog)
    offers = np.flatnonzero(found.market.offers.server_index == row)
    if offers.shape[0] and (found.bits[offers] == 0).any():
        option, standing = _standing_of_feasible(found, offers)
        return Verdict(workload, host_assumptions(found), *names, True, option, standing, ())
    alone = estimate_host(workload, on=server, nodes=1, catalog=catalog)
    option_alone = alone.best or alone.unfit
    if not offers.shape[0]:
        refused = tuple(_refusal(rejection) for rejection in alone.rejected)
        standing = (Reason("why_unpriced", {}), *refused)
        return Verdict(workload, host_assumptions(found), *names, alone.best is not None, option_alone, standing, alone.rejected)
    failed, standing = _standing_of_refused(found, offers)
    return Verdict(workload, host_assumptions(found), *names, alone.best is not None, option_alone, standing, failed)


def _refusal(rejection: Rejection) -> Reason:
    from rightfit.search.single import _refusal as refusal

    return refusal(rejection)


def _standing_of_feasible(found: HostExploration, offers: NDArray[np.intp]) -> tuple[Option, tuple[Reason, ...]]:
    """Where a feasible server stands among all feasible ones, and the price at which it would lead."""
    known: Any = found
    offer, node = np.nonzero(found.bits == 0)
    order = ordered(known, offer, node, score_of(known, offer, node))
    position = int(np.argmax(np.isin(offer[order], offers)))
    first, mine = (Row(int(offer[order[at]]), int(node[order[at]])) for at in (0, position))
    best, option = (build_host_options(found, [row])[0] for row in (first, mine))
    totals = {"total_usd": option.cost.total_usd, "total_time_s": option.estimate["total_time_s"].mid}
    if position == 0:
        return with_host_reasons(found, [option])[0], (Reason("why_best", totals),)
    before = np.unique(found.market.offers.server_index[offer[order[:position]]]).shape[0]
    option = dataclasses.replace(option, rank=before + 1)
    other = {
        "best": f"{best.nodes} x {best.provider} {best.instance_type}",
        "best_usd": best.cost.total_usd,
        "best_time_s": best.estimate["total_time_s"].mid,
        "price_factor": best.cost.total_usd / option.cost.total_usd,
    }
    return with_host_reasons(found, [option])[0], (Reason("why_ranked", {"rank": before + 1, **totals, **other}),)


def _standing_of_refused(found: HostExploration, offers: NDArray[np.intp]) -> tuple[tuple[Rejection, ...], tuple[Reason, ...]]:
    """The row of the server that is nearest to passing: fewest failing criteria, then least margin."""
    from rightfit.search.reasons import CRITERIA
    from rightfit.search.refusals import change
    from rightfit.search.single import _failed

    known: Any = found
    bits = found.bits[offers]
    failing, margin = np.zeros(bits.shape), np.zeros(bits.shape)
    for position, criterion in enumerate(CRITERIA):
        fails = (bits >> position) & 1
        failing += fails
        margin += fails * np.minimum(found.failures.margin(criterion)[offers], 1e9)
    offer, node = np.unravel_index(np.lexsort((margin.ravel(), failing.ravel()))[0], bits.shape)
    at = (int(offers[offer]), int(node))
    failed = _failed(known, *at)
    changes = tuple(change(known, rejection.criterion, at) for rejection in failed)
    return failed, (*(_refusal(rejection) for rejection in failed), *changes)
