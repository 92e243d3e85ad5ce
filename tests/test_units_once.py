"""What a unit is in base units is said once, in `rightfit.units`: no other module defines a
constant of the same value under a name of its own."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

import pytest
from source import every_module, tree_of

from rightfit import units

#: Constants of the size of a unit that are none, each with what it is instead.
NO_UNITS = {
    "market/providers/base.py:_REFUSED_SKEW_S": "a limit on clocks that differ",
    "market/store.py:_ABANDONED_AFTER_S": "a limit on the age of a lock",
    "proof/cases/reader.py:_MAX_COUNT": "a limit on what a cell may count",
    "exports/scripts/train_tabular.py:MOST_CLASSES": "a limit on classes",
    "exports/scripts/train_recommender.py:MOST_HELD_OUT": "a limit on rows that are held out",
    "exports/targets/data_jobs.py:LONG_RECORDING_S": "an assumed length of a recording",
    "exports/training_words.py:MOST_SAVE_S": "a limit on what a run may lose",
    "exports/job.py:GB": "for exporters: export imports facts and errors only",
    "exports/job.py:GIB": "whole bytes, for exporters: export imports facts and errors only",
    "exports/registry.py:MIB": "whole bytes, for exporters: export imports facts and errors only",
    "facts/dimensions.py:SMALLEST_COUNT": "a limit on parameters",
    "facts/own/models.py:_CHUNK_BYTES": "what is read at a time",
    "facts/own/onnx_file.py:LARGEST_ELEMENTS": "a limit on elements",
    "search/option_reasons.py:COMMITTED_S": "a limit on the length of a run",
    "search/refusals.py:REFUSED_FAR": "farther than any offer",
    "search/training/options.py:MOST_SAMPLES": "a limit on a micro-batch",
    "fleets/reasons.py:_ROOMY": "a limit that never binds",
    "planner/cards.py:_CORPUS_TOKENS": "an amount of data",
    "workload/ask/__init__.py:_MOST_EACH": "a number of tokens",
    "workload/ask/__init__.py:_SELDOM_PARAMS": "a size of models",
    "workload/ask/asides.py:_REQUEST_TOKENS": "an assumed size of a request",
    "workload/code_files.py:_MAX_BYTES": "a limit on the size of a file",
    "workload/kept_files.py:_MAX_BYTES": "a limit on the size of a file",
    "workload/model.py:MAX_BYTES": "a limit on the size of a file",
}
#: Smaller ones are counts of many things.
LEAST = 700.0


def unit_values() -> set[float]:
    """The values of the constants of `rightfit.units`."""
    found = {value for name, value in vars(units).items() if name.isupper() and isinstance(value, float)}
    return {value for value in found if value >= LEAST}


def constants(tree: ast.Module) -> Iterator[tuple[str, float]]:
    """Constants of a module that are plain numbers or arithmetic on them."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from _assigned(node.targets[0], node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from _assigned(node.target, node.value)


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, float]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, of in zip(target.elts, value.elts, strict=True):
            yield from _assigned(one, of)
    elif isinstance(target, ast.Name) and all(isinstance(node, _ARITHMETIC) for node in ast.walk(value)):
        number = eval(compile(ast.Expression(value), "<constant>", "eval"), {"__builtins__": {}})
        if isinstance(number, (int, float)):
            yield target.id, float(number)


_ARITHMETIC = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)


def repeated(file: str, tree: ast.Module) -> list[str]:
    """Constants of a module that repeat a unit, as file:name."""
    return [f"{file}:{name}" for name, value in constants(tree) if value in unit_values()]


def test_units_are_said_once() -> None:
    files = {name: path for name, path in every_module().items() if path.name != "units.py"}
    assert len(files) > 300
    found = [repeating for name, path in files.items() for repeating in repeated(name, tree_of(path))]
    assert sorted(found) == sorted(NO_UNITS)


@pytest.mark.parametrize("line", ["GBPS = 1e9 / 8", "_GIB: float = 1024**3", "MONTH_H, OTHER = 730.0, 1", "A_YEAR = 365 * 24"])
def test_a_unit_said_again_is_found(line: str) -> None:
    name = line.split(maxsplit=1)[0].rstrip(",:")
    assert repeated("one.py", ast.parse(textwrap.dedent(line))) == [f"one.py:{name}"]
