"""What must hold whatever the market: cheaper is never worse, more choice is never worse, tighter
limits are never better."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from toy import NODE_COUNTS, ToyPhysics, random_market, random_wish

from rightfit.families.language.kind import CRAFT
from rightfit.search.constraints import Filters
from rightfit.search.offers import Market
from rightfit.search.training.explore import TrainingResult, explore
from rightfit.search.training.wish import TrainingRequest

SEEDS = range(12)
FREE = Filters((), (), (), (), ("on-demand", "spot", "reserved-1y", "subscription-1m"), None, None, None, False)


def _search(wish: TrainingRequest, market: Market, wanted: Filters = FREE) -> TrainingResult:
    return explore(wish, market, wanted, CRAFT, node_counts=NODE_COUNTS, engine=ToyPhysics(float(wish.model.params_total)))


def _best(found: TrainingResult) -> tuple[float, float]:
    """Least cost and least time of what is feasible."""
    ok = found.bits == 0
    return tuple(float(np.where(ok, values, np.inf).min()) for values in (found.bill.total_usd, found.bill.total_s))


def _case(seed: int) -> tuple[TrainingRequest, Market]:
    dice = random.Random(seed)
    wish, _ = random_wish(dice)
    return wish, random_market(dice, servers=4, offers=10)


@pytest.mark.parametrize("seed", SEEDS)
def test_lower_prices_never_worsen_the_answer(seed: int) -> None:
    wish, market = _case(seed)
    prices = market.offers.price_usd_per_h
    cheaper = dataclasses.replace(
        market, offers=dataclasses.replace(market.offers, price_usd_per_h=prices * np.linspace(0.5, 1.0, len(prices)))
    )
    assert _best(_search(wish, cheaper))[0] <= _best(_search(wish, market))[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_more_offers_never_worsen_the_answer(seed: int) -> None:
    wish, market = _case(seed)
    rows = np.arange(len(market.offers) - 3)
    fewer = Market(market.offers.take(rows), market.charges.take(rows), market.as_of, market.doubt.take(rows) if market.doubt else None)
    few, many = _best(_search(wish, fewer)), _best(_search(wish, market))
    assert many[0] <= few[0]
    assert many[1] <= few[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tighter_deadline_or_budget_never_gives_a_better_answer(seed: int) -> None:
    wish, market = _case(seed)
    for loose, tight in (({"deadline_s": 1e6}, {"deadline_s": 2e4}), ({"budget_usd": 1e4}, {"budget_usd": 50.0})):
        wide = _search(wish, market, dataclasses.replace(FREE, **loose))
        narrow = _search(wish, market, dataclasses.replace(FREE, **tight))
        assert _best(narrow)[0] >= _best(wide)[0]
        assert not ((narrow.bits == 0) & (wide.bits != 0)).any()


@pytest.mark.parametrize("seed", SEEDS)
def test_more_host_memory_never_worsens_the_answer(seed: int) -> None:
    wish, market = _case(seed)
    servers = dataclasses.replace(market.offers.servers, memory_bytes=np.nan_to_num(market.offers.servers.memory_bytes, nan=1e9) + 1e12)
    roomy = dataclasses.replace(market, offers=dataclasses.replace(market.offers, servers=servers))
    assert _best(_search(wish, roomy))[1] <= _best(_search(wish, market))[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_twice_the_work_costs_and_takes_more(seed: int) -> None:
    wish, market = _case(seed)
    twice = dataclasses.replace(wish, amount=dataclasses.replace(wish.amount, tokens=2 * wish.amount.tokens))
    one, two = _search(wish, market), _search(twice, market)
    known = np.isfinite(one.bill.total_s)
    assert (np.isfinite(two.bill.total_s) == known).all()
    assert (two.bill.total_s[known] >= one.bill.total_s[known]).all()
    assert (two.bill.total_usd[known] >= one.bill.total_usd[known] * (1 - 1e-12)).all()


def test_the_terms_of_a_bill_add_up() -> None:
    wish, market = _case(3)
    bill = _search(wish, market).bill
    known = np.isfinite(bill.total_s)
    parts = bill.servers_usd + bill.storage_usd + bill.egress_usd
    assert bill.total_usd[known] == pytest.approx(parts[known])
    assert bill.total_s[known] == pytest.approx((bill.startup_s + bill.run_s + bill.save_and_restart_s)[known])
