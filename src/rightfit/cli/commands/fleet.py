"""Many jobs and services at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rightfit.cli.big_tables import AtOnce, Place
from rightfit.cli.declared import argument, option
from rightfit.cli.output import Answer, View, emit, open_market
from rightfit.cli.parameters import Runs

_ROWS = 10


def fleet(
    file: Annotated[str, argument(help="The fleet: a YAML, JSON or CSV file.", metavar="FLEET", show_default=False)],
    last: Annotated[
        str | None,
        option(
            "--from",
            help="Previous plan (JSON): running workloads stay in place, the rest is replanned.",
            metavar="LAST",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[float, option("--seconds", help="Solver time limit in seconds.", metavar="S", min=0.1)] = 20.0,
    chart: Annotated[str | None, option("--chart", help="Write the calendar to this SVG file.", metavar="FILE", show_default=False)] = None,
    runs: Runs = None,
    futures: Annotated[
        int,
        option(
            "--futures", help="Test purchases against this many random scenarios of prices, demand and stock.", metavar="N", min=0, max=200
        ),
    ] = 0,
    work_place: Place = None,
    at_once: AtOnce = None,
    *,
    view: View,
) -> int:
    """Plan many jobs and services together: where and when each runs, and what to buy.

    Example: rightfit fleet fleet.yaml
    """
    from rightfit import api
    from rightfit.explain.fleet_text import parts
    from rightfit.fleets.document import rows_of

    catalog = open_market(view)
    plan = api.fleet(
        file,
        catalog=catalog if view.price_book else None,
        seconds=seconds,
        last=last,
        runs=runs,
        on=work_place,
        workers=at_once,
        futures=futures,
    )
    found = plan.to_dict()
    if chart:
        from rightfit.explain.fleet_text import calendar_svg

        Path(chart).write_text(calendar_svg(found, view.lang), encoding="utf-8")
    shown = parts(found, view.lang, most=view.limit(default=_ROWS), quiet=view.quiet, verbose=view.verbose)
    emit(Answer(found, rows_of(found), shown), view)
    return 0 if not found["unplaced"] else 1
