"""The public functions that meet a real run: probe, watch, ingest, runs; and what their commands
share with them."""

from __future__ import annotations

import collections
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.errors import InputError, NetworkError
from rightfit.messages import Message, at_place, did_you_mean
from rightfit.records import dataclass
from rightfit.signatures import refusing_unknown

if TYPE_CHECKING:
    from rightfit.measure.load_test.result import Capacity, Trial
    from rightfit.measure.probing.wrapped import Planned
    from rightfit.measure.record import Run
    from rightfit.measure.store import RunStore
    from rightfit.measure.watching.judging import Expected, State
    from rightfit.measure.watching.sources import Look, Source


_COUNTERS = ("allocated", "reserved", "nvidia-smi")


def probe(
    command: Sequence[str] = (),
    *,
    url: str | None = None,
    plan: str | Path | None = None,
    option: int = 1,
    file: str | Path | None = None,
    log: str | Path | None = None,
    deep: bool = False,
    stop_when_stable: bool = False,
    setup: Mapping[str, str] | None = None,
    **load: Any,
) -> Run:
    """Run and measure a command, or load-test an OpenAI-compatible endpoint.

    >>> probe(["python", "train.py"], setup={"model": "7B"})
    >>> probe(url="http://localhost:8000", input_tokens=512, output_tokens=128, ttft="300ms")

    `plan`, `option`: the JSON file of a plan and the rank of the option it runs. `file`: the
    workload file of the command. `setup`: what is known about the run, {"model": "7B"}. `load`: the
    other options of `rightfit probe --url`.
    """
    known = checked_setup(setup or {})
    path = None if plan is None else Path(plan)
    if url is not None:
        if command or file or log or deep or stop_when_stable:
            raise InputError(Message("cli.url_alone"), field="url")
        return load_tested(url, {**load, "plan": path, "option": option}, setup=known)[0]
    if load:
        raise InputError(Message("cli.load_test_option", option=f"--{min(load).replace('_', '-')}"), field=min(load))
    asked = Asked(
        known, path, option, Path(file) if file else None, Path(log) if log else None, deep=deep, stop_when_stable=stop_when_stable
    )
    return probed(list(command), asked)[0]


@refusing_unknown
def watch(
    target: str = "",
    *,
    plan: str | Path | None = None,
    option: int = 1,
    steps: int | None = None,
    usd_per_hour: float | None = None,
    every_s: float | None = None,
) -> Iterator[State]:
    """Monitor a run until it ends: one state every `every_s` seconds (default 2), compared with an
    option of a plan.

    `target`: a process, a folder or a metrics address; by default the busiest GPU process.
    """
    from rightfit.facts.tables import constant_group
    from rightfit.measure.watching.sources import source_of

    expected = expectation(None if plan is None else Path(plan), option, steps, usd_per_hour)
    return states_of(source_of(target.strip()), expected, constant_group("measure", "watch")["every"] if every_s is None else every_s)


@refusing_unknown
def ingest(
    *places: str | Path,
    kind: str = "",
    setup: Mapping[str, str] | None = None,
    first_token: bool | None = None,
    counter: str = "",
    last_s: float | None = None,
    until: float | None = None,
    match: str = "",
) -> list[Run]:
    """Import measurements of other programs as run records, from files, folders or addresses.

    `kind`: the format, if it cannot be detected. `first_token`: whether time per token includes the
    first token. `counter`: the memory counter, allocated, reserved or nvidia-smi. `last_s` and
    `until`: length in seconds and end (a timestamp) of the window to read from Prometheus. `match`:
    labels to select.
    """
    from rightfit.measure.evidence import refuse_impossible
    from rightfit.measure.ingest import ingest as read
    from rightfit.measure.readers.item import Definitions
    from rightfit.proof.predict import predict

    if counter not in ("", *_COUNTERS):
        allowed = ", ".join(_COUNTERS)
        raise InputError(Message("cli.not_among", option="--counter", word=repr(counter), allowed=allowed), field="counter")
    window = {name: value for name, value in (("last_s", last_s), ("until", until)) if value is not None}
    definitions = Definitions(first_token, counter, checked_setup(setup or {}), **window, match=match)
    found = [run for place in places for run in read(str(place), kind, definitions)]
    refuse_impossible(found, lambda rows: predict(rows))
    return found


