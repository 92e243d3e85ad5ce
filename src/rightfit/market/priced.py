"""The catalog with your own prices laid over it: discounts and taxes applied, private and owned
servers added, quotas and credits kept.

Everything that reads a `Catalog` reads a `PricedCatalog` in the same way; the store on
disk is never touched.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rightfit import facts
from rightfit.market import names
from rightfit.market.charges import PlacePrices
from rightfit.market.market import Catalog
from rightfit.market.names import Region
from rightfit.market.offers import INTERRUPTION_BANDS, NO_PRICE, PRICE_KINDS, PURCHASE_CODES, SUPERSEDED_BY, Flags, OfferTable, ServerTable
from rightfit.market.price_book import Credit, Discount, Owned, PriceBook, QuotaEntry, Server, Tax
from rightfit.market.sellers import Quota, read_quota
from rightfit.messages import Message
from rightfit.units import GBPS


class PricedCatalog(Catalog):
    """A catalog and a price book. `own_usd_per_h`: what an hour costs on owned servers that have no
    price of their own, by name."""

    def __init__(self, base: Catalog, book: PriceBook, *, own_usd_per_h: Mapping[str, float] | None = None) -> None:
        # What the base has worked out from its own rows (cached properties) is not
        # true of more rows.
        kept = {
            name: value for name, value in vars(base).items() if not isinstance(getattr(type(base), name, None), functools.cached_property)
        }
        self.__dict__.update(kept)
        self._base = base
        self.book = book
        self._own_usd_per_h = dict(own_usd_per_h or {})
        self._added = [entry for entry in book.entries if isinstance(entry, Server)]
        self._priced: dict[Any, Any] = {}
        self._check()

    def _check(self) -> None:
        """Refuse what would silently do nothing: a discount that fits no price, a quota that names
        nothing, a name given twice."""
        taken = set(zip(self._base.servers().provider, self._base.servers().instance_type, strict=True)) - self._unpriced
        for entry in self._added:
            key = (names.resolve_provider(entry.provider), entry.name)
            if key in taken:
                raise self.book.error(entry, "name", Message("catalog.book_exists", name=entry.name))
            taken.add(key)
        table = self.all_offers()
        for discount in self.book.of(Discount):
            if not self._fits(discount, table).any():
                raise self.book.error(discount, "discount", Message("catalog.book_no_price"))
        for credit in self.book.of(Credit):
            self.book.usd(credit.amount, entry=credit, field="amount")
        assert self.quotas is not None  # reads them, so that a mistake shows now

    @functools.cached_property
    def _unpriced(self) -> frozenset[tuple[str, str]]:
        """Server types of the catalog that have no public price: a book may give the quote
        that was asked for."""
        table = self._base.servers()
        rows = zip(table.provider, table.instance_type, table.not_recommended, strict=True)
        return frozenset((provider, name) for provider, name, why in rows if why == NO_PRICE)

    def _is_quoted(self, entry: Server) -> bool:
        """Whether an entry is the price of a server type that the catalog knows without one."""
        return (names.resolve_provider(entry.provider), entry.name) in self._unpriced

    # ---- servers and offers ----------------------------------------------------------------------

    def servers(self, *, has_accelerator: bool | None = None) -> ServerTable:
        """As of the base, with the added servers behind their kind."""
        key = ("servers", bool(has_accelerator))
        if key not in self._priced:
            with_cards, others = self._rows_added()
            first = self._base.servers(has_accelerator=True)
            if has_accelerator:
                self._priced[key] = _stack(first, with_cards)
            else:
                whole = self._base.servers()
                rest = whole.take(np.arange(len(first), len(whole)))
                self._priced[key] = _stack(_stack(_stack(first, with_cards), rest), others)
            self._priced[key] = self._sold_to_us(self._priced[key])
        table: ServerTable = self._priced[key]
        return table

    def _sold_to_us(self, table: ServerTable) -> ServerTable:
        """The servers without a reason against those that the book has a price of: a type without a
        public price, a former name."""
        quoted = {(names.resolve_provider(entry.provider), entry.name) for entry in self._added if self._is_quoted(entry)}
        fixed = [entry for entry in self.book.of(Discount) if entry.price is not None]
        if not quoted and not fixed:
            return table
        keys = list(zip(table.provider, table.instance_type, strict=True))
        own = [key in quoted for key in keys]
        for rule in fixed:
            providers = {names.resolve_provider(name) for name in rule.provider}
            rows = zip(own, _server_flags(rule, table).tolist(), table.provider, table.not_recommended, strict=True)
            own = [
                is_own or (fits and why.startswith(SUPERSEDED_BY) and (not providers or provider in providers))
                for is_own, fits, provider, why in rows
            ]
        kept = tuple("" if is_own else why for is_own, why in zip(own, table.not_recommended, strict=True))
        return dataclasses.replace(table, not_recommended=kept)

    def all_offers(self, *, has_accelerator: bool | None = None) -> OfferTable:
        """As of the base, priced by the book, with the offers of the added servers."""
        key = ("offers", has_accelerator)
        if key not in self._priced:
            table = self._base.all_offers(has_accelerator=has_accelerator)
            num_first, num_added = len(self._base.servers(has_accelerator=True)), len(self._rows_added()[0])
            moved = np.where(table.server_index >= num_first, table.server_index + num_added, table.server_index)
            servers = self.servers(has_accelerator=True if has_accelerator else None)
            table = dataclasses.replace(table, servers=servers, server_index=moved, **self._regions_added(table))
            self._priced[key] = self._with_added(self._taxed(self._discounted(table)), has_accelerator=has_accelerator)
        offers: OfferTable = self._priced[key]
        return offers

    def _rows_added(self) -> tuple[list[Server], list[Server]]:
        new = [entry for entry in self._added if not self._is_quoted(entry)]
        return [entry for entry in new if entry.gpu], [entry for entry in new if not entry.gpu]

    def _regions_added(self, table: OfferTable) -> dict[str, Any]:
        sites = self._sites()
        return {
            "regions": (*table.regions, *(site.region for site in sites)),
            "region_providers": (*table.region_providers, *(site.provider for site in sites)),
            "region_countries": (*table.region_countries, *(site.country for site in sites)),
        }

    def _sites(self) -> list[Region]:
        """The places of added servers, but for regions that the catalog has."""
        found: dict[tuple[str, str], Region] = {}
        known = {(place.provider, place.region) for place in self._base.regions()}
        for entry in self._added:
            provider = names.resolve_provider(entry.provider)
            if (provider, entry.site) in known:
                continue
            site = Region(provider, entry.site, entry.country.upper(), "", entry.site, entry.site, entry.site, self.book.source(entry))
            found.setdefault((provider, entry.site), site)
        return list(found.values())

    def _with_added(self, table: OfferTable, *, has_accelerator: bool | None) -> OfferTable:
        wanted = [entry for entry in self._added if has_accelerator is None or bool(entry.gpu) == has_accelerator]
        if not wanted:
            return table
        rows = {key: row for row, key in enumerate(zip(table.servers.provider, table.servers.instance_type, strict=True))}
        places = {key: row for row, key in enumerate(zip(table.region_providers, table.regions, strict=True))}
        keys = [(names.resolve_provider(entry.provider), entry.name) for entry in wanted]
        prices = np.array([self._price_of(entry) for entry in wanted])
        added = {
            "server_index": np.array([rows[key] for key in keys]),
            "region_index": np.array([places[key[0], entry.site] for key, entry in zip(keys, wanted, strict=True)]),
            "purchase_index": np.array([PURCHASE_CODES[names.resolve_purchases([entry.purchase])[0]] for entry in wanted]),
            "price_usd_per_h": prices,
            "price_original": prices,
            "kind_index": np.full(len(wanted), PRICE_KINDS.index("quote")),
            "interruption_band": np.full(len(wanted), len(INTERRUPTION_BANDS) - 1),
            **{name: np.zeros(len(wanted), dtype=np.bool_) for name in ("is_estimate", "is_stale", "is_pseudo_region", "is_quarantined")},
        }
        labels, codes = _labels(table, dates=[self.book.as_of] * len(wanted), sources=[self.book.source(entry) for entry in wanted])
        columns: dict[str, Any] = {name: np.concatenate([getattr(table, name), values]) for name, values in {**added, **codes}.items()}
        whole = dataclasses.replace(table, **columns, **labels)
        return whole.take(np.argsort(whole.server_index, kind="stable"))

    def _price_of(self, entry: Server) -> float:
        if entry.price is not None:
            return self.book.usd(entry.price, entry=entry, field="price")
        if entry.name in self._own_usd_per_h:
            return self._own_usd_per_h[entry.name]
        raise self.book.error(entry, "price", Message("catalog.book_missing" if type(entry) is Server else "catalog.book_not_reckoned"))

    # ---- discounts and taxes ---------------------------------------------------------------------

    def _fits(self, rule: Discount | Tax, table: OfferTable) -> Flags:
        """Offers that meet every condition of a discount or tax."""
        servers, keep = table.servers, np.ones(len(table), dtype=np.bool_)
        providers = {names.resolve_provider(name) for name in rule.provider}
        if providers:
            keep &= np.array([name in providers for name in servers.provider], dtype=np.bool_)[table.server_index]
        if rule.country:
            codes = {code for name in rule.country for code in names.resolve_countries(name, self.regions())}
            keep &= np.array([code in codes for code in table.region_countries], dtype=np.bool_)[table.region_index]
        if isinstance(rule, Tax):
            return keep
        if rule.region:
            codes = {place.region for name in rule.region for place in self.find_regions(name, providers=providers)}
            keep &= np.array([code in codes for code in table.regions], dtype=np.bool_)[table.region_index]
        keep &= _server_flags(rule, servers)[table.server_index]
        if rule.purchase:
            keep &= np.isin(table.purchase_index, [PURCHASE_CODES[name] for name in names.resolve_purchases(rule.purchase)])
        return keep

    def _discounted(self, table: OfferTable) -> OfferTable:
        """Of several entries that fit an offer the last one holds; percentages are
        off the list price."""
        listed = table.price_usd_per_h
        for entry in self.book.of(Discount):
            fits = self._fits(entry, table)
            fixed = entry.price is not None
            price = np.nan if entry.price is None else self.book.usd(entry.price, entry=entry, field="price")
            own = np.full(len(table), price) if entry.percent is None else listed * (1.0 - entry.percent / 100.0)
            table = dataclasses.replace(
                table,
                price_usd_per_h=np.where(fits, own, table.price_usd_per_h),
                kind_index=np.where(fits & fixed, PRICE_KINDS.index("quote"), table.kind_index),
                is_estimate=np.where(fits & fixed, False, table.is_estimate),
                is_stale=np.where(fits & fixed, False, table.is_stale),
                is_quarantined=np.where(fits & fixed, False, table.is_quarantined),
            )
            table = _noted(table, fits, source=self.book.source(entry), date=self.book.as_of if fixed else "")
        return table

    def _taxed(self, table: OfferTable) -> OfferTable:
        factor = np.ones(len(table))
        for entry in self.book.of(Tax):
            factor = np.where(self._fits(entry, table), factor * (1.0 + entry.percent / 100.0), factor)
        return dataclasses.replace(table, price_usd_per_h=table.price_usd_per_h * factor)

    # ---- places, quotas, credits -----------------------------------------------------------------

    def regions(self) -> tuple[Region, ...]:
        """As of the base, and the sites of added servers."""
        return (*self._base.regions(), *self._sites())

    def place_prices(self) -> PlacePrices:
        """As of the base with taxes; at your own sites disks and data transfer are part of
        the server's price."""
        base, sites = self._base.place_prices(), self._sites()
        regions = self.regions()
        factor = np.ones(len(regions))
        for entry in self.book.of(Tax):
            providers = {names.resolve_provider(name) for name in entry.provider}
            codes = {code for name in entry.country for code in names.resolve_countries(name, regions)}
            hit = [(not providers or place.provider in providers) and (not codes or place.country in codes) for place in regions]
            factor = np.where(hit, factor * (1.0 + entry.percent / 100.0), factor)
        columns: dict[str, Any] = {}
        for field in dataclasses.fields(PlacePrices):
            values = np.concatenate([getattr(base, field.name), np.zeros(len(sites), dtype=getattr(base, field.name).dtype)])
            columns[field.name] = values * factor if "usd" in field.name else values
        return PlacePrices(**columns)

    @property
    def quotas(self) -> tuple[Quota, ...]:
        """Limits of the account, and how many there are of the added servers."""
        if "quotas" not in self._priced:
            types = self.servers().instance_type
            found = [self._quota(entry, types) for entry in self.book.of(QuotaEntry)]
            found += [
                Quota(
                    entry.servers,
                    "servers",
                    f"{entry.servers} x {entry.name}",
                    types=(entry.name.casefold(),),
                    providers=(names.resolve_provider(entry.provider),),
                )
                for entry in self._added
                if entry.servers
            ]
            self._priced["quotas"] = tuple(found)
        quotas: tuple[Quota, ...] = self._priced["quotas"]
        return quotas

    def _quota(self, entry: QuotaEntry, types: Sequence[str]) -> Quota:
        from rightfit.errors import InputError

        try:
            return read_quota(entry.limit, self.regions(), types=types, field="limit")
        except InputError as error:
            raise self.book.error(entry, "quota", error.message) from None

    def credit_usd(self, *, on: str) -> dict[str, float]:
        """Credits by provider that have not expired on a date (ISO)."""
        found: dict[str, float] = {}
        for entry in self.book.of(Credit):
            if entry.expires is None or entry.expires.isoformat() >= on:
                provider = names.resolve_provider(entry.provider)
                found[provider] = found.get(provider, 0.0) + self.book.usd(entry.amount, entry=entry, field="amount")
        return found

    def verify(self) -> list[Any]:
        """The checks of the catalog itself; your own prices are yours."""
        return self._base.verify()

    def status(self) -> Any:
        """The state of the catalog itself."""
        return self._base.status()

    def as_of(self) -> dict[str, str]:
        """As of the base, and the book's date for the providers of added servers."""
        own = {names.resolve_provider(entry.provider): self.book.as_of for entry in self._added}
        return {**own, **self._base.as_of()}


