"""A space of replicas judged: sized for a load or worked off as a batch, every offer priced."""

from __future__ import annotations

import dataclasses

from rightfit.facts.engines import published_format
from rightfit.search.constraints import Wanted
from rightfit.search.offers import Market
from rightfit.search.service.batch import judged_batch
from rightfit.search.service.found import ServingExploration
from rightfit.search.service.grid import ReplicaGrid, capacity
from rightfit.search.service.sizing import format_columns, judge_serving, monthly_bill, size
from rightfit.search.service.space import ServingFleet, ServingSpace
from rightfit.search.service.wide import widened
from rightfit.search.service.wish import ServingWish


def judged(
    wish: ServingWish, filters: Wanted, market: Market, fleet: ServingFleet, space: ServingSpace, grid: ReplicaGrid
) -> ServingExploration:
    """Size every class for the load, price and judge every offer."""
    if wish.is_batch:
        return judged_batch(wish, filters, market, fleet, space, grid)
    wish = widened(wish, space, grid)
    able = capacity(grid, wish.limits)
    able = dataclasses.replace(able, rate_per_s=able.rate_per_s * space.fits, users=able.users * space.fits)
    formats, column = format_columns(space, published_format(wish.published_name))
    sizing = size(wish, fleet, space, grid, able, column, num_columns=len(formats))
    prices = monthly_bill(wish, market, fleet, space, sizing)
    failures = judge_serving(market, fleet, space, filters, wish, able, sizing, prices, column)
    return ServingExploration(wish, filters, market, fleet, space, grid, able, formats, column, sizing, prices, failures, failures.bits())
