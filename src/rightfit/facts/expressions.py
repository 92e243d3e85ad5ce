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
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

_NONE: frozenset[str] = frozenset()
_DIGITS = frozenset("0123456789")
#: At the ends of a run of letters: no letter stands before them in the text, none behind them; and
#: in the words of a list, whose place is not told yet: they are its first, its last.
_BEGIN, _END, FIRST, LAST = "\x02", "\x03", "\x04", "\x05"
#: The parts of a pattern, each with how often it comes. Letters from U+0080 to U+2BFF are passed
#: over, because some have several small forms; a set of them alone compiles ten times as fast.
_PART = re.compile(
    r"(?:(?P<begins>\(\?<!\[(?!\^)(?:[^\]\\]|\\.)+\]\))|(?P<ends>\(\?!\[(?!\^)(?:[^\]\\]|\\.)+\]\))|(?P<edge>\\b)"
    r"|(?P<kind>\\[A-Za-z0-9]|[.^$]|\(\?P=\w+\)|\(\?[aiLmsux]+\))|(?P<open>\((?:\?(?:P<\w+>|[:>]|<?[=!]|[aiLmsux-]+:|\(\w+\)))?)|(?P<shut>\))"
    r"|(?P<bar>\|)|\{(?P<named>[a-z][a-z0-9_]*)\}|\[(?P<any>\^?\]?(?:\\.|[^\]\\])*)\]|(?P<run>(?:(?![\x80-\u2bff])[^\\^$.|?*+()\[\]{}](?![?*+{]))+)|\\?(?P<letter>[^\x80-\u2bff])|.)"
    r"(?:(?P<times>[?*+]|\{\d*,?\d*\})[?+]?)?",
    re.DOTALL,
)
#: Classes that hold every letter from a to z: large and small ones, or small ones in an expression
#: that takes both.
_LETTERS, _SMALL_LETTERS = re.compile(r"\\w|A-Za-z|a-zA-Z"), re.compile("a-z")
_NO_LETTER = re.compile(r"(?=[\x80-\u2bff]).|[\\^$.|?*+()\[\]{}]")
_EDGED = re.compile(r"[A-Za-z]")
#: How groups begin whose text is beside the match ("(?P<" begins a named one).
_BESIDE = ("(?=", "(?!", "(?<")
_LARGEST_CLASS = 12
#: Letters of a short text, and how many of them are asked about before an expression is compiled
#: for all: looking for what it needs takes five times as long as searching one.
_SHORT, _MANY = 80, 100

Needs = tuple[frozenset[Any], ...]
"""What every text that matches holds: of each set a run of letters, or all that another such tuple
asks for."""


class _Choices:
    """What the choices of a group need, while the group is read. `before` and `behind` are the
    marks of the place where it stands."""

    __slots__ = ("before", "behind", "choices", "found", "letters", "opened")

    def __init__(self, before: str = "", behind: str = "", *, opened: str = "") -> None:
        self.before, self.behind, self.opened, self.letters = before, behind, opened, before
        self.choices, self.found = list[Needs](), list[frozenset[Any]]()

    def add(self, letters: str) -> None:
        """More letters of a run."""
        self.letters = letters if self.letters == _BEGIN and not _EDGED.match(letters) else self.letters + letters

    def edge(self, *, begins: bool, ends: bool) -> None:
        """No letter stands on the other side of what is here."""
        is_word = bool(_EDGED.match(self.letters[-1:]))
        self.take(behind=_END if is_word and ends else "")
        self.letters = _BEGIN if begins and not is_word else ""

    def take(self, found: Needs = (), *, behind: str = "") -> None:
        """What a part needs that ends a run of letters."""
        if self.letters not in _NO_RUN:
            ahead = self.letters[: self.letters[0] in _NO_RUN]
            self.found.append(frozenset((f"{ahead}{_marked_inside(self.letters[len(ahead) :].lower())}{behind}",)))
        self.found += found
        self.letters = ""

    def end_choice(self) -> None:
        self.take(behind=self.behind if self.behind == LAST or _EDGED.match(self.letters[-1:]) else "")
        self.choices.append(tuple(self.found))
        self.found, self.letters = [], self.before

    def needs(self) -> Needs:
        self.end_choice()
        return () if self.opened == "(?(" else one_of(self.choices)


