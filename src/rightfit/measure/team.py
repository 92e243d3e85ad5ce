"""The store of a team: run records on a `rightfit serve`, read from anywhere and sent only when asked. The key is the one of the server (RIGHTFIT_TOKEN)."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from rightfit.errors import FileInputError, InputError, NetworkError
from rightfit.measure.record import Run, document, run_of, sealed, unique
from rightfit.messages import Message, cause

_TOKEN_VARIABLE = "RIGHTFIT_TOKEN"  # noqa: S105  (the name of a variable)
_PATH = "/api/v1/runs"
_PAGE, _MOST_SENT, _MOST_PAGES = 500, 200, 200
_TIMEOUT_S, _MOST_BYTES = 30, 100_000_000


def is_address(place: object) -> bool:
    """Whether a place is a server rather than a file."""
    return str(place).startswith(("http://", "https://"))


def fetched(address: str) -> list[Run]:
    """Every record of a server. Raises NetworkError, InputError (wrong key), FileInputError (no such server)."""
    found: list[Run] = []
    for page in range(_MOST_PAGES):
        answer = _asked(address, f"?limit={_PAGE}&offset={page * _PAGE}")
        items = answer.get("items")
        if not isinstance(items, list):
            raise FileInputError(Message("measure.not_rightfit_serve", address=_shown(address)))
        found += [run_of(item, where=Message("measure.part_record_of", number=len(found) + 1, address=_shown(address))) for item in items]
        if (page + 1) * _PAGE >= (answer.get("total") or 0):
            break
    return unique(found)


def send(address: str, runs: Sequence[Run]) -> int:
    """Send records, without secrets; gives how many were new there. Raises as `fetched`."""
    clean = [document(sealed(run)) for run in runs]
    return sum(
        int(_asked(address, "", {"runs": clean[start : start + _MOST_SENT]}).get("new") or 0) for start in range(0, len(clean), _MOST_SENT)
    )


def _asked(address: str, query: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if token := os.environ.get(_TOKEN_VARIABLE, "").strip():
        headers["Authorization"] = f"Bearer {token}"
    content = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(_base(address) + _PATH + query, content, headers)  # noqa: S310 (http and https only)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            found = json.loads(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        raise _refused(error, address) from None
    except OSError as error:
        raise NetworkError(Message("measure.cannot_reach", address=_shown(address), error=cause(getattr(error, "reason", error)))) from None
    except ValueError:
        raise FileInputError(Message("measure.not_rightfit_serve", address=_shown(address))) from None
    if not isinstance(found, dict):
        raise FileInputError(Message("measure.not_rightfit_serve", address=_shown(address)))
    return found


def _refused(error: urllib.error.HTTPError, address: str) -> Exception:
    if error.code in (401, 403):
        return InputError(Message("measure.wants_its_key", address=_shown(address), variable=_TOKEN_VARIABLE), field="runs")
    try:
        detail = str(json.loads(error.read(10_000)).get("detail", ""))
    except (OSError, ValueError, AttributeError):
        return FileInputError(Message("measure.not_rightfit_serve_code", address=_shown(address), status=error.code))
    said = Message("measure.serve_refuses", address=_shown(address), status=error.code, detail=" ".join(detail.split())[:300])
    return NetworkError(said) if error.code >= 500 or error.code == 429 else InputError(said, field="runs")


def _base(address: str) -> str:
    """The server without the path of its API."""
    return address.split("?")[0].rstrip("/").removesuffix(_PATH)


def _shown(address: str) -> str:
    parts = urllib.parse.urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
