"""Columns that describe the set-up of a run: those that `rightfit predict` reads and that say what ran, without name, metric and what was measured."""

from __future__ import annotations

from functools import cache

from rightfit import facts

_NOT_SETUP = frozenset(("id", "metric", "measured", "date"))


@cache
def setup_columns() -> tuple[str, ...]:
    """Every such column once."""
    return tuple(dict.fromkeys(row["column"] for row in facts.table("case_columns") if row["column"] not in _NOT_SETUP))
