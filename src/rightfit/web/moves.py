"""How the prices of a server moved: a step line for each region and way to pay whose price was seen at more than one date, spot first. Every refresh of the catalog
that finds another price makes the lines longer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nicegui import ui

from rightfit import lookup
from rightfit.explain import quantities as q
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.tables import Column, Table
from rightfit.web.charts import colour, money_frame, plain_axis
from rightfit.web.draw import box, heading, paragraph, table
from rightfit.web.words import word
from rightfit.workload.money import exchange_rate

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.catalog.history import PricePoint

MOVES = "moves"  # what answers of this kind are kept under
MOST_LINES = 6
Moves = tuple["PricePoint", ...]


def moves_of(server: str, *, catalog: Catalog) -> tuple[Moves, ...]:
    """The prices of a server (cloud/type) that were seen at more than one date, each as its points, oldest first: spot first, then those that moved last."""
    provider, _, name = server.partition("/")
    points = lookup.price_history(name, cloud=(provider,), catalog=catalog)
    mine = (point for point in points if (point.provider, point.instance_type) == (provider, name))
    lines = [tuple(line) for _, line in itertools.groupby(mine, key=lambda point: (point.region, point.purchase))]
    moved = [line for line in lines if len({point.as_of for point in line}) > 1]
    moved.sort(key=lambda line: line[-1].as_of, reverse=True)
    return tuple(sorted(moved, key=lambda line: "spot" not in line[0].purchase)[:MOST_LINES])


def draw_moves(lines: Sequence[Moves], lang: Lang, *, currency: str = "usd") -> None:
    """The lines as a chart and as a table; one sentence where no price was seen twice."""
    heading(word("chart.moves", lang), 3, "gap")
    if not lines:
        paragraph(word("chart.moves_none", lang), "muted")
        return
    with box("div"):
        chart = ui.echart(moves_chart(lines, lang, currency=currency)).classes("chart short")
        chart.props.update({"role": "img", "aria-label": word("chart.moves_label", lang)})
    table(_table(lines, lang, currency=currency), lang, title=False)


def moves_chart(lines: Sequence[Moves], lang: Lang, *, currency: str) -> dict[str, Any]:
    """Price an hour by date; a price holds until another was seen."""
    axis, rate = plain_axis(), exchange_rate(currency).units_per_usd
    series = []
    for at, line in enumerate(lines):
        ink = colour(f"c{at % MOST_LINES + 1}")
        data = [[point.as_of, float(f"{point.price_usd_per_h * rate:.4g}")] for point in line]
        series.append(
            {
                "type": "line",
                "step": "end",
                "name": _name(line, lang),
                "data": data,
                "symbolSize": 7,
                "lineStyle": {"width": 2.5, ":color": ink},
                "itemStyle": {":color": ink},
            }
        )
    frame = money_frame(currency)
    return {
        **frame,
        "xAxis": {"type": "time", **axis, "axisLabel": {**axis["axisLabel"], "formatter": "{yyyy}-{MM}", "hideOverlap": True}},
        "yAxis": {**frame["yAxis"], "scale": True},
        "series": series,
    }


def _name(line: Moves, lang: Lang) -> str:
    return f"{q.region_text(line[0].region, lang)} · {q.purchase_text(line[0].purchase, lang)}"


def _table(lines: Sequence[Moves], lang: Lang, *, currency: str) -> Table:
    def change(value: Any) -> str:
        return "" if value != value else f"{100 * value:+.0f}%"

    columns = (
        Column("region", lambda value: q.region_text(value, lang)),
        Column("purchase", lambda value: q.purchase_text(value, lang)),
        Column("as_of", right=True),
        Column("hourly", lambda value: str(q.money_text(value, currency)), right=True),
        Column("change", change, right=True),
    )
    records = [
        {
            **{name: getattr(point, name) for name in ("region", "purchase", "as_of", "price_usd_per_h", "change")},
        }
        for line in lines
        for point in line
    ]
    return Table(columns, records, title=label("section", "regions", lang))
