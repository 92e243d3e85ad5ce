"""Run records of this user: a SQLite file in the user's data folder, or any file that is named. Writers wait for each other; nothing is lost when two
programs write at once."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from rightfit.catalog.pointer import data_folder
from rightfit.errors import AmbiguousNameError, FileInputError, UnavailableError, UnknownNameError
from rightfit.measure import team
from rightfit.measure.places import is_there
from rightfit.measure.record import Run, read_runs, run_of, unique
from rightfit.messages import Message, cause

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
    """Records in one SQLite file. Raises UnavailableError where the file cannot be used (no right, full disk, another program's file)."""

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
            return [
                run_of(json.loads(text), where=id_)
                for id_, text in connection.execute("SELECT id, document FROM runs ORDER BY started DESC, id")
            ]

    def get(self, id_: str) -> Run:
        """The record of this id, or of the one that begins so. Raises UnknownNameError and AmbiguousNameError."""
        found = [run for run in self.all() if run.id.startswith(id_)] if id_ else []
        if not found:
            known = [run.id for run in self.all()]
            raise UnknownNameError(
                "run",
                id_,
                allowed=Message("names.part_runs_kept", number=len(known), path=self.path),
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
    """Records of a folder, a JSON file, a store (.sqlite), a `rightfit serve` by its address or, for the word "mine", of the user's own store. Raises
    FileInputError where there are none."""
    if team.is_address(place):
        return team.fetched(str(place))
    if str(place) == MINE or str(place).endswith((".sqlite", ".db")):
        path = default_path() if str(place) == MINE else Path(place)
        if not is_there(path):
            raise FileInputError(Message("measure.no_store", path=path))
        return RunStore(path).all()
    if not is_there(place):
        raise FileInputError(Message("measure.no_runs", path=str(place), word=MINE))
    return unique(read_runs(place))
