"""Regular expressions that are compiled when a text first holds what they need.

A sentence is read by some 1,200 expressions, of which a hundred can match it: the others name words
that it does not hold. Compiling an expression takes a millisecond, looking for its words a
microsecond (docs/decisions/cold-start.md).
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_NONE: frozenset[str] = frozenset()
_DIGITS = frozenset("0123456789")
#: The parts of a pattern, each with how often it comes. Letters from U+0080 to U+2BFF are passed
#: over, because some have several small forms.
_PART = re.compile(
    r"(?:(?P<kind>\\[A-Za-z0-9]|[.^$]|\(\?P=\w+\)|\(\?[aiLmsux]+\))|(?P<open>\((?:\?(?:P<\w+>|[:>]|<?[=!]|[aiLmsux-]+:|\(\w+\)))?)|(?P<shut>\))"
    r"|(?P<bar>\|)|\{(?P<named>[a-z][a-z0-9_]*)\}|\[(?P<any>\^?\]?(?:\\.|[^\]\\])*)\]|\\?(?P<letter>[^\x80-\u2bff])|.)"
    r"(?:(?P<times>[?*+]|\{\d*,?\d*\})[?+]?)?",
    re.DOTALL,
)
_NO_LETTER = re.compile(r"[\\^$.|?*+()\[\]{}\x80-\u2bff]")
#: Groups whose text is no part of the match, or of which only some matches have one.
_ASIDE = ("(?=", "(?!", "(?<", "(?(")
_LARGEST_CLASS = 12


class _Choices:
    """What the choices of a group need, while the group is read."""

    __slots__ = ("best", "choices", "is_aside", "letters")

    def __init__(self, *, is_aside: bool = False) -> None:
        self.is_aside, self.choices, self.best, self.letters = is_aside, list[frozenset[str]](), _NONE, ""

    def take(self, found: frozenset[str]) -> None:
        """What a part needs that ends a run of letters: the longest words tell most, few more than
        many."""
        for one in (frozenset((self.letters.lower(),)) if self.letters else _NONE, found):
            if one and (not self.best or (min(map(len, one)), -len(one)) > (min(map(len, self.best)), -len(self.best))):
                self.best = one
        self.letters = ""

    def end_choice(self) -> None:
        self.take(_NONE)
        self.choices.append(self.best)
        self.best = _NONE

    def needs(self) -> frozenset[str]:
        self.end_choice()
        return _NONE.union(*self.choices) if all(self.choices) and not self.is_aside else _NONE


def needs(pattern: str, named: Callable[[str], frozenset[str]] = lambda _: _NONE) -> frozenset[str]:
    """Small letters of which every text that matches holds one run; empty where none can be told.
    `named` says what a {list} of words needs."""
    if not _NO_LETTER.search(pattern):
        return frozenset((pattern.lower(),)) if pattern else _NONE
    groups = [_Choices()]
    for part in _PART.finditer(pattern):
        group, times, letter = groups[-1], part["times"] or "", part["letter"]
        is_optional = times.startswith(("?", "*", "{0", "{,"))
        if letter and not times:
            group.letters += letter
        elif letter:
            group.letters += "" if is_optional else letter
            group.take(_NONE)
        elif part["open"]:
            group.take(_NONE)
            groups.append(_Choices(is_aside=part["open"].startswith(_ASIDE)))
        elif part["bar"]:
            group.end_choice()
        else:
            found = groups.pop().needs() if part["shut"] else named(part["named"]) if part["named"] else _of_kind(part)
            groups[-1].take(_NONE if is_optional else found)
    return groups[0].needs()


def either(words: Iterable[str], edges: Callable[[str], tuple[str, str]], written: Callable[[str], str] = re.escape) -> str:
    """Any of the words, the longest first, each between its edges."""
    runs = itertools.groupby(sorted(words, key=len, reverse=True), key=edges)
    return "|".join(f"{before}(?:{'|'.join(map(written, run))}){after}" for (before, after), run in runs)


def _of_kind(part: re.Match[str]) -> frozenset[str]:
    """What a digit or a class of a few letters needs."""
    letters = part["any"] or ""
    if part["kind"] == r"\d" or letters in (r"\d", "0-9"):
        return _DIGITS
    return frozenset(letters.lower()) if len(letters) <= _LARGEST_CLASS and not _NO_LETTER.search(letters) and "-" not in letters else _NONE


#: Large and foreign letters and digits that an expression takes for those of ASCII.
_FOREIGN = str.maketrans("İıſ", "iis")
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")


@functools.lru_cache(maxsize=64)
def _small(text: str) -> str:
    return text.lower() if text.isascii() else _FOREIGN_DIGIT.sub("0", text.translate(_FOREIGN).lower())


class Expression:
    """A regular expression, compiled when it is first asked about a text that holds what it needs.
    Chinese letters have no capitals: looking for those of a whole range takes 2 ms."""

    __slots__ = ("_compiled", "_flags", "_needs", "_written")

    def __init__(
        self, written: str | Callable[[], str], *, ignore_case: bool = False, needs: Callable[[], frozenset[str]] | None = None
    ) -> None:
        self._written = written
        self._flags = re.IGNORECASE if ignore_case else re.NOFLAG
        self._needs: Callable[[], frozenset[str]] | tuple[str, ...] | None = needs
        self._compiled: re.Pattern[str] | None = None

    @property
    def pattern(self) -> str:
        """The expression as text."""
        if not isinstance(self._written, str):
            self._written = self._written()
        return self._written

    @property
    def compiled(self) -> re.Pattern[str]:
        """The expression of the standard library."""
        if self._compiled is None:
            written = self.pattern.replace(r"\b", r"(?a:\b)")  # an English word also ends where Chinese begins: 微调完checkpoint要多大
            self._compiled = re.compile(written.replace("[一-鿿]", "(?-i:[一-鿿])") if self._flags else written, self._flags)
        return self._compiled

    def may_match(self, text: str) -> bool:
        """Whether a text holds something that every match holds."""
        if not isinstance(self._needs, tuple):
            self._needs = tuple(self._needs() if self._needs else needs(self.pattern))
        if not self._needs:
            return True
        small = _small(text)
        return any(one in small for one in self._needs)

    def search(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        """As `re.Pattern.search`, and so are the others."""
        return self.compiled.search(text, start, end) if self.may_match(text) else None

    def match(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        return self.compiled.match(text, start, end) if self.may_match(text) else None

    def fullmatch(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        return self.compiled.fullmatch(text, start, end) if self.may_match(text) else None

    def finditer(self, text: str, start: int = 0, end: int = sys.maxsize) -> Iterator[re.Match[str]]:
        return self.compiled.finditer(text, start, end) if self.may_match(text) else iter(())

    def findall(self, text: str) -> list[Any]:
        return self.compiled.findall(text) if self.may_match(text) else []

    def sub(self, instead: str | Callable[[re.Match[str]], str], text: str, count: int = 0) -> str:
        return self.compiled.sub(instead, text, count) if self.may_match(text) else text

    def subn(self, instead: str | Callable[[re.Match[str]], str], text: str) -> tuple[str, int]:
        return self.compiled.subn(instead, text) if self.may_match(text) else (text, 0)

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        return self.compiled.split(text, maxsplit) if self.may_match(text) else [text]


@functools.cache
def expression(text: str) -> Expression:
    """An expression of a table, capitals or not."""
    return Expression(text, ignore_case=True)
