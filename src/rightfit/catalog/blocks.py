"""Columns as blobs in SQLite: one row of table `block` a column, checked by CRC when read."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

CREATE_BLOCK = "CREATE TABLE block (name TEXT PRIMARY KEY, dtype TEXT NOT NULL, crc INTEGER NOT NULL, data BLOB NOT NULL) WITHOUT ROWID"
_TEXT = "text"


def smallest_unsigned(values: NDArray[Any]) -> NDArray[Any]:
    """The same non-negative integers in the narrowest unsigned type."""
    top = int(values.max()) if len(values) else 0
    return values.astype("<u1" if top < 256 else "<u2" if top < 65536 else "<u4")


def write_block(connection: sqlite3.Connection, name: str, *, values: NDArray[Any] | Sequence[str]) -> None:
    """Store one column: floats as they are, indices narrowed, flags as bytes, texts as lines."""
    if not isinstance(values, np.ndarray):
        assert not any("\n" in text for text in values)
        dtype, data = _TEXT, "".join(f"{text}\n" for text in values).encode()
    else:
        array = smallest_unsigned(values) if values.dtype.kind in "iu" else values
        dtype, data = array.dtype.str, np.ascontiguousarray(array).tobytes()
    connection.execute("INSERT INTO block VALUES (?, ?, ?, ?)", (name, dtype, zlib.crc32(data), data))


def read_blocks(connection: sqlite3.Connection, prefix: str) -> dict[str, Any]:
    """Every column under `prefix/`: arrays (indices as intp) or tuples of text. A bad checksum is a DatabaseError, like other damage."""
    rows = connection.execute("SELECT name, dtype, crc, data FROM block WHERE name >= ? AND name < ?", (prefix + "/", prefix + "0"))
    columns = {name[len(prefix) + 1 :]: _decode(name, dtype, crc, data) for name, dtype, crc, data in rows}
    if not columns:
        raise sqlite3.DatabaseError(f"the store holds no {prefix} columns")
    return columns


def _decode(name: str, dtype: str, crc: int, data: bytes) -> Any:
    if zlib.crc32(data) != crc:
        raise sqlite3.DatabaseError(f"checksum of column {name} does not match")
    if dtype == _TEXT:
        return tuple(data.decode().split("\n")[:-1])
    array = np.frombuffer(data, dtype=dtype)
    return array.astype(np.intp) if array.dtype.kind == "u" else array


def join_columns(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Stack tables of the same columns."""
    tables = list(parts)
    joined: dict[str, Any] = {}
    for name, first in tables[0].items():
        columns = [table[name] for table in tables]
        joined[name] = sum(columns, ()) if isinstance(first, tuple) else np.concatenate(columns)
    return joined
