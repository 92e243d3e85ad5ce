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
    return Problem(code, title, error.text(lang), field, allowed, tuple(nearest[:_MOST_NAMES]), error.key)
