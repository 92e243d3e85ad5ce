"""Tables of cases and of predictions: read with clean errors, cleaned cell by cell, written whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import math
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.cells import safe_cell
from rightfit.errors import FileInputError
from rightfit.facts.tables import read_rows
from rightfit.messages import Message, cause, system_problem

#: Columns of the answer, in their order; unknown columns of the input follow.
PREDICTION_COLUMNS = ("id", "metric", "predicted", "low80", "high80", "low95", "high95", "fits", "p_fits", "engine", "assumptions", "error")

#: What answers say beside their columns, for scores and explanations; no table shows it.
HIDDEN_COLUMNS = ("terms", "fits95")

#: Cells that mean "unknown", as spreadsheets and data frames write them.
UNKNOWN_CELLS = frozenset({"", "nan", "na", "n/a", "none", "null", "-", "?", "unknown", "<na>", "nat"})

_LIMITS = tuple(read_rows(Path(__file__).with_name("data").joinpath("case_limits.csv").read_text(encoding="utf-8")))
#: Columns of numbers that must not be negative where given, with the largest value that makes sense; those that must be positive.
NUMBER_COLUMNS = {row["column"]: float(row["largest"]) for row in _LIMITS}
POSITIVE_COLUMNS = frozenset(row["column"] for row in _LIMITS if row["may_be_zero"] == "0")

_MAX_CELL = 131_072 * 64


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
    """A row as text cells with unknown ones emptied in the number columns, and what makes it unusable (empty when nothing does)."""
    if not isinstance(row, Mapping):
        return {}, f"a row must be a mapping of column to value, not {type(row).__name__}"
    cells = {str(key): cell_text(value) for key, value in row.items() if key is not None}
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
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except FileNotFoundError:
        raise FileInputError(Message("problems.no_file", name=path, hint="")) from None
    except IsADirectoryError:
        raise FileInputError(Message("spread.folder_no_table", file=path)) from None
    except (OSError, EOFError) as error:
        raise FileInputError(Message("problems.cannot_read", name=path, error=system_problem(error))) from None


def read_cases(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a CSV file (`.csv` or `.csv.gz`, UTF-8, with a header) as dictionaries of text.

    A row that is too long keeps its surplus under the key None, so that `predict` can refuse it by name. Bytes that are not
    UTF-8 are replaced, never fatal. Raises FileInputError for a missing, empty or header-less file.
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
    path = Path(path)
    handle = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.writelines(pieces)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except OSError as error:
        if handle is not None:
            with contextlib.suppress(OSError):
                Path(name).unlink()
        raise FileInputError(Message("problems.cannot_write", name=path, error=system_problem(error))) from None
    except BaseException:  # Ctrl-C in the middle: leave no litter behind
        if handle is not None:
            with contextlib.suppress(OSError):
                Path(name).unlink()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_predictions(path: str | Path, predictions: Sequence[Mapping[str, Any]]) -> None:
    """Write predictions as CSV, atomically. Raises FileInputError when the place cannot be written."""
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, prediction_columns(predictions), restval="", lineterminator="\n")
    writer.writerow({name: safe_cell(name) for name in writer.fieldnames})
    writer.writerows({key: safe_cell(value) for key, value in row.items()} for row in predictions)
    write_text_atomically(path, [buffer.getvalue()])
