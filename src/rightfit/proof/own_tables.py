"""What runs of one's own are worth, for the accuracy page: errors with 0 to 3 own rows, the bars that they must keep, and what a choice costs with 0 to 2 tests.

The figures are written by `validation/fit_calibration.py --write` (own_runs.csv) and `validation/own_decisions.py --write` (own_decisions.csv), on sources left out; the
bars are lines of validation/own_bars.csv.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from pathlib import Path

from rightfit.proof.accuracy_tables import Cells, percent, table
from rightfit.proof.tables import cell_text, read_cases

RUNS, DECISIONS, BARS = "own_runs.csv", "own_decisions.csv", "own_bars.csv"
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le}
Line = Mapping[str, str]


def _lines(path: Path) -> list[dict[str, str]]:
    return [{name: cell_text(cell) for name, cell in line.items() if name} for line in read_cases(path)] if path.is_file() else []


def error_cells(validation: Path) -> Cells | None:
    """Median error with 0, 1, 2 and 3 own rows of the job; None without the table. Each cell compares the same cases before and after."""
    lines = _lines(validation / RUNS)
    if not lines:
        return None
    by = {(line["figure"], int(line["rows"])): line for line in lines}
    figures = list(dict.fromkeys(line["figure"] for line in lines))
    rows = [[_name(figure), *(_pair(by.get((figure, known))) for known in (1, 2, 3)), *_last(by[figure, 1])] for figure in figures]
    return ["figure", "1 own row", "2 own rows", "3 own rows", "sources made worse by one row", "in 80 % (one row)"], rows


def _name(figure: str) -> str:
    return figure.replace("-", " ")


def _pair(line: Line | None) -> str:
    return f"{percent(float(line['median_none']))} → {percent(float(line['median_corrected']))}" if line else "-"


def _last(line: Line) -> list[str]:
    return [percent(float(line["worse_corrected"])), percent(float(line["inside80"]))]


def bar_rows(validation: Path) -> list[tuple[str, str, float, str, float, bool]]:
    """(figure, what, value, sign, bar, whether it is kept) of every bar."""
    by = {(line["figure"], line["rows"]): line for line in _lines(validation / RUNS)}
    found = []
    for bar in _lines(validation / BARS):
        line = by.get((bar["figure"], bar["rows"]))
        if line is not None:
            value, limit = float(line[bar["column"]]), float(bar["limit"])
            found.append((bar["figure"], bar["what"], value, bar["sign"], limit, _SIGNS[bar["sign"]](value, limit)))
    return found


def bar_cells(validation: Path) -> Cells | None:
    """The bars, and which are kept."""
    rows = [
        [_name(figure), what, percent(value), f"{sign} {percent(limit)}", "yes" if kept else "no"]
        for figure, what, value, sign, limit, kept in bar_rows(validation)
    ]
    return (["figure", "bar", "measured", "limit", "kept"], rows) if rows else None


def decision_cells(validation: Path) -> Cells | None:
    """Extra cost of the chosen card over the best one; None without the table."""
    lines = _lines(validation / DECISIONS)
    names = ("test_0", "test_1", "test_2", "cheapest_per_hour", "random")
    rows = [[_name(line["figure"]), line["choices"], line["sources"], *(percent(float(line[name])) for name in names)] for line in lines]
    header = ["figure", "choices", "sources", "no test", "1 test", "2 tests", "cheapest by the hour", "a card at random"]
    return (header, rows) if rows else None


def own_cells(validation: Path) -> list[Cells]:
    """Every table that there is."""
    return [cells for cells in (error_cells(validation), bar_cells(validation), decision_cells(validation)) if cells is not None]


def own_text(validation: Path) -> str:
    """The section of the accuracy page; empty without the tables."""
    errors, bars, decisions = error_cells(validation), bar_cells(validation), decision_cells(validation)
    if errors is None:
        return ""
    return f"""## With runs of your own

Median error before and after so many measured rows of the same job are known (`--runs`); each source with numbers fitted without it ([how](decisions/own-runs.md)). Serving memory is never corrected. The cases of a cell are those of jobs with more rows than are known, so its first number differs from cell to cell.

{table(*errors)}{_section("The bars of this release:", bars)}{_section(_DECISIONS, decisions)}
"""


_DECISIONS = (
    "What a choice costs: the extra cost of the chosen card over the best one, as many of each at the same batch and length, at the lowest on-demand price of each card "
    "(`validation/card_prices.csv`); the card of the lowest predicted cost is tested first. Mean over the sources' means:"
)


def _section(text: str, cells: Cells | None) -> str:
    return f"\n{text}\n\n{table(*cells)}" if cells is not None else ""
