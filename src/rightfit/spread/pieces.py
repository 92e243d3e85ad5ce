"""A table of any length, worked through in pieces that are kept until all are there: an interrupted
run goes on where it stopped."""

from __future__ import annotations

import csv
import functools
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
from typing import IO, TYPE_CHECKING, Any

from rightfit.errors import FileInputError, InputError, RightfitError
from rightfit.files import safe_cell
from rightfit.messages import Message, cause, did_you_mean, system_problem
from rightfit.proof.tables import HIDDEN_COLUMNS, cell_text, prediction_columns, write_text_atomically
from rightfit.recent import exact_key
from rightfit.records import dataclass
from rightfit.spread.places import Here, Place, Work, program

if TYPE_CHECKING:
    from rightfit.fleets.ways import Asked, Ways
    from rightfit.market import Catalog
    from rightfit.measure.evidence import Evidence
    from rightfit.search.answer import Plan


_NAME = re.compile(r"(\d{7})\.(\d+)\.(\d+)\.csv")
_MAX_CELL = 131_072 * 64

#: Called after each piece with the rows that are done, all rows, and rows a second
#: [1/s] of this call.
Progress = Callable[[int, int, float], None]


@dataclass(frozen=True, slots=True)
class Text:
    """What a piece became: lines of CSV without a header, the columns, and how many
    rows were refused."""

    columns: tuple[str, ...]
    lines: str
    refused: int


@dataclass(frozen=True, slots=True)
class Done:
    """A table that is through: its rows, those refused, those that an earlier call had done, and
    the seconds that this one took [s]."""

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
    """Work through a table and write what became of it, whole and in the order of its rows.
    `question`: what the answers depend on beside the rows; a folder of pieces that were made for
    another question, table or program is begun anew."""
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


# ---- What is done with a piece of a table: predictions of its cases, or a plan for each of its
# wishes. The same functions as without pieces.

#: Rows of a piece: a second or two of work, so that progress is seen and little is lost.
PREDICT_ROWS, PLAN_ROWS = 2000, 20
#: Columns of a table of plans, beside those of its wishes.
PLAN_COLUMNS = (
    *("provider", "instance_type", "region", "nodes", "purchase", "accelerator", "accelerators_per_node", "hourly_usd", "total_usd"),
    *("monthly_usd", "total_time_s", "total_time_s_low80", "total_time_s_high80", "peak_memory_bytes", "price_as_of", "feasible", "error"),
)


def predict_table(
    source: Path,
    out: Path,
    *,
    place: Place,
    evidence: Evidence | None = None,
    piece_rows: int = PREDICT_ROWS,
    progress: Progress = lambda *_: None,
) -> Done:
    """Predict every row of a table into another one, in pieces; the same text as predicting it at
    once. `evidence`: own runs."""
    question = {"kind": "predict", "evidence": exact_key(evidence).hex()}
    return through(source, out, work=predicted, shared=evidence, question=question, place=place, piece_rows=piece_rows, progress=progress)


def predicted(evidence: Evidence | None, rows: Sequence[Mapping[str, Any]]) -> Text:
    """Predictions of some rows as lines."""
    from rightfit.proof.predict import predict, predict_with_evidence

    answers = predict(rows, is_piece=True) if evidence is None else predict_with_evidence(rows, evidence, is_piece=True)
    shown = [{key: value for key, value in answer.items() if key not in HIDDEN_COLUMNS} for answer in answers]
    columns = prediction_columns(shown)
    lines = csv_lines([[safe_cell(answer.get(column, "")) for column in columns] for answer in shown])
    return Text(tuple(str(safe_cell(column)) for column in columns), lines, sum(bool(answer["error"]) for answer in answers))


