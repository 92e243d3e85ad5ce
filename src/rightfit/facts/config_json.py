"""Reading a model's config.json strictly: from a file, a folder or bytes; whatever is wrong is one line naming file and key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from rightfit.errors import FileInputError
from rightfit.facts.config_architecture import architecture_from_config
from rightfit.facts.records import TransformerArchitecture
from rightfit.messages import Message, foreign, system_problem

# The largest real config.json files (quantisation maps of every layer) are under 1 MB.
LARGEST_CONFIG_BYTES = 5_000_000
FILE_NAME = "config.json"


def read_config(path: Path | str) -> TransformerArchitecture:
    """Architecture in a config.json, given the file or the model folder that holds it."""
    file = Path(path)
    if file.is_dir():
        if not (file / FILE_NAME).exists():
            raise FileInputError(Message("facts.folder_without_config", folder=file, file=FILE_NAME))
        file = file / FILE_NAME
    config = parse_config(_read_bytes(file), label=str(file))
    return architecture_from_config(config, name=_name_of(file, config), label=str(file), source=f"{file.name} given by the user")


def _name_of(file: Path, config: Mapping[str, Any]) -> str:
    written = config.get("_name_or_path")
    if isinstance(written, str) and written.strip() and len(written) <= 200:
        return written
    return file.resolve().parent.name if file.name == FILE_NAME else file.stem


def _read_bytes(file: Path) -> bytes:
    try:
        if not file.is_file():
            raise FileInputError(Message("facts.no_config", path=file, file=FILE_NAME))
        size = file.stat().st_size
        if size > LARGEST_CONFIG_BYTES:
            raise FileInputError(
                Message("facts.config_larger", path=file, megabytes=size / 1000000.0, limit=LARGEST_CONFIG_BYTES / 1000000.0)
            )
        with file.open("rb") as stream:
            return stream.read(LARGEST_CONFIG_BYTES + 1)
    except (OSError, ValueError) as error:
        raise FileInputError(Message("facts.unreadable_file", path=file, error=system_problem(error))) from None


def parse_config(data: bytes, *, label: str) -> dict[str, Any]:
    """The JSON object in `data`; `label` names the file in errors. Repeated keys, NaN and infinities are refused."""
    if len(data) > LARGEST_CONFIG_BYTES:
        raise FileInputError(Message("facts.config_too_large", label=label, megabytes=LARGEST_CONFIG_BYTES / 1000000.0))
    text = _decode(data, label)
    if not text.strip():
        raise FileInputError(Message("facts.file_empty", label=label))
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, label), parse_constant=lambda word: _constant(word, label))
    except json.JSONDecodeError as error:
        raise FileInputError(
            Message("facts.config_not_json", label=label, row=error.lineno, column=error.colno, error=foreign(error.msg))
        ) from None
    except RecursionError:
        raise FileInputError(Message("facts.config_too_deep", label=label)) from None
    except ValueError as error:
        raise FileInputError(Message("facts.config_bad_number", label=label, error=foreign(str(error)[:80]))) from None
    if not isinstance(value, dict):
        raise FileInputError(Message("facts.config_no_object", label=label, problem=_json_type(value)))
    return value


def _decode(data: bytes, label: str) -> str:
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise FileInputError(Message("facts.config_not_text", label=label, byte=error.start)) from None


def _object(pairs: list[tuple[str, Any]], label: str) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise FileInputError(Message("facts.config_key_twice", label=label, word=repeated[:60]))
    return values


def _constant(word: str, label: str) -> NoReturn:
    raise FileInputError(Message("facts.config_not_a_number", label=label, word=word))


def _json_type(value: object) -> Message:
    names = {list: "list", str: "string", bool: "flag", int: "number", float: "number"}
    return Message(f"facts.part_json_{names.get(type(value), 'null')}")
