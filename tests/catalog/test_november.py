"""The market as it was read in November 2026, row by row.

tests/data/november_prices.csv holds the newest price of each seller, place, server and way to pay
that a review of public lists could read. `disputed`: two sources disagree whether it is sold so.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from rightfit.market import Catalog

TABLE = Path(__file__).parents[1] / "data/november_prices.csv"
#: Nobody states their cores and memory, so that nothing can be planned on them.
WITHOUT_A_SIZE = {"gpu_4x_b200_sxm6", "8x_MI300X"} | {
    f"gpu-{card}" for card in ("4000adax1-20gb", "6000adax1-48gb", "h200x1-141gb", "l40sx1-48gb", "mi300x1-192gb")
}


def reviewed() -> list[dict[str, str]]:
    with TABLE.open(newline="", encoding="utf-8") as stream:
        return [row for row in csv.DictReader(stream) if row["status"] != "disputed" and row["instance_type"] not in WITHOUT_A_SIZE]


def faults(catalog: Catalog, row: dict[str, str]) -> Iterator[str]:
    """What the catalog says otherwise than the review and no newer source bears out."""
    offers = catalog.offers_of(catalog.server_rows[row["provider"], row["instance_type"]])
    listed = [offers.row(at) for at in range(len(offers))]
    found = [one for one in listed if one["purchase"] == row["purchase"].replace("_", "-") and row["region"] in ("*", "any", one["region"])]
    name = "/".join((row["provider"], row["instance_type"], row["region"], row["purchase"]))
    if not found:
        yield f"{name}: no price"
    for one in found:
        if one["as_of"] < row["as_of"]:
            yield f"{name}: of {one['as_of']}, read on {row['as_of']}"
        elif one["as_of"] == row["as_of"] and one["price_usd_per_h"] != pytest.approx(float(row["price_usd_hour"]), rel=0.005):
            yield f"{name}: {one['price_usd_per_h']}, read as {row['price_usd_hour']}"


def test_the_catalog_has_every_price_that_was_read(catalog: Catalog) -> None:
    rows = reviewed()
    assert len(rows) > 500
    assert [fault for row in rows for fault in faults(catalog, row)] == []


def test_servers_without_a_size_are_not_in_it(catalog: Catalog) -> None:
    assert WITHOUT_A_SIZE.isdisjoint(name for _, name in catalog.server_rows)
