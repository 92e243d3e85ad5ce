"""Errors by figure and by source of two checkouts on the same measured rows, stack unknown.

    python validation/compare_scores.py BEFORE [AFTER] --tables second=DIR --tables third=DIR

BEFORE and AFTER are commits of this repository or folders of checkouts (AFTER: this checkout). The
rows of `validation/truth` are always asked; `--tables NAME=DIR` adds folders whose rows are not in
this repository. A case is what its columns say, without remarks, source, place, what was measured
and the name of the software; coefficients are those that each checkout ships, so that rows of the
first set are in-sample. Prints a page in Markdown: a line for each figure and set, and the sources
that moved by more than `--least` points. With `--worse SHARE` the exit code is 1 where the median
of the sources of a figure rose by more than that share.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

import first_contact
from rightfit.proof.left_out import SOFTWARE
from rightfit.proof.tables import cell_text, read_truth

HERE = Path(__file__).resolve().parent
#: Fewer rows than this say nothing about a source by themselves.
FEW_ROWS = 5
Row = dict[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A measured row: of which set, table, figure and source, what was measured, and its case."""

    rows_of: str
    table: str
    figure: str
    source: str
    measured: float
    case: Row


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A figure of a set, or a source of it: rows answered and errors, before and after."""

    figure: str
    rows_of: str
    source: str
    rows: tuple[int, int]
    median: tuple[float, float]
    p90: tuple[float, float]
    by_source: tuple[float, float]


def asked_of(rows_of: str, table: str, rows: Iterable[Mapping[str, str]]) -> list[Asked]:
    """The usable measured rows of a table as cases without software, source and outcome."""
    found = []
    for row in rows:
        if row.get("usable", "1").lower() not in ("", "1", "1.0", "true") or row.get("is_oom") in ("1", "1.0"):
            continue
        if row["metric"] in first_contact.STATEMENTS or not (measured := first_contact.number(row["measured"])) > 0:
            continue
        case = first_contact.case_of(dict(row), "") | ({SOFTWARE[table]: ""} if table in SOFTWARE else {})
        found.append(Asked(rows_of, table, first_contact.figure_of(table, dict(row)), row["source"], measured, case))
    return found


def own_rows() -> list[Asked]:
    """The rows of `validation/truth` that count, with the columns that their remarks gave."""
    truth = read_truth(HERE / "truth")
    counted = [(name, row) for name, row, reason in zip(truth.table, truth.rows, truth.excluded, strict=True) if not reason]
    text = [(name, {column: cell_text(cell) for column, cell in row.items()}) for name, row in counted]
    return [one for table in dict.fromkeys(truth.table) for one in asked_of("first", table, [row for name, row in text if name == table])]


def folder_rows(name: str, folder: Path) -> list[Asked]:
    """The rows of a folder of tables."""
    return [one for path in sorted(folder.glob("*.csv")) for one in asked_of(name, path.stem, first_contact.read_rows(path))]


def answers_of(checkout: Path, asked: Sequence[Asked]) -> list[float]:
    """What the program of a checkout predicts, in order; NaN where it refuses."""
    predicted = [float("nan")] * len(asked)
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    for table in dict.fromkeys(one.table for one in asked):
        index = [at for at, one in enumerate(asked) if one.table == table]
        columns = list(dict.fromkeys(column for at in index for column in asked[at].case))
        with tempfile.TemporaryDirectory() as folder:
            cases, out = Path(folder) / "CASES.csv", Path(folder) / "PRED.csv"
            first_contact.write_rows(cases, columns, [asked[at].case | {"id": str(at)} for at in index])
            command = [sys.executable, "-m", "rightfit", "predict", str(cases), "--out", str(out)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)
            if done.returncode:
                raise SystemExit(f"{checkout}: rightfit predict ended with {done.returncode}: {done.stderr.strip()[-400:]}")
            for answer in first_contact.read_rows(out):
                predicted[int(answer["id"])] = first_contact.number(answer.get("predicted"))
    return predicted


@contextlib.contextmanager
def checkout_of(name: str) -> Iterator[Path]:
    """The folder of a checkout, or one that holds a commit for as long as it is asked."""
    if Path(name, "src", "rightfit").is_dir():
        yield Path(name).resolve()
        return
    packed = subprocess.run(["git", "-C", str(HERE.parent), "archive", name, "src"], capture_output=True, check=False)
    if packed.returncode:
        raise SystemExit(f"{name} is neither a checkout nor a commit")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        yield Path(folder)


def _errors(asked: Sequence[Asked], predicted: Sequence[float]) -> dict[str, list[float]]:
    """Absolute percentage errors by source, of the rows that are answered."""
    found: dict[str, list[float]] = {}
    for one, value in zip(asked, predicted, strict=True):
        if value > 0:
            found.setdefault(one.source, []).append(abs(value / one.measured - 1.0) * 100.0)
    return found


def _line(figure: str, rows_of: str, source: str, sides: Sequence[Mapping[str, list[float]]]) -> Line:
    nothing = float("nan")
    pooled = [[error for errors in side.values() for error in errors] for side in sides]
    medians = [[float(np.median(errors)) for errors in side.values()] for side in sides]
    return Line(
        figure, rows_of, source,
        (len(pooled[0]), len(pooled[1])),
        tuple(float(np.median(errors)) if errors else nothing for errors in pooled),  # type: ignore[arg-type]
        tuple(float(np.quantile(errors, 0.9)) if errors else nothing for errors in pooled),  # type: ignore[arg-type]
        tuple(float(np.median(of)) if of else nothing for of in medians),  # type: ignore[arg-type]
    )  # fmt: skip


def lines_of(asked: Sequence[Asked], before: Sequence[float], after: Sequence[float]) -> tuple[list[Line], list[Line]]:
    """Lines by figure and set, then by source."""
    order = {figure.name: at for at, figure in enumerate(first_contact.FIGURES)}
    sets = list(dict.fromkeys(one.rows_of for one in asked))
    figures, sources = [], []
    for figure in sorted({one.figure for one in asked}, key=lambda name: (order.get(name, len(order)), name)):
        for rows_of in sets:
            index = [at for at, one in enumerate(asked) if (one.figure, one.rows_of) == (figure, rows_of)]
            if not index:
                continue
            sides = [_errors([asked[at] for at in index], [values[at] for at in index]) for values in (before, after)]
            figures.append(_line(figure, rows_of, "", sides))
            named = sorted({asked[at].source for at in index})
            sources += [_line(figure, rows_of, name, [{name: side[name]} if name in side else {} for side in sides]) for name in named]
    return figures, sources


def figures_over_sets(asked: Sequence[Asked], before: Sequence[float], after: Sequence[float]) -> list[Line]:
    """Lines by figure over the sources of all sets that both answer: what may not get worse."""
    both = [at for at in range(len(asked)) if before[at] > 0 and after[at] > 0]
    named = [dataclasses.replace(asked[at], rows_of="all", source=f"{asked[at].rows_of}: {asked[at].source}") for at in both]
    return lines_of(named, [before[at] for at in both], [after[at] for at in both])[0]


def worse(lines: Sequence[Line], share: float) -> list[Line]:
    """Lines whose median of sources rose by more than a share."""
    return [line for line in lines if line.by_source[1] > line.by_source[0] * (1.0 + share)]


def _percent(value: float) -> str:
    return "-" if value != value else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _pair(texts: Sequence[str]) -> str:
    return texts[1] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"


def _both(values: tuple[float, float]) -> str:
    return _pair([_percent(value) for value in values])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def page(all_sets: Sequence[Line], figures: Sequence[Line], sources: Sequence[Line], least: float) -> str:
    """The three tables in Markdown; "to" stands between before and after, one figure is both."""
    errors = ("figure", "set", "rows answered", "median / P90", "median by source")

    def cells(line: Line) -> list[str]:
        rows = _pair([f"{count:,}" for count in line.rows])
        return [
            line.figure,
            line.rows_of,
            rows,
            f"{_pair([f'{_percent(a)} / {_percent(b)}' for a, b in zip(line.median, line.p90, strict=True)])}",
            _both(line.by_source),
        ]

    moved = [
        line for line in sources
        if line.rows[0] != line.rows[1] or (max(line.rows) >= FEW_ROWS and abs(line.median[1] - line.median[0]) > least)
    ]  # fmt: skip
    by_source = (
        [line.figure, line.rows_of, line.source, _pair([f"{count:,}" for count in line.rows]), _both(line.median)] for line in moved
    )
    return "\n".join(
        (
            "## All sources\n", _table(errors, map(cells, all_sets)),
            "## By set of rows\n", _table(errors, map(cells, figures)),
            f"## Sources that moved by more than {least:g} points\n", _table(("figure", "set", "source", "rows answered", "median"), by_source),
        )
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 where a figure got worse by more than `--worse`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="commit or folder of a checkout")
    parser.add_argument("after", nargs="?", default=str(HERE.parent), help="the same (this checkout)")
    parser.add_argument("--tables", action="append", default=[], metavar="NAME=DIR", help="a folder of tables of other rows, and its name")
    parser.add_argument("--least", type=float, default=1.0, help="points by which a source has to move to be listed")
    parser.add_argument("--worse", type=float, default=float("inf"), help="share by which no median of sources may rise")
    parser.add_argument("--out", type=Path, help="file of the page (standard output)")
    parser.add_argument("--answers", type=Path, help="also keep every answer here, as CSV")
    given = parser.parse_args(argv)
    asked = own_rows()
    for text in given.tables:
        name, _, folder = text.partition("=")
        asked += folder_rows(name, Path(folder))
    sides = []
    for name in (given.before, given.after):
        with checkout_of(name) as checkout:
            sides.append(answers_of(checkout, asked))
    all_sets = figures_over_sets(asked, *sides)
    text = page(all_sets, *lines_of(asked, *sides), given.least)
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    else:
        print(text)
    if given.answers:
        with given.answers.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(("rows_of", "table", "figure", "source", "measured", "before", "after"))
            writer.writerows(
                (one.rows_of, one.table, one.figure, one.source, one.measured, *both) for one, *both in zip(asked, *sides, strict=True)
            )
    bad = worse(all_sets, given.worse)
    for line in bad:
        print(f"{line.figure}: median of sources {_both(line.by_source)}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
