"""The compressed tables that travel in the wheel: columns of text, dictionary-encoded where values
repeat, squeezed by xz.

A packed table is xz over: 4 bytes little-endian header length, a JSON header, then one section a
column in header order.
A `dictionary` section is `codes` (little-endian unsigned integers of `width` bytes), its values
stand in the header.
A `text` section is UTF-8 lines. A `number` section is little-endian doubles (prices fetched on
this machine). Reading back gives exactly the strings that were written, so no figure is
rounded on the way.
"""

from __future__ import annotations

import functools
import json
import lzma
import os
import sqlite3
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.errors import CatalogError
from rightfit.files import Sections
from rightfit.messages import Message, cause
from rightfit.records import dataclass

# A dictionary pays while values repeat; above this share of distinct values plain
# lines compress better.
_DISTINCT_SHARE_FOR_DICTIONARY = 0.2


@dataclass(frozen=True, slots=True)
class PackedColumn:
    """One column: `labels[codes[row]]` is the text of the row. A column of numbers may hold
    `values` instead, and then has no labels."""

    labels: tuple[str, ...]
    codes: NDArray[np.signedinteger[Any]]
    values: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.codes if self.values is None else self.values)

    def texts(self) -> list[str]:
        """The text of every row."""
        if self.values is not None:
            return [f"{value:.10g}" for value in self.values.tolist()]
        labels = self.labels
        return [labels[code] for code in self.codes.tolist()]

    def numbers(self, *, empty: float = float("nan")) -> NDArray[np.float64]:
        """The rows as floats; empty text becomes `empty`."""
        if self.values is not None:
            return self.values
        values = np.array([float(text) if text else empty for text in self.labels], dtype=np.float64)
        return values[self.codes] if len(values) else np.zeros(0)


PackedTable = Mapping[str, PackedColumn]


def encode_table(columns: Mapping[str, Sequence[str]]) -> bytes:
    """Compress a table of text columns; the same input always gives the same bytes."""
    header: list[dict[str, Any]] = []
    sections: list[bytes] = []
    for name, texts in columns.items():
        entry, section = _encode_column(list(texts))
        header.append({"name": name, **entry, "bytes": len(section)})
        sections.append(section)
    head = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    raw = len(head).to_bytes(4, "little") + head + b"".join(sections)
    return lzma.compress(raw, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=9 | lzma.PRESET_EXTREME)


def _encode_column(texts: list[str]) -> tuple[dict[str, Any], bytes]:
    labels = sorted(set(texts))
    if len(labels) > _DISTINCT_SHARE_FOR_DICTIONARY * len(texts) and len(labels) > 256:
        if any("\n" in text for text in texts):
            raise ValueError("a text column may not hold line breaks")
        return {"kind": "text"}, "\n".join(texts).encode()
    position = {label: code for code, label in enumerate(labels)}
    width = 1 if len(labels) <= 256 else 2 if len(labels) <= 65536 else 4
    codes = np.array([position[text] for text in texts], dtype=f"<u{width}")
    return {"kind": "dictionary", "width": width, "labels": labels}, codes.tobytes()


def decode_table(data: bytes) -> dict[str, PackedColumn]:
    """Read a packed table back."""
    raw = lzma.decompress(data, format=lzma.FORMAT_XZ)
    start = 4 + int.from_bytes(raw[:4], "little")
    header = json.loads(raw[4:start])
    table: dict[str, PackedColumn] = {}
    for entry in header:
        end = start + entry["bytes"]
        table[entry["name"]] = _decode_column(entry, raw[start:end])
        start = end
    return table


def _decode_column(entry: Mapping[str, Any], section: bytes) -> PackedColumn:
    if entry["kind"] == "number":
        return PackedColumn((), np.zeros(0, dtype=np.int32), np.frombuffer(section, dtype="<f8"))
    if entry["kind"] == "text":
        labels = tuple(section.decode().split("\n"))
        return PackedColumn(labels, np.arange(len(labels), dtype=np.int32))
    codes = np.frombuffer(section, dtype=f"<u{entry['width']}").astype(np.int32)  # four bytes a cell: half a million rows stay small
    return PackedColumn(tuple(entry["labels"]), codes)


