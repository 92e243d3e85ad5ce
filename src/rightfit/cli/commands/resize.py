"""Advice from measured runs."""

from __future__ import annotations

from typing import Annotated, Any

from rightfit.cli.declared import argument, option
from rightfit.cli.market import open_market
from rightfit.cli.output import Answer, View, emit
from rightfit.explain.messages import say


def resize(
    run: Annotated[list[str], argument(help="Id of a record (or how it begins), or a file with one.", metavar="RUN", show_default=False)],
    tests: Annotated[int, option("--tests", help="How many more trials may be spent.", metavar="N", min=0)] = 2,
    *,
    view: View,
    wishes: dict[str, Any],
) -> None:
    """Say from measured runs what held them back, what to change for nothing, which server to rent, and whether a further test pays.

    Example: rightfit resize run.json --data 50Mtok

    Options of a workload say how much work there is; what they leave open is taken from the run.
    """
    from rightfit import api
    from rightfit.cli.commands.runs import one
    from rightfit.explain.run_text import advice_lines

    runs = [one(name, None) for name in run]
    advice = api.resize(runs, tests=tests, catalog=open_market(view), **wishes)
    records = [{"verdict": advice.verdict, "bottleneck": advice.bottleneck}]
    lines = advice_lines(advice, view.lang)
    is_asked = any(wishes.get(name) for name in ("data", "rate", "users"))
    emit(Answer(advice.to_dict(), records, ["\n".join(lines if is_asked else [*lines, say("measure.no_servers", view.lang)])]), view)
