"""Simulated percentiles beside the analytic ones, as a table of the shown options."""

from __future__ import annotations

from collections.abc import Iterable

from rightfit.cli.labels import label
from rightfit.cli.output import View
from rightfit.cli.tables import Column, Table
from rightfit.explain.load_text import analytic_triple, simulated_triple
from rightfit.search.answer import Option, Plan

_LATENCIES = ("ttft", "tpot", "latency")


def simulation_table(plan: Plan, view: View) -> Iterable[Table]:
    """One line an option and latency; nothing where nothing was simulated."""
    shown = [option for option in plan.options if "ttft_p50_s" in option.facts.get("simulated", {})]
    if shown:
        columns = (Column("rank", right=True), Column("figure"), Column("analytic", right=True), Column("simulated", right=True))
        yield Table(columns, [line for option in shown for line in _lines(option, view)], title=label("section", "simulation", view.lang))


def _lines(option: Option, view: View) -> list[dict[str, object]]:
    return [
        {
            "rank": option.rank if name == _LATENCIES[0] else "",
            "figure": label("column", name, view.lang),
            "analytic": analytic_triple(option, name, view.lang),
            "simulated": simulated_triple(option.facts["simulated"], name, view.lang),
        }
        for name in _LATENCIES
    ]