def plan_table(
    source: Path,
    out: Path,
    *,
    place: Place,
    wishes: Mapping[str, Any] | None = None,
    price_book: str | Path | None = None,
    piece_rows: int = PLAN_ROWS,
    progress: Progress = lambda *_: None,
) -> Done:
    """Plan every row of a table, whose columns are options of `plan`, into another one, in pieces;
    `wishes` are of all rows. Rows with an id keep it."""
    from rightfit.search.offers import book_path
    from rightfit.workload.options import OPTIONS
    from rightfit.workload.vocabulary import nearest_words

    for column in header_of(source):
        if (name := _option(column)) not in {*OPTIONS, "id"}:
            near = nearest_words(name, list(OPTIONS), count=2)
            hint = did_you_mean(near) or Message("spread.columns_of_plan")
            raise InputError(Message("spread.no_column", file=source, column=repr(column[:60]), hint=hint), field=column[:60], nearest=near)
    book = book_path(price_book)
    list_prices_only(book is not None and not isinstance(place, Here))
    shared = json.dumps({"wishes": dict(wishes or {}), "price_book": str(book.resolve()) if book else "none"}, sort_keys=True)
    question = {"kind": "plan", "asked": shared, "prices": book.read_text("utf-8") if book and book.is_file() else ""}
    return through(source, out, work=planned, shared=shared, question=question, place=place, piece_rows=piece_rows, progress=progress)


def list_prices_only(wrong: bool) -> None:
    """Refuse prices of one's own where other processes plan, which do not see them."""
    if wrong:
        raise InputError(Message("spread.prices_of_ones_own"), field="on")


def planned(asked: str, rows: Sequence[Mapping[str, Any]]) -> Text:
    """The best plan of each of some wishes as lines."""
    columns = [column for column in rows[0] if column]
    lines, refused = [], 0
    common = json.loads(asked)
    for row in rows:
        given = {_option(column): text for column in columns if column != "id" and (text := cell_text(row.get(column)))}
        cells = json.loads(_planned(json.dumps({**given, **common["wishes"]}, sort_keys=True), common["price_book"]))
        if None in row:
            cells = {"error": "the row has more cells than the header has columns"}
        refused += bool(cells["error"])
        lines.append([safe_cell(row.get(column) or "") for column in columns] + [safe_cell(cells.get(name, "")) for name in PLAN_COLUMNS])
    return Text((*(str(safe_cell(column)) for column in columns), *PLAN_COLUMNS), csv_lines(lines), refused)


def _option(column: str) -> str:
    return column.strip().replace("-", "_")


@functools.lru_cache(maxsize=4096)  # lists of real work hold equal wishes in plenty
def _planned(wishes: str, price_book: str) -> str:
    from rightfit.planner.plan import plan
    from rightfit.search.request_checks import settle_own_model
    from rightfit.workload.model import Workload

    try:
        return json.dumps(_cells(plan(settle_own_model(Workload(**json.loads(wishes))), catalog=_catalog(price_book), top=1)))
    except RightfitError as error:
        return json.dumps({"error": str(error).splitlines()[0]})


@functools.lru_cache(maxsize=1)
def _catalog(price_book: str) -> Catalog:
    from rightfit.search.offers import open_priced

    return open_priced(price_book)


def _cells(plan: Plan) -> dict[str, Any]:
    """The best option as cells; what excludes all where there is none."""
    from rightfit.explain.voices import flat_option

    if plan.best is None:
        blame = "; ".join(" + ".join(group) for group in plan.blame)
        return {"feasible": 0, "error": f"nothing is feasible{': ' + blame if blame else ''}"}
    known = flat_option(plan.best)
    return {**{name: known[name] for name in PLAN_COLUMNS if name in known and known[name] is not None}, "feasible": 1, "error": ""}


def searched(questions: Sequence[Asked], place: Place) -> list[Ways]:
    """The ways of workloads of a fleet, in the order of the questions."""
    found = dict(place.results(_answered, enumerate(questions), None))
    return [found[number] for number in range(len(questions))]


def _answered(_: None, question: Asked) -> Ways:
    from rightfit.fleets.ways import answered

    return answered(question)
