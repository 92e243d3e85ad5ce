"""What is charged beside the server: storage, data transfer; and what is known about interruptions,
discounts and marketplaces."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rightfit.errors import UnknownNameError
from rightfit.market.names import Region, names_data
from rightfit.market.offers import Floats, Indices
from rightfit.messages import Message
from rightfit.records import dataclass

# How near a charge is to the place asked for, from best to worst.
BASES = ("exact", "provider", "substitute", "market", "unknown")
STORAGE_KINDS = ("block", "object", "file", "local")
# Where a cloud sells no such disk, what its servers mount instead.
_SUBSTITUTES = {"block": ("file", "local"), "file": ("block", "local")}
EGRESS_DESTINATIONS = ("internet", "other_region", "other_region_same_continent", "same_region_cross_az", "internet_from_object_storage")


@dataclass(frozen=True, slots=True)
class StoragePrice:
    """USD per GB-month of one storage product.

    `basis`: exact (this region), provider (its median elsewhere), substitute (the provider sells
    only another kind of disk), market (median of providers, because this one's price is unknown).
    """

    price_usd_per_gb_month: float
    product: str
    region: str
    as_of: str
    source: str
    basis: str


@dataclass(frozen=True, slots=True)
class EgressTier:
    """From `from_gb` in a month on, a GB costs `price_usd_per_gb`."""

    from_gb: float
    price_usd_per_gb: float


@dataclass(frozen=True, slots=True)
class EgressPrice:
    """Tiered price of data leaving a region; the first `free_gb` of a month cost nothing. `basis`
    as in StoragePrice."""

    tiers: tuple[EgressTier, ...]
    free_gb: float
    region: str
    as_of: str
    source: str
    basis: str

    def cost_usd(self, num_gb: float) -> float:
        """The bill for `num_gb` [GB] within one month: sum over tiers of price x the part of the
        billable amount inside the tier."""
        billable = max(0.0, num_gb - self.free_gb)
        ends = [tier.from_gb for tier in self.tiers[1:]] + [float("inf")]
        parts = (max(0.0, min(billable, end) - tier.from_gb) * tier.price_usd_per_gb for tier, end in zip(self.tiers, ends, strict=True))
        return sum(parts)


def storage_price(
    connection: sqlite3.Connection, provider: str, *, region: str, kind: str, product: str | None = None
) -> StoragePrice | None:
    """The price of a product (by default what a training machine usually mounts) where the server
    stands; None if nobody's is known."""
    if kind not in STORAGE_KINDS:
        raise UnknownNameError("storage kind", kind, allowed=Message("names.allowed_words", names=", ".join(STORAGE_KINDS)))
    return pick_storage(storage_rows(connection, product=product), provider, region=region, kind=kind)


def storage_rows(connection: sqlite3.Connection, *, product: str | None = None) -> dict[str, list[Any]]:
    """Every price per GB-month (of one product, if named) by kind."""
    query = "SELECT provider, region, product, price_usd, as_of, source, kind FROM storage_price WHERE unit = 'GB-month' AND price_usd > 0"
    rows: dict[str, list[Any]] = {kind: [] for kind in STORAGE_KINDS}
    for *row, kind in connection.execute(query):
        if product is None or row[2] == product:
            rows[kind].append(row)
    return rows


def pick_storage(rows: Mapping[str, Sequence[Any]], provider: str, *, region: str, kind: str) -> StoragePrice | None:
    """The provider's own price here, its own elsewhere, its other kind of disk, else the
    median of all providers."""
    if own := _usual_product([row for row in rows[kind] if row[0] == provider], kind=kind):
        exact = [row for row in own if row[1] == region]
        return _storage(exact or own, basis="exact" if exact or own[0][1] == "global" else "provider")
    for other in _SUBSTITUTES.get(kind, ()):
        if own := _usual_product([row for row in rows[other] if row[0] == provider], kind=other):
            return _storage(own, basis="substitute")
    by_provider: dict[str, list[Any]] = {}
    for row in rows[kind]:
        by_provider.setdefault(row[0], []).append(row)
    usual = [_middle(_usual_product(group, kind=kind)) for _, group in sorted(by_provider.items())]
    return _storage(usual, basis="market") if usual else None


def _usual_product(rows: Sequence[Any], *, kind: str) -> list[Any]:
    """Rows of the provider's default product; of the first one listed where the
    data names no default."""
    if not rows:
        return []
    wanted = names_data()["storage"][kind].get(rows[0][0], rows[0][2])
    return [row for row in rows if row[2] == wanted] or [row for row in rows if row[2] == rows[0][2]]


def _middle(rows: Iterable[Any]) -> Any:
    """The row of median price (the lower of two)."""
    ordered = sorted(rows, key=lambda row: (row[3], row[1]))
    return ordered[(len(ordered) - 1) // 2]


def _storage(rows: Sequence[Any], *, basis: str) -> StoragePrice:
    _, region, product, price, as_of, source = _middle(rows)
    return StoragePrice(price, product, region, as_of or "", source or "", basis)


def egress_price(connection: sqlite3.Connection, region: Region, *, destination: str = "internet") -> EgressPrice | None:
    """The tiers that hold for a region: its own row, its price area's, the provider's everywhere
    row, else the market's median flat price."""
    if destination not in EGRESS_DESTINATIONS:
        raise UnknownNameError(
            "egress destination", destination, allowed=Message("names.allowed_words", names=", ".join(EGRESS_DESTINATIONS))
        )
    return pick_egress(egress_rows(connection, destination=destination), region)


def egress_rows(connection: sqlite3.Connection, *, destination: str) -> list[Any]:
    """Every tier to a destination."""
    query = (
        "SELECT provider, region, tier_from_gb, price_usd_per_gb, free_gb_month, as_of, source FROM egress_price "
        "WHERE destination = ? ORDER BY provider, region, tier_from_gb"
    )
    return connection.execute(query, (destination,)).fetchall()


def pick_egress(rows: Sequence[Any], region: Region) -> EgressPrice | None:
    """The region's own tiers, its price area's, the provider's everywhere tiers, its median
    region's, else the market's median."""
    own = [row for row in rows if row[0] == region.provider]
    for place in (region.region, _area(region), "any", "global"):
        if exact := [row for row in own if row[1] == place]:
            return _egress(exact, basis="exact")
    if own:
        return _egress(_middle_region(own), basis="provider")
    return _egress(_middle_region(rows), basis="market") if rows else None


@dataclass(frozen=True, slots=True, eq=False)
class PlacePrices:
    """Charges of every region, row by row like `OfferTable.regions`; NaN where nobody's price is
    known. `basis` columns are codes into BASES."""

    block_usd_per_gb_month: Floats
    block_basis: Indices
    object_usd_per_gb_month: Floats
    object_basis: Indices
    egress_usd_per_gb: Floats  # first paid tier to the internet
    egress_free_gb_per_month: Floats
    egress_basis: Indices


def place_prices(connection: sqlite3.Connection, regions: Iterable[Region]) -> PlacePrices:
    """Storage and data transfer of every region at once."""
    places, storage, egress = tuple(regions), storage_rows(connection), egress_rows(connection, destination="internet")
    block = [pick_storage(storage, place.provider, region=place.region, kind="block") for place in places]
    objects = [pick_storage(storage, place.provider, region=place.region, kind="object") for place in places]
    sent = [pick_egress(egress, place) for place in places]
    return PlacePrices(
        block_usd_per_gb_month=np.array([price.price_usd_per_gb_month if price else np.nan for price in block]),
        block_basis=_basis_codes(block),
        object_usd_per_gb_month=np.array([price.price_usd_per_gb_month if price else np.nan for price in objects]),
        object_basis=_basis_codes(objects),
        egress_usd_per_gb=np.array([price.tiers[0].price_usd_per_gb if price else np.nan for price in sent]),
        egress_free_gb_per_month=np.array([price.free_gb if price else np.nan for price in sent]),
        egress_basis=_basis_codes(sent),
    )


def _basis_codes(prices: Iterable[StoragePrice | EgressPrice | None]) -> Indices:
    return np.array([BASES.index(price.basis if price else "unknown") for price in prices], dtype=np.intp)


def _area(region: Region) -> str:
    """The price area a region belongs to, where the table names areas."""
    for rule in names_data()["egress_areas"].get(region.provider, ()):
        if region.country in rule.get("countries", ()) or region.continent in rule.get("continents", ()):
            return str(rule["area"])
    return ""


def _middle_region(rows: Sequence[Any]) -> list[Any]:
    """The tiers of the place whose first tier has the median price."""
    firsts: dict[tuple[str, str], float] = {}
    for row in rows:
        firsts.setdefault((row[0], row[1]), row[3])
    middle = sorted(firsts.values())[(len(firsts) - 1) // 2]
    place = min(key for key, price in firsts.items() if price == middle)
    return [row for row in rows if (row[0], row[1]) == place]


def _egress(rows: Sequence[Any], *, basis: str) -> EgressPrice:
    tiers = tuple(EgressTier(row[2] or 0.0, row[3]) for row in rows)
    first = rows[0]
    return EgressPrice(tiers, first[4] or 0.0, first[1], first[5] or "", first[6] or "", basis)


def interruption(connection: sqlite3.Connection, provider: str, *, region: str, instance_type: str) -> tuple[float, float] | None:
    """Share of spot servers of this type reclaimed within a month (low, high), as fractions; None
    where nobody publishes it."""
    query = "SELECT interruption_pct_low, interruption_pct_high FROM interruption WHERE provider = ? AND instance_type = ? AND region = ?"
    row = connection.execute(query, (provider, instance_type, region)).fetchone()
    return (row[0] / 100, row[1] / 100) if row else None


def table_rows(connection: sqlite3.Connection, table: str, **equal: str | None) -> list[dict[str, Any]]:
    """Rows of a small table as dicts, restricted to the given column values
    (None: no restriction)."""
    wanted = {name: value for name, value in equal.items() if value is not None}
    where = " AND ".join(f"{name} = ?" for name in wanted)
    cursor = connection.execute(f"SELECT * FROM {table}" + (f" WHERE {where}" if where else ""), tuple(wanted.values()))  # noqa: S608
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]
