"""Run records of this user: a SQLite file in the user's data folder, or any file that is named.
Writers wait for each other; nothing is lost when two programs write at once."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.errors import (
    AmbiguousNameError,
    FileInputError,
    InputError,
    NetworkError,
    RightfitError,
    UnavailableError,
    UnknownNameError,
)
from rightfit.market.packed_tables import data_folder
from rightfit.measure.harmless import harmless_address
from rightfit.measure.record import Run, document, good_runs, is_there, json_of, left_out, read_runs, run_of, sealed, unique
from rightfit.messages import Message, cause

# ---- The store of a team: run records on a `rightfit serve`, read from anywhere and sent only when
# asked. The key is the one of the server (RIGHTFIT_TOKEN), and goes to that server alone: to the
# origin in RIGHTFIT_TOKEN_ORIGIN, over https or within this machine, and along no redirect.

_TOKEN_VARIABLE, _ORIGIN_VARIABLE = "RIGHTFIT_TOKEN", "RIGHTFIT_TOKEN_ORIGIN"
_PATH = "/api/v1/runs"
_PAGE, _MOST_SENT, _MOST_PAGES = 500, 200, 200
#: Pages without a record that are passed over: what people measured may be no figure of a run.
_MOST_EMPTY = 3
_TIMEOUT_S, _MOST_BYTES = 30, 100_000_000
_PORTS = {"http": 80, "https": 443}
_HERE = frozenset(("localhost", "127.0.0.1", "::1"))


def is_address(place: object) -> bool:
    """Whether a place is a server rather than a file."""
    return str(place).startswith(("http://", "https://"))


def fetched(address: str) -> list[Run]:
    """Every record of a server; one that is damaged is left out with one line. Raises NetworkError,
    InputError (wrong key), FileInputError (no such server)."""
    found: list[Any] = []
    empty = 0
    for page in range(_MOST_PAGES):
        answer = _asked(address, f"?limit={_PAGE}&offset={page * _PAGE}")
        items, total = answer.get("items"), answer.get("total")
        if not isinstance(items, list):
            raise FileInputError(Message("measure.not_rightfit_serve", address=_shown(address)))
        found += items
        empty = 0 if items else empty + 1
        if empty > _MOST_EMPTY or not isinstance(total, int) or (page + 1) * _PAGE >= total:
            break
    return unique(good_runs(found, _shown(address)))


def send(address: str, runs: Sequence[Run]) -> int:
    """Send records, without secrets; gives how many were new there. Raises as `fetched`."""
    clean = [document(sealed(run)) for run in runs]
    return sum(
        int(_asked(address, "", {"runs": clean[start : start + _MOST_SENT]}).get("new") or 0) for start in range(0, len(clean), _MOST_SENT)
    )


def _asked(address: str, query: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "Accept": "application/json", **_key_for(address)}
    content = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(_base(address) + _PATH + query, content, headers)  # noqa: S310 (http and https only)
        with urllib.request.build_opener(_Straight).open(request, timeout=_TIMEOUT_S) as answer:
            found = json_of(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        raise _refused(error, address) from None
    except OSError as error:
        raise NetworkError(Message("measure.cannot_reach", address=_shown(address), error=cause(getattr(error, "reason", error)))) from None
    except ValueError:
        raise FileInputError(Message("measure.not_rightfit_serve", address=_shown(address))) from None
    if not isinstance(found, dict):
        raise FileInputError(Message("measure.not_rightfit_serve", address=_shown(address)))
    return found


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: another place is not the one that was named."""

    def redirect_request(self, *_: Any) -> None:
        """No request to the other place."""


def _key_for(address: str) -> dict[str, str]:
    """The header with the key where the address is the one server that it belongs to. Raises
    InputError where it would travel in the open."""
    token, owner = (os.environ.get(name, "").strip() for name in (_TOKEN_VARIABLE, _ORIGIN_VARIABLE))
    origin = _origin(address)
    if not token or not owner or origin is None or _origin(owner) != origin:
        return {}
    if origin[0] != "https" and origin[1] not in _HERE:
        raise InputError(Message("measure.key_in_the_open", address=_shown(address)), field="runs")
    return {"Authorization": f"Bearer {token}"}


