"""The run record: what a real run did, as plain JSON that every reader writes and
every consumer reads.

`setup` describes the case in the columns of `rightfit predict`, so that the same run can be
predicted; `measured` holds figures whose definition is known (facts/data/run_metrics.csv). A figure
may be one-sided: `bound` ">=" says that at least so much was needed. Secrets are taken out of
commands and addresses before a record is made.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rightfit import facts, files
from rightfit.errors import FileInputError, RightfitError, UnavailableError, UnknownNameError
from rightfit.facts.tables import nearest
from rightfit.measure.harmless import harmless, harmless_address, harmless_command, harmless_text
from rightfit.messages import Message, at_place, cause, foreign, system_problem

# ---- Whether there is something at a place that a user named: a name that no file system takes is
# a place where nothing is, not a fault.


def is_there(path: str | Path) -> bool:
    """Whether a file or folder is there."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long, or with a zero byte
        return False


def is_folder(path: str | Path) -> bool:
    """Whether a folder is there."""
    return is_there(path) and Path(path).is_dir()


# ---- Files of records: written whole or not at all.


def write_whole(path: str | Path, text: str) -> None:
    """Write a file of records. Raises UnavailableError (no right, full disk)."""
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(place, text)
    except OSError as error:
        raise UnavailableError(Message("problems.cannot_write", name=place, error=system_problem(error))) from None


def written_elsewhere(runs: Sequence[Run]) -> Path | None:
    """Write records that their own place did not take to another one that has room: the folder of
    the command, the user's, those for temporary files, memory. None where none has."""
    text, name = written(runs), f"rightfit-run-{runs[0].id if runs else 'none'}.json"
    for place in (".", os.path.expanduser("~"), tempfile.gettempdir(), "/var/tmp", "/dev/shm"):  # noqa: PTH111, S108  (files of the user's own)
        path = Path(place, name).absolute()
        if Path(place).is_dir():
            with contextlib.suppress(UnavailableError):
                write_whole(path, text)
                return path
    return None


# ---- Columns that describe the set-up of a run: those that `rightfit predict` reads and that say
# what ran, without name, metric and what was measured.

_NOT_SETUP = frozenset(("id", "metric", "measured", "date"))


@cache
def setup_columns() -> tuple[str, ...]:
    """Every such column once."""
    return tuple(dict.fromkeys(row["column"] for row in facts.table("case_columns") if row["column"] not in _NOT_SETUP))


SCHEMA_VERSION = 1
#: Points that a series may keep, and how much else a record may have: many times what a run
#: leaves, and little enough that a server reads it in a moment.
MOST_POINTS, MOST_SERIES, MOST_FIGURES, MOST_WARNINGS, MOST_SETUP = 600, 60, 800, 200, 300
LONGEST_COMMAND, _LONGEST_TEXT = 20_000, 4_000
_Said = Annotated[str, Field(max_length=_LONGEST_TEXT)]
_ID_LENGTH = 12
#: Columns of a set-up that are options of a wish.
_WISHES = ("model", "method", "seq_len", "precision", "framework")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Metric(_Part):
    """A metric as facts/data/run_metrics.csv defines it. `sense`: cost (less is
    better), rate, or state."""

    metric: str
    unit: str
    figure: str
    sense: str
    definition: str
    en: str
    zh: str
    source: str


class Measured(_Part):
    """One figure of a run, in the unit of its metric."""

    metric: str
    value: float
    unit: str = ""
    statistic: Literal["mean", "median", "p50", "p90", "p95", "p99", "max", "last", "total"] = "mean"
    n: int | None = Field(default=None, ge=0, description="observations behind the value")
    spread: float | None = Field(default=None, ge=0, description="standard error of the value, in its unit")
    bound: Literal["", ">=", "<="] = ""
    definition: _Said = ""
    counter: str = Field(default="", description="of memory: allocated, reserved, nvidia-smi or preallocated")


class Source(_Part):
    """Where a record comes from."""

    kind: str
    tool: str = ""
    version: str = ""
    path_or_url: str = ""


