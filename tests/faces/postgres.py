"""A real PostgreSQL in a folder of its own, which the tests may stop and start. Skips loudly
where none can be had."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")


def programs() -> Path | None:
    """The folder with initdb and pg_ctl."""
    found = [folder for pattern in _FOLDERS for folder in sorted(Path("/").glob(pattern.lstrip("/")), reverse=True)]
    return next((folder for folder in found if (folder / "initdb").exists()), None)


class Postgres:
    """A server that listens on one port of this machine."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._data, self._programs = folder / "data", programs
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/postgres"
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-N")

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._data} -c fsync=on"
        self._run("pg_ctl", "-D", str(self._data), "-w", "-l", str(self._data / "log"), "-o", options, "start")

    def stop(self) -> None:
        """Stop at once, as when the machine loses power: connections are cut."""
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", "immediate", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        if os.geteuid() == 0:  # PostgreSQL refuses to be run by root
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False, timeout=60, cwd="/")
        assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def running() -> Iterator[Postgres]:
    """A started server; everything is gone afterwards."""
    found = programs()
    if found is None:
        pytest.skip("no PostgreSQL: install it (apt-get install postgresql) to run this")
    folder = Path(tempfile.mkdtemp(prefix="rightfit-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    try:
        server = Postgres(folder, found)
        server.start()
        yield server
        with contextlib.suppress(AssertionError):
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