def _origin(address: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None for what is no address."""
    try:
        parts = urllib.parse.urlsplit(address)
        scheme, host, port = parts.scheme.casefold(), parts.hostname, parts.port
    except ValueError:
        return None
    return (scheme, host, port or _PORTS[scheme]) if host and scheme in _PORTS else None


def _refused(error: urllib.error.HTTPError, address: str) -> Exception:
    if error.code in (401, 403):
        names = {"variable": _TOKEN_VARIABLE, "origin_variable": _ORIGIN_VARIABLE, "origin": _shown(address)}
        return InputError(Message("measure.key_of_origin", address=_shown(address), **names), field="runs")
    if 300 <= error.code < 400:
        other = harmless_address(error.headers.get("Location") or "")
        return InputError(Message("measure.redirected", address=_shown(address), other=other), field="runs")
    try:
        detail = str(json_of(error.read(10_000)).get("detail", ""))
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


ENVIRONMENT_VARIABLE = "RIGHTFIT_RUNS"
#: The word that names the user's own store where a folder of records is asked for.
MINE = "mine"
VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, started TEXT NOT NULL, kind TEXT NOT NULL, document TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS runs_started ON runs (started DESC, id);
"""
_PATIENCE_S = 10.0


def default_path() -> Path:
    """RIGHTFIT_RUNS, else runs.sqlite in the user's data folder."""
    given = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(given).expanduser() if given else data_folder() / "runs.sqlite"


class RunStore:
    """Records in one SQLite file. Raises UnavailableError where the file cannot be used (no right,
    full disk, another program's file)."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path else default_path()

    def save(self, runs: Sequence[Run]) -> int:
        """Keep these records; gives how many were new."""
        lines = [(run.id, run.started, run.source.kind, run.model_dump_json()) for run in runs]
        with self._open() as connection:
            before = connection.total_changes
            connection.executemany("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?)", lines)
            return connection.total_changes - before

    def all(self) -> list[Run]:
        """Every record, newest first."""
        if not self.path.exists():
            return []
        with self._open() as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")  # a row that is damaged is one row
            rows = connection.execute("SELECT id, document FROM runs ORDER BY started DESC, id").fetchall()
        return [run for id_, text in rows for run in self._run(id_, text)]

    def _run(self, id_: str, text: Any) -> list[Run]:
        try:
            return [run_of(json_of(text), where=id_)]
        except (RightfitError, TypeError, ValueError) as error:
            left_out(f"{self.path}, record {id_}", error)
            return []

    def get(self, id_: str) -> Run:
        """The record of this id, or of the one that begins so. Raises UnknownNameError and
        AmbiguousNameError."""
        found = [run for run in self.all() if run.id.startswith(id_)] if id_ else []
        if not found:
            known = [run.id for run in self.all()]
            raise UnknownNameError(
                "run",
                id_,
                allowed=Message("names.runs_kept", number=len(known), path=self.path),
                nearest=known[:3] if len(known) <= 3 else (),
            )
        if len(found) > 1:
            raise AmbiguousNameError("run", id_, [run.id for run in found])
        return found[0]

    def delete(self, ids: Sequence[str]) -> int:
        """Forget these records; gives how many there were."""
        with self._open() as connection:
            return sum(connection.execute("DELETE FROM runs WHERE id = ?", (id_,)).rowcount for id_ in ids)

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=_PATIENCE_S)
        except (OSError, sqlite3.Error) as error:
            raise UnavailableError(Message("measure.store_not_opened", path=self.path, error=cause(error))) from None
        try:
            with connection:
                self._prepare(connection)
                yield connection
        except sqlite3.Error as error:
            raise UnavailableError(Message("measure.store_not_used", path=self.path, error=cause(error))) from None
        finally:
            connection.close()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise UnavailableError(Message("measure.newer_store", path=self.path, version=version, known=VERSION))
        if version < VERSION:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
            connection.execute(f"PRAGMA user_version = {VERSION}")


def runs_at(place: str | Path) -> list[Run]:
    """Records of a folder, a JSON file, a store (.sqlite), a `rightfit serve` by its address or,
    for the word "mine", of the user's own store. Raises FileInputError where there are none."""
    if is_address(place):
        return fetched(str(place))
    if str(place) == MINE or str(place).endswith((".sqlite", ".db")):
        path = default_path() if str(place) == MINE else Path(place)
        if not is_there(path):
            raise FileInputError(Message("measure.no_store", path=path))
        return RunStore(path).all()
    if not is_there(place):
        raise FileInputError(Message("measure.no_runs", path=str(place), word=MINE))
    return unique(read_runs(place))
