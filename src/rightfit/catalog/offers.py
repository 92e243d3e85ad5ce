"""What can be rented: servers, and offers (server x region x purchase mode x price), as structs of arrays.

A price is always US dollars an hour for the whole server, host included, Linux, without tax. NaN means unknown, never zero.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.records import dataclass

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]

# Purchase modes in the user's form; the position is the code in `OfferTable.purchase_index`. Append only.
#: Why a server type without any public price is never recommended.
NO_PRICE = "no price"
#: How the reason begins for a former name, all of whose prices are old: the name under which its seller lists it now follows.
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
# How a price is known: a provider's list, an offer that was made that day (spot feeds, marketplaces, one's own book), worked out from other
# figures, by a rule of the seller's, or the least that is asked ("from"). Append only.
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
    """Server types; row i of every column is one (provider, instance_type). Servers with an accelerator come first."""

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

    `kind_index`: how the price is known, a row of PRICE_KINDS. `is_estimate`: the figure was derived, not quoted (DERIVED_KINDS). `is_stale`: older than the age rule. `is_pseudo_region`: the price holds "any",
    "global" or "eu" wide, so the exact region must be confirmed with the provider. `quarantine` is empty for a sound row, else the
    names of the failed checks (such rows appear only when asked for).
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
        """Low and high monthly share of spot servers reclaimed, as fractions; NaN where nobody publishes it."""
        bands = np.array(INTERRUPTION_BANDS)
        return bands[self.interruption_band, 0], bands[self.interruption_band, 1]


@dataclass(frozen=True, slots=True)
class OfferFilter:
    """Which offers are wanted; an empty tuple means no restriction.

    Regions are exact codes. A region asked for never matches a pseudo region ("cheapest-listed", "any", ...) unless that is the code
    asked for. Countries are ISO 3166 alpha-2 codes; an offer of a provider with one price everywhere (no real region in the list) is
    kept under a country filter and carries `is_pseudo_region`, because the list cannot say where the provider would place it.
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
    """The pairs of provider and accelerator of a table, each once, and which of them each server is of (S,)."""
    pairs = tuple(zip(servers.provider, servers.accelerator_name, strict=True))
    kinds = tuple(dict.fromkeys(pairs))
    return kinds, codes_of(pairs)


def codes_of(labels: Sequence[object]) -> NDArray[np.intp]:
    """A small integer for each distinct label, in the order in which they come first."""
    code = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return np.array([code[label] for label in labels], dtype=np.intp)
