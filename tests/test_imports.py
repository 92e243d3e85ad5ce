"""No module needs itself: the graph of imports has no circle, those inside functions and
for types counted."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from source import nodes_of

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
#: Who imports by name, and what: its own sub-modules (a prefix), a library that may be missing,
#: or the user's code.
REGISTRIES = {
    "rightfit": "rightfit.",
    "rightfit.market.providers": "rightfit.market.providers.",
    "rightfit.cli.app": "rightfit.cli.commands.",
    "rightfit.exports.registry": "rightfit.exports.targets.",
    "rightfit.families.registry": "rightfit.families.",
    "rightfit.rest": "rightfit.rest.",
    "rightfit.explain.voices": "library",
    "rightfit.measure.probing.cards": "library",
    "rightfit.estimation.traced": "user",
    "rightfit.facts.own.torch_module": "user",
}
#: What other programs run far from here: texts of exports, and the agent inside a measured program.
CARRIED = ("rightfit.exports.scripts.", "rightfit.measure.probing.agent.")
BY_NAME = frozenset(
    {"import_module", "__import__", "resolve_name", "run_module", "run_path", "exec_module", "module_from_spec", "spec_from_file_location"}
)


@functools.cache
def modules(root: Path) -> dict[str, Path]:
    """Every module by its dotted name."""
    named = {".".join(path.relative_to(root).with_suffix("").parts): path for path in sorted(root.rglob("*.py"))}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


@functools.cache
def graph(root: Path) -> dict[str, set[str]]:
    """Module -> modules of ours that it imports, in functions too and where only a type checker
    reads them: who reads the code must follow them as well."""
    known = modules(root)
    out: dict[str, set[str]] = {}
    for name, path in known.items():
        found = set()
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {full if (full := f"{node.module}.{alias.name}") in known else node.module for alias in node.names}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        out[name] = {one for one in found if one in known and one != name}
    return out


def circle(root: Path) -> list[str]:
    """A circle of imports, empty where there is none."""
    try:
        graphlib.TopologicalSorter(graph(root)).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_import_circle() -> None:
    assert circle(SOURCE) == []


def test_a_circle_inside_functions_is_found(tmp_path: Path) -> None:
    package = tmp_path / "house"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "kitchen.py").write_text("def cook():\n    from house.cellar import wine\n")
    (package / "cellar.py").write_text("from house import kitchen\n")
    assert set(circle(tmp_path)) == {"house.kitchen", "house.cellar"}


@pytest.mark.parametrize("room", ["search", "planner", "explain"])
def test_rooms_of_the_frame_name_no_family(room: str) -> None:
    """The verbs and the frame reach families through the registry alone; the words may read what a
    family's answers are made of."""
    reached = {one for name, found in graph(SOURCE).items() if name.startswith(f"rightfit.{room}") for one in found}
    allowed = {"rightfit.families.registry"} if room != "search" else set()
    families = {one for one in reached if one.startswith("rightfit.families.")} - allowed
    assert not families if room != "explain" else all(one.rsplit(".", 1)[1] in ("layout", "match") for one in families), sorted(families)


@functools.cache
def names_used(path: Path) -> set[str]:
    """Every name and attribute that a module reads."""
    return {node.id if isinstance(node, ast.Name) else node.attr for node in nodes_of(path) if isinstance(node, ast.Name | ast.Attribute)}


