"""Who rents what, and where: providers side by side, and regions with names, law and distance."""

from __future__ import annotations

from typing import Annotated, Any

from rightfit.cli.commands.facts import Clouds, Countries, Query, hourly, number
from rightfit.cli.declared import option
from rightfit.cli.market import open_market
from rightfit.cli.output import View, listing
from rightfit.explain.labels import label
from rightfit.explain.tables import Column, Table

Residency = Annotated[
    list[str] | None,
    option("--residency", help="Only where this law holds: eu, eea, gdpr, cn-mainland, or countries.", metavar="A,B", show_default=False),
]
Near = Annotated[str | None, option("--near", help="Where you are: a country, a city or a region; nearest first.", metavar="PLACE")]


def _joined(values: Any) -> str:
    return ", ".join(values or ())


def providers(query: Query = None, *, view: View) -> None:
    """Providers side by side: cards, largest server, links, spot, own chips, regions, price of one A100 and one H100.

    Example: rightfit providers aws gcp alicloud
    """
    from rightfit.search import places

    found = places.providers(open_market(view), asked=query or (), lang=view.lang)
    words = {flag: label("places", "yes" if flag else "no", view.lang) for flag in (True, False)}
    told = [{**row, "spot": words[row["spot"]], "chips": [*row["own_silicon"], *row["domestic"]]} for row in found]
    shown = found if view.is_machine else told
    columns = (
        Column("name"),
        Column("num_cards", number, right=True, drop=6),
        Column("largest"),
        Column("gpu_interconnect", drop=7),
        Column("rdma", drop=9),
        Column("spot", drop=2),
        Column("chips", _joined, flexible=True),
        Column("regions", number, right=True, drop=1),
        Column("a100_usd_per_h", hourly, right=True),
        Column("h100_usd_per_h", hourly, right=True),
        Column("as_of", drop=8),
    )
    listing(shown, Table(columns, []), view, total=len(found))


def regions(
    query: Query = None, cloud: Clouds = None, country: Countries = None, residency: Residency = None, near: Near = None, *, view: View
) -> None:
    """Regions: names in both languages, country, law, accelerated server types, and how far they are.

    Example: rightfit regions --residency eu --near Berlin
    """
    from rightfit.lookup import read_names
    from rightfit.search import places

    found = places.regions(
        open_market(view),
        " ".join(query or ()),
        cloud=read_names("cloud", cloud or ()),
        country=read_names("country", country or ()),
        residency=read_names("residency", residency or ()),
        near=near or "",
    )
    columns = (
        Column("provider"),
        Column("region"),
        Column("display_en", flexible=True),
        Column("display_zh", flexible=True),
        Column("country"),
        Column("continent", drop=2),
        Column("law", _joined, drop=3),
        Column("gpu_types", number, right=True, drop=1),
        *((Column("latency", lambda value: latency_text(value, view)),) if near else ()),
    )
    listing(found, Table(columns, []), view)


def latency_text(name: str, view: View) -> str:
    """A class of distance with its usual round trip."""
    from rightfit import facts

    row = next(row for row in facts.table("latency") if row["class"] == name)
    span = f" ({row['low_ms']}-{row['high_ms']} ms)" if row["low_ms"] else ""
    return row[view.lang] + span
