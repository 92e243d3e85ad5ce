"""What can be rented, as the search reads it: sound offers with what else they charge, the age of
the prices, and how sure each price is."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.data_path import HostColumns, host_columns
from rightfit.market import expected as expectation
from rightfit.market.market import Catalog, open_catalog
from rightfit.market.offers import OfferTable, ServerTable, today
from rightfit.messages import Message
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search.answer import Option, Reason, Section
from rightfit.search.market import SPOT, MarketFacts, billing_of, network_charge

if TYPE_CHECKING:
    from rightfit.market.price_book import Owned, PriceBook
    from rightfit.market.priced import PricedCatalog


# ---- Open the catalog with your own prices: the price book named, or the one in
# RIGHTFIT_PRICE_BOOK.

ROUNDING = 1e-9  # of a bill: less than this is no credit, but a sum in another order
VARIABLE = "RIGHTFIT_PRICE_BOOK"


def book_path(given: str | Path | None = None) -> Path | None:
    """The price book to use: the one given, else that of the environment; None for list prices.
    "none" asks for list prices."""
    named = str(given) if given is not None else os.environ.get(VARIABLE, "")
    return Path(named) if named and named.casefold() != "none" else None


def open_priced(price_book: str | Path | None = None) -> Catalog:
    """The catalog, with the price book laid over it where there is one."""
    path = book_path(price_book)
    return open_catalog() if path is None else with_price_book(open_catalog(), path)


def with_price_book(catalog: Catalog, path: str | Path) -> PricedCatalog:
    """A catalog with the prices of a book in a file."""
    from rightfit.market.price_book import read_price_book

    return with_book(catalog, read_price_book(path))


def with_book(catalog: Catalog, book: PriceBook) -> PricedCatalog:
    """A catalog with the prices of a book; its owned servers without a price an hour cost what
    owning them costs."""
    from rightfit.market.price_book import Owned
    from rightfit.market.priced import PricedCatalog

    own = {entry.name: own_usd_per_h(entry, book) for entry in book.of(Owned) if entry.price is None}
    return PricedCatalog(catalog, book, own_usd_per_h=own)


def own_usd_per_h(entry: Owned, book: PriceBook) -> float:
    """An hour of work on an owned server by the book's figures of owning."""
    from rightfit.errors import InputError
    from rightfit.estimation.ownership import own_server
    from rightfit.market.priced import card_of

    given = dict(book.ownership)
    if entry.capex is not None:
        given["capex_usd"] = book.usd(entry.capex, entry=entry, field="capex")
    if entry.utilisation is not None:
        given["utilisation"] = entry.utilisation
    if not entry.gpu:
        raise book.error(entry, "price", Message("catalog.book_no_accelerator"))
    try:
        return own_server(card_of(entry), entry.gpus or 1, given).usd_per_busy_h
    except InputError as error:
        raise book.error(entry, error.field or "owned", error.message) from None


@contextlib.contextmanager
def rates_of(price_book: str | Path | None) -> Iterator[None]:
    """Within the block, amounts of money are read and shown at the book's exchange rates."""
    path = book_path(price_book)
    if path is None:
        yield
        return
    from rightfit.market.price_book import read_price_book
    from rightfit.workload import amounts

    with amounts.own_rates(read_price_book(path).rates):
        yield


def credits_of(catalog: Any) -> dict[str, float]:
    """Credits by provider, in USD; none without a price book."""
    return catalog.credit_usd(on=today()) if hasattr(catalog, "credit_usd") else {}


def with_credit(terms: dict[str, float], total_usd: float) -> dict[str, float]:
    """Terms of a bill with what a credit pays of it, so that they add up to what is left to pay."""
    whole = sum(terms.values())
    credit = whole - total_usd
    return {**terms, "credit_usd": -credit} if credit > ROUNDING * whole else terms


def credit_section(options: tuple[Option, ...], catalog: Any) -> tuple[Section, ...]:
    """How long a credit of the best option's provider pays for a service."""
    granted = credits_of(catalog)
    best = options[0] if options else None
    if best is None or not granted.get(best.provider):
        return ()
    content = {"provider": best.provider, "credit_usd": granted[best.provider], "months": granted[best.provider] / best.cost.total_usd}
    return (Section("credit", content, (Reason("credit_months", content),)),)


