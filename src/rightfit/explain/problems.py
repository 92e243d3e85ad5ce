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
from rightfit.explain.refusals import part, refusal
from rightfit.messages import Lang, Message
from rightfit.records import dataclass

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
    """One thing that is wrong. `code` and `key` for programs, `title` for its kind, `message` for people; `field`, `allowed` and `nearest` where known."""

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
    allowed, nearest = (str(error.allowed), error.nearest) if isinstance(error, InputError) else ("", ())
    title = Message(f"problems.title_{code}").text(lang)
    return Problem(code, title, _message(error, lang), field, allowed, tuple(nearest[:_MOST_NAMES]), error.key)


def _message(error: RightfitError, lang: Lang) -> str:
    """What an error says; one that is raised with English text alone, as rooms do that have no catalog yet, is found among the sentences of the catalogs."""
    if lang == "en" or isinstance(error.message, Message):
        return error.text(lang)
    lines = error.message.splitlines()
    told = [refusal(line) for line in lines]
    if not isinstance(error, InputError) or len(lines) > 1 or all(told):
        return "\n".join(said or line for said, line in zip(told, lines, strict=True))
    if isinstance(error, QuantityError) and error.allowed and error.field:
        hint = Message("problems.nearest", names=error.nearest[:3]).text(lang) if error.nearest else ""
        return Message("problems.outside", field=error.field, allowed=error.allowed).text(lang) + hint
    message = error.message.removeprefix(f"{error.field}: ") if error.field else error.message
    return Message("problems.unreadable", field=error.field, message=part(message)).text(lang) if error.field else message
