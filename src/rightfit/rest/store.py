"""Saved plans, measurements and run records in SQLite or PostgreSQL. The schema is made and moved
on by whoever starts first; a lost connection is tried again."""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sql
from sqlalchemy import exc

from rightfit.errors import InputError, MissingComponentError, UnavailableError
from rightfit.messages import Message, foreign, system_problem

logger = logging.getLogger("rightfit.rest.store")
_Answer = TypeVar("_Answer")
_LOCK = 0x72666974  # one number for all servers on one PostgreSQL
_PATIENCE_S, _FIRST_WAIT_S, _LONGEST_WAIT_S = 20.0, 0.05, 2.0
_ID_BYTES = 12
_KINDS = ("sqlite", "postgresql")
#: What no waiting mends, by the codes of SQLite (https://sqlite.org/rescode.html) and PostgreSQL:
#: no room, no right, not a database.
_LASTING = frozenset((8, 10, 11, 13, 26)), frozenset(("53100", "53200", "25006", "42501", "XX001", "XX002"))
#: A file beside a SQLite store that takes up room until what is deleted on a full disk needs it.
_RESERVE, _RESERVE_BYTES = ".reserve", 4_000_000

_SCHEMA = sql.MetaData()
_VERSION = sql.Table("rightfit_schema", _SCHEMA, sql.Column("version", sql.Integer, primary_key=True))
_PLANS = sql.Table(
    "plans",
    _SCHEMA,
    sql.Column("id", sql.String(40), primary_key=True),
    sql.Column("name", sql.String(200), nullable=False),
    sql.Column("saved_at", sql.String(32), nullable=False, index=True),
    sql.Column("document", sql.Text, nullable=False),
    sql.Column("size", sql.Integer, nullable=False, server_default="0"),
)
_MEASUREMENTS = sql.Table(
    "measurements",
    _SCHEMA,
    sql.Column("id", sql.String(40), primary_key=True),
    sql.Column("plan_id", sql.String(40), sql.ForeignKey("plans.id", ondelete="CASCADE"), nullable=False, index=True),
    sql.Column("option", sql.Integer, nullable=False),
    sql.Column("figure", sql.String(60), nullable=False),
    sql.Column("value", sql.Float, nullable=False),
    sql.Column("remark", sql.String(200), nullable=False),
    sql.Column("saved_at", sql.String(32), nullable=False, index=True),
)

_RUNS = sql.Table(
    "runs",
    _SCHEMA,
    sql.Column("id", sql.String(40), primary_key=True),
    sql.Column("saved_at", sql.String(32), nullable=False, index=True),
    sql.Column("document", sql.Text, nullable=False),
    sql.Column("size", sql.Integer, nullable=False, server_default="0"),
)

#: What makes each version from the one before; the first makes everything. Never edit one that was
#: released: add one.
MIGRATIONS: tuple[Callable[[Any], None], ...] = (
    lambda connection: _SCHEMA.create_all(connection),
    lambda connection: _RUNS.create(connection, checkfirst=True),
    lambda connection: _add_sizes(connection),
)


def _add_sizes(connection: Any) -> None:
    """How many bytes each document has, so that a sum over all of them reads none."""
    for table in (_PLANS, _RUNS):
        if "size" not in {column["name"] for column in sql.inspect(connection).get_columns(table.name)}:
            connection.execute(sql.text(f"ALTER TABLE {table.name} ADD COLUMN size INTEGER NOT NULL DEFAULT 0"))
        connection.execute(table.update().values(size=sql.func.length(table.c.document)))


class StoreError(UnavailableError):
    """The store of saved plans cannot be reached."""


class FullError(UnavailableError):
    """The store keeps no more. `most`: how much it keeps, as a number of rows or of bytes."""

    def __init__(self, message: Message, most: str) -> None:
        super().__init__(message)
        self.most = most


def default_url() -> str:
    """A file of SQLite in the product's data folder."""
    from rightfit.market.packed_tables import data_folder

    return f"sqlite:///{(data_folder() / 'plans.sqlite').absolute()}"


