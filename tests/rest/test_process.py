"""`rightfit serve` as a process: what it refuses to start, how it ends, and clients that are slow,
many or speak no HTTP."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightfit.errors import InputError
from rightfit.rest import process
from rightfit.rest.settings import is_local, read_token

from .conftest import API, QLORA, SOURCE

httpx = pytest.importorskip("httpx")
Serve = Callable[..., Any]


def started(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A start that is expected to be refused."""
    import os

    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "LANG": "C.UTF-8", **variables}
    command = [sys.executable, "-m", "rightfit", "serve", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)


def test_starts_that_are_refused_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        cases = {
            ("--port", port): f"port {port} of 127.0.0.1 is in use; choose another with --port",
            ("--host", "0.0.0.0"): "no token is set; use --token-file FILE, or --allow-anonymous",
            ("--proxy", "10.0.0.0/99"): "proxy: '10.0.0.0/99' is not an address or range; for example 10.0.0.0/8",
            ("--database", "mysql://x/y"): "allowed: sqlite, postgresql",
            ("--token-file", str(tmp_path / "nothing")): "cannot read the token file",
        }
        for arguments, said in cases.items():
            done = started(*arguments)
            assert done.returncode == 2, done.stderr
            assert done.stderr.startswith("error: ")
            assert done.stderr.count("\n") == 1
            assert said in done.stderr


@pytest.mark.parametrize(
    ("host", "port"), [("nobody.invalid", 0), ("203.0.113.7", 0), ("127.0.0.1", 70000), ("127.0.0.1", -1), ("a" * 300, 0)]
)
def test_addresses_that_cannot_be_listened_on(host: str, port: int) -> None:
    with pytest.raises(InputError):
        process.listen(host, port).close()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.2", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.com", False),
    ],
)
def test_which_addresses_are_of_this_machine_alone(host: str, expected: bool) -> None:
    assert is_local(host) is expected


@pytest.mark.parametrize("text", [b"", b"\n", b"\xff\xfe"])
def test_token_files_that_hold_none(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(text)
    with pytest.raises(InputError):
        read_token(path)


def test_a_server_answers_and_finishes_what_it_began(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-secret-of-some-length\nsecond line\n")
    with serve("--no-page", "--token-file", str(tmp_path / "token"), "--host", "127.0.0.1") as server:
        headers = {"Authorization": "Bearer a-secret-of-some-length"}
        assert httpx.get(f"{server.address}{API}/models", timeout=10).status_code == 401
        answers: list[Any] = []
        asking = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{server.address}{API}/plan", json=QLORA, headers=headers, timeout=30))
        )
        asking.start()
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        asking.join()
        assert answers[0].status_code == 200
        assert server.process.wait(15) == 0
    log = (tmp_path / "server.log").read_text()
    assert "rightfit is running at" in log
    assert "a-secret-of-some-length" not in log
    assert all(json.loads(line) for line in log.splitlines() if line.startswith("{"))


@pytest.mark.parametrize(("words", "status"), [((), 200), (("--no-page",), 404), (("--workers", "2"), 404)])
def test_the_page_stands_beside_the_api_unless_it_is_left_out(serve: Serve, words: tuple[str, ...], status: int) -> None:
    with serve(*words) as server:
        found = httpx.get(server.address, timeout=30)
        assert found.status_code == status
        assert ("text/html" in found.headers["content-type"]) is (status == 200)
        assert httpx.get(f"{server.address}{API}/targets", timeout=30).status_code == 200


def test_several_processes_answer_and_count_together(serve: Serve) -> None:
    with serve("--workers", "2") as server:
        for _ in range(20):
            assert httpx.get(f"{server.address}{API}/targets", timeout=30).status_code == 200
        text = httpx.get(f"{server.address}{API}/metrics", timeout=10).text
        counted = [line for line in text.splitlines() if 'route="/api/v1/targets",status="200"' in line]
        assert [line.split()[-1] for line in counted] == ["20.0"]
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(20) == 0


def test_only_a_named_proxy_says_who_asks(serve: Serve, tmp_path: Path) -> None:
    """A client that writes the header itself stays who it is; one behind the proxy
    has turns of its own."""
    asks = [{"X-Forwarded-For": f"198.51.100.{number}"} for number in (1, 1, 1, 2, 2, 3)]
    for words, statuses in (((), [200, 200, 429, 429, 429, 429]), (("--proxy", "127.0.0.1"), [200, 200, 429, 200, 200, 200])):
        with serve("--no-page", "--rate", "1", *words) as server:
            time.sleep(2.1)  # the turns that waiting for it took
            found = [httpx.get(f"{server.address}{API}/targets", headers=headers, timeout=30).status_code for headers in asks]
            assert found == statuses
        said = [json.loads(line).get("client") for line in (tmp_path / "server.log").read_text().splitlines() if line.startswith("{")]
        assert ("198.51.100.2" in said) is bool(words)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
        (b"hello\r\n\r\n", b"400"),
        (b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"4"),
        (b"GET / HTTP/1.1\r\n" + b"X-A: " + b"y" * 200_000, b"431"),
        (b"GET /api/v1/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", b"4"),
        (b"POST /api/v1/plan HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", b"4"),
    ],
)
def test_what_is_no_request(live: Any, sent: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", live.port), timeout=10) as client:
        client.sendall(sent)
        assert client.recv(4096).startswith(b"HTTP/1.1 " + status)
    assert httpx.get(f"{live.address}{API}/health", timeout=10).status_code == 200


def test_thousands_of_idle_connections_do_not_stop_the_server(live: Any) -> None:
    idle: list[socket.socket] = []
    try:
        for number in range(2000):
            one = socket.create_connection(("127.0.0.1", live.port), timeout=10)
            one.sendall(b"GET /api/v1/pl" if number % 2 else b"")
            idle.append(one)
        assert httpx.get(f"{live.address}{API}/health", timeout=10).status_code == 200
        assert httpx.post(f"{live.address}{API}/plan?top=1", json=QLORA, timeout=30).status_code == 200
    finally:
        for one in idle:
            one.close()


def test_clients_that_send_drop_by_drop_are_let_go(serve: Serve) -> None:
    with serve("--no-page", RIGHTFIT_HEAD_S="0.5") as server, socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.sendall(b"GET /api/v1/health HT")
        time.sleep(0.3)
        client.sendall(b"T")
        answer = b""
        while part := client.recv(4096):
            answer += part
        assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_home_that_cannot_be_written_is_said_and_the_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rightfit.cli.commands import serve as command
    from rightfit.cli.output import View
    from rightfit.rest.settings import Settings
    from rightfit.rest.store import Store

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RIGHTFIT_DATA_DIR", str(tmp_path / "file" / "data"))  # a folder below a file: nobody can make it, root neither
    settings = command._with_place(Settings(page=False), View())
    assert settings.database_url.startswith("sqlite:///")
    assert "is not writable" in capsys.readouterr().err
    store = Store(settings.database_url)
    assert store.save_plan({"options": []})["id"]
    store.close()
    monkeypatch.setenv("RIGHTFIT_DATA_DIR", str(tmp_path / "data"))
    assert command._with_place(Settings(page=False), View()).database_url == ""


def test_no_process_outlives_the_one_that_started_it(serve: Serve) -> None:
    with serve("--workers", "2") as server:
        server.process.kill()
        server.process.wait(10)
        until = time.monotonic() + 15.0
        while time.monotonic() < until and _listens(server.port):
            time.sleep(0.1)
        assert not _listens(server.port)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
