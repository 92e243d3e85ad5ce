"""What each way to pay costs in a month by the hours used: the lines of a break-even chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.explain import quantities as q
from rightfit.explain.messages import join, label
from rightfit.explain.quantities import Column, Table
from rightfit.explain.reasons import term_text
from rightfit.market.names import place_of
from rightfit.market.offers import PURCHASES
from rightfit.messages import Lang
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.price_book import PriceBook
    from rightfit.planner.cards import Fit
    from rightfit.planner.given import ScalePoint
    from rightfit.planner.typical import VolumeDecision
    from rightfit.search.answer import Section


@dataclass(frozen=True, slots=True)
class BuyCurve:
    """One way to pay: the money of a month [USD] at the first and the last hour [h] of its straight
    line; the same at both ends where a month is owed anyway."""

    purchase: str
    hours: tuple[float, float]
    usd: tuple[float, float]


def buy_curves(section: Section) -> tuple[BuyCurve, ...]:
    """One line for each way to pay with a known price, cheapest at full use first."""
    month_h = float(facts.coefficients("serving_planning")["hours_per_month"])
    found: dict[str, BuyCurve] = {}
    for mode in section.content["modes"]:
        price, month = mode["price_usd_per_h"], mode["month_usd"]
        if price is None or month is None or mode["purchase"] in found:
            continue
        owed = mode["term_h"] > 0
        found[mode["purchase"]] = BuyCurve(mode["purchase"], (0.0, month_h), (month if owed else 0.0, month))
    return tuple(sorted(found.values(), key=lambda curve: curve.usd[1]))


@dataclass(frozen=True, slots=True)
class OwedCurve:
    """One way to pay: what is owed [USD] after so many months of use around the clock; a term that
    has begun is owed whole."""

    purchase: str
    months: tuple[float, ...]
    usd: tuple[float, ...]


def owed_curves(section: Section, *, horizon: float = 36.0) -> tuple[OwedCurve, ...]:
    """One curve for each way to pay with a known price, the cheapest at the horizon first."""
    month_h = float(facts.coefficients("serving_planning")["hours_per_month"])
    found: dict[str, OwedCurve] = {}
    for mode in section.content["modes"]:
        if mode["price_usd_per_h"] is None or mode["month_usd"] is None or mode["purchase"] in found:
            continue
        term, owed = mode["term_h"] / month_h, mode["owed_usd"]
        if not term:
            found[mode["purchase"]] = OwedCurve(mode["purchase"], (0.0, horizon), (0.0, mode["month_usd"] * horizon))
            continue
        starts = [count * term for count in range(max(1, math.ceil(horizon / term - 1e-9)))]
        months = [month for start in starts for month in (start, min(start + term, horizon))]
        usd = [owed * (count + 1) for count in range(len(starts)) for _ in range(2)]
        found[mode["purchase"]] = OwedCurve(mode["purchase"], tuple(months), tuple(usd))
    return tuple(sorted(found.values(), key=lambda curve: curve.usd[-1]))


# ---- How to buy a server as a table, and the bill line by line.


def modes_table(modes: Sequence[dict[str, Any]], lang: Lang, *, currency: str) -> Table:
    """Every way to pay, one a line."""

    def money(value: Any) -> str:
        return "" if value is None else str(q.money_text(value, currency))

    columns = (
        Column("purchase", flexible=True),
        Column("hourly", money, right=True),
        Column("saving", lambda value: "" if value is None else q.percent_text(value), right=True),
        Column("job", money, right=True, drop=4),
        Column("month_730", money, right=True),
        Column("office", money, right=True, drop=2),
        Column("owed", money, right=True, drop=3),
        Column("even_hours", lambda value: "" if not value else f"{value:,.0f} h", right=True),
        Column("even_months", lambda value: "" if not value else q.plain(value, 2), right=True),
        Column("payment", drop=5),
        Column("remark", drop=1),
    )
    records = [_record(mode, lang) for mode in modes]
    kept = tuple(column for column in columns if any(record[column.key] not in (None, "") for record in records))
    return Table(kept, records, title=label("section", "buy", lang))


def _record(mode: dict[str, Any], lang: Lang) -> dict[str, Any]:
    remarks = [label("basis", mode["basis"], lang)] if mode["basis"] != "quoted" else []
    remarks += [label("remark", "is_stale", lang)] if mode["is_stale"] else []
    return {
        "purchase": q.purchase_text(mode["purchase"], lang),
        "hourly": mode["price_usd_per_h"],
        "saving": mode["saving"],
        "job": mode["job_usd"],
        "month_730": mode["month_usd"],
        "office": mode["office_usd"],
        "owed": mode["owed_usd"] or None,
        "even_hours": mode["even_hours"],
        "even_months": mode["even_months"],
        "payment": label("payment", mode["payment"].replace(" ", "_"), lang),
        "remark": ", ".join(remarks),
    }


def bill_table(section: Section, lang: Lang, *, currency: str) -> Table:
    """Every line of the bill, what is only paid for keeping or moving things marked as such."""

    def price(value: Any) -> str:
        return q.plain(value, 4)

    columns = (
        Column("line", flexible=True),
        Column("value", lambda value: str(q.money_text(value, currency)), right=True),
        Column("quantity", q.plain, right=True, drop=3),
        Column("unit", drop=3),
        Column("unit_usd", price, right=True, drop=2),
        Column("remark", flexible=True, drop=1),
    )
    records = [
        {
            "line": term_text(line["name"], lang, kind="bill") + (label("section", "beside", lang) if line["beside"] else ""),
            "value": line["usd"],
            "quantity": line["quantity"],
            "unit": line["unit"],
            "unit_usd": line["unit_usd"],
            "remark": line["note"] or line["source"],
        }
        for line in section.content["lines"]
    ]
    return Table(columns, records, title=label("section", "bill", lang))


# ---- Which models fit a card, in words: the largest of each way in a sentence, and every
# model with every way.


def fit_parts(fits: Sequence[Fit], lang: Lang) -> tuple[str, Table]:
    """The sentence and the table of one machine."""
    first = fits[0]
    ways = list(dict.fromkeys(one.way for one in fits))
    largest = []
    for way in ways:
        held = _language([one.model for one in fits if one.way == way and one.fits])
        largest.append(label("fit", f"largest_{way}", lang, model=held[-1]) if held else label("fit", f"none_{way}", lang))
    memory = q.memory_text(facts.accelerators()[first.gpu].memory_bytes)
    head = label("fit", "head", lang, count=first.count, gpu=first.gpu, memory=memory, largest=join(largest, lang))
    columns = (Column("model", flexible=True), *(Column(f"fit_{way}") for way in ways))
    words = {True: label("fit", "yes", lang), False: "-", None: ""}
    known = {(one.model, one.way): one.fits for one in fits}
    records: list[dict[str, Any]] = [
        {"model": model, **{f"fit_{way}": words[known.get((model, way))] for way in ways}}
        for model in dict.fromkeys(one.model for one in fits)
    ]
    return head, Table(columns, records)


def _language(models: list[str]) -> list[str]:
    """Those that produce text: of models that draw the largest says little."""
    kinds = {row["model"]: row["kind"] for row in facts.table("fit_models")}
    return [model for model in models if kinds[model] == "language"]


# ---- Growing numbers of servers in words: the table, and the sentence that says how
# far more of them pay.

#: From how little more speed for as many times the servers on more of them are called poor.
_POOR = 0.7


def scale_table(points: Sequence[ScalePoint], lang: Lang, *, currency: str) -> Table:
    """A line for each number of servers."""
    is_service = any(point.requests_per_s for point in points)
    records = [
        {
            "scale_nodes": point.nodes,
            "scale_latency" if is_service else "scale_time": q.duration_text(point.time_s.mid, lang),
            "interval80": f"{q.duration_text(point.time_s.low80, lang)} – {q.duration_text(point.time_s.high80, lang)}",
            "scale_month" if is_service else "scale_cost": q.money_text(point.usd.mid, currency),
            "requests": q.plain(point.requests_per_s.mid) if point.requests_per_s else "",
            "capacity" if is_service else "gain": f"{point.gain:.2f} ×",
            "of_ideal": q.percent_text(point.share),
        }
        for point in points
    ]
    names = ("scale_nodes", "scale_latency" if is_service else "scale_time", "interval80", "scale_month" if is_service else "scale_cost")
    more = ("requests", "capacity", "of_ideal") if is_service else ("gain", "of_ideal")
    return Table(tuple(Column(name, right=True) for name in (*names, *more)), records, title=label("scale", "title", lang))


def scale_line(points: Sequence[ScalePoint], lang: Lang) -> str:
    """How far more servers pay."""
    if len(points) < 2:
        return label("scale", "only" if points else "none", lang, nodes=points[0].nodes if points else 0)
    if points[0].requests_per_s is not None:
        last, first = points[-1], points[0]
        times = {"slow": q.duration_text(first.time_s.mid, lang), "fast": q.duration_text(last.time_s.mid, lang)}
        return label("scale", "service", lang, nodes=last.nodes, gain=f"{last.gain:.3g}", first=first.nodes, **times)
    good = [point for point in points if point.share >= _POOR]
    last = good[-1]
    extra = q.percent_text(last.usd.mid / points[0].usd.mid - 1)
    key = "all" if last is points[-1] else "until"
    return label("scale", key, lang, nodes=last.nodes, share=q.percent_text(last.share), extra=extra, first=points[0].nodes)


# ---- Where so much data lie, in words: every tier, the one that holds, and what a month of it
# costs. Faces draw it.


@dataclass(frozen=True, slots=True)
class VolumeStep:
    """One tier: how much data it is for, with what it says, and whether it holds here."""

    span: str
    span_text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class VolumeText:
    """The decision: heading, tiers from small to large, and the bill."""

    head: str
    steps: tuple[VolumeStep, ...]
    bill: str


def volume_text(made: VolumeDecision, lang: Lang) -> VolumeText:
    """The words of a decision."""
    ends = [*(least for _, least in made.tiers[1:]), None]
    steps = []
    for (name, least), end in zip(made.tiers, ends, strict=True):
        above = end is None
        span = label("volume", "above" if above else "below", lang, low=q.data_text(least), high="" if above else q.data_text(end or 0.0))
        steps.append(VolumeStep(span, label("volume", name, lang, span=span), name == made.tier))
    rates = {"read": f"{q.data_text(made.read_bytes_per_s)}/s", "rate": f"{made.parallel_bytes_per_s / 1e9:.3g} GB/s"}
    money = {"object": q.money_text(made.object_usd_per_month), "parallel": q.money_text(made.parallel_usd_per_month)}
    bill = label("volume", "bill", lang, **rates, **money, held=q.data_text(made.parallel_bytes))
    return VolumeText(label("volume", "head", lang, size=q.data_text(made.data_bytes)), tuple(steps), bill)


# ---- A price book in words: its entries as a table.


def book_table(book: PriceBook, lang: Lang) -> Table:
    """An entry a line: what it is, and what it says in the words of the book."""
    records = []
    for entry in book.entries:
        given = entry.model_dump(exclude_unset=True)
        said = " · ".join(f"{name} {_said(value)}" for name, value in given.items() if name != "line")
        records.append({"book_line": entry.line, "entry": label("book", type(entry).__name__.casefold(), lang), "says": said})
    return Table(
        (Column("book_line", right=True), Column("entry"), Column("says", flexible=True)), records, title=label("book", "title", lang)
    )


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else f"{value:.12g}" if isinstance(value, float) else str(value)


# ---- Prices of one server by region, a column for each way to pay, and where in
# the world they are.

_MOST_WAYS = 5


@dataclass(frozen=True, slots=True)
class PricedPlace:
    """A place on the map with its regions and the least price of the server there [USD/h] (by
    which way to pay)."""

    latitude: float
    longitude: float
    regions: tuple[str, ...]
    usd_per_h: float
    purchase: str


def priced_places(provider: str, instance_type: str, *, catalog: Catalog) -> tuple[PricedPlace, ...]:
    """Where a server is sold, the cheapest first. Regions of one city are one place; prices that
    hold for no place are left out."""
    row = catalog.server_rows.get((provider, instance_type))
    if row is None:
        return ()
    city_of = {found.region: found.city for found in catalog.regions() if found.provider == provider}
    offers = catalog.offers_of(row)
    found: dict[tuple[float, float], list[tuple[float, str, str]]] = {}
    for at in np.flatnonzero(~offers.is_quarantined & np.isfinite(offers.price_usd_per_h)).tolist():
        offer = offers.row(at)
        where = place_of(offer["country"], city_of.get(offer["region"], ""))
        if where is not None:
            found.setdefault(where, []).append((offer["price_usd_per_h"], offer["region"], offer["purchase"]))
    made = []
    for (latitude, longitude), entries in found.items():
        least, _, purchase = min(entries)
        made.append(PricedPlace(latitude, longitude, tuple(sorted({region for _, region, _ in entries})), least, purchase))
    return tuple(sorted(made, key=lambda place: (place.usd_per_h, place.regions)))


def region_prices(provider: str, instance_type: str, lang: Lang, *, catalog: Catalog, currency: str = "usd") -> Table:
    """Sound prices an hour of one server, a line for each region, the cheapest first; the commonest
    ways to pay as columns. Empty where none is known."""
    row = catalog.server_rows.get((provider, instance_type))
    if row is None:
        return Table((Column("region"),), [])
    offers = catalog.offers_of(row)
    sound = np.flatnonzero(~offers.is_quarantined & np.isfinite(offers.price_usd_per_h))
    records: dict[str, dict[str, Any]] = {}
    for at in sound.tolist():
        found = offers.row(at)
        record = records.setdefault(
            found["region"], {"region": q.region_text(found["region"], lang), "country": found["country"], "as_of": ""}
        )
        record[found["purchase"]] = min(found["price_usd_per_h"], record.get(found["purchase"], np.inf))
        record["as_of"] = max(record["as_of"], found["as_of"])
    ways = [name for name in PURCHASES if any(name in record for record in records.values())]
    ways = sorted(ways, key=lambda name: (-sum(name in record for record in records.values()), PURCHASES.index(name)))[:_MOST_WAYS]

    def money(value: Any) -> str:
        return "" if value is None else str(q.money_text(value, currency))

    ordered = sorted(records.values(), key=lambda record: min(record[name] for name in PURCHASES if name in record))
    prices = tuple(Column(name.replace("-", "_"), money, right=True) for name in ways)
    lines = [{**record, **{name.replace("-", "_"): record.get(name) for name in ways}} for record in ordered]
    return Table(
        (Column("region"), Column("country"), *prices, Column("as_of", right=True)), lines, title=label("section", "regions", lang)
    )
