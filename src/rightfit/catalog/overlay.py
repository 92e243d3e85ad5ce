"""Prices fetched on this machine: kept beside the bundled ones, laid over them when the store is built.

Folder `refreshed` of the data folder holds one generation a sub-folder and `current.json`, which names the one that counts. A
generation is written whole, its store is built and checked, and only then the pointer is replaced, so whoever reads sees the old state
or the new one. Generations are packed tables (pack.py) of the same columns as the bundled ones, plus the history of prices.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rightfit.catalog.offers import Flags, Indices
from rightfit.catalog.pack import PackedColumn, PackedTable, decode_table
from rightfit.catalog.pointer import current, folder
from rightfit.errors import CatalogError
from rightfit.messages import Message

# Overlaid table -> the columns that name a row. Of servers the bundled description wins (it knows more), of the others the fetched row.
KEYS: Mapping[str, tuple[str, ...]] = {
    "servers": ("provider", "instance_type"),
    "prices": ("provider", "instance_type", "region", "purchase"),
    "interruptions": ("provider", "instance_type", "region"),
    "market_gpu_prices": ("provider", "gpu_name", "gpu_count", "region", "purchase"),
}
PRICE_COLUMNS = ("price_usd_hour", "price_original")
HISTORY = "history"
_KEPT_GENERATIONS = 2


def load(generation: str) -> dict[str, PackedTable]:
    """The tables of a generation; CatalogError when one is damaged."""
    place = folder() / generation
    try:
        sums = json.loads((place / "manifest.json").read_text(encoding="utf-8"))["tables"]
        return {name: decode_table(_checked(place / f"{name}.pack", entry["sha256"])) for name, entry in sums.items()}
    except (OSError, ValueError, KeyError, TypeError, lzma.LZMAError, EOFError):
        raise CatalogError(Message("catalog.refreshed_damaged", path=place, folder=folder())) from None


def _checked(path: Path, sha256: str) -> bytes:
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError("checksum")
    return data


def facts(generation: str) -> dict[str, Any]:
    """What is written beside a generation: which source was read when, and how many rows it gave."""
    try:
        answer: dict[str, Any] = json.loads((folder() / generation / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return answer


def write_generation(tables: Mapping[str, PackedTable], *, sources: Mapping[str, Mapping[str, Any]]) -> str:
    """Write the tables as a new generation, synced to disk, and return its fingerprint. It does not count yet."""
    packed = {name: encode_packed(table) for name, table in tables.items() if num_rows(table)}
    sums = {name: {"sha256": hashlib.sha256(data).hexdigest(), "rows": num_rows(tables[name])} for name, data in packed.items()}
    manifest = json.dumps({"tables": sums, "sources": sources}, indent=1, sort_keys=True).encode()
    generation = hashlib.sha256(manifest).hexdigest()[:16]
    if _is_whole(generation):  # the same prices on the same day: what may count already is not touched
        return generation
    temporary = folder() / f"{generation}.{os.getpid()}.tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    try:
        for name, data in packed.items():
            _write_synced(temporary / f"{name}.pack", data)
        _write_synced(temporary / "manifest.json", manifest)
        shutil.rmtree(folder() / generation, ignore_errors=True)
        os.replace(temporary, folder() / generation)  # noqa: PTH105
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return generation


def _is_whole(generation: str) -> bool:
    try:
        return bool(load(generation))
    except CatalogError:
        return False


def publish(generation: str) -> None:
    """Let a generation count from now on: one atomic replacement of the pointer."""
    temporary = folder() / f"current.{os.getpid()}.tmp"
    _write_synced(temporary, json.dumps({"generation": generation}).encode())
    os.replace(temporary, folder() / "current.json")  # noqa: PTH105
    with contextlib.suppress(OSError):
        descriptor = os.open(folder(), os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def remove(generation: str) -> None:
    """Throw a generation away, unless it counts."""
    if generation != current():
        shutil.rmtree(folder() / generation, ignore_errors=True)


def remove_old() -> list[str]:
    """Remove generations but the current and the one before it (which a reader may have just looked up), and what killed refreshes left."""
    counts, removed = current(), []
    found = [path for path in folder().iterdir() if path.name != "work"] if folder().is_dir() else []
    generations = sorted((path for path in found if path.is_dir() and path.suffix != ".tmp"), key=lambda path: path.stat().st_mtime)
    for path in [path for path in generations if path.name != counts][: -(_KEPT_GENERATIONS - 1) or None]:
        shutil.rmtree(path, ignore_errors=True)
        removed.append(path.name)
    for path in found:
        if path.suffix == ".tmp" and time.time() - path.stat().st_mtime > 3600:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    return removed


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def encode_packed(table: PackedTable) -> bytes:
    """A packed table from columns as they are, quickly (the wheel's are squeezed harder)."""
    header: list[dict[str, Any]] = []
    sections: list[bytes] = []
    for name, column in table.items():
        width = 1 if len(column.labels) <= 256 else 2 if len(column.labels) <= 65536 else 4
        kind = {"kind": "number"} if column.values is not None else {"kind": "dictionary", "width": width, "labels": list(column.labels)}
        cells = column.codes.astype(f"<u{width}") if column.values is None else column.values.astype("<f8")
        sections.append(cells.tobytes())
        header.append({"name": name, **kind, "bytes": len(sections[-1])})
    head = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return lzma.compress(
        len(head).to_bytes(4, "little") + head + b"".join(sections), format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=0
    )


def num_rows(table: PackedTable) -> int:
    """Rows of a packed table."""
    return len(next(iter(table.values()))) if table else 0


def empty_like(table: PackedTable) -> dict[str, PackedColumn]:
    """No rows of the same columns."""
    return {name: PackedColumn((), np.zeros(0, dtype=np.int32)) for name in table}


def numeric(table: PackedTable) -> dict[str, PackedColumn]:
    """The table with its prices as numbers: half a million different prices as texts would take a hundred megabytes."""
    none = np.zeros(0, dtype=np.int32)
    return {name: PackedColumn((), none, column.numbers()) if name in PRICE_COLUMNS else column for name, column in table.items()}


def take(table: PackedTable, rows: Indices | Flags) -> dict[str, PackedColumn]:
    """Some rows; labels are shared."""
    return {name: _take_column(column, rows) for name, column in table.items()}


def _take_column(column: PackedColumn, rows: Indices | Flags) -> PackedColumn:
    if column.values is not None:
        return PackedColumn((), column.codes, column.values[rows])
    return PackedColumn(column.labels, column.codes[rows])


def stack(tables: Sequence[PackedTable]) -> dict[str, PackedColumn]:
    """Tables of the same columns under each other, equal labels merged."""
    return {name: _stack_column([table[name] for table in tables]) for name in tables[0]}


def _stack_column(columns: Sequence[PackedColumn]) -> PackedColumn:
    if any(column.values is not None for column in columns):
        return PackedColumn((), np.zeros(0, dtype=np.int32), np.concatenate([column.numbers() for column in columns]))
    places: dict[str, int] = {}
    codes = []
    for column in columns:
        numbers = (places.setdefault(label, len(places)) for label in column.labels)
        mapping = np.fromiter(numbers, dtype=np.int32, count=len(column.labels))
        codes.append(mapping[column.codes] if len(column.codes) else np.zeros(0, dtype=np.int32))
    return PackedColumn(tuple(places), np.concatenate(codes))


def row_keys(tables: Sequence[PackedTable], key: Sequence[str]) -> list[Indices]:
    """One integer for each row's key, comparable between the tables."""
    combined = np.zeros(sum(map(num_rows, tables)), dtype=np.intp)
    for name in key:
        column = _stack_column([table[name] for table in tables])
        if column.values is not None:
            distinct, codes = np.unique(column.values, return_inverse=True)
            combined = combined * max(1, len(distinct)) + codes.reshape(-1)
        else:
            combined = combined * max(1, len(column.labels)) + column.codes
    ends = np.cumsum([num_rows(table) for table in tables])
    return [np.asarray(part) for part in np.split(combined, ends[:-1])]


def lay_over(base: PackedTable, over: PackedTable, *, key: Sequence[str], base_wins: bool = False) -> dict[str, PackedColumn]:
    """The rows of both; of two rows of one key that of `over` stays (or of `base`). Within `over` the last of one key stays."""
    if not num_rows(over):
        return dict(base)
    over = take({name: over[name] for name in base}, last_of_each(row_keys([over], key)[0]))
    base_keys, over_keys = row_keys([base, over], key)
    if base_wins:
        return stack([base, take(over, ~np.isin(over_keys, base_keys))])
    return stack([take(base, ~np.isin(base_keys, over_keys)), over])


def last_of_each(keys: Indices) -> Indices:
    """The last row of each key, in order."""
    _, first_from_end = np.unique(keys[::-1], return_index=True)
    return np.sort(len(keys) - 1 - first_from_end)


def merged(name: str, base: PackedTable, tables: Mapping[str, PackedTable]) -> PackedTable:
    """A bundled table with the fetched rows laid over it."""
    return lay_over(base, tables[name], key=KEYS[name], base_wins=name == "servers") if name in tables else base
