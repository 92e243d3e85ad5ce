"""`fleet`: many jobs and services in, one plan out: read, search each distinct workload once,
optimise, check, explain as data."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import reach
from rightfit.errors import InputError, RightfitError
from rightfit.families.registry import settled
from rightfit.fleets import instance
from rightfit.fleets.building import Builder, parts_of_host
from rightfit.fleets.document import document
from rightfit.fleets.futures import futures_of
from rightfit.fleets.instance import levels_of
from rightfit.fleets.matrix import highs
from rightfit.fleets.packing import SLICES
from rightfit.fleets.reading import Fleet, Owned, read_fleet
from rightfit.fleets.reasons import reasons_of
from rightfit.fleets.result import FleetPlan, read_last, rolled, shared_servers, staying
from rightfit.fleets.solver import solve
from rightfit.fleets.ways import Asked, Search, asked, calibrated, oldest_date, ways_of
from rightfit.market.sellers import Quota, read_quota
from rightfit.messages import at_place, line_each
from rightfit.planner.plan import answer, default_catalog, explored
from rightfit.search.confirm import options_of
from rightfit.search.family import Beside
from rightfit.search.offers import whole_market
from rightfit.search.rank import Row
from rightfit.search.request_checks import settle_own_model
from rightfit.workload.model import Workload
from rightfit.workload.vocabulary import COUNTRIES

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.measure.evidence import Evidence

SECONDS = 20.0
_LEAST_S = 0.5


def questions_of(fleet: Fleet) -> dict[str, Asked]:
    """What the planner is asked for each job and service."""
    oldest = oldest_date(fleet.price_age_h, fleet.start.date() if fleet.start_given else datetime.datetime.now(tz=datetime.UTC).date())
    kept = tuple(dict.fromkeys((name, item.region) for item in fleet.owned for name in _names(item)))
    found = {}
    for job in fleet.jobs:
        found[job.name] = asked({**fleet.limits, **job.wishes}, oldest=oldest, kept=kept)
    for service in fleet.services:
        found[service.name] = asked(
            {**fleet.limits, **service.wishes}, rates=levels_of(service.rates), oldest=oldest, kept=kept, slices=SLICES[service.share]
        )
    return found


def _names(item: Owned) -> tuple[str, ...]:
    """Servers or cards of what is owned, whose ways must not be thinned out."""
    if item.kind == "savings-plan":
        return ()
    if parts := parts_of_host(item):
        return tuple(f"{number}x{gpu}" for gpu in item.gpus for number in (*parts, item.gpus_per_server))
    return (f"{item.provider}/{item.instance_type}",) if item.instance_type else tuple(f"{item.gpus_per_server}x{gpu}" for gpu in item.gpus)


def plan_fleet(
    source: str | Path | Mapping[str, Any] | Fleet,
    *,
    catalog: Catalog | None = None,
    seconds: float = SECONDS,
    processes: int | None = None,
    reasons: bool = True,
    last: str | Path | Mapping[str, Any] | None = None,
    evidence: Evidence | None = None,
    search: Search | None = None,
    futures: int = 0,
) -> FleetPlan:
    """The plan of a fleet. `seconds`: how long the optimiser may think; `processes`: that search
    for workloads; `reasons`: with shadow prices, what a wrong price would change, and the smallest
    relaxation where not all can be placed. `evidence`: own runs, which move the hours of jobs of
    their models. `search`: who searches for workloads elsewhere.
    `futures`: how many draws of prices, demand and stock the purchases are judged by."""
    highs()
    fleet = source if isinstance(source, Fleet) else read_fleet(source)
    before = read_last(last) if last is not None else None
    rest = rolled(fleet, before) if before is not None else None
    if rest is not None:
        fleet = rest.fleet
    questions = {name: question for name, question in questions_of(fleet).items() if rest is None or name not in rest.running}
    answers = ways_of(list(questions.values()), catalog=catalog, processes=processes, search=search)
    ways = {name: answers[question] for name, question in questions.items()}
    ways, told = calibrated(ways, fleet, evidence) if evidence is not None else (ways, {})
    ways = staying(ways, rest) if rest is not None else ways
    broken = [InputError(at_place(name, found.error), field=name) for name, found in ways.items() if found.error]
    if broken:
        raise broken[0] if len(broken) == 1 else InputError(line_each(one.message for one in broken[:5]), problems=broken[:5])
    catalog = catalog or default_catalog()
    quotas = quotas_of(fleet.quota, catalog)
    reach.go_on()
    seconds = min(seconds, max(reach.left_s() / 2.0, _LEAST_S))  # the other half is for the reasons
    built = Builder(fleet, ways, quotas=quotas, market=whole_market(catalog), catalog=catalog).built()
    found = FleetPlan(fleet, built, solve(built.instance, seconds=seconds), ways, quotas, last=before, own_runs=told)
    faults = instance.faults(built.instance, found.solved.plan)
    assert not faults, faults
    found = dataclasses.replace(found, shared=shared_servers(found))
    faults = instance.card_faults(found.shared, slices_of(found))
    assert not faults, faults
    seconds = min(seconds, max(reach.left_s(), _LEAST_S))
    if reasons:
        found = dataclasses.replace(found, reasons=reasons_of(found, seconds=seconds))
    if futures:
        reach.go_on()
        found = dataclasses.replace(found, reasons={**found.reasons, "futures": futures_of(found, number=futures, seconds=seconds)})
    return dataclasses.replace(found, document=document(found))


def slices_of(plan: FleetPlan) -> dict[str, int]:
    """How many slices each service that stands on parts of cards takes."""
    instance = plan.built.instance
    picks = [(instance.services[one.service], one) for one in plan.solved.plan.picked]
    return {service.name: sum(count for *_, count in one.parts) for service, one in picks if service.kinds[one.kind].is_part}


def quotas_of(texts: Sequence[str], catalog: Catalog) -> tuple[Quota, ...]:
    """Limits of accounts: of the file, and of the price book."""
    book = tuple(getattr(catalog, "quotas", ()))
    types = catalog.servers().instance_type if texts else ()
    return (*book, *(read_quota(text, catalog.regions(), types=types, countries=COUNTRIES, field="limits.quota") for text in texts))


# ---- What each job of a fleet's plan runs as: its own plan on the servers that it was given, which
# exports read.

_FREE = ("deadline", "budget", "max_nodes", "top", "country", "region", "residency", "quota", "own")
"""Wishes that the fleet's plan has settled."""


