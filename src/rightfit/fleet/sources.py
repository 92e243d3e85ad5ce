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
            raise FileInputError(f"{name} is a folder; give a file, for example {path / 'fleet.yaml'}")
        if path.stat().st_size > MOST_BYTES:
            raise FileInputError(
                f"{name} is too large for a fleet (over {MOST_BYTES // 1_000_000} MB); equal jobs are one line with a count"
            )
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        near = (
            nearest_words(Path(name).name, [path.name for path in Path(name).parent.glob("*.*")][:200], count=1)
            if Path(name).parent.is_dir()
            else ()
        )
        raise FileInputError(f"no such file: {name}" + (f"; did you mean {Path(name).parent / near[0]}?" if near else "")) from None
    except UnicodeDecodeError as error:
        raise FileInputError(f"{name}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from None
    except (OSError, ValueError) as error:
        raise FileInputError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from None


def from_text(name: str, text: str) -> Mapping[str, Any]:
    """The keys of a fleet that is written in YAML or JSON; FileInputError where it is neither."""
    if not text.strip():
        raise FileInputError(f"{name} is empty; a fleet has jobs, services or both")
    try:
        value = json.loads(text) if text.lstrip().startswith("{") else _yaml(name, text)
    except json.JSONDecodeError as error:
        raise FileInputError(f"{name} line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}") from None
    except RecursionError:
        raise FileInputError(f"{name}: nested too deeply for a fleet") from None
    if not isinstance(value, Mapping):
        raise FileInputError(f"{name}: a fleet is a mapping with the keys {', '.join(FleetRecord.model_fields)}")
    return value


def _yaml(name: str, text: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise FileInputError(
                    f"{name} line {line}: aliases (*{event.anchor}) are not allowed in a fleet; what all share stands under defaults"
                )
        return _plain_keys(yaml.load(text, Loader=loader))  # noqa: S506  (a safe loader)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or str(error).splitlines()[0]
        place = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise FileInputError(f"{name}{place}: not valid YAML: {problem}") from None
    except ValueError as error:
        raise FileInputError(f"{name}: not valid YAML: {error}") from None


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
            hint = (
                f"; did you mean {' or '.join(near)}?"
                if near
                else f"; allowed: {', '.join(sorted(_JOB_KEYS | _SERVICE_KEYS))} and the options of plan"
            )
            raise UnknownColumnError(name, column, hint, near)
    jobs: list[dict[str, Any]] = []
    services: list[dict[str, Any]] = []
    for number, row in enumerate(reader, start=2):
        if row.get(None) or any(value is None for value in row.values()):
            raise FileInputError(f"{name} line {number}: {len(columns)} cells are needed, one for each column")
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

    def __init__(self, name: str, column: str, hint: str, near: Sequence[str]) -> None:
        super().__init__(f"{name} line 1: no such column {column[:80]!r}{hint}", field=column[:80], nearest=near)


def too_many(where: str, lines: int) -> InputError:
    """What is said of a fleet that is too long."""
    return InputError(
        f"{where}: {lines:,} jobs and services; a fleet holds at most {MOST_LINES:,} of them: write equal ones as one with a count, or plan parts",
        field="jobs",
        allowed=f"at most {MOST_LINES:,}",
    )
