"""How the prices of a server moved: a step line for each region and way to pay whose price was seen
at more than one date, spot first. Every refresh of the catalog that finds another price makes the
lines longer."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from nicegui import ui

from rightfit import lookup
from rightfit.explain import quantities as q
from rightfit.explain.messages import label
from rightfit.explain.quantities import Column, Table
from rightfit.messages import Lang
from rightfit.web.charts import colour, money_frame, plain_axis
from rightfit.web.draw import box, heading, paragraph, table, text
from rightfit.web.words import word
from rightfit.workload.amounts import exchange_rate

if TYPE_CHECKING:
    from rightfit.explain.listings import PricedPlace
    from rightfit.market import Catalog
    from rightfit.market.refresh_rows import PricePoint


MOVES = "moves"  # what answers of this kind are kept under
MOST_LINES = 6
Moves = tuple["PricePoint", ...]


def moves_of(server: str, *, catalog: Catalog) -> tuple[Moves, ...]:
    """The prices of a server (cloud/type) that were seen at more than one date, each as its points,
    oldest first: spot first, then those that moved last."""
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
        {"hourly": point.price_usd_per_h, **{name: getattr(point, name) for name in ("region", "purchase", "as_of", "change")}}
        for line in lines
        for point in line
    ]
    return Table(columns, records, title=label("section", "regions", lang))


# ---- A map of the world with the places where a server is sold, drawn as SVG from an outline
# that comes with the package: nothing is loaded from anywhere. The table beside it says the
# same in words.

#: The part of the world that is shown [degrees]: west, north, width, height. No cloud
#: has a region beyond.
VIEW = (-168.0, -72.0, 348.0, 122.0)
MERIDIANS, PARALLELS = range(-150, 180, 30), range(-30, 61, 30)
NUM_NAMED = 3
_APART = 7.0  # names closer than this to another's line would lie upon it [degrees]


@functools.cache
def outline() -> str:
    """The land as a path of SVG, longitude to the right and latitude upwards (Natural Earth 1:110m,
    public domain; thinned)."""
    return resources.files("rightfit.web").joinpath("data", "world.txt").read_text(encoding="utf-8")


def world_map(places: Sequence[PricedPlace], lang: Lang, *, currency: str = "usd", chosen: str = "") -> None:
    """A point for each place, its colour from the cheapest to the dearest; the cheapest with their
    prices, the chosen region in a ring."""
    if not places:
        return
    low, high = places[0].usd_per_h, places[-1].usd_per_h
    least, most = (q.money_text(value, currency) for value in (low, high))
    label = word("world.label", lang, count=len(places), least=least, most=most, region=_regions(places[0], lang))
    with box("figure", "world"):
        with _part("svg", viewBox=" ".join(f"{value:g}" for value in VIEW), role="img", **{"aria-label": label}):
            _part("path", "grid", d=_grid())
            _part("path", "land", d=outline())
            for place in reversed(places):
                _point(
                    place,
                    lang,
                    currency=currency,
                    share=(place.usd_per_h - low) / (high - low) if high > low else 0.0,
                    is_chosen=chosen in place.regions,
                )
            for place in _named(places):
                _region_name(place, str(q.money_text(place.usd_per_h, currency)))
        paragraph(word("world.note" if high > low else "world.one_price", lang, least=least, most=most), "muted small")
        if any(chosen in place.regions for place in places):
            paragraph(word("world.ring", lang), "muted small")


def _part(tag: str, classes: str = "", **values: str) -> ui.element:
    made = box(tag, classes)
    made.props.update(values)
    return made


def _grid() -> str:
    west, north, width, height = VIEW
    lines = [f"M{at},{north:g}v{height:g}" for at in MERIDIANS] + [f"M{west:g},{-at}h{width:g}" for at in PARALLELS]
    return "".join(lines)


def _point(place: PricedPlace, lang: Lang, *, currency: str, share: float, is_chosen: bool) -> None:
    at = {"cx": f"{place.longitude:g}", "cy": f"{-place.latitude:g}"}
    if is_chosen:
        _part("circle", "chosen", r="4.2", **at)
    with _part("circle", "place", r="2.2", **at) as point:
        text(f"{_regions(place, lang)}: {q.money_text(place.usd_per_h, currency)} ({q.purchase_text(place.purchase, lang)})", "", "title")
    point.style(f"fill: color-mix(in oklab, var(--bad) {100 * share:.0f}%, var(--good))")


def _named(places: Sequence[PricedPlace]) -> list[PricedPlace]:
    """The cheapest whose names do not lie upon another."""
    found: list[PricedPlace] = []
    for place in places:
        if len(found) < NUM_NAMED and all(
            abs(place.latitude - other.latitude) > _APART or abs(place.longitude - other.longitude) > 6 * _APART for other in found
        ):
            found.append(place)
    return found


def _region_name(place: PricedPlace, price: str) -> None:
    is_east = place.longitude > 120
    anchor, aside = ("end", -4) if is_east else ("start", 4)
    made = text(price, "price", "text")
    made.props.update({"x": f"{place.longitude + aside:g}", "y": f"{-place.latitude + 2:g}", "text-anchor": anchor})


def _regions(place: PricedPlace, lang: Lang) -> str:
    return ("、" if lang == "zh" else ", ").join(q.region_text(region, lang) for region in place.regions)
