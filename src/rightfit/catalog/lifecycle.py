"""When types end: dates that providers announced (data/lifecycle.csv), refused from the day, told before."""

from __future__ import annotations

import csv
import datetime
import functools
import os
import re
from collections.abc import Mapping

import numpy as np

from rightfit.catalog.offers import Flags, ServerTable
from rightfit.catalog.package_data import data_bytes
from rightfit.records import dataclass

RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class Event:
    """What happens to a family on a day (ISO date): `kind` is "retired" (no longer to be had) or "restricted" (not for new accounts)."""

    kind: str
    family: str
    date: str
    source: str


def today() -> str:
    """The day on which types are judged (ISO date): that of the clock, or RIGHTFIT_TODAY."""
    return os.environ.get("RIGHTFIT_TODAY") or datetime.datetime.now(tz=datetime.UTC).date().isoformat()


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
