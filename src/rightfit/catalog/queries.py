"""Looking around: which servers and prices fit, sorted, the first so many. Every condition is a mask over columns."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence

import numpy as np

from rightfit.catalog.offers import PURCHASE_CODES, Flags, Floats, Indices, OfferFilter, OfferTable, ServerTable
from rightfit.errors import UnknownNameError
from rightfit.messages import Message

PRICE_SORTS = ("price", "price_per_gpu", "price_per_vcpu", "date", "name")
SERVER_SORTS = ("name", "gpus", "vcpus", "memory", "gpu_memory")


def is_one_of(labels: Sequence[str], names: Iterable[str]) -> Flags:
    """Which labels are among the wanted ones."""
    chosen = frozenset(names)
    return np.fromiter((label in chosen for label in labels), dtype=np.bool_, count=len(labels))


def name_matches(names: Sequence[str], pattern: str) -> Flags:
    """Which names hold the text, ignoring case; with * or ? the whole name must match."""
    folded = pattern.strip().casefold()
    if not any(character in folded for character in "*?["):
        return np.fromiter((folded in name.casefold() for name in names), dtype=np.bool_, count=len(names))
    compiled = re.compile(fnmatch.translate(folded))
    return np.fromiter((compiled.match(name.casefold()) is not None for name in names), dtype=np.bool_, count=len(names))


def server_mask(servers: ServerTable, offer_filter: OfferFilter) -> Flags:
    """Servers that pass the conditions on servers."""
    keep = np.ones(len(servers), dtype=np.bool_)
    if offer_filter.providers:
        keep &= is_one_of(servers.provider, offer_filter.providers)
    if offer_filter.gpus:
        keep &= is_one_of(servers.accelerator_name, offer_filter.gpus)
    if offer_filter.has_accelerator is not None:
        keep &= (servers.num_accelerators > 0) == offer_filter.has_accelerator
    if not offer_filter.include_slices:
        keep &= servers.is_whole_accelerator
    if not offer_filter.include_not_recommended:
        keep &= servers.is_recommendable
    return keep


def region_mask(table: OfferTable, offer_filter: OfferFilter) -> Flags:
    """Regions that pass; see OfferFilter for what a pseudo region does."""
    keep = np.ones(len(table.regions), dtype=np.bool_)
    if offer_filter.regions:
        keep &= is_one_of(table.regions, offer_filter.regions)
    if offer_filter.countries:
        keep &= is_one_of(table.region_countries, offer_filter.countries) | one_price_everywhere(table)
    return keep


def one_price_everywhere(table: OfferTable) -> Flags:
    """Regions of providers that list no real region at all."""
    located = {provider for provider, country in zip(table.region_providers, table.region_countries, strict=True) if country}
    return ~is_one_of(table.region_providers, located)


def offer_mask(table: OfferTable, offer_filter: OfferFilter) -> Flags:
    """Offers that pass. Conditions on servers and regions are tested on labels, then spread over the rows."""
    keep = server_mask(table.servers, offer_filter)[table.server_index] & region_mask(table, offer_filter)[table.region_index]
    if offer_filter.purchases:
        is_wanted = np.zeros(len(PURCHASE_CODES), dtype=np.bool_)
        is_wanted[[PURCHASE_CODES[name] for name in offer_filter.purchases]] = True
        keep &= is_wanted[table.purchase_index]
    if not offer_filter.include_stale:
        keep &= ~table.is_stale
    if not offer_filter.include_quarantined:
        keep &= ~table.is_quarantined
    return keep


def first_offers(table: OfferTable, rows: Indices, *, sort: str, limit: int | None, descending: bool = False) -> Indices:
    """The first `limit` of the rows in the wanted order; a full sort only of what is kept."""
    if sort not in PRICE_SORTS:
        raise UnknownNameError("sort order", sort, allowed=Message("names.part_allowed_words", names=", ".join(PRICE_SORTS)), field="sort")
    keys = _price_keys(table, rows, sort=sort)
    signed = -keys if descending else keys
    signed = np.where(np.isnan(signed), np.inf, signed)
    if limit is not None and 0 <= limit < len(rows):
        edge = np.partition(signed, limit - 1)[limit - 1] if limit else -np.inf
        kept = np.flatnonzero(signed <= edge)
        rows, signed = rows[kept], signed[kept]
    order = np.lexsort((table.region_index[rows], table.server_index[rows], signed))
    return rows[order][:limit]


def _price_keys(table: OfferTable, rows: Indices, *, sort: str) -> Floats:
    price, server = table.price_usd_per_h[rows], table.server_index[rows]
    if sort == "price":
        return price
    if sort == "price_per_gpu":
        return price / np.where(table.servers.num_accelerators > 0, table.servers.num_accelerators, np.nan)[server]
    if sort == "price_per_vcpu":
        return price / table.servers.vcpus[server]
    if sort == "date":
        return np.argsort(np.argsort(np.array(table.as_of_dates)))[table.as_of_index[rows]].astype(np.float64)
    return server.astype(np.float64)  # servers are stored by provider and name


def first_servers(servers: ServerTable, rows: Indices, *, sort: str, limit: int | None, descending: bool = False) -> Indices:
    """The first `limit` server rows in the wanted order; unknown figures last."""
    if sort not in SERVER_SORTS:
        raise UnknownNameError("sort order", sort, allowed=Message("names.part_allowed_words", names=", ".join(SERVER_SORTS)), field="sort")
    columns = {"gpus": servers.num_accelerators, "vcpus": servers.vcpus, "memory": servers.memory_bytes}
    columns["gpu_memory"] = servers.num_accelerators * servers.accelerator_memory_bytes
    keys = columns[sort][rows] if sort in columns else np.zeros(len(rows))
    signed = -keys if descending else keys
    return rows[np.lexsort((rows, np.where(np.isnan(signed), np.inf, signed)))][:limit]
