"""What can be rented: servers, and offers (server x region x purchase mode x price), as
structs of arrays.

A price is always US dollars an hour for the whole server, host included, Linux, without tax. NaN
means unknown, never zero.
"""

from __future__ import annotations

import csv
import dataclasses
import datetime
import fnmatch
import functools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.errors import InputError, UnknownNameError
from rightfit.market.packed_tables import data_bytes, rules
from rightfit.messages import Message
from rightfit.records import dataclass

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]

# Purchase modes in the user's form; the position is the code in
# `OfferTable.purchase_index`. Append only.
#: Why a server type without any public price is never recommended.
NO_PRICE = "no price"
#: How the reason begins for a former name, all of whose prices are old: the name under which its
#: seller lists it now follows.
SUPERSEDED_BY = "superseded by "
PURCHASES: tuple[str, ...] = (
    "on-demand",
    "on-demand-tier3",
    "spot",
    "reserved-1y",
    "reserved-3y",
    "savings-plan-1y",
    "subscription-1m",
    "subscription-1y",
    "subscription-3y",
    "subscription-5y",
    "capacity-block",
    "owned",  # only in price books
    "on-demand-community",  # hosts of third parties, not interruptible by price
)
PURCHASE_CODES: dict[str, int] = {name: code for code, name in enumerate(PURCHASES)}
# How a price is known: a provider's list, an offer that was made that day (spot feeds,
# marketplaces, one's own book), worked out from other figures, by a rule of the seller's, or the
# least that is asked ("from"). Append only.
PRICE_KINDS: tuple[str, ...] = ("list", "quote", "estimate", "formula", "floor")
DERIVED_KINDS = frozenset({"estimate", "formula", "floor"})
# Words that stand for several modes.
PURCHASE_GROUPS: dict[str, tuple[str, ...]] = {
    "reserved": ("reserved-1y", "reserved-3y", "savings-plan-1y"),
    "subscription": ("subscription-1m", "subscription-1y", "subscription-3y", "subscription-5y"),
    "any": PURCHASES,
}
# AWS Spot Advisor's bands as fractions a month; the last row stands for "unknown".
INTERRUPTION_BANDS: tuple[tuple[float, float], ...] = ((0.0, 0.05), (0.05, 0.10), (0.10, 0.15), (0.15, 0.20), (0.20, 1.0), (np.nan, np.nan))


@dataclass(frozen=True, slots=True, eq=False)
class ServerTable:
    """Server types; row i of every column is one (provider, instance_type). Servers with an
    accelerator come first."""

    provider: tuple[str, ...]
    instance_type: tuple[str, ...]
    family: tuple[str, ...]
    category: tuple[str, ...]  # general, compute, memory, storage, burstable, hpc, gpu
    vcpus: Floats
    memory_bytes: Floats
    accelerator_name: tuple[str, ...]  # a key of facts.accelerators(); empty without one
    num_accelerators: Floats  # fractions are vGPU or MIG slices
    accelerator_memory_bytes: Floats  # of one accelerator or slice
    local_nvme_bytes: Floats
    network_bytes_per_s: Floats  # sustained
    network_burst_bytes_per_s: Floats
    rdma: tuple[str, ...]  # none, efa, infiniband, roce, gpudirect-tcpx, gpudirect-tcpxo, erdma
    gpu_interconnect: tuple[str, ...]  # none, pcie, nvlink, nvswitch, xgmi, ici, neuronlink, roce; empty: unknown
    cpu_model: tuple[str, ...]
    arch: tuple[str, ...]  # x86_64, arm64
    status: tuple[str, ...]  # active, previous, retiring, retired, inactive, unknown
    source: tuple[str, ...]
    note: tuple[str, ...]
    not_recommended: tuple[str, ...]  # why the type is never recommended; empty when it may be

    def __len__(self) -> int:
        return len(self.instance_type)

    @property
    def is_recommendable(self) -> Flags:
        """Whether the type itself may be recommended (its offers may still be quarantined)."""
        return np.array([not reason for reason in self.not_recommended], dtype=np.bool_)

    @property
    def is_whole_accelerator(self) -> Flags:
        """False for vGPU and MIG slices; true for servers without an accelerator."""
        return np.asarray((self.num_accelerators == 0) | (self.num_accelerators >= 1))

    def take(self, rows: Indices) -> ServerTable:
        """The given rows, in that order."""
        picks = rows.tolist()
        columns: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            values = getattr(self, field.name)
            columns[field.name] = tuple(values[i] for i in picks) if isinstance(values, tuple) else values[rows]
        return ServerTable(**columns)

    def row(self, index: int) -> dict[str, Any]:
        """One server as a plain dict."""
        values = {field.name: getattr(self, field.name)[index] for field in dataclasses.fields(self)}
        return {name: float(value) if isinstance(value, np.floating) else value for name, value in values.items()}


