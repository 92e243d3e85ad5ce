"""Bare figures in composition: each module may hold as many as it holds today and no more; a new
figure is a line of data with a source.

What counts is a number in the code that is not plain. Plain are numbers that say nothing about the
world (see PLAIN), positions (indices, slices) and sizes of caches. What remains is counted in
tests/data/literals.toml with the reason why it stays; the counts may only fall.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import rightfit.estimation as estimate

ROOT = Path(estimate.__file__).parent
TABLE = tomllib.loads((Path(__file__).parents[1] / "data" / "literals.toml").read_text(encoding="utf-8"))
#: Numbers that say nothing about the world, and why.
PLAIN: dict[str, tuple[float, ...]] = {
    "nothing, one, a pair, a half": (0, 1, 2, 0.5),
    "units of time": (60, 3600, 24, 1440),
    "decimal units and per cent": tuple(10.0**power for power in (-12, -9, -6, -3, 1, 2, 3, 6, 9, 12, 15)),
    "bits, bytes and binary units": tuple(2.0**power for power in range(3, 31)),
    "exponents of binary units": (20, 30, 40),
}
_PLAIN = frozenset(value for values in PLAIN.values() for value in values)


def bare(tree: ast.AST) -> Iterator[ast.Constant]:
    """Numbers of a module that are not plain."""
    positions = {id(node) for part in ast.walk(tree) if isinstance(part, ast.Subscript) for node in ast.walk(part.slice)}
    caches = {id(part.value) for part in ast.walk(tree) if isinstance(part, ast.keyword) and part.arg == "maxsize"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float) and id(node) not in positions | caches:
            yield from (node,) if abs(node.value) not in _PLAIN else ()


def counts() -> dict[str, int]:
    found = {
        str(path.relative_to(ROOT)): len(list(bare(ast.parse(path.read_text(encoding="utf-8"))))) for path in sorted(ROOT.rglob("*.py"))
    }
    return {name: count for name, count in found.items() if count}


def test_no_module_has_more_bare_figures_than_are_told() -> None:
    told = {name: entry["figures"] for name, entry in TABLE.items()}
    found = counts()
    more = {name: (count, told.get(name, 0)) for name, count in found.items() if count > told.get(name, 0)}
    assert not more, f"figures without a source (found, allowed): {more}; make them lines of facts/data/constants with unit and source"


def test_what_is_told_falls_with_the_code() -> None:
    found = counts()
    stale = {name: entry["figures"] for name, entry in TABLE.items() if found.get(name, 0) < entry["figures"]}
    assert not stale, f"fewer are left: lower these lines of tests/data/literals.toml to { ({name: found.get(name, 0) for name in stale}) }"


def test_every_line_has_its_reason() -> None:
    assert all(len(entry["why"].split()) > 3 for entry in TABLE.values())


def test_the_counter_sees_figures_and_skips_what_is_plain() -> None:
    code = "@lru_cache(maxsize=4096)\ndef rate(x):\n    return x[3:5] * 1.35 + 2**20 * 1e9 - 7 + 0.5 + row[-3]\n"
    assert sorted(node.value for node in bare(ast.parse(code))) == [1.35, 7]