def _server_flags(rule: Discount, servers: ServerTable) -> Flags:
    """Servers that a discount names by type, family or card."""
    cards = {name for loose in rule.gpu for name in facts.match_accelerators(loose)}
    patterns = [pattern.casefold() for pattern in rule.type]
    families = {name.casefold() for name in rule.family}
    flags = [
        (not patterns or any(fnmatch.fnmatchcase(name.casefold(), pattern) for pattern in patterns))
        and (not families or family.casefold() in families)
        and (not rule.gpu or card in cards)
        for name, family, card in zip(servers.instance_type, servers.family, servers.accelerator_name, strict=True)
    ]
    return np.array(flags, dtype=np.bool_)


def _stack(table: ServerTable, other: Any) -> ServerTable:
    """Two tables, or a table and added servers, one behind the other."""
    added = other if isinstance(other, ServerTable) else _table_of(other)
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(ServerTable):
        first, second = getattr(table, field.name), getattr(added, field.name)
        columns[field.name] = (*first, *second) if isinstance(first, tuple) else np.concatenate([first, second])
    return ServerTable(**columns)


def _table_of(entries: Sequence[Server]) -> ServerTable:
    rows = [_server_row(entry) for entry in entries]
    numbers = {field.name for field in dataclasses.fields(ServerTable) if str(field.type) == "Floats"}
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(ServerTable):
        values = [row[field.name] for row in rows]
        columns[field.name] = np.array(values, dtype=np.float64) if field.name in numbers else tuple(values)
    return ServerTable(**columns)


