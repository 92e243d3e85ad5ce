"""Every way to serve a language model: on cards and processors, in every engine and weight format."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from rightfit.families.registry import explored
from rightfit.families.serving.processors import cpu_machines, least_bytes, suits_cpus, token_market
from rightfit.families.serving.wish import read_token_wish
from rightfit.search.constraints import accelerators_of
from rightfit.search.offers import Market
from rightfit.search.service.found import ServingExploration
from rightfit.search.service.grid import token_grid, token_times
from rightfit.search.service.judge import judged
from rightfit.search.service.sizing import serving_wanted
from rightfit.search.service.slices import shared_fleet
from rightfit.search.service.space import build_serving_space, family_of, known_accelerator, serving_fleet
from rightfit.search.service.stacks import StackWish, read_stack_wish, refuse_unknown_class, refuse_wrong_pair
from rightfit.search.service.wish import ServingWish

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload


def explore(workload: Workload, catalog: Catalog, *, market: Market | None = None) -> ServingExploration:
    """Search every way to serve a model; on the servers of `market` alone where one is given."""
    return explore_tokens(read_token_wish(workload), catalog, market=market)


def stack_wish_of(workload: Workload, model: str, *names: str) -> StackWish:
    """Engine and formats that the workload names for a model. `names`: those by which its class is known."""
    words = {"engine": workload.framework or "", "quantization": workload.quantization or "", "precision": workload.precision or ""}
    return read_stack_wish(**words, model=model, kv_cache=workload.kv_cache or "", names=names)


def explore_tokens(wish: ServingWish, catalog: Catalog, *, market: Market | None = None) -> ServingExploration:
    """Language models."""
    workload = wish.workload
    stacks = stack_wish_of(workload, wish.published_name, *wish.class_names)
    refuse_unknown_class(stacks, workload.model or wish.model.name)
    cards = tuple(known_accelerator(name) for gpu in workload.gpu for name in accelerators_of(gpu) if name)
    refuse_wrong_pair(stacks, tuple((card, family_of(card)) for card in cards))
    wanted = serving_wanted(workload, catalog)
    every_cpu = market is not None or bool(wanted.gpus)
    with_cpus = market is not None or suits_cpus(wish, stacks, wanted)
    market = market or token_market(catalog, wanted, with_cpus=with_cpus, least_bytes=least_bytes(wish, stacks))
    servers = market.offers.servers
    processors = cpu_machines(servers, np.unique(market.offers.server_index), wish, stacks, every=every_cpu) if with_cpus else {}
    fleet = shared_fleet(serving_fleet(servers, stacks, processors=processors), workload, servers, lambda other: explored(other, catalog))
    space = build_serving_space(servers, fleet, wish)
    times = token_times(space)
    grid = token_grid(times, wish, percentile=wish.limits.percentile)
    return dataclasses.replace(judged(wish, wanted, market, fleet, space, grid), times=times)
