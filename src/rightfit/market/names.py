"""Providers, regions and countries by the names people use, with the nearest valid
name when none fits."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Iterable, Mapping
from typing import Any

from rightfit.errors import UnknownNameError
from rightfit.facts import tables
from rightfit.files import Sections
from rightfit.market.offers import PURCHASE_CODES, PURCHASE_GROUPS, PURCHASES
from rightfit.market.packed_tables import data_bytes
from rightfit.messages import Message
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class Region:
    """One region of one provider; `country` is empty for a pseudo region ("any", "global", "eu",
    "cheapest-listed")."""

    provider: str
    region: str
    country: str
    continent: str
    city: str
    display_en: str
    display_zh: str
    source: str

    @property
    def is_pseudo(self) -> bool:
        """Whether this says where a price holds rather than where a server can be started."""
        return not self.country


@functools.cache
def names_data() -> Mapping[str, Any]:
    """The other names of providers and parts of the world."""
    return Sections(data_bytes("names.toml").decode())


def fold(text: str) -> str:
    """Case, blanks, dashes and underscores do not matter in a name."""
    return " ".join(text.casefold().replace("-", " ").replace("_", " ").split())[: tables.LONGEST_NAME]


@functools.cache
def _provider_names() -> Mapping[str, str]:
    """Folded name -> provider code."""
    known = {**names_data()["providers"], **names_data()["extra_providers"]}
    names = {fold(code): code for code in known}
    for code, entry in known.items():
        for name in (entry["en"], entry["zh"], *entry["aliases"]):
            names.setdefault(fold(name), code)
    return names


def provider_display(code: str, *, lang: str = "en") -> str:
    """The provider's full name in English or Chinese."""
    entry = names_data()["providers"].get(code) or names_data()["extra_providers"].get(code)
    return entry[lang] if entry else code


def find_provider(text: str) -> str | None:
    """The provider code for a name, or None."""
    return _provider_names().get(fold(text))


def resolve_provider(text: str, *, field: str = "cloud") -> str:
    """The provider code for a name; UnknownNameError with the nearest ones otherwise."""
    if found := find_provider(text):
        return found
    codes = tuple(names_data()["providers"])
    folded = fold(text)
    for missing, aliases in names_data()["missing_providers"].items():
        if folded in (missing, *map(fold, aliases)):
            raise UnknownNameError("cloud", text, allowed=Message("names.cloud_without_servers", names=", ".join(codes)), field=field)
    near = tuple(dict.fromkeys(_provider_names()[name] for name in tables.nearest(folded, _provider_names(), count=4)))
    raise UnknownNameError(
        "cloud", text, nearest=near, allowed="" if near else Message("names.known_words", names=", ".join(codes)), field=field
    )


def partitions() -> Mapping[str, Mapping[str, Any]]:
    """Clouds of their own under the name of another: their code -> whose (`of`) and the countries
    that mean them (`countries`)."""
    found: Mapping[str, Mapping[str, Any]] = names_data()["partitions"]
    return found


def find_regions(text: str, regions: Iterable[Region]) -> tuple[Region, ...]:
    """Regions whose code, city or display name (English or Chinese) is `text`; a code beats a
    name. A code that others begin with ("us-east" is a region of IBM and the beginning of two of
    AWS) means them all, and the code of a country, which one cloud may call a region, all there."""
    records = tuple(regions)
    code = text.strip().casefold()
    if inland := tuple(record for record in records if record.country.casefold() == code):
        return inland
    exact = tuple(record for record in records if record.region.casefold() == code)
    if exact or (code.count("-") and not code[-1:].isdigit()):
        begun = (
            ()
            if code[-1:].isdigit() or "-" not in code
            else tuple(one for one in records if one.region.casefold().rstrip("0123456789").rstrip("-") == code)
        )
        if exact or begun:
            return tuple(dict.fromkeys((*exact, *begun)))
    wanted = fold(text)
    for group, told in names_data()["region_groups"].items():
        if wanted in (group, *told["also"]):
            return tuple(record for record in records if _is_part(record, told))
    return tuple(record for record in records if wanted and wanted in _region_names(record))


