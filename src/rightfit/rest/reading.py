"""Bodies and queries of requests, read strictly: whatever cannot be used is refused in one sentence, never guessed at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from rightfit.errors import InputError
from rightfit.rest.problems import Refused
from rightfit.workload.options import OPTIONS
from rightfit.workload.vocabulary import nearest_words

_DEEPEST = 40
_MOST_PROBLEMS = 10


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


def settled(model: type[BaseModel], values: Any) -> dict[str, Any]:
    """The values of a question, checked; every problem names its field, an unknown field the nearest one."""
    if not isinstance(values, Mapping):
        raise InputError("expected a JSON object with the fields of the question")
    try:
        return dict(model.model_validate(values))
    except ValidationError as error:
        problems = [_problem(model, item) for item in _without_repeats(error.errors(include_url=False, include_input=False))]
        raise problems[0] if len(problems) == 1 else InputError("\n".join(map(str, problems)), problems=problems) from None


def _without_repeats(items: list[Any]) -> list[Any]:
    """One problem a field: a union complains once for each of its kinds."""
    first: dict[str, Any] = {}
    for item in items:
        field = str(item["loc"][0]) if item["loc"] else ""
        if field not in first or first[field]["type"].endswith("_type"):  # that a value is of no other kind either says less
            first[field] = item
    return list(first.values())[:_MOST_PROBLEMS]


def _problem(model: type[BaseModel], item: Mapping[str, Any]) -> InputError:
    field = str(item["loc"][0])[:80] if item["loc"] else ""
    shown = field.encode("utf-8", "backslashreplace").decode()
    if item["type"] == "extra_forbidden":
        nearest = nearest_words(field, list(model.model_fields), count=2)
        hint = f"; did you mean {' or '.join(nearest)}?" if nearest else ""
        return InputError(f"no such field {shown!r}{hint}", field=shown, nearest=nearest)
    if item["type"].endswith("_type") and field in OPTIONS:
        return InputError(f"{field}: not a value for this option; write for example {OPTIONS[field].example}", field=field)
    message = item["msg"][:1].lower() + item["msg"][1:]
    return InputError(f"{shown}: {message}", field=shown, allowed=str((item.get("ctx") or {}).get("expected", "")))


def query_of(model: type[BaseModel], pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """The values of a query; a field given twice is refused unless it takes several."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key not in found:
            found[key] = value
        elif _takes_several(model, key):
            found[key] = f"{found[key]},{value}"
        else:
            raise InputError(f"{key[:60]}: given twice", field=key[:60])
    return settled(model, found)


def _takes_several(model: type[BaseModel], key: str) -> bool:
    option = OPTIONS.get(key)
    return key in model.model_fields and option is not None and option.kind in ("names", "words")
