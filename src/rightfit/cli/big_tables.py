"""What the commands over big tables share: where the work is done, how far it is,
and what came of it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rightfit.cli.declared import option
from rightfit.cli.output import View, note
from rightfit.errors import InputError
from rightfit.explain.messages import label
from rightfit.messages import Message

if TYPE_CHECKING:
    from rightfit.spread.pieces import Done

Place = Annotated[
    str | None,
    option(
        "--on",
        help="Where to run: here, processes, ray (an existing cluster, else a new one) or ray:HOST:PORT. Results are identical.",
        metavar="PLACE",
        show_default=False,
    ),
]
AtOnce = Annotated[int | None, option("--at-once", help="Number of concurrent workers.", metavar="N", min=1, show_default=False)]
_EVERY_S = 30.0  # between lines of progress where no terminal shows a bar


def on_a_table(source: Path, out: Path | None) -> tuple[Path, Path]:
    """A table that is a file and where its answers go."""
    if str(source) == "-":
        raise InputError(Message("cli.big_table_file"), field="on")
    if out is None:
        raise InputError(Message("cli.big_table_out"), field="out")
    return source, out


@contextlib.contextmanager
def progress_of(view: View) -> Iterator[Callable[[int, int, float], None]]:
    """A bar on standard error where that is a terminal, else a line now and then."""
    if view.quiet:
        yield lambda *_: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label("status", "rows", view.lang), total=None)
            yield lambda done, total, rate: bar.update(task, completed=done, total=total)
    else:
        last = time.monotonic()

        def step(done: int, total: int, rate: float) -> None:
            nonlocal last
            if time.monotonic() - last >= _EVERY_S:
                last = time.monotonic()
                left = f"{(total - done) / max(rate, 1e-9):,.0f}"
                note(label("status", "rows_done", view.lang, done=f"{done:,}", total=f"{total:,}", rate=f"{rate:,.0f}", left=left), view)

        yield step


def say_done(done: Done, out: Path, view: View, *, what: str) -> None:
    """How many rows were predicted or planned (`what`), and what of them was there before."""
    note(label("status", what, view.lang, rows=f"{done.rows:,}", refused=f"{done.refused:,}", path=out), view)
    if done.earlier:
        note(label("status", "earlier", view.lang, rows=f"{done.earlier:,}"), view)
