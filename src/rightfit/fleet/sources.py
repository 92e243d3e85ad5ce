"""The text of a fleet as keys and values: YAML, JSON or a table, each refused with file and line."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError, InputError
from rightfit.fleet.records import FleetRecord, JobRecord, ServiceRecord
from rightfit.messages import Message, cause, did_you_mean, foreign, system_problem
from rightfit.workload.options import OPTIONS
from rightfit.workload.vocabulary import nearest_words

MOST_LINES, MOST_BYTES = 20_000, 50_000_000
#: Columns of a table that are keys of a job or a service; every other one is an option of the workload.
_JOB_KEYS, _SERVICE_KEYS = set(JobRecord.model_fields) - {"workload"}, set(ServiceRecord.model_fields) - {"workload"}


def lines_of(values: Mapping[str, Any]) -> int:
    """How many jobs and services a fleet has; one that may share cards counts as three, since parts of cards are searched for it too."""
    listed = [row for key in ("jobs", "services") if isinstance(values.get(key), list) for row in values[key]]
    return sum(3 if isinstance(row, Mapping) and row.get("share") in ("mig", "turns") else 1 for row in listed)


def text_of(name: str) -> str:
    """The text of a file; FileInputError where it cannot be read."""
    from rightfit import reach

    reach.refuse_file(repr(name[:80]))
    try:
        path = Path(name)
        if path.is_dir():
            raise FileInputError(Message("problems.is_folder", name=name, example=path / "fleet.yaml"))
        if path.stat().st_size > MOST_BYTES:
            raise FileInputError(Message("fleet.too_large", name=name, megabytes=MOST_BYTES // 1000000))
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        near = (
            nearest_words(Path(name).name, [path.name for path in Path(name).parent.glob("*.*")][:200], count=1)
            if Path(name).parent.is_dir()
            else ()
        )
        raise FileInputError(Message("problems.no_file", name=name, hint=did_you_mean([Path(name).parent / one for one in near]))) from None
    except UnicodeDecodeError as error:
        raise FileInputError(Message("fleet.not_text", name=name, byte=error.start)) from None
    except (OSError, ValueError) as error:
        raise FileInputError(Message("problems.cannot_read", name=name, error=system_problem(error))) from None


def from_text(name: str, text: str) -> Mapping[str, Any]:
    """The keys of a fleet that is written in YAML or JSON; FileInputError where it is neither."""
    if not text.strip():
        raise FileInputError(Message("fleet.empty", name=name))
    try:
        value = json.loads(text) if text.lstrip().startswith("{") else _yaml(name, text)
    except json.JSONDecodeError as error:
        raise FileInputError(
            Message("problems.not_json", name=name, line=error.lineno, column=error.colno, error=foreign(error.msg))
        ) from None
    except RecursionError:
        raise FileInputError(Message("fleet.too_deep", name=name)) from None
    if not isinstance(value, Mapping):
        raise FileInputError(Message("fleet.no_mapping", name=name, keys=", ".join(FleetRecord.model_fields)))
    return value


def _yaml(name: str, text: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise FileInputError(Message("fleet.alias", name=name, line=line, anchor=event.anchor))
        return _plain_keys(yaml.load(text, Loader=loader))  # noqa: S506  (a safe loader)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or str(error).splitlines()[0]
        place = Message("problems.at_line", line=mark.line + 1, column=mark.column + 1) if mark else ""
        raise FileInputError(Message("problems.not_yaml", name=name, line=place, error=foreign(problem))) from None
    except ValueError as error:
        raise FileInputError(Message("problems.not_yaml", name=name, line="", error=cause(error))) from None


def _plain_keys(value: Any) -> Any:
    """Dates that YAML reads as dates become text again; keys become text."""
    if isinstance(value, Mapping):
        return {str(key): _plain_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain_keys(item) for item in value]
    return value.isoformat() if isinstance(value, datetime.date) else value


def from_csv(name: str, text: str) -> Mapping[str, Any]:
    """One line a job; one with a demand, or with task serve, is a service. Columns that are no key of those are options of the workload."""
    reader = csv.DictReader(io.StringIO(text))
    columns = [column.strip() for column in reader.fieldnames or ()]
    known = {*_JOB_KEYS, *_SERVICE_KEYS, *OPTIONS}
    for column in columns:
        if column.replace("-", "_") not in known:
            near = nearest_words(column, sorted(known), count=2)
            hint = did_you_mean(near) or Message("fleet.part_columns", names=", ".join(sorted(_JOB_KEYS | _SERVICE_KEYS)))
            raise UnknownColumnError(name, column, hint, near)
    jobs: list[dict[str, Any]] = []
    services: list[dict[str, Any]] = []
    for number, row in enumerate(reader, start=2):
        if row.get(None) or any(value is None for value in row.values()):
            raise FileInputError(Message("fleet.cells", name=name, line=number, count=len(columns)))
        cells = {key.strip().replace("-", "_"): value.strip() for key, value in row.items() if value and value.strip()}
        if len(jobs) + len(services) >= MOST_LINES:
            raise too_many(name, sum(1 for _ in reader) + MOST_LINES + 1)
        is_service = "demand" in cells or cells.get("task") == "serve"
        keys = _SERVICE_KEYS if is_service else _JOB_KEYS
        record: dict[str, Any] = {key: value for key, value in cells.items() if key in keys}
        record["workload"] = {key: value for key, value in cells.items() if key not in keys}
        record.setdefault("name", f"line-{number}")
        (services if is_service else jobs).append(record)
    return {"jobs": jobs, "services": services}


class UnknownColumnError(FileInputError):
    """A column of a table that is neither a key of a job nor an option of a workload."""

    def __init__(self, name: str, column: str, hint: Message | str, near: Sequence[str]) -> None:
        super().__init__(Message("fleet.no_column", name=name, column=repr(column[:80]), hint=hint), field=column[:80], nearest=near)


def too_many(where: str, lines: int) -> InputError:
    """What is said of a fleet that is too long."""
    return InputError(
        Message("fleet.too_many", where=where, lines=lines, most=MOST_LINES),
        field="jobs",
        allowed=f"at most {MOST_LINES:,}",
    )
