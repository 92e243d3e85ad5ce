"""Every public function of the physics says the unit of each argument and of its result, and where
its equation comes from.

The rule, as `rightfit.physics` states it: a plain argument stands in the docstring as `argument`
[unit] or `one`, `other` [unit], the result as -> [unit]; a shape may follow the unit after a comma.
Arguments and results that are structs of ours carry the units of their fields. A source is the line
"Source:" of the function or of its module.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import rightfit.physics
from rightfit.physics.columns import Columns

ROOT = Path(__file__).parents[2]
MODULES = tuple(
    importlib.import_module(f"rightfit.physics.{information.name}") for information in pkgutil.iter_modules(rightfit.physics.__path__)
)

#: What may be counted or measured; a unit is one of these, or a quotient of them. Anything else is
#: a slip of the pen.
WORDS = frozenset(
    re.findall(
        r"\S+",
        """
        1 any code coefficients flag
        s h month year years W kWh kW J g kg FLOP MAC operations bytes GB USD Mtoken
        GPUs adapters bin bins columns cores element elements experts heads items layers leaves levels logit micro-batches node pairs
        parameter parameters passes pixels replicas requests row rows sample samples sequences servers threads token tokens trees
        """,
    )
)
#: The beginnings of a source that is no paper, and what a paper looks like: a year, or the
#: documentation of a vendor.
OWN_SOURCE = re.compile(r"(accounting|definition|documentation|measured|docs/decisions/[\w-]+\.md)\b")
YEAR = re.compile(r"\b(1[89]|20)\d\d\b|User's Guide")
PATH = re.compile(r"\b(?:docs|validation|src|benchmarks)/[\w./-]+\w")
NAMED = re.compile(r"((?:`\w+`, )*`\w+`) \[([^\]]+)\]")
RESULT = re.compile(r"-> \[([^\]]+)\]((?:, \[[^\]]+\])*)")
#: Annotations that need no unit: what is no quantity.
NO_QUANTITY = re.compile(r"bool|str|Any|type\[.*|Callable\[.*|Iterable\[.*|NDArray\[np\.intp\]|None|Self")


def structs() -> dict[str, type]:
    """Every dataclass that the physics defines, by name."""
    members = {name: kind for module in MODULES for name, kind in vars(module).items()}
    return {name: kind for name, kind in members.items() if isinstance(kind, type) and dataclasses.is_dataclass(kind) and _ours(kind)}


def functions() -> dict[str, Callable[..., Any]]:
    """Every public function, method and property of every module, by its full name."""
    found: dict[str, Callable[..., Any]] = {}
    for module in MODULES:
        for name, member in vars(module).items():
            if name.startswith("_") or not _ours(member) or member.__module__ != module.__name__:
                continue
            if isinstance(inspect.unwrap(member), FunctionType):
                found[f"{_short(module)}.{name}"] = inspect.unwrap(member)
            elif inspect.isclass(member):
                found |= {f"{_short(module)}.{name}.{method}": code for method, code in _methods(member)}
    return found


def _ours(member: object) -> bool:
    return str(getattr(member, "__module__", "")).startswith("rightfit.physics")


def _short(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def _methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in vars(kind).items():
        code = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if not name.startswith("_") and isinstance(code, FunctionType):
            yield name, code


def faults(name: str, function: Callable[..., Any]) -> list[str]:
    """What the docstring of one function lacks, in words."""
    text = inspect.getdoc(function) or ""
    plain = " ".join(text.split())
    notes, known = dict(function.__annotations__), _units(plain)
    wanted = [each for each in notes if each != "return" and _needs_unit(notes[each])]
    found = [f"{name}: no unit of `{each}`" for each in wanted if each not in known]
    result = RESULT.search(plain)
    if _needs_unit(notes.get("return", "None")) and result is None:
        found.append(f"{name}: no unit of the result")
    stated = [*known.values(), *(re.findall(r"\[([^\]]+)\]", result.group(0)) if result else ())]
    found += [f"{name}: [{unit}] is no unit" for unit in stated if not is_unit(unit)]
    module = importlib.import_module(function.__module__)
    return found + [f"{name}: {fault}" for fault in source_faults(text, inspect.getdoc(module) or "")]


def _units(text: str) -> dict[str, str]:
    return {name: unit for names, unit in NAMED.findall(text) for name in re.findall(r"\w+", names)}


def _needs_unit(annotation: str) -> bool:
    """Whether an annotation stands for a quantity: not for a struct of ours, a word or a switch."""
    parts = [re.sub(r"^list\[(\w+)\]$", r"\1", part.strip()) for part in annotation.split("|")]
    return any(part not in structs() and NO_QUANTITY.fullmatch(part) is None for part in parts if part not in ("None", "Struct"))


def is_unit(text: str) -> bool:
    """Words of the list, divided and raised to whole powers; what follows a comma is a shape or the
    name of an enumeration."""
    unit = text.partition(",")[0]
    return all(re.sub(r"\^\d$", "", word) in WORDS for word in unit.split("/"))


def source_faults(text: str, module_text: str) -> list[str]:
    """Why the line "Source:" of a function, or else of its module, is none."""
    source = next((line for line in (_source(text), _source(module_text)) if line), "")
    if not source:
        return ["no source, neither of its own nor of its module"]
    if not OWN_SOURCE.search(source) and not YEAR.search(source):
        return [f"the source has no year and is none of our own: {source}"]
    return [f"{path} is no file" for path in PATH.findall(source) if not (ROOT / path).is_file()]


def _source(text: str) -> str:
    found = re.search(r"Source: ((?:.+\n?)+)", text)
    return found.group(1) if found else ""


FUNCTIONS = functions()


def test_all_modules_are_walked() -> None:
    assert len(MODULES) >= 21
    assert len(FUNCTIONS) >= 300


@pytest.mark.parametrize("module", [_short(module) for module in MODULES])
def test_every_function_states_units_and_source(module: str) -> None:
    lacking = [fault for name, function in FUNCTIONS.items() if name.split(".")[0] == module for fault in faults(name, function)]
    assert not lacking, "\n".join(lacking)


@pytest.mark.parametrize("name", sorted(structs()))
def test_every_field_has_a_unit(name: str) -> None:
    kind = structs()[name]
    stated = _units(" ".join((inspect.getdoc(kind) or "").split()))
    for field in dataclasses.fields(kind):
        unit = field.metadata.get("unit") if issubclass(kind, Columns) else stated.get(field.name)
        if issubclass(kind, Columns) or _needs_unit(str(field.type)):
            assert unit, f"{name}.{field.name} has no unit"
            assert is_unit(unit), f"{name}.{field.name}: [{unit}] is no unit"


@pytest.mark.parametrize("field", ["tokens", "hidden"])
def test_an_argument_without_a_unit_is_named(field: str) -> None:
    def broken(tokens: Array, hidden: Array) -> Array:  # type: ignore[name-defined] # noqa: F821
        """`tokens` [tokens], `hidden` [elements] -> [bytes]. Source: accounting."""

    assert faults("broken", broken) == []
    broken.__doc__ = str(broken.__doc__).replace(f"`{field}` ", "")
    assert faults("broken", broken) == [f"broken: no unit of `{field}`"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("`size` [bytes]. Source: accounting.", "broken: no unit of the result"),
        ("`size` [byte] -> [s]. Source: accounting.", "broken: [byte] is no unit"),
        ("`size` [bytes] -> [s].", "broken: no source, neither of its own nor of its module"),
        ("`size` [bytes] -> [s]. Source: everybody knows.", "broken: the source has no year and is none of our own: everybody knows."),
        ("`size` [bytes] -> [s]. Source: docs/decisions/none-such.md.", "broken: docs/decisions/none-such.md is no file"),
    ],
)
def test_a_broken_docstring_is_named(text: str, fault: str) -> None:
    def broken(size: Array) -> Array:  # type: ignore[name-defined] # noqa: F821
        ...

    broken.__doc__ = text
    assert faults("broken", broken) == [fault]
