"""Which columns of a case do not bear on its figure: each told cell is tried without it and with
another value; what moves nothing is named, so that nobody takes it for counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rightfit.proof.case_columns import CaseColumn, case_columns

#: Rows that are tried so; in a longer table the engines' own remarks have to do.
MOST_ROWS = 200
_NEVER = ("id", "metric")
_COUNTS = ("count", "tokens", "sequences", "samples", "GiB", "10^9", "10^6", "pixels", "s", "ms", "requests/s", "MB", "flag", "share")
_FIGURES = ("predicted", "low80", "high80", "low95", "high95", "error")

Answered = Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]]


def name_idle(tables: Sequence[str], cells: Sequence[Mapping[str, str]], answers: Sequence[dict[str, Any]], answered: Answered) -> None:
    """Add to each answer's remarks the columns that its figure does not hang on. `answered` gives
    the answers of rows, their intervals included."""
    tried: list[tuple[int, str, dict[str, str]]] = []
    for index, (table, row, answer) in enumerate(zip(tables, cells, answers, strict=True)):
        if answer.get("error") or not answer.get("predicted"):
            continue
        for column in case_columns(table):
            if column.column not in _NEVER and row.get(column.column):
                tried += [(index, column.column, {**row, column.column: value}) for value in _others(column, row[column.column])]
    if not tried:
        return
    found = answered([row for _, _, row in tried])
    moves: dict[tuple[int, str], bool] = {}
    for (index, name, _), other in zip(tried, found, strict=True):
        changed = any(other.get(figure) != answers[index].get(figure) for figure in _FIGURES)
        moves[index, name] = moves.get((index, name), False) or changed
    for (index, name), moved in moves.items():
        if not moved:
            answers[index].setdefault("idle", []).append(name)


def _others(column: CaseColumn, cell: str) -> list[str]:
    """No value, and another one of the column's kind."""
    allowed = [word for word in column.allowed.split("|") if column.unit in ("word", "flag") and word and word != cell.strip().lower()]
    others = ["", *allowed[:4]]
    if not allowed and re.fullmatch(r"\d+(\.\d+)?", cell.strip()):
        number = float(cell)
        others += [f"{number * 2 or 1:g}", f"{number * 8 or 4:g}"] if number != 1 or column.unit != "share" else ["0.5"]
    return others


def idle_text(answer: Mapping[str, Any], told: Sequence[str]) -> list[str]:
    """The line that names them; those that a remark speaks of are named already."""
    names = [name for name in answer.get("idle", ()) if not any(name in text for text in told)]
    return [f"not used for this figure: {', '.join(names)}"] if names else []
