"""Pattern tables find the row that trying each pattern in turn finds."""

from __future__ import annotations

import re

import pytest

from rightfit import facts
from rightfit.facts.tables import first_match

#: Pattern tables, and whether a pattern must match the whole text.
PATTERN_TABLES = {
    "forward_models": True,
    "forward_aliases": True,
    "forward_denoisers": False,
    "forward_families": False,
    "forward_engines": False,
    "forward_cpus": False,
    "train_denoisers": False,
    "train_graphs": False,
    "train_heads": False,
    "train_models": False,
    "training_usual": False,
}


@pytest.mark.parametrize(("table", "whole"), sorted(PATTERN_TABLES.items()))
def test_first_letters_pass_over_no_row_that_matches(table: str, whole: bool) -> None:
    """The patterns themselves, and every name of a bundled model, find the row that trying each
    pattern in turn finds."""
    rows = facts.table(table)
    names = [
        *(record.name for record in facts.search_models()),
        *(part for row in rows for part in re.split(r"[|()?*+]", row["pattern"]) if part),
    ]
    for name in dict.fromkeys(names):
        tried = (re.compile(row["pattern"], re.IGNORECASE) for row in rows)
        matches = [pattern.fullmatch(name) if whole else pattern.search(name) for pattern in tried]
        expected = next((row for row, match in zip(rows, matches, strict=True) if match), None)
        assert first_match(table, name, whole=whole) == expected, name
