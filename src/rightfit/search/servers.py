"""Who rents what, and where: providers side by side, live from the catalog; regions with
names, law and distance."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.errors import AmbiguousNameError, UnknownNameError
from rightfit.market import names
from rightfit.market.offers import PURCHASE_CODES, SUPERSEDED_BY, OfferTable
from rightfit.physics.columns import once
from rightfit.records import dataclass
from rightfit.search.answer import Assumption, Option, Reason, Rejection, Render, finite, render_all
from rightfit.search.criteria import jurisdictions, residency_countries
from rightfit.search.offers import Market, read_market

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.names import Region


_LINKS = ("nvswitch", "nvlink", "ici", "neuronlink", "xgmi", "roce", "pcie")
_FABRICS = ("infiniband", "gpudirect-tcpxo", "gpudirect-tcpx", "efa", "roce", "erdma")
_NO_PRICE = {"en": " (no price)", "zh": "（无价格）"}
_NEIGHBOURS = frozenset(
    frozenset(pair)
    for pair in (
        ("Europe", "North America"),
        ("Europe", "Africa"),
        ("North America", "South America"),
        ("Asia", "Oceania"),
        ("North America", "Asia"),
    )
)


@functools.cache
def silicon() -> tuple[tuple[tuple[str, ...], dict[str, str]], ...]:
    """Chips of the clouds' own and of Chinese makers: beginnings of their names, and the row of
    facts/data/silicon.csv."""
    return tuple((tuple(row["beginning"].split("|")), row) for row in facts.table("silicon"))


def providers(catalog: Catalog, *, asked: Sequence[str] = (), lang: str = "en") -> list[dict[str, Any]]:
    """One record for each provider that rents accelerators: cards, largest server, links, ways to
    pay, own chips, regions, price of an A100 and an H100."""
    table = catalog.all_offers(has_accelerator=True)
    servers = table.servers
    sound = ~table.is_quarantined & np.isfinite(table.price_usd_per_h) & servers.is_recommendable[table.server_index]
    chosen = [names.resolve_provider(name) for name in asked]
    owners = sorted({name for name in servers.provider if not chosen or name in chosen})
    return [_provider(table.take(np.flatnonzero(sound & _of(table, name))), name, lang) for name in owners]


def _of(table: OfferTable, provider: str) -> Any:
    return np.array([name == provider for name in table.servers.provider], dtype=np.bool_)[table.server_index]


def _provider(table: OfferTable, provider: str, lang: str) -> dict[str, Any]:
    servers = table.servers
    rows = once(table.server_index)
    listed = [name == provider and not why for name, why in zip(servers.provider, servers.not_recommended, strict=True)]
    cards = [servers.accelerator_name[row] for row in np.flatnonzero(listed).tolist()]
    every = [name for owner, name in zip(servers.provider, servers.accelerator_name, strict=True) if owner == provider]
    priced = {servers.accelerator_name[row] for row in rows.tolist()}
    dates = sorted({table.as_of_dates[code] for code in once(table.as_of_index).tolist()})
    return {
        "provider": provider,
        "name": names.provider_display(provider, lang=lang),
        "cards": list(dict.fromkeys(card for card in cards if card)),
        "num_cards": len(set(cards)),
        "largest": _largest(table, rows),
        "gpu_interconnect": next((link for link in _LINKS if any(servers.gpu_interconnect[row] == link for row in rows.tolist())), ""),
        "rdma": next((fabric for fabric in _FABRICS if any(servers.rdma[row] == fabric for row in rows.tolist())), ""),
        "spot": bool(np.any(table.purchase_index == PURCHASE_CODES["spot"])),
        "own_silicon": _makers(every, priced, "own", lang),
        "domestic": _makers(every, priced, "domestic", lang),
        "regions": len({table.regions[code] for code in once(table.region_index).tolist() if table.region_countries[code]}),
        "a100_usd_per_h": card_price(table, "A100"),
        "h100_usd_per_h": card_price(table, "H100"),
        "as_of": dates[-1] if dates else "",
    }


def _makers(cards: Sequence[str], priced: set[str], kind: str, lang: str) -> list[str]:
    """Makers of chips of one kind among the cards; one whose cards have no sound price says so."""
    found: dict[str, bool] = {}
    for card in cards:
        for beginnings, row in silicon():
            if row["kind"] == kind and card.startswith(beginnings):
                found[row[lang]] = found.get(row[lang], False) or card in priced
    return [maker if has else f"{maker}{_NO_PRICE[lang]}" for maker, has in found.items()]


def _largest(table: OfferTable, rows: Any) -> str:
    """The server with most accelerators, of those the one with most memory on them."""
    servers = table.servers
    if not len(rows):
        return ""
    keys = [
        (servers.num_accelerators[row], servers.num_accelerators[row] * np.nan_to_num(servers.accelerator_memory_bytes[row]))
        for row in rows
    ]
    row = int(rows[max(range(len(keys)), key=lambda place: keys[place])])
    return f"{servers.num_accelerators[row]:g}x {servers.accelerator_name[row]}"


def card_price(table: OfferTable, card: str) -> float | None:
    """The least on-demand price of one such card an hour, whole cards only, quoted; None
    where none is rented."""
    servers = table.servers
    wanted = frozenset(facts.match_accelerators(card))
    has = np.array([name in wanted for name in servers.accelerator_name], dtype=np.bool_) & (servers.num_accelerators >= 1)
    rows = has[table.server_index] & (table.purchase_index == PURCHASE_CODES["on-demand"]) & ~table.is_estimate
    prices = table.price_usd_per_h[rows] / servers.num_accelerators[table.server_index[rows]]
    return float(prices.min()) if prices.size else None


def regions(
    catalog: Catalog,
    query: str = "",
    *,
    cloud: Sequence[str] = (),
    country: Sequence[str] = (),
    residency: Sequence[str] = (),
    near: str = "",
) -> list[dict[str, Any]]:
    """Regions with their names in both languages, continent, areas of law, number of accelerated
    server types, and how far they are from `near`."""
    chosen = {names.resolve_provider(name) for name in cloud}
    countries = {code for name in country for code in names.resolve_countries(name, catalog.regions())}
    allowed = set(residency_countries(tuple(residency), catalog)) if residency else set()
    home = home_of(near, catalog) if near else None
    words = query.casefold().split()
    rented = _servers_by_region(catalog)
    found = [
        {**_region(place), "gpu_types": rented.get((place.provider, place.region), 0), "latency": distance(home, place) if home else ""}
        for place in catalog.regions()
        if (not chosen or place.provider in chosen)
        and (not countries or place.country in countries)
        and (not residency or place.country in allowed)
        and all(
            word in f"{place.provider} {place.region} {place.country} {place.city} {place.display_en} {place.display_zh}".casefold()
            for word in words
        )
    ]
    order = [row["class"] for row in facts.table("latency")]
    return sorted(found, key=lambda row: (order.index(row["latency"]) if row["latency"] else 0, row["provider"], row["region"]))


def _region(place: Region) -> dict[str, Any]:
    laws = dict.fromkeys(row["code"] for row in jurisdictions().values() if place.country in row["countries"].split(";"))
    values = ("provider", "region", "display_en", "display_zh", "city", "country", "continent", "source")
    return {**{name: getattr(place, name) for name in values}, "law": list(laws)}


def _servers_by_region(catalog: Catalog) -> dict[tuple[str, str], int]:
    table = catalog.all_offers(has_accelerator=True)
    pairs = np.unique(np.stack([table.region_index, table.server_index]), axis=1)
    counts = np.bincount(pairs[0], minlength=len(table.regions))
    return {key: int(count) for key, count in zip(zip(table.region_providers, table.regions, strict=True), counts.tolist(), strict=True)}


def home_of(text: str, catalog: Catalog) -> tuple[str, str, str]:
    """(city, country, continent) of where the user is: a region, a city or a country."""
    from rightfit.workload.vocabulary import COUNTRIES, fold

    places = [place for place in catalog.regions() if not place.is_pseudo]
    code = COUNTRIES.get(fold(text), text.upper() if len(text) == 2 else "")
    of_country = [place for place in places if place.country == code]
    if of_country:
        return "", code, of_country[0].continent
    found = names.resolve_regions(text, places)[0]
    return found.city, found.country, found.continent


def distance(home: tuple[str, str, str], place: Region) -> str:
    """The class of facts/data/latency.csv: how far a region is from home."""
    city, country, continent = home
    if place.is_pseudo:
        return "unknown"
    if country == place.country:
        return "city" if city and city == place.city else "country"
    if continent == place.continent:
        return "continent"
    return "near" if frozenset((continent, place.continent)) in _NEIGHBOURS else "far"


# ---- One server by name: which it is, what is known about it for a workload, and its market alone.


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known about one server for a workload.

    `option`: the best setup on it, or, where none fits, the one that needs least memory (None when
    the accelerator cannot run the job at all).
    `standing`: reasons, most important first: why_best, why_ranked, why_refused, why_unpriced.
    `failed`: the criteria it fails, with the nearest miss and its least change.
    """

    workload: Any
    assumptions: tuple[Assumption, ...]
    provider: str
    instance_type: str
    fits: bool
    option: Option | None
    standing: tuple[Reason, ...]
    failed: tuple[Rejection, ...]

    def to_dict(self, render: Render | None = None) -> dict[str, Any]:
        """As JSON-ready data."""
        return dict(
            finite(
                {
                    "workload": self.workload.to_dict(),
                    "assumptions": [assumption.to_dict(render) for assumption in self.assumptions],
                    "provider": self.provider,
                    "instance_type": self.instance_type,
                    "fits": self.fits,
                    "option": self.option.to_dict(render) if self.option else None,
                    "standing": render_all(self.standing, render),
                    "failed": [rejection.to_dict(render) for rejection in self.failed],
                }
            )
        )


