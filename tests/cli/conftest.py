"""Running the command line: in this process (fast), and as a real process (exit codes,
streams, signals)."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import rightfit
from rightfit.cli import main

SOURCE = Path(rightfit.__file__).parent.parent


@dataclasses.dataclass(frozen=True)
class Result:
    """What a command did."""

    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run in this process."""
    monkeypatch.setenv("LANG", "C.UTF-8")
    for name in ("LC_ALL", "LC_MESSAGES", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str, width: int | None = None) -> Result:
        if width is not None:
            monkeypatch.setenv("COLUMNS", str(width))
        code = main(arguments)
        shown = capsys.readouterr()
        return Result(code, shown.out, shown.err)

    return call


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """For real processes: this source, plain locale."""
    kept = {name: value for name, value in os.environ.items() if name not in ("LC_ALL", "LC_MESSAGES", "COLUMNS")}
    return {**kept, "PYTHONPATH": str(SOURCE), "LANG": "C.UTF-8"}


@pytest.fixture(scope="session")
def process(environment: dict[str, str]) -> Run:
    """Run as a real process."""

    def call(*arguments: str, stdin: str = "", **more: str) -> Result:
        command = [sys.executable, "-m", "rightfit", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, env={**environment, **more}, check=False, timeout=60)
        return Result(done.returncode, done.stdout, done.stderr)

    return call
