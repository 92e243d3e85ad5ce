"""How sure prices are: what is expected ranks, is shown and is summed, with its doubt."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rightfit.market import open_catalog
from rightfit.market.expected import OnDemandPrices
from rightfit.market.offers import PURCHASES, OfferTable, today
from rightfit.planner.plan import plan
from rightfit.search.offers import both_doubts, open_market, with_doubt
from rightfit.workload import Workload

SPOT, ON_DEMAND = PURCHASES.index("spot"), PURCHASES.index("on-demand")


def offers(*rows: tuple[int, float, bool], date: str = "") -> OfferTable:
    """Offers of one server of AWS in one region: (purchase, price, is estimate), of a day."""
    whole = open_catalog().all_offers(has_accelerator=True)
    table = whole.take(np.full(len(rows), whole.servers.provider.index("aws"), dtype=np.intp))
    purchase, price, estimate = (np.array(column) for column in zip(*rows, strict=True))
    server = next(row for row in range(len(whole.servers)) if whole.servers.provider[row] == "aws")
    return dataclasses.replace(
        table,
        server_index=np.full(len(rows), server),
        purchase_index=purchase,
        price_usd_per_h=price.astype(float),
        as_of_dates=(date or today(),),
        as_of_index=np.zeros(len(rows), dtype=np.intp),
        is_estimate=estimate,
        is_stale=np.zeros(len(rows), dtype=bool),
        is_quarantined=np.zeros(len(rows), dtype=bool),
    )


def test_a_quote_of_today_is_taken_at_its_word() -> None:
    priced, doubt = with_doubt(offers((ON_DEMAND, 10.0, False), (SPOT, 1.0, False)))
    assert priced.price_usd_per_h == pytest.approx([10.0, 1.0])
    assert doubt.listed_usd_per_h.tolist() == [10.0, 1.0]
    assert doubt.factors[0].tolist() == [1.0] * 4
    assert not doubt.is_old.any()


def test_a_spot_price_stays_under_the_on_demand_price_beside_it() -> None:
    table = offers((ON_DEMAND, 10.0, False), (SPOT, 9.5, False), (SPOT, 9.9, True), date="2026-01-01")
    priced, doubt = with_doubt(table)
    high = priced.price_usd_per_h[1:, None] * doubt.factors[1:, [1, 3]]
    assert high.max() <= 10.0 + 1e-9


def test_what_nobody_asks_is_known_no_better_than_prices_of_other_places() -> None:
    _, doubt = with_doubt(offers((ON_DEMAND, 10.0, True)))
    assert doubt.factors[0, 0] <= 0.8
    assert doubt.factors[0, 1] >= 1.25


def test_the_least_on_demand_price_of_the_place_counts() -> None:
    table = offers((ON_DEMAND, 12.0, False), (ON_DEMAND, 10.0, False), (SPOT, 1.0, False))
    assert OnDemandPrices.of(table).beside(table.server_index, table.region_index).tolist() == [10.0, 10.0, 10.0]
    alone = offers((SPOT, 4.0, True))
    assert np.isnan(OnDemandPrices.of(alone).beside(alone.server_index, alone.region_index)).all()


def test_two_doubts_add_up_by_squares() -> None:
    found = both_doubts(np.array([0.5, 2.0, 1.0, 1.0]), np.array([0.5, 2.0, 0.25, 4.0]))
    assert found == pytest.approx([2 ** -(2**0.5), 2 ** (2**0.5), 0.25, 4.0])


def test_one_number_ranks_is_shown_and_is_summed() -> None:
    found = plan(Workload(model="llama3-8b", task="finetune", method="lora", data="50Mtok"), top=10)
    for option in found.options:
        price = option.to_dict()["price"]
        assert price["expected_usd_per_h"]["mid"] * option.nodes == pytest.approx(option.cost.hourly_usd)
        assert price["expected_usd_per_h"]["low80"] <= price["expected_usd_per_h"]["mid"] <= price["expected_usd_per_h"]["high80"]
        assert price["place"] == option.region
    half = plan(
        Workload(model="llama3-8b", task="finetune", method="lora", data="50Mtok", cloud=("oci",), purchase=("spot",)), top=3
    ).options[0]
    assert half.facts["is_estimate"]  # half of on demand: a rule
    assert "price_estimate" in {reason.key for reason in half.warnings}


def test_the_spot_feed_is_quoted_as_it_stands() -> None:
    """What AWS's own feed says of the places that an older source named too: quotes,
    at their own figure."""
    market = open_market(open_catalog())
    table, doubt = market.offers, market.doubt
    fed = {("p5.48xlarge", "us-east-2"), ("g5.xlarge", "us-east-1"), ("g5.48xlarge", "us-east-1")}
    found = set()
    assert doubt is not None
    for row in np.flatnonzero(table.purchase_index == SPOT):
        key = (table.servers.instance_type[table.server_index[row]], table.regions[table.region_index[row]])
        if key in fed:
            found.add(key)
            assert table.row(int(row))["kind"] == "quote"
            assert doubt.listed_usd_per_h[row] == pytest.approx(table.price_original[row])
    assert found == fed
