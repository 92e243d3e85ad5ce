"""The options of a workload as typed fields, from the one table: what faces that take structured questions build their models from."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from rightfit.workload.options import OPTIONS, Option

LONGEST_TEXT, LONGEST_NAME, MOST_NAMES = 4096, 200, 100
_NUMERIC = frozenset({"number", "count", "length", "lengths", "percent", "share", "size", "duration", "rate", "money", "price_pair"})
_LISTS = frozenset({"names", "words"})
_FILES = frozenset({"trace"})


def workload_fields(*, as_text: bool = False) -> dict[str, tuple[Any, Any]]:
    """{option: (type, pydantic field)}, all optional; `as_text`: for a query, where everything is text. Limits and words are checked by Workload."""
    return {name: (_kind(option, as_text=as_text) | None, _field(option)) for name, option in OPTIONS.items()}


def _field(option: Option) -> Any:
    return Field(default=None, description=_description(option), examples=[option.example])


def _kind(option: Option, *, as_text: bool) -> Any:
    text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
    if as_text:
        return text
    if option.kind in _NUMERIC:
        return text | int | float
    if option.kind in _LISTS:
        one = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
        return text | Annotated[list[one], Field(max_length=MOST_NAMES)]
    return text


def _description(option: Option) -> str:
    words = f" ({', '.join(option.vocabulary.words)})" if option.vocabulary else ""
    refused = "; refused here: a server reads no file for a client" if option.name in _FILES else ""
    return option.help + words + refused
