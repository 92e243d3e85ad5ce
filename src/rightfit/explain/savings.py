"""How much the catalog's own prices save on one server: what rules of thumb about spot and reserved servers are held against."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rightfit.catalog import Catalog, OfferTable

_COMMITMENTS = ("reserved-1y", "reserved-3y", "savings-plan-1y", "subscription-1m", "subscription-1y", "subscription-3y", "subscription-5y")


def saving_fractions(catalog: Catalog, *, provider: str, instance_type: str, region: str) -> tuple[float, float]:
    """What spot and the deepest commitment save of the on-demand price, as fractions; NaN where a price is missing.

    Prices of the same region are compared; where the region lacks one, the cheapest of all regions stands for both.
    """
    offers = _offers_of(catalog, provider, instance_type)
    if offers is None:
        return math.nan, math.nan
    here = np.asarray([offers.regions[index] == region for index in offers.region_index], dtype=np.bool_)
    return _saving(offers, here, ("spot",)), _saving(offers, here, _COMMITMENTS)


def _offers_of(catalog: Catalog, provider: str, instance_type: str) -> OfferTable | None:
    table = catalog.all_offers(has_accelerator=True)
    names = zip(table.servers.provider, table.servers.instance_type, strict=True)
    server = next((row for row, name in enumerate(names) if name == (provider, instance_type)), None)
    return None if server is None else table.take((table.server_index == server) & ~table.is_quarantined)


def _saving(offers: OfferTable, here: np.ndarray, modes: tuple[str, ...]) -> float:
    for rows in (here, np.ones_like(here)):
        full, less = _lowest(offers, rows, ("on-demand",)), _lowest(offers, rows, modes)
        if math.isfinite(full) and math.isfinite(less):
            return 1 - less / full
    return math.nan


def _lowest(offers: OfferTable, rows: np.ndarray, modes: tuple[str, ...]) -> float:
    from rightfit.catalog import PURCHASE_CODES

    wanted = rows & np.isin(offers.purchase_index, [PURCHASE_CODES[mode] for mode in modes])
    prices = offers.price_usd_per_h[wanted]
    return float(np.nanmin(prices)) if prices.size and np.isfinite(prices).any() else math.nan
