"""The words that options take, with the other names people use for them, and the search
for the nearest word."""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rightfit.errors import UnknownNameError
from rightfit.facts.tables import table as read_table
from rightfit.messages import Message
from rightfit.records import dataclass
from rightfit.units import normalize

_CLEARLY_WORSE = 0.12  # a second proposal this much less similar than the first only confuses


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`words` are the valid values; `aliases` maps other names to them."""

    words: tuple[str, ...]
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def find(self, text: str, *, kind: str, field: str) -> str:
        """The word meant by `text`, ignoring case and the kind of dash; UnknownNameError with the
        nearest otherwise."""
        folded = fold(text)
        if folded in self.words:
            return folded
        if folded in self.aliases:
            return self.aliases[folded]
        allowed = Message("names.allowed_words", names=", ".join(self.words))
        raise UnknownNameError(kind, text, nearest=nearest_words(folded, self.words, aliases=self.aliases), allowed=allowed, field=field)


def fold(text: str) -> str:
    """Case, blanks and underscores do not matter in a word."""
    return normalize(text).casefold().replace("_", "-").replace(" ", "-")


def nearest_words(text: str, words: Iterable[str], *, aliases: Mapping[str, str] | None = None, count: int = 2) -> tuple[str, ...]:
    """The closest valid words, best first; an alias that is close counts for its word."""
    meaning = {**(aliases or {}), **{word: word for word in words}}
    scores = {word: difflib.SequenceMatcher(None, text, word).ratio() for word in difflib.get_close_matches(text, meaning, n=6, cutoff=0.6)}
    close = [word for word, score in scores.items() if score > max(scores.values()) - _CLEARLY_WORSE]
    close = close or [word for word in meaning if len(text) > 1 and word.startswith(text)]
    return tuple(dict.fromkeys(meaning[word] for word in close))[:count]


def _vocabulary(table: Mapping[str, Any]) -> Vocabulary:
    """One table of data/vocabulary.toml, with the words that a table of the facts adds."""
    aliases = {alias: word for word, names in table["aliases"].items() for alias in names.split()}
    name, _, column = table.get("table", "").partition(" ")
    known = [row[column] for row in read_table(name)] if name else []
    words = dict.fromkeys([*table.get("words", "").split(), *known])
    return Vocabulary(tuple(word for word in words if word not in aliases), aliases)


DATA = Path(__file__).with_name("data")
_TABLES = tomllib.loads((DATA / "vocabulary.toml").read_text(encoding="utf-8"))
#: Every vocabulary by its name.
VOCABULARIES: Mapping[str, Vocabulary] = {name: _vocabulary(table) for name, table in _TABLES.items()}
TASKS, METHODS, PURCHASES, OPTIMIZERS = (VOCABULARIES[name] for name in ("tasks", "methods", "purchases", "optimizers"))
CLOUDS, COUNTRIES = (VOCABULARIES[name].aliases for name in ("clouds", "countries"))
#: What stands between entries of a list beside the comma; a word of letters has blanks around it.
JOINTS = re.compile(
    "|".join(
        rf"\s+{word}\s+" if word.isascii() else rf"\s*{word}\s*" for word in sorted(VOCABULARIES["joints"].aliases, key=len, reverse=True)
    ),
    re.IGNORECASE,
)
#: Methods that learn from preferences or rewards: what they train is said by `update`.
PREFERENCES = ("dpo", "orpo", "kto", "reward")
REINFORCEMENTS = ("ppo", "grpo")
TUNINGS = (*PREFERENCES, *REINFORCEMENTS)


# ---- How people write the cards that they have.

_FORM = re.compile(r"(?:(?P<count>\d{1,3})\s*[x×*]?\s*)?(?P<gpu>[A-Za-z][\w .+-]*?)\s*(?:@\s*(?P<place>[^@]+))?")

# The number of a card alone (4090, 2x 3090) needs something between it and its count.
_NUMBERED = re.compile(r"(?:(?P<count>\d{1,3})(?:\s*[x×*]\s*|\s+))?(?P<gpu>\d{4}(?![\dx×*])[\w .+-]*?)\s*(?:@\s*(?P<place>[^@]+))?")


# A memory size alone is a card: 24GB, 2x 24GB@home.
_MEMORY = re.compile(r"(?:(?P<count>\d{1,3})\s*[x×*]\s*)?(?P<gpu>\d{1,3}\s*G(?:i?B)?)\s*(?:@\s*(?P<place>[^@]+))?", re.IGNORECASE)


def read_cards(text: str) -> tuple[int, str, str | None] | None:
    """ "2x RTX-3090@home" as (2, "RTX-3090", "home"): 1 where no count is said, None where no place
    is, None altogether where it is no such text."""
    form = next((found for one in (_MEMORY, _NUMBERED, _FORM) if (found := one.fullmatch(text.strip()))), None)
    return None if form is None else (int(form["count"] or 1), form["gpu"], form["place"])


_SEVERAL = re.compile(r"(?P<servers>\d{1,3})\s?[x×*]\s?(?P<cards>\d{1,3})\s?[x×*]\s?(?P<gpu>[A-Za-z][\w .-]*)")


def read_several(text: str) -> tuple[int, int, str] | None:
    """ "2x8xA800" as (2, 8, "A800"): servers and cards of each; None where it is no such text."""
    form = _SEVERAL.fullmatch(normalize(text))
    return None if form is None else (int(form["servers"]), int(form["cards"]), form["gpu"])
