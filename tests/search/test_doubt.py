"""Prices that are not quotes: drawn towards what such estimates turned out to be, held under the
on-demand price, ranked at their upper end."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rightfit import facts
from rightfit.catalog import open_catalog
from rightfit.catalog.offers import PURCHASES, OfferTable
from rightfit.planner.plan import plan
from rightfit.search.offers import both_doubts, on_demand_beside, open_market, rises, with_doubt
from rightfit.workload import Workload

SPOT, ON_DEMAND = PURCHASES.index("spot"), PURCHASES.index("on-demand")


def offers(*rows: tuple[int, float, bool, bool]) -> OfferTable:
    """Offers of one server in one region: (purchase, price, is estimate, is stale)."""
    whole = open_catalog().all_offers(has_accelerator=True)
    table = whole.take(np.zeros(len(rows), dtype=np.intp))
    purchase, price, estimate, stale = (np.array(column) for column in zip(*rows, strict=True))
    newest = whole.as_of_dates.index(max(whole.as_of_dates))
    return dataclasses.replace(
        table,
        purchase_index=purchase,
        price_usd_per_h=price.astype(float),
        as_of_index=np.full(len(rows), newest),
        is_estimate=estimate,
        is_stale=stale,
        is_quarantined=np.zeros(len(rows), dtype=bool),
    )


def test_an_estimated_spot_price_is_drawn_towards_the_usual_share() -> None:
    priced, doubt = with_doubt(offers((ON_DEMAND, 10.0, False, False), (SPOT, 1.0, True, False)))
    # 10 x 0.1^0.25 x 0.40^0.75, the regression of docs/decisions/estimated-prices.md
    assert priced.price_usd_per_h[1] == pytest.approx(10.0 * 0.1**0.25 * 0.40**0.75)
    assert doubt.listed_usd_per_h.tolist() == [10.0, 1.0]
    assert doubt.rank_factor[0] == 1.0
    assert doubt.rank_factor[1] == pytest.approx(facts.coefficients("planning")["spot_estimate_high80"])


def test_a_spot_price_stays_under_the_on_demand_price_beside_it() -> None:
    priced, doubt = with_doubt(offers((ON_DEMAND, 10.0, False, False), (SPOT, 9.5, True, False)))
    high = priced.price_usd_per_h[1] * doubt.factors[1]
    assert high.max() <= 10.0 + 1e-9
    assert high.min() >= 1.0 - 1e-9


def test_quotes_are_sure_and_old_spot_quotes_are_not() -> None:
    table = offers((ON_DEMAND, 10.0, False, False), (SPOT, 4.0, False, False), (SPOT, 4.0, False, True))
    priced, doubt = with_doubt(table)
    assert priced.price_usd_per_h.tolist() == [10.0, 4.0, 4.0]
    assert doubt.factors[:2].tolist() == [[1.0] * 4] * 2
    assert doubt.factors[2, 0] < 1.0 < doubt.factors[2, 1]
    # an old quote is ranked by an upper end of what it may be now: the 95 % one in mainland
    # China, where prices rose
    assert doubt.rank_factor.tolist() == [1.0, 1.0, doubt.factors[2, 3 if rises(table)[2] else 1]]


def test_without_an_on_demand_price_the_figure_stands_and_the_doubt_is_wider() -> None:
    table = offers((SPOT, 4.0, True, False))
    priced, doubt = with_doubt(table)
    assert np.isnan(on_demand_beside(table, among=table)).all()
    assert priced.price_usd_per_h[0] == 4.0
    assert doubt.factors[0, 1] > facts.coefficients("planning")["spot_estimate_high80"]


def test_the_least_on_demand_price_of_the_place_counts() -> None:
    table = offers((ON_DEMAND, 12.0, False, False), (ON_DEMAND, 10.0, False, False), (SPOT, 1.0, False, False))
    assert on_demand_beside(table, among=table).tolist() == [10.0, 10.0, 10.0]


def test_two_doubts_add_up_by_squares() -> None:
    found = both_doubts(np.array([0.5, 2.0, 1.0, 1.0]), np.array([0.5, 2.0, 0.25, 4.0]))
    assert found == pytest.approx([2 ** -(2**0.5), 2 ** (2**0.5), 0.25, 4.0])


def test_ranking_takes_estimates_at_their_upper_end() -> None:
    found = plan(Workload(model="llama3-8b", task="finetune", method="lora", data="50Mtok"), top=10)
    ranked = [option.facts["price"]["ranked_usd"] for option in found.options]
    assert ranked[0] == min(ranked)
    assert all(
        option.facts["price"]["ranked_usd"] == pytest.approx(option.cost.total_usd)
        for option in found.options
        if not option.facts["is_estimate"] and not option.facts["price_is_old"]
    )
    aws = plan(
        Workload(model="llama3-8b", task="finetune", method="lora", data="50Mtok", cloud=("aws",), purchase=("spot",)), top=3
    ).options[0]
    assert not aws.facts["is_estimate"]  # a quote of the spot feed
    half = plan(
        Workload(model="llama3-8b", task="finetune", method="lora", data="50Mtok", cloud=("oci",), purchase=("spot",)), top=3
    ).options[0]
    assert half.facts["is_estimate"]  # half of on demand: a rule
    assert half.facts["price"]["ranked_usd"] > half.cost.total_usd
    assert "price_estimate" in {reason.key for reason in half.warnings}


def test_the_spot_feed_is_taken_as_it_stands() -> None:
    """What AWS's own feed says of the places that an older source named too: quotes,
    at their own figure."""
    table = open_market(open_catalog()).offers
    fed = {("p5.48xlarge", "us-east-2"), ("g5.xlarge", "us-east-1"), ("g5.48xlarge", "us-east-1")}
    found = set()
    for row in np.flatnonzero(table.purchase_index == SPOT):
        key = (table.servers.instance_type[table.server_index[row]], table.regions[table.region_index[row]])
        if key in fed:
            found.add(key)
            assert table.row(int(row))["kind"] == "quote"
            assert table.price_usd_per_h[row] == pytest.approx(table.price_original[row])
    assert found
