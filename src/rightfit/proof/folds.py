"""Leave one source out: predict each source with coefficients that were fitted without it.

A folds file holds, for every source, the coefficients that change when the source is left out: {source: {coefficient file: {key: value}}}.
`validation/fit_speed.py --folds` and `validation/fit_memory.py --folds` write them; predictions with it are made by the code as it is now,
so they can never be stale.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError
from rightfit.facts import tables
from rightfit.proof.predict import predict
from rightfit.proof.tables import cell_text

Coefficients = Mapping[str, Mapping[str, float]]


#: Modules that turn words into records and columns; nothing in their caches depends on a coefficient.
_WITHOUT_COEFFICIENTS = frozenset(
    {
        *("setup", "convert", "hardware", "traced", "train_work", "train_networks", "vision_parts"),
    }
)


def _forget() -> None:
    """Drop every cached value that was computed from coefficients."""
    tables.coefficients.cache_clear()
    for name, module in list(sys.modules.items()):
        if name.startswith("rightfit.estimate.") and name.rpartition(".")[2] not in _WITHOUT_COEFFICIENTS:
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear") and getattr(value, "__module__", "") == name:
                    value.cache_clear()


@contextlib.contextmanager
def substituted(values: Coefficients) -> Iterator[None]:
    """Use other values of some coefficients inside the block, for cross-validation only. Not safe across threads."""
    tables.SUBSTITUTES.update({name: dict(entries) for name, entries in values.items()})
    _forget()
    try:
        yield
    finally:
        tables.SUBSTITUTES.clear()
        _forget()


def read_folds(folder: Path) -> dict[str, Coefficients]:
    """Coefficients by the source that was left out, from every JSON file of a folder; empty when there is none."""
    folds: dict[str, dict[str, Mapping[str, float]]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found: dict[str, Coefficients] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FileInputError(f"cannot read {path}: {error}") from None
        for source, values in found.items():
            folds.setdefault(source, {}).update(values)
    return dict(folds)


def predict_left_out(rows: Sequence[Mapping[str, Any]], folds: Mapping[str, Coefficients]) -> list[dict[str, Any]]:
    """Predictions in row order, each source with the coefficients of its fold; sources without a fold with those that ship."""
    answers: list[dict[str, Any]] = [{}] * len(rows)
    sources = [cell_text(row.get("source")) for row in rows]
    for source in dict.fromkeys(name if name in folds else "" for name in sources):
        index = [i for i, name in enumerate(sources) if (name if name in folds else "") == source]
        with substituted(folds.get(source, {})):
            for i, answer in zip(index, predict([rows[i] for i in index]), strict=True):
                answers[i] = answer
    return answers
