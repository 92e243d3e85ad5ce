"""The bilingual message catalogue: every sentence rightfit says, English and Chinese
side by side, as data.

A message is a section of `data/<topic>.toml` with an `en` and a `zh` text; both name the same
`str.format` fields (tested). A family of work may bring a topic of its own, `families/<name>`.
Numbers are formatted before they get here (see quantities.py), so a message only places
words around them.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import re
import string
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from rightfit.errors import (
    AmbiguousNameError,
    ContradictionError,
    InputError,
    NoAnswerError,
    QuantityError,
    RightfitError,
    UnavailableError,
    UnknownNameError,
)
from rightfit.facts.expressions import Expression, expression
from rightfit.files import Sections
from rightfit.messages import LANGS as LANGS
from rightfit.messages import Lang as Lang
from rightfit.messages import Message
from rightfit.messages import spaced as spaced
from rightfit.records import dataclass

TOPICS = (
    "advice",
    "amounts",
    "choice",
    "data_path",
    "fleet",
    "formulas",
    "host",
    "measure",
    "quantities",
    "reasons",
    "rejections",
    "rule_words",
    "serving",
    "terms",
    "training",
    "watch",
)

_DATA = Path(__file__).with_name("data")


def default_lang(environment: Mapping[str, str] = os.environ) -> Lang:
    """Chinese when the locale says so, else English."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = environment.get(name, "")
        if value:
            return "zh" if value.casefold().startswith("zh") else "en"
    return "en"


@cache
def topic(name: str) -> Mapping[str, Any]:
    """A table of words (data/NAME.toml); of a topic of messages {key: {"en": text, "zh": text}}."""
    return Sections((_DATA / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def topic_words(name: str, key: str) -> Expression:
    """Words of a topic's section `words`, as the expression that they are."""
    return expression(topic(name)["words"][key])


def topic_text(name: str, key: str, lang: Lang, /, **fields: Any) -> str:
    """A text of a topic's section `texts`, with its fields filled in."""
    text: str = topic(name)["texts"][key][lang]
    return text.format(**fields)


def family_topic(family: str) -> str:
    """The topic of the words that a family of work brings."""
    return f"families/{family}"


@cache
def family_topics() -> tuple[str, ...]:
    """The topics of families of work that bring words of their own."""
    folder = _DATA / "families"
    files = sorted(file.name for file in folder.iterdir()) if folder.is_dir() else []
    return tuple(f"families/{file.removesuffix('.toml')}" for file in files if file.endswith(".toml"))


def has(key: str) -> bool:
    """Whether the catalogue holds `key` ("topic.name")."""
    name, _, rest = key.partition(".")
    return (name in TOPICS or name in family_topics()) and rest in topic(name)


def say(key: str, lang: Lang, **fields: object) -> str:
    """The message `key` ("topic.name") in `lang`, its fields filled in."""
    name, _, rest = key.partition(".")
    text: str = topic(name)[rest][lang].format(**fields)
    return spaced(text) if lang == "zh" else _ONE_PER_S.sub(r"\1", text)


#: A rate of one is of one thing: "1 request/s".
_ONE_PER_S = re.compile(r"(?<![\d.,])(1 \w+)s(?=/s\b)")


def say_or(key: str, lang: Lang, default: str, **fields: object) -> str:
    """Like `say`; a key that the catalogue lacks gives `default`, so that new codes of lower rooms
    still read as something."""
    return say(key, lang, **fields) if has(key) else default


def join(items: list[str], lang: Lang) -> str:
    """A list in prose: commas in English, the enumeration comma in Chinese."""
    return ("、" if lang == "zh" else ", ").join(items)


def sentences(parts: list[str], lang: Lang) -> str:
    """Sentences one after the other: a space between them in English, none in Chinese."""
    return ("" if lang == "zh" else " ").join(part for part in parts if part)


def fields_of(text: str) -> frozenset[str]:
    """The names of the format fields in a message."""
    return frozenset(field for _, field, _, _ in string.Formatter().parse(text) if field is not None)


# ---- The words of headings, columns and status lines, English and Chinese, from data/labels.toml.


@functools.cache
def labels() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """{section: {key: {"en": text, "zh": text}}}."""
    return Sections((_DATA / "labels.toml").read_text(encoding="utf-8"))


def label(section: str, key: str, lang: Lang, **fields: object) -> str:
    """One text with its fields filled in; a key without a text is shown as it is,
    underscores as blanks."""
    entry = labels().get(section, {}).get(key)
    return entry[lang].format(**fields) if entry else key.replace("_", " ")


# ---- Values as JSON can hold them.


def plain(value: Any) -> Any:
    """Only what JSON can hold: NaN and infinity become null, NumPy numbers and enumerations plain
    ones, records mappings."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return plain(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float):
        return None if not math.isfinite(value) else int(value) if value == int(value) and abs(value) < 1e15 else value
    return value


def json_bytes(value: Any, *, indent: int | None = None) -> bytes:
    """A value as one JSON text in UTF-8. Halves of characters, which UTF-8 cannot
    hold, stay escaped."""
    text = json.dumps(plain(value), ensure_ascii=False, indent=indent, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


# ---- What is wrong with a question, in the user's language and as data: every face shows the same.

_MOST_NAMES = 5
# The most particular kind first.
_CODES: tuple[tuple[type[RightfitError], str], ...] = (
    (UnknownNameError, "unknown_name"),
    (AmbiguousNameError, "ambiguous_name"),
    (QuantityError, "quantity"),
    (ContradictionError, "contradiction"),
    (InputError, "input"),
    (NoAnswerError, "no_answer"),
    (UnavailableError, "unavailable"),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `code` and `key` for programs, `title` for its kind, `message` for
    people; `field`, `allowed` and `nearest` where known."""

    code: str
    title: str
    message: str
    field: str = ""
    allowed: str = ""
    nearest: tuple[str, ...] = ()
    key: str = ""

    def to_dict(self) -> dict[str, Any]:
        """What a program reads of it."""
        return {"key": self.key, "field": self.field, "message": self.message, "allowed": self.allowed, "nearest": list(self.nearest)}


def code_of(error: RightfitError) -> str:
    """The kind of an error in one word."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), "input")


def problems_of(error: RightfitError, lang: Lang) -> tuple[Problem, ...]:
    """The single problems of an error, one at least."""
    single = error.problems if isinstance(error, InputError) else ()
    return tuple(_problem(one, lang) for one in single or (error,))


def _problem(error: RightfitError, lang: Lang) -> Problem:
    code = code_of(error)
    field = (error.field or "") if isinstance(error, InputError) else ""
    allowed, nearest = (error.allowed, error.nearest) if isinstance(error, InputError) else ("", ())
    title = Message(f"problems.title_{code}").text(lang)
    told = allowed.text(lang) if isinstance(allowed, Message) else allowed
    return Problem(code, title, error.text(lang), field, told, tuple(nearest[:_MOST_NAMES]), error.key)