@refusing_unknown
def runs(store: str | Path | None = None) -> RunStore:
    """The saved run records, by default your own: `.all()`, `.get(id)`, `.save(runs)`,
    `.delete(ids)`."""
    from rightfit.measure.store import RunStore

    return RunStore(store)


def checked_setup(setup: Mapping[str, str]) -> dict[str, str]:
    """Columns of `rightfit predict` with their words. InputError for a name that is no column."""
    from rightfit.facts.tables import nearest
    from rightfit.measure.record import setup_columns

    for name in setup:
        if name not in setup_columns():
            raise InputError(Message("cli.set_no_column", column=name, hint=did_you_mean(nearest(name, setup_columns())[:1])), field="set")
    return {name: str(value) for name, value in setup.items()}


@dataclass(frozen=True, slots=True)
class Asked:
    """What is said of a command beside the command itself. `snapshot`: where `deep` puts the memory
    at an out-of-memory error."""

    given: dict[str, str]
    plan: Path | None = None
    option: int = 1
    file: Path | None = None
    log: Path | None = None
    snapshot: Path | None = None
    deep: bool = False
    stop_when_stable: bool = False


def probed(cmd: list[str], asked: Asked) -> tuple[Run, Expected | None]:
    """The record of a command that was run and measured, and what a plan expects of it."""
    from rightfit.measure.probing.wrapped import probe as run_probed

    planned, expected = _planned(asked)
    run = run_probed(
        cmd,
        setup=asked.given,
        stop_when_stable=asked.stop_when_stable,
        planned=planned,
        deep=asked.deep,
        log=asked.log,
        snapshot=asked.snapshot,
    )
    return run, expected


def _planned(asked: Asked) -> tuple[Planned, Expected | None]:
    """What a plan or a workload says of the command."""
    from rightfit.measure.probing.wrapped import Planned

    if asked.plan is not None and asked.file is not None:
        raise InputError(Message("cli.plan_or_file"), field="file")
    if asked.plan is not None:
        return _of_plan(asked.plan, asked.option)
    if asked.file is None:
        return Planned(), None
    from rightfit.api import read_workload
    from rightfit.measure.record import setup_columns

    wish = read_workload(asked.file, {}).to_dict()
    setup = {
        name: str(value)
        for name, value in wish.items()
        if name in setup_columns() and isinstance(value, (str, int, float)) and name != "task"
    }
    return Planned(setup=setup, workload=wish), None


def _of_plan(path: Path, rank: int) -> tuple[Planned, Expected]:
    from rightfit.exports.job import read_plan
    from rightfit.measure.own_runs import service_of, training_of
    from rightfit.measure.probing.wrapped import Planned
    from rightfit.measure.watching.judging import expected_of

    wish, document = dict(read_plan(path).workload), _content(path)
    expected = expected_of(document, rank)
    chosen = next(option for option in document["options"] if option["rank"] == rank)
    setup, server = service_of(document, chosen) if expected.is_service else training_of(document, chosen)
    return Planned(setup=setup, server={name: value for name, value in server.items() if value is not None}, workload=wish), expected


# ---- The load test of an endpoint, from options to record.

_PERCENTILES = (50, 90, 95, 99)


def load_tested(url: str, asked: dict[str, Any], *, setup: Mapping[str, str]) -> tuple[Run, Capacity, Trial, float | None]:
    """A load test of an endpoint: its record, what was found, the test, and USD per hour of what
    stands behind it."""
    from rightfit.measure.load_test.http import place_of
    from rightfit.measure.load_test.result import measure, run_of

    asked, place = dict(asked), place_of(url)
    planned, planned_setup, server, usd = _url_of_plan(asked.pop("plan", None), asked.pop("option", 1))
    given = asked.pop("usd_per_hour", None)
    usd = given if given is not None else usd
    test = _test({**planned, **{name: value for name, value in asked.items() if value is not None}})
    found = measure(place, test)
    known = {name: value for name, value in planned_setup.items() if name not in ("input_tokens", "output_tokens")}
    return run_of(found, test, place, setup={**known, **setup}, server=server, usd_per_h=usd), found, test, usd


