"""Saved plans: nothing is lost, nothing is written twice, and what is of another
version is refused."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the extra web is not installed")

import sqlalchemy as sql
from sqlalchemy import exc

from rightfit.errors import InputError
from rightfit.rest import store as store_module
from rightfit.rest.store import FullError, Store, StoreError, default_url, make_schema

PLAN = {"schema_version": 1, "text": "\u0000 文 \ud800", "options": [1.5, None, True]}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(f"sqlite:///{tmp_path / 'deep' / 'plans.sqlite'}", patience_s=1.0)
    yield found
    found.close()


def test_a_plan_comes_back_as_it_was(store: Store) -> None:
    saved = store.save_plan(PLAN, name="名字")
    assert store.plan(saved["id"]) == {**saved, "document": PLAN}
    assert store.plan("nobody") is None
    assert store.delete_plan(saved["id"])
    assert not store.delete_plan(saved["id"])


def test_a_second_try_of_the_same_save_writes_nothing_twice(store: Store) -> None:
    for _ in range(2):
        store.save_plan(PLAN, id_="the-same")
    assert store.plans(limit=10)[1] == 1


def test_plans_come_newest_first_and_in_pages(store: Store) -> None:
    ids = [store.save_plan(PLAN, name=str(number))["id"] for number in range(5)]
    found, total = store.plans(limit=2, offset=1)
    assert (total, [one["id"] for one in found]) == (5, [ids[3], ids[2]])


def test_measurements_belong_to_a_plan(store: Store) -> None:
    saved = store.save_plan(PLAN)
    assert store.save_measurement(plan_id="nobody", option=1, figure="step_s", value=1.0) is None
    store.save_measurement(plan_id=saved["id"], option=1, figure="step_s", value=1.25, remark="r")
    (found,), total = store.measurements(plan_id=saved["id"], limit=10)
    assert (total, found["value"], found["figure"]) == (1, 1.25, "step_s")
    store.delete_plan(saved["id"])
    assert store.measurements(limit=10) == ([], 0)


def test_a_full_store_says_so(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'plans.sqlite'}", most_plans=2)
    for _ in range(2):
        store.save_plan(PLAN)
    with pytest.raises(FullError):
        store.save_plan(PLAN)
    store.close()


def test_many_threads_of_several_servers_lose_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'plans.sqlite'}"
    stores = [Store(url) for _ in range(3)]
    failed: list[BaseException] = []

    def save(store: Store, name: str) -> None:
        try:
            for number in range(10):
                store.save_plan(PLAN, name=f"{name}-{number}")
        except BaseException as error:  # to be seen by the test
            failed.append(error)

    threads = [threading.Thread(target=save, args=(store, f"{one}-{two}")) for one, store in enumerate(stores) for two in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    found, total = stores[0].plans(limit=500)
    assert total == 60 == len({one["name"] for one in found})
    for store in stores:
        store.close()


def test_the_schema_is_made_once_and_a_newer_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plans.sqlite"
    first = Store(f"sqlite:///{path}")
    saved = first.save_plan(PLAN)
    first.close()
    added = lambda connection: connection.execute(sql.text("ALTER TABLE plans ADD COLUMN colour TEXT"))  # noqa: E731
    monkeypatch.setattr(store_module, "MIGRATIONS", (*store_module.MIGRATIONS, added))
    newer = Store(f"sqlite:///{path}")
    assert newer.plan(saved["id"])
    newer.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT version FROM rightfit_schema ORDER BY version").fetchall() == [
            (number,) for number in range(1, len(store_module.MIGRATIONS) + 1)
        ]
        assert "colour" in {row[1] for row in connection.execute("PRAGMA table_info(plans)")}
    connection.close()
    monkeypatch.undo()
    old = Store(f"sqlite:///{path}", patience_s=0.1)
    with pytest.raises(StoreError, match="upgrade rightfit"):
        old.plans(limit=1)
    old.close()


def test_a_store_of_the_first_version_keeps_its_plans_and_takes_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plans.sqlite"
    monkeypatch.setattr(store_module, "MIGRATIONS", store_module.MIGRATIONS[:1])
    first = Store(f"sqlite:///{path}")
    saved = first.save_plan(PLAN)
    first.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE runs")  # as the first version was
    connection.close()
    monkeypatch.undo()
    now = Store(f"sqlite:///{path}")
    assert now.save_runs([{"id": "a", "kind": "run"}, {"id": "a", "kind": "run"}, {"id": "b", "kind": "run"}]) == 2
    assert now.save_runs([{"id": "b", "kind": "run"}, {"id": "c", "kind": "run"}]) == 1
    assert now.plan(saved["id"])
    found, total = now.runs(limit=2)
    assert (len(found), total) == (2, 3)
    assert now.delete_run("a")
    assert not now.delete_run("a")
    now.close()


def test_a_migration_that_fails_leaves_the_store_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plans.sqlite"
    Store(f"sqlite:///{path}").save_plan(PLAN)

    def broken(connection: Any) -> None:
        connection.execute(sql.text("ALTER TABLE plans ADD COLUMN colour TEXT"))
        raise RuntimeError("power cut")

    monkeypatch.setattr(store_module, "MIGRATIONS", (*store_module.MIGRATIONS, broken))
    engine = store_module._engine(f"sqlite:///{path}")
    with pytest.raises(RuntimeError):
        make_schema(engine)
    engine.dispose()
    monkeypatch.undo()
    again = Store(f"sqlite:///{path}")
    assert again.plans(limit=1)[1] == 1
    again.close()


def test_a_lost_connection_is_tried_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    once, tries = Store._once, []

    def unsteady(self: Store, work: Any) -> Any:
        tries.append(1)
        if len(tries) < 4:
            raise exc.OperationalError("SELECT 1", {}, Exception("server closed the connection"))
        return once(self, work)

    monkeypatch.setattr(Store, "_once", unsteady)
    assert store.save_plan(PLAN)["id"]
    assert len(tries) == 4


def test_patience_ends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: Store, work: Any) -> Any:
        raise exc.OperationalError("SELECT 1", {}, Exception("connection refused\n secret=1"))

    monkeypatch.setattr(Store, "_once", gone)
    with pytest.raises(StoreError, match="cannot reach the saved plans store: connection refused"):
        store.plans(limit=1)
    assert not store.is_ready()


@pytest.mark.parametrize("url", ["foo", "mysql://host/db", "://", "sqlite+nothing:///x"])
def test_addresses_of_databases_that_make_no_sense(url: str) -> None:
    with pytest.raises((InputError, StoreError)):
        Store(url).plans(limit=1)


def test_without_an_address_plans_go_to_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIGHTFIT_DATA_DIR", str(tmp_path))
    assert default_url() == f"sqlite:///{tmp_path / 'plans.sqlite'}"


def test_what_is_kept_is_counted_in_bytes_and_in_rows_of_every_kind(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'plans.sqlite'}", most_plans=5, most_bytes=10_000)
    saved = store.save_plan({"text": "x" * 6_000})
    for keep in (lambda: store.save_plan({"text": "x" * 6_000}), lambda: store.save_runs([{"id": "a", "text": "x" * 6_000}])):
        with pytest.raises(FullError, match="0 MB of plans and runs"):
            keep()
    for number in range(5):
        assert store.save_measurement(plan_id=saved["id"], option=1, figure="step_s", value=float(number + 1))
        assert store.save_runs([{"id": str(number)}]) == 1
    with pytest.raises(FullError, match="5 measurements"):
        store.save_measurement(plan_id=saved["id"], option=1, figure="step_s", value=9.0)
    with pytest.raises(FullError, match="5 run records"):
        store.save_runs([{"id": "more"}])
    store.delete_plan(saved["id"])
    assert store.save_runs([{"id": "0"}]) == 0
    assert store.save_plan({"text": "x" * 6_000})
    store.close()


def test_a_store_of_the_version_before_is_counted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plans.sqlite"
    monkeypatch.setattr(store_module, "MIGRATIONS", store_module.MIGRATIONS[:2])
    first = Store(f"sqlite:///{path}")
    saved = first.save_plan({"text": "x" * 6_000})
    first.close()
    with sqlite3.connect(path) as connection:
        for table in ("plans", "runs"):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN size")  # as that version was
    connection.close()
    monkeypatch.undo()
    now = Store(f"sqlite:///{path}", most_bytes=10_000)
    assert now.plan(saved["id"])
    with pytest.raises(FullError):
        now.save_plan({"text": "x" * 6_000})
    now.close()


@pytest.mark.parametrize("code", [8, 10, 11, 13, 26, 10 | (3 << 8)])
def test_what_no_waiting_mends_is_said_at_once(store: Store, code: int) -> None:
    def broken(_: Any) -> None:
        fault = sqlite3.OperationalError("database or disk is full")
        fault.sqlite_errorcode = code
        raise exc.OperationalError("", {}, fault)

    began = time.monotonic()
    with pytest.raises(StoreError, match="disk is full"):
        store._write(broken)
    assert time.monotonic() - began < 0.5


def _fill(store: Store) -> None:
    for _ in range(50):
        store.save_plan({"text": "x" * 20_000})


def test_a_full_disk_refuses_at_once_and_takes_deletions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system of 1 MB, filled."""
    monkeypatch.setattr(store_module, "_RESERVE_BYTES", 200_000)
    place = tmp_path / "full"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    store = Store(f"sqlite:///{place / 'plans.sqlite'}")
    try:
        ids = [store.save_plan({"text": "x" * 20_000})["id"] for _ in range(5)]
        with contextlib.suppress(OSError), (place / "filling").open("wb", buffering=0) as filling:
            while True:
                filling.write(bytes(4096))
        began = time.monotonic()
        with pytest.raises(StoreError):
            _fill(store)
        assert time.monotonic() - began < 3.0
        assert store.delete_plan(ids[0])
        assert store.plans(limit=10)[0]
        assert store.plan(ids[0]) is None
    finally:
        store.close()
        subprocess.run(["umount", str(place)], check=False)
