"""The compressed tables that travel in the wheel: columns of text, dictionary-encoded where values repeat, squeezed by xz.

A packed table is xz over: 4 bytes little-endian header length, a JSON header, then one section a column in header order.
A `dictionary` section is `codes` (little-endian unsigned integers of `width` bytes), its values stand in the header.
A `text` section is UTF-8 lines. A `number` section is little-endian doubles (prices fetched on this machine). Reading back gives exactly
the strings that were written, so no figure is rounded on the way.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.records import dataclass

# A dictionary pays while values repeat; above this share of distinct values plain lines compress better.
_DISTINCT_SHARE_FOR_DICTIONARY = 0.2


@dataclass(frozen=True, slots=True)
class PackedColumn:
    """One column: `labels[codes[row]]` is the text of the row. A column of numbers may hold `values` instead, and then has no labels."""

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
