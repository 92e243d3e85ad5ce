"""No module needs itself: the graph of imports has no circle, those inside functions and for types counted."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"


def modules(root: Path) -> dict[str, Path]:
    """Every module by its dotted name."""
    named = {".".join(path.relative_to(root).with_suffix("").parts): path for path in sorted(root.rglob("*.py"))}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


def imported(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import: in functions too, and those that only a type checker reads, since who reads the code must follow them as well."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        yield from imported(node)


def graph(root: Path) -> dict[str, set[str]]:
    """Module -> modules of ours that it imports."""
    known = modules(root)
    out: dict[str, set[str]] = {}
    for name, path in known.items():
        found = set()
        for node in imported(ast.parse(path.read_text(encoding="utf-8"))):
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
    """The verbs and the frame reach families through the registry alone; the words may read what a family's answers are made of."""
    reached = {one for name, found in graph(SOURCE).items() if name.startswith(f"rightfit.{room}") for one in found}
    allowed = {"rightfit.families.registry"} if room != "search" else set()
    families = {one for one in reached if one.startswith("rightfit.families.")} - allowed
    assert not families if room != "explain" else all(one.rsplit(".", 1)[1] in ("layout", "match") for one in families), sorted(families)
