"""The family of services of one pass: encoders, vision, diffusion, speech, recommenders, classical
models; online, and batches worked off."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from rightfit import facts
from rightfit.facts.classical import classical_model
from rightfit.families.passes import forward
from rightfit.families.passes.classical import explore_classical, read_classical_service
from rightfit.families.passes.forward import read_forward_wish
from rightfit.search.answer import Option
from rightfit.search.family import Beside
from rightfit.search.offers import Market
from rightfit.search.service.batch import judged
from rightfit.search.service.economics import economics
from rightfit.search.service.found import ServingResult
from rightfit.search.service.grid import pass_grid
from rightfit.search.service.kind import service_family
from rightfit.search.service.sizing import serving_wanted
from rightfit.search.service.wish import ServingRequest, refuse_law, start_notes

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.workload import Workload


# ---- From a workload to numbers where one pass answers a request.


def read_pass_wish(workload: Workload) -> ServingRequest:
    """The workload as numbers; raises what the user must know."""
    notes = start_notes(workload)
    if workload.task == "serve" and workload.model and classical_model(workload.model) is not None:
        return read_classical_service(workload, notes)
    model = facts.model(workload.model)
    refuse_law(workload)
    return read_forward_wish(workload, model, notes)


# ---- Every way to serve a model of one pass: on cards and processors.


def explore(workload: Workload, catalog: Catalog, *, market: Market | None = None) -> ServingResult:
    """Search every way to serve a model; on the servers of `market` alone where one is given."""
    return explore_passes(read_pass_wish(workload), catalog, market=market)


def explore_passes(wish: ServingRequest, catalog: Catalog, *, market: Market | None = None) -> ServingResult:
    """Models of one forward pass: accelerators and CPU servers."""
    wanted = serving_wanted(wish.workload, catalog)
    if wish.scores_rows:
        return explore_classical(wish, wanted, catalog, market=market)
    choice = forward.read_forward_choice(wish.workload, wish.modality)
    market = market or forward.forward_market(catalog, wanted, with_cpus=forward.suits_cpu(wish))
    fleet, machines = forward.forward_fleet(market.offers.servers, market.offers, choice)
    fleet, machines = forward.shared_machines(fleet, machines, wish.workload, market, catalog)
    space, passes = forward.forward_space(fleet, machines, wish)
    grid = pass_grid(passes, wish, percentile=wish.limits.percentile)
    return dataclasses.replace(judged(wish, wanted, market, fleet, space, grid), passes=passes)


def other_ways(search_result: ServingResult, options: tuple[Option, ...], _catalog: Catalog) -> Beside:
    """Serverless, spot, a mixed fleet."""
    return Beside(sections=economics(search_result, options))


FAMILY = service_family("passes", explore, ways=other_ways)
