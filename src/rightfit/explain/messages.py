"""The bilingual message catalogue: every sentence rightfit says, English and Chinese side by side, as data.

A message is a section of `data/<topic>.toml` with an `en` and a `zh` text; both name the same `str.format` fields (tested). A family of
work may
bring a topic of its own, `families/<name>`.
Numbers are formatted before they get here (see quantities.py), so a message only places words around them.
"""

from __future__ import annotations

import os
import string
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from rightfit.messages import LANGS as LANGS
from rightfit.messages import Lang as Lang
from rightfit.messages import spaced as spaced

TOPICS = (
    "advice",
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
def topic(name: str) -> Mapping[str, Mapping[str, str]]:
    """All messages of one topic: {key: {"en": text, "zh": text}}."""
    return tomllib.loads((_DATA / f"{name}.toml").read_text(encoding="utf-8"))


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
    text = topic(name)[rest][lang].format(**fields)
    return spaced(text) if lang == "zh" else text


def say_or(key: str, lang: Lang, default: str, **fields: object) -> str:
    """Like `say`; a key that the catalogue lacks gives `default`, so that new codes of lower rooms still read as something."""
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