@functools.cache
def texts(path: Path) -> set[str]:
    """Every text of a module but docstrings, those of f-strings up to their first field."""
    said = {id(node.value) for node in nodes_of(path) if isinstance(node, ast.Expr)}
    return {
        node.value for node in nodes_of(path) if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
    }


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def heights() -> dict[str, int]:
    """How high each room stands in the contract of pyproject.toml; the package itself, which only
    offers names of the others, on top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    return {"": len(layers)} | {room: -at for at, layer in enumerate(layers) for room in re.split(r"[ |]+", layer)}


@functools.cache
def own(root: Path) -> dict[str, Path]:
    """Every module that runs as a part of rightfit."""
    return {name: path for name, path in modules(root).items() if not name.startswith(CARRIED)}


def by_name(root: Path) -> list[str]:
    """Modules that import by name and are no registry, or give a registry's import
    what is not theirs."""
    faults = []
    for name, path in own(root).items():
        source = path.read_text(encoding="utf-8")
        if not any(word in source for word in BY_NAME) or not names_used(path) & BY_NAME:
            continue
        prefix = REGISTRIES.get(name)
        named = {text for text in texts(path) if re.fullmatch(r"rightfit\.[a-z_.]*", text)}
        if prefix is None:
            faults.append(f"{name} imports by name")
        elif not all(text.startswith(prefix) for text in named):
            faults.append(f"{name} names {sorted(named)}")
    return faults


def upward(root: Path) -> list[str]:
    """Texts that are the name of a module in a room above, whoever imports it then."""
    stand, known, faults = heights(), {*modules(root), *modules(SOURCE)}, []
    for name, path in own(root).items():
        for text in sorted(texts(path)):
            named = text.partition(":")[0].rstrip(".")
            above = re.match(r"rightfit\.\w", text) and named in known and stand[room_of(named)] > stand[room_of(name)]
            faults += [f"{name} says {text}"] if above else []
    return faults


def test_registries_alone_import_by_name_and_their_own_alone() -> None:
    assert by_name(SOURCE) == []
    assert [name for name in REGISTRIES if not names_used(own(SOURCE)[name]) & BY_NAME] == [], "registries that are none any more"


def test_no_text_names_a_module_of_a_room_above() -> None:
    assert upward(SOURCE) == []


def test_no_module_changes_its_class() -> None:
    swapped = {
        name
        for name, path in own(SOURCE).items()
        for node in nodes_of(path)
        if isinstance(node, ast.Assign) and any(isinstance(at, ast.Attribute) and at.attr == "__class__" for at in node.targets)
    }
    assert swapped == set()


def test_a_call_upward_is_found(tmp_path: Path) -> None:
    package = tmp_path / "rightfit" / "search"
    package.mkdir(parents=True)
    (package / "answer.py").write_text('import importlib\ndef words():\n    return importlib.import_module("rightfit.explain.html")\n')
    (package / "run.py").write_text('SERVER = "rightfit.rest.app:from_environment"\nLOWER = "rightfit.facts.own.worker"\n')
    assert by_name(tmp_path) == ["rightfit.search.answer imports by name"]
    assert upward(tmp_path) == [
        "rightfit.search.answer says rightfit.explain.html",
        "rightfit.search.run says rightfit.rest.app:from_environment",
    ]


def missing_of(line: str, known: frozenset[str]) -> Iterator[str]:
    """What one line of imports asks of us and nobody has: modules, and names that a package
    neither holds as a module nor defines."""
    for statement in ast.parse(line.strip()).body:
        if isinstance(statement, ast.Import):
            yield from (name.name for name in statement.names if name.name.startswith("rightfit") and name.name not in known)
        elif isinstance(statement, ast.ImportFrom) and str(statement.module).startswith("rightfit"):
            source = str(statement.module)
            text = modules(SOURCE)[source].read_text("utf-8") if source in known else ""
            words = [] if source in known else [source]
            words += [f"{source}.{name.name}" for name in statement.names if f"{source}.{name.name}" not in known and name.name not in text]
            yield from words


def test_programs_that_tests_write_as_text_import_what_is_there() -> None:
    """Text is not checked by mypy, and a moved module shows in the deep groups only."""
    known = frozenset(modules(SOURCE))
    asked = re.compile(r"^ *(?:from rightfit[\w.]* import \w+(?:, \w+)*|import rightfit[\w.]*)$", re.MULTILINE)
    lines = {line: path.name for path in sorted((ROOT / "tests").rglob("*.py")) for line in asked.findall(path.read_text("utf-8"))}
    assert len(lines) > 500
    assert [(name, line) for line, name in lines.items() if any(missing_of(line, known))] == []
    assert list(missing_of("from rightfit.market import open_catalog, package_data", known)) == ["rightfit.market.package_data"]
