"""Every region of the catalog lies somewhere on the map, where it says."""

from __future__ import annotations

import csv
import io

from rightfit.market import Catalog
from rightfit.market.names import place_of, places
from rightfit.market.packed_tables import data_bytes

#: Corners of what a country's regions lie in, roughly: south, north, west, east.
BOUNDS = {"US": (24, 50, -125, -66), "CN": (18, 54, 73, 135), "DE": (47, 55.1, 5.8, 15.1), "AU": (-44, -10, 112, 154), "BR": (-34, 6, -74, -34), "IN": (6, 36, 68, 98), "JP": (30, 46, 129, 146), "GB": (49, 61, -9, 2), "SG": (1, 2, 103, 105)}  # fmt: skip


def test_every_region_has_a_place(catalog: Catalog) -> None:
    missing = {
        (found.country, found.city) for found in catalog.regions() if not found.is_pseudo and place_of(found.country, found.city) is None
    }
    assert missing == set()  # add a line to catalog/data/places.csv


def test_every_place_has_a_region_a_source_and_lies_in_its_country(catalog: Catalog) -> None:
    known = {(found.country, found.city) for found in catalog.regions()}
    assert places().keys() - known == set()
    for line in csv.DictReader(io.StringIO(data_bytes("places.csv").decode())):
        assert line["source"].startswith("geonames.org/")
        assert line["stands_at"]
        if line["country"] in BOUNDS:
            south, north, west, east = BOUNDS[line["country"]]
            assert south <= float(line["latitude"]) <= north, line
            assert west <= float(line["longitude"]) <= east, line


def test_a_region_without_a_country_is_nowhere() -> None:
    assert place_of("", "") is None


def test_a_part_of_a_country_is_its_regions_there(catalog: Catalog) -> None:
    """Placed by their longitude, and called so by those clouds that say it."""
    for words, is_east in (("US East", True), ("east coast", True), ("美东", True), ("US West", False), ("美西", False)):
        found = catalog.find_regions(words)
        assert {one.country for one in found} == {"US"}
        assert {"aws", "azure", "gcp"} <= {one.provider for one in found}
        named = {
            "east": {one.region for one in found if "east" in one.region},
            "west": {one.region for one in found if "west" in one.region},
        }
        assert len(named["east" if is_east else "west"]) >= 8
        assert not named["west" if is_east else "east"]
