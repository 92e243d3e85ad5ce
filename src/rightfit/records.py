"""Frozen records: `dataclass` as the standard library has it, made faster.

The standard decorator of Python 3.11 writes the text of six methods for each class and compiles each alone: 0.3 ms a class, and a plan defines two hundred
(a quarter of its time from a cold start). Here `__init__` alone is compiled; the other methods are the same for all classes and read the fields. Fields,
`replace`, `asdict`, pickling, equality and hashes are those of the standard library; type checkers are told that it is the standard decorator.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool, slots: bool = True, eq: bool = True) -> Any:
        """A decorator that makes a frozen record with slots of a class with annotated fields; with eq=False its equality is that of the object."""
        if not (frozen and slots):
            raise TypeError("records are frozen and have slots; other classes take the standard library's dataclass")
        return lambda written: _record(written, eq=eq)


def _record(written: type, *, eq: bool) -> type:
    """The class again, with slots and the methods of a record."""
    made: type[Any] = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(written)
    fields = sorted((field for field in dataclasses.fields(made) if field.init), key=lambda field: bool(field.kw_only))
    _add(made, __init__=_initializer(made, fields), __setattr__=_refuse, __delattr__=_refuse, __getstate__=_state, __setstate__=_restore)
    if "__repr__" not in written.__dict__:
        _add(made, __repr__=_shown)
    if eq and "__eq__" not in written.__dict__:
        equal, hashed = _comparisons(made)
        _add(made, __eq__=equal, __hash__=hashed)
    return made


def _add(made: type, **methods: Any) -> None:
    for name, method in methods.items():
        setattr(made, name, method)


def _initializer(made: type, fields: list[dataclasses.Field[Any]]) -> Any:
    """`__init__` with the fields as parameters: compiled, since it runs for every record that is made."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_factory": _FACTORY}
    parameters, body = ["self"], []
    for field in fields:
        name, default, value = field.name, f"_default_{field.name}", field.name
        if field.kw_only and "*" not in parameters:
            parameters.append("*")
        if field.default is not dataclasses.MISSING:
            known[default] = field.default
            parameters.append(f"{name}={default}")
        elif field.default_factory is not dataclasses.MISSING:
            known[default] = field.default_factory
            parameters.append(f"{name}=_factory")
            value = f"{default}() if {name} is _factory else {name}"
        else:
            parameters.append(name)
        body.append(f" _set(self, {name!r}, {value})")
    if hasattr(made, "__post_init__"):
        body.append(" self.__post_init__()")
    text = f"def __init__({', '.join(parameters)}):\n" + ("\n".join(body) or " pass")
    exec(text, known)  # noqa: S102 the text is made of names of fields, as the standard library's is
    method = known["__init__"]
    method.__qualname__ = f"{made.__qualname__}.__init__"
    method.__annotations__ = {field.name: field.type for field in fields} | {"return": None}
    return method


class _Factory:
    """Stands in signatures for a default that is made anew for each record."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _comparisons(made: type) -> tuple[Any, Any]:
    """`__eq__` and `__hash__` over the fields that compare, in C but for one step."""
    names = [field.name for field in dataclasses.fields(made) if field.compare]
    hashed = [field.name for field in dataclasses.fields(made) if (field.compare if field.hash is None else field.hash)]
    compared_of, hashed_of = _values(names), _values(hashed)

    def equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared_of(self) == compared_of(other)

    def hash_of(self: Any) -> int:
        return hash(hashed_of(self))

    return equal, hash_of


def _values(names: list[str]) -> Any:
    """A function of a record that gives these fields as a tuple (a single one as itself)."""
    return operator.attrgetter(*names) if names else lambda _: ()


@reprlib.recursive_repr()
def _shown(self: Any) -> str:
    fields = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{self.__class__.__qualname__}({', '.join(fields)})"


def _refuse(self: Any, name: str, *_value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
