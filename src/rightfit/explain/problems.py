"""What is wrong with a question, in the user's language and as data: every face shows the same."""

from __future__ import annotations

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
from rightfit.explain.messages import Lang, join, say, say_or
from rightfit.explain.refusals import part, refusal
from rightfit.records import dataclass

_MOST_NAMES = 5
_LONGEST_NAME = 80
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
    """One thing that is wrong. `code` for programs, `title` for its kind, `message` for people; `field`, `allowed` and `nearest` where
    known."""

    code: str
    title: str
    message: str
    field: str = ""
    allowed: str = ""
    nearest: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """What a program reads of it."""
        return {"field": self.field, "message": self.message, "allowed": self.allowed, "nearest": list(self.nearest)}


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
    return Problem(code, say(f"problems.title_{code}", lang), _message(error, lang), field, allowed, tuple(nearest[:_MOST_NAMES]))


def _message(error: RightfitError, lang: Lang) -> str:
    """The sentence: the library's own in English; in Chinese what its parts tell, else the English one with the option's name before it."""
    if lang == "en":
        return str(error)
    if isinstance(error, (UnknownNameError, AmbiguousNameError)):
        return _name_message(error, lang)
    lines = str(error).splitlines()
    told = [refusal(line) for line in lines]
    if not isinstance(error, InputError) or len(lines) > 1 or all(told):
        return "\n".join(said or line for said, line in zip(told, lines, strict=True))
    if isinstance(error, QuantityError) and error.allowed and error.field:
        return say("problems.outside", lang, field=error.field, allowed=error.allowed) + _hint(error, lang)
    message = str(error).removeprefix(f"{error.field}: ") if error.field else str(error)
    return say("problems.unreadable", lang, field=error.field, message=part(message)) if error.field else message


def _name_message(error: UnknownNameError | AmbiguousNameError, lang: Lang) -> str:
    kind, name = say_or(f"problems.kind_{error.kind.replace(' ', '_')}", lang, error.kind), error.name[:_LONGEST_NAME]
    if isinstance(error, AmbiguousNameError):
        return say("problems.ambiguous_name", lang, kind=kind, name=name, names=join(list(error.candidates[:_MOST_NAMES]), lang))
    there = "" if error.nearest or not error.allowed else part(error.allowed) + "。"
    return say("problems.unknown_name", lang, kind=kind, name=name) + _hint(error, lang) + there


def _hint(error: InputError, lang: Lang) -> str:
    return say("problems.nearest", lang, names=join(list(error.nearest[:3]), lang)) if error.nearest else ""
