"""Tables whose rows are found by a pattern of a name."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping

from rightfit.facts.tables import table as rows_of

#: The letters that every match of a pattern begins with; none where a group, a choice or an optional letter comes first.
_BEGINNING = re.compile(r"\w*(?![?*{|])")


@functools.cache
def _patterns(name: str) -> tuple[tuple[str, Mapping[str, str]], ...]:
    """The rows of a pattern table, each with the letters that a text must contain to match it."""
    return tuple((beginning(row["pattern"]), row) for row in rows_of(name))


def beginning(pattern: str) -> str:
    """Letters, in lower case, that every text which matches `pattern` contains; "" where none can be told at a glance."""
    depth, letters = 0, _BEGINNING.match(pattern)
    for sign in re.sub(r"\\.|\[[^]]*\]", "", pattern):
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and not depth:
            return ""
    return letters[0].lower() if letters else ""


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def matches(table: str, text: str, *, whole: bool) -> Iterator[tuple[re.Match[str], Mapping[str, str]]]:
    """Every row that matches. Most rows are told apart by their first letters: compiling all patterns costs a cold start 15 ms."""
    small = text.lower()
    for letters, row in _patterns(table):
        if letters not in small:
            continue
        pattern = _compiled(row["pattern"])
        if match := pattern.fullmatch(text) if whole else pattern.search(text):
            yield match, row


def first_match(table: str, text: str, *, whole: bool = False) -> Mapping[str, str] | None:
    """The first row of a pattern table that matches `text`."""
    return next((row for _, row in matches(table, text, whole=whole)), None)


@functools.cache
def alias(name: str) -> str:
    """The record that a usual spelling of a model means; the spelling itself when none is known."""
    text = name.strip()
    return next((match.expand(row["name"]) for match, row in matches("forward_aliases", text, whole=True)), text)