_NO_RUN = ("", _BEGIN, FIRST)


def one_of(needed: Iterable[Needs]) -> Needs:
    """What a text needs that holds one of several things."""
    found = list(needed)
    if len(found) == 1:
        return found[0]
    return (frozenset(one for each in found for one in (each[0] if len(each) == 1 else (each,))),) if found and all(found) else ()


@functools.cache
def _placed(needed: Needs, before: str, behind: str) -> Needs:
    """What a list of words needs, by the marks of the place where it stands."""
    return tuple(frozenset(_placed_run(one, before, behind) for one in each) for each in needed)


def _placed_run(one: Any, before: str, behind: str) -> Any:
    if not isinstance(one, str):
        return _placed(one, before, behind)
    if one.startswith(FIRST):
        one = (before if before == FIRST or _EDGED.match(one, 1) else "") + one[1:]
    if one.endswith(LAST):
        one = one[:-1] + (behind if behind == LAST or _EDGED.match(one, len(one) - 2) else "")
    return one


def needs(
    pattern: str, named: Callable[[str], Needs] = lambda _: (), *, ignore_case: bool = False, before: str = "", behind: str = ""
) -> Needs:
    """What every text that matches holds, in small letters; `named` says what a {list} of words
    needs. `before` and `behind` are FIRST and LAST for a word of a list."""
    if not _NO_LETTER.search(pattern):
        return (frozenset((f"{before}{_marked_inside(pattern.lower())}{behind}",)),) if pattern else ()
    whole = _SMALL_LETTERS if ignore_case and "(?-i" not in pattern else _LETTERS
    parts = list(_PART.finditer(pattern))
    shut_of = _shut(parts)
    groups = [_Choices(before, behind)]
    for at, part in enumerate(parts):
        group, times, letter = groups[-1], part["times"] or "", part["letter"]
        is_optional = times.startswith(("?", "*", "{0", "{,"))
        if part["run"]:
            group.add(part["run"])
        elif letter:
            if not is_optional:
                group.add(letter)
            if times:
                group.take()
        elif (aside := part["begins"] or part["ends"]) or part["edge"]:
            if part["edge"] or whole.search(aside):
                group.edge(begins=not part["ends"], ends=not part["begins"])
        elif part["bar"]:
            group.end_choice()
        elif part["shut"]:
            groups.pop()
            if group.opened not in _BESIDE:
                groups[-1].take(() if is_optional else group.needs())
        elif part["open"] or part["named"]:
            ahead = group.letters if group.letters in _NO_RUN else ""
            last = shut_of.get(at, at)
            follows = parts[last + 1] if last + 1 < len(parts) else None
            if parts[last]["times"]:
                behind = ""
            elif follows is None or follows["shut"] or follows["bar"]:
                behind = group.behind
            else:
                behind = _END if follows["edge"] or (follows["ends"] and whole.search(follows["ends"])) else ""
            if part["open"]:
                groups.append(_Choices(ahead, behind, opened=part["open"][:3]))
            else:
                group.take(() if is_optional else _placed(named(part["named"]), ahead, behind))
        else:
            group.take(() if is_optional else _of_kind(part))
    return groups[0].needs()


def _shut(parts: Sequence[re.Match[str]]) -> dict[int, int]:
    """Where each group ends that begins at a place."""
    ends, opened = dict[int, int](), list[int]()
    for at, part in enumerate(parts):
        if part["open"]:
            opened.append(at)
        elif part["shut"]:
            ends[opened.pop()] = at
    return ends