class Store:
    """Saved plans and measurements. Every method is one transaction, repeated where the connection
    was lost, so that nothing is lost or written twice. `most_plans`: rows of each kind;
    `most_bytes`: of the documents of all plans and runs."""

    def __init__(
        self, url: str = "", *, most_plans: int = 100_000, most_bytes: int = 2_000_000_000, patience_s: float = _PATIENCE_S
    ) -> None:
        self._engine = _engine(url or default_url())
        self._most_plans, self._most_bytes, self._patience_s, self._is_made = most_plans, most_bytes, patience_s, False

    @property
    def kind(self) -> str:
        """sqlite or postgresql."""
        return str(self._engine.dialect.name)

    def save_plan(self, document: Mapping[str, Any], *, name: str = "", id_: str = "") -> dict[str, Any]:
        """Keep a plan. Its id is made before the first try, so that a try whose answer was lost is
        recognised by the next."""
        text = _text(document)
        row = {"id": id_ or secrets.token_urlsafe(_ID_BYTES), "name": name, "saved_at": _now(), "document": text, "size": len(text)}

        def write(connection: Any) -> None:
            if connection.execute(sql.select(_PLANS.c.id).where(_PLANS.c.id == row["id"])).first():
                return
            self._check_room(connection, _PLANS, Message("rest.store_full", count=self._most_plans), [row])
            connection.execute(_PLANS.insert().values(**row))

        self._write(write)
        return {"id": row["id"], "name": name, "saved_at": row["saved_at"]}

    def plan(self, id_: str) -> dict[str, Any] | None:
        """A saved plan with its document; None where there is none."""
        row = self._read(lambda connection: connection.execute(sql.select(_PLANS).where(_PLANS.c.id == id_)).mappings().first())
        return (
            None if row is None else {**{name: row[name] for name in ("id", "name", "saved_at")}, "document": json.loads(row["document"])}
        )

    def plans(self, *, limit: int, offset: int = 0) -> tuple[list[dict[str, Any]], int]:
        """Saved plans without their documents, newest first, and how many there are."""
        columns = (_PLANS.c.id, _PLANS.c.name, _PLANS.c.saved_at)
        return self._page(sql.select(*columns), _PLANS, (), limit=limit, offset=offset)

    def delete_plan(self, id_: str) -> bool:
        """Forget a plan and what was measured of it; whether there was one."""

        def write(connection: Any) -> bool:
            connection.execute(_MEASUREMENTS.delete().where(_MEASUREMENTS.c.plan_id == id_))
            return bool(connection.execute(_PLANS.delete().where(_PLANS.c.id == id_)).rowcount)

        return self._make_room(write)

    def save_measurement(self, *, plan_id: str, option: int, figure: str, value: float, remark: str = "") -> dict[str, Any] | None:
        """Keep what a real run did; None where there is no such plan."""
        row = {
            "id": secrets.token_urlsafe(_ID_BYTES),
            "plan_id": plan_id,
            "option": option,
            "figure": figure,
            "value": value,
            "remark": remark,
        }

        def write(connection: Any) -> dict[str, Any] | None:
            if not connection.execute(sql.select(_PLANS.c.id).where(_PLANS.c.id == plan_id)).first():
                return None
            if not connection.execute(sql.select(_MEASUREMENTS.c.id).where(_MEASUREMENTS.c.id == row["id"])).first():
                self._check_room(connection, _MEASUREMENTS, Message("rest.store_measurements_full", count=self._most_plans), [row])
                connection.execute(_MEASUREMENTS.insert().values(**row, saved_at=_now()))
            return row

        return self._write(write)

    def measurements(self, *, plan_id: str = "", limit: int, offset: int = 0) -> tuple[list[dict[str, Any]], int]:
        """What was measured, newest first, of one plan or of all, and how many there are."""
        where = (_MEASUREMENTS.c.plan_id == plan_id,) if plan_id else ()
        return self._page(sql.select(_MEASUREMENTS), _MEASUREMENTS, where, limit=limit, offset=offset)

    def save_runs(self, documents: Sequence[Mapping[str, Any]]) -> int:
        """Keep run records, each with its own id; how many were new. The same record sent
        twice is kept once."""
        texts = [(found["id"], _text(found)) for found in documents]
        rows = [{"id": id_, "saved_at": _now(), "document": text, "size": len(text)} for id_, text in texts]

        def write(connection: Any) -> int:
            known = set(connection.execute(sql.select(_RUNS.c.id).where(_RUNS.c.id.in_([row["id"] for row in rows]))).scalars())
            new = list({row["id"]: row for row in rows if row["id"] not in known}.values())
            self._check_room(connection, _RUNS, Message("rest.store_runs_full", count=self._most_plans), new)
            if new:
                connection.execute(_insert_new(connection, _RUNS), new)
            return len(new)

        return self._write(write)

    def runs(self, *, limit: int, offset: int = 0) -> tuple[list[dict[str, Any]], int]:
        """Run records that were sent, newest first, and how many there are."""
        found, count = self._page(sql.select(_RUNS.c.document), _RUNS, (), limit=limit, offset=offset)
        return [json.loads(row["document"]) for row in found], count

    def delete_run(self, id_: str) -> bool:
        """Forget a run record; whether there was one."""
        return self._make_room(lambda connection: bool(connection.execute(_RUNS.delete().where(_RUNS.c.id == id_)).rowcount))

    def is_ready(self) -> bool:
        """Whether the store answers now."""
        try:
            self._once(lambda connection: connection.execute(sql.text("SELECT 1")).scalar())
        except (StoreError, exc.SQLAlchemyError, OSError):
            return False
        return True

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    # ---- how much is kept ------------------------------------------------------------------------

    def _check_room(self, connection: Any, table: Any, full: Message, rows: Sequence[Mapping[str, Any]]) -> None:
        """FullError where these rows are more than the store keeps of a table, or their documents
        more than it keeps of bytes."""
        count = connection.execute(sql.select(sql.func.count()).select_from(table)).scalar_one()
        if count + len(rows) > self._most_plans:
            raise FullError(full, f"{self._most_plans:,}")
        sums = [connection.execute(sql.select(sql.func.coalesce(sql.func.sum(one.c.size), 0))).scalar_one() for one in (_PLANS, _RUNS)]
        if sum(map(int, sums)) + sum(row.get("size", 0) for row in rows) > self._most_bytes:
            most = f"{self._most_bytes / 1e6:,.0f} MB"
            raise FullError(Message("rest.store_bytes_full", most=most), most)

    def _make_room(self, change: Callable[[Any], _Answer]) -> _Answer:
        """A deletion, which must succeed on a full disk too: then the room that was held back for
        it is given to it."""
        try:
            return self._write(change)
        except StoreError:
            reserve = self._reserve()
            if reserve is None or not reserve.exists():
                raise
            reserve.unlink(missing_ok=True)
            try:
                return self._write(change)
            finally:
                self._hold_room()

    def _reserve(self) -> Path | None:
        database = self._engine.url.database
        return Path(database + _RESERVE) if self.kind == "sqlite" and database and database != ":memory:" else None

    def _hold_room(self) -> None:
        """Take up room for deletions, where there is some."""
        reserve = self._reserve()
        with contextlib.suppress(OSError):
            if reserve is not None and (not reserve.exists() or reserve.stat().st_size < _RESERVE_BYTES):
                reserve.write_bytes(bytes(_RESERVE_BYTES))

    # ---- transactions ----------------------------------------------------------------------------

    def _page(self, select: Any, table: Any, where: Sequence[Any], *, limit: int, offset: int) -> tuple[list[dict[str, Any]], int]:
        def read(connection: Any) -> tuple[list[dict[str, Any]], int]:
            count = connection.execute(sql.select(sql.func.count()).select_from(table).where(*where)).scalar_one()
            newest = select.where(*where).order_by(table.c.saved_at.desc(), table.c.id).limit(limit).offset(offset)
            return [dict(row) for row in connection.execute(newest).mappings()], count

        return self._read(read)

    def _read(self, question: Callable[[Any], _Answer]) -> _Answer:
        return self._patiently(lambda: self._once(question))

    def _write(self, change: Callable[[Any], _Answer]) -> _Answer:
        return self._patiently(lambda: self._once(change))

    def _once(self, work: Callable[[Any], _Answer]) -> _Answer:
        if not self._is_made:
            make_schema(self._engine)
            self._is_made = True
            self._hold_room()
        with self._engine.begin() as connection:
            return work(connection)

    def _patiently(self, work: Callable[[], _Answer]) -> _Answer:
        """Again and again, with longer and longer pauses, while the database cannot be reached."""
        deadline, wait_s = time.monotonic() + self._patience_s, _FIRST_WAIT_S
        while True:
            try:
                return work()
            except (exc.OperationalError, exc.InterfaceError, exc.InternalError, exc.TimeoutError) as error:
                reason = " ".join(str(getattr(error, "orig", error)).split())[:200]
                if _is_lasting(error) or time.monotonic() + wait_s > deadline:
                    raise StoreError(Message("rest.store_unreachable", problem=foreign(reason))) from None
                logger.warning("the store of saved plans: %s; trying again in %.2f s", reason, wait_s)
            time.sleep(wait_s)
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)


