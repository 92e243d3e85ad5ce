"""What public functions refuse before they do anything: options that they do not have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from rightfit.messages import Message

Given = ParamSpec("Given")
Told = TypeVar("Told")


def refusing_unknown(function: Callable[Given, Told]) -> Callable[Given, Told]:
    """The function; an option that it does not have is refused as `plan` refuses one."""
    code: Any = getattr(function, "__code__")  # noqa: B009  # mypy knows none of a callable
    names = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(function)
    def asked(*given: Given.args, **options: Given.kwargs) -> Told:
        if unknown := next((name for name in options if name not in names), ""):
            from rightfit.errors import UnknownNameError
            from rightfit.workload.vocabulary import nearest_words

            allowed = Message("names.allowed_words", names=", ".join(names))
            raise UnknownNameError("option", unknown, nearest=nearest_words(unknown, names), allowed=allowed, field=unknown)
        return function(*given, **options)

    return asked
