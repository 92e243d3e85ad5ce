"""What the catalog knows beside prices, as one value per offer: storage, data transfer, interruptions, billing steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rightfit import facts
from rightfit.physics.columns import Array
from rightfit.search.market import SPOT, MarketFacts, billing_of, network_charge
from rightfit.search.priced import credits_of

if TYPE_CHECKING:
    from rightfit.catalog import Catalog, OfferTable


def read_market_facts(catalog: Catalog, offers: OfferTable) -> MarketFacts:
    """Charges of every offer. Where nobody publishes how often spot servers are reclaimed, the usual range is taken and `spot_known` says
    so."""
    places = catalog.place_prices()
    storage = places.block_usd_per_gb_month[offers.region_index]
    objects = places.object_usd_per_gb_month[offers.region_index]
    egress = places.egress_usd_per_gb[offers.region_index]
    minimum_s, increment_s = billing_of(offers)
    usual = facts.coefficients("planning")
    low, high = offers.interruption_range
    spot, known = offers.purchase_index == SPOT, np.isfinite(low)
    low = np.where(known, low, usual["spot_monthly_low"])
    high = np.minimum(np.where(known, high, usual["spot_monthly_high"]), usual["spot_open_band_high"])
    return MarketFacts(
        storage_usd_per_gb_month=np.nan_to_num(storage),
        object_usd_per_gb_month=np.nan_to_num(np.where(np.isfinite(objects), objects, storage)),
        storage_known=np.isfinite(storage),
        egress_usd_per_gb=np.nan_to_num(egress),
        egress_known=np.isfinite(egress),
        spot_low=np.where(spot, low, 0.0),
        spot_high=np.where(spot, high, 0.0),
        spot_known=spot & known,
        minimum_s=minimum_s,
        increment_s=increment_s,
        public_ip_usd_per_h=network_prices(offers, "public-ip", "usd_per_h"),
        balancer_usd_per_h=network_prices(offers, "load-balancer", "usd_per_h"),
        balancer_usd_per_gb=network_prices(offers, "load-balancer", "usd_per_gb"),
        credit_usd=credit_prices(offers, catalog),
    )


def credit_prices(offers: OfferTable, catalog: Catalog) -> Array | None:
    """What the provider of each offer has granted; None where no price book grants anything."""
    granted = credits_of(catalog)
    by_server = np.array([granted.get(provider, 0.0) for provider in offers.servers.provider])
    return by_server[offers.server_index] if granted else None


def network_prices(offers: OfferTable, item: str, unit: str) -> Array:
    """A charge of the cloud of each offer."""
    known = {owner: float(network_charge(owner, item)[unit]) for owner in dict.fromkeys(offers.region_providers)}
    return np.array([known[owner] for owner in offers.region_providers])[offers.region_index]
