"""Values as JSON can hold them."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any


def plain(value: Any) -> Any:
    """Only what JSON can hold: NaN and infinity become null, NumPy numbers and enumerations plain ones, records mappings."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return plain(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float):
        return None if not math.isfinite(value) else int(value) if value == int(value) and abs(value) < 1e15 else value
    return value


def json_bytes(value: Any, *, indent: int | None = None) -> bytes:
    """A value as one JSON text in UTF-8. Halves of characters, which UTF-8 cannot hold, stay escaped."""
    text = json.dumps(plain(value), ensure_ascii=False, indent=indent, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")
