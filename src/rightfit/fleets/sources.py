"""The text of a fleet as keys and values: YAML, JSON or a table, each refused
with file and line."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from rightfit.errors import FileInputError, InputError
from rightfit.messages import Message, cause, did_you_mean, foreign, system_problem
from rightfit.workload.options import OPTIONS
from rightfit.workload.vocabulary import nearest_words

# ---- What a fleet file says, checked for form: pydantic records with friendly values. `reading`
# turns them into hours and base units.
#
# Every key that a file may have stands here, with its meaning; the JSON Schema and the messages
# about wrong keys follow from it.

Text = Annotated[str, Field(min_length=1, max_length=500)]
Name = Annotated[str, Field(min_length=1, max_length=120)]
Time = Annotated[str, Field(min_length=1, max_length=40)]


def _listed(value: Any) -> Any:
    """ "a, b" is a list as well."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Names = Annotated[list[Text], BeforeValidator(_listed)]


class Record(BaseModel):
    """A part of a fleet file; a key that it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JobRecord(Record):
    """Work that begins and ends."""

    name: Name = Field(description="name of the job, once in a file")
    workload: dict[str, Any] = Field(description="options of `rightfit plan`: model, task, method, data ...")
    count: int = Field(default=1, ge=1, le=100_000, description="how many equal ones there are")
    earliest: Time | None = Field(default=None, description="not before: a date, or a duration from the start (36h, 2d)")
    deadline: Time | None = Field(default=None, description="done by: a date, or a duration from the start")
    after: Names = Field(default=[], description="names of jobs that must all be done before one of these starts")
    priority: int = Field(default=5, ge=1, le=9, description="who goes first where not all can be placed; 9 is the most important")
    interruptible: bool = Field(default=True, description="whether it may run on spot servers")
    team: Name | None = Field(default=None, description="whose budget pays for it")


class ServiceRecord(Record):
    """Work that goes on: requests to answer, by hour."""

    name: Name = Field(description="name of the service, once in a file")
    workload: dict[str, Any] = Field(description="options of `rightfit plan`; task serve is meant")
    demand: str | list[float] | None = Field(
        default=None,
        description="requests by hour: a rate (10/s), a rate and the shape of its day (10/s office), or 24 or 168 numbers in requests/s from midnight (of Monday)",
    )
    priority: int = Field(default=5, ge=1, le=9, description="who goes first where not all can be placed; 9 is the most important")
    interruptible: bool = Field(default=False, description="whether what serves above the least load of the day may be on spot servers")
    team: Name | None = Field(default=None, description="whose budget pays for it")
    share: Literal["whole", "mig", "turns"] = Field(
        default="whole",
        description="whether it may stand on a part of a card beside other services: mig (a slice of its own), turns (also a half or a quarter, in turn)",
    )


class OwnedRecord(Record):
    """What is paid already: servers of one's own, reservations, capacity blocks, savings plans."""

    server: Text | None = Field(default=None, description="PROVIDER/INSTANCE, where it is a cloud's")
    gpu: Text | None = Field(default=None, description="cards of a server of one's own: 8xH100")
    count: int = Field(default=1, ge=1, le=100_000, description="how many servers")
    region: Text | None = Field(default=None, description="where; left out: in every region")
    kind: Literal["own", "reservation", "block", "savings-plan"] = Field(default="own", description="how it is owned")
    usd_per_h: float | None = Field(default=None, gt=0, le=1e7, description="of a savings plan: what is committed an hour")
    cloud: Text | None = Field(default=None, description="of a savings plan: the cloud")
    since: Time | None = Field(default=None, description="from when: a date, or a duration from the start")
    until: Time | None = Field(default=None, description="until when")


class LimitRecord(Record):
    """What may be bought."""

    quota: Names = Field(
        default=[], description="limits of the accounts in words: 8 H100 in us-east-1; 192 vcpus on aws; 4 p4d.24xlarge spot"
    )
    budget: Text | None = Field(default=None, description="at most so much a month for all: 50000usd")
    teams: dict[Name, Text] = Field(default={}, description="budget of each team a month")
    clouds: Names = Field(default=[], description="clouds that may be used")
    regions: Names = Field(default=[], description="regions that may be used")
    sellers: Names = Field(default=[], description="tiers of sellers or sellers: major, established, all")
    purchase: Names = Field(default=[], description="ways to pay that may be used: on-demand, spot, reserved")
    price_age: Time | None = Field(default=None, description="the greatest age of a price: 90d")
    spot_share: float | None = Field(default=None, ge=0, le=1, description="greatest share of rented server-hours on spot, 0 to 1")


class FleetRecord(Record):
    """A fleet file."""

    schema_version: Literal[1] = 1
    name: Name = Field(default="fleet", description="what it is called in answers")
    start: Time | None = Field(default=None, description="when the plan begins: a date; left out: today")
    horizon: Time | None = Field(
        default=None, description="how long the plan looks ahead: 2w; left out: to the last deadline, a week at least"
    )
    steady: Time | None = Field(
        default=None, description="how long services, or all that repeats, go on: 12mo; decides whether commitments pay"
    )
    repeats: bool = Field(default=False, description="whether the jobs come again in every horizon, for as long as `steady` says")
    teams: list[Name] = Field(default=[], description="names of the teams; where given, a job of another one is refused")
    data_location: Text | None = Field(
        default=None,
        description="where the data of all jobs lie: PROVIDER/REGION, or home; elsewhere they cost their transfer and its time",
    )
    defaults: dict[str, Any] = Field(default={}, description="options of workloads for all jobs and services")
    jobs: list[JobRecord] = Field(default=[], description="work that begins and ends")
    services: list[ServiceRecord] = Field(default=[], description="work that goes on")
    owned: list[OwnedRecord] = Field(default=[], description="what is paid already; it is used first")
    limits: LimitRecord = Field(default=LimitRecord(), description="what may be bought")


MOST_LINES, MOST_BYTES = 20_000, 50_000_000
#: Columns of a table that are keys of a job or a service; every other one is an
#: option of the workload.
_JOB_KEYS, _SERVICE_KEYS = set(JobRecord.model_fields) - {"workload"}, set(ServiceRecord.model_fields) - {"workload"}


def lines_of(values: Mapping[str, Any]) -> int:
    """How many jobs and services a fleet has; one that may share cards counts as three, since parts
    of cards are searched for it too."""
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
    """One line a job; one with a demand, or with task serve, is a service. Columns that are no key
    of those are options of the workload."""
    reader = csv.DictReader(io.StringIO(text))
    columns = [column.strip() for column in reader.fieldnames or ()]
    known = {*_JOB_KEYS, *_SERVICE_KEYS, *OPTIONS}
    for column in columns:
        if column.replace("-", "_") not in known:
            near = nearest_words(column, sorted(known), count=2)
            hint = did_you_mean(near) or Message("fleet.columns", names=", ".join(sorted(_JOB_KEYS | _SERVICE_KEYS)))
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
