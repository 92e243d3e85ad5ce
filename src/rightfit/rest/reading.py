"""Bodies and queries of requests, read strictly: whatever cannot be used is refused in one
sentence, never guessed at."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from rightfit import api
from rightfit.errors import InputError, NoAnswerError, RightfitError, UnavailableError
from rightfit.explain.messages import json_bytes, plain, problems_of
from rightfit.files import safe_cell
from rightfit.messages import Lang, Message
from rightfit.proof.tables import HIDDEN_COLUMNS, PREDICTION_COLUMNS, cases_of_text
from rightfit.workload.fields import settled
from rightfit.workload.options import OPTIONS

# ---- Refusals as problem+json (RFC 9457): what was wrong, what is allowed, the nearest valid
# thing; in the client's language.

_DATA = Path(__file__).with_name("data")

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:rightfit:problem:"
_STATUS: Mapping[str, int] = {
    "not_utf8": 400,
    "no_json": 400,
    "media_type": 415,
    "too_large": 413,
    "too_slow": 408,
    "not_found": 404,
    "no_plan": 404,
    "no_run": 404,
    "method": 405,
    "token": 401,
    "host": 421,
    "rate": 429,
    "busy": 503,
    "too_long": 503,
    "rows": 413,
    "full": 409,
    "database": 503,
    "internal": 500,
}
_LONGEST_TEXT = 2000


@dataclasses.dataclass(eq=False)
class Refused(Exception):  # noqa: N818  (an answer, not a fault)
    """An answer that is a refusal. `code` is a section of data/words.toml, `fields` fill its
    sentence, `errors` name the options at fault."""

    code: str
    fields: Mapping[str, object] = dataclasses.field(default_factory=dict)
    errors: Sequence[Mapping[str, Any]] = ()
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


@functools.cache
def words() -> Mapping[str, Mapping[str, str]]:
    """The sentences of the server, by code."""
    return tomllib.loads((_DATA / "words.toml").read_text(encoding="utf-8"))


def refusal(refused: Refused, lang: Lang, *, request_id: str = "") -> Response:
    """The response of a refusal."""
    entry = words()[refused.code]
    detail = entry[lang].format(**refused.fields)
    return _response(refused.code, _STATUS[refused.code], entry[f"title_{lang}"], detail, refused.errors, request_id, refused.headers)


def problem(error: RightfitError, lang: Lang, *, request_id: str = "") -> Response:
    """The response of an error of the library: 422 for what the client gave, 503 for
    what is missing here."""
    found = problems_of(error, lang)
    status = 503 if isinstance(error, UnavailableError) else 409 if isinstance(error, NoAnswerError) else 422
    detail = "\n".join(one.message for one in found)
    return _response(found[0].code, status, found[0].title, detail, [one.to_dict() for one in found], request_id, {})


def _response(
    code: str, status: int, title: str, detail: str, errors: Sequence[Mapping[str, Any]], request_id: str, headers: Mapping[str, str]
) -> Response:
    first = errors[0] if errors else {}
    body = {
        "type": TYPE_PREFIX + code.replace("_", "-"),
        "title": title,
        "status": status,
        "detail": detail[:_LONGEST_TEXT],
        "instance": f"urn:rightfit:request:{request_id}" if request_id else "",
        "field": first.get("field", ""),
        "allowed": first.get("allowed", ""),
        "nearest": first.get("nearest", []),
        "errors": list(errors),
    }
    return Response(json_bytes(body), status_code=status, media_type=MEDIA_TYPE, headers=dict(headers))


_DEEPEST = 40


def utf8_of(body: bytes) -> str:
    """Text of a body; what is not UTF-8 is refused."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused("not_utf8", {"place": error.start}) from None


def json_of(body: bytes, *, where: str = "") -> Any:
    """The value of a JSON body. Keys given twice, NaN, infinities and endless
    nesting are refused."""
    text, place = utf8_of(body), f"{where}: " if where else ""
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise Refused(
            "no_json", {"why": f"{place}{error.msg[:1].lower()}{error.msg[1:]}, line {error.lineno}, column {error.colno}"}
        ) from None
    except RecursionError:
        raise Refused("no_json", {"why": f"{place}nested too deeply"}) from None
    except ValueError as error:  # a key given twice, NaN, an integer of thousands of digits
        raise Refused("no_json", {"why": place + str(error).split(";")[0][:200]}) from None
    if _is_deep(value):
        raise Refused("no_json", {"why": f"{place}nested too deeply"})
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {twice[:60]!r} is given twice")
    return found


def _constant(word: str) -> Any:
    raise ValueError(f"{word} is not a number")


def _is_deep(value: Any) -> bool:
    """Whether a value is nested more deeply than anything we read."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [item for one in level if isinstance(one, (dict, list)) for item in (one.values() if isinstance(one, dict) else one)]
        if not level:
            return False
    return True


def query_of(model: type[BaseModel], pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """The values of a query; a field given twice is refused unless it takes several."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key not in found:
            found[key] = value
        elif _takes_several(model, key):
            found[key] = f"{found[key]},{value}"
        else:
            raise InputError(Message("rest.given_twice", option=key[:60]), field=key[:60])
    return settled(model, found)


def _takes_several(model: type[BaseModel], key: str) -> bool:
    option = OPTIONS.get(key)
    return key in model.model_fields and option is not None and option.kind in ("names", "words", "cards")


# ---- Tables of cases over HTTP: CSV, JSON lines or JSON in, the predictions
# streamed back in pieces.

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
    """The rows of a table. A row that is no object is refused with its number; what its cells hold
    is judged by the prediction."""
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