def find_server(catalog: Catalog, name: str) -> int:
    """Row of a server given as PROVIDER/INSTANCE or, where only one provider has it, INSTANCE; a
    partition stands behind its cloud."""
    from rightfit.market import names

    owner, _, kind = name.strip().rpartition("/")
    provider = names.resolve_provider(owner) if owner else ""
    rows = catalog.server_rows
    if (provider, kind) in rows:
        return rows[provider, kind]
    found = [row for (cloud, known), row in rows.items() if known.casefold() == kind.casefold() and (not provider or cloud == provider)]
    found = found or [
        row for (cloud, known), row in rows.items() if known.casefold().startswith(f"{kind.casefold()}.") and cloud == (provider or cloud)
    ]
    if len(found) > 1:
        whole = [row for (cloud, _), row in rows.items() if row in found and cloud not in names.partitions()]
        found = whole or found
    if len(found) > 1:
        raise AmbiguousNameError("server", name, [f"{cloud}/{known}" for (cloud, known), row in rows.items() if row in found], field="on")
    if not found:
        known = {f"{cloud}/{kind_}": f"{cloud}/{kind_}" for cloud, kind_ in rows if not provider or cloud == provider}
        from rightfit.facts import tables

        raise UnknownNameError(
            "server", name, nearest=tuple(tables.nearest(f"{provider}/{kind}" if provider else kind, known, count=3)), field="on"
        )
    return found[0]