@dataclass(frozen=True, slots=True, eq=False)
class OfferTable:
    """Offers: row i of every array is one price. Labels are looked up by the matching index column.

    `kind_index`: how the price is known, a row of PRICE_KINDS. `is_estimate`: the figure was
    derived, not quoted (DERIVED_KINDS). `is_stale`: older than the age rule. `is_pseudo_region`:
    the price holds "any", "global" or "eu" wide, so the exact region must be confirmed with the
    provider. `quarantine` is empty for a sound row, else the names of the failed checks (such rows
    appear only when asked for).
    """

    servers: ServerTable
    server_index: Indices
    regions: tuple[str, ...]
    region_providers: tuple[str, ...]
    region_countries: tuple[str, ...]
    region_index: Indices
    purchase_index: Indices  # codes into PURCHASES
    price_usd_per_h: Floats
    as_of_dates: tuple[str, ...]
    as_of_index: Indices
    sources: tuple[str, ...]
    source_index: Indices
    notes: tuple[str, ...]
    note_index: Indices
    price_original: Floats  # in `currencies`, per hour or, for a prepaid term, for the whole term
    currencies: tuple[str, ...]
    currency_index: Indices
    kind_index: Indices  # codes into PRICE_KINDS
    interruption_band: Indices  # monthly share of spot servers reclaimed: a row of INTERRUPTION_BANDS, the last one where unknown
    is_estimate: Flags
    is_stale: Flags
    is_pseudo_region: Flags
    is_quarantined: Flags

    def __len__(self) -> int:
        return len(self.server_index)

    def take(self, rows: Indices | Flags) -> OfferTable:
        """The given rows (indices or a mask); servers and labels are shared, not copied."""
        columns: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            column = getattr(self, field.name)
            columns[field.name] = column[rows] if isinstance(column, np.ndarray) else column
        return OfferTable(**columns)

    def row(self, index: int) -> dict[str, Any]:
        """One offer as a plain dict, its server's name included."""
        server = int(self.server_index[index])
        return {
            "provider": self.servers.provider[server],
            "instance_type": self.servers.instance_type[server],
            "region": self.regions[self.region_index[index]],
            "country": self.region_countries[self.region_index[index]],
            "purchase": PURCHASES[self.purchase_index[index]],
            "price_usd_per_h": float(self.price_usd_per_h[index]),
            "as_of": self.as_of_dates[self.as_of_index[index]],
            "source": self.sources[self.source_index[index]],
            "note": self.notes[self.note_index[index]],
            "price_original": float(self.price_original[index]),
            "currency": self.currencies[self.currency_index[index]],
            "kind": PRICE_KINDS[self.kind_index[index]],
            "is_estimate": bool(self.is_estimate[index]),
            "is_stale": bool(self.is_stale[index]),
            "is_pseudo_region": bool(self.is_pseudo_region[index]),
            "is_quarantined": bool(self.is_quarantined[index]),
            "superseded_by": self.superseded_by(index),
        }

    def superseded_by(self, index: int) -> str:
        """The name under which the seller lists the server now; empty for a price that holds."""
        reason = self.servers.not_recommended[self.server_index[index]] if self.is_quarantined[index] else ""
        return reason.removeprefix(SUPERSEDED_BY) if reason.startswith(SUPERSEDED_BY) else ""

    @property
    def interruption_range(self) -> tuple[Floats, Floats]:
        """Low and high monthly share of spot servers reclaimed, as fractions; NaN where
        nobody publishes it."""
        bands = np.array(INTERRUPTION_BANDS)
        return bands[self.interruption_band, 0], bands[self.interruption_band, 1]


@dataclass(frozen=True, slots=True)
class OfferFilter:
    """Which offers are wanted; an empty tuple means no restriction.

    Regions are exact codes. A region asked for never matches a pseudo region ("cheapest-listed",
    "any", ...) unless that is the code asked for. Countries are ISO 3166 alpha-2 codes; an offer of
    a provider with one price everywhere (no real region in the list) is kept under a country filter
    and carries `is_pseudo_region`, because the list cannot say where the provider would place it.
    """

    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    purchases: tuple[str, ...] = ()
    has_accelerator: bool | None = True
    include_stale: bool = True
    include_slices: bool = False
    include_not_recommended: bool = False
    include_quarantined: bool = False


@functools.lru_cache(maxsize=4)
def provider_codes(servers: ServerTable) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """The providers of a table, each once, and which of them each server is of (S,)."""
    providers = tuple(dict.fromkeys(servers.provider))
    return providers, codes_of(servers.provider)


