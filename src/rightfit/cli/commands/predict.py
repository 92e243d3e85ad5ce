"""Batch prediction and validation of the predictors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from rightfit.cli.declared import argument, option
from rightfit.cli.output import Answer, Format, View, emit, listing, note
from rightfit.cli.parameters import AtOnce, Place, Runs, on_a_table, progress_of, say_done
from rightfit.errors import InputError, NoAnswerError
from rightfit.explain.messages import label
from rightfit.explain.quantities import Column, Table
from rightfit.messages import Message


def _figure(value: Any) -> str:
    return "" if value is None else f"{value:,.4g}"


_COLUMNS = (
    Column("id", drop=1),
    Column("metric"),
    Column("predicted", _figure, right=True),
    Column("low80", _figure, right=True),
    Column("high80", _figure, right=True),
    Column("low95", _figure, right=True, drop=3),
    Column("high95", _figure, right=True, drop=2),
    Column("fits", lambda value: {1: "yes", 0: "no"}.get(value, "")),
    Column("p_fits", _figure, right=True, drop=2),
    Column("error", flexible=True),
)


_CASE_COLUMNS = (Column("table"), Column("column"), Column("unit"), Column("meaning", flexible=True), Column("allowed", flexible=True))


def _list_columns(table: str, view: View) -> None:
    """Every column that is read, of one kind of table or of all."""
    from rightfit.proof.case_columns import case_columns

    records = [
        {
            **{name: getattr(one, name) for name in ("table", "column", "unit", "allowed")},
            "meaning": one.meaning_zh if view.lang == "zh" else one.meaning,
        }
        for one in case_columns(table)
    ]
    emit(Answer(records, records, [Table(_CASE_COLUMNS, records)]), view)


def _say_unread(table: Sequence[Mapping[str, Any]], view: View) -> None:
    """Columns that nothing reads, once for the table: a misspelt one would be
    unknown in silence."""
    from rightfit.proof.case_columns import unread

    strange = unread([name for name in table[0] if name]) if table else []
    if strange:
        named = ", ".join(f"{column} ({label('status', 'meant', view.lang, nearest=near)})" if near else column for column, near in strange)
        note(label("status", "unread", view.lang, columns=named), view)


def predict(
    cases: Annotated[
        Path | None, argument(help="CSV file with one case per row; - for standard input.", metavar="CASES.csv", show_default=False)
    ] = None,
    out: Annotated[Path | None, option("--out", "-o", help="Output file (default: standard output).", metavar="PRED.csv")] = None,
    columns: Annotated[
        bool, option("--columns", help="List the supported columns, for all tables or for the table named instead of CASES.csv.")
    ] = False,
    runs: Runs = None,
    work_place: Place = None,
    at_once: AtOnce = None,
    *,
    view: View,
) -> None:
    """Predict memory or speed for each row of a table.

    Example: rightfit predict cases.csv --out predictions.csv
    """
    if columns:
        _list_columns(str(cases or ""), view)
        return
    if cases is None:
        raise InputError(Message("usage.missing_cases"))
    from rightfit import api
    from rightfit.proof.tables import HIDDEN_COLUMNS, read_cases, write_predictions

    if work_place is not None or at_once is not None:
        from rightfit.spread.pieces import header_of

        source, target = on_a_table(cases, out)
        _say_unread([dict.fromkeys(header_of(source))], view)
        with progress_of(view) as progress:
            done = api.predict_table(source, target, on=work_place or "processes", workers=at_once, runs=runs, progress=progress)
        say_done(done, target, view, what="predicted")
        return
    table = read_cases("/dev/stdin" if str(cases) == "-" else cases)
    _say_unread(table, view)
    rows = api.predict(table, runs=runs)
    records = [{key: value for key, value in row.items() if key not in HIDDEN_COLUMNS} for row in rows]
    if out is not None:
        write_predictions(out, records)
        refused = sum(bool(row["error"]) for row in records)
        note(label("status", "predicted", view.lang, rows=f"{len(records):,}", refused=f"{refused:,}", path=out), view)
    elif view.format is Format.table:
        listing(records, Table(_COLUMNS, []), view)
    else:
        emit(Answer(rows, records, [Table(_COLUMNS, records)]), view)


def _score_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    columns = [Column(name, right=index > 0, drop=int(name in ("sources", "out of memory"))) for index, name in enumerate(header)]
    return Table(columns, [dict(zip(header, row, strict=True)) for row in rows])


def validate(
    truth: Annotated[Path | None, option("--truth", help="Folder of measured tables.", metavar="DIR")] = None,
    write: Annotated[bool, option("--write", help="Write the accuracy page and the headline figures of this checkout.")] = False,
    check: Annotated[bool, option("--check", help="Exit with 1 when a headline figure got worse or its tables are not current.")] = False,
    *,
    view: View,
) -> None:
    """Score the predictors against measured figures.

    Example: rightfit validate --truth validation/truth
    """
    from rightfit.proof import validate as harness
    from rightfit.proof.tables import truth_folder

    result = harness.validate(truth, progress=(lambda _: None) if view.quiet else harness.told_on_terminal)
    paths = harness.repository_paths(truth_folder(truth))
    records = [{"figure": name, "value": value} for name, value in result.headline.items()]
    emit(Answer(result.headline, records, [_score_table(*cells) for cells in result.tables()]), view)
    if write:
        note("\n".join(str(path) for path in harness.write(result, paths)), view)
    problems = harness.check(result, paths) if check else []
    if problems:
        raise NoAnswerError("\n".join(problems))