class Series(_Part):
    """A figure over time: seconds since the start, and values in the unit of its metric."""

    metric: str
    at_s: list[float] = Field(max_length=MOST_POINTS)
    values: list[float] = Field(max_length=MOST_POINTS)


class Run(_Part):
    """One run. `setup` has the columns of `rightfit predict`; `server` what was rented; `host`
    {cpus, memory_bytes, gpus}."""

    schema_version: Literal[1] = 1
    kind: Literal["run"] = "run"
    id: str = ""
    source: Source
    command: str = Field(default="", max_length=LONGEST_COMMAND)
    exit_code: int | None = None
    signal: int | None = None
    oom: bool = False
    complete: bool = True
    started: str = ""
    duration_s: float | None = Field(default=None, ge=0)
    workload: dict[str, Any] = Field(default_factory=dict, max_length=MOST_SETUP)
    setup: dict[str, _Said] = Field(default_factory=dict, max_length=MOST_SETUP)
    server: dict[str, Any] = Field(default_factory=dict, max_length=MOST_SETUP)
    host: dict[str, Any] = Field(default_factory=dict, max_length=MOST_SETUP)
    measured: list[Measured] = Field(default_factory=list, max_length=MOST_FIGURES)
    series: list[Series] = Field(default_factory=list, max_length=MOST_SERIES)
    warnings: list[_Said] = Field(default_factory=list, max_length=MOST_WARNINGS)
    profile: dict[str, Any] = Field(default_factory=dict, description="seconds a step by kind of operator, where they were profiled")

    def value(self, *names: str) -> float | None:
        """The first of these metrics that was measured, preferring two-sided figures."""
        found = [item for name in names for item in self.measured if item.metric == name]
        return min(found, key=lambda item: bool(item.bound)).value if found else None


@cache
def metrics() -> Mapping[str, Metric]:
    """Every metric of a record by its name."""
    return {row["metric"]: Metric.model_validate(row) for row in facts.table("run_metrics")}


def metric(name: str) -> Metric:
    """A metric by its name. Raises UnknownNameError."""
    if name not in metrics():
        raise UnknownNameError("metric", name, nearest=nearest(name, list(metrics())))
    return metrics()[name]


def measured(name: str, value: float, **more: Any) -> Measured:
    """A figure with the unit and the definition of its metric."""
    known = metric(name)
    return Measured(metric=name, value=value, unit=known.unit, **{"definition": known.definition, **more})


def own_version() -> str:
    """The version of rightfit that writes a record, as it was installed; empty where it runs
    from its source alone."""
    try:
        return version("rightfit")
    except PackageNotFoundError:
        return ""


def sealed(run: Run) -> Run:
    """The run with secrets taken out and an id made of its content, so that the same run read
    twice is one record."""
    told = {name: harmless(getattr(run, name)) for name in ("workload", "setup", "server", "host", "warnings", "profile")}
    source = {**harmless(run.source.model_dump()), "path_or_url": harmless_address(run.source.path_or_url)}
    measured = [item.model_copy(update={"definition": harmless_text(item.definition)}) for item in run.measured]
    whole = {"source": Source(**source), "command": harmless_command(run.command), "measured": measured, **told, "id": ""}
    clean = run.model_copy(update=whole)
    text = json.dumps(clean.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return clean.model_copy(update={"id": hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]})


# ---- as JSON -------------------------------------------------------------------------------------


def document(run: Run) -> dict[str, Any]:
    """The record as the contract names it: the run itself, and its figures by subject (`steps`,
    `service`, `utilisation` ...) in base units."""
    return {**run.model_dump(mode="json"), **_summary(run)}