@functools.lru_cache(maxsize=4)
def card_codes(servers: ServerTable) -> tuple[tuple[tuple[str, str], ...], NDArray[np.intp]]:
    """The pairs of provider and accelerator of a table, each once, and which of them each
    server is of (S,)."""
    pairs = tuple(zip(servers.provider, servers.accelerator_name, strict=True))
    kinds = tuple(dict.fromkeys(pairs))
    return kinds, codes_of(pairs)


def codes_of(labels: Sequence[object]) -> NDArray[np.intp]:
    """A small integer for each distinct label, in the order in which they come first."""
    code = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return np.array([code[label] for label in labels], dtype=np.intp)


# ---- Looking around: which servers and prices fit, sorted, the first so many. Every condition is a
# mask over columns.

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
    """Offers that pass. Conditions on servers and regions are tested on labels, then
    spread over the rows."""
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
        raise UnknownNameError("sort order", sort, allowed=Message("names.allowed_words", names=", ".join(PRICE_SORTS)), field="sort")
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
        raise UnknownNameError("sort order", sort, allowed=Message("names.allowed_words", names=", ".join(SERVER_SORTS)), field="sort")
    columns = {"gpus": servers.num_accelerators, "vcpus": servers.vcpus, "memory": servers.memory_bytes}
    columns["gpu_memory"] = servers.num_accelerators * servers.accelerator_memory_bytes
    keys = columns[sort][rows] if sort in columns else np.zeros(len(rows))
    signed = -keys if descending else keys
    return rows[np.lexsort((rows, np.where(np.isnan(signed), np.inf, signed)))][:limit]


# ---- When types end: dates that providers announced (data/lifecycle.csv), refused from
# the day, told before.

RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class Event:
    """What happens to a family on a day (ISO date): `kind` is "retired" (no longer to be had) or
    "restricted" (not for new accounts)."""

    kind: str
    family: str
    date: str
    source: str


def today() -> str:
    """The day on which types and prices are judged (ISO date): that of the clock, or
    RIGHTFIT_TODAY."""
    given = os.environ.get("RIGHTFIT_TODAY")
    try:
        return datetime.date.fromisoformat(given).isoformat() if given else datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    except ValueError:
        raise InputError(Message("catalog.no_day", text=given)) from None


def with_age(offers: OfferTable) -> OfferTable:
    """The offers with those flagged as stale that are so by the clock."""
    stale = ages_of_dates(offers.as_of_dates, today()) > rules()["stale"]["max_age_days"]
    return dataclasses.replace(offers, is_stale=offers.is_stale | stale[offers.as_of_index]) if stale.any() else offers


@functools.lru_cache(maxsize=8)
def ages_of_dates(texts: tuple[str, ...], day: str) -> NDArray[np.float64]:
    """Age on a day of each of the dates (N,) in days; 0 for a later one, infinite without one."""
    dates = np.array([text or "NaT" for text in texts], dtype="datetime64[D]")
    known = ~np.isnat(dates)
    age = (np.datetime64(day, "D") - dates).astype(np.float64)
    return np.asarray(np.where(known, np.maximum(age, 0.0), np.inf), dtype=np.float64)


@functools.cache
def _rows() -> Mapping[str, tuple[tuple[str, Event], ...]]:
    """Patterns of whole type names with what is known of them, by provider."""
    found: dict[str, list[tuple[str, Event]]] = {}
    for row in csv.DictReader(data_bytes("lifecycle.csv").decode().splitlines()):
        event = Event(row["event"], row["family"], row["date"], row["source"])
        found.setdefault(row["provider"], []).append((row["pattern"], event))
    return {provider: tuple(rows) for provider, rows in found.items()}


@functools.lru_cache(maxsize=16384)
def events_of(provider: str, instance_type: str) -> tuple[Event, ...]:
    """All that is announced for a type."""
    return tuple(event for pattern, event in _rows().get(provider, ()) if re.fullmatch(pattern, instance_type))


@functools.lru_cache(maxsize=4)
def gone(servers: ServerTable, *, on: str) -> Flags:
    """Types (S,) that a provider has taken out of service by a day."""
    due = {provider: [re.compile(pattern) for pattern, event in rows if _is_due(event, on)] for provider, rows in _rows().items()}
    return np.array(
        [
            any(pattern.fullmatch(name) for pattern in due.get(provider, ()))
            for provider, name in zip(servers.provider, servers.instance_type, strict=True)
        ],
        dtype=np.bool_,
    )


def _is_due(event: Event, on: str) -> bool:
    return event.kind == RETIRED and event.date <= on
