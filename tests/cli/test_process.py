"""The real process: exit codes, streams, signals, pipes, start-up."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

OPTIONS = Path(__file__).parents[1] / "data" / "options.toml"


def test_exit_codes_of_a_real_process(process: Any) -> None:
    assert process("--version").out.startswith("rightfit 0.")
    assert process("accelerators", "H100").code == 0
    assert process("plan", "7B", "--deadline", "24").code == 2
    assert process("watch", "http://127.0.0.1:9", "--once").code == 3  # nothing listens there


def test_data_on_standard_output_and_remarks_on_standard_error(process: Any) -> None:
    result = process("accelerators")
    assert "--top 0" not in result.out
    assert "--top 0 shows all" in result.err
    assert process("accelerators", "--quiet").err == ""


def test_a_broken_pipe_is_quiet(environment: dict[str, str]) -> None:
    command = f"{sys.executable} -m rightfit servers --format csv | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, check=False, timeout=60)
    assert done.stdout.startswith("provider,")
    assert done.stderr == ""


def test_a_full_disk_is_one_line(environment: dict[str, str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    command = f"{sys.executable} -m rightfit accelerators --quiet > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, check=False, timeout=60)
    assert done.returncode == 3
    assert done.stderr == "error: cannot write the answer: No space left on device\n"


@pytest.mark.parametrize(("redirect", "code"), [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0)])
def test_closed_streams_do_no_harm(environment: dict[str, str], redirect: str, code: int) -> None:
    command = f"{sys.executable} -m rightfit servers xyzzy {redirect}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, check=False, timeout=60)
    assert done.returncode == code
    assert "error" not in done.stderr


def test_ctrl_c_is_one_line_and_130(environment: dict[str, str], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)  # nobody writes: the command waits while reading
    command = [sys.executable, "-m", "rightfit", "plan", "--file", str(pipe)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    writer = _once_read(pipe)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=20)
    os.close(writer)
    assert (started.returncode, out, err) == (130, "", "interrupted\n")


def _once_read(pipe: Path) -> int:
    """Open the pipe for writing as soon as somebody reads it."""
    for _ in range(600):
        with contextlib.suppress(OSError):
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.1)
    raise AssertionError("nobody reads the pipe")


def test_ctrl_c_while_a_class_is_made_is_130(environment: dict[str, str], tmp_path: Path) -> None:
    """`python -m` forgets that an interrupt within an exec() of text was answered for."""
    (tmp_path / "interrupted.py").write_text(
        "import sys; from rightfit.cli import run\n"
        "def dispatch(arguments): exec('raise KeyboardInterrupt')\n"
        "run._dispatch = dispatch\n"
        "sys.exit(run.run([]))\n"
    )
    command = [sys.executable, "-m", "interrupted"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_an_unexpected_error_is_one_line_with_70(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from rightfit import api

    def fail(query: str) -> None:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr(api, "datasets", fail)
    result = run("datasets")
    assert (result.code, result.out, len(result.err.splitlines())) == (70, "", 1)
    assert result.err.startswith("internal error: ZeroDivisionError: a b; please report")
    assert "Traceback" in run("datasets", "--verbose").err


def test_a_terminal_without_unicode_gets_replacements(process: Any) -> None:
    result = process("datasets", "alpaca", "--lang", "zh", PYTHONIOENCODING="ascii")
    assert result.code == 0
    assert "Alpaca" in result.out


def test_an_unwritable_cache_is_a_warning(process: Any) -> None:
    result = process("prices", "g5.xlarge", "--top", "1", RIGHTFIT_CACHE_DIR="/proc/nowhere")
    assert result.code == 0
    assert "g5.xlarge" in result.out
    assert "RIGHTFIT_CACHE_DIR" in result.err


def test_starting_loads_nothing_heavy(process: Any, environment: dict[str, str]) -> None:
    code = "import sys; from rightfit.cli import main; main(['--version']); print([m for m in ('numpy', 'pydantic', 'rich', 'yaml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_no_plan_loads_what_it_does_not_need(environment: dict[str, str]) -> None:
    """Every kind of work, in one process: numpy.ma would take longer to load than the calls of
    numpy that bring it."""
    code = (
        "import sys, tomllib, pathlib, rightfit\n"
        "from rightfit.explain.voices import plan_document\n"
        f"kinds = tomllib.loads(pathlib.Path({str(OPTIONS)!r}).read_text())['kinds']\n"
        "for name, wish in kinds.items():\n"
        "    plan_document(rightfit.plan(**wish), 'en')\n"
        "    heavy = {'pandas', 'scipy', 'matplotlib', 'torch'} & set(sys.modules)\n"
        "    assert not heavy, (name, heavy)\n"
    )
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