def _summary(run: Run) -> dict[str, Any]:
    memory = run.value("peak_mem_gib_per_gpu", "peak_mem_gib")
    steps = [item for item in run.measured if item.metric in ("step_time_s", "s_per_iter") and not item.bound]
    return {
        "steps": {"count": steps[0].n, "step_s": _interval(steps[0])} if steps else None,
        "data_wait_share": run.value("data_wait_share"),
        "peak_memory_bytes": None if memory is None else memory * 2**30,
        "peak_host_memory_bytes": run.value("host_memory_peak_bytes"),
        "utilisation": {
            "gpu": run.value("gpu_busy_share"),
            "cpu": run.value("cpu_share"),
            "disk": run.value("disk_read_bytes_per_s"),
            "network": run.value("net_recv_bytes_per_s"),
        },
        "service": _service(run),
    }


def _interval(item: Measured) -> dict[str, float]:
    """The value with its 80 % interval (1.2816 standard errors)."""
    half = 1.2816 * (item.spread or 0.0)
    return {"mid": item.value, "low80": max(item.value - half, 0.0), "high80": item.value + half}


def _service(run: Run) -> dict[str, Any] | None:
    percentiles = {name: _by_statistic(run, name) for name in ("ttft_ms", "tpot_ms", "latency_ms")}
    rate = run.value("req_per_s")
    if rate is None and not any(percentiles.values()):
        return None
    return {
        "requests_per_s": rate,
        "ttft_s": percentiles["ttft_ms"],
        "tpot_s": percentiles["tpot_ms"],
        "latency_s": percentiles["latency_ms"],
    }


def _by_statistic(run: Run, name: str) -> dict[str, float]:
    return {item.statistic: item.value / 1000.0 for item in run.measured if item.metric == name and not item.bound}


SUMMARY = ("steps", "data_wait_share", "peak_memory_bytes", "peak_host_memory_bytes", "utilisation", "service")


_THE_RECORD = Message("measure.the_record")


def run_of(found: Any, *, where: Message | str = _THE_RECORD) -> Run:
    """A record from its JSON. Raises FileInputError with every problem in one line."""
    if not isinstance(found, Mapping) or found.get("kind") != "run":
        raise FileInputError(Message("measure.not_a_run_record", elsewhere=where))
    try:
        run = Run.model_validate({name: value for name, value in found.items() if name not in SUMMARY})
    except ValidationError as error:
        found_wrong = (at_place(".".join(map(str, item["loc"])), foreign(item["msg"].lower())) for item in error.errors()[:3])
        problems = functools.reduce(lambda first, other: Message("problems.and_also", first=first, other=other), found_wrong)
        raise FileInputError(Message("measure.not_a_valid_run_record", elsewhere=where, problem=problems)) from None
    for item in run.measured:
        metric(item.metric)
    return run if run.id else sealed(run)


#: A record has a handful of levels; one that has more is no record and may be an attack.
_DEEPEST = 40


