"""Frozen records: `dataclass(frozen=True, slots=True)` of the standard library at a
third of its cost.

The standard decorator writes six methods of each class as text and compiles each alone. A plan from
the command line defines 155 to 190 records, and that was three tenths of its processor time
(docs/decisions/cold-start.md). Here the standard decorator finds the fields and gives the slots,
`__init__` alone is compiled, with the first record of a class, which a third of them never have,
and the other methods are the same functions for all classes. Fields, `replace`, `asdict`, pickling,
equality, hashes and patterns are those of the standard library; type checkers see its decorator.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool, slots: bool = True, eq: bool = True) -> Any:
        """A decorator that makes a frozen record with slots of a class with annotated fields; with
        eq=False its equality is that of the object."""
        if not (frozen and slots):
            raise TypeError("records are frozen and have slots; other classes take the standard library's dataclass")
        return lambda written: _record(written, eq=eq)


_SET = object.__setattr__
#: Annotations that mean no field.
_MARKS = ("ClassVar", "InitVar", "KW_ONLY")


def _record(written: Any, *, eq: bool) -> Any:
    """The class again, with slots and the methods of a record."""
    written.__doc__ = written.__doc__ or written.__name__  # else the standard library spells out its signature
    kinds = inspect.get_annotations(written)
    written.__annotations__ = dict.fromkeys(kinds, object)  # else it searches each text for marks that records do not have
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(written)
    made.__annotations__ = kinds
    for name, kind in kinds.items():
        made.__dataclass_fields__[name].type = kind
    if any(mark in str(kind) for kind in kinds.values() for mark in _MARKS) or not all(field.init for field in dataclasses.fields(made)):
        raise TypeError(
            f"{written.__name__}: a record has fields only, each given to it; a constant of the class goes without an annotation"
        )
    own = made.__dict__
    for name, method in _METHODS.items():
        if name not in own:
            setattr(made, name, method)
    if eq and "__eq__" not in own:
        made.__eq__ = _equal
    if eq and own.get("__hash__") is None:
        made.__hash__ = _hash
    made.__init__ = _Initializer(made)
    return made


class _Initializer:
    """`__init__` of a class until it is first asked for, then the compiled one."""

    __slots__ = ("_made",)

    def __init__(self, made: Any) -> None:
        self._made = made

    def __get__(self, record: object, kind: type | None = None) -> Any:
        self._made.__init__ = method = _initializer(self._made)
        return method.__get__(record, kind)


def _initializer(made: type) -> Any:
    """`__init__` with the fields as parameters, compiled."""
    known: dict[str, Any] = {"_set": _SET, "_factory": _FACTORY}
    parameters, body = ["self"], []
    fields = dataclasses.fields(made)
    for field in sorted(fields, key=lambda field: bool(field.kw_only)):
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
    exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(body) or " pass"), known)  # noqa: S102 names of fields, as in the standard library
    method = known["__init__"]
    method.__qualname__ = f"{made.__qualname__}.__init__"
    method.__annotations__ = {field.name: field.type for field in fields} | {"return": None}
    return method


class _Factory:
    """Stands in signatures for a default that is made anew for each record."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


@functools.cache
def _compared(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    return _values(*(field.name for field in dataclasses.fields(kind) if field.compare))


@functools.cache
def _hashed(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    return _values(*(field.name for field in dataclasses.fields(kind) if (field.compare if field.hash is None else field.hash)))


def _values(*names: str) -> Callable[[Any], tuple[Any, ...]]:
    """A function of a record that gives these fields as a tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def _equal(self: Any, other: object) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    kind: Any = self.__class__
    values = _compared(kind)
    return values(self) == values(other)


def _hash(self: Any) -> int:
    kind: Any = self.__class__
    return hash(_hashed(kind)(self))


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
        _SET(self, field.name, value)


_METHODS = {"__repr__": _shown, "__setattr__": _refuse, "__delattr__": _refuse, "__getstate__": _state, "__setstate__": _restore}