def _server_row(entry: Server) -> dict[str, Any]:
    """An added server as the catalog describes servers; what is not given is unknown."""
    card = card_of(entry)
    record = facts.accelerators()[card] if card else None
    network = (entry.network_gbps or np.nan) * GBPS
    return {
        "provider": names.resolve_provider(entry.provider),
        "instance_type": entry.name,
        "family": entry.name,
        "category": "gpu" if card else "general",
        "vcpus": float(entry.vcpus),
        "memory_bytes": entry.memory or np.nan,
        "accelerator_name": card,
        "num_accelerators": float(entry.gpus or 1) if card else 0.0,
        "accelerator_memory_bytes": record.memory_bytes if record else 0.0,
        "local_nvme_bytes": entry.disk or 0.0,
        "network_bytes_per_s": network,
        "network_burst_bytes_per_s": network,
        "rdma": entry.rdma,
        "gpu_interconnect": entry.interconnect or _usual_link(entry, record),
        "cpu_model": "",
        "arch": "x86_64",
        "status": "active",
        "source": "price book",
        "note": "owned" if isinstance(entry, Owned) else "private",
        "not_recommended": "",
    }


def card_of(entry: Server) -> str:
    """The one accelerator that the entry's loose name means: by exact name, else the module of most
    memory, as most servers carry."""
    if not entry.gpu:
        return ""
    found = facts.match_accelerators(entry.gpu)
    return max(found, key=lambda name: (name.casefold() == entry.gpu.casefold(), "SXM" in name, facts.accelerators()[name].memory_bytes))


