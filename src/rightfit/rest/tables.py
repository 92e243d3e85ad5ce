"""Tables of cases over HTTP: CSV, JSON lines or JSON in, the predictions streamed back in pieces."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rightfit import api
from rightfit.cells import safe_cell
from rightfit.errors import InputError
from rightfit.explain.plain import json_bytes, plain
from rightfit.messages import Message
from rightfit.proof.tables import HIDDEN_COLUMNS, PREDICTION_COLUMNS, cases_of_text
from rightfit.rest.problems import Refused
from rightfit.rest.reading import json_of, utf8_of

MEDIA_TYPES: Mapping[str, str] = {"csv": "text/csv", "ndjson": "application/x-ndjson", "json": "application/json"}
ROWS_AT_ONCE = 500
_MOST_CELLS, _LONGEST_CELL = 200, 10_000


def form_of(content_type: str) -> str:
    """The form of a table by its media type."""
    kind = content_type.partition(";")[0].strip().casefold()
    forms = {**{media: form for form, media in MEDIA_TYPES.items()}, "application/jsonl": "ndjson", "application/json-lines": "ndjson"}
    if kind not in forms:
        raise Refused("media_type", {"allowed": ", ".join(MEDIA_TYPES.values())})
    return forms[kind]


def rows_of(body: bytes, form: str, *, most_rows: int) -> list[Mapping[str, Any]]:
    """The rows of a table. A row that is no object is refused with its number; what its cells hold is judged by the prediction."""
    rows = {"csv": _csv_rows, "ndjson": _json_lines, "json": _json_rows}[form](body)
    if not rows:
        raise InputError(Message("rest.no_rows"), field="rows")
    if len(rows) > most_rows:
        raise Refused("rows", {"most": f"{most_rows:,}"})
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping) or len(row) > _MOST_CELLS or any(_is_bad(cell) for key, cell in row.items() if key is not None):
            raise InputError(Message("rest.bad_row", number=number, most=_MOST_CELLS), field="rows")
    return rows


def _is_bad(cell: Any) -> bool:
    return isinstance(cell, (list, dict)) or (isinstance(cell, str) and len(cell) > _LONGEST_CELL)


def _csv_rows(body: bytes) -> list[Any]:
    return cases_of_text(utf8_of(body), name="the table")


def _json_lines(body: bytes) -> list[Any]:
    return [
        json_of(line.encode(), where=f"line {number}") for number, line in enumerate(utf8_of(body).split("\n"), start=1) if line.strip()
    ]


def _json_rows(body: bytes) -> list[Any]:
    value = json_of(body)
    rows = value.get("rows") if isinstance(value, dict) and set(value) == {"rows"} else value
    if not isinstance(rows, list):
        raise InputError(Message("rest.no_list_of_rows", objects='{"rows": [{...}, ...]}'), field="rows", allowed='{"rows": [{...}]}')
    return rows


def predicted(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Predictions of some rows."""
    return [{key: value for key, value in row.items() if key not in HIDDEN_COLUMNS} for row in api.predict(rows)]


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns of the answer: those of the contract, then what else the rows carry."""
    extra = dict.fromkeys(
        str(key) for row in rows for key in row if key is not None and key not in PREDICTION_COLUMNS and key not in HIDDEN_COLUMNS
    )
    return [*PREDICTION_COLUMNS, *extra]


def pieces(rows: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The rows in pieces that are predicted at once."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]


def written(rows: Sequence[Mapping[str, Any]], form: str, *, columns: Sequence[str], is_first: bool) -> bytes:
    """Some predictions as text of the form, with what stands before them."""
    if form == "csv":
        return _csv_text(rows, columns, is_first=is_first)
    lines = [json_bytes(row) for row in rows]
    if form == "ndjson":
        return b"".join(line + b"\n" for line in lines)
    return (b'{"items":[' if is_first else b",") * bool(lines or is_first) + b",".join(lines)


def _csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, is_first: bool) -> bytes:
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\n", extrasaction="ignore")
    if is_first:
        writer.writerow({name: safe_cell(name) for name in writer.fieldnames})
    writer.writerows({key: "" if value is None else safe_cell(plain(value)) for key, value in row.items()} for row in rows)
    return buffer.getvalue().encode("utf-8", "replace")


def ending(form: str, *, count: int) -> bytes:
    """What stands after the last prediction."""
    return b'],"total":' + json.dumps(count).encode() + b"}" if form == "json" else b""