def _is_lasting(error: Any) -> bool:
    """Whether no waiting mends it."""
    sqlite_codes, states = _LASTING
    origin = getattr(error, "orig", None)
    code = getattr(origin, "sqlite_errorcode", None)
    return (code is not None and code & 0xFF in sqlite_codes) or getattr(origin, "sqlstate", None) in states


def _insert_new(connection: Any, table: Any) -> Any:
    """An insertion that leaves what another writer has put there meanwhile."""
    from sqlalchemy.dialects import postgresql, sqlite

    kind: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    return kind.insert(table).on_conflict_do_nothing()


def make_schema(engine: Any) -> None:
    """Bring the schema to the newest version, once even when several servers start at the same
    time. A newer one than ours is refused."""
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sql.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        has_version = sql.inspect(connection).has_table(_VERSION.name)
        version = (connection.execute(sql.select(sql.func.max(_VERSION.c.version))).scalar() or 0) if has_version else 0
        if version > len(MIGRATIONS):
            raise StoreError(Message("rest.store_newer", version=version, known=len(MIGRATIONS)))
        for number in range(version, len(MIGRATIONS)):
            MIGRATIONS[number](connection)
            connection.execute(_VERSION.insert().values(version=number + 1))


def _engine(url: str) -> Any:
    try:
        parsed = sql.make_url(url)
    except exc.ArgumentError:
        raise InputError(
            Message("rest.no_database"),
            field="database",
        ) from None
    if parsed.get_backend_name() not in _KINDS:
        raise InputError(Message("rest.no_database_kind", word=parsed.get_backend_name(), names=", ".join(_KINDS)), field="database")
    try:
        return _sqlite(parsed) if parsed.get_backend_name() == "sqlite" else _postgresql(parsed)
    except exc.NoSuchModuleError:
        raise InputError(Message("rest.no_driver", word=parsed.drivername), field="database") from None


def _sqlite(url: Any) -> Any:
    if url.database:
        try:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(Message("rest.store_folder", folder=Path(url.database).parent, problem=system_problem(error))) from None
    engine = sql.create_engine(url, connect_args={"timeout": 10.0})
    sql.event.listen(engine, "connect", _set_up_sqlite)
    sql.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    """Readers beside one writer, losing nothing when the power goes; transactions
    begin where we say."""
    connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _postgresql(url: Any) -> Any:
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    try:
        return sql.create_engine(
            url, pool_pre_ping=True, pool_size=4, max_overflow=4, pool_recycle=1800, connect_args={"connect_timeout": 5}
        )
    except ModuleNotFoundError:
        raise MissingComponentError(Message("rest.no_postgres")) from None


def _text(document: Mapping[str, Any]) -> str:
    """JSON in ASCII: what a database may refuse as text (a zero character, half a
    character) stays escaped."""
    return json.dumps(document, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def _now() -> str:
    return datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="microseconds")
