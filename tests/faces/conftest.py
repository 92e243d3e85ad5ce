"""Servers as processes, and a database, for the tests of the faces."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


@contextlib.contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`rightfit serve`, ready: its address and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "RIGHTFIT_DATA_DIR": str(folder), "PYTHONPATH": str(ROOT / "src"), "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "rightfit", "serve", "--port", str(port), "--rate", "100000", *arguments]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        address = f"http://127.0.0.1:{port}"
        try:
            _await(address, process, folder / "server.log")
            yield address, process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _await(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(log.read_text())
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/api/v1/ready", timeout=5):
            return
        time.sleep(0.1)
    raise RuntimeError("the server does not get ready")


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Any]:
    """Start a server with its data in this test's folder."""
    return lambda *arguments: serving(tmp_path, *arguments)
