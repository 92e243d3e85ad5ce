"""What others hand over: servers that want the key of another, files that do harm, records that are
damaged. Each costs one line, never a plan."""

from __future__ import annotations

import gzip
import http.server
import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rightfit.errors import FileInputError, InputError, RightfitError
from rightfit.measure.ingest import ingest
from rightfit.measure.readers import item
from rightfit.measure.record import Run, Source, measured, read_runs, sealed, written
from rightfit.measure.store import RunStore, runs_at
from rightfit.proof import tables

RUN = sealed(Run(source=Source(kind="probe"), setup={"model": "7B"}, measured=[measured("step_time_s", 0.5, n=40)]))
KEY = "a-key-of-sixteen-letters"


class Teams:
    """Servers that write down who asked with which key."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str, str]] = []
        self.servers: list[http.server.ThreadingHTTPServer] = []

    def serve(self, answer: Callable[[str], tuple[int, dict[str, str], Any]]) -> str:
        """The address of a server; `answer(path)` gives status, headers and body."""
        teams = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                teams.asked.append((self.server.server_address[1], self.path, self.headers.get("Authorization", "")))
                status, headers, body = answer(self.path)
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None: ...

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"


@pytest.fixture
def teams(monkeypatch: pytest.MonkeyPatch) -> Iterator[Teams]:
    monkeypatch.setenv("RIGHTFIT_TOKEN", KEY)
    monkeypatch.delenv("RIGHTFIT_TOKEN_ORIGIN", raising=False)
    found = Teams()
    yield found
    for server in found.servers:
        server.shutdown()
        server.server_close()


def _page(*runs: Any, total: int | None = None) -> tuple[int, dict[str, str], Any]:
    return 200, {}, {"total": len(runs) if total is None else total, "items": list(runs)}


def test_the_key_goes_to_its_own_server_alone(teams: Teams, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = (teams.serve(lambda _: _page(RUN.model_dump(mode="json"))) for _ in range(2))
    for origin in ("", other, own.replace("http", "https"), own.replace("127.0.0.1", "localhost"), "127.0.0.1", own + "1"):
        monkeypatch.setenv("RIGHTFIT_TOKEN_ORIGIN", origin)
        assert runs_at(own) == [RUN]
    assert {key for _, _, key in teams.asked} == {""}
    monkeypatch.setenv("RIGHTFIT_TOKEN_ORIGIN", own + "/")
    assert runs_at(own) == [RUN]
    assert teams.asked[-1][2] == f"Bearer {KEY}"


def test_the_key_does_not_travel_in_the_open(teams: Teams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIGHTFIT_TOKEN_ORIGIN", "http://team.example.com")
    with pytest.raises(InputError, match="https"):
        runs_at("http://team.example.com")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(teams: Teams, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    there = teams.serve(lambda _: _page())
    own = teams.serve(lambda path: (status, {"Location": there + path + "&token=x"}, b""))
    monkeypatch.setenv("RIGHTFIT_TOKEN_ORIGIN", own)
    with pytest.raises(InputError, match="redirects to"):
        runs_at(own)
    assert len(teams.asked) == 1


@pytest.mark.parametrize("total", [10**9, "many", None, -1])
def test_a_server_that_promises_more_than_it_has_is_asked_a_few_times(teams: Teams, total: Any) -> None:
    own = teams.serve(lambda _: (200, {}, {"total": total, "items": []}))
    assert runs_at(own) == []
    assert len(teams.asked) <= 5


def test_a_server_without_its_key_says_where_the_key_is_set(teams: Teams) -> None:
    own = teams.serve(lambda _: (401, {}, b"{}"))
    with pytest.raises(InputError, match=f"RIGHTFIT_TOKEN_ORIGIN={own}"):
        runs_at(own)


# ---- files and rows that are damaged, or made to do harm

DEEP = "[" * 100_000 + "]" * 100_000
DEEP_RECORD = '{"kind": "run", "source": {"kind": "x"}, "workload": ' + '{"a":' * 500 + "1" + "}" * 500 + "}"
DAMAGED = {
    "deep": DEEP,
    "deep record": DEEP_RECORD,
    "cut short": written([RUN])[:200],
    "other types": '{"kind": "run", "source": 3}',
    "no metric": '{"kind": "run", "source": {"kind": "x"}, "measured": [{"metric": "speed", "value": 1}]}',
    "long number": '{"kind": "run", "duration_s": ' + "9" * 10_000 + "}",
    "no text": "\udcff\udcfe{",
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_one_bad_file_among_good_ones_costs_one_line(text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "good.json").write_text(written([RUN]))
    (tmp_path / "bad.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert read_runs(tmp_path) == [RUN]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "bad.json" in caplog.text
    assert "\n" not in caplog.records[0].getMessage()
    with pytest.raises(RightfitError):
        read_runs(tmp_path / "bad.json")


@pytest.mark.parametrize("row", [*DAMAGED.values(), b"\xff\xfe", 3], ids=[*DAMAGED, "bytes", "number"])
def test_one_bad_row_of_the_store_costs_one_line(row: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = RunStore(tmp_path / "runs.sqlite")
    store.save([RUN])
    content = row.encode("utf-8", "surrogateescape") if isinstance(row, str) else row
    with sqlite3.connect(store.path) as connection:
        connection.execute("INSERT INTO runs VALUES ('bad', '', 'x', CAST(? AS TEXT))", (content,))
    connection.close()
    assert runs_at(store.path) == [RUN]
    assert len(caplog.records) == 1
    assert store.get(RUN.id) == RUN
    assert store.delete(["bad"]) == 1


def test_one_bad_record_of_a_server_or_of_a_list_costs_one_line(teams: Teams, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    good, bad = RUN.model_dump(mode="json"), {"kind": "run", "source": 3}
    assert runs_at(teams.serve(lambda _: _page(bad, good))) == [RUN]
    (tmp_path / "runs.json").write_text(json.dumps([good, bad]))
    assert read_runs(tmp_path / "runs.json") == [RUN]
    assert len(caplog.records) == 2
    (tmp_path / "bad.json").write_text(json.dumps([bad, bad]))
    with pytest.raises(FileInputError, match="none of the 2"):
        read_runs(tmp_path / "bad.json")


LOGS = {
    "signs": "{'loss': " + "-" * 100_000 + "1}",
    "brackets": "{'loss': " + "(" * 100_000 + "}",
    "steps": "step: 1 " * 12_500,
    "bars": "1/2 [" * 20_000,
    "dicts": "{'loss'" * 15_000,
    "out of memory": "Tried to allocate 1 GiB. GPU 0 has a total capacity of 1 GiB of which 1 GiB is free." * 1_000,
    "deep": DEEP,
    "pickle": "\x80\x05" + "(" * 100_000 + ".",
    "lines": '{"a": 1}\n' * 3 + DEEP + "\n",
    "tracker": '{"log_history": 3, "global_step": {}}',
    "trainer log": '{"current_steps": 1, "total_steps": 2, "elapsed_time": "x:y"}\n',
    "table": "metric,measured\nstep_time_s,1e400\n",
}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("ending", ["log", "json", "pickle", "csv"])
def test_a_log_made_to_do_harm_is_refused_in_one_line(name: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{ending}"
    path.write_text(LOGS[name])
    try:
        ingest(path)
    except RightfitError as error:
        assert "\n" not in str(error)  # noqa: PT017  (some are read, and none may end otherwise)


def test_one_bad_result_of_a_folder_costs_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "good.log").write_text("10/20 [00:10<00:10, 1.00s/it]\n" * 20)
    (tmp_path / "bad.csv").write_text("model,step_time_s\n7B,quick\n")
    assert len(ingest(tmp_path)) == 1
    assert "bad.csv" in caplog.text


# ---- packed files


def test_a_packed_file_counts_as_what_it_becomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((item, "MOST_BYTES"), (tables, "MOST_TABLE_BYTES")):
        monkeypatch.setattr(module, name, 1_000_000)
    small, large = (tmp_path / f"{name}.csv.gz" for name in ("small", "large"))
    for path, count in ((small, 1_000), (large, 200_000)):
        path.write_bytes(gzip.compress(b"model,gpu\n" + b"7B,H100 \n" * count))
    assert len(tables.read_cases(small)) == 1_000
    for read in (tables.read_cases, lambda path: item.Item(path, str(path)).content):
        read(small)
        with pytest.raises(FileInputError, match="larger than"):
            read(large)
    cut = tmp_path / "cut.csv.gz"
    for content in (small.read_bytes()[:-20], b"\x1f\x8b" + b"x" * 50):
        cut.write_bytes(content)
        with pytest.raises(FileInputError, match="cannot"):
            tables.read_cases(cut)
