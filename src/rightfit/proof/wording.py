"""Words of a case that name something which did not run: "HF Trainer (compared with torchtune)" is not torchtune."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from rightfit.facts.word_tables import shape

TABLE = "wording"  # of words
#: Columns that name software; a comparison in them would choose other rules.
NAMES = ("framework", "engine", "library", "loader")
_COMPARED = r"\s*\([^()]*{comparison}[^()]*\)|[\s,;]*{comparison}[^,;()]*"


@functools.lru_cache(maxsize=4096)
def without_comparison(text: str) -> tuple[str, str]:
    """The text without its comparisons, and the words that were left out."""
    pattern = shape(TABLE, _COMPARED, ignore_case=True)
    found = pattern.search(text)
    if found is None or not pattern.sub("", text).strip(" ,;"):
        return text, ""
    return pattern.sub("", text).strip(" ,;"), found[0].strip(" ,;")


def without_comparisons(cells: Mapping[str, str]) -> dict[str, str]:
    """A case in whose names of software nothing is compared."""
    return {column: without_comparison(cell)[0] if column in NAMES and cell else cell for column, cell in cells.items()}


def compared(cells: Mapping[str, str]) -> list[str]:
    """What is said of comparisons that were left out."""
    found = {column: without_comparison(cells[column])[1] for column in NAMES if cells.get(column)}
    return [f"{column}: {words!r} names what it is compared with: not read" for column, words in found.items() if words]
