"""Reading the bundled data files: small tables, calibrated coefficients, and rows into typed records."""

from __future__ import annotations

import csv
import dataclasses
import functools
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from rightfit.errors import InputError, UnknownNameError
from rightfit.messages import Message

DATA = Path(__file__).parent / "data"

Record = TypeVar("Record")

_ReadCell = Callable[[str], object]


def read_text(name: str) -> str:
    """Text of the bundled file `name`."""
    return (DATA / name).read_text(encoding="utf-8")


def read_rows(text: str) -> Iterator[dict[str, str]]:
    """Rows of a CSV text as dictionaries."""
    lines = csv.reader(text.splitlines())
    header = next(lines, [])
    for cells in lines:
        yield dict(zip(header, cells, strict=True))


@functools.cache
def _table(name: str) -> tuple[dict[str, str], ...]:
    path = DATA / f"{name}.csv"
    if not path.is_file():
        raise UnknownNameError("table", name, nearest=sorted(file.stem for file in DATA.glob("*.csv")))
    return tuple(read_rows(path.read_text(encoding="utf-8")))


def table(name: str) -> list[dict[str, str]]:
    """Rows of the small data table `data/<name>.csv`, cells as text. The caller owns the returned list and rows."""
    return [dict(row) for row in _table(name)]


#: Coefficients that stand in for those of the data files while a source is left out (estimate/folds.py); empty in use.
SUBSTITUTES: dict[str, Mapping[str, float]] = {}


@functools.cache
def coefficients(name: str) -> Mapping[str, float]:
    """Values of `data/coefficients/<name>.toml`: key -> value in the entry's unit.

    Each entry is a table {value, unit, source, ...}; one without a source or with a value that is no number is refused,
    because no figure may enter a prediction that nobody can trace.
    """
    values = {key: float(str(entry["value"])) for key, entry in coefficient_entries(name).items()}
    return MappingProxyType(values | dict(SUBSTITUTES.get(name, {})))


@functools.cache
def coefficient_entries(name: str) -> Mapping[str, Mapping[str, object]]:
    """The whole entries of a coefficient file: value, unit, source and whatever else they say."""
    path = DATA / "coefficients" / f"{name}.toml"
    if not path.is_file():
        known = sorted(file.stem for file in path.parent.glob("*.toml"))
        raise UnknownNameError("coefficient file", name, nearest=known)
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    for key, entry in entries.items():
        _check_entry(path.name, key, entry)
    return MappingProxyType(entries)


def _check_entry(file: str, key: str, entry: object) -> None:
    if not isinstance(entry, dict):
        raise InputError(Message("facts.entry_no_table", file=file, entry=key))
    value = entry.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(Message("facts.entry_no_value", file=file, entry=key))
    for needed in ("unit", "source"):
        if not isinstance(entry.get(needed), str) or (needed == "source" and not entry[needed].strip()):
            raise InputError(Message(f"facts.entry_no_{needed}", file=file, entry=key))


def _integer(text: str) -> int:
    if not text:
        return 0
    return int(text) if text.isdigit() else int(float(text))


def _real(text: str) -> float:
    return float(text) if text else 0.0


def _flag(text: str) -> bool:
    return text == "1"


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(";")))


_READERS: Mapping[str, _ReadCell] = {
    "int": _integer,
    "float": _real,
    "bool": _flag,
    "str": str,
    "tuple[str, ...]": _names,
}


@functools.cache
def _field_readers(record: type[Any]) -> tuple[tuple[str, _ReadCell, bool], ...]:
    return tuple((field.name, _READERS[str(field.type)], field.default is dataclasses.MISSING) for field in dataclasses.fields(record))


def to_record(record: type[Record], row: Mapping[str, str]) -> Record:
    """One row as a `record`; cells absent or empty give the field's zero or default. A row without a source is refused."""
    if not row.get("source"):
        raise InputError(Message("facts.record_no_source", kind=record.__name__, record=row.get("name", "?")))
    values: dict[str, object] = {}
    for name, read, required in _field_readers(record):  # type: ignore[arg-type]
        text = row.get(name, "")
        if text or required:
            values[name] = read(text)
    return record(**values)


def filled(
    record: type[Record], row: Mapping[str, str], scaled: Mapping[str, tuple[str, float]] = MappingProxyType({}), **own: Any
) -> Record:
    """A row as a `record`: each field from the column of its name, or in the record's unit from a `scaled` {field: (column, factor)}, or as given (`own`);
    cells absent or empty are zeros of the field's kind."""
    values = {name: float(row.get(column) or 0.0) * factor for name, (column, factor) in scaled.items()} | own
    for field in dataclasses.fields(record):  # type: ignore[arg-type]
        if field.name not in values:
            values[field.name] = _READERS[str(field.type)](row.get(field.name, ""))
    return record(**values)


def to_records(record: type[Record], rows: Iterable[Mapping[str, str]]) -> Mapping[str, Record]:
    """Rows as records by name, in file order."""
    return MappingProxyType({row["name"]: to_record(record, row) for row in rows})
