"""The options of a workload as typed fields, from the one table: what faces that take structured
questions build their models from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, Field, ValidationError

from rightfit.errors import InputError, QuantityError
from rightfit.messages import Message, at_place, did_you_mean, foreign, line_each
from rightfit.workload.attributes import Attributes
from rightfit.workload.options import OPTIONS, RequestOption
from rightfit.workload.vocabulary import nearest_words

LONGEST_TEXT, LONGEST_NAME, MOST_NAMES = 4096, 200, 100
_MOST_PROBLEMS = 10
_OF_NUMBERS = ("int_", "float_", "greater_than", "less_than")
_NUMERIC = frozenset({"number", "count", "length", "lengths", "percent", "share", "size", "duration", "rate", "money", "price_pair"})
_LISTS = frozenset({"names", "words", "cards"})
_FILES = frozenset({"trace"})


def workload_fields(*, as_text: bool = False) -> dict[str, tuple[Any, Any]]:
    """{option: (type, pydantic field)}, all optional; `as_text`: for a query, where everything is
    text. Limits and words are checked by Workload."""
    return {name: (_kind(option, as_text=as_text) | None, _field(option)) for name, option in OPTIONS.items()}


def attribute_fields() -> dict[str, tuple[Any, Any]]:
    """{attribute: (type, pydantic field)} of a workload in base units, as a plan gives them."""
    kinds = get_type_hints(Attributes)
    return {
        field.name: (kinds[field.name], Field(default=field.default, description=field.metadata.get("description")))
        for field in dataclasses.fields(Attributes)
    }


def _field(option: RequestOption) -> Any:
    return Field(default=None, description=_description(option), examples=[option.example])


def _kind(option: RequestOption, *, as_text: bool) -> Any:
    text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
    if as_text:
        return text
    if option.kind in _NUMERIC:
        return text | int | float
    if option.kind in _LISTS:
        one = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
        return text | Annotated[list[one], Field(max_length=MOST_NAMES)]
    return text


def _description(option: RequestOption) -> str:
    words = f" ({', '.join(option.vocabulary.words)})" if option.vocabulary else ""
    refused = "; refused here: a server reads no file for a client" if option.name in _FILES else ""
    return option.help + words + refused


def settled(model: type[BaseModel], values: Any) -> dict[str, Any]:
    """The values of a question, checked; every problem names its field, an unknown
    field the nearest one."""
    if not isinstance(values, Mapping):
        raise InputError(Message("workload.no_object_of_question"))
    try:
        return dict(model.model_validate(values))
    except ValidationError as error:
        problems = [_problem(model, item) for item in _without_repeats(error.errors(include_url=False, include_input=False))]
        raise problems[0] if len(problems) == 1 else InputError(line_each(one.message for one in problems), problems=problems) from None


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
        hint = did_you_mean(nearest)
        return InputError(Message("workload.no_field", word=shown, hint=hint), field=shown, nearest=nearest)
    if item["type"].endswith("_type") and field in OPTIONS:
        return InputError(at_place(field, Message("workload.no_value", example=OPTIONS[field].example)), field=field)
    if (limits := _limits(model, field)) and item["type"].startswith(_OF_NUMBERS):
        return QuantityError(at_place(shown, Message("workload.no_number_from", problem=limits)), field=shown, allowed=str(limits))
    message = foreign(item["msg"][:1].lower() + item["msg"][1:])
    wrong = Message("problems.unreadable", field=shown, message=message) if shown else at_place(shown, message)
    return InputError(wrong, field=shown, allowed=str((item.get("ctx") or {}).get("expected", "")))


def _limits(model: type[BaseModel], field: str) -> Message | str:
    """The numbers that a field takes: "1 to 20"."""
    info = model.model_fields.get(field)
    found = {name: getattr(one, name) for one in (info.metadata if info else ()) for name in ("ge", "le") if hasattr(one, name)}
    return Message("workload.range", low=found["ge"], high=found["le"]) if len(found) == 2 else ""