# ---- Columns as blobs in SQLite: one row of table `block` a column, checked by CRC when read.

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
    """Every column under `prefix/`: arrays (indices as intp) or tuples of text. A bad checksum is a
    DatabaseError, like other damage."""
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


# ---- Which refreshed prices count: looked up by every command, so this module is light.


def data_folder() -> Path:
    """Where fetched prices live: RIGHTFIT_DATA_DIR, else RIGHTFIT_CACHE_DIR, else the platform's
    folder for this user's data."""
    for name in ("RIGHTFIT_DATA_DIR", "RIGHTFIT_CACHE_DIR"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    if os.environ.get("XDG_DATA_HOME"):
        return Path(os.environ["XDG_DATA_HOME"]) / "rightfit"
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "rightfit" / "Data"
    return home / ("Library/Application Support/rightfit" if sys.platform == "darwin" else ".local/share/rightfit")


def folder() -> Path:
    """The folder of generations."""
    return data_folder() / "refreshed"


def current() -> str:
    """The fingerprint of the generation that counts; empty without one."""
    try:
        pointer = json.loads((folder() / "current.json").read_text(encoding="utf-8"))
        name = str(pointer["generation"])
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return ""
    return name if name.isalnum() and (folder() / name / "manifest.json").is_file() else ""


# ---- The layout of the store: what a reader checks before it trusts a file.

# Raised whenever the layout changes; an older store is then simply not found and
# a new one is built.
SCHEMA_VERSION = 5
APPLICATION_ID = 0x52464954  # "RFIT" in the SQLite header
TABLE_NAMES = ("block", "meta", "region", "storage_price", "egress_price", "interruption", "discount", "market_gpu_price", "finding")


# ---- The files that travel in the package.

_FOLDER = Path(__file__).with_name("data")


def data_bytes(name: str) -> bytes:
    """A file of the package's catalog data."""
    try:
        return (_FOLDER / name).read_bytes()
    except OSError as error:
        raise CatalogError(Message("catalog.package_lacks", file=name, error=cause(error))) from None


def manifest() -> dict[str, Any]:
    """Fingerprint, and rows and checksum of each packed table."""
    try:
        result: dict[str, Any] = json.loads(data_bytes("manifest.json"))
    except ValueError:
        raise CatalogError(Message("catalog.package_damaged", file="manifest.json")) from None
    return result


@functools.cache
def rules() -> Mapping[str, Any]:
    """The market's rules: ages, note patterns, thresholds of the integrity checks; each with its
    reason. Those that are asked for are parsed, once: all take as long as an estimate."""
    return Sections(data_bytes("rules.toml").decode())


def load_unamended(name: str) -> dict[str, PackedColumn]:
    """One table of the wheel as it is packed."""
    import lzma

    try:
        return decode_table(data_bytes(f"{name}.pack"))
    except (lzma.LZMAError, EOFError, ValueError, KeyError, IndexError):
        raise CatalogError(Message("catalog.package_damaged", file=f"{name}.pack")) from None


def amendment_files() -> dict[str, str]:
    """The text of every table of amendments by "topic/table.csv", sorted; empty where
    nothing was ever amended."""
    folder = _FOLDER / "amendments"
    try:
        return {f"{path.parent.name}/{path.name}": path.read_text(encoding="utf-8") for path in sorted(folder.glob("*/*.csv"))}
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogError(Message("catalog.amendments_unread", error=cause(error))) from None


def fingerprint() -> str:
    """What the bundled catalog is known by: a row that is amended makes another one, and
    with it a new store."""
    packed: str = manifest()["fingerprint"]
    files = amendment_files()
    if not files:
        return packed
    import hashlib

    return hashlib.sha256(json.dumps([packed, files]).encode()).hexdigest()
