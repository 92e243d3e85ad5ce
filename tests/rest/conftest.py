"""One application for the whole folder, with saved plans in a file of its own; and real
servers as processes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra web is not installed")
httpx = pytest.importorskip("httpx")

import rightfit  # noqa: E402
from rightfit.rest import Settings, create_app  # noqa: E402

SOURCE = Path(rightfit.__file__).parent.parent
API = "/api/v1"
QLORA = {"model": "7B", "method": "qlora", "data": "50Mtok"}
NAMED = {**QLORA, "model": "meta-llama/Meta-Llama-3-8B"}  # files that start a job need weights to load


def client_of(settings: Settings) -> Any:
    """A client of an application of its own."""
    from starlette.testclient import TestClient

    return TestClient(create_app(settings), raise_server_exceptions=False)


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The application that all tests share."""
    url = f"sqlite:///{tmp_path_factory.mktemp('rest') / 'plans.sqlite'}"
    with client_of(Settings(page=False, database_url=url, rate_per_s=1e6, burst=1_000_000)) as found:
        yield found


@pytest.fixture(scope="session")
def plan(client: Any) -> dict[str, Any]:
    """A plan that can be exported, as the API gives it."""
    answer = client.post(f"{API}/plan?top=3", json={**NAMED, "sellers": "hyperscaler"})
    assert answer.status_code == 200
    return dict(answer.json())


@dataclasses.dataclass(frozen=True)
class Server:
    """A running server."""

    address: str
    port: int
    process: subprocess.Popen[str]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(folder: Path, *arguments: str, **variables: str) -> Iterator[Server]:
    """`rightfit serve` as a process, ready to answer; killed at the end if it has
    not ended by itself."""
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RIGHTFIT_TOKEN")}
    environment = {**kept, "PYTHONPATH": str(SOURCE), "LANG": "C.UTF-8", "RIGHTFIT_DATA_DIR": str(folder), **variables}
    command = [sys.executable, "-m", "rightfit", "serve", "--port", str(port), "--rate", "100000", *arguments]
    log = (folder / "server.log").open("w")
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, text=True)
    server = Server(f"http://127.0.0.1:{port}", port, process)
    try:
        _await(server)
        yield server
    finally:
        log.close()
        if process.poll() is None:
            process.kill()
        process.wait(10)


def _await(server: Server) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise RuntimeError(f"the server ended with {server.process.returncode}")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{server.address}{API}/ready", timeout=5).status_code == 200:
                return
        time.sleep(0.1)
    raise RuntimeError("the server does not get ready")


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Any]:
    """Start a server with its data in this test's folder."""
    return lambda *arguments, **variables: running(tmp_path, *arguments, **variables)


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One running server for all tests that need no server of their own."""
    with running(tmp_path_factory.mktemp("live"), "--no-page") as server:
        yield server
