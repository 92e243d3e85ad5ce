"""The catalog: one object that answers what can be rented, where, how and for how much."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rightfit.catalog import store
from rightfit.catalog.blocks import join_columns, read_blocks
from rightfit.catalog.offers import PURCHASE_CODES, Flags, OfferFilter, OfferTable, ServerTable
from rightfit.errors import CatalogError

_Answer = TypeVar("_Answer")
_CPU_AND_ACCELERATOR = ("accelerator", "cpu")


class Catalog:
    """The market. Open it with `open_catalog()`; it is read-only and safe to share between threads for reading."""

    def __init__(self, connection: sqlite3.Connection, *, location: str, path: Path | None = None) -> None:
        self._connection = connection
        self._path = path
        self.location = location
        self._blocks: dict[str, dict[str, Any]] = {}
        self._servers: dict[tuple[str, ...], ServerTable] = {}

    def read(self, question: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """Ask the store; a store that turns out damaged is rebuilt once and asked again."""
        try:
            return question(self._connection)
        except sqlite3.DatabaseError:
            self._rebuild()
        try:
            return question(self._connection)
        except sqlite3.DatabaseError as error:
            raise CatalogError(f"the catalog store {self.location} cannot be read even after a rebuild: {error}") from None

    def _rebuild(self) -> None:
        self._connection.close()
        if self.location != ":memory:":
            Path(self.location).unlink(missing_ok=True)
        self._connection, self.location = store.open_store(self._path)
        self._blocks.clear()
        self._servers.clear()

    def blocks(self, prefix: str) -> dict[str, Any]:
        """The columns stored under a prefix, read once."""
        if prefix not in self._blocks:
            self._blocks[prefix] = self.read(lambda connection: read_blocks(connection, prefix))
        return self._blocks[prefix]

    def servers(self, *, has_accelerator: bool | None = None) -> ServerTable:
        """Every server type (True: only those with an accelerator). Rows keep the same index in both."""
        parts = ("accelerator",) if has_accelerator else _CPU_AND_ACCELERATOR
        if parts not in self._servers:
            self._servers[parts] = ServerTable(**join_columns([self.blocks(f"server_{part}") for part in parts]))
        return self._servers[parts]

    def offers(self, wanted: OfferFilter | None = None) -> OfferTable:
        """The offers that pass the filter, in the order of server, region and purchase mode."""
        choice = wanted or OfferFilter()
        table = self._all_offers(has_accelerator=choice.has_accelerator)
        return table.take(_mask(table, choice))

    def _all_offers(self, *, has_accelerator: bool | None) -> OfferTable:
        parts = {True: ("accelerator",), False: ("cpu",), None: _CPU_AND_ACCELERATOR}[has_accelerator]
        columns = join_columns([self.blocks(f"price_{part}") for part in parts])
        labels, regions = self.blocks("price_labels"), self.blocks("region")
        return OfferTable(
            servers=self.servers(has_accelerator=True if has_accelerator else None),
            server_index=columns["server_index"],
            regions=regions["region"],
            region_providers=regions["provider"],
            region_countries=regions["country"],
            region_index=columns["region_index"],
            purchase_index=columns["purchase_index"],
            price_usd_per_h=columns["price_usd_per_h"],
            as_of_dates=labels["as_of_dates"],
            as_of_index=columns["as_of_index"],
            sources=labels["sources"],
            source_index=columns["source_index"],
            is_estimate=columns["is_estimate"],
            is_stale=columns["is_stale"],
            is_pseudo_region=columns["is_pseudo_region"],
            is_quarantined=columns["is_quarantined"],
        )


def _mask(table: OfferTable, wanted: OfferFilter) -> Flags:
    """Server and region conditions are tested on labels, then spread over the rows."""
    keep = _server_mask(table.servers, wanted)[table.server_index] & _region_mask(table, wanted)[table.region_index]
    if wanted.purchases:
        keep &= np.isin(table.purchase_index, [PURCHASE_CODES[name] for name in wanted.purchases])
    if not wanted.include_stale:
        keep &= ~table.is_stale
    if not wanted.include_quarantined:
        keep &= ~table.is_quarantined
    return keep


def _server_mask(servers: ServerTable, wanted: OfferFilter) -> Flags:
    keep = np.ones(len(servers), dtype=np.bool_)
    if wanted.providers:
        keep &= np.array([provider in wanted.providers for provider in servers.provider])
    if wanted.gpus:
        keep &= np.array([name in wanted.gpus for name in servers.accelerator_name])
    if not wanted.include_slices:
        keep &= servers.is_whole_accelerator
    if not wanted.include_not_recommended:
        keep &= servers.is_recommendable
    return keep


def _region_mask(table: OfferTable, wanted: OfferFilter) -> Flags:
    keep = np.ones(len(table.regions), dtype=np.bool_)
    if wanted.regions:
        keep &= np.array([region in wanted.regions for region in table.regions])
    if wanted.countries:
        lone = _one_price_everywhere(table)
        keep &= np.array([country in wanted.countries for country in table.region_countries]) | lone
    return keep


def _one_price_everywhere(table: OfferTable) -> Flags:
    """Regions of providers that list no real region at all."""
    located = {provider for provider, country in zip(table.region_providers, table.region_countries, strict=True) if country}
    return np.array([provider not in located for provider in table.region_providers], dtype=np.bool_)


def open_catalog(path: str | Path | None = None) -> Catalog:
    """Open the market, building its store on first use. `path` names the store file; by default it lies in the user's cache folder."""
    given = Path(path) if path is not None else None
    connection, location = store.open_store(given)
    return Catalog(connection, location=location, path=given)
