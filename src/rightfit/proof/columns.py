"""The columns of a case, by kind of table: facts/data/case_columns.csv. Engines see these and nothing else of a row.

A case is what its columns say: remarks (`notes`), where it was read (`source`, `source_where`) and what became of it are carried through and never
read, because nobody writes them beside a question.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rightfit import facts
from rightfit.errors import UnknownNameError

#: Kinds of tables, and the measured tables of each.
TABLES: Mapping[str, Sequence[str]] = {
    "training": ("train_memory", "train_throughput"),
    "inference": ("inference",),
    "samples": ("vision_train", "vision_oom"),
    "classical": ("classical_ml",),
    "loading": ("data_loading",),
}


class CaseColumn(NamedTuple):
    """One column that is read: its unit ("word", "words", "name", "count", "flag" or a unit), allowed words, and what it means in both languages."""

    table: str
    column: str
    unit: str
    allowed: str
    meaning: str
    meaning_zh: str


@functools.cache
def _all() -> tuple[CaseColumn, ...]:
    return tuple(CaseColumn(**row) for row in facts.table("case_columns"))


def case_columns(table: str = "") -> tuple[CaseColumn, ...]:
    """The columns that are read of a kind of table (training, inference, samples, classical, loading, or the name of a measured table); of every kind
    without one. Raises UnknownNameError for another name."""
    if not table:
        return _all()
    kind = next((kind for kind, names in TABLES.items() if table == kind or table in names), "")
    if not kind:
        raise UnknownNameError("table", table, nearest=list(TABLES), allowed=", ".join(TABLES))
    return tuple(column for column in _all() if column.table == kind)


@functools.cache
def _names(table: str) -> frozenset[str]:
    return frozenset(one.column for one in case_columns(table))


#: Carried through by custom, and no misspelling of a column that is read.
CARRIED = frozenset(
    {
        "notes",
        "source",
        "source_where",
        "usable",
        "why_not",
        "corrections",
        "place",
        "trust",
        "flags",
        "measured",
        "is_oom",
        "framework_version",
        "params_b",
    }
)


def unread(header: Sequence[str]) -> list[tuple[str, str]]:
    """Columns of a table that no engine reads, each with the nearest that one does ("" where none is near); remarks are left out."""
    import difflib

    known = sorted(_names(""))
    strange = [column for column in header if column and column not in known and column not in CARRIED]
    return [(column, next(iter(difflib.get_close_matches(column.lower(), known, n=1, cutoff=0.7)), "")) for column in strange]


def visible(row: Mapping[str, str], table: str = "") -> dict[str, str]:
    """The cells of a row that engines may read."""
    names = _names(table)
    return {column: cell for column, cell in row.items() if column in names}
