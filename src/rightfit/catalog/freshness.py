"""How long a price holds: spot prices for weeks, those of GPU clouds for two months (rules.toml, `freshness`), list prices of hyperscalers
for long.

Ages are counted from the newest price of the catalog, so that one catalog gives one answer on every day; a refresh makes that date today.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from rightfit.catalog.offers import PURCHASES, Flags, Floats, OfferTable
from rightfit.catalog.package_data import rules
from rightfit.catalog.sellers import offer_tiers

SPOT = PURCHASES.index("spot")


@functools.cache
def limits() -> Mapping[str, float]:
    """Days after which a price is old: `spot_days`, `gpu_cloud_days`."""
    found: Mapping[str, float] = rules()["freshness"]
    return found


def ages_days(offers: OfferTable) -> Floats:
    """Age of each price (O,) in days, against the newest of the catalog; infinite without a date."""
    dates = np.array([text or "NaT" for text in offers.as_of_dates], dtype="datetime64[D]")
    known = ~np.isnat(dates)
    if not known.any():
        return np.full(len(offers), np.inf)
    age = np.where(known, (dates[known].max() - dates) / np.timedelta64(1, "D"), np.inf)
    return np.asarray(age[offers.as_of_index], dtype=np.float64)


def old_prices(offers: OfferTable) -> Flags:
    """Prices that may have moved since (O,): spot, and what a seller that is no hyperscaler asks."""
    age, is_spot = ages_days(offers), offers.purchase_index == SPOT
    return np.asarray(np.where(is_spot, age > limits()["spot_days"], (offer_tiers(offers) > 1) & (age > limits()["gpu_cloud_days"])))
