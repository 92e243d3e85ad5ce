"""Bodies and queries of requests, read strictly: whatever cannot be used is refused in one sentence, never guessed at."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from rightfit.errors import InputError
from rightfit.messages import Message
from rightfit.rest.problems import Refused
from rightfit.workload.fields import settled
from rightfit.workload.options import OPTIONS

_DEEPEST = 40


def utf8_of(body: bytes) -> str:
    """Text of a body; what is not UTF-8 is refused."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused("not_utf8", {"place": error.start}) from None


def json_of(body: bytes, *, where: str = "") -> Any:
    """The value of a JSON body. Keys given twice, NaN, infinities and endless nesting are refused."""
    text, place = utf8_of(body), f"{where}: " if where else ""
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise Refused(
            "no_json", {"why": f"{place}{error.msg[:1].lower()}{error.msg[1:]}, line {error.lineno}, column {error.colno}"}
        ) from None
    except RecursionError:
        raise Refused("no_json", {"why": f"{place}nested too deeply"}) from None
    except ValueError as error:  # a key given twice, NaN, an integer of thousands of digits
        raise Refused("no_json", {"why": place + str(error).split(";")[0][:200]}) from None
    if _is_deep(value):
        raise Refused("no_json", {"why": f"{place}nested too deeply"})
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {twice[:60]!r} is given twice")
    return found


def _constant(word: str) -> Any:
    raise ValueError(f"{word} is not a number")


def _is_deep(value: Any) -> bool:
    """Whether a value is nested more deeply than anything we read."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [item for one in level if isinstance(one, (dict, list)) for item in (one.values() if isinstance(one, dict) else one)]
        if not level:
            return False
    return True


def query_of(model: type[BaseModel], pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """The values of a query; a field given twice is refused unless it takes several."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key not in found:
            found[key] = value
        elif _takes_several(model, key):
            found[key] = f"{found[key]},{value}"
        else:
            raise InputError(Message("rest.given_twice", option=key[:60]), field=key[:60])
    return settled(model, found)


def _takes_several(model: type[BaseModel], key: str) -> bool:
    option = OPTIONS.get(key)
    return key in model.model_fields and option is not None and option.kind in ("names", "words")
