"""Frozen records: `dataclass` as the standard library has it, made faster.

The standard decorator of Python 3.11 writes the text of six methods for each class and compiles each alone: 0.3 ms a class, and a plan defines two hundred
(a quarter of its time from a cold start). Most of these classes make a handful of records, or none. So here the class is given its slots at once, and all else
when it is first asked for: comparisons, the standard library's list of fields, and `__init__`, which is compiled once a class has made more than a few records.
Fields, `replace`, `asdict`, pickling, equality and hashes are those of the standard library; type checkers are told that it is the standard decorator.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool, slots: bool = True, eq: bool = True) -> Any:
        """A decorator that makes a frozen record with slots of a class with annotated fields; with eq=False its equality is that of the object."""
        if not (frozen and slots):
            raise TypeError("records are frozen and have slots; other classes take the standard library's dataclass")
        return lambda written: _record(written, eq=eq)


#: Records that a class makes without a compiled `__init__`: compiling takes as long as making some fifty the slow way.
_SLOW_RECORDS = 24
_PARTS = "__record_parts__"
_SET = object.__setattr__
#: The standard library's mark of a plain field.
_PLAIN = dataclasses.make_dataclass("_Sample", ["plain"]).__dataclass_fields__["plain"]._field_type  # type: ignore[attr-defined]


class _Part(NamedTuple):
    """One field: what `__init__` takes where nothing is given (`MISSING` where that is an error), and who reads it."""

    default: Any
    factory: Any
    by_name: bool
    compares: bool
    hashes: bool
    shows: bool


class _Late:
    """An attribute of a record's class that is made when it is first asked for, and then stands in its own place."""

    __slots__ = ("_make", "_name", "_owner")

    def __init__(self, make: Callable[[type], Any]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = self._made()
        return made.__get__(instance, owner) if hasattr(made, "__get__") else made

    def _made(self) -> Any:
        made = self._make(self._owner)
        setattr(self._owner, self._name, made)
        return made


class _LateInit(_Late):
    """`__init__` of a record: the first few are filled without it. Asked of the class, it is the compiled one, whose signature says what a record takes."""

    __slots__ = ("_defaults", "_factories", "_left")

    def __init__(self, parts: Mapping[str, _Part]) -> None:
        super().__init__(_initializer)
        self._left = 0 if any(part.by_name for part in parts.values()) else _SLOW_RECORDS
        self._defaults = {name: part.default for name, part in parts.items()}
        self._factories = [(name, part.factory) for name, part in parts.items() if part.factory is not dataclasses.MISSING]

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        self._left -= 1
        if instance is None or self._left < 0:
            return super().__get__(instance, owner)
        return lambda *given, **named: self._fill(instance, given, named)

    def _fill(self, record: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        """What the compiled method does; that one says what is wrong with what was given."""
        placed = dict(zip(self._defaults, given, strict=False))
        values = {**self._defaults, **placed, **named}
        for name, factory in self._factories:
            if values[name] is dataclasses.MISSING:
                values[name] = factory()
        is_wrong = len(values) > len(self._defaults) or len(given) > len(placed) or not placed.keys().isdisjoint(named)
        for name, value in values.items():
            if is_wrong or value is dataclasses.MISSING:
                self._made()(record, *given, **named)
                return
            _SET(record, name, value)
        if hasattr(record, "__post_init__"):
            record.__post_init__()


#: What stands in a document as it is.
_LEAVES = frozenset({str, int, float, bool, type(None)})


def as_dict(record: Any) -> dict[str, Any]:
    """Fields by name, records inside them as dicts too, as the standard library's `asdict`; but what is neither a record nor a tuple, list or dict stays the
    object that it is. Documents hold thousands of numbers, and copying each takes five times as long."""
    kind = record.__class__
    return {name: _plain(getattr(record, name)) for name in getattr(kind, _PARTS, None) or kind.__dataclass_fields__}


def _plain(value: Any) -> Any:
    kind = value.__class__
    if kind in _LEAVES:
        return value
    if hasattr(kind, _PARTS) or hasattr(kind, "__dataclass_fields__"):
        return as_dict(value)
    if kind is tuple or kind is list:
        return kind(map(_plain, value))
    return {key: _plain(item) for key, item in value.items()} if kind is dict else value


def _record(written: Any, *, eq: bool) -> type:
    """The class again, with slots and the methods of a record."""
    names = _names(written)
    parts = {name: part for base in reversed(written.__mro__[1:]) for name, part in base.__dict__.get(_PARTS, {}).items()}
    parts |= {name: _part(written.__dict__.get(name, dataclasses.MISSING)) for name in names}
    members = {name: value for name, value in written.__dict__.items() if name not in (*names, "__dict__", "__weakref__")}
    inherited = {slot for base in written.__mro__ for slot in base.__dict__.get("__slots__", ())}
    members |= {"__slots__": tuple(name for name in names if name not in inherited), _PARTS: parts}
    members |= {
        "__init__": _LateInit(parts),
        "__setattr__": _refuse,
        "__delattr__": _refuse,
        "__getstate__": _state,
        "__setstate__": _restore,
    }
    members |= {"__dataclass_fields__": _Late(_listed(written, names)), "__dataclass_params__": _Late(_of_the_standard(written))}
    members.setdefault("__match_args__", tuple(name for name, part in parts.items() if not part.by_name))
    members.setdefault("__repr__", _shown)
    if eq and "__eq__" not in written.__dict__:
        members |= {"__eq__": _Late(_equality), "__hash__": _Late(_hashing)}
    made: type = type(written)(written.__name__, written.__bases__, members)
    made.__qualname__ = written.__qualname__
    return made


def _names(written: type) -> Iterable[str]:
    """The fields that a class adds, in their order: whatever has an annotation."""
    annotations = written.__annotations__
    if any("ClassVar" in str(kind) or "KW_ONLY" in str(kind) or "InitVar" in str(kind) for kind in annotations.values()):
        raise TypeError(f"{written.__name__}: a record has fields only; a constant of the class goes without an annotation")
    return annotations.keys()


def _part(given: Any) -> _Part:
    """A field by what the class sets its name to."""
    if not isinstance(given, dataclasses.Field):
        return _Part(given, dataclasses.MISSING, by_name=False, compares=True, hashes=True, shows=True)
    if not given.init:
        raise TypeError("every field of a record is given to it")
    hashes = given.compare if given.hash is None else given.hash
    return _Part(given.default, given.default_factory, given.kw_only is True, given.compare, hashes, given.repr)


def _of_the_standard(written: Any) -> Callable[[type], Any]:
    """How the standard library made a class, asked of the class as it was written."""
    return lambda _made: dataclasses.dataclass(init=False, repr=False, eq=False)(written).__dataclass_params__


def _listed(written: Any, names: Iterable[str]) -> Callable[[type], Any]:
    """The list of fields that the standard library's functions read, without its search for what records do not have (a third of the time)."""

    def make(_made: type) -> dict[str, dataclasses.Field[Any]]:
        found: dict[str, dataclasses.Field[Any]] = {}
        for base in reversed(written.__mro__[1:]):
            if _PARTS in base.__dict__:
                found |= {field.name: field for field in dataclasses.fields(base)}
        for name in names:
            given = written.__dict__.get(name, dataclasses.MISSING)
            field = given if isinstance(given, dataclasses.Field) else dataclasses.field(default=given)
            field.name, field.type = name, written.__annotations__[name]
            field.kw_only = field.kw_only is True
            field._field_type = _PLAIN  # type: ignore[union-attr]  # as the standard decorator marks what is no constant of the class
            found[name] = field
        return found

    return make


def _initializer(made: type) -> Any:
    """`__init__` with the fields as parameters, compiled."""
    known: dict[str, Any] = {"_set": _SET, "_factory": _FACTORY}
    parameters, body = ["self"], []
    parts: Mapping[str, _Part] = getattr(made, _PARTS)
    for name, part in sorted(parts.items(), key=lambda item: item[1].by_name):
        default, value = f"_default_{name}", name
        if part.by_name and "*" not in parameters:
            parameters.append("*")
        if part.default is not dataclasses.MISSING:
            known[default] = part.default
            parameters.append(f"{name}={default}")
        elif part.factory is not dataclasses.MISSING:
            known[default] = part.factory
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
    kinds = {name: kind for base in reversed(made.__mro__) if _PARTS in base.__dict__ for name, kind in base.__annotations__.items()}
    method.__annotations__ = {name: kinds[name] for name in parts} | {"return": None}
    return method


class _Factory:
    """Stands in signatures for a default that is made anew for each record."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _equality(made: type) -> Any:
    """`__eq__` over the fields that compare, in C but for one step."""
    compared_of = _values(name for name, part in getattr(made, _PARTS).items() if part.compares)

    def equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared_of(self) == compared_of(other)

    return equal


def _hashing(made: type) -> Any:
    """`__hash__` over the fields that hash."""
    hashed_of = _values(name for name, part in getattr(made, _PARTS).items() if part.hashes)
    return lambda self: hash(hashed_of(self))


def _values(names: Iterable[str]) -> Any:
    """A function of a record that gives these fields as a tuple (a single one as itself)."""
    listed = tuple(names)
    return operator.attrgetter(*listed) if listed else lambda _: ()


@reprlib.recursive_repr()
def _shown(self: Any) -> str:
    fields = (f"{name}={getattr(self, name)!r}" for name, part in getattr(self, _PARTS).items() if part.shows)
    return f"{self.__class__.__qualname__}({', '.join(fields)})"


def _refuse(self: Any, name: str, *_value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in getattr(self, _PARTS)]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(getattr(self, _PARTS), state, strict=True):
        _SET(self, name, value)