def _usual_link(entry: Server, record: Any) -> str:
    if record is None or (entry.gpus or 1) == 1:
        return "none"
    return "nvswitch" if record.form == "sxm" else "xgmi" if record.vendor == "AMD" and record.form == "oam" else "pcie"


def _labels(table: OfferTable, *, dates: list[str], sources: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The label tuples with new ones at their end, and the codes of the added rows."""
    labels: dict[str, Any] = {}
    codes: dict[str, Any] = {}
    added = {"as_of_dates": dates, "sources": sources, "notes": ["price book"] * len(dates), "currencies": ["usd"] * len(dates)}
    index = {"as_of_dates": "as_of_index", "sources": "source_index", "notes": "note_index", "currencies": "currency_index"}
    for name, values in added.items():
        known = list(getattr(table, name))
        for value in dict.fromkeys(values):
            if value not in known:
                known.append(value)
        labels[name] = tuple(known)
        codes[index[name]] = np.array([known.index(value) for value in values])
    return labels, codes


def _noted(table: OfferTable, rows: Flags, *, source: str, date: str) -> OfferTable:
    """The rows with the book named as their source, after where the list price is from; `date`
    where the price is the book's own."""
    texts = tuple(
        dict.fromkeys(f"{source}; {table.sources[code]}" if not date else source for code in np.unique(table.source_index[rows]).tolist())
    )
    sources = (*table.sources, *texts)
    place = {text: len(table.sources) + at for at, text in enumerate(texts)}
    new = {code: place[f"{source}; {table.sources[code]}" if not date else source] for code in np.unique(table.source_index[rows]).tolist()}
    spread = np.arange(len(sources))
    for code, to in new.items():
        spread[code] = to
    dates = table.as_of_dates if not date or date in table.as_of_dates else (*table.as_of_dates, date)
    as_of = np.where(rows, dates.index(date), table.as_of_index) if date else table.as_of_index
    return dataclasses.replace(
        table,
        sources=sources,
        source_index=np.where(rows, spread[table.source_index], table.source_index),
        as_of_dates=dates,
        as_of_index=as_of,
    )
