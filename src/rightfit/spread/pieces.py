"""A table of any length, worked through in pieces that are kept until all are there: an interrupted run goes on where it stopped."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import itertools
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from rightfit.errors import FileInputError, InputError
from rightfit.messages import Message, cause, system_problem
from rightfit.proof.tables import write_text_atomically
from rightfit.records import dataclass
from rightfit.spread.places import Place, Work, program

_NAME = re.compile(r"(\d{7})\.(\d+)\.(\d+)\.csv")
_MAX_CELL = 131_072 * 64

#: Called after each piece with the rows that are done, all rows, and rows a second [1/s] of this call.
Progress = Callable[[int, int, float], None]


@dataclass(frozen=True, slots=True)
class Text:
    """What a piece became: lines of CSV without a header, the columns, and how many rows were refused."""

    columns: tuple[str, ...]
    lines: str
    refused: int


@dataclass(frozen=True, slots=True)
class Done:
    """A table that is through: its rows, those refused, those that an earlier call had done, and the seconds that this one took [s]."""

    rows: int
    refused: int
    earlier: int
    seconds: float


def pieces_folder(out: Path) -> Path:
    """Where the pieces of a table stand until it is whole."""
    return out.with_name(out.name + ".pieces")


def through(
    source: Path,
    out: Path,
    *,
    work: Work,
    shared: Any,
    question: Mapping[str, Any],
    place: Place,
    piece_rows: int,
    progress: Progress = lambda *_: None,
) -> Done:
    """Work through a table and write what became of it, whole and in the order of its rows. `question`: what the answers depend on beside the rows; a
    folder of pieces that were made for another question, table or program is begun anew."""
    if piece_rows < 1:
        raise InputError(Message("spread.no_piece", rows=piece_rows), field="piece")
    began = time.monotonic()
    total, sums = _measured(source)
    if total == 0:
        raise FileInputError(Message("spread.no_rows", file=source))
    kept = _Kept(pieces_folder(out), {**question, "table": sums, "piece_rows": piece_rows, "program": program()})
    rows = earlier = sum(kept.rows.values())
    pieces = ((number, piece) for number, piece in enumerate(_pieces(source, piece_rows)) if number not in kept.rows)
    if earlier < total:
        for number, text in place.results(work, pieces, shared):
            size = min(piece_rows, total - number * piece_rows)
            kept.keep(number, size, text)
            rows += size
            progress(rows, total, (rows - earlier) / max(time.monotonic() - began, 1e-9))
    refused = kept.joined(out)
    return Done(rows, refused, earlier, time.monotonic() - began)


class _Kept:
    """The folder of pieces: `rows` by number of the piece."""

    def __init__(self, folder: Path, question: Mapping[str, Any]) -> None:
        self.folder, self.rows, self.refused = folder, dict[int, int](), dict[int, int]()
        text = json.dumps(question, sort_keys=True)
        head = folder / "question.json"
        try:
            if folder.is_dir() and (not head.is_file() or head.read_text("utf-8") != text):
                if any(
                    path.name != head.name and not _NAME.fullmatch(path.name) for path in folder.iterdir() if path.name != "columns.json"
                ):
                    raise FileInputError(Message("spread.other_files", folder=folder))
                shutil.rmtree(folder)
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileInputError(Message("problems.cannot_write", name=folder, error=system_problem(error))) from None
        write_text_atomically(head, [text])
        for path in folder.iterdir():
            if found := _NAME.fullmatch(path.name):
                self.rows[int(found[1])], self.refused[int(found[1])] = int(found[2]), int(found[3])

    def keep(self, number: int, rows: int, text: Text) -> None:
        """Write a piece: from then on it is done."""
        columns = self.folder / "columns.json"
        if not columns.is_file():
            write_text_atomically(columns, [json.dumps(text.columns)])
        write_text_atomically(self._path(number, rows, text.refused), [text.lines])
        self.rows[number], self.refused[number] = rows, text.refused

    def joined(self, out: Path) -> int:
        """Put the pieces together in their order, and drop them. The rows that were refused."""
        columns = json.loads((self.folder / "columns.json").read_text("utf-8"))
        parts = (self._path(number, self.rows[number], self.refused[number]).read_bytes().decode("utf-8") for number in sorted(self.rows))
        write_text_atomically(out, itertools.chain([csv_lines([columns])], parts))
        shutil.rmtree(self.folder)
        return sum(self.refused.values())

    def _path(self, number: int, rows: int, refused: int) -> Path:
        return self.folder / f"{number:07d}.{rows}.{refused}.csv"


def csv_lines(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as lines of CSV."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def _opened(source: Path) -> IO[str]:
    csv.field_size_limit(min(sys.maxsize, _MAX_CELL))
    if source.is_dir():
        raise FileInputError(Message("spread.folder_no_table", file=source))
    try:
        raw: Any = gzip.open(source) if source.suffix == ".gz" else source.open("rb")  # noqa: SIM115  (closed with what wraps it)
    except FileNotFoundError:
        raise FileInputError(Message("problems.no_file", name=source, hint="")) from None
    except OSError as error:
        raise FileInputError(Message("problems.cannot_read", name=source, error=system_problem(error))) from None
    return io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="")


def header_of(source: Path) -> list[str]:
    """The names of the columns of a table; FileInputError where it has none."""
    with _opened(source) as stream:
        try:
            header = [name for name in csv.DictReader(stream).fieldnames or () if name]
        except (OSError, EOFError, csv.Error) as error:
            raise FileInputError(Message("problems.cannot_read", name=source, error=cause(error))) from None
    if not header:
        raise FileInputError(Message("spread.empty_table", file=source))
    return header


def _measured(source: Path) -> tuple[int, str]:
    """Rows of a table, and the sum of its bytes."""
    header_of(source)
    total = sum(1 for _ in _rows(source))
    with source.open("rb") as stream:
        return total, hashlib.file_digest(stream, "sha256").hexdigest()


def _rows(source: Path) -> Iterator[dict[str, Any]]:
    with _opened(source) as stream:
        reader = csv.DictReader(stream)
        try:
            yield from reader
        except csv.Error as error:
            raise FileInputError(Message("spread.row_unreadable", file=source, row=reader.line_num, error=cause(error))) from None
        except (OSError, EOFError) as error:
            raise FileInputError(Message("problems.cannot_read", name=source, error=cause(error))) from None


def _pieces(source: Path, size: int) -> Iterator[list[dict[str, Any]]]:
    rows = _rows(source)
    while piece := list(itertools.islice(rows, size)):
        yield piece
