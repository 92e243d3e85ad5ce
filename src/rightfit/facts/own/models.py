"""From a reference to a record: counted by a worker or from headers, once for each content."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from rightfit.errors import FileInputError, UnknownNameError
from rightfit.facts.own import cache
from rightfit.facts.own.described import architecture_of
from rightfit.facts.own.process import run_worker
from rightfit.facts.own.reference import Reference, parse
from rightfit.facts.own.tally import Tally, record_of
from rightfit.facts.records import Model, TracedModel
from rightfit.messages import Message, system_problem

#: Protobuf itself reads no more.
LARGEST_ONNX_BYTES = (1 << 31) - 1


def own_model(text: str) -> Model:
    """The record of a model of the user's own; raises what is wrong with it, in one line."""
    reference = parse(text)
    if reference is None:
        raise UnknownNameError("model", text, allowed=Message("names.part_own_model"), field="model")
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
        digest = cache.file_digest(Path(path))
    except OSError as error:
        raise FileInputError(Message("facts.unreadable_file", path=path, error=system_problem(error)), field="model") from None
    # External data are judged by where they lie, so the same bytes in another folder are another case.
    key = cache.key_of("onnx", digest, str(Path(path).resolve().parent), reference.shape.text)
    entry = cache.read(key)
    values = entry["result"] if entry else run_worker("onnx", path, reference.shape.text, label=path)
    if entry is None:
        cache.write(key, values)
    return record_of(Tally.of(values["tally"]), name=reference.text, source=f"traced from {Path(path).name} (sha256 {digest[:12]})")


#: Functions that were run in this process, by their text.
_RUN: dict[tuple[str, str], Model] = {}


def run_function(text: str) -> Model:
    """The record of module:function. Runs the user's own code, once for each process; between processes the counts hold while the imported
    files are the same."""
    reference = parse(text)
    assert reference is not None
    folder = str(Path.cwd())
    if (folder, text) not in _RUN:
        _RUN[folder, text] = _counted_function(reference, folder)
    return _RUN[folder, text]


def _counted_function(reference: Reference, folder: str) -> Model:
    key = cache.key_of("function", reference.target, folder, os.environ.get("PYTHONPATH", ""), reference.shape.text)
    entry = cache.read(key)
    values = entry["result"] if entry else run_worker("function", reference.target, reference.shape.text, label=reference.target)
    if entry is None and values["files"]:
        cache.write(key, {name: values[name] for name in ("tally", "config")}, files=values["files"])
    tally, source = Tally.of(values["tally"]), f"traced from {reference.target}"
    found = architecture_of(values.get("config"), tally.params, name=reference.text, source=source)
    return found or record_of(tally, name=reference.text, source=source)


def _known_function(reference: Reference) -> Model:
    """A function that was run already: code runs where a plan names it, never because a table or a record does."""
    found = _RUN.get((str(Path.cwd()), reference.text))
    if found is None:
        raise UnknownNameError("model", reference.text, allowed=Message("names.part_own_code"), field="model")
    return found
