"""Where regions lie: latitude and longitude of their cities, for maps. To a tenth of a degree, which is a dozen kilometres; clouds tell no more than the city."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Mapping

from rightfit.catalog.package_data import data_bytes


@functools.cache
def places() -> Mapping[tuple[str, str], tuple[float, float]]:
    """(country, city) of the regions -> latitude and longitude [degrees]. A state or a country alone lies at its main place of data centers or its capital, which the
    table names."""
    lines = csv.DictReader(io.StringIO(data_bytes("places.csv").decode()))
    return {(line["country"], line["city"]): (float(line["latitude"]), float(line["longitude"])) for line in lines}


def place_of(country: str, city: str) -> tuple[float, float] | None:
    """Latitude and longitude [degrees] of a region, or None where none is known."""
    return places().get((country, city))
