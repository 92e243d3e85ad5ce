"""Measured figures to be scored against: where they are, how they are read, which rows stay out and why.

A truth folder holds CSV tables (`.csv` or `.csv.gz`, also in sub-folders) with the columns of `validation/truth/README.md`; a table
counts when its header has `metric` and `measured`. `exclusions.csv` beside or inside the folder lists the rules by which a row stays
out of the error statistics; each rule has a reason and none looks at our error. `corrections.csv` in the same places puts cells right that
the
source's own files contradict (a configuration file against a heading). `columns_from_notes.csv` there holds what notes say about a case, in columns:
predictors read no notes.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError
from rightfit.proof.tables import cell_text, read_cases
from rightfit.records import dataclass

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
    """Rows of `table` ('*' for any) whose `column` compares with `value` as `test` says stay out, because of `reason`."""

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
    """Measured rows: `rows` as read, `table` and `excluded` (a reason, empty for rows that count) by row, `files` that were read."""

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
    """The folder asked for, or RIGHTFIT_TRUTH, or `validation/truth` of the source checkout. Raises FileInputError without one."""
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
    """The exclusion rules inside `folder` or beside it; without such a file only the table's own mark counts."""
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
    """Rows of `table` whose cell `where` contains `contains` have `value` in `column` (appended when it begins with ';'), because of
    `reason`:
    the source's own files contradict what the row says."""

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
    """What the notes of rows say, by table and row, from columns_from_notes.csv inside `folder` or beside it; nothing without such a file."""
    path = next((path for path in (folder / COLUMNS_FROM_NOTES, folder.parent / COLUMNS_FROM_NOTES) if path.is_file()), None)
    found: dict[str, dict[str, dict[str, str]]] = {}
    for line in read_cases(path) if path else ():
        cells = {name: cell_text(value) for name, value in line.items()}
        for name in ids_in(cells["ids"]):
            found.setdefault(cells["table"], {}).setdefault(name, {})[cells["column"]] = cells["value"]
    return found


def ids_in(text: str) -> Iterator[str]:
    """Names of rows as columns_from_notes.csv writes them: FIRST..LAST is a run of numbers, as wide as the first."""
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
    """The rows of one table (`train_memory`) of a folder as they were read, compressed or not. Raises FileInputError without it."""
    path = Path(folder) / f"{name}.csv"
    return read_cases(path if path.is_file() else path.with_suffix(".csv.gz"))


def read_table(folder: str | Path, name: str) -> list[dict[str, Any]]:
    """The same with what their notes said in columns."""
    return with_stated(name, raw_table(folder, name), read_stated(Path(folder)))


def read_truth(folder: str | Path | None = None, *, from_notes: bool = True) -> Truth:
    """Every measured table below `folder` (see `truth_folder`), with the exclusion rules applied; with `from_notes` also what notes said, in columns."""
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