def either(words: Iterable[str], edges: Callable[[str], tuple[str, str]], written: Callable[[str], str] = re.escape) -> str:
    """Any of the words, the longest first, each between its edges."""
    runs = itertools.groupby(sorted(words, key=len, reverse=True), key=edges)
    return "|".join(f"{before}(?:{'|'.join(map(written, run))}){after}" for (before, after), run in runs)


def _of_kind(part: re.Match[str]) -> Needs:
    """What a digit or a class of a few letters needs."""
    letters = part["any"] or ""
    if part["kind"] == r"\d" or letters in (r"\d", "0-9"):
        return (_DIGITS,)
    is_few = 0 < len(letters) <= _LARGEST_CLASS and not _NO_LETTER.search(letters) and "-" not in letters
    return (frozenset(letters.lower()),) if is_few else ()


_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
#: Letters that some expressions take for those of ASCII and others do not.
_ODD = ("İ", "ı", "ſ", "\u212a")
_RUN = re.compile("[a-z]+")


@functools.lru_cache(maxsize=256)
def _marked(text: str) -> str | None:
    """A text in small letters, with marks where its words begin and end; None where that cannot be
    told for all expressions."""
    if not text.isascii() and any(letter in text for letter in _ODD):
        return None
    small = text.lower() if text.isascii() else _FOREIGN_DIGIT.sub("0", text.lower())
    return _RUN.sub(f"{_BEGIN}\\g<0>{_END}", small)


def _marked_inside(run: str) -> str:
    """A run of letters as it stands in a marked text, without what its ends touch."""
    if (run.isascii() and run.isalpha()) or not _RUN.search(run):
        return run
    marked = _RUN.sub(f"{_BEGIN}\\g<0>{_END}", run)
    return marked[_RUN.match(run) is not None : len(marked) - marked.endswith(_END)]


def _held(needed: Needs, text: str) -> bool:
    """Whether a marked text holds what is needed."""
    for each in needed:
        for one in each:
            if one in text if one.__class__ is str else _held(one, text):
                break
        else:
            return False
    return True


class Expression:
    """A regular expression, compiled when it is first asked about a text that holds what it needs,
    or has been asked about many short ones, such as the processors of thousands of servers: from
    then on those are searched at once. Chinese letters have no capitals: looking for those of a
    whole range takes 2 ms."""

    __slots__ = ("_asked", "_compiled", "_flags", "_needs", "_written")

    def __init__(self, written: str | Callable[[], str], *, ignore_case: bool = False, needs: Callable[[], Needs] | None = None) -> None:
        self._written = written
        self._flags = re.IGNORECASE if ignore_case else re.NOFLAG
        self._needs: Callable[[], Needs] | Needs | None = needs
        self._compiled: re.Pattern[str] | None = None
        self._asked = 0

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

    def may_match(self, text: str, end: int = sys.maxsize) -> bool:
        """Whether a text holds what every match holds."""
        if not isinstance(self._needs, tuple):
            self._needs = self._needs() if self._needs else needs(self.pattern, ignore_case=bool(self._flags))
        marked = _marked(text if end >= len(text) else text[:end])
        return marked is None or _held(self._needs, marked)

    def search(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        """As `re.Pattern.search`, and so are the others."""
        if len(text) <= _SHORT:
            self._asked += 1
            if self._asked > _MANY:
                return self.compiled.search(text, start, end)
        return self.compiled.search(text, start, end) if self.may_match(text, end) else None

    def match(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        return self.compiled.match(text, start, end) if self.may_match(text, end) else None

    def fullmatch(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        return self.compiled.fullmatch(text, start, end) if self.may_match(text, end) else None

    def finditer(self, text: str, start: int = 0, end: int = sys.maxsize) -> Iterator[re.Match[str]]:
        return self.compiled.finditer(text, start, end) if self.may_match(text, end) else iter(())

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
