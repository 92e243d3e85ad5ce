"""A map of the world with the places where a server is sold, drawn as SVG from an outline that comes with the package: nothing is loaded from anywhere. The table
beside it says the same in words."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING

from rightfit.explain import quantities as q
from rightfit.explain.messages import Lang
from rightfit.web.draw import box, paragraph, text
from rightfit.web.words import word

if TYPE_CHECKING:
    from nicegui import ui

    from rightfit.explain.places import PricedPlace

#: The part of the world that is shown [degrees]: west, north, width, height. No cloud has a region beyond.
VIEW = (-168.0, -72.0, 348.0, 122.0)
MERIDIANS, PARALLELS = range(-150, 180, 30), range(-30, 61, 30)
NUM_NAMED = 3
_APART = 7.0  # names closer than this to another's line would lie upon it [degrees]


@functools.cache
def outline() -> str:
    """The land as a path of SVG, longitude to the right and latitude upwards (Natural Earth 1:110m, public domain; thinned)."""
    return resources.files("rightfit.web").joinpath("data", "world.txt").read_text(encoding="utf-8")


def world_map(places: Sequence[PricedPlace], lang: Lang, *, currency: str = "usd", chosen: str = "") -> None:
    """A point for each place, its colour from the cheapest to the dearest; the cheapest with their prices, the chosen region in a ring."""
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
                _name(place, str(q.money_text(place.usd_per_h, currency)))
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


def _name(place: PricedPlace, price: str) -> None:
    is_east = place.longitude > 120
    anchor, aside = ("end", -4) if is_east else ("start", 4)
    made = text(price, "price", "text")
    made.props.update({"x": f"{place.longitude + aside:g}", "y": f"{-place.latitude + 2:g}", "text-anchor": anchor})


def _regions(place: PricedPlace, lang: Lang) -> str:
    return ("、" if lang == "zh" else ", ").join(q.region_text(region, lang) for region in place.regions)
