"""Where the catalog lives on disk: an SQLite file built on first use, one for each version of data
and schema, replaced whole or not at all.

The file is only ever written under a temporary name, synced, and renamed, so a reader sees a
complete store or none. It is opened `immutable`: nothing changes it in place, so no lock of another
program can stop a reader.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rightfit.errors import CatalogError
from rightfit.files import cache_folder
from rightfit.market import packed_tables
from rightfit.market.packed_tables import APPLICATION_ID, SCHEMA_VERSION, TABLE_NAMES, fingerprint
from rightfit.messages import Message, foreign

_HEADER_BYTES = 100
_WAIT_FOR_OTHER_BUILD_S = 30.0
_ABANDONED_AFTER_S = 3600.0
_UNREAD_AFTER_S = 90 * 86400.0


def store_path(folder: Path | None = None, *, generation: str | None = None) -> Path:
    """The store file for this version of data and schema and these refreshed prices ("": none; by
    default those that count now)."""
    refreshed = packed_tables.current() if generation is None else generation
    name = f"catalog-{SCHEMA_VERSION}-{fingerprint()[:16]}{'-' * bool(refreshed)}{refreshed}.sqlite"
    return (folder or cache_folder()) / name


def open_store(path: Path | None = None, *, damaged: str = "") -> tuple[sqlite3.Connection, str]:
    """A read-only connection to a sound store, and where it is. Builds it when missing or damaged.

    `damaged` names a store that looked sound but was not; it is built anew.
    Without an explicit `path`, a cache folder that cannot be written (read-only, full disk) costs
    one warning and the store is built in memory for this process. With an explicit `path` the same
    is a CatalogError that names it, and the store holds the bundled prices only. Refreshed prices
    that turn out damaged cost one warning, and the bundled ones are used.
    """
    generation = "" if path is not None else packed_tables.current()
    try:
        return _open(path, generation=generation, damaged=damaged)
    except CatalogError as error:
        if not generation:
            raise
        _warn("warning: %s; using the bundled prices", error)
        return _open(None, generation="", damaged=damaged)


def _open(path: Path | None, *, generation: str, damaged: str) -> tuple[sqlite3.Connection, str]:
    target = path
    try:
        target = path or store_path(generation=generation)
        if path is not None and _is_foreign(path):
            raise CatalogError(Message("catalog.store_foreign", path=path))
        if damaged == str(target) or not is_sound(target):
            build_store(target, even_if_sound=damaged == str(target), generation=generation)
        return connect(target), str(target)
    except (OSError, sqlite3.Error) as error:
        problem = _one_line(error)
    if path is not None:
        raise CatalogError(Message("catalog.store_unusable", path=path, error=foreign(problem)))
    advice = "using memory for this run, set RIGHTFIT_CACHE_DIR to a writable folder"
    _warn("warning: the catalog store %s cannot be written (%s); %s", target or "folder", problem, advice)
    return _in_memory(generation), ":memory:"


def _warn(message: str, *parts: object) -> None:
    """A warning to whoever listens (standard error, where nobody does); loading this for every
    plan would take 4 ms."""
    import logging

    logging.getLogger("rightfit.market").warning(message, *parts)


def _is_foreign(path: Path) -> bool:
    """Whether a path that the user gave holds a sound SQLite file of somebody else, which must
    not be overwritten."""
    try:
        if not path.is_file() or path.stat().st_size == 0:
            return False
        with contextlib.closing(connect(path)) as connection:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            has_tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
            return bool(application != APPLICATION_ID and has_tables)
    except (OSError, sqlite3.Error):
        return False


def connect(path: Path) -> sqlite3.Connection:
    """Open read-only; whatever locks other programs hold do not matter because the file
    never changes in place."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)


def is_sound(path: Path) -> bool:
    """Cheap test of a store: header, version, size on disk and the list of tables. Columns are
    checked by CRC when they are read."""
    try:
        with path.open("rb") as stream:
            header = stream.read(_HEADER_BYTES)
            size = os.fstat(stream.fileno()).st_size
        if len(header) < _HEADER_BYTES or not header.startswith(b"SQLite format 3\0"):
            return False
        page = int.from_bytes(header[16:18], "big")
        page = 65536 if page == 1 else page
        if size != page * int.from_bytes(header[28:32], "big"):
            return False
        with contextlib.closing(connect(path)) as connection:
            return _is_ours(connection)
    except (OSError, sqlite3.Error):
        return False


def _is_ours(connection: sqlite3.Connection) -> bool:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return version == SCHEMA_VERSION and application == APPLICATION_ID and names.issuperset(TABLE_NAMES)


def build_store(path: Path, *, even_if_sound: bool = False, generation: str = "") -> None:
    """Build the store at `path`, once even when several processes ask at the same time;
    `generation` names refreshed prices to lay over."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(path.with_suffix(".lock")) as is_held:
        if even_if_sound or not is_sound(path):
            _remove_abandoned(path.parent)
            if is_held:
                _remove_killed(path)
            _build_atomically(path, generation=generation)


def _build_atomically(path: Path, *, generation: str) -> None:
    from rightfit.market import build  # only the first use of a version needs it

    temporary = path.with_name(f"{path.stem}.{os.getpid()}-{time.monotonic_ns()}.tmp")
    try:
        with contextlib.closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
            # No journal: a half-written temporary file is thrown away, never repaired.
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            build.fill_store(connection, generation=generation)
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)  # noqa: PTH105  (os.replace is the atomic one on every platform)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the rename durable where the platform can (not on Windows, not on every
    network file system)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_killed(path: Path) -> None:
    """What builds of this store left that were killed. Only who holds its lock may: then nobody
    builds it, but for those whose process lives and who would not wait."""
    for left in path.parent.glob(f"{path.stem}.*.tmp"):
        pid = left.name.removeprefix(f"{path.stem}.").partition("-")[0]
        with contextlib.suppress(OSError):
            if pid.isdigit() and not _lives(int(pid)):
                left.unlink()


def _lives(pid: int) -> bool:
    if os.name != "posix":  # elsewhere to ask is to kill
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _remove_abandoned(folder: Path) -> None:
    """Temporary files left by a killed build, and stores of other versions that nobody
    has read for long."""
    for pattern, age_s in (
        ("catalog-*.tmp", _ABANDONED_AFTER_S),
        ("catalog-*.sqlite", _UNREAD_AFTER_S),
        ("catalog-*.lock", _UNREAD_AFTER_S),
    ):
        for left in folder.glob(pattern):
            with contextlib.suppress(OSError):
                facts = left.stat()
                if time.time() - max(facts.st_mtime, facts.st_atime) > age_s:
                    left.unlink()


@contextlib.contextmanager
def _only_one(lock: Path) -> Iterator[bool]:
    """Hold the build lock; whether it is held. It is advisory and dies with its process; without
    it (or after a long wait) building is only wasteful, never unsafe."""
    with lock.open("a+b") as stream:
        deadline = time.monotonic() + _WAIT_FOR_OTHER_BUILD_S
        while not (is_held := try_lock(stream.fileno())) and time.monotonic() < deadline:
            time.sleep(0.02)
        yield is_held


def try_lock(descriptor: int) -> bool:
    """Take an advisory lock without waiting; false when somebody else holds it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return sys.platform != "win32"  # a file system without locks: go on; on Windows this means "held"
    return True


def _in_memory(generation: str) -> sqlite3.Connection:
    from rightfit.market import build

    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    build.fill_store(connection, generation=generation)
    return connection


def _one_line(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())[:200]