def with_plans(found: Mapping[str, Any], *, catalog: Catalog | None = None) -> dict[str, Any]:
    """The document of a fleet's plan with `plan` beside each placement of a job: a plan document
    whose one option is the job on those servers. Without it where the catalog has them not, or no
    longer at a price that is taken. Equal placements are searched once."""
    catalog, known = catalog or default_catalog(), {}

    def placed(row: Mapping[str, Any]) -> Mapping[str, Any]:
        if row["kind"] != "job":
            return row
        key = json.dumps([row[name] for name in _PLACE] + [row["workload"]], sort_keys=True, default=str)
        if key not in known:
            known[key] = plan_of_placement(row, catalog)
        return {**row, "plan": known[key]} if known[key] else row

    return {**found, "placements": [placed(row) for row in found["placements"]]}


_PLACE = ("provider", "instance_type", "region", "purchase", "servers", "accelerator")


def plan_of_placement(row: Mapping[str, Any], catalog: Catalog) -> dict[str, Any] | None:
    """The plan document of one placement; None where the search has no such servers."""
    is_own = row["purchase"] == "owned"
    wishes = {name: value for name, value in row["workload"].items() if name not in _FREE}
    place = {"cloud": row["provider"], "gpu": row["accelerator"] or "none", "sellers": "all"}
    try:
        family, workload = settled(
            settle_own_model(Workload(**{**wishes, **place, "purchase": "on-demand" if is_own else row["purchase"]}))
        )
        result, _ = explored(family, workload, catalog)
    except RightfitError:
        return None
    offers = result.market.offers
    offer, column = np.nonzero(result.bits == 0)
    same = np.array([name == row["instance_type"] for name in offers.servers.instance_type], dtype=np.bool_)[offers.server_index[offer]]
    there = np.array([region == row["region"] for region in offers.regions], dtype=np.bool_)[offers.region_index[offer]]
    fits = same & (np.asarray(result.num_servers(offer, column)) == row["servers"])
    rows = np.flatnonzero(fits & there) if np.any(fits & there) or not is_own else np.flatnonzero(fits)
    if not rows.size:
        return None
    options = options_of(family, result, [Row(int(offer[rows[0]]), int(column[rows[0]]))], 1)
    return answer(family, result, options, (), Beside()).to_dict()
