"""Saved plans in a real PostgreSQL: as in SQLite, and none lost when it is cut off and
started again under load."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from rightfit.cli.run import run as run_cli
from rightfit.rest.store import Store

from .postgres import Postgres, running

PLAN = {"schema_version": 1, "workload": {"model": "7B \u0000 \ud800 文"}, "options": []}


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with running() as found:
        yield found


def test_a_plan_and_its_measurements_come_back_as_they_were(database: Postgres) -> None:
    store = Store(database.url.replace("+psycopg", ""))
    assert store.kind == "postgresql"
    saved = store.save_plan(PLAN, name="名字")
    assert store.plan(saved["id"]) == {**saved, "document": PLAN}
    assert store.save_measurement(plan_id=saved["id"], option=1, figure="step_s", value=0.1)
    assert store.measurements(plan_id=saved["id"], limit=5)[0][0]["value"] == 0.1
    assert store.delete_plan(saved["id"])
    assert store.measurements(limit=5) == ([], 0)
    store.close()


def test_run_records_of_a_team_are_kept_once_however_many_send_them(database: Postgres) -> None:
    stores = [Store(database.url) for _ in range(4)]
    records = [{"id": f"r{number}", "kind": "run", "command": "文 \u0000"} for number in range(50)]
    new: list[int] = []
    threads = [threading.Thread(target=lambda store=store: new.append(store.save_runs(records))) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found, total = stores[0].runs(limit=500)
    assert len(new) == len(stores)
    assert total == 50
    assert sorted(one["id"] for one in found) == sorted(one["id"] for one in records)
    assert all(stores[1].delete_run(one["id"]) for one in records)
    for store in stores:
        store.close()


def test_a_run_that_is_sent_sharpens_the_plans_of_a_colleague(
    database: Postgres, serve: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RIGHTFIT_TOKEN", "the-key-of-this-team-0123456789")
    monkeypatch.chdir(tmp_path)
    run = {
        "kind": "run",
        "source": {"kind": "probe"},
        "setup": {
            "model": "meta-llama/Meta-Llama-3-8B",
            "method": "lora",
            "gpu": "A100-SXM-80GB",
            "n_gpus": "1",
            "micro_batch": "4",
            "seq_len": "1024",
        },
        "measured": [{"metric": "step_time_s", "value": 3.0, "unit": "s", "n": 60}],
    }
    Path("run.json").write_text(json.dumps(run))
    wish = ["plan", "meta-llama/Meta-Llama-3-8B", "--method", "lora", "--data", "50Mtok", "--cloud", "aws", "--format", "json", "-q"]
    with serve("--no-page", "--database", database.url) as (address, _):
        assert run_cli(["runs", "send", address, "run.json", "-q"]) == 0
        assert run_cli(["runs", "send", f"{address}/api/v1/runs", "run.json"]) == 0
        assert "0 new of 1" in capsys.readouterr().err
        assert run_cli([*wish, "--runs", address]) == 0
        theirs = json.loads(capsys.readouterr().out)
        assert run_cli([*wish, "--runs", "run.json"]) == 0
        own = json.loads(capsys.readouterr().out)
        monkeypatch.setenv("RIGHTFIT_TOKEN", "a-wrong-key-0123456789")
        assert run_cli([*wish, "--runs", address]) == 2
        assert "RIGHTFIT_TOKEN" in capsys.readouterr().err
    assert theirs["sections"]["own_runs"]["runs"] == own["sections"]["own_runs"]["runs"] != []
    assert theirs["options"][0]["cost"] == own["options"][0]["cost"]
    assert run_cli([*wish, "--runs", address]) == 3  # the server is gone
    assert capsys.readouterr().err.count("\n") == 1


def test_servers_that_start_together_make_the_schema_once(database: Postgres) -> None:
    stores = [Store(database.url) for _ in range(6)]
    failed: list[BaseException] = []

    def use(store: Store) -> None:
        try:
            store.plans(limit=1)
        except BaseException as error:  # to be seen by the test
            failed.append(error)

    threads = [threading.Thread(target=use, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    assert failed == []


def test_a_restart_under_load_loses_no_saved_plan(database: Postgres, serve: Callable[..., Any]) -> None:
    said: list[str] = []
    refused: list[int] = []
    end = threading.Event()

    def client(address: str, name: str) -> None:
        number = 0
        while not end.is_set():
            body = json.dumps({"plan": PLAN, "name": f"{name}-{number}"}).encode()
            request = urllib.request.Request(f"{address}/api/v1/plans", body, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    assert answer.status == 201
                    said.append(json.loads(answer.read())["id"])
            except urllib.error.HTTPError as error:
                refused.append(error.code)
            number += 1

    with serve("--no-page", "--workers", "2", "--database", database.url) as (address, _):
        clients = [threading.Thread(target=client, args=(address, str(number))) for number in range(4)]
        for one in clients:
            one.start()
        time.sleep(1.0)
        before = len(said)
        database.stop()
        with urllib.request.urlopen(f"{address}/api/v1/health", timeout=5) as answer:
            assert answer.status == 200  # the server lives while its database does not
        time.sleep(1.5)
        database.start()
        time.sleep(2.0)
        end.set()
        for one in clients:
            one.join()
        assert len(said) > before > 5
        store = Store(database.url)
        kept, total = store.plans(limit=500_000)
        store.close()
    assert set(said) <= {one["id"] for one in kept}
    assert len(set(said)) == len(said)
    names = [one["name"] for one in kept]
    assert len(names) == len(set(names)) == total  # nothing is written twice either
    assert refused == []


def test_a_database_that_stays_away_is_said_and_not_waited_for_by_others(database: Postgres, serve: Callable[..., Any]) -> None:
    with serve("--no-page", "--database", database.url) as (address, _):
        database.stop()
        try:
            began_s = time.perf_counter()
            with urllib.request.urlopen(f"{address}/api/v1/targets", timeout=10) as answer:
                assert answer.status == 200
            assert time.perf_counter() - began_s < 5
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f"{address}/api/v1/ready", timeout=30)
            caught.value.close()
            assert caught.value.code == 503
        finally:
            database.start()
        with urllib.request.urlopen(f"{address}/api/v1/ready", timeout=30) as answer:
            assert answer.status == 200
