"""Composition, families and search take typed cases and records of facts: no row of text and no
expression that reads words reaches them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rightfit

SOURCE = Path(rightfit.__file__).parent
WORDS = re.compile(r"Mapping\[str, str\]|\bre\.[a-z]+\(|^import re$|^from re import", re.MULTILINE)


@pytest.mark.parametrize("room", ["estimate", "families", "search"])
def test_no_words_of_rows_reach_the_rooms_of_numbers(room: str) -> None:
    reading = {
        str(path.relative_to(SOURCE / room)) for path in (SOURCE / room).rglob("*.py") if WORDS.search(path.read_text(encoding="utf-8"))
    }
    assert reading == set()


def test_the_readers_of_rows_are_found() -> None:
    """The expression sees what it looks for: the modules that do read rows."""
    readers = {path.name for path in (SOURCE / "proof" / "cases").glob("*.py") if WORDS.search(path.read_text(encoding="utf-8"))}
    assert readers >= {"training.py", "serving.py", "samples.py", "forward.py", "reader.py"}
