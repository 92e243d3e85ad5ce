"""Prices of one server by region, a column for each way to pay, and where in the world they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.catalog.offers import PURCHASES
from rightfit.catalog.places import place_of
from rightfit.explain import quantities as q
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.tables import Column, Table
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.catalog import Catalog

_MOST_WAYS = 5


@dataclass(frozen=True, slots=True)
class PricedPlace:
    """A place on the map with its regions and the least price of the server there [USD/h] (by which way to pay)."""

    latitude: float
    longitude: float
    regions: tuple[str, ...]
    usd_per_h: float
    purchase: str


def priced_places(provider: str, instance_type: str, *, catalog: Catalog) -> tuple[PricedPlace, ...]:
    """Where a server is sold, the cheapest first. Regions of one city are one place; prices that hold for no place are left out."""
    row = catalog.server_rows.get((provider, instance_type))
    if row is None:
        return ()
    city_of = {found.region: found.city for found in catalog.regions() if found.provider == provider}
    offers = catalog.offers_of(row)
    found: dict[tuple[float, float], list[tuple[float, str, str]]] = {}
    for at in np.flatnonzero(~offers.is_quarantined & np.isfinite(offers.price_usd_per_h)).tolist():
        offer = offers.row(at)
        where = place_of(offer["country"], city_of.get(offer["region"], ""))
        if where is not None:
            found.setdefault(where, []).append((offer["price_usd_per_h"], offer["region"], offer["purchase"]))
    made = []
    for (latitude, longitude), entries in found.items():
        least, _, purchase = min(entries)
        made.append(PricedPlace(latitude, longitude, tuple(sorted({region for _, region, _ in entries})), least, purchase))
    return tuple(sorted(made, key=lambda place: (place.usd_per_h, place.regions)))


def region_prices(provider: str, instance_type: str, lang: Lang, *, catalog: Catalog, currency: str = "usd") -> Table:
    """Sound prices an hour of one server, a line for each region, the cheapest first; the commonest ways to pay as columns. Empty where
    none is known."""
    row = catalog.server_rows.get((provider, instance_type))
    if row is None:
        return Table((Column("region"),), [])
    offers = catalog.offers_of(row)
    sound = np.flatnonzero(~offers.is_quarantined & np.isfinite(offers.price_usd_per_h))
    records: dict[str, dict[str, Any]] = {}
    for at in sound.tolist():
        found = offers.row(at)
        record = records.setdefault(
            found["region"], {"region": q.region_text(found["region"], lang), "country": found["country"], "as_of": ""}
        )
        record[found["purchase"]] = min(found["price_usd_per_h"], record.get(found["purchase"], np.inf))
        record["as_of"] = max(record["as_of"], found["as_of"])
    ways = [name for name in PURCHASES if any(name in record for record in records.values())]
    ways = sorted(ways, key=lambda name: (-sum(name in record for record in records.values()), PURCHASES.index(name)))[:_MOST_WAYS]

    def money(value: Any) -> str:
        return "" if value is None else str(q.money_text(value, currency))

    ordered = sorted(records.values(), key=lambda record: min(record[name] for name in PURCHASES if name in record))
    prices = tuple(Column(name.replace("-", "_"), money, right=True) for name in ways)
    lines = [{**record, **{name.replace("-", "_"): record.get(name) for name in ways}} for record in ordered]
    return Table(
        (Column("region"), Column("country"), *prices, Column("as_of", right=True)), lines, title=label("section", "regions", lang)
    )
