"""Servers without accelerators as replicas: their cheapest offers, and the processor of each as a device."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from numpy.typing import NDArray

from rightfit.catalog.offers import PURCHASE_CODES, OfferTable, ServerTable
from rightfit.facts.machines import ProcessorKind, processor_kind, processor_record
from rightfit.facts.records import Accelerator
from rightfit.records import dataclass
from rightfit.search.constraints import Wanted, filter_failures
from rightfit.search.service.wish import usual

Index = NDArray[np.intp]
_SKIPPED = ("burstable", "gpu")


def cheapest_cpu_offers(table: OfferTable, candidates: NDArray[np.bool_], filters: Wanted) -> Index:
    """One offer for each CPU server: the cheapest that no filter refuses."""
    purchases = [PURCHASE_CODES[name] for name in filters.purchases]
    rows = np.flatnonzero(candidates & np.isin(table.purchase_index, purchases))
    part = table.take(rows)
    refused = np.zeros(rows.shape[0], dtype=np.bool_)
    for name, mask in filter_failures(part, dataclasses.replace(filters, gpus=())).items():
        refused |= mask if name != "purchase" else False
    kept = rows[~refused]
    order = kept[np.argsort(table.price_usd_per_h[kept], kind="stable")]
    _, first = np.unique(table.server_index[order], return_index=True)
    return order[first]


@dataclass(frozen=True, slots=True)
class PassMachine:
    """One class of machines: the card or CPU as the facts name it, its family, how many replicas a server holds, and of a CPU server the kind of processor."""

    device: str
    family: str
    per_node: int
    memory_bytes: float
    card: Accelerator
    processor: ProcessorKind | None = None


def cpu_machine(servers: ServerTable, server: int) -> PassMachine | None:
    """A CPU server as a machine of one replica; its number of cores stands in `num_sms`."""
    if servers.category[server] in _SKIPPED or not servers.vcpus[server] >= 2 or servers.vcpus[server] > 192:
        return None
    arm = servers.arch[server].startswith("arm")
    cores = max(1, int(servers.vcpus[server] * (1.0 if arm else usual()["cpu_physical_share"])))
    memory = float(servers.memory_bytes[server])
    prefix = servers.instance_type[server].partition(".")[0]
    return _machine(f"CPU {servers.cpu_model[server]} {prefix}.", cores, 0.0 if math.isnan(memory) else memory)


@functools.lru_cache(maxsize=8192)
def _machine(text: str, cores: int, memory_bytes: float) -> PassMachine:
    """Kept, because four thousand servers are a few hundred machines."""
    kind = processor_kind(text)
    card = processor_record(kind, cores=cores, memory_bytes=memory_bytes)
    return PassMachine(text, "cpu-amx" if kind.has_matrix_units else "cpu", 1, memory_bytes, card, kind)