# ---- What the catalog knows beside prices, as one value per offer: storage, data transfer,
# interruptions, billing steps.


def read_market_facts(catalog: Catalog, offers: OfferTable) -> MarketFacts:
    """Charges of every offer. Where nobody publishes how often spot servers are reclaimed, the
    usual range is taken and `spot_known` says so."""
    places = catalog.place_prices()
    storage = places.block_usd_per_gb_month[offers.region_index]
    objects = places.object_usd_per_gb_month[offers.region_index]
    egress = places.egress_usd_per_gb[offers.region_index]
    minimum_s, increment_s = billing_of(offers)
    usual = facts.coefficients("planning")
    low, high = offers.interruption_range
    spot, known = offers.purchase_index == SPOT, np.isfinite(low)
    low = np.where(known, low, usual["spot_monthly_low"])
    high = np.minimum(np.where(known, high, usual["spot_monthly_high"]), usual["spot_open_band_high"])
    return MarketFacts(
        storage_usd_per_gb_month=np.nan_to_num(storage),
        object_usd_per_gb_month=np.nan_to_num(np.where(np.isfinite(objects), objects, storage)),
        storage_known=np.isfinite(storage),
        egress_usd_per_gb=np.nan_to_num(egress),
        egress_known=np.isfinite(egress),
        spot_low=np.where(spot, low, 0.0),
        spot_high=np.where(spot, high, 0.0),
        spot_known=spot & known,
        minimum_s=minimum_s,
        increment_s=increment_s,
        public_ip_usd_per_h=network_prices(offers, "public-ip", "usd_per_h"),
        balancer_usd_per_h=network_prices(offers, "load-balancer", "usd_per_h"),
        balancer_usd_per_gb=network_prices(offers, "load-balancer", "usd_per_gb"),
        credit_usd=credit_prices(offers, catalog),
    )


def credit_prices(offers: OfferTable, catalog: Catalog) -> Array | None:
    """What the provider of each offer has granted; None where no price book grants anything."""
    granted = credits_of(catalog)
    by_server = np.array([granted.get(provider, 0.0) for provider in offers.servers.provider])
    return by_server[offers.server_index] if granted else None


def network_prices(offers: OfferTable, item: str, unit: str) -> Array:
    """A charge of the cloud of each offer."""
    known = {owner: float(network_charge(owner, item)[unit]) for owner in dict.fromkeys(offers.region_providers)}
    return np.array([known[owner] for owner in offers.region_providers])[offers.region_index]


# ---- How sure a price is. What ranks is the price to expect today (catalog.expected); its doubt
# goes into the bill.

BOUNDS = expectation.BOUNDS


@dataclass(frozen=True, slots=True)
class PriceDoubt:
    """By offer: the figure of the source [USD/h], and by which factors (low80, high80, low95,
    high95) the expected price may be off. `is_old`: it may have moved since its day; `is_beyond`:
    it is older than what is known of such prices, and leads no fresh one."""

    listed_usd_per_h: Array
    factors: Array
    is_old: NDArray[np.bool_]
    is_beyond: NDArray[np.bool_]

    def take(self, rows: NDArray[np.intp]) -> PriceDoubt:
        """The given offers."""
        return PriceDoubt(self.listed_usd_per_h[rows], self.factors[rows], self.is_old[rows], self.is_beyond[rows])


def with_doubt(offers: OfferTable, *, among: OfferTable | None = None) -> tuple[OfferTable, PriceDoubt]:
    """The offers at their expected prices, and how sure those are. `among`: all offers that prices
    are compared with, with the same servers and regions."""
    listed, found = offers.price_usd_per_h, expectation.expected(offers, among=among or offers)
    doubt = PriceDoubt(listed, found.factors, found.is_old, found.is_beyond)
    return dataclasses.replace(offers, price_usd_per_h=found.usd_per_h), doubt


def both_doubts(time_factors: Array, price_factors: Array) -> Array:
    """Bounds (low80, high80, low95, high95) as factors on the middle, of two independent doubts:
    their logarithms add up by squares."""
    size = np.sqrt(np.log(time_factors) ** 2 + np.log(price_factors) ** 2)
    return np.asarray(np.exp(size * np.array([-1.0, 1.0, -1.0, 1.0])))


