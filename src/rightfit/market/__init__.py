"""The market: what can be rented, where, how and for how much; each price with source and date."""

from __future__ import annotations

from rightfit.market.market import Catalog, open_catalog
from rightfit.market.offers import PURCHASE_CODES, PURCHASES, OfferFilter, OfferTable, ServerTable

__all__ = ["PURCHASES", "PURCHASE_CODES", "Catalog", "OfferFilter", "OfferTable", "ServerTable", "open_catalog"]
