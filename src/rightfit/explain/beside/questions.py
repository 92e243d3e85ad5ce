"""The questions beside a wish: their words, taken out of its sentence."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rightfit.explain.decisions import chart_words
from rightfit.explain.glossary import term_text
from rightfit.explain.messages import topic
from rightfit.facts.expressions import Expression, expression
from rightfit.messages import Lang
from rightfit.records import dataclass

_OPEN_END = " ,，;；。?？、"
#: Commas between parts of a sentence, not those that mark the thousands of a number.
_COMMAS = re.compile(r"\s*(?:[，、]|,(?!(?<=\d,)\d{3}(?!\d)))(?:\s*[,，、])*\s*")


@dataclass(frozen=True, slots=True)
class Question:
    """One question: a key of data/beside.toml, its words as they stand in the sentence, and the
    amount that it asks about (NaN: none)."""

    key: str
    words: str
    amount: float = math.nan


@dataclass(frozen=True, slots=True)
class Beside:
    """A sentence without the questions beside its wish."""

    wish: str
    questions: tuple[Question, ...]


def words_table() -> Mapping[str, Any]:
    return topic("beside")


@functools.cache
def _patterns() -> Mapping[str, tuple[Expression, ...]]:
    words = {key: entry.get("words", ()) for key, entry in words_table()["questions"].items()}
    return {key: tuple(expression(word) for word in listed) for key, listed in words.items()} | {"chart": chart_words()}


def worded(key: str, lang: Lang, **fields: Any) -> str:
    text: str = words_table()["texts"][key][lang]
    return text.format(**fields)


def line(words: str, answer: str, lang: Lang) -> str:
    """The answer to a question under its words as they stand in the sentence, without what hangs
    loose where the wish went on ("how long does it take to")."""
    asked = re.sub(words_table()["loose_end"], "", words, flags=re.IGNORECASE)
    return worded("line", lang, question=asked[:1].upper() + asked[1:], answer=answer)


def without_questions(sentence: str) -> Beside:
    """The wish of a sentence and the questions beside it."""
    rest, found = sentence, list[Question]()
    for key, patterns in _patterns().items():
        needed = words_table()["questions"][key].get("with", "")
        if needed and not re.search(needed, sentence, re.IGNORECASE | re.DOTALL):
            continue
        for pattern in patterns:
            while match := pattern.search(rest):
                amount = next((float(value) for value in match.groupdict().values() if value), math.nan)
                found.append(Question(key, match[0].strip(_OPEN_END), amount))
                rest = f"{rest[: match.start()]}, {rest[match.end() :]}"
    rest = _COMMAS.sub(", ", rest).strip(_OPEN_END)
    order = {question: sentence.find(question.words) for question in found}
    return Beside(rest, tuple(sorted(found, key=lambda one: order[one]))) if found and len(rest) > 2 else Beside(sentence, ())


def terms_told(questions: Sequence[Question], lang: Lang) -> list[str]:
    """What can be said without a plan: the words of the field that were asked about."""
    asked = ((one.words, words_table()["questions"][one.key].get("term", "")) for one in questions)
    return [line(words, term_text(term, lang), lang) for words, term in asked if term]
