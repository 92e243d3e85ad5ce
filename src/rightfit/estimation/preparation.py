"""Data preparation: one operation over so many bytes, as people word it, to what the physics counts
of it, and advice.

`preparation_task` reads the operation as people write it ("tokenize", "csv to parquet", "resize
images", "dedup") and the library (polars, pandas, duckdb, pyarrow, spark, pillow, opencv; the
usual one where none is named), and raises a one-line error for what it does not know. `data_bytes`
are as stored.
"""

from __future__ import annotations

import math

from rightfit import facts
from rightfit.errors import InputError, UnknownNameError
from rightfit.facts.classical import LibraryRate, Operation, library_rates, operation_named, operations
from rightfit.facts.tables import constant_group, constants, words_in
from rightfit.messages import Message
from rightfit.physics.loading import PreparationRates, PreparationWork
from rightfit.records import dataclass

_NIGHT_H = constants("preparation")["night_h"]
_EXPANSION = constant_group("preparation", "expansion")
_FILE_OPERATIONS = {"read-csv", "convert", "read-parquet"}
_THREAD_BYTES = constant_group("preparation", "thread_bytes")
_MANY_BYTES = constants("preparation")["many_bytes"]
_LIBRARIES = ("polars", "pandas", "duckdb", "pyarrow", "spark", "tokenizers", "python", "datasketch", "datatrove", "pillow", "opencv")
#: The library that is taken, where none is named, for what no memory holds.
SPILLING = "duckdb"
_ALIASES = {
    "pil": "pillow",
    "cv2": "opencv",
    "opencv-python": "opencv",
    "huggingface": "tokenizers",
    "transformers": "tokenizers",
    "arrow": "pyarrow",
    "pyspark": "spark",
    "dask": "pandas",
    "text-dedup": "datatrove",
}


@dataclass(frozen=True, slots=True)
class PreparationTask:
    """One operation with its rates. `worked_bytes` are what the rate counts, `held_bytes` what must
    be in memory together."""

    operation: str
    library: str
    kind: str
    input_bytes: float
    worked_bytes: float
    output_bytes: float
    held_bytes: float
    core_rate: float
    ram_factor: float
    max_threads: float
    spills: float
    source: str
    assumptions: tuple[str, ...] = ()


def _operation(text: str) -> Operation:
    if any(word.startswith("embed") for word in words_in(text)):
        raise InputError(Message("estimate.embedding_is_inference"))
    found = operation_named(text)
    if found is None:
        raise UnknownNameError("operation", text, nearest=list(operations()))
    return found


def preparation_task(operation: str, *, data_bytes: float, library: str = "", stored: str = "") -> PreparationTask:
    """The operation over `data_bytes` of stored data. `stored`: csv, parquet, jsonl or memory for
    tables (parquet where nothing is said)."""
    if not (math.isfinite(data_bytes) and data_bytes > 0):
        raise InputError(Message("estimate.no_size_of_data", value=f"{data_bytes:g}"))
    asked = _operation(operation)
    name = _ALIASES.get(library.strip().lower(), library.strip().lower()) or asked.library
    if name not in _LIBRARIES:
        raise UnknownNameError("library", library, nearest=list(_LIBRARIES))
    rates = library_rates(asked.name)
    if name not in rates:
        raise InputError(Message("estimate.no_measured_rate", library=name, operation=asked.name, libraries=", ".join(sorted(rates))))
    found = _task(asked, rates[name], name, float(data_bytes), stored.strip().lower())
    if library or found.spills or found.held_bytes * found.ram_factor <= _MANY_BYTES or SPILLING not in rates:
        return found
    # More than memory holds anywhere: the library that works on one server from its disk.
    return _task(asked, rates[SPILLING], SPILLING, float(data_bytes), stored.strip().lower())


def _task(operation: Operation, rate: LibraryRate, library: str, data_bytes: float, stored: str) -> PreparationTask:
    if stored and stored not in _EXPANSION:
        raise UnknownNameError("storage format", stored, nearest=list(_EXPANSION))
    assumptions: list[str] = []
    worked = data_bytes
    if operation.kind == "table" and operation.name not in _FILE_OPERATIONS:
        worked = data_bytes * _EXPANSION[stored or "parquet"]
        if not stored:
            assumptions.append("table taken as Parquet: three times as large in memory")
    if not rate.ram_factor and operation.kind != "image":
        assumptions.append("memory factor not measured")
    return PreparationTask(
        operation=operation.name,
        library=library,
        kind=operation.kind,
        input_bytes=data_bytes,
        worked_bytes=worked,
        output_bytes=data_bytes * operation.output_ratio,
        held_bytes=worked * operation.holds,
        core_rate=rate.core_rate,
        ram_factor=rate.ram_factor,
        max_threads=rate.max_threads,
        spills=rate.spills,
        source=rate.source,
        assumptions=tuple(assumptions),
    )


def work_of(task: PreparationTask) -> PreparationWork:
    """What the physics counts of an operation."""
    return PreparationWork.of(
        input_bytes=task.input_bytes, worked_bytes=task.worked_bytes, output_bytes=task.output_bytes, held_bytes=task.held_bytes
    )


def rates_of(task: PreparationTask) -> PreparationRates:
    """What the operation's library makes of a core."""
    known = facts.coefficients("preparation")
    return PreparationRates.of(
        serial=known["serial"],
        smt_gain=known["smt_gain"],
        base_bytes=known["base_bytes"],
        core_rate=task.core_rate,
        max_threads=task.max_threads,
        ram_factor=task.ram_factor,
        spills=task.spills,
        thread_bytes=_THREAD_BYTES[task.kind],
    )


def advice_of(task: PreparationTask, *, bottleneck: str, in_ram: bool, on_disk: bool, hours: float) -> tuple[str, ...]:
    """Codes of what to do (explain words them) for an operation on one server."""
    found: list[str] = []
    if task.kind in ("text", "image") and task.output_bytes > 0:
        found.append("prepare-once")
    if not in_ram:
        found += ["memory-optimised"] if task.held_bytes < _MANY_BYTES else []
        found.append("streaming-engine" if task.held_bytes < _MANY_BYTES else "spark")
    if task.max_threads == 1:
        found.append("single-thread-library")
    elif bottleneck == "cpu" and hours > 1.0:
        found.append("use-more-cores" if hours < _NIGHT_H else "spark")
    if bottleneck == "disk":
        found.append("faster-disk")
    if not on_disk:
        found.append("more-disk")
    return tuple(dict.fromkeys(found))
