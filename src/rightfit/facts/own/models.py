"""From a reference to a record: counted by a worker or from headers, once for each content."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError, InputError, MissingComponentError, UnknownNameError
from rightfit.facts.own.reference import Reference, Tally, architecture_of, parse, record_of
from rightfit.facts.records import Model, TracedModel
from rightfit.files import cache_folder, write_whole
from rightfit.messages import Message, at_place, from_data, system_problem

# ---- Counts kept in the cache folder by the content of what they were counted from. A cache that
# cannot be used costs time, never an answer.

#: Raised when the way of counting changes, so that old counts are counted again.
VERSION = 1
_CHUNK_BYTES = 1 << 20


def _path_of(key: str) -> Path:
    return cache_folder() / "own-models" / f"{key}.json"


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def key_of(*parts: str) -> str:
    """A name for an entry from what it depends on."""
    return hashlib.sha256("\0".join((str(VERSION), *parts)).encode()).hexdigest()


def read(key: str) -> dict[str, Any] | None:
    """The entry, or None when there is none that can be read, or a file that it was
    counted from has changed."""
    try:
        entry = json.loads(_path_of(key).read_text("utf-8"))
        same = all(file_digest(Path(path)) == digest for path, digest in entry.get("files", {}).items())
        return entry if same and isinstance(entry["result"], dict) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write(key: str, result: dict[str, Any], *, files: dict[str, str] | None = None) -> None:
    """Keep an entry, whole or not at all. `files`: digests that must still hold when it is read."""
    with contextlib.suppress(OSError):
        _path_of(key).parent.mkdir(parents=True, exist_ok=True)
        write_whole(_path_of(key), json.dumps({"result": result, "files": files or {}}))


# ---- The process that looks into a model of the user's own: limited in time and, for files, in
# memory, so that no file can hurt.

#: Files are read in well under a second each 100 MB; building and tracing large PyTorch modules
#: takes minutes at most.
SECONDS = {"onnx": 60, "function": 300}
#: Address space of the process that parses a file: Python and onnx, and several copies of the file
#: while it is parsed. The user's own code is not limited, it may need what it needs.
BASE_BYTES, BYTES_PER_BYTE = 2 << 30, 8
_EXTRAS = {"onnx": "onnx", "function": "trace"}
_ERRORS = {"file": FileInputError, "input": InputError}


def run_worker(kind: str, target: str, shape: str, *, label: str) -> dict[str, Any]:
    """What `worker` says about `target`; its refusal, its end by a limit or by a crash
    are one line each."""
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


#: Protobuf itself reads no more.
LARGEST_ONNX_BYTES = (1 << 31) - 1


def own_model(text: str) -> Model:
    """The record of a model of the user's own; raises what is wrong with it, in one line."""
    reference = parse(text)
    if reference is None:
        raise UnknownNameError("model", text, allowed=Message("names.own_model"), field="model")
    if reference.kind == "function":
        return _known_function(reference)
    path = Path(os.path.expanduser(reference.target))  # noqa: PTH111 - leaves the text as it is where there is no home
    if reference.kind == "safetensors":
        from rightfit.facts.own.safetensors_file import read_tensors

        return read_tensors(path, name=reference.text)
    size, changed_ns = _file_state(path)
    return _onnx_record(reference, str(path), size, changed_ns)


def _file_state(path: Path) -> tuple[int, int]:
    """Size and time of change of a file that can be read."""
    try:
        if not path.is_file():
            raise FileInputError(Message("facts.no_such_file", path=path), field="model")
        state = path.stat()
    except (OSError, ValueError) as error:
        raise FileInputError(Message("facts.unreadable_file", path=path, error=system_problem(error)), field="model") from None
    if state.st_size == 0:
        raise FileInputError(Message("facts.file_empty", label=path), field="model")
    if state.st_size > LARGEST_ONNX_BYTES:
        raise FileInputError(Message("facts.onnx_too_large", path=path, gigabytes=state.st_size / 1000000000.0), field="model")
    return state.st_size, state.st_mtime_ns


@functools.lru_cache(maxsize=64)
def _onnx_record(reference: Reference, path: str, size: int, changed_ns: int) -> TracedModel:
    del size, changed_ns  # part of the key: a file that has changed is read again
    try:
        digest = file_digest(Path(path))
    except OSError as error:
        raise FileInputError(Message("facts.unreadable_file", path=path, error=system_problem(error)), field="model") from None
    # External data are judged by where they lie, so the same bytes in another
    # folder are another case.
    key = key_of("onnx", digest, str(Path(path).resolve().parent), reference.shape.text)
    entry = read(key)
    values = entry["result"] if entry else run_worker("onnx", path, reference.shape.text, label=path)
    if entry is None:
        write(key, values)
    return record_of(Tally.of(values["tally"]), name=reference.text, source=f"traced from {Path(path).name} (sha256 {digest[:12]})")


#: Functions that were run in this process, by their text.
_RUN: dict[tuple[str, str], Model] = {}


def run_function(text: str) -> Model:
    """The record of module:function. Runs the user's own code, once for each process; between
    processes the counts hold while the imported files are the same."""
    reference = parse(text)
    assert reference is not None
    folder = str(Path.cwd())
    if (folder, text) not in _RUN:
        _RUN[folder, text] = _counted_function(reference, folder)
    return _RUN[folder, text]


def _counted_function(reference: Reference, folder: str) -> Model:
    key = key_of("function", reference.target, folder, os.environ.get("PYTHONPATH", ""), reference.shape.text)
    entry = read(key)
    values = entry["result"] if entry else run_worker("function", reference.target, reference.shape.text, label=reference.target)
    if entry is None and values["files"]:
        write(key, {name: values[name] for name in ("tally", "config")}, files=values["files"])
    tally, source = Tally.of(values["tally"]), f"traced from {reference.target}"
    found = architecture_of(values.get("config"), tally.params, name=reference.text, source=source)
    return found or record_of(tally, name=reference.text, source=source)


def _known_function(reference: Reference) -> Model:
    """A function that was run already: code runs where a plan names it, never because a
    table or a record does."""
    found = _RUN.get((str(Path.cwd()), reference.text))
    if found is None:
        raise UnknownNameError("model", reference.text, allowed=Message("names.own_code"), field="model")
    return found
