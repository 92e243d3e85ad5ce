"""Slips of the hand in words that decide, "pretrian": letters that changed places, that are missing
inside the word or that are doubled. A word that is known is left alone."""

from __future__ import annotations

import functools
import re
from collections import Counter

from rightfit.facts import bundled, tables
from rightfit.workload.ask import grammar

_WORD = re.compile(r"(?<![\w./-])[A-Za-z]+(?:-[a-z]+)?(?![\w/]|-\w|\.\w)")
_SHORTEST = 6
_SEVERAL = 3
_VERSION = re.compile(r"[\s:-]?\s?v?\d", re.IGNORECASE)
_DECIDING = ("task", "strong", "method", "objective", "purchase", "quantization")


@functools.cache
def _slips() -> dict[str, str]:
    """What is typed for a word -> the word; nothing where two words could be meant."""
    meant: dict[str, set[str]] = {}
    for word in _deciding():
        for typed in _typed(word):
            meant.setdefault(typed, set()).add(word)
    series = _series()
    return {typed: words.pop() for typed, words in meant.items() if len(words) == 1 and typed not in series}


@functools.cache
def _series() -> frozenset[str]:
    """The names of series that several models have: "deepseek", "mistral"."""
    first = (re.match(rf"(?:[^/]*/)?([a-z]{{{_SHORTEST},}})(?![a-z])", name.casefold()) for name in bundled.exact_names())
    counts = Counter(found[1] for found in first if found)
    return frozenset(name for name, count in counts.items() if count >= _SEVERAL)


def _deciding() -> set[str]:
    """Plain words for a choice, and the names of series of models."""
    listed = {word.word.casefold().replace("-", "") for name in _DECIDING for word in tables.words(grammar.WORDS_TABLE, name)}
    return {word for word in listed if word.isascii() and word.isalpha() and len(word) >= _SHORTEST} | _series()


def _typed(word: str) -> set[str]:
    """The word with one slip; its first letter stays."""
    swapped = {word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(1, len(word) - 1)}
    missing = {word[:at] + word[at + 1 :] for at in range(1, len(word) - 1)}
    doubled = {word[:at] + word[at] + word[at:] for at in range(1, len(word))}
    return swapped | missing | doubled


@functools.cache
def _known() -> frozenset[str]:
    words = {word for name in ("filler_en", "soft_en", "hard_en") for word in grammar.listed(name, "fillers")}
    return frozenset(word.casefold().replace("-", "") for word in words) | _deciding()


def mended(text: str) -> str:
    """The text with slips in words that decide put right."""

    def mend(found: re.Match[str]) -> str:
        typed = found[0].casefold().replace("-", "")
        if _slips().get(typed) in _series() and not _VERSION.match(text, found.end()):
            return found[0]  # "resent" is a word, and a series before a version: "resent 50"
        return found[0] if typed in _known() or (not found[0][1:].islower() and "-" not in found[0]) else _slips().get(typed, found[0])

    return _WORD.sub(mend, text)
