"""Two binary logs read without their programs: TensorBoard's event files and W&B's offline files.

Both frame protobuf messages; the few fields needed are read by number from the wire format (varint, 64-bit, length-delimited, 32-bit).
TensorBoard: record = length u64, crc u32, data, crc u32 (tensorflow/core/lib/io/record_writer.h); Event {1 wall_time double, 2 step varint, 5 summary}; Summary.Value
{1 tag, 2 simple_value float, 8 tensor}. W&B: LevelDB's log framing, blocks of 32 KiB, after a header of 7 bytes (wandb/sdk/internal/datastore.py, 0.31).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

_BLOCK = 32_768
_HEADER = 7


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field of a message: integers, or bytes. Ends at the first thing that is no field."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind, number = key & 7, key >> 3
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            yield number, data[at : at + size]
            at += size
        elif kind == 2:
            size, at = _varint(data, at)
            yield number, data[at : at + size]
            at += size
        else:
            return


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            break
    return value, at


# ---- TensorBoard -----------------------------------------------------------------------------------------------------------------------


def scalars_of_events(data: bytes) -> Iterator[tuple[str, float, float, float]]:
    """(tag, wall time [s], step, value) of every scalar; a file cut short ends where it was cut."""
    at = 0
    while at + 12 <= len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        event = data[at + 12 : at + 12 + size]
        if len(event) < size:
            return
        yield from _scalars(event)
        at += 16 + size


def _scalars(event: bytes) -> Iterator[tuple[str, float, float, float]]:
    parts = dict(fields(event))
    if 1 not in parts or 5 not in parts:
        return
    (wall,) = struct.unpack("<d", parts[1])
    for number, message in fields(parts[5]):
        value = dict(fields(message)) if number == 1 else {}
        scalar = _scalar(value)
        if 1 in value and scalar is not None:
            yield value[1].decode("utf-8", "replace"), wall, float(parts.get(2, 0)), scalar


def _scalar(value: dict[int, Any]) -> float | None:
    """A scalar as TensorFlow 1 wrote it, or as a tensor of one number (float_val or content)."""
    if 2 in value and len(value[2]) == 4:
        return float(struct.unpack("<f", value[2])[0])
    tensor = dict(fields(value[8])) if 8 in value and isinstance(value[8], bytes) else {}
    raw = tensor.get(5) or tensor.get(4) or b""
    if isinstance(raw, bytes) and len(raw) in (4, 8):
        return float(struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0])
    return None


# ---- W&B -------------------------------------------------------------------------------------------------------------------------------


def wandb_records(data: bytes) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Lines of history and of system statistics, each a mapping of key to value. A file cut short ends where it was cut."""
    history, stats = [], []
    for record in _leveldb_records(data):
        for number, message in fields(record):
            if number == 2 and isinstance(message, bytes):
                history.append(_items(message, list_number=1))
            elif number == 7 and isinstance(message, bytes):
                stats.append(_items(message, list_number=3))
    return history, stats


def _items(message: bytes, *, list_number: int) -> dict[str, Any]:
    """Key and value of items {1 key, 2 nested_key, 16 value_json}; nested keys joined by dots."""
    found = {}
    for number, item in fields(message):
        if number != list_number or not isinstance(item, bytes):
            continue
        key, nested, text = "", [], b""
        for part, value in fields(item):
            if part == 1:
                key = value.decode("utf-8", "replace")
            elif part == 2:
                nested.append(value.decode("utf-8", "replace"))
            elif part == 16:
                text = value
        try:
            found[key or ".".join(nested)] = json.loads(text)
        except ValueError:
            continue
    return found


def _leveldb_records(data: bytes) -> Iterator[bytes]:
    at, parts = _HEADER, b""
    while at + _HEADER <= len(data):
        room = _BLOCK - at % _BLOCK
        if room < _HEADER:
            at += room
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        piece = data[at + _HEADER : at + _HEADER + length]
        if kind == 0 and length == 0:  # padding
            at += room
            continue
        if len(piece) < length:
            return
        at += _HEADER + length
        parts = piece if kind in (1, 2) else parts + piece
        if kind in (1, 4):
            yield parts
            parts = b""
