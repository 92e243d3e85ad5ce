"""What is wrong with a fleet, in Chinese: the library's sentence is found among those that it can write, and its parts are put into the Chinese one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from rightfit.explain.messages import say, topic

_FIELD = re.compile(r"\{(\w+)\}")
_PART = "part_"
_LISTS, _OR = ("names", "words", "example"), re.compile(r",? or ")
#: Fields that hold a sentence, or a part of one, in their turn.
_NESTED = frozenset(("hint", "problem", "error", "elsewhere", "line", "earliest", "since", *_LISTS))
#: What some fields look like, so that sentences on other things are not taken for those on fleets. A hint may be missing.
_KEYS = "jobs|services|owned|limits|teams|defaults|horizon|steady|start|name|repeats|schema_version"
_FORMS: Mapping[str, str] = {"hint": "(?:;.*)?", "given": ".*?", "line": ".*?", "place": rf"(?:{_KEYS})\b.*?", "name": r"(?![\'\"]).+?"}


def fleet_problem(message: str) -> str | None:
    """The Chinese of a sentence that refuses a fleet; None where it is no such sentence."""
    return _said(message, parts=False)


def _said(text: str, *, parts: bool) -> str | None:
    found = [(match, key, weight) for pattern, key, weight in _patterns(parts) if (match := pattern.fullmatch(text))]
    if not found:
        return None
    match, key, _ = max(found, key=lambda one: one[2])
    return say(f"fleet_problems.{key}", "zh", **_fields(match.groupdict()))


def _fields(values: Mapping[str, str]) -> dict[str, str]:
    return {name: _part(name, text) if name in _NESTED else text for name, text in values.items()}


def _part(name: str, text: str) -> str:
    """A field that is a sentence of a fleet itself, such as that a demand is missing, or a part of one; names are joined."""
    if name in _LISTS:
        return _OR.sub(" 或 ", text)
    return (_said(text, parts=False) if name == "error" else None) or _said(text, parts=True) or text


@cache
def _patterns(parts: bool) -> tuple[tuple[re.Pattern[str], str, int], ...]:
    """(pattern, key, letters that are no field) of every sentence, or of every part."""
    messages = {key: words["en"] for key, words in topic("fleet_problems").items() if key.startswith(_PART) is parts}
    return tuple((pattern_of(text), key, len(_FIELD.sub("", text))) for key, text in messages.items())


def pattern_of(text: str) -> re.Pattern[str]:
    """A message with fields as a pattern that finds them."""
    pieces = _FIELD.split(text)
    return re.compile(
        "".join(re.escape(piece) if at % 2 == 0 else f"(?P<{piece}>{_FORMS.get(piece, '.+?')})" for at, piece in enumerate(pieces)),
        re.DOTALL,
    )
