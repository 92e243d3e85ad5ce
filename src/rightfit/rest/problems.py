"""Refusals as problem+json (RFC 9457): what was wrong, what is allowed, the nearest valid thing; in the client's language."""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.responses import Response

from rightfit.errors import NoAnswerError, RightfitError, UnavailableError
from rightfit.explain.messages import Lang
from rightfit.explain.plain import json_bytes
from rightfit.explain.problems import problems_of

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
    """An answer that is a refusal. `code` is a section of data/words.toml, `fields` fill its sentence, `errors` name the options at
    fault."""

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
    """The response of an error of the library: 422 for what the client gave, 503 for what is missing here."""
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
