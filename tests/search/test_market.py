"""Charges of real offers, and bills by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit import facts
from rightfit.market import PURCHASES, Catalog, open_catalog
from rightfit.search.market import MarketFacts, Volume, bill, billing_rules
from rightfit.search.offers import open_market, whole_market

GIB = 2.0**30


def _market(**values: float) -> MarketFacts:
    usual = {
        "storage_usd_per_gb_month": 0.1,
        "object_usd_per_gb_month": 0.02,
        "egress_usd_per_gb": 0.09,
        "spot_low": 0.0,
        "spot_high": 0.0,
        "minimum_s": 60.0,
        "increment_s": 1.0,
    }
    known = np.ones(1, dtype=bool)
    arrays = {name: np.array([value]) for name, value in {**usual, **values}.items()}
    return MarketFacts(**arrays, storage_known=known, egress_known=known, spot_known=known)


def _bill(run_s: float, market: MarketFacts, *, nodes: float = 1.0, nvme: float = 0.0):
    return bill(
        np.array([[run_s]]),
        price_usd_per_h=np.array([2.0]),
        accelerators=np.array([8.0]),
        network_bytes_per_s=np.array([1.25e9]),
        local_nvme_bytes=np.array([nvme]),
        nodes=np.array([nodes]),
        volume=Volume(16e9, 4e9, 10e9, 1e9),
        market=market,
    )


def test_a_bill_by_hand() -> None:
    found = _bill(36_000.0, _market())
    usual = facts.coefficients("planning")
    startup = usual["startup_s"] + 20e9 / usual["download_bytes_per_s"]
    assert found.startup_s[0, 0] == pytest.approx(startup)
    assert found.save_and_restart_s[0, 0] < 0.01 * 36_000  # hardware failures of eight cards in ten hours are rare
    total_s = startup + 36_000 + found.save_and_restart_s[0, 0]
    assert found.total_s[0, 0] == pytest.approx(total_s)
    assert found.servers_usd[0, 0] == pytest.approx(np.ceil(total_s) / 3600 * 2.0)
    assert found.storage_usd[0, 0] == pytest.approx((20 * 0.1 + 20 * 0.02) * total_s / (730 * 3600))
    assert found.egress_usd[0, 0] == pytest.approx(0.09)


def test_spot_interruptions_cost_time() -> None:
    calm, wild = _bill(360_000.0, _market()), _bill(360_000.0, _market(spot_low=0.2, spot_high=0.4), nodes=1.0)
    assert wild.total_s[0, 0] > calm.total_s[0, 0]
    assert wild.total_usd[0, 0] > calm.total_usd[0, 0]


def test_local_disks_save_the_volume() -> None:
    assert _bill(36_000.0, _market(), nvme=1e12).storage_usd[0, 0] < _bill(36_000.0, _market()).storage_usd[0, 0]


def test_what_cannot_run_has_no_price() -> None:
    found = _bill(np.inf, _market())
    assert np.isinf(found.total_usd[0, 0])
    assert np.isinf(found.total_s[0, 0])


def test_every_purchase_mode_has_a_billing_rule() -> None:
    assert {purchase for provider, purchase in billing_rules() if provider == "*"} == set(PURCHASES)


def test_charges_of_the_real_market() -> None:
    market = open_market(open_catalog())
    charges, offers = market.charges, market.offers
    spot = offers.purchase_index == PURCHASES.index("spot")
    assert (charges.spot_high[~spot] == 0).all()
    assert (charges.spot_high[spot] > charges.spot_low[spot]).all()
    assert charges.spot_high.max() <= 0.4
    assert charges.spot_known.sum() > 500
    assert (charges.minimum_s[offers.purchase_index == PURCHASES.index("reserved-3y")] == 3 * 365 * 86400).all()
    on_demand = (offers.purchase_index == PURCHASES.index("on-demand")) & (np.array(offers.servers.provider)[offers.server_index] == "aws")
    assert set(charges.minimum_s[on_demand].tolist()) == {60.0}
    assert charges.storage_known.mean() > 0.9
    assert market.as_of["aws"] > "2025"


def test_no_quarantined_price_is_offered() -> None:
    offers = open_market(open_catalog()).offers
    assert not offers.is_quarantined.any()
    assert np.isfinite(offers.price_usd_per_h).all()
    assert (offers.price_usd_per_h > 0).all()


def test_no_offer_that_can_be_ranked_stands_where_no_server_can_be_started(catalog: Catalog) -> None:
    """A list's least price of "some region" cannot be exported: it names none."""
    assert (np.array(catalog.all_offers().regions)[catalog.all_offers().region_index] == "cheapest-listed").any()
    for market in (open_market(catalog), whole_market(catalog)):
        offers = market.offers
        assert not (np.array(offers.regions)[offers.region_index] == "cheapest-listed").any()
