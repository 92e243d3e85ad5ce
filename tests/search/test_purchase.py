"""Ways to buy a server: break-evens by hand, ladders, terms, and every pair of cloud and way to pay
within reach of `plan`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rightfit import lookup
from rightfit.errors import InputError, UnknownNameError
from rightfit.market import PURCHASE_CODES, open_catalog
from rightfit.market.offers import PURCHASES
from rightfit.planner.plan import plan
from rightfit.search.purchase import Mode, advice_of, ladder_of_hours, ladder_of_months, payment_of, spent_usd, term_h_of, with_break_even
from rightfit.workload import Workload

YEAR_H = 8760.0


def mode(purchase: str, price: float, *, term_h: float = 0.0, job_usd: float | None = None) -> Mode:
    return Mode(
        purchase, "metered", price, price, price, term_h, "here", "2026-01-01", "test", "", "quoted", is_stale=False, job_usd=job_usd
    )


HOUR = with_break_even(mode("on-demand", 10.0), on_demand=mode("on-demand", 10.0), office_h=217.0)
YEAR = with_break_even(mode("reserved-1y", 6.0, term_h=YEAR_H), on_demand=HOUR, office_h=217.0)
THREE = with_break_even(mode("reserved-3y", 4.0, term_h=3 * YEAR_H), on_demand=HOUR, office_h=217.0)


def test_break_even_of_a_commitment_is_the_ratio_of_prices() -> None:
    assert YEAR.even_hours == pytest.approx(0.6 * 730)  # 438 h of a month at 10 cost what 730 h at 6 do
    assert YEAR.even_months == pytest.approx(0.6 * 12)
    assert YEAR.office_usd == pytest.approx(730 * 6.0)  # owed whether used or not
    assert HOUR.office_usd == pytest.approx(217 * 10.0)
    assert YEAR.owed_usd == pytest.approx(8760 * 6.0)
    assert THREE.even_months == pytest.approx(14.4)


def test_a_commitment_dearer_than_on_demand_never_pays() -> None:
    dear = with_break_even(mode("reserved-1y", 11.0, term_h=YEAR_H), on_demand=HOUR, office_h=217.0)
    assert dear.even_hours is None
    assert dear.even_months is None
    assert "buy_never" in {reason.key for reason in advice_of([HOUR, dear], job_h=None)}


def test_steady_use_is_bought_in_whole_terms_and_the_rest_on_demand() -> None:
    assert spent_usd(YEAR, 7.0) == pytest.approx(8760 * 6.0)
    assert spent_usd(YEAR, 13.0, rest_usd_per_h=10.0) == pytest.approx(8760 * 6.0 + 730 * 10.0)
    assert spent_usd(YEAR, 23.0, rest_usd_per_h=10.0) == pytest.approx(2 * 8760 * 6.0)
    assert spent_usd(HOUR, 2.0) == pytest.approx(1460 * 10.0)


def test_the_ladder_of_months_is_what_enumeration_finds() -> None:
    steps = ladder_of_months([HOUR, YEAR, THREE])
    best = []
    for months in range(1, 61):
        cost = {
            "on-demand": months * 7300.0,
            "reserved-1y": months // 12 * 52_560.0 + min(months % 12 * 7300.0, 52_560.0),
            "reserved-3y": months // 36 * 105_120.0 + min(months % 36 * 7300.0, 105_120.0),
        }
        cheapest = min(cost, key=lambda name: (round(cost[name], 6), len(name) * 0 + list(cost).index(name)))
        if not best or best[-1][1] != cheapest:
            best.append((float(months), cheapest))
    assert [(step.start, step.purchase) for step in steps] == best


def test_the_ladder_of_hours_changes_at_the_break_even() -> None:
    first, second = ladder_of_hours([HOUR, YEAR, THREE], most_term_h=YEAR_H)
    assert (first.purchase, first.start) == ("on-demand", 0.0)
    assert (second.purchase, second.start) == ("reserved-1y", pytest.approx(438.0))


def test_a_short_job_is_bought_by_the_hour_and_spot_is_held_against_it() -> None:
    modes = [
        mode("on-demand", 10.0, job_usd=80.0),
        mode("spot", 4.0, job_usd=36.0),
        mode("reserved-1y", 6.0, term_h=YEAR_H, job_usd=52_560.0),
    ]
    reasons = {reason.key: reason.params for reason in advice_of(modes, job_h=8.0)}
    assert reasons["buy_job"]["purchase"] == "on-demand"
    assert reasons["buy_job_spot"]["share"] == pytest.approx(1 - 36 / 80)


def test_terms_and_payment_of_ways_to_pay() -> None:
    assert term_h_of("aws", "on-demand") == 0.0
    assert term_h_of("aws", "capacity-block") == 24.0
    assert term_h_of("tencent", "subscription-1m") == 730.0
    assert term_h_of("gcp", "reserved-3y") == 3 * YEAR_H
    assert term_h_of("aws", "savings-plan-3y") == 3 * YEAR_H
    assert payment_of("aws", "reserved-3y", "standard RI, 3 years, all upfront, annual cost / 8760") == "upfront"
    assert payment_of("aws", "reserved-1y", "standard RI, 1 year, no upfront") == "monthly"
    assert payment_of("hyperstack", "reserved-1y", "") == "contract"
    assert payment_of("tencent", "subscription-1y", "") == "upfront"


def test_a_server_of_the_catalog_is_told_with_every_way() -> None:
    section = lookup.ways_to_buy("aws/p4d.24xlarge", region="us-east-1")
    modes = {row["purchase"]: row for row in section.content["modes"]}
    assert {"on-demand", "spot", "reserved-1y", "reserved-3y", "savings-plan-1y", "savings-plan-3y"} <= set(modes)
    assert modes["savings-plan-1y"]["basis"] == "rule"
    assert modes["spot"]["basis"] == "quoted"
    assert (
        modes["spot"]["low_usd_per_h"]
        <= modes["spot"]["price_usd_per_h"]
        <= modes["spot"]["high_usd_per_h"]
        <= modes["on-demand"]["price_usd_per_h"]
    )
    ratio = modes["reserved-1y"]["price_usd_per_h"] / modes["on-demand"]["price_usd_per_h"]
    assert modes["reserved-1y"]["even_hours"] == pytest.approx(730 * ratio)


def test_unknown_servers_and_regions_are_refused_in_one_line() -> None:
    with pytest.raises(UnknownNameError):
        lookup.ways_to_buy("aws/p4z.24xlarge")
    with pytest.raises(InputError, match="has no price in"):
        lookup.ways_to_buy("aws/p4d.24xlarge", region="westeurope")
    with pytest.raises(InputError, match="give a server"):
        lookup.ways_to_buy("")


def pairs() -> list[tuple[str, str]]:
    """Every (cloud, way to pay) of the bundled prices."""
    table = open_catalog().all_offers()
    server = np.array(table.servers.provider)[table.server_index]
    return sorted({(str(owner), PURCHASES[code]) for owner, code in zip(server, table.purchase_index.tolist(), strict=True)})


PAIRS = pairs()


def test_the_catalog_has_all_the_pairs_that_are_walked() -> None:
    assert len(PAIRS) >= 49
    assert {purchase for _, purchase in PAIRS} <= set(PURCHASE_CODES)


@pytest.mark.parametrize(("cloud", "purchase"), PAIRS)
def test_every_cloud_and_way_to_pay_is_within_reach_of_plan(cloud: str, purchase: str) -> None:
    wish: dict[str, Any] = {"model": "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "method": "qlora", "data": "1Mtok"}
    found = plan(Workload(task="finetune", **wish, cloud=(cloud,), purchase=(purchase,)), top=2)
    if found.options:
        best = found.options[0]
        assert (best.provider, best.purchase) == (cloud, purchase)
        assert math.isfinite(best.cost.total_usd)
        assert best.cost.total_usd > 0
        buy = next(section for section in found.sections if section.name == "buy")
        assert purchase in {row["purchase"] for row in buy.content["modes"]}
        return
    criteria = {rejection.criterion for rejection in found.rejected}
    assert criteria
    assert found.blame
    # What is sold so has no card that the usual software runs on: the plan says so, or names
    # the card to ask for.
    own = [row for row in found.rejected if row.nearest is not None and row.nearest.provider == cloud]
    assert own or found.advice or criteria & {"software", "capability", "gpu_memory", "status"}
