"""The process that looks into a model of the user's own: limited in time and, for files, in memory, so that no file can hurt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError, InputError, MissingComponentError
from rightfit.messages import Message, at_place, from_data

#: Files are read in well under a second each 100 MB; building and tracing large PyTorch modules takes minutes at most.
SECONDS = {"onnx": 60, "function": 300}
#: Address space of the process that parses a file: Python and onnx, and several copies of the file while it is parsed. The user's own code
#: is not
#: limited, it may need what it needs.
BASE_BYTES, BYTES_PER_BYTE = 2 << 30, 8
_EXTRAS = {"onnx": "onnx", "function": "trace"}
_ERRORS = {"file": FileInputError, "input": InputError}


def run_worker(kind: str, target: str, shape: str, *, label: str) -> dict[str, Any]:
    """What `worker` says about `target`; its refusal, its end by a limit or by a crash are one line each."""
    label = " ".join(label.split())
    seconds = _seconds(kind)
    with tempfile.TemporaryDirectory(prefix="rightfit-") as folder:
        answer = Path(folder) / "answer.json"
        address = _address_bytes(kind, target)
        command = [
            sys.executable,
            "-P",
            "-m",
            "rightfit.facts.own.worker",
            kind,
            target,
            shape,
            str(answer),
            str(address),
            str(seconds),
        ]
        try:
            done = _run(command, seconds)
        except subprocess.TimeoutExpired:
            raise _failed(kind, label, Message("facts.own_time", seconds=seconds)) from None
        values = _answer(answer)
    if values is None:
        raise _failed(kind, label, _end(kind, done.returncode, done.stderr, address))
    if "missing" in values:
        raise MissingComponentError(Message("facts.needs_package", label=label, package=values["missing"], extra=_EXTRAS[kind]))
    if "error" in values:
        raise _ERRORS[values.get("type", "input")](at_place(label, from_data(values["error"])), field="model")
    return values


def _address_bytes(kind: str, target: str) -> int:
    """The limit of memory; 0 for none."""
    return BASE_BYTES + BYTES_PER_BYTE * Path(target).stat().st_size if kind == "onnx" else 0


def _seconds(kind: str) -> int:
    """The limit of time; RIGHTFIT_TRACE_SECONDS sets another for the user's own code."""
    given = os.environ.get("RIGHTFIT_TRACE_SECONDS", "")
    return int(given) if kind == "function" and given.isdigit() and int(given) > 0 else SECONDS[kind]


def _run(command: list[str], seconds: int) -> subprocess.CompletedProcess[str]:
    """Run in a process group of its own, so that what the user's code started ends with it."""
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))}
    with subprocess.Popen(  # noqa: S603 - our own worker
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        env=environment, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            _, said = process.communicate(timeout=seconds)
        except BaseException:
            _end_group(process)
            raise
    return subprocess.CompletedProcess(command, process.returncode, "", said)


def _end_group(process: subprocess.Popen[str]) -> None:
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
    else:
        process.kill()
    process.wait()


def _answer(path: Path) -> dict[str, Any] | None:
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return values if isinstance(values, dict) else None


def _failed(kind: str, label: str, problem: Message) -> InputError:
    """The error of a worker that gave no answer, with what may help."""
    cure = Message("facts.own_cure_onnx" if kind == "onnx" else "facts.own_cure_function")
    told = Message("facts.own_failed", label=label, problem=problem, cure=cure)
    return (FileInputError if kind == "onnx" else InputError)(told, field="model")


def _end(kind: str, code: int, said: str, address_bytes: int) -> Message:
    """Why a process ended without an answer."""
    if code < 0 and -code == getattr(signal, "SIGXCPU", 0):
        return Message("facts.own_cpu_time", seconds=_seconds(kind))
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
    if "MemoryError" in last or "bad_alloc" in last or (kind == "onnx" and "memory" in last.casefold()):
        return Message("facts.own_too_much_memory", size=address_bytes / 2**30) if kind == "onnx" else Message("facts.own_out_of_memory")
    if code < 0:
        return Message("facts.own_crashed", signal=signal.Signals(-code).name)
    return Message("facts.own_ended", word=last[:160]) if last else Message("facts.own_ended_silently")
