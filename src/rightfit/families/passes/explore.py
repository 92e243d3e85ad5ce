"""Every way to serve a model of one pass: on cards and processors."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from rightfit.families.passes import forward
from rightfit.families.passes.classical import explore_classical
from rightfit.families.passes.wish import read_pass_wish
from rightfit.search.offers import Market
from rightfit.search.service.found import ServingExploration
from rightfit.search.service.grid import pass_grid
from rightfit.search.service.judge import judged
from rightfit.search.service.sizing import serving_wanted
from rightfit.search.service.wish import ServingWish

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload


def explore(workload: Workload, catalog: Catalog, *, market: Market | None = None) -> ServingExploration:
    """Search every way to serve a model; on the servers of `market` alone where one is given."""
    return explore_passes(read_pass_wish(workload), catalog, market=market)


def explore_passes(wish: ServingWish, catalog: Catalog, *, market: Market | None = None) -> ServingExploration:
    """Models of one forward pass: accelerators and CPU servers."""
    wanted = serving_wanted(wish.workload, catalog)
    if wish.scores_rows:
        return explore_classical(wish, wanted, catalog, market=market)
    choice = forward.read_forward_choice(wish.workload, wish.modality)
    market = market or forward.forward_market(catalog, wanted, with_cpus=forward.suits_cpu(wish))
    fleet, machines = forward.forward_fleet(market.offers.servers, market.offers, choice)
    fleet, machines = forward.shared_machines(fleet, machines, wish.workload, market, catalog)
    space, passes = forward.forward_space(fleet, machines, wish)
    grid = pass_grid(passes, percentile=wish.limits.percentile)
    return dataclasses.replace(judged(wish, wanted, market, fleet, space, grid), passes=passes)
