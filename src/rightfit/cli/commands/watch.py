"""Follow a run while it goes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rightfit.cli.declared import argument, option
from rightfit.cli.output import Answer, View, emit, note
from rightfit.errors import InputError, NetworkError
from rightfit.explain.messages import say
from rightfit.messages import Message, at_place

if TYPE_CHECKING:
    from rightfit.explain.sheets import Part
    from rightfit.measure.watching.judging import State

#: Looks that a single answer is made of, and the time between them [s]: shares and
#: rates need two moments.
_ONCE, _BETWEEN_S = 2, 1.0


def watch(
    target: Annotated[
        str,
        argument(help="Process ID, folder or log of a run, or /metrics URL (default: the running probe).", metavar="PID|URL|DIR"),
    ] = "",
    plan: Annotated[Path | None, option("--plan", help="Plan to compare with: steps, price and intervals.", metavar="PLAN.json")] = None,
    option: Annotated[int, option("--option", help="Rank of the plan option.", metavar="N", min=1)] = 1,
    steps: Annotated[int | None, option("--steps", help="Total optimizer steps, if you have no plan.", metavar="N", min=1)] = None,
    usd_per_hour: Annotated[float | None, option("--usd-per-hour", help="Hourly price of all servers.", metavar="USD", min=0.0)] = None,
    every: Annotated[str | None, option("--every", help="Refresh interval, e.g. 10s.", metavar="DURATION")] = None,
    listen: Annotated[
        str, option("--listen", help="Serve a page and metrics at this address, e.g. 127.0.0.1:9410.", metavar="[HOST:]PORT")
    ] = "",
    *,
    once: Annotated[bool, option("--once", help="Print the state once and exit.")] = False,
    view: View,
) -> None:
    """Monitor a run: progress against the plan, projected time and cost, stalls, leaks, waste.

    Examples:

    rightfit watch --plan plan.json

    rightfit watch 12345 --once

    rightfit watch http://127.0.0.1:8000/metrics --plan plan.json --listen 9410

    It exits when the run ends or on Ctrl-C, and never changes the run.
    """
    from rightfit.measure.watching.sources import source_of
    from rightfit.running import expectation, states_of

    expected = expectation(plan, option, steps, usd_per_hour)
    wait_s = _wait_s(every)
    source = source_of(target.strip())
    if once or view.is_machine:
        states = list(states_of(source, expected, min(wait_s, _BETWEEN_S), most=_ONCE))
        return _print(states[-1], source.name, view)

    def lost(error: NetworkError) -> None:
        note(say("watch.lost", view.lang, name=source.name, error=error), view)

    with _page(listen, source.name, view) as show:
        _follow(states_of(source, expected, wait_s, lost=lost), source.name, view, show)
    return None


def _wait_s(text: str | None) -> float:
    from rightfit.facts.tables import constant_group
    from rightfit.units import SECONDS_PER_HOUR, parse_duration

    if text is None:
        return constant_group("measure", "watch")["every"]
    try:
        seconds = parse_duration(text)
    except InputError as error:
        raise InputError(at_place("--every", error.message), field="every") from None
    if not _BETWEEN_S <= seconds <= SECONDS_PER_HOUR:
        raise InputError(Message("cli.every_outside", text=text), field="every")
    return seconds


def _print(state: State, name: str, view: View) -> None:
    from rightfit.explain.run_text import compared_records, compared_table, finding_lines, head_line, progress_lines, to_dict

    prose = [head_line(state, name, view.lang), *progress_lines(state, view.lang)]
    table = compared_table(state, view.lang)
    parts: list[Part] = ["\n".join(prose), *([table] if table.records else []), "\n".join(finding_lines(state, view.lang))]
    emit(Answer(to_dict(state, name), compared_records(state, view.lang), parts), view)


def _follow(states: Iterator[State], name: str, view: View, show: Any) -> None:
    """Draw each state: in place on a terminal, else a line a state that differs."""
    if not sys.stdout.isatty():
        return _lines(states, name, view, show)
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), refresh_per_second=2, transient=False) as live:
        for state in states:
            show(state)
            live.update(Text(_drawn(state, name, view)))
    return None


def _drawn(state: State, name: str, view: View) -> str:
    from rightfit.cli.output import output_width, render
    from rightfit.explain.run_text import compared_table, finding_lines, head_line, progress_lines

    width = output_width()
    table = compared_table(state, view.lang)
    drawn = render(table, lang=view.lang, width=width) if table.records else ""
    return "\n".join(
        [head_line(state, name, view.lang), *progress_lines(state, view.lang), "", drawn, "", *finding_lines(state, view.lang)]
    )


def _lines(states: Iterator[State], name: str, view: View, show: Any) -> None:
    from rightfit.explain.run_text import finding_lines, head_line, progress_lines

    last: tuple[object, ...] = ()
    for state in states:
        show(state)
        told = (state.look.is_alive, *(finding.code for finding in state.findings))
        lines = [head_line(state, name, view.lang), *finding_lines(state, view.lang)] if told != last else []
        lines += [" ".join(progress_lines(state, view.lang))]
        last = told
        sys.stdout.write("\n".join(filter(None, lines)) + "\n")
        sys.stdout.flush()


@contextlib.contextmanager
def _page(listen: str, name: str, view: View) -> Iterator[Any]:
    """What takes each state: the page and the metrics, where they are asked for."""
    if not listen:
        yield lambda _state: None
        return
    from rightfit.web.watch_page import WatchServer

    host, port = _address(listen)
    with WatchServer(host, port, name, view.lang) as server:
        note(say("watch.serving", view.lang, place=server.place), view)
        yield server.show


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise InputError(Message("cli.no_port", text=listen), field="listen")
    return host.strip("[]") or "127.0.0.1", int(port)
