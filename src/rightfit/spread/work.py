"""What is done with a piece of a table: predictions of its cases, or a plan for each of its wishes. The same functions as without pieces."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.cells import safe_cell
from rightfit.errors import InputError, RightfitError
from rightfit.messages import Message, did_you_mean
from rightfit.proof.tables import HIDDEN_COLUMNS, cell_text, prediction_columns
from rightfit.recent import exact_key
from rightfit.spread.pieces import Done, Progress, Text, csv_lines, header_of, through
from rightfit.spread.places import Here, Place

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.fleet.ways import Asked, Ways
    from rightfit.measure.evidence import Evidence
    from rightfit.search.answer import Plan

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
    """Predict every row of a table into another one, in pieces; the same text as predicting it at once. `evidence`: own runs."""
    question = {"kind": "predict", "evidence": exact_key(evidence).hex()}
    return through(source, out, work=predicted, shared=evidence, question=question, place=place, piece_rows=piece_rows, progress=progress)


def predicted(evidence: Evidence | None, rows: Sequence[Mapping[str, Any]]) -> Text:
    """Predictions of some rows as lines."""
    from rightfit.proof.own_runs import predict_with_evidence
    from rightfit.proof.predict import predict

    answers = predict(rows) if evidence is None else predict_with_evidence(rows, evidence)
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
    """Plan every row of a table, whose columns are options of `plan`, into another one, in pieces; `wishes` are of all rows. Rows with an id keep it."""
    from rightfit.search.priced import book_path
    from rightfit.workload.options import OPTIONS
    from rightfit.workload.vocabulary import nearest_words

    for column in header_of(source):
        if (name := _option(column)) not in {*OPTIONS, "id"}:
            near = nearest_words(name, list(OPTIONS), count=2)
            hint = did_you_mean(near) or Message("spread.part_columns_of_plan")
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
    from rightfit.search.own_model import settle_own_model
    from rightfit.workload.model import Workload

    try:
        return json.dumps(_cells(plan(settle_own_model(Workload(**json.loads(wishes))), catalog=_catalog(price_book), top=1)))
    except RightfitError as error:
        return json.dumps({"error": str(error).splitlines()[0]})


@functools.lru_cache(maxsize=1)
def _catalog(price_book: str) -> Catalog:
    from rightfit.search.priced import open_priced

    return open_priced(price_book)


def _cells(plan: Plan) -> dict[str, Any]:
    """The best option as cells; what excludes all where there is none."""
    from rightfit.explain.documents import flat_option

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
    from rightfit.fleet.ways import answered

    return answered(question)