def _is_part(record: Region, told: Mapping[str, Any]) -> bool:
    """Whether a region lies in a part of a country: by its city, or by its longitude."""
    if "longitude" not in told:
        return record.country == "CN" and record.city in told["cities"]
    place = place_of(record.country, record.city)
    return record.country == told["country"] and place is not None and told["longitude"][0] < place[1] < told["longitude"][1]


@functools.cache
def _region_names(record: Region) -> frozenset[str]:
    """Display names carry the country outside and the city inside brackets: both the whole
    and the city count."""
    names = {record.city, record.display_en, record.display_zh}
    for display in (record.display_en, record.display_zh.replace("（", "(").replace("）", ")")):
        if "(" in display:
            names.add(display.split("(", 1)[1].rstrip(")"))
    if record.display_zh.startswith("中国"):
        names.add(record.display_zh.removeprefix("中国"))
    return frozenset(fold(name) for name in names if name and not record.is_pseudo) | {fold(record.region)}


def resolve_regions(text: str, regions: Iterable[Region]) -> tuple[Region, ...]:
    """Like `find_regions`, but UnknownNameError with the nearest region codes when nothing fits."""
    records = tuple(regions)
    if found := find_regions(text, records):
        return found
    spelled: dict[str, str] = {}
    for record in records:
        for name in _region_names(record):
            spelled.setdefault(name, record.region)
    near = tuple(dict.fromkeys(spelled[name] for name in tables.nearest(fold(text), spelled, count=5)))
    raise UnknownNameError("region", text, nearest=near, allowed="" if near else Message("names.regions"), field="region")


def resolve_countries(text: str, regions: Iterable[Region]) -> tuple[str, ...]:
    """ISO codes for a code or a continent; UnknownNameError when no region lies there."""
    records = tuple(regions)
    known = sorted({record.country for record in records if record.country})
    if text.strip().upper() in known:
        return (text.strip().upper(),)
    folded = fold(text)
    for continent, aliases in names_data()["continents"].items():
        if folded in (fold(continent), *map(fold, aliases)):
            return tuple(sorted({record.country for record in records if record.continent == continent and record.country}))
    raise UnknownNameError("country", text, allowed=Message("names.countries", names=", ".join(known)), field="country")


def resolve_purchases(names: Iterable[str]) -> tuple[str, ...]:
    """Purchase modes with groups ("reserved", "subscription", "any") spread out."""
    modes: dict[str, None] = {}
    for name in names:
        folded = name.strip().casefold().replace("_", "-").replace(" ", "-")
        if folded in PURCHASE_GROUPS:
            modes.update(dict.fromkeys(PURCHASE_GROUPS[folded]))
        elif folded in PURCHASE_CODES:
            modes[folded] = None
        else:
            words = (*PURCHASES, *PURCHASE_GROUPS)
            raise UnknownNameError("purchase mode", name, nearest=tables.nearest(folded, words), allowed="", field="purchase")
    return tuple(modes)


# ---- Where regions lie: latitude and longitude of their cities, for maps. To a tenth of a degree,
# which is a dozen kilometres; clouds tell no more than the city.


@functools.cache
def places() -> Mapping[tuple[str, str], tuple[float, float]]:
    """(country, city) of the regions -> latitude and longitude [degrees]. A state or a country
    alone lies at its main place of data centers or its capital, which the table names."""
    lines = csv.DictReader(io.StringIO(data_bytes("places.csv").decode()))
    return {(line["country"], line["city"]): (float(line["latitude"]), float(line["longitude"])) for line in lines}


def place_of(country: str, city: str) -> tuple[float, float] | None:
    """Latitude and longitude [degrees] of a region, or None where none is known."""
    return places().get((country, city))
