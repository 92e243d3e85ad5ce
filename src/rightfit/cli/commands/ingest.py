"""Results of other programs become run records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rightfit.cli.declared import argument, option
from rightfit.cli.output import View, note
from rightfit.errors import InputError, RightfitError
from rightfit.explain.messages import say
from rightfit.messages import Message, at_place, did_you_mean
from rightfit.units import SECONDS_PER_YEAR

if TYPE_CHECKING:
    from rightfit.measure.record import Run

_SHORTEST_S = 60.0
_FIRST = {"": None, "in": True, "out": False}


def ingest(
    path: Annotated[list[str], argument(help="Files, folders or addresses.", metavar="PATH|URL", show_default=False)],
    kind: Annotated[str, option("--as", help="What it is, where that cannot be told.", metavar="KIND")] = "",
    given: Annotated[
        list[str] | None, option("--set", help="A column of the set-up, e.g. model=7B; may be repeated.", metavar="NAME=VALUE")
    ] = None,
    first_token: Annotated[
        str, option("--first-token", help="Whether a time per token of your table counts the first: in|out.", metavar="WORD")
    ] = "",
    counter: Annotated[
        str, option("--counter", help="Counter of your table's memory: allocated|reserved|nvidia-smi.", metavar="WORD")
    ] = "",
    last: Annotated[
        str, option("--last", help="Of a Prometheus the window that is read, e.g. 30min (default 1h).", metavar="DURATION")
    ] = "",
    until: Annotated[str, option("--until", help="Where that window ends, e.g. 2026-05-01T14:00Z (default: now).", metavar="TIME")] = "",
    match: Annotated[
        str, option("--match", help="Labels that series of a Prometheus must have, e.g. 'pod=\"train-0\"'.", metavar="LABELS")
    ] = "",
    out: Annotated[Path | None, option("--out", "-o", help="Write the records here.", metavar="RUN.json")] = None,
    *,
    keep: Annotated[bool, option("--keep", help="Keep the records in the store.")] = False,
    view: View,
) -> None:
    """Make run records of what other programs measured: load tests, trackers, monitors, logs, tables.

    Examples:

    rightfit ingest bench.json --set device=H100 --out run.json

    rightfit ingest http://prometheus:9090 --last 1h --match 'pod="train-0"' --out run.json
    """
    from rightfit.cli.commands.runs import hand_over
    from rightfit.measure.ingest import ingest as read
    from rightfit.measure.readers.item import Definitions
    from rightfit.measure.store import RunStore

    if first_token not in _FIRST:
        raise InputError(Message("cli.not_among", option="--first-token", word=repr(first_token), allowed="in, out"), field="first_token")
    if counter not in ("", "allocated", "reserved", "nvidia-smi"):
        raise InputError(
            Message("cli.not_among", option="--counter", word=repr(counter), allowed="allocated, reserved, nvidia-smi"), field="counter"
        )
    definitions = Definitions(_FIRST[first_token], counter, setup_of(given or []), **window_of(last, until), match=match)
    runs = []
    for place in path:
        found = read(place, kind, definitions)
        tools = sorted({run.source.tool for run in found if run.source.tool not in ("", run.source.kind)})
        kinds = ", ".join(sorted({run.source.kind for run in found}))
        note(say("measure.understood", view.lang, path=place, kind=kinds, tool=f" ({', '.join(tools)})" if tools else ""), view)
        runs += found
    if keep:
        store = RunStore()
        note(say("measure.kept", view.lang, count=store.save(runs), total=len(runs), path=store.path), view)
    _ask_for_missing(runs, view)
    hand_over(runs, out, view)


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
    """NAME=VALUE pairs as columns of `rightfit predict`. Raises InputError for a name that is no column."""
    from rightfit.facts.fuzzy import nearest
    from rightfit.measure.columns import setup_columns

    setup = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not value.strip():
            raise InputError(Message("cli.set_no_pair", pair=pair), field="set")
        if name not in setup_columns():
            near = nearest(name, setup_columns())
            raise InputError(
                Message("cli.set_no_column", column=name, hint=did_you_mean(near[:1])),
                field="set",
            )
        setup[name] = value.strip()
    return setup


def _ask_for_missing(runs: list[Run], view: View) -> None:
    from rightfit.measure.ingest import missing_setup

    names = sorted({name for run in runs for name in missing_setup(run)})
    if names:
        note(say("measure.missing", view.lang, names=", ".join(names)), view)
