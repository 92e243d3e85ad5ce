"""How the cells of measured rows are read: one way for every table.

A table's module says which cell means what; the words that it knows are lists of facts/data/words and pattern tables of facts/data, and
what a row does not say, or says in words that nobody knows, is named in the assumptions of its case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rightfit.errors import RightfitError
from rightfit.estimate.case_cells import RefusedRowError, number, read_rows, word
from rightfit.facts.word_tables import number_in
from rightfit.units import parse_count

__all__ = ["RefusedRowError", "Row", "count_of", "first_number", "number", "number_in", "read_rows", "word"]

Row = Mapping[str, str]

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def first_number(text: str) -> float:
    """The first number in `text`, 0 when there is none."""
    found = _NUMBER.search(text)
    return float(found[0]) if found else 0.0


def count_of(text: str) -> float:
    """A number as tables write it ("11M", "1e6", "10,500,000"); 0 where there is none."""
    cleaned = text.strip().replace(",", "").replace(" ", "")
    try:
        return float(cleaned) if cleaned else 0.0
    except ValueError:
        pass
    try:
        return float(parse_count(cleaned))
    except (RightfitError, ValueError):
        return 0.0
