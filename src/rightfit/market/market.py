"""The catalog: one object that answers what can be rented, where, how and for how much."""

from __future__ import annotations

import dataclasses
import functools
import json
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rightfit.errors import CatalogError, UnknownNameError
from rightfit.market import store
from rightfit.market.offers import (
    Indices,
    OfferFilter,
    OfferTable,
    ServerTable,
    first_offers,
    first_servers,
    name_matches,
    offer_mask,
    server_mask,
    today,
    with_age,
)
from rightfit.market.packed_tables import join_columns, read_blocks
from rightfit.messages import Message, cause
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.market.charges import EgressPrice, PlacePrices, StoragePrice
    from rightfit.market.expected import Expected
    from rightfit.market.integrity import Finding
    from rightfit.market.names import Region
    from rightfit.market.report import Status

_Answer = TypeVar("_Answer")
_PARTS: dict[bool | None, tuple[str, ...]] = {True: ("accelerator",), False: ("cpu",), None: ("accelerator", "cpu")}


@dataclass(frozen=True, slots=True)
class PriceList:
    """The offers asked for, in order, how many passed before the limit, and what their prices
    mean today."""

    offers: OfferTable
    total: int
    expected: Expected | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One dict an offer."""
        rows = [self.offers.row(index) | self._gpus(index) for index in range(len(self.offers))]
        if self.expected is not None:
            bounds = self.expected.usd_per_h[:, None] * self.expected.factors[:, :2]
            for at, (row, (low, high)) in enumerate(zip(rows, bounds.tolist(), strict=True)):
                row |= {
                    "expected_usd_per_h": float(self.expected.usd_per_h[at]),
                    "expected_low80_usd_per_h": low,
                    "expected_high80_usd_per_h": high,
                    "is_beyond_knowledge": bool(self.expected.is_beyond[at]),
                }
        return rows

    def _gpus(self, index: int) -> dict[str, Any]:
        """The accelerators of the server of an offer, and what one of them costs."""
        servers, server = self.offers.servers, int(self.offers.server_index[index])
        count = float(servers.num_accelerators[server])
        each = float(self.offers.price_usd_per_h[index]) / count if count else None
        return {"num_accelerators": count, "accelerator_name": servers.accelerator_name[server], "price_per_gpu_usd_per_h": each}


@dataclass(frozen=True, slots=True)
class ServerList:
    """The servers asked for, in order, and how many passed before the limit."""

    servers: ServerTable
    total: int

    def rows(self) -> list[dict[str, Any]]:
        """One dict a server."""
        return [self.servers.row(index) for index in range(len(self.servers))]


class Catalog:
    """The market. Open it with `open_catalog()`; it is read-only."""

    def __init__(self, connection: sqlite3.Connection, *, location: str, path: Path | None = None) -> None:
        self._connection = connection
        self._path = path
        self.location = location  # path of the store, or ":memory:"
        self._blocks: dict[str, dict[str, Any]] = {}
        self._servers: dict[tuple[str, ...], ServerTable] = {}
        self._offers: dict[tuple[tuple[str, ...], str], OfferTable] = {}
        self._regions: tuple[Region, ...] = ()

    def read(self, question: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """Ask the store; a store that turns out damaged is rebuilt once and asked again."""
        try:
            return question(self._connection)
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            self._rebuild()
        try:
            return question(self._connection)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise CatalogError(Message("catalog.store_damaged", path=self.location, error=cause(error))) from None

    def _rebuild(self) -> None:
        self._connection.close()
        self._connection, self.location = store.open_store(self._path, damaged=self.location)
        for cache in (self._blocks, self._servers, self._offers):
            cache.clear()
        self._regions = ()

    def close(self) -> None:
        """Let go of the store."""
        self._connection.close()

    def blocks(self, prefix: str) -> dict[str, Any]:
        """The columns stored under a prefix, read once."""
        if prefix not in self._blocks:
            self._blocks[prefix] = self.read(lambda connection: read_blocks(connection, prefix))
        return self._blocks[prefix]

    # ---- servers and offers ----------------------------------------------------------------------

    def servers(self, *, has_accelerator: bool | None = None) -> ServerTable:
        """Every server type (True: only those with an accelerator, which come first, so rows
        keep their index)."""
        parts = _PARTS[True if has_accelerator else None]
        if parts not in self._servers:
            self._servers[parts] = ServerTable(**join_columns([self.blocks(f"server_{part}") for part in parts]))
        return self._servers[parts]

    def all_offers(self, *, has_accelerator: bool | None = None) -> OfferTable:
        """Every price row, also those that are never recommended; what is stale by the clock
        is flagged."""
        parts, day = _PARTS[has_accelerator], today()
        if (parts, day) not in self._offers:
            columns = join_columns([self.blocks(f"price_{part}") for part in parts])
            regions = self.blocks("region")
            found = OfferTable(
                servers=self.servers(has_accelerator=True if has_accelerator else None),
                regions=regions["region"],
                region_providers=regions["provider"],
                region_countries=regions["country"],
                **columns,
                **self.blocks("price_labels"),
            )
            self._offers = {key: table for key, table in self._offers.items() if key[1] == day}
            self._offers[parts, day] = with_age(found)
        return self._offers[parts, day]

    def offers(self, offer_filter: OfferFilter | None = None) -> OfferTable:
        """The offers that pass the filter, in the order of server, region and purchase mode."""
        choice = self._settled(offer_filter or OfferFilter())
        table = self.all_offers(has_accelerator=choice.has_accelerator)
        return table.take(offer_mask(table, choice))

    def _settled(self, offer_filter: OfferFilter) -> OfferFilter:
        """The filter with every name checked: other spellings resolved, unknown ones
        refused with the nearest."""
        if not (offer_filter.providers or offer_filter.regions or offer_filter.countries or offer_filter.purchases or offer_filter.gpus):
            return offer_filter
        from rightfit.facts import accelerators
        from rightfit.market import names

        for gpu in offer_filter.gpus:
            if gpu not in accelerators():
                raise UnknownNameError("accelerator", gpu, nearest=self._near_accelerators(gpu), field="gpu")
        providers = tuple(names.resolve_provider(name) for name in offer_filter.providers)
        regions = [region for name in offer_filter.regions for region in self.find_regions(name, providers=providers)]
        return dataclasses.replace(
            offer_filter,
            providers=providers,
            regions=tuple(dict.fromkeys(region.region for region in regions)),
            countries=tuple(code for name in offer_filter.countries for code in names.resolve_countries(name, self.regions())),
            purchases=names.resolve_purchases(offer_filter.purchases),
        )

    @staticmethod
    def _near_accelerators(name: str) -> tuple[str, ...]:
        from rightfit.facts import match_accelerators, nearest_accelerators

        return match_accelerators(name) or nearest_accelerators(name)

    def prices(
        self,
        offer_filter: OfferFilter | None = None,
        *,
        name: str = "",
        sort: str = "price",
        limit: int | None = 50,
        descending: bool = False,
    ) -> PriceList:
        """Offers that pass the filter and whose server name holds `name` (or matches it, with * and
        ?), sorted, the first `limit`."""
        choice = self._settled(offer_filter or OfferFilter(has_accelerator=None))
        table = self.all_offers(has_accelerator=choice.has_accelerator)
        keep = offer_mask(table, choice)
        if name:
            keep &= name_matches(table.servers.instance_type, name)[table.server_index]
        rows = np.flatnonzero(keep)
        return PriceList(table.take(first_offers(table, rows, sort=sort, limit=limit, descending=descending)), len(rows))

    def find_servers(
        self,
        offer_filter: OfferFilter | None = None,
        *,
        name: str = "",
        sort: str = "name",
        limit: int | None = 50,
        descending: bool = False,
    ) -> ServerList:
        """Server types that pass the filter's conditions on servers and whose name holds `name`."""
        choice = self._settled(offer_filter or OfferFilter(has_accelerator=None, include_not_recommended=True, include_slices=True))
        table = self.servers()
        keep = server_mask(table, choice)
        if name:
            keep &= name_matches(table.instance_type, name)
        if choice.regions or choice.countries or choice.purchases:
            offers = self.all_offers(has_accelerator=choice.has_accelerator)
            keep &= np.isin(np.arange(len(table)), offers.server_index[offer_mask(offers, choice)])
        rows = np.flatnonzero(keep)
        return ServerList(table.take(first_servers(table, rows, sort=sort, limit=limit, descending=descending)), len(rows))

    @functools.cached_property
    def server_rows(self) -> dict[tuple[str, str], int]:
        """Row of a server by (provider, instance type)."""
        table = self.servers()
        return {key: row for row, key in enumerate(zip(table.provider, table.instance_type, strict=True))}

    def offers_of(self, server_row: int) -> OfferTable:
        """Every price of one server, sound and current or not."""
        table = self.all_offers(has_accelerator=None)
        first, last = np.searchsorted(table.server_index, [server_row, server_row + 1])
        rows: Indices = np.arange(first, last)
        return table.take(rows)

    # ---- regions ---------------------------------------------------------------------------------

    def regions(self) -> tuple[Region, ...]:
        """Every region of every provider, pseudo regions included."""
        if not self._regions:
            from rightfit.market.names import Region

            columns = ", ".join(field.name for field in dataclasses.fields(Region))
            rows = self.read(lambda connection: connection.execute(f"SELECT {columns} FROM region ORDER BY id").fetchall())  # noqa: S608
            self._regions = tuple(Region(*row) for row in rows)
        return self._regions

    def find_regions(self, text: str, *, providers: Iterable[str] = ()) -> tuple[Region, ...]:
        """Regions by code, city or display name in English or Chinese; UnknownNameError with
        the nearest codes."""
        from rightfit.market.names import resolve_regions

        chosen = frozenset(providers)
        return resolve_regions(text, [region for region in self.regions() if not chosen or region.provider in chosen])

    def region(self, provider: str, code: str) -> Region:
        """One region of one provider."""
        from rightfit.market.names import resolve_provider

        return self.find_regions(code, providers=[resolve_provider(provider)])[0]

    # ---- charges beside the server ---------------------------------------------------------------

    def storage_price(self, provider: str, region: str, *, kind: str = "block", product: str | None = None) -> StoragePrice | None:
        """USD per GB-month with product, date, source and how near it is to the place asked for."""
        from rightfit.market.charges import storage_price

        return self.read(lambda connection: storage_price(connection, provider, region=region, kind=kind, product=product))

    def storage_price_usd_per_gb_month(self, provider: str, region: str, kind: str = "block") -> float:
        """Just the figure; NaN where nobody's price is known."""
        price = self.storage_price(provider, region, kind=kind)
        return price.price_usd_per_gb_month if price else float("nan")

    def egress_price(self, provider: str, region: str, *, destination: str = "internet") -> EgressPrice | None:
        """Tiers of data leaving a region."""
        from rightfit.market.charges import egress_price
        from rightfit.market.names import Region

        place = next((known for known in self.regions() if (known.provider, known.region) == (provider, region)), None)
        place = place or Region(provider, region, "", "", "", region, region, "")
        return self.read(lambda connection: egress_price(connection, place, destination=destination))

    def place_prices(self) -> PlacePrices:
        """Storage and data transfer of every region as columns, row by row like
        `OfferTable.regions`."""
        from rightfit.market.charges import PlacePrices

        return PlacePrices(**self.blocks("place"))

    def interruption(self, provider: str, region: str, instance_type: str) -> tuple[float, float] | None:
        """Monthly share of spot servers reclaimed (low, high) as fractions, or None where
        nobody publishes it."""
        from rightfit.market.charges import interruption

        return self.read(lambda connection: interruption(connection, provider, region=region, instance_type=instance_type))

    def discounts(self, provider: str | None = None) -> list[dict[str, Any]]:
        """Discounts off on demand: computed percentiles and published rules."""
        return self._rows("discount", provider=provider)

    def _rows(self, table: str, **equal: str | None) -> list[dict[str, Any]]:
        from rightfit.market.charges import table_rows

        return self.read(lambda connection: table_rows(connection, table, **equal))

    # ---- trust -----------------------------------------------------------------------------------

    def status(self) -> Status:
        """Rows, dates and sources by provider; where the store lies and how old
        its newest price is."""
        from rightfit.market.report import status

        return status(self)

    def verify(self) -> list[Finding]:
        """Every integrity check over the whole store, and over the store itself."""
        from rightfit.market.report import verify

        return verify(self)

    def as_of(self) -> dict[str, str]:
        """The newest price date of each provider that has prices."""
        text = self.read(lambda connection: connection.execute("SELECT value FROM meta WHERE key = 'as_of'").fetchone()[0])
        dates: dict[str, str] = json.loads(text)
        return dates


def open_catalog(path: str | Path | None = None) -> Catalog:
    """Open the market, building its store on first use. `path` names the store file; by default it
    lies in the user's cache folder."""
    given = Path(path) if path is not None else None
    connection, location = store.open_store(given)
    return Catalog(connection, location=location, path=given)
