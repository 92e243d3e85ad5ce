"""What the catalog knows beside prices, as one value per offer: storage, data transfer, interruptions, billing steps. Read once per catalog."""

from __future__ import annotations

import math
import sqlite3
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.search.market import SPOT, MarketFacts, billing_of

if TYPE_CHECKING:
    from rightfit.catalog import Catalog, OfferTable

_known: weakref.WeakKeyDictionary[Any, tuple[Any, MarketFacts]] = weakref.WeakKeyDictionary()


def market_facts(catalog: Catalog, offers: OfferTable) -> MarketFacts:
    """Charges of every offer; kept for the next question to the same catalog with the same offers."""
    kept = _known.get(catalog)
    if kept is not None and kept[0] is offers.price_usd_per_h:
        return kept[1]
    found = read_market_facts(catalog, offers)
    _known[catalog] = (offers.price_usd_per_h, found)
    return found


def read_market_facts(catalog: Catalog, offers: OfferTable) -> MarketFacts:
    """Charges of every offer from the catalog's tables."""
    storage, egress = _place_prices(catalog, offers)
    low, high, known = _interruptions(catalog, offers)
    minimum_s, increment_s = billing_of(offers)
    return MarketFacts(
        storage_usd_per_gb_month=np.nan_to_num(storage),
        storage_known=np.isfinite(storage),
        egress_usd_per_gb=np.nan_to_num(egress),
        egress_known=np.isfinite(egress),
        spot_low=low,
        spot_high=high,
        spot_known=known,
        minimum_s=minimum_s,
        increment_s=increment_s,
    )


def _place_prices(catalog: Catalog, offers: OfferTable) -> tuple[Any, Any]:
    """Block storage [USD per GB and month] and the first tier of data sent to the internet [USD per GB], by offer; NaN where unknown."""
    from rightfit.catalog import charges

    used = np.unique(offers.region_index)
    storage, egress = np.full(len(offers.regions), np.nan), np.full(len(offers.regions), np.nan)
    places = {(region.provider, region.region): region for region in catalog.regions()}

    def ask(connection: sqlite3.Connection) -> None:
        memory: Any = _Remembering(connection)
        for row in used:
            provider, region = offers.region_providers[row], offers.regions[row]
            price = charges.storage_price(memory, provider, region=region, kind="block")
            storage[row] = price.price_usd_per_gb_month if price else math.nan
            place = places.get((provider, region))
            sent = charges.egress_price(memory, place) if place else None
            egress[row] = sent.tiers[0].price_usd_per_gb if sent and sent.tiers else math.nan

    catalog.read(ask)
    return storage[offers.region_index], egress[offers.region_index]


class _Remembering:
    """A connection that answers the same question from memory: hundreds of places read the same small tables."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._answers: dict[tuple[str, tuple[Any, ...]], _Rows] = {}

    def execute(self, query: str, parameters: tuple[Any, ...] = ()) -> _Rows:
        """All rows of the query."""
        key = (query, parameters)
        if key not in self._answers:
            self._answers[key] = _Rows(self._connection.execute(query, parameters).fetchall())
        return self._answers[key]


class _Rows(list[Any]):
    """Rows as a cursor gives them."""

    def fetchall(self) -> list[Any]:
        """All rows."""
        return self


def _interruptions(catalog: Catalog, offers: OfferTable) -> tuple[Any, Any, Any]:
    """Monthly interrupted fraction (low, high) of each offer, and whether it was published; 0 where the offer is not spot."""
    usual = facts.coefficients("planning")
    spot = np.flatnonzero(offers.purchase_index == SPOT)
    servers = offers.servers
    wanted = {(servers.provider[server], servers.instance_type[server]) for server in np.unique(offers.server_index[spot]).tolist()}
    published = catalog.read(lambda connection: _published(connection, sorted(wanted)))
    low, high, known = np.zeros(len(offers)), np.zeros(len(offers)), np.zeros(len(offers), dtype=np.bool_)
    for row in spot.tolist():
        server = int(offers.server_index[row])
        key = (servers.provider[server], offers.regions[offers.region_index[row]], servers.instance_type[server])
        band = published.get(key)
        known[row] = band is not None
        low[row], top = band or (usual["spot_monthly_low"], usual["spot_monthly_high"])
        high[row] = min(top, usual["spot_open_band_high"])
    return low, high, known


def _published(connection: sqlite3.Connection, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str, str], tuple[float, float]]:
    """(provider, region, type) -> monthly fractions, for the given types."""
    providers = sorted({provider for provider, _ in wanted})
    found = {}
    for provider in providers:
        types = [name for owner, name in wanted if owner == provider]
        marks = ",".join("?" * len(types))
        columns = "region, instance_type, interruption_pct_low, interruption_pct_high"
        query = f"SELECT {columns} FROM interruption WHERE provider = ? AND instance_type IN ({marks})"  # noqa: S608
        for region, name, low, high in connection.execute(query, (provider, *types)):
            found[provider, region, name] = (low / 100, high / 100)
    return found
