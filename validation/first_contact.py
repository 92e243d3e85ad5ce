"""First contact: how the program answers cases from sources that nobody who works on it has looked
at, scored once and kept.

    python validation/first_contact.py FOLDER_OF_TABLES --date 2026-11-22

Every usable row is put to `rightfit predict CASES.csv --out PRED.csv` as a user's case is: without
what was measured, without remarks, source and place, and without whatever the reader of the source
wrote about the row. The program is the one that Python imports (PYTHONPATH chooses a checkout), and
its commit stands in every line. A date that is there already is refused, and a source that had its
first contact in a table is not scored in it again: what is written here is never edited.
`first_contact/README.md` defines the columns.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import datetime
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Row = dict[str, str]
Array = NDArray[np.float64]

FOLDER = Path(__file__).resolve().parent / "first_contact"
#: Holds what every file was when it was written, as `sha256sum --check` reads it.
SEALS = "SHA256SUMS"

#: What the row says about itself and a user's case does not: remarks, where it was read, and the
#: reader's verdicts.
REMARKS = ("notes", "source", "source_where", "usable", "why_not", "flags", "trust")
#: What was found out by running the case.
OUTCOME = ("measured", "is_oom")
HIDDEN = (*REMARKS, *OUTCOME)

MEMORY_METRIC = "peak_mem_gib_per_gpu"
#: Statements that name their own outcome; such a case asks for the memory instead, and the verdict
#: beside it is scored.
STATEMENTS = ("fits", "does_not_fit")
_ONE_SERVER_GPUS = 8  # the tables do not state the server
_FULL_METHODS = ("full", "")


class ContactError(Exception):
    """Why no table was written, in one line."""


# figures ------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A figure that is scored: the rows of `table` with one of `metrics` (any, where empty)
    for which `holds`."""

    name: str
    table: str
    metrics: tuple[str, ...] = ()
    holds: Callable[[Row], bool] = lambda row: True

    def has(self, table: str, row: Row) -> bool:
        """Whether the row is of this figure."""
        return table == self.table and (not self.metrics or row["metric"] in self.metrics) and self.holds(row)


def _is_full(row: Row) -> bool:
    return row.get("method", "") in _FULL_METHODS


def _is_one_server(row: Row) -> bool:
    return number(row.get("n_gpus"), otherwise=1.0) <= _ONE_SERVER_GPUS


#: Named as in blind/scores.csv; a figure that is not there has a name of the same pattern. The
#: first that holds owns the row.
FIGURES = (
    Figure("memory, full fine-tuning", "train_memory", holds=_is_full),
    Figure("memory, adapters", "train_memory"),
    Figure("training speed, one server", "train_throughput", holds=_is_one_server),
    Figure("training speed, several servers", "train_throughput"),
    Figure("serving, time per token", "inference", ("tpot_ms", "decode_tok_per_s_single")),
    Figure("serving, throughput", "inference", ("output_tok_per_s_total", "total_tok_per_s", "req_per_s")),
    Figure("serving, first token", "inference", ("ttft_ms",)),
    Figure("serving, prefill", "inference", ("prefill_tok_per_s",)),
    Figure("serving, memory", "inference", ("peak_mem_gib",)),
    Figure("forward passes (encoders, vision, diffusion, speech)", "inference"),
    Figure("training on samples, rates", "vision_train", ("images_per_s_total", "samples_per_s_total", "s_per_iter")),
    Figure("training on samples, memory", "vision_train", (MEMORY_METRIC,)),
    Figure("training on samples, whole runs", "vision_train", ("time_to_train_min",)),
    Figure("training on samples, fits or not", "vision_oom", STATEMENTS),
    Figure("classical, time", "classical_ml", ("train_time_s",)),
    Figure("classical, prediction time", "classical_ml", ("predict_time_s",)),
    Figure("classical, memory", "classical_ml", ("peak_ram_gib",)),
    Figure("data loading, rates and sizes", "data_loading"),
)


