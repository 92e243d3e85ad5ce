"""The words that people write, as tables with one line a word (facts/data/words/*.csv), and the patterns made of them.

A line has the `list` that the word belongs to, the `word`, its `edges`, its `language`, the `meaning` that it has in its list, and a `note`
(where
it is seen, or why it is there). The edges say where a word may stand:

both, start, end   these ends of the word must be ends of a word in the text
open               it may be a part of a longer word; the shape that names its list may close it. Chinese words are always open: Chinese has
no spaces
name               plain letters, a word of its own; a blank of it may be a hyphen or nothing in the text
whole              plain letters, compared with whole words and never searched for

Save for names and whole words, a word may leave letters out (`seconds?`), stand for kinds of letters (`\\d` is a digit), and name a list
(`{digits}`). The order of lines counts: the first word that fits is taken.

Code writes shapes, in which {list} stands for any word of a list: `shape("training", r"(\\d+) ?{frames}")`. A table is read, and a shape
compiled,
when it is first asked for.
"""

from __future__ import annotations

import functools
import itertools
import re
import string
from collections.abc import Mapping
from typing import NamedTuple

from rightfit.errors import UnknownNameError
from rightfit.facts.tables import table

_NAMED = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_EDGES = {"both": (r"\b", r"\b"), "start": (r"\b", ""), "end": ("", r"\b"), "open": ("", "")}
_NAME_EDGES = r"(?<![A-Za-z0-9_./-])", r"(?![A-Za-z0-9_/])"


class Word(NamedTuple):
    """One line of a table."""

    word: str
    edges: str
    language: str
    meaning: str

    @property
    def pattern(self) -> str:
        """The word with the ends that its edges ask for."""
        if self.edges in ("name", "whole"):
            return name_pattern(self.word)
        before, after = _EDGES[self.edges]
        return f"{before}{self.word}{after}"


def name_pattern(name: str) -> str:
    """A name as a whole word, where a blank or hyphen stands for either or nothing; a Chinese one anywhere."""
    escaped = re.escape(name).replace(r"\ ", r"[\s-]?").replace(r"\-", r"[\s-]?")
    return f"{_NAME_EDGES[0]}{escaped}{_NAME_EDGES[1]}" if name.isascii() else escaped


@functools.cache
def lists(name: str) -> Mapping[str, tuple[Word, ...]]:
    """Every list of a table, words in order."""
    found: dict[str, list[Word]] = {}
    for row in table(f"words/{name}"):
        found.setdefault(row["list"], []).append(Word(row["word"], row["edges"], row["language"], row["meaning"]))
    return {key: tuple(words) for key, words in found.items()}


def words(name: str, chosen: str) -> tuple[Word, ...]:
    """The words of one list."""
    found = lists(name)
    if chosen not in found:
        raise UnknownNameError("list of words", chosen, nearest=sorted(found))
    return found[chosen]


#: Signs that mean themselves in an expression.
_PLAIN = frozenset(string.ascii_letters + string.digits + " _-,:=/%")


@functools.cache
def spelled(name: str, text: str) -> str:
    """A shape as a regular expression: every {list} is any of its words."""
    return _NAMED.sub(lambda match: f"(?:{'|'.join(spelled(name, word.pattern) for word in words(name, match[1]))})", text)


@functools.cache
def shape(name: str, text: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """A shape, compiled."""
    return re.compile(spelled(name, text), re.IGNORECASE if ignore_case else 0)


def occurs(pattern: str, text: str) -> bool:
    """Whether an expression is found in a text. Most of a table's are plain words, which are looked for as they are: compiling one takes longer
    than all its searches in a plan."""
    return pattern in text if _PLAIN.issuperset(pattern) else re.search(pattern, text) is not None


def says(name: str, chosen: str, text: str, *, ignore_case: bool = False) -> bool:
    """Whether a text holds a word of a list."""
    return shape(name, f"{{{chosen}}}", ignore_case=ignore_case).search(text) is not None


def number_in(name: str, text: str, said: str, *, ignore_case: bool = False) -> float:
    """The number that the first group of a shape (`text`) holds where it is found in what was said; 0 where it is not."""
    found = shape(name, text, ignore_case=ignore_case).search(said)
    digits = next((group for group in found.groups() if group), "") if found else ""
    return float(digits.replace(",", "")) if digits else 0.0


def words_in(text: str) -> list[str]:
    """Runs of letters and digits of a text, small."""
    return re.findall(r"\w+", text.casefold())


@functools.cache
def spelled_meanings(name: str, chosen: str) -> tuple[tuple[str, str], ...]:
    """(any of its words, meaning) for each run of lines of one meaning, in order."""
    runs = itertools.groupby(words(name, chosen), key=lambda word: word.meaning)
    return tuple(("|".join(spelled(name, word.pattern) for word in run), meaning) for meaning, run in runs)


@functools.cache
def meanings(name: str, chosen: str, *, ignore_case: bool = False) -> tuple[tuple[re.Pattern[str], str], ...]:
    """The same, compiled."""
    flags = re.IGNORECASE if ignore_case else 0
    return tuple((re.compile(pattern, flags), meaning) for pattern, meaning in spelled_meanings(name, chosen))


def meaning(name: str, chosen: str, text: str, *, ignore_case: bool = False) -> str:
    """The first meaning of a list whose words a text holds; "" where it holds none."""
    return next((found for pattern, found in meanings(name, chosen, ignore_case=ignore_case) if pattern.search(text)), "")


@functools.cache
def senses(name: str, chosen: str) -> Mapping[str, str]:
    """Word -> what it means, for lists whose words are plain letters."""
    return {word.word: word.meaning for word in words(name, chosen)}
