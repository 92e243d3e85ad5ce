"""Composition, families and search take typed cases and records of facts: no row of text and no expression that reads words reaches them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rightfit

SOURCE = Path(rightfit.__file__).parent
WORDS = re.compile(r"Mapping\[str, str\]|\bre\.[a-z]+\(|^import re$|^from re import", re.MULTILINE)
#: Modules of search that hold words which are no row of a measurement: files of an export, reasons by option, tables of places and power, what a user types of a machine.
KEPT = frozenset({"answer.py", "energy.py", "honours.py", "offers.py", "own_machine.py", "places.py"})


@pytest.mark.parametrize("room", ["estimate", "families", "search"])
def test_no_words_of_rows_reach_the_rooms_of_numbers(room: str) -> None:
    reading = {
        str(path.relative_to(SOURCE / room)) for path in (SOURCE / room).rglob("*.py") if WORDS.search(path.read_text(encoding="utf-8"))
    }
    assert reading <= (KEPT if room == "search" else frozenset())


def test_the_readers_of_rows_are_found() -> None:
    """The expression sees what it looks for: the modules that do read rows."""
    readers = {path.name for path in (SOURCE / "proof" / "cases").glob("*.py") if WORDS.search(path.read_text(encoding="utf-8"))}
    assert readers >= {"training.py", "serving.py", "samples.py", "forward.py", "reader.py"}