def _url_of_plan(path: Path | None, rank: int) -> tuple[dict[str, Any], dict[str, str], dict[str, Any], float | None]:
    """What a plan's option says: wish, set-up, server, USD per hour of all its servers."""
    if path is None:
        return {}, {}, {}, None
    from rightfit.exports.job import read_plan
    from rightfit.measure.own_runs import service_of
    from rightfit.measure.readers.item import number

    document = read_plan(path)
    if document.workload.get("task") != "serve":
        raise InputError(Message("cli.plan_of_no_service", path=path), field="plan")
    option = document.option(rank).model_dump()
    wish = {name: number(document.workload.get(name)) for name in ("input_tokens", "output_tokens", "ttft_s", "tpot_s")}
    setup, server = service_of({"workload": document.workload}, option)
    return {name: value for name, value in wish.items() if value is not None}, setup, server, option["cost"]["hourly_usd"]


def _test(asked: dict[str, Any]) -> Trial:
    from rightfit.measure.load_test.result import Trial

    variable = asked.pop("key_env", None)
    if variable and variable not in os.environ:
        raise InputError(Message("cli.key_variable", variable=variable), field="key_env")
    for name in ("input_tokens", "output_tokens"):
        if name not in asked:
            raise InputError(Message("cli.url_lacks", option=f"--{name.replace('_', '-')}"), field=name)
        asked[name] = int(asked[name])
    seconds = {name: _seconds(asked.pop(option), option) for name, option in _DURATIONS.items() if option in asked}
    percentile = asked.pop("percentile", 95)
    if percentile not in _PERCENTILES:
        raise InputError(
            Message("cli.not_among", option="--percentile", word=percentile, allowed=", ".join(map(str, _PERCENTILES))), field="percentile"
        )
    more = {"least_requests": asked.pop("requests")} if "requests" in asked else {}
    return Trial(**{**asked, **seconds, **more}, percentile=percentile / 100.0, key=os.environ.get(variable or "", "") if variable else "")


#: Field of the test -> option.
_DURATIONS = {"ttft_s": "ttft", "tpot_s": "tpot", "level_s": "level_time", "limit_s": "time"}


def _seconds(text: str, option: str) -> float:
    from rightfit.units import SECONDS_PER_DAY, parse_duration

    shown = f"--{option.replace('_', '-')}"
    try:
        seconds = parse_duration(text)
    except InputError as error:
        raise InputError(at_place(shown, error.message), field=option) from None
    if not 1e-5 <= seconds <= SECONDS_PER_DAY:
        raise InputError(Message("cli.target_outside", option=shown, text=text), field=option)
    return seconds


def expectation(plan: Path | None, option: int, steps: int | None, usd_per_hour: float | None) -> Expected:
    """What a run is held to: an option of a plan, and what is told beside it."""
    import dataclasses

    from rightfit.measure.watching.judging import Expected, expected_of

    if plan is None:
        found = Expected()
    else:
        from rightfit.exports.job import read_plan

        read_plan(plan)  # doubted there, once, for everybody
        found = expected_of(_content(plan), option)
    return dataclasses.replace(
        found,
        steps=found.steps if steps is None else float(steps),
        usd_per_h=found.usd_per_h if usd_per_hour is None else usd_per_hour,
    )


def _content(plan: Path) -> Any:
    import json

    return json.loads(plan.read_text(encoding="utf-8"))


def states_of(
    source: Source, expected: Expected, wait_s: float, *, most: int | None = None, lost: Callable[[NetworkError], None] | None = None
) -> Iterator[State]:
    """A state a look until the run ends; an exporter that does not answer for a
    while is asked again where `lost` takes the error."""
    from rightfit.facts.tables import constant_group
    from rightfit.measure.watching.judging import judge

    looks: collections.deque[Look] = collections.deque(maxlen=int(constant_group("measure", "watch")["most_looks"]))
    while most is None or len(looks) < most:
        try:
            looks.append(source.look())
        except NetworkError as error:
            if not looks or lost is None:
                raise
            lost(error)
        else:
            yield judge(list(looks), expected)
            if not looks[-1].is_alive:
                return
        if most is None or len(looks) < most:
            time.sleep(wait_s)
