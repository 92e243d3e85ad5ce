"""Runs: probe one, and what is kept of them: list, show, delete, merge, send to a team's server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rightfit.cli.declared import argument, option
from rightfit.cli.output import Answer, View, emit, listing, note, open_market
from rightfit.errors import InputError, RightfitError, UnavailableError
from rightfit.explain.messages import say
from rightfit.explain.quantities import Table
from rightfit.messages import Message, at_place
from rightfit.units import SECONDS_PER_YEAR

if TYPE_CHECKING:
    from rightfit.measure.record import Run
    from rightfit.measure.watching.judging import Expected
    from rightfit.running import Asked

Store = Annotated[Path | None, option("--store", help="File of the store (default: RIGHTFIT_RUNS, else the user's own).", metavar="FILE")]


def list_(store: Store = None, *, view: View) -> None:
    """List saved run records, newest first.

    Example: rightfit runs list
    """
    from rightfit.explain.run_text import LIST_COLUMNS, list_records
    from rightfit.measure.store import RunStore

    found = RunStore(store).all()
    if not found and not view.is_machine:
        note(say("measure.none", view.lang), view)
        return
    listing(list_records(found), Table(LIST_COLUMNS, []), view)


def show(
    run: Annotated[str, argument(help="Record ID (or its prefix), or a file.", metavar="RUN", show_default=False)],
    store: Store = None,
    *,
    view: View,
) -> None:
    """One record: what ran, where, and every figure with its definition.

    Example: rightfit runs show run.json
    """
    draw([one(run, store)], view)


def delete(
    run: Annotated[list[str], argument(help="Record IDs.", metavar="RUN", show_default=False)], store: Store = None, *, view: View
) -> None:
    """Forget records that are kept, by their ids.

    Example: rightfit runs delete 1f2e3d
    """
    from rightfit.measure.store import RunStore

    kept = RunStore(store)
    count = kept.delete([kept.get(id_).id for id_ in run])
    note(say("measure.deleted", view.lang, count=count, path=kept.path), view)


def merge(
    run: Annotated[list[str], argument(help="Record IDs or files of one run.", metavar="RUN", show_default=False)],
    out: Annotated[Path | None, option("--out", "-o", help="Output file for the record.", metavar="RUN.json")] = None,
    store: Store = None,
    *,
    view: View,
) -> None:
    """One record of what several programs saw of the same run.

    Example: rightfit runs merge trainer.json gpu.json --out run.json
    """
    from rightfit.measure.record import merged
    from rightfit.measure.store import RunStore

    if len(run) < 2:
        raise InputError(Message("cli.merge_one"), field="run")
    whole = merged([one(name, store) for name in run])
    if out is None:
        RunStore(store).save([whole])
    hand_over([whole], out, view)


def send(
    address: Annotated[str, argument(help="URL of the rightfit serve instance.", metavar="URL", show_default=False)],
    run: Annotated[list[str], argument(help="Record IDs or files.", metavar="RUN", show_default=False)],
    store: Store = None,
    *,
    view: View,
) -> None:
    """Send records to the server of a team, where --runs URL finds them; its key is read
    from RIGHTFIT_TOKEN.

    Example: rightfit runs send https://rightfit.example.com run.json
    """
    from rightfit.measure import store as team

    if not team.is_address(address):
        raise InputError(Message("cli.send_address", address=address), field="address")
    runs = [one(name, store) for name in run]
    note(say("measure.sent", view.lang, new=team.send(address, runs), count=len(runs), path=address), view)


def one(name: str, store: Path | None) -> Run:
    """A record by its file, or by its id in the store."""
    from rightfit.measure.record import is_there, read_runs
    from rightfit.measure.store import RunStore

    if is_there(name):
        found = read_runs(name)
        if len(found) != 1:
            raise InputError(Message("cli.several_records", path=name, count=len(found)), field="run")
        return found[0]
    return RunStore(store).get(name)


def hand_over(runs: list[Run], out: Path | None, view: View, *, keep: bool = False, drawn: Callable[[], None] | None = None) -> None:
    """Write records where asked, and show them, also where they cannot be written: then they go to
    another place that has room. Raises UnavailableError at the end where a place that was
    asked for did not take them."""
    problem, is_safe = _saved(runs, out, view, keep=keep)
    try:
        (drawn or (lambda: draw(runs, view)))()
    finally:
        if problem is not None and not is_safe:
            _rescue(runs, view)
    if problem is not None:
        raise problem


def _saved(runs: list[Run], out: Path | None, view: View, *, keep: bool) -> tuple[UnavailableError | None, bool]:
    """What stood in the way of the first place that failed, and whether the records
    are anywhere now."""
    from rightfit.measure.record import write_whole, written
    from rightfit.measure.store import RunStore

    problems: list[UnavailableError] = []
    is_safe = False
    if out is not None:
        try:
            write_whole(out, written(runs))
            note(say("measure.wrote", view.lang, count=len(runs), path=out), view)
            is_safe = True
        except UnavailableError as error:
            problems.append(error)
    if keep:
        store = RunStore()
        try:
            note(say("measure.kept", view.lang, count=store.save(runs), total=len(runs), path=store.path), view)
            is_safe = True
        except UnavailableError as error:
            problems.append(error)
    return (problems[0] if problems else None), is_safe


def _rescue(runs: list[Run], view: View) -> None:
    """Records that no place took that was asked for: to another one, else to standard error."""
    import sys

    from rightfit.measure.record import written, written_elsewhere

    place = written_elsewhere(runs)
    said = say("measure.elsewhere", view.lang, path=place) if place else say("measure.nowhere", view.lang) + "\n" + written(runs)
    sys.stderr.write(said + "\n")  # also with --quiet: hours of work
    sys.stderr.flush()


def draw(runs: list[Run], view: View) -> None:
    """Records as text and tables, or as JSON."""
    from rightfit.explain.run_text import figure_record, figure_table, run_lines
    from rightfit.measure.record import document

    documents = [document(run) for run in runs]
    parts: list[str | Table] = []
    for run in runs:
        parts += ["\n".join(run_lines(run, view.lang)), *([figure_table([run], view.lang)] if run.measured else [])]
    records = [{"run": run.id, **figure_record(item, view.lang)} for run in runs for item in run.measured]
    emit(Answer(documents[0] if len(documents) == 1 else documents, records, parts), view)


# ---- Results of other programs become run records.

_SHORTEST_S = 60.0
_FIRST = {"": None, "in": True, "out": False}


def ingest(
    path: Annotated[list[str], argument(help="Files, folders or URLs.", metavar="PATH|URL", show_default=False)],
    kind: Annotated[str, option("--as", help="Input type, if it cannot be detected.", metavar="KIND")] = "",
    given: Annotated[list[str] | None, option("--set", help="Setup value, e.g. model=7B; repeatable.", metavar="NAME=VALUE")] = None,
    first_token: Annotated[
        str, option("--first-token", help="Whether time per token in your table includes the first token: in|out.", metavar="WORD")
    ] = "",
    counter: Annotated[str, option("--counter", help="Memory counter of your table: allocated|reserved|nvidia-smi.", metavar="WORD")] = "",
    last: Annotated[str, option("--last", help="Prometheus time window, e.g. 30min (default 1h).", metavar="DURATION")] = "",
    until: Annotated[str, option("--until", help="End of the window, e.g. 2026-05-01T14:00Z (default: now).", metavar="TIME")] = "",
    match: Annotated[str, option("--match", help="Prometheus label filter, e.g. 'pod=\"train-0\"'.", metavar="LABELS")] = "",
    out: Annotated[Path | None, option("--out", "-o", help="Output file for the records.", metavar="RUN.json")] = None,
    *,
    keep: Annotated[bool, option("--keep", help="Save the records to the store.")] = False,
    view: View,
) -> None:
    """Import measurements of other programs as run records: load tests, trackers, monitors,
    logs, tables.

    Examples:

    rightfit ingest bench.json --set device=H100 --out run.json

    rightfit ingest http://prometheus:9090 --last 1h --match 'pod="train-0"' --out run.json
    """
    from rightfit.measure.readers.training_text import is_counter_assumed
    from rightfit.running import ingest as read

    if first_token not in _FIRST:
        raise InputError(Message("cli.not_among", option="--first-token", word=repr(first_token), allowed="in, out"), field="first_token")
    setup, window = setup_of(given or []), window_of(last, until)
    runs = []
    for place in path:
        found = read(place, kind=kind, setup=setup, first_token=_FIRST[first_token], counter=counter, **window, match=match)
        tools = sorted({run.source.tool for run in found if run.source.tool not in ("", run.source.kind)})
        kinds = ", ".join(sorted({run.source.kind for run in found}))
        note(say("measure.understood", view.lang, path=place, kind=kinds, tool=f" ({', '.join(tools)})" if tools else ""), view)
        runs += found
    if not counter and any(is_counter_assumed(run) for run in runs):
        note(say("measure.assumed_counter", view.lang), view)
    _ask_for_missing(runs, view)
    hand_over(runs, out, view, keep=keep)


def window_of(last: str, until: str) -> dict[str, float]:
    """The window of a history as fields of Definitions. Raises InputError."""
    import datetime

    from rightfit.units import parse_duration

    found: dict[str, float] = {}
    if last:
        try:
            found["last_s"] = parse_duration(last)
        except RightfitError as error:
            raise InputError(at_place("--last", error.message), field="last") from None
        if not _SHORTEST_S <= found["last_s"] <= SECONDS_PER_YEAR:
            raise InputError(Message("cli.last_span", text=last), field="last")
    if until:
        try:
            moment = datetime.datetime.fromisoformat(until)
            found["until"] = (moment if moment.tzinfo else moment.astimezone()).timestamp()
        except (ValueError, OverflowError, OSError):
            raise InputError(Message("cli.until_no_time", text=until), field="until") from None
    return found


def setup_of(given: list[str]) -> dict[str, str]:
    """NAME=VALUE pairs as columns of `rightfit predict`. Raises InputError for a name
    that is no column."""
    from rightfit.running import checked_setup

    setup = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not value.strip():
            raise InputError(Message("cli.set_no_pair", pair=pair), field="set")
        setup[name] = value.strip()
    return checked_setup(setup)


def _ask_for_missing(runs: list[Run], view: View, key: str = "missing", **fields: str) -> None:
    from rightfit.measure.ingest import missing_setup

    names = sorted({name for run in runs for name in missing_setup(run)})
    if names:
        note(say(f"measure.{key}", view.lang, names=", ".join(names), **fields), view)


# ---- Advice from measured runs.


def resize(
    run: Annotated[
        list[str], argument(help="Record ID (or its prefix), or a file; also a training log.", metavar="RUN", show_default=False)
    ],
    tests: Annotated[int, option("--tests", help="Maximum number of further tests.", metavar="N", min=0)] = 2,
    *,
    view: View,
    wishes: dict[str, Any],
) -> None:
    """Find the bottleneck of measured runs, free changes, the server to rent, and whether another
    test pays off.

    Example: rightfit resize run.json --data 50Mtok

    Workload options set the amount of work; everything else is taken from the run.
    """
    from rightfit import api
    from rightfit.explain.run_text import advice_lines

    runs = [found for name in run for found in _measured(name)]
    if any(found.oom for found in runs):  # what to change depends on it
        _ask_for_missing(runs, view, "missing_to_change", path=run[0])
    advice = api.resize(runs, tests=tests, catalog=open_market(view), **wishes)
    records = [{"verdict": advice.verdict, "bottleneck": advice.bottleneck}]
    lines = advice_lines(advice, view.lang)
    is_asked = any(wishes.get(name) for name in ("data", "rate", "users"))
    emit(Answer(advice.to_dict(), records, ["\n".join(lines if is_asked else [*lines, say("measure.no_servers", view.lang)])]), view)


def _measured(name: str) -> list[Run]:
    """The records of a file, also of a log as `ingest` reads it, or the one of an id."""
    from rightfit.measure.ingest import measured_runs
    from rightfit.measure.record import is_there

    return measured_runs(name) if is_there(name) else [one(name, None)]


# ---- Measure a command while it runs.


def probe(
    cmd: Annotated[list[str] | None, argument(help="Command to run, after --.", metavar="-- CMD", show_default=False)] = None,
    given: Annotated[list[str] | None, option("--set", help="Setup value, e.g. model=7B; repeatable.", metavar="NAME=VALUE")] = None,
    out: Annotated[Path | None, option("--out", "-o", help="Output file for the records.", metavar="RUN.json")] = None,
    *,
    file: Annotated[Path | None, option("--file", help="Workload of the command: model, method, length.", metavar="FILE")] = None,
    log: Annotated[
        Path | None,
        option("--log", help="Log file of the command, used for progress if steps cannot be counted.", metavar="FILE"),
    ] = None,
    deep: Annotated[
        bool, option("--deep", help="Profile three steps with the PyTorch profiler, and save a memory snapshot on out-of-memory errors.")
    ] = False,
    stop_when_stable: Annotated[bool, option("--stop-when-stable", help="Stop the command when its step time stabilizes.")] = False,
    keep: Annotated[bool, option("--keep", help="Save the records to the store.")] = False,
    url: Annotated[str | None, option("--url", help="Load-test this OpenAI-compatible endpoint.", metavar="URL")] = None,
    input_tokens: Annotated[int | None, option("--input-tokens", help="Input tokens per request.", metavar="N", min=1)] = None,
    output_tokens: Annotated[int | None, option("--output-tokens", help="Output tokens per request.", metavar="N", min=2)] = None,
    ttft: Annotated[str | None, option("--ttft", help="TTFT target, e.g. 300ms.", metavar="DURATION")] = None,
    tpot: Annotated[str | None, option("--tpot", help="TPOT target, e.g. 30ms.", metavar="DURATION")] = None,
    percentile: Annotated[int | None, option("--percentile", help="Percentile for the targets: 50|90|95|99.", metavar="N")] = None,
    plan: Annotated[Path | None, option("--plan", help="Plan of the command or service.", metavar="PLAN.json")] = None,
    option: Annotated[int, option("--option", help="Rank of the plan option.", metavar="N", min=1)] = 1,
    usd_per_hour: Annotated[
        float | None, option("--usd-per-hour", help="Hourly price of all servers behind the URL.", metavar="USD", min=0.0)
    ] = None,
    model: Annotated[str | None, option("--model", help="Model name, if the URL serves several.", metavar="NAME")] = None,
    key_env: Annotated[str | None, option("--key-env", help="Environment variable with the API key.", metavar="NAME")] = None,
    requests: Annotated[int | None, option("--requests", help="Minimum requests per load level.", metavar="N", min=10)] = None,
    level_time: Annotated[str | None, option("--level-time", help="Minimum time per load level.", metavar="DURATION")] = None,
    time: Annotated[str | None, option("--time", help="Total test time.", metavar="DURATION")] = None,
    view: View,
) -> int:
    """Run and measure a command without code changes, or load-test an endpoint.

    Examples:

    rightfit probe --set model=7B --out run.json -- python train.py

    rightfit probe --plan plan.json --stop-when-stable --out run.json -- python train.py

    rightfit probe --url http://127.0.0.1:8000 --input-tokens 512 --output-tokens 128
    --ttft 300ms --tpot 30ms

    The command's output and exit code stay what they are; what was measured is printed
    on standard error.
    """
    from rightfit.running import Asked

    asked = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "ttft": ttft,
        "tpot": tpot,
        "percentile": percentile,
        "plan": plan,
        "option": option,
        "usd_per_hour": usd_per_hour,
        "model": model,
        "key_env": key_env,
        "requests": requests,
        "level_time": level_time,
        "time": time,
    }
    if url is not None:
        wrong = cmd or stop_when_stable or deep or file or log
        if wrong:
            raise InputError(Message("cli.url_alone"), field="url")
        return load_test(url, asked, setup=setup_of(given or []), out=out, keep=keep, view=view)
    stray = [name for name, value in asked.items() if value is not None and name not in ("plan", "option")]
    if stray:
        raise InputError(Message("cli.load_test_option", option=f"--{stray[0].replace('_', '-')}"), field=stray[0])
    snapshot = out.with_suffix(".memory") if deep and out is not None else None
    told = Asked(setup_of(given or []), plan, option, file, log, snapshot, deep=deep, stop_when_stable=stop_when_stable)
    return _command(cmd or [], told, out=out, keep=keep, view=view)


def _command(cmd: list[str], asked: Asked, *, out: Path | None, keep: bool, view: View) -> int:
    """Run the command, hand over its record, and show predictions beside what was measured."""
    from rightfit.running import probed

    run, expected = probed(cmd, asked)
    hand_over([run], out, view, keep=keep, drawn=lambda: _show(run, expected if run.server or not expected else None, view))
    return run.exit_code or 0


def _show(run: Run, expected: Expected | None, view: View) -> None:
    from rightfit.cli.output import output_width, render
    from rightfit.explain.run_text import beside_table, explanation_lines, figure_table, profile_lines, run_lines
    from rightfit.measure.own_runs import beside, explanations
    from rightfit.proof.predict import predict

    if view.quiet:
        return
    width = output_width()
    parts = ["\n".join(run_lines(run, view.lang)), render(figure_table([run], view.lang), lang=view.lang, width=width)]
    pairs = beside(run, predict, expected)
    if pairs:
        parts.append(render(beside_table(pairs, view.lang), lang=view.lang, width=width))
    found = [line for one in pairs for line in explanation_lines(one, explanations(run, one, predict), view.lang)]
    parts += ["\n".join(found)] if found else []
    parts += ["\n".join(profile_lines(run, view.lang))] if run.profile else []
    note("\n\n".join(parts), view)


def load_test(url: str, asked: dict[str, Any], *, setup: dict[str, str], out: Path | None, keep: bool, view: View) -> int:
    """Trial the endpoint, say what it bears, hand over the record."""
    from rightfit.explain.run_text import load_lines
    from rightfit.running import load_tested

    run, found, test, usd = load_tested(url, asked, setup=setup)
    note("\n".join(load_lines(found, test, usd, view.lang)), view)
    hand_over([run], out, view, keep=keep)
    return 0
