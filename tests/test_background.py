"""The suite can be started in the background, where the shell has Ctrl-C ignored: what a test
starts can be interrupted all the same."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")
LISTENS = "import signal, sys; sys.exit(signal.getsignal({number}) is signal.SIG_IGN)"
# As pytest does it: the settings of all tests are read first, then a test starts a process.
AS_A_TEST = f"import runpy, subprocess, sys; runpy.run_path({str(CONFTEST)!r}); sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)"


def started_in_the_background(number: int, *, first: str) -> int:
    """The exit code of a process that a process with the signal ignored starts."""
    command = f"trap '' {number}; exec \"$@\""
    listens = LISTENS.format(number=number)
    return subprocess.run(["sh", "-c", command, "sh", sys.executable, "-c", first, listens], check=False, timeout=30).returncode


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_a_test_starts_listens_to_signals(number: signal.Signals) -> None:
    assert started_in_the_background(number.value, first=AS_A_TEST) == 0
    assert started_in_the_background(number.value, first=AS_A_TEST.replace("runpy.run_path", "str")) == 1  # so a shell does it