def json_of(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError, also for one that is nested without end."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [found]
    for _ in range(_DEEPEST):
        level = [item for one in level if isinstance(one, dict | list) for item in (one.values() if isinstance(one, dict) else one)]
        if not level:
            return found
    raise ValueError("nested too deeply")


def left_out(place: object, error: object) -> None:
    """Say in one line that something is left out, to whoever listens (standard error,
    where nobody does)."""
    import logging

    logging.getLogger("rightfit.measure").warning("warning: %s is left out: %s", place, " ".join(str(error).split())[:300])


def good_runs(items: Sequence[Any], where: str) -> list[Run]:
    """The records among what may be some: one that is damaged is left out with one line. Raises
    FileInputError where none is left."""
    found: list[Run] = []
    first: RightfitError | None = None
    for number, item in enumerate(items, start=1):
        try:
            found.append(run_of(item, where=where))
        except RightfitError as error:
            first = first or error
            if len(items) > 1:
                left_out(f"{where}, record {number}", error)
    if first is not None and not found:
        raise (
            first
            if len(items) == 1
            else FileInputError(Message("measure.none_of_several", file=where, count=len(items), problem=first.message))
        )
    return found


def read_runs(path: str | Path) -> list[Run]:
    """Records of a JSON file (one record or a list of them) or of every JSON file of a folder;
    what is damaged among several is left out with one line. Raises FileInputError."""
    place = Path(path)
    if is_folder(place):
        found = [run for file in sorted(place.rglob("*.json")) for run in _runs_in_folder(file)]
        if not found:
            raise FileInputError(Message("measure.holds_no_run_record", folder=place))
        return unique(found)
    try:
        content = json_of(place.read_bytes())
    except OSError as error:
        raise FileInputError(Message("problems.cannot_read", name=place, error=system_problem(error))) from None
    except ValueError as error:
        raise FileInputError(Message("measure.not_json", file=place, error=cause(error))) from None
    return good_runs(items_of(content), str(place))


def items_of(content: Any) -> list[Any]:
    """What may be records: a list, the list of a server, or one alone."""
    many = content["items"] if isinstance(content, Mapping) and isinstance(content.get("items"), list) else content
    return many if isinstance(many, list) else [many]


def _runs_in_folder(path: Path) -> list[Run]:
    """The records of a file that may hold something else."""
    try:
        items = items_of(json_of(path.read_bytes()))
        return good_runs(items, str(path)) if is_record(items) else []
    except (OSError, ValueError, RightfitError) as error:
        left_out(path, error)
        return []


def is_record(content: Any) -> bool:
    """Whether JSON is a run record, or a list that begins with one."""
    first = next(iter(items_of(content)), None)
    return isinstance(first, Mapping) and first.get("kind") == "run"


def unique(runs: Iterable[Run]) -> list[Run]:
    """Each record once, in order."""
    return list({run.id: run for run in runs}.values())


def written(runs: Sequence[Run]) -> str:
    """Records as the text of a JSON file: one record, or a list of several."""
    documents = [document(run) for run in runs]
    return json.dumps(documents[0] if len(documents) == 1 else documents, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


# ---- several records of one run ------------------------------------------------------------------


def merged(runs: Sequence[Run]) -> Run:
    """One record of what several programs saw of the same run. Raises FileInputError where they
    contradict each other about the set-up."""
    setup = _joined(runs, "setup")
    tools = "+".join(dict.fromkeys(run.source.tool or run.source.kind for run in runs))
    last = runs[-1]
    whole = Run(
        source=Source(kind="merged", tool=tools, path_or_url=", ".join(run.id for run in runs)),
        command=next((run.command for run in runs if run.command), ""),
        exit_code=next((run.exit_code for run in runs if run.exit_code), last.exit_code),
        signal=next((run.signal for run in runs if run.signal), None),
        oom=any(run.oom for run in runs),
        complete=all(run.complete for run in runs),
        started=min((run.started for run in runs if run.started), default=""),
        duration_s=max((run.duration_s for run in runs if run.duration_s is not None), default=None),
        workload=_joined(runs, "workload"),
        setup=setup,
        server=_joined(runs, "server"),
        host=_joined(runs, "host"),
        measured=_figures(runs),
        series=[series for run in runs for series in run.series],
        warnings=list(dict.fromkeys(text for run in runs for text in run.warnings)),
        profile=next((run.profile for run in runs if run.profile), {}),
    )
    return sealed(whole)


def wishes_of(runs: Sequence[Run]) -> dict[str, str]:
    """What runs tell of the wish that they are of; of several the last that says it."""
    return {name: value for run in runs for name, value in run.setup.items() if name in _WISHES}


def _joined(runs: Sequence[Run], part: str) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    for run in runs:
        for name, value in getattr(run, part).items():
            if value in ("", None):
                continue
            if joined.setdefault(name, value) != value:
                raise FileInputError(Message("measure.not_one_run", run=run.id, option=name, value=value, other=joined[name]), field=part)
    return joined


def _figures(runs: Sequence[Run]) -> list[Measured]:
    """Every figure once; of two of the same kind the one with more observations."""
    kept: dict[tuple[str, str, str, str], Measured] = {}
    for item in (item for run in runs for item in run.measured):
        key = (item.metric, item.statistic, item.bound, item.counter)
        if key not in kept or (item.n or 0) > (kept[key].n or 0):
            kept[key] = item
    return list(kept.values())
