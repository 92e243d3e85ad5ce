"""The source of rightfit, each module parsed and walked once in a test process."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import rightfit

PACKAGE = Path(rightfit.__file__).parent


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The parsed module; nobody changes it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a module, in the order of `ast.walk`."""
    return tuple(ast.walk(tree_of(path)))


@functools.cache
def every_module() -> dict[str, Path]:
    """The modules of rightfit by their place in it."""
    return {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
