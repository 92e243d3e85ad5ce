"""Tables of cases and of predictions: read with clean errors, cleaned cell by cell, written
whole or not at all."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError
from rightfit.facts.tables import read_rows
from rightfit.files import safe_cell, unpacked, write_whole
from rightfit.messages import Message, cause, system_problem
from rightfit.records import dataclass

#: Columns of the answer, in their order; unknown columns of the input follow.
PREDICTION_COLUMNS = ("id", "metric", "predicted", "low80", "high80", "low95", "high95", "fits", "p_fits", "engine", "assumptions", "error")

#: What answers say beside their columns, for scores and explanations; no table shows it.
HIDDEN_COLUMNS = ("terms", "fits95")

#: Cells that mean "unknown", as spreadsheets and data frames write them.
UNKNOWN_CELLS = frozenset({"", "nan", "na", "n/a", "none", "null", "-", "?", "unknown", "<na>", "nat"})

_LIMITS = tuple(read_rows(Path(__file__).with_name("data").joinpath("case_limits.csv").read_text(encoding="utf-8")))
#: Columns of numbers that must not be negative where given, with the largest value that makes
#: sense; those that must be positive.
NUMBER_COLUMNS = {row["column"]: float(row["largest"]) for row in _LIMITS}
POSITIVE_COLUMNS = frozenset(row["column"] for row in _LIMITS if row["may_be_zero"] == "0")

_MAX_CELL = 131_072 * 64
#: What a row of cases may have: cells, characters of a cell and of a column's name.
MOST_CELLS, LONGEST_CELL, LONGEST_NAME = 300, 10_000, 200
#: Of a table that is read as a whole, unpacked; larger ones go through in pieces.
MOST_TABLE_BYTES = 500_000_000


def cell_text(value: Any) -> str:
    """One cell as stripped text; None and a float NaN are empty, whole floats lose their '.0'."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value).replace("\x00", "").strip()


def number_problem(column: str, text: str) -> str:
    """What is wrong with the number `text` of `column`; empty when nothing is."""
    try:
        value = float(text)
    except ValueError:
        return f"{column}: {text[:40]!r} is not a number"
    if not math.isfinite(value):
        return f"{column}: {text[:40]!r} is not a finite number"
    if column in POSITIVE_COLUMNS and value <= 0:
        return f"{column}: {text[:40]} must be greater than 0"
    if value < 0:
        return f"{column}: {text[:40]} must not be negative"
    if value > NUMBER_COLUMNS[column]:
        return f"{column}: {text[:40]} is over the largest sensible value {NUMBER_COLUMNS[column]:g}"
    return ""


