"""A table as data: which columns of which records, and how each cell reads. Faces draw it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rightfit.records import dataclass


def as_text(value: Any) -> str:
    """Default form of a cell."""
    return "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `key` finds the value in a record and the heading in the labels; `show` turns the value into text.

    `drop` orders what is left out when the table is too wide: 0 stays, the highest goes first. A `flexible` column may be cut short.
    """

    key: str
    show: Callable[[Any], str] = as_text
    right: bool = False
    drop: int = 0
    flexible: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Records (raw values by key) and the columns to show of them."""

    columns: Sequence[Column]
    records: Sequence[Mapping[str, Any]]
    title: str = ""