def figure_of(table: str, row: Row) -> str:
    """The figure that a row is of; a table of another name is a figure by itself."""
    return next((figure.name for figure in FIGURES if figure.has(table, row)), f"{table}, {row['metric']}")


# asking -------------------------------------------------------------------------------------------


def number(text: str | None, otherwise: float = float("nan")) -> float:
    """A cell as a number."""
    try:
        return float(text) if text else otherwise
    except ValueError:
        return otherwise


def read_rows(path: Path) -> list[Row]:
    """The rows of a table; a cell that is not there is empty."""
    with path.open(encoding="utf-8", newline="") as stream:
        return [{name: cell or "" for name, cell in row.items() if name} for row in csv.DictReader(stream)]


def case_of(row: Row, name: str) -> Row:
    """The row as a user would put it: hidden columns are gone, and so is an identifier that
    may name the source."""
    settings = {"flags"} if "engine" in row else set()  # of a service they are settings, of training rows the reader's remarks
    case = {column: cell for column, cell in row.items() if column not in HIDDEN or column in settings} | {"id": name}
    return case | {"metric": MEMORY_METRIC} if row["metric"] in STATEMENTS else case


def ask(cases: Sequence[Row]) -> list[Row]:
    """What `rightfit predict` answers, in the order of the cases."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "CASES.csv", Path(folder) / "PRED.csv"
        write_rows(asked, list(cases[0]), cases)
        done = subprocess.run(
            [sys.executable, "-m", "rightfit", "predict", str(asked), "--out", str(answered)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ContactError(f"rightfit predict ended with {done.returncode}: {done.stderr.strip()[-400:]}")
        answers = read_rows(answered)
    if [answer["id"] for answer in answers] != [case["id"] for case in cases]:
        raise ContactError("rightfit predict did not answer every case in order")
    return answers


def commit_of_program() -> str:
    """The commit of the checkout that Python imports rightfit from. Raises ContactError where its
    files are not as committed."""
    found = subprocess.run([sys.executable, "-c", "import rightfit; print(rightfit.__file__)"], capture_output=True, text=True, check=False)
    if found.returncode:
        raise ContactError("rightfit cannot be imported: install it or put a checkout's src on PYTHONPATH")
    package = Path(found.stdout.strip()).parent
    git = ("git", "-C", str(package))
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run([*git, "status", "--porcelain", "--", str(package)], capture_output=True, text=True, check=False)
    if head.returncode or changed.returncode:
        raise ContactError(f"{package} is not in a git checkout, so there is no commit to put beside the figures; give --commit")
    if changed.stdout.strip():
        raise ContactError(f"{package} is not as committed: commit or stash first, so that the commit names what was scored")
    return head.stdout.strip()


# scoring ------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Contact:
    """One row put to the program: what it is of, what was measured (NaN where the run failed or
    only a statement exists) and the answer."""

    table: str
    figure: str
    metric: str
    source: str
    measured: float
    failed: bool
    answer: Mapping[str, str]

    @property
    def predicted(self) -> float:
        """The middle value; NaN where the program refused."""
        return number(self.answer.get("predicted"))

    @property
    def verdict(self) -> str:
        """`1` fits, `0` does not, empty: not said."""
        return self.answer.get("fits", "")


def contact_of(table: str, row: Row, answer: Mapping[str, str]) -> Contact:
    """A row and its answer side by side."""
    statement = row["metric"] in STATEMENTS
    measured = number(row.get("measured"))
    failed = (row["metric"] == "fits") != (measured > 0) if statement else row.get("is_oom", "") in ("1", "1.0")
    nothing = statement or failed
    return Contact(table, figure_of(table, row), row["metric"], row["source"], float("nan") if nothing else measured, failed, answer)


def contacts_of(table: str, rows: Sequence[Row]) -> list[Contact]:
    """Rows put to the program."""
    answers = ask([case_of(row, str(at)) for at, row in enumerate(rows, 1)]) if rows else []
    return [contact_of(table, row, answer) for row, answer in zip(rows, answers, strict=True)]


def _inside(contacts: Sequence[Contact], width: int) -> Array:
    ends = ((number(one.answer.get(f"low{width}")), one.measured, number(one.answer.get(f"high{width}"))) for one in contacts)
    return np.array([float(low <= value <= high) for low, value, high in ends])


def _by_source(values: Array, sources: Sequence[str], of_one: Callable[[Array], float]) -> list[float]:
    names = np.array(sources)
    return [float(of_one(values[names == name])) for name in sorted(set(sources))]


def _p90(values: Array) -> float:
    return float(np.quantile(values, 0.9))


def error_cells(contacts: Sequence[Contact]) -> dict[str, float]:
    """Errors and coverage of the rows that have both a measured value and an answer; nothing
    where there is none."""
    held = [one for one in contacts if one.measured > 0 and one.predicted > 0]
    if not held:
        return {}
    ratio = np.array([one.predicted / one.measured for one in held])
    ape, factor = np.abs(ratio - 1.0), np.exp(np.abs(np.log(ratio)))
    sources = [one.source for one in held]
    in_80, in_95 = _inside(held, 80), _inside(held, 95)
    return {
        "median_ape": float(np.median(ape)),
        "p90_ape": _p90(ape),
        "median_by_source": float(np.median(_by_source(ape, sources, np.median))),
        "p90_by_source": float(np.median(_by_source(ape, sources, _p90))),
        "in_80": float(np.mean(in_80)),
        "in_80_by_source": float(np.mean(_by_source(in_80, sources, np.mean))),
        "in_95": float(np.mean(in_95)),
        "in_95_by_source": float(np.mean(_by_source(in_95, sources, np.mean))),
        "median_factor": float(np.median(factor)),
        "p90_factor": _p90(factor),
        "median_factor_by_source": float(np.median(_by_source(factor, sources, np.median))),
    }


def verdict_cells(contacts: Sequence[Contact]) -> dict[str, int]:
    """Runs out of memory and how many the program called fitting; runs that ran with a verdict and
    how many it refused."""
    failed = [one for one in contacts if one.failed]
    ran = [one for one in contacts if not one.failed and one.verdict]
    cells = {"out_of_memory_rows": len(failed), "called_fits": sum(one.verdict == "1" for one in failed)} if failed else {}
    return cells | ({"ran_rows": len(ran), "ran_called_too_big": sum(one.verdict == "0" for one in ran)} if ran else {})


def line_of(contacts: Sequence[Contact]) -> dict[str, str]:
    """One line of a table of scores."""
    measured = [one for one in contacts if one.measured > 0]
    answered = [one for one in measured if one.predicted > 0]
    cells: dict[str, float | int] = {
        "rows": len(measured),
        "sources": len({one.source for one in (answered if measured else contacts)}),
        "rows_answered": len(answered),
        "rows_refused": len(measured) - len(answered),
        **({"answered": len(answered) / len(measured)} if measured else {}),
        **error_cells(measured),
        **verdict_cells(contacts),
    }
    return {name: str(value) if isinstance(value, int) else f"{value:.3f}" for name, value in cells.items()}


def slices_of(contacts: Sequence[Contact]) -> Iterator[tuple[dict[str, str], list[Contact]]]:
    """Every figure in the order of FIGURES, then its metrics where it has several."""
    order = {figure.name: at for at, figure in enumerate(FIGURES)}
    names = sorted({(one.table, one.figure) for one in contacts}, key=lambda name: (order.get(name[1], len(order)), name))
    for table, figure in names:
        part = [one for one in contacts if (one.table, one.figure) == (table, figure)]
        metrics = sorted({one.metric for one in part})
        yield {"table": table, "figure": figure, "metric": metrics[0] if len(metrics) == 1 else "all"}, part
        for metric in metrics if len(metrics) > 1 else ():
            yield {"table": table, "figure": figure, "metric": metric}, [one for one in part if one.metric == metric]


def score_lines(contacts: Sequence[Contact]) -> list[dict[str, str]]:
    """The table of first contact."""
    return [name | line_of(part) for name, part in slices_of(contacts)]


def source_lines(contacts: Sequence[Contact]) -> list[dict[str, str]]:
    """The same for each source by itself."""
    return [
        name | {"source": source} | line_of([one for one in part if one.source == source])
        for name, part in slices_of(contacts)
        for source in sorted({one.source for one in part})
    ]


# writing ------------------------------------------------------------------------------------------

_WHAT = ("commit", "date", "rows_of", "table", "figure", "metric")
_SCORES = (
    "rows", "sources", "rows_answered", "rows_refused", "answered", "median_ape", "p90_ape", "median_by_source", "p90_by_source", "in_80", "in_80_by_source",
    "in_95", "in_95_by_source", "median_factor", "p90_factor", "median_factor_by_source", "out_of_memory_rows", "called_fits", "ran_rows", "ran_called_too_big",
)  # fmt: skip
COLUMNS = (*_WHAT, *_SCORES)
SOURCE_COLUMNS = (*_WHAT, "source", *(name for name in _SCORES if name != "sources" and not name.endswith("by_source")))


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
    """Write a table that is not there yet."""
    with path.open("x", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def seal(files: Sequence[Path]) -> None:
    """Note what the files are, so that a later edit shows."""
    with (files[0].parent / SEALS).open("a", encoding="utf-8") as stream:
        stream.writelines(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def met_before(folder: Path) -> set[tuple[str, str]]:
    """(table, source) that had their first contact."""
    return {(row["table"], row["source"]) for path in sorted(folder.glob("*_by_source.csv")) for row in read_rows(path)}


def new_rows(path: Path, met: set[tuple[str, str]]) -> list[Row]:
    """Usable rows of a table from sources that were not scored before."""
    rows = [row for row in read_rows(path) if row.get("usable", "1").lower() in ("", "1", "1.0", "true")]
    return [row for row in rows if (path.stem, row["source"]) not in met]


def make(tables: Path, date: datetime.date, out: Path, *, commit: str = "", rows_of: str = "") -> list[Path]:
    """Score the tables of a folder and write both files. Raises ContactError where a date or every
    source is there already."""
    files = [out / f"{date.isoformat()}.csv", out / f"{date.isoformat()}_by_source.csv"]
    if there := [path.name for path in files if path.exists()]:
        raise ContactError(f"{there[0]} is there already, and a first contact is never edited; score new sources under a new date")
    same = {"commit": commit or commit_of_program(), "date": date.isoformat(), "rows_of": rows_of or tables.name}
    met = met_before(out)
    contacts = [one for path in sorted(tables.glob("*.csv")) for one in contacts_of(path.stem, new_rows(path, met))]
    if not contacts:
        raise ContactError(f"{tables} has no usable row of a source that was not scored before")
    out.mkdir(parents=True, exist_ok=True)
    write_rows(files[0], COLUMNS, (same | line for line in score_lines(contacts)))
    write_rows(files[1], SOURCE_COLUMNS, (same | line for line in source_lines(contacts)))
    seal(files)
    return files


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 2 with one line where nothing was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, help="folder with measured tables (*.csv)")
    parser.add_argument("--date", type=datetime.date.fromisoformat, required=True, help="day of the contact; names the files")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the tables of first contact")
    parser.add_argument("--rows-of", default="", help="what the set of rows is called (the folder's name)")
    parser.add_argument("--commit", default="", help="commit of a program that is not in a git checkout")
    asked = parser.parse_args(argv)
    try:
        files = make(asked.tables, asked.date, asked.out, commit=asked.commit, rows_of=asked.rows_of)
    except ContactError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(str(path) for path in files))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