@dataclass(frozen=True, slots=True)
class Market:
    """What can be rented: offers (sound prices only, estimates at their expected price), what else
    they charge, the age of the prices, and how sure each price is (None: all are quotes)."""

    offers: OfferTable
    charges: MarketFacts
    as_of: Mapping[str, Any]  # provider -> date
    doubt: PriceDoubt | None = None

    def take(self, rows: NDArray[np.intp]) -> Market:
        """The given offers, with all that belongs to them."""
        return Market(self.offers.take(rows), self.charges.take(rows), self.as_of, self.doubt.take(rows) if self.doubt else None)


def hearsay(market: Market) -> NDArray[np.bool_]:
    """Prices (O,) that stand behind all others: those that nobody asks, and those that are older
    than what is known of such prices."""
    return market.offers.is_estimate | market.doubt.is_beyond if market.doubt is not None else market.offers.is_estimate


NO_PLACE = ("cheapest-listed",)  # the least price of some region, which the list does not name

_markets: dict[bool, weakref.WeakKeyDictionary[Any, tuple[str, Market]]] = {
    True: weakref.WeakKeyDictionary(),
    False: weakref.WeakKeyDictionary(),
}


def open_market(catalog: Catalog) -> Market:
    """Every sound offer of servers with accelerators, read once."""
    return _opened(catalog, accelerated=True)


def whole_market(catalog: Catalog) -> Market:
    """Every sound offer of servers with accelerators and without, read once."""
    return _opened(catalog, accelerated=False)


def _opened(catalog: Catalog, *, accelerated: bool) -> Market:
    known, day = _markets[accelerated], today()
    if catalog not in known or known[catalog][0] != day:  # prices get older
        table = catalog.all_offers(has_accelerator=True) if accelerated else catalog.all_offers()
        known[catalog] = day, read_market(catalog, table.take(sound_offers(table)))
    return known[catalog][1]


def sound_offers(table: OfferTable) -> NDArray[np.bool_]:
    """Offers that can be ranked (O,): with a price that nothing speaks against, where a
    server can be started."""
    return np.asarray(~table.is_quarantined & np.isfinite(table.price_usd_per_h) & in_a_place(table))


def in_a_place(table: OfferTable) -> NDArray[np.bool_]:
    """Offers where a server can be started (O,). "cheapest-listed" is no place; "any", "global" and
    "eu" stand for all places of a seller only where the server has no price in a real one."""
    named = np.array([name not in NO_PLACE for name in table.regions], dtype=np.bool_)
    located = np.zeros(len(table.servers), dtype=np.bool_)
    located[table.server_index[~table.is_pseudo_region]] = True
    return ~table.is_pseudo_region | (named[table.region_index] & ~located[table.server_index])


def read_market(catalog: Catalog, offers: OfferTable) -> Market:
    """The market of some of the catalog's offers: estimated prices corrected, with their doubt."""
    priced, doubt = with_doubt(
        offers, among=catalog.all_offers(has_accelerator=None if np.any(offers.servers.num_accelerators == 0) else True)
    )
    return Market(priced, read_market_facts(catalog, offers), catalog.as_of(), doubt)


def known_host_bytes(servers: ServerTable) -> Array:
    """RAM of each server; where a provider does not publish it, little: what nine in ten servers
    with as much accelerator memory have."""
    accelerators = servers.num_accelerators * servers.accelerator_memory_bytes
    return np.where(
        np.isfinite(servers.memory_bytes), servers.memory_bytes, accelerators * facts.coefficients("planning")["unknown_host_memory_ratio"]
    )


# ---- What each server of a market brings to the data path: processors, RAM, local disks, network.


@functools.lru_cache(maxsize=8)
def hosts_of(servers: ServerTable) -> HostColumns:
    """What each server brings to the data path."""
    return host_columns(
        provider=servers.provider,
        instance_type=servers.instance_type,
        cpu_model=servers.cpu_model,
        arch=servers.arch,
        vcpus=servers.vcpus,
        memory_bytes=known_host_bytes(servers),
        local_nvme_bytes=servers.local_nvme_bytes,
        network_bytes_per_s=servers.network_bytes_per_s,
        accelerators=servers.num_accelerators,
    )
