"""Records are what the standard library's frozen dataclasses with slots are: each property is asked
of both kinds of the same class."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from source import every_module, nodes_of

from rightfit import records

ITEMS = ["a"]


def point() -> type:
    """A class with every kind of field, written anew: the decorators change what they are given."""

    class Point:
        """A place."""

        x: int
        y: float = 2.0
        names: list[str] = dataclasses.field(default_factory=lambda: list(ITEMS), repr=False)
        mark: str = dataclasses.field(default="m", compare=False)
        last: int = dataclasses.field(default=7, kw_only=True)

        @property
        def twice(self) -> int:
            """2 x."""
            return self.x * 2

    return Point


def checked() -> type:
    """A class that checks its fields."""

    class Checked:
        """Refuses what is below nothing."""

        x: int
        y: tuple[int, ...] = ()

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("below nothing")

    return Checked


def standard(written: type, **options: bool) -> Any:
    return dataclasses.dataclass(frozen=True, slots=True, **options)(written)


def ours(written: type, **options: bool) -> Any:
    return records.dataclass(frozen=True, slots=True, **options)(written)


KINDS = pytest.mark.parametrize("kind", [standard, ours])
PickledPoint = ours(point())
PickledPoint.__qualname__ = "PickledPoint"


@KINDS
def test_made_by_place_by_name_and_by_default(kind: Callable[..., Any]) -> None:
    made = kind(point())(1, last=9)
    assert (made.x, made.y, made.names, made.mark, made.last, made.twice) == (1, 2.0, ["a"], "m", 9, 2)
    assert kind(point())(1).names is not kind(point())(1).names, "each record has a list of its own"
    for wrong in [(), (1, 2.0, [], "m", 9)]:
        with pytest.raises(TypeError):
            kind(point())(*wrong)
    with pytest.raises(TypeError):
        kind(point())(1, other=2)


@KINDS
def test_nothing_is_changed_or_added(kind: Callable[..., Any]) -> None:
    # The standard one raises TypeError for names that it has no slot for.
    made = kind(point())(1)
    for change in (lambda: setattr(made, "x", 2), lambda: delattr(made, "x"), lambda: setattr(made, "new", 2)):
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            change()
    assert not hasattr(made, "__dict__")


@KINDS
def test_equality_and_hash_read_the_fields_that_compare(kind: Callable[..., Any]) -> None:
    made = kind(checked())
    assert made(1, (2,)) == made(1, (2,)) != made(1, (3,))
    assert hash(made(1, (2,))) == hash(made(1, (2,))) == hash((1, (2,)))
    place = kind(point())
    assert place(1, mark="a") == place(1, mark="b")
    assert made(1) != (1, ())
    own = kind(checked(), eq=False)
    assert own(1) != own(1)


@KINDS
def test_shown_replaced_copied_and_taken_apart(kind: Callable[..., Any]) -> None:
    made = kind(point())(1)
    assert repr(made) == "point.<locals>.Point(x=1, y=2.0, mark='m', last=7)"
    assert dataclasses.replace(made, y=3.0).y == 3.0
    assert dataclasses.asdict(made) == {"x": 1, "y": 2.0, "names": ["a"], "mark": "m", "last": 7}
    assert copy.copy(made) == copy.deepcopy(made) == made
    assert list(inspect.signature(kind(point())).parameters) == ["x", "y", "names", "mark", "last"]
    match kind(checked())(4, (5,)):
        case object(x=4, y=(5,)):
            pass
        case _:
            pytest.fail("the fields do not match")
    assert kind(checked()).__match_args__ == ("x", "y")


def test_pickled_and_read_again() -> None:
    made = PickledPoint(3, 4.0, ["b"], last=1)
    assert pickle.loads(pickle.dumps(made)) == made


@KINDS
def test_checks_of_its_own_run(kind: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="below nothing"):
        kind(checked())(-1)


@KINDS
def test_a_record_of_a_record_has_the_fields_of_both(kind: Callable[..., Any]) -> None:
    base = kind(checked())

    class Wide(base):
        z: int = 3

    Wide.__annotations__ = {"z": "int"}
    wide = kind(Wide)
    assert dataclasses.astuple(wide(1)) == (1, (), 3)
    with pytest.raises(ValueError, match="below nothing"):
        wide(-1)


def test_init_is_compiled_with_the_first_record() -> None:
    made = ours(point())
    assert not inspect.isfunction(vars(made)["__init__"])
    assert made(1) == made(x=1)
    assert inspect.isfunction(vars(made)["__init__"])
    assert list(inspect.signature(ours(point())).parameters) == ["x", "y", "names", "mark", "last"]


def test_a_record_may_hold_arrays() -> None:
    assert ours(point())(np.arange(3), y=np.zeros(2)).x.shape == (3,)


def test_what_is_no_field_is_refused_when_the_class_is_written() -> None:
    class Counted:
        x: int
        total: ClassVar[int] = 0

    class Hidden:
        x: int
        y: int = dataclasses.field(default=0, init=False)

    for written in (Counted, Hidden):
        with pytest.raises(TypeError):
            ours(written)


@pytest.mark.parametrize("options", [{"frozen": False, "slots": True}, {"frozen": True, "slots": False}])
def test_other_kinds_are_refused(options: dict[str, bool]) -> None:
    with pytest.raises(TypeError, match="standard library"):
        records.dataclass(**options)


def test_frozen_classes_of_ours_are_records() -> None:
    """Each costs three times as much otherwise; what runs in other programs has nothing of ours."""
    plain = [
        f"{name}: {node.name}"
        for name, path in every_module().items()
        if not {"agent", "scripts"} & set(path.parts)
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
        for mark in node.decorator_list
        if ast.unparse(mark).startswith("dataclasses.dataclass(frozen=True, slots=True")
    ]
    assert plain == []