def clean_row(row: Any) -> tuple[dict[str, str], str]:
    """A row as text cells with unknown ones emptied in the number columns, and what makes it
    unusable (empty when nothing does)."""
    if not isinstance(row, Mapping):
        return {}, f"a row must be a mapping of column to value, not {type(row).__name__}"
    if len(row) > MOST_CELLS:
        return {}, f"a row may have {MOST_CELLS} cells, this one has {len(row)}"
    cells = {str(key)[:LONGEST_NAME]: cell_text(value) for key, value in row.items() if key is not None}
    if long := [name for name, text in cells.items() if len(text) > LONGEST_CELL]:
        return {name: text[:LONGEST_CELL] for name, text in cells.items()}, f"{long[0]}: a cell may have {LONGEST_CELL} characters"
    if None in row:
        return cells, "the row has more cells than the header has columns"
    problems = []
    for column in NUMBER_COLUMNS.keys() & cells.keys():
        text = cells[column]
        if text.lower() in UNKNOWN_CELLS:
            cells[column] = ""
        elif problem := number_problem(column, text):
            problems.append(problem)
    return cells, "; ".join(sorted(problems))


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            packed = stream.read(MOST_TABLE_BYTES + 1)
        data = unpacked(packed, most=MOST_TABLE_BYTES) if path.suffix == ".gz" else packed
    except FileNotFoundError:
        raise FileInputError(Message("problems.no_file", name=path, hint="")) from None
    except IsADirectoryError:
        raise FileInputError(Message("spread.folder_no_table", file=path)) from None
    except (OSError, EOFError) as error:
        raise FileInputError(Message("problems.cannot_read", name=path, error=system_problem(error))) from None
    if data is None or len(data) > MOST_TABLE_BYTES:
        raise FileInputError(Message("spread.table_too_large", file=path, megabytes=MOST_TABLE_BYTES // 1_000_000))
    return data


def read_cases(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a CSV file (`.csv` or `.csv.gz`, UTF-8, with a header) as dictionaries of text.

    A row that is too long keeps its surplus under the key None, so that `predict` can refuse it by
    name. Bytes that are not UTF-8 are replaced, never fatal. Raises FileInputError for a missing,
    empty or header-less file.
    """
    return cases_of_text(_read_bytes(Path(path)).decode("utf-8-sig", errors="replace"), name=str(path))


def cases_of_text(text: str, *, name: str) -> list[dict[str, Any]]:
    """The rows of CSV text; `name` stands for the table in errors."""
    csv.field_size_limit(min(sys.maxsize, _MAX_CELL))
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        header = [column for column in reader.fieldnames or () if column]
        if not header:
            raise FileInputError(Message("spread.empty_table_of_cases", file=name))
        return list(reader)
    except csv.Error as error:
        raise FileInputError(Message("spread.row_unreadable", file=name, row=reader.line_num, error=cause(error))) from None


def prediction_columns(predictions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Contract columns first, then whatever else the rows carry, in order of appearance."""
    extra: dict[str, None] = {}
    for row in predictions:
        extra.update(dict.fromkeys(key for key in row if key not in PREDICTION_COLUMNS))
    return [*PREDICTION_COLUMNS, *extra]


def write_text_atomically(path: str | Path, pieces: Iterable[str]) -> None:
    """Write a text file so that readers see the old file or the whole new one, never half of it."""
    try:
        write_whole(Path(path), pieces)
    except OSError as error:
        raise FileInputError(Message("problems.cannot_write", name=path, error=system_problem(error))) from None


def write_predictions(path: str | Path, predictions: Sequence[Mapping[str, Any]]) -> None:
    """Write predictions as CSV, atomically. Raises FileInputError when the place
    cannot be written."""
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, prediction_columns(predictions), restval="", lineterminator="\n")
    writer.writerow({name: safe_cell(name) for name in writer.fieldnames})
    writer.writerows({key: safe_cell(value) for key, value in row.items()} for row in predictions)
    write_text_atomically(path, [buffer.getvalue()])


# ---- Measured figures to be scored against: where they are, how they are read, which
# rows stay out and why.
#
# A truth folder holds CSV tables (`.csv` or `.csv.gz`, also in sub-folders) with the columns of
# `validation/truth/README.md`; a table counts when its header has `metric` and `measured`.
# `exclusions.csv` beside or inside the folder lists the rules by which a row stays out of the error
# statistics; each rule has a reason and none looks at our error. `corrections.csv` in the same
# places puts cells right that the source's own files contradict (a configuration file against a
# heading). `columns_from_notes.csv` there holds what notes say about a case, in columns: predictors
# read no notes.

ENVIRONMENT_VARIABLE = "RIGHTFIT_TRUTH"

#: Plausible range of a measured value by metric; outside it the unit must be wrong.
PLAUSIBLE = {
    "peak_mem_gib_per_gpu": (0.05, 1024.0),
    "tokens_per_s_per_gpu": (1e-3, 5e7),
    "samples_per_s": (1e-6, 1e8),
    "step_time_s": (1e-5, 1e5),
    "tflops_per_gpu": (1e-3, 1e4),
    "mfu": (1e-5, 1.0),
    "time_to_train_h": (1e-4, 1e6),
}


@dataclass(frozen=True, slots=True)
class TruthRule:
    """Rows of `table` ('*' for any) whose `column` compares with `value` as `test` says stay out,
    because of `reason`."""

    name: str
    table: str
    column: str
    test: str
    value: str
    reason: str

    def holds(self, table: str, row: Mapping[str, Any]) -> bool:
        """Whether the rule keeps this row out."""
        if self.table not in ("*", table):
            return False
        text = cell_text(row.get(self.column)).lower()
        if self.test == "equals":
            return text == self.value.lower()
        return self.value.lower() in text


@dataclass(frozen=True, slots=True)
class Truth:
    """Measured rows: `rows` as read, `table` and `excluded` (a reason, empty for rows that count)
    by row, `files` that were read."""

    rows: list[dict[str, Any]]
    table: list[str]
    excluded: list[str]
    files: list[str]

    def select(self, tables: Iterable[str]) -> Truth:
        """Only the rows of these tables."""
        wanted = set(tables)
        keep = [index for index, name in enumerate(self.table) if name in wanted]
        return Truth(
            [self.rows[i] for i in keep],
            [self.table[i] for i in keep],
            [self.excluded[i] for i in keep],
            [name for name in self.files if table_name(Path(name)) in wanted],
        )


def table_name(path: Path) -> str:
    """`train_memory` for train_memory.csv.gz."""
    return path.name.removesuffix(".gz").removesuffix(".csv")


def truth_folder(folder: str | Path | None = None) -> Path:
    """The folder asked for, or RIGHTFIT_TRUTH, or `validation/truth` of the source checkout. Raises
    FileInputError without one."""
    for candidate in (folder, os.environ.get(ENVIRONMENT_VARIABLE)):
        if candidate:
            path = Path(candidate)
            if not path.is_dir():
                raise FileInputError(f"no folder of measured tables at {path}")
            return path
    for root in (Path.cwd(), *Path(__file__).resolve().parents[2:4]):
        if (root / "validation" / "truth").is_dir():
            return root / "validation" / "truth"
    raise FileInputError(
        f"no measured tables found: give their folder with --truth DIR or {ENVIRONMENT_VARIABLE}; the repository has them in validation/truth"
    )


def read_rules(folder: Path) -> list[TruthRule]:
    """The exclusion rules inside `folder` or beside it; without such a file only the
    table's own mark counts."""
    for path in (folder / "exclusions.csv", folder.parent / "exclusions.csv"):
        if path.is_file():
            return [_rule(path, row) for row in read_cases(path)]
    return [TruthRule("not-usable", "*", "usable", "equals", "0", "the table marks the row as not usable")]


def _rule(path: Path, row: Mapping[str, Any]) -> TruthRule:
    values = {field.name: cell_text(row.get(field.name)) for field in dataclasses.fields(TruthRule)}
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise FileInputError(f"{path}: rule {values['name'] or '?'} lacks {', '.join(missing)}")
    if values["test"] not in ("equals", "contains"):
        raise FileInputError(f"{path}: rule {values['name']}: test must be 'equals' or 'contains', not {values['test']!r}")
    return TruthRule(**values)


@dataclass(frozen=True, slots=True)
class Correction:
    """Rows of `table` whose cell `where` contains `contains` have `value` in `column`
    (appended when it begins with ';'), because of `reason`: the source's own files contradict
    what the row says."""

    table: str
    where: str
    contains: str
    column: str
    value: str
    reason: str

    def apply(self, table: str, row: dict[str, Any]) -> None:
        """Correct the row in place where it is one of those."""
        if self.table == table and self.contains in cell_text(row.get(self.where)):
            old = cell_text(row.get(self.column))
            row[self.column] = old + self.value if self.value.startswith(";") else self.value


def read_corrections(folder: Path) -> list[Correction]:
    """The corrections inside `folder` or beside it; none without such a file."""
    for path in (folder / "corrections.csv", folder.parent / "corrections.csv"):
        if path.is_file():
            names = [field.name for field in dataclasses.fields(Correction)]
            return [Correction(**{name: cell_text(row.get(name)) for name in names}) for row in read_cases(path)]
    return []


def corrected(table: str, rows: Iterable[Mapping[str, Any]], corrections: Iterable[Correction]) -> list[dict[str, Any]]:
    """Copies of the rows of a table with the corrections made."""
    copies = [dict(row) for row in rows]
    for correction in corrections:
        for row in copies:
            correction.apply(table, row)
    return copies


COLUMNS_FROM_NOTES = "columns_from_notes.csv"

#: Table -> identifier of a row -> column -> value (appended when it begins with ';').
Stated = Mapping[str, Mapping[str, Mapping[str, str]]]


def read_stated(folder: Path) -> Stated:
    """What the notes of rows say, by table and row, from columns_from_notes.csv inside `folder` or
    beside it; nothing without such a file."""
    path = next((path for path in (folder / COLUMNS_FROM_NOTES, folder.parent / COLUMNS_FROM_NOTES) if path.is_file()), None)
    found: dict[str, dict[str, dict[str, str]]] = {}
    for line in read_cases(path) if path else ():
        cells = {name: cell_text(value) for name, value in line.items()}
        for name in ids_in(cells["ids"]):
            found.setdefault(cells["table"], {}).setdefault(name, {})[cells["column"]] = cells["value"]
    return found


def ids_in(text: str) -> Iterator[str]:
    """Names of rows as columns_from_notes.csv writes them: FIRST..LAST is a run of numbers, as
    wide as the first."""
    for part in text.split():
        first, _, last = part.partition("..")
        digits = re.search(r"\d*$", first)
        assert digits is not None
        if not last:
            yield first
            continue
        for number in range(int(digits[0]), int(last) + 1):
            yield f"{first[: digits.start()]}{number:0{len(digits[0])}d}"


def with_stated(table: str, rows: Iterable[Mapping[str, Any]], stated: Stated) -> list[dict[str, Any]]:
    """Copies of the rows of a table with what their notes said in columns."""
    by_row, copies = stated.get(table, {}), [dict(row) for row in rows]
    for row in copies if by_row else ():
        for column, value in by_row.get(cell_text(row.get("id")), {}).items():
            row[column] = f"{cell_text(row.get(column))}{value}" if value.startswith(";") else value
    return copies


def implausible(row: Mapping[str, Any]) -> str:
    """Why the measured value cannot be in the metric's unit; empty when it can."""
    text, metric = cell_text(row.get("measured")), cell_text(row.get("metric"))
    if not text:
        return ""
    try:
        value = float(text)
    except ValueError:
        return f"measured: {text[:40]!r} is not a number"
    low, high = PLAUSIBLE.get(metric, (-math.inf, math.inf))
    if not low <= value <= high:
        return f"measured: {value:g} is outside the plausible range {low:g} to {high:g} of {metric}: wrong unit?"
    return ""


def exclusion(table: str, row: Mapping[str, Any], rules: Iterable[TruthRule]) -> str:
    """Why the row stays out of the statistics; empty when it counts."""
    for rule in rules:
        if rule.holds(table, row):
            detail = cell_text(row.get("why_not")) if rule.column == "usable" else ""
            return f"{rule.name}: {detail or rule.reason}"
    return implausible(row)


def raw_table(folder: str | Path, name: str) -> list[dict[str, Any]]:
    """The rows of one table (`train_memory`) of a folder as they were read, compressed or not.
    Raises FileInputError without it."""
    path = Path(folder) / f"{name}.csv"
    return read_cases(path if path.is_file() else path.with_suffix(".csv.gz"))


def read_table(folder: str | Path, name: str) -> list[dict[str, Any]]:
    """The same with what their notes said in columns."""
    return with_stated(name, raw_table(folder, name), read_stated(Path(folder)))


def read_truth(folder: str | Path | None = None, *, from_notes: bool = True) -> Truth:
    """Every measured table below `folder` (see `truth_folder`), with the exclusion rules applied;
    with `from_notes` also what notes said, in columns."""
    root = truth_folder(folder)
    rules, corrections, stated = read_rules(root), read_corrections(root), read_stated(root) if from_notes else {}
    rows: list[dict[str, Any]] = []
    tables: list[str] = []
    files = []
    for path in sorted(p for p in root.rglob("*") if p.name.endswith((".csv", ".csv.gz"))):
        read = [] if path.name in ("exclusions.csv", "corrections.csv", COLUMNS_FROM_NOTES) else read_cases(path)
        if read and {"metric", "measured"} <= read[0].keys():
            read = with_stated(table_name(path), read, stated)
            rows += corrected(table_name(path), read, corrections) if corrections else read
            tables += [table_name(path)] * len(read)
            files.append(path.relative_to(root).as_posix())
    if not rows:
        raise FileInputError(f"{root} holds no table with the columns 'metric' and 'measured'")
    return Truth(rows, tables, [exclusion(name, row, rules) for name, row in zip(tables, rows, strict=True)], files)
