"""Headers of GGUF files: the dimensions that llama.cpp reads, and the parameters of the tensors;
weights are not read."""

from __future__ import annotations

import dataclasses
import math
import struct
from pathlib import Path
from typing import IO, Any

from rightfit.errors import FileInputError
from rightfit.facts.config_json import architecture_from_config
from rightfit.facts.config_reader import families
from rightfit.facts.records import TransformerArchitecture
from rightfit.messages import Message, at_place, system_problem

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_MOST = 10_000_000  # entries of a list (vocabularies have hundreds of thousands), characters of a text


class _BrokenError(Exception):
    """Not a GGUF file, or cut short."""


def read_gguf(path: Path) -> TransformerArchitecture:
    """The architecture that a GGUF file's header states, with the parameters of its tensors."""
    try:
        with path.open("rb") as stream:
            told, params = _header(stream)
    except (OSError, ValueError) as error:
        raise FileInputError(Message("facts.unreadable_file", path=path, error=system_problem(error)), field="model") from None
    except (_BrokenError, struct.error, OverflowError, MemoryError):
        raise FileInputError(at_place(str(path), Message("facts.no_gguf")), field="model") from None
    kind = str(told.get("general.architecture", ""))
    config: dict[str, Any] = {"model_type": families()["gguf_types"].get(kind, kind)}
    for key, ours in families()["gguf_keys"].items():
        if isinstance(value := told.get(f"{kind}.{key}"), int | float | list) and value:
            config[ours] = max(value) if isinstance(value, list) else value
    config.setdefault("vocab_size", told.get("tokenizer.ggml.tokens"))
    record = architecture_from_config(config, name=str(path), label=str(path), source=f"header of {path.name}")
    if not params:
        return record
    idle = record.params_total - record.params_active
    return dataclasses.replace(record, params_total=params, params_active=max(params - idle, 1), params_stored=params)


def _header(stream: IO[bytes]) -> tuple[dict[str, Any], int]:
    """Key -> value of the metadata (of a list of texts its length), and the parameters of all
    tensors."""
    if stream.read(4) != b"GGUF":
        raise _BrokenError
    version, tensors, entries = _unpack(stream, "<IQQ")
    if version not in (2, 3) or tensors > _MOST or entries > _MOST:
        raise _BrokenError
    told: dict[str, Any] = {}
    for _ in range(entries):
        key = _text(stream)
        told[key] = _value(stream, _unpack(stream, "<I")[0])
    params = 0
    for _ in range(tensors):
        _text(stream)
        (sides,) = _unpack(stream, "<I")
        if sides > 8:
            raise _BrokenError
        params += math.prod(_unpack(stream, f"<{sides}Q"))
        _unpack(stream, "<IQ")
    return told, params


def _unpack(stream: IO[bytes], form: str) -> tuple[Any, ...]:
    return struct.unpack(form, stream.read(struct.calcsize(form)))


def _text(stream: IO[bytes]) -> str:
    (length,) = _unpack(stream, "<Q")
    if length > _MOST:
        raise _BrokenError
    data = stream.read(length)
    if len(data) < length:
        raise _BrokenError
    return data.decode("utf-8", "replace")


def _value(stream: IO[bytes], kind: int) -> Any:
    if kind in _SCALARS:
        return _unpack(stream, f"<{_SCALARS[kind]}")[0]
    if kind == _TEXT:
        return _text(stream)
    if kind != _LIST:
        raise _BrokenError
    inner, count = _unpack(stream, "<IQ")
    if count > _MOST:
        raise _BrokenError
    if inner == _TEXT:
        for _ in range(count):
            _text(stream)
        return count
    return [_value(stream, inner) for _ in range(count)]