def names_of(catalog: Catalog, server: str) -> tuple[str, str]:
    """Provider and instance type as the catalog spells them."""
    row = find_server(catalog, server)
    return next(key for key, number in catalog.server_rows.items() if number == row)


def former_name(catalog: Catalog, row: int) -> tuple[Reason, ...]:
    """What a server is called by now whose seller lists it under another name at a newer price;
    nothing for others."""
    servers = catalog.servers()
    reason = servers.not_recommended[row]
    if not reason.startswith(SUPERSEDED_BY):
        return ()
    return (Reason("price_superseded", {"newer": f"{servers.provider[row]}/{reason.removeprefix(SUPERSEDED_BY)}"}),)


def market_of_one(catalog: Catalog, row: int) -> tuple[Market, bool]:
    """The market of one server alone, and whether it has prices; one without gets an
    offer of unknown price."""
    accelerated = row < len(catalog.servers(has_accelerator=True))
    table = catalog.all_offers(has_accelerator=True if accelerated else None)
    sound = ~table.is_quarantined & np.isfinite(table.price_usd_per_h)
    rows = np.flatnonzero(sound & (table.server_index == row))
    is_priced = rows.shape[0] > 0
    market = read_market(catalog, table.take(rows if is_priced else np.zeros(1, dtype=np.intp)))
    servers = catalog.servers().take(np.array([row], dtype=np.intp))
    offers = dataclasses.replace(market.offers, servers=servers, server_index=np.zeros(len(market.offers), dtype=np.intp))
    if not is_priced:
        offers = dataclasses.replace(offers, price_usd_per_h=np.full(1, np.nan))
    return dataclasses.replace(market, offers=offers), is_priced
