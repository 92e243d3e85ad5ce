"""The store with real processes, real damage and real limits."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rightfit
from rightfit import files
from rightfit.errors import CatalogError
from rightfit.market import open_catalog, store
from rightfit.market.packed_tables import SCHEMA_VERSION, fingerprint

COUNT_OFFERS = "from rightfit.market import open_catalog; print(len(open_catalog().offers()))"


def environment(folder: Path) -> dict[str, str]:
    source = str(Path(rightfit.__file__).resolve().parent.parent)
    return {**os.environ, "RIGHTFIT_CACHE_DIR": str(folder), "PYTHONPATH": source}


def start(folder: Path, code: str = COUNT_OFFERS) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".tmp")


@pytest.fixture
def copied(tmp_path: Path, store_file: Path) -> Path:
    """A sound store that a test may damage."""
    path = tmp_path / "catalog.sqlite"
    path.write_bytes(store_file.read_bytes())
    return path


@pytest.mark.parametrize("num_processes", [2, 10])
def test_processes_that_start_at_once_share_one_store(tmp_path: Path, num_processes: int) -> None:
    running = [start(tmp_path) for _ in range(num_processes)]
    answers = [process.communicate(timeout=120) for process in running]
    assert [error for _, error in answers] == [""] * num_processes
    assert {output for output, _ in answers} == {f"{len(open_catalog(store.store_path(tmp_path)).offers())}\n"}
    assert len(list(tmp_path.glob("*.sqlite"))) == 1
    assert left_over(tmp_path) == []


def test_a_killed_build_leaves_nothing_that_is_read(tmp_path: Path) -> None:
    for delay_s in (0.3, 0.45, 0.6):
        process = start(tmp_path)
        time.sleep(delay_s)
        process.kill()
        process.communicate()
    output, error = start(tmp_path).communicate(timeout=60)
    assert (int(output) > 8000, error) == (True, "")


def test_an_interrupted_build_removes_its_temporary_file(tmp_path: Path) -> None:
    code = (
        "import os, signal\nfrom rightfit.market import build, open_catalog\n"
        "build._write_findings = lambda *given: os.kill(os.getpid(), signal.SIGINT)\nopen_catalog()"
    )
    process = start(tmp_path, code)
    process.communicate(timeout=60)
    assert process.returncode in (1, -signal.SIGINT)
    assert left_over(tmp_path) == []
    assert list(tmp_path.glob("*.sqlite")) == []


def test_abandoned_temporary_files_are_removed(tmp_path: Path) -> None:
    old, young = tmp_path / "catalog-1-a.1-1.tmp", tmp_path / "catalog-1-a.2-2.tmp"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    open_catalog(tmp_path / "c.sqlite").close()
    assert (old.exists(), young.exists()) == (False, True)


def truncate(path: Path) -> None:
    with path.open("rb+") as stream:
        stream.truncate(path.stat().st_size // 2)


def cut_one_byte(path: Path) -> None:
    with path.open("rb+") as stream:
        stream.truncate(path.stat().st_size - 1)


def make_empty(path: Path) -> None:
    path.write_bytes(b"")


def make_garbage(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def garbage_behind_the_header(path: Path) -> None:
    with path.open("rb+") as stream:
        stream.seek(100)
        stream.write(b"\xff" * 8000)


def drop_a_table(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE interruption")
    connection.close()


def older_schema(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
    connection.close()


DAMAGE = [truncate, cut_one_byte, make_empty, make_garbage, garbage_behind_the_header, drop_a_table, older_schema]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_store_is_rebuilt(copied: Path, damage: object) -> None:
    expected = len(open_catalog(copied).offers())
    damage(copied)  # type: ignore[operator]
    catalog = open_catalog(copied)
    assert len(catalog.offers()) == expected
    assert catalog.interruption("aws", "us-east-1", "g5.xlarge") == (0.2, 1.0)


def test_a_column_that_changed_behind_the_header_is_noticed_by_its_checksum(copied: Path) -> None:
    expected = open_catalog(copied).offers().price_usd_per_h.sum()
    with sqlite3.connect(copied) as connection:
        connection.execute("UPDATE block SET data = zeroblob(length(data)) WHERE name = 'price_accelerator/price_usd_per_h'")
    connection.close()
    assert open_catalog(copied).offers().price_usd_per_h.sum() == expected


def test_a_missing_column_is_noticed(copied: Path) -> None:
    with sqlite3.connect(copied) as connection:
        connection.execute("DELETE FROM block WHERE name LIKE 'server_accelerator/%'")
    connection.close()
    assert len(open_catalog(copied).servers(has_accelerator=True)) == 1131


def test_a_store_damaged_while_open_is_rebuilt_in_use(copied: Path) -> None:
    catalog = open_catalog(copied)
    make_garbage(copied)
    assert len(catalog.offers()) > 8000
    assert store.is_sound(copied)


def test_a_lock_of_another_program_does_not_stop_a_reader(copied: Path) -> None:
    holder = sqlite3.connect(copied, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    began = time.perf_counter()
    assert len(open_catalog(copied).offers()) > 8000
    assert time.perf_counter() - began < 1.0
    holder.execute("ROLLBACK")
    holder.close()


def test_a_build_lock_held_for_too_long_is_only_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(store, "_WAIT_FOR_OTHER_BUILD_S", 0.1)
    with (tmp_path / "c.lock").open("a+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert len(open_catalog(tmp_path / "c.sqlite").offers()) > 8000


def test_a_database_of_another_program_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mine.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE diary (line TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(CatalogError, match="another program"):
        open_catalog(path)
    assert path.read_bytes() == before


def test_another_version_has_another_file() -> None:
    name = store.store_path(Path("/x")).name
    assert name == f"catalog-{SCHEMA_VERSION}-{fingerprint()[:16]}.sqlite"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"RIGHTFIT_CACHE_DIR": "/r"}, Path("/r")),
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/rightfit")),
        ({"RIGHTFIT_CACHE_DIR": "/r", "XDG_CACHE_HOME": "/x"}, Path("/r")),
    ],
)
def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: Path) -> None:
    for name in ("RIGHTFIT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert files.cache_folder() == expected


def test_a_cache_folder_that_cannot_be_written_costs_one_line_and_answers_from_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    output, error = start(blocked / "cache").communicate(timeout=60)
    assert int(output) > 8000
    assert error.count("\n") == 1
    assert str(blocked) in error
    assert "RIGHTFIT_CACHE_DIR" in error


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_answers_from_memory(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    output, error = start(tmp_path).communicate(timeout=60)
    tmp_path.chmod(stat.S_IRWXU)
    assert (int(output) > 8000, error.count("\n")) == (True, 1)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_full_disk_answers_from_memory_and_leaves_no_rubbish(tmp_path: Path) -> None:
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))\n" + COUNT_OFFERS
    )
    output, error = start(tmp_path, code).communicate(timeout=60)
    assert int(output) > 8000
    assert error.count("\n") == 1
    assert error.startswith("warning: the catalog store")
    assert left_over(tmp_path) == []
    assert list(tmp_path.glob("*.sqlite")) == []


def test_a_store_asked_for_by_path_that_cannot_be_built_is_an_error_naming_it(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(CatalogError, match=r"file/c\.sqlite") as caught:
        open_catalog(blocked / "c.sqlite")
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)


def test_what_a_killed_first_build_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "catalog-x.sqlite"
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    ).stdout.strip()
    killed, living, foreign = (tmp_path / f"catalog-x.{pid}-1.tmp" for pid in (gone, os.getppid(), "host"))
    other = tmp_path / f"catalog-y.{gone}-1.tmp"
    for left in (killed, living, foreign, other):
        left.write_bytes(b"half")
    store._remove_killed(path)
    assert [left.exists() for left in (killed, living, foreign, other)] == [False, True, True, True]
