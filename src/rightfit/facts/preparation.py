"""Operations of data preparation and the rates that libraries were measured at (facts/data/preparation_operations.csv, preparation_rates.csv)."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from rightfit.facts.pattern_tables import first_match
from rightfit.facts.tables import table
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: the `kind` of its data, the library that usually does it, output over input, and the part of what is worked on that must be held at once."""

    name: str
    kind: str
    library: str
    output_ratio: float
    holds: float


@dataclass(frozen=True, slots=True)
class LibraryRate:
    """What a library makes of one core [bytes/s]; `ram_factor` over what is held (0: not measured), `max_threads` (0: all), `spills` 1 where it works from disk."""

    core_rate: float
    ram_factor: float
    max_threads: float
    spills: float
    source: str


@functools.cache
def _operations() -> Mapping[str, Operation]:
    return {
        row["operation"]: Operation(row["operation"], row["kind"], row["library"], float(row["output_ratio"]), float(row["holds"]))
        for row in table("preparation_operations")
    }


def operations() -> tuple[str, ...]:
    """Names of all operations, in the order of the table."""
    return tuple(_operations())


def operation_named(text: str) -> Operation | None:
    """The operation that words mean: its name, else the first whose words they hold."""
    wanted = text.strip().lower()
    row = None if wanted in _operations() or not wanted else first_match("preparation_operations", wanted)
    return _operations().get(row["operation"] if row else wanted)


@functools.cache
def library_rates(operation: str) -> Mapping[str, LibraryRate]:
    """The libraries that were measured at an operation."""
    return {
        row["library"]: LibraryRate(
            float(row["mb_per_core_s"]) * 1e6, float(row["ram_factor"]), float(row["max_threads"]), float(row["spills"]), row["source"]
        )
        for row in table("preparation_rates")
        if row["operation"] == operation
    }
