"""What can be rented, as the search reads it: sound offers with what else they charge, the age of the prices, and how sure each price
is."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.catalog.offers import OfferTable, ServerTable
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search.charges import read_market_facts
from rightfit.search.doubt import PriceDoubt, with_doubt
from rightfit.search.market import MarketFacts

if TYPE_CHECKING:
    from rightfit.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Market:
    """What can be rented: offers (sound prices only, estimates at their expected price), what else they charge, the age of the prices, and
    how sure each
    price is (None: all are quotes)."""

    offers: OfferTable
    charges: MarketFacts
    as_of: Mapping[str, Any]  # provider -> date
    doubt: PriceDoubt | None = None

    def take(self, rows: NDArray[np.intp]) -> Market:
        """The given offers, with all that belongs to them."""
        return Market(self.offers.take(rows), self.charges.take(rows), self.as_of, self.doubt.take(rows) if self.doubt else None)


NO_PLACE = ("cheapest-listed",)  # the least price of some region, which the list does not name

_markets: dict[bool, weakref.WeakKeyDictionary[Any, Market]] = {True: weakref.WeakKeyDictionary(), False: weakref.WeakKeyDictionary()}


def open_market(catalog: Catalog) -> Market:
    """Every sound offer of servers with accelerators, read once."""
    return _opened(catalog, accelerated=True)


def whole_market(catalog: Catalog) -> Market:
    """Every sound offer of servers with accelerators and without, read once."""
    return _opened(catalog, accelerated=False)


def _opened(catalog: Catalog, *, accelerated: bool) -> Market:
    known = _markets[accelerated]
    if catalog not in known:
        table = catalog.all_offers(has_accelerator=True) if accelerated else catalog.all_offers()
        known[catalog] = read_market(catalog, table.take(sound_offers(table)))
    return known[catalog]


def sound_offers(table: OfferTable) -> NDArray[np.bool_]:
    """Offers that can be ranked (O,): with a price that nothing speaks against, where a server can be started."""
    return np.asarray(~table.is_quarantined & np.isfinite(table.price_usd_per_h) & in_a_place(table))


def in_a_place(table: OfferTable) -> NDArray[np.bool_]:
    """Offers where a server can be started (O,). "cheapest-listed" is no place; "any", "global" and "eu" stand for all places of a seller only
    where the server has no price in a real one."""
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
    """RAM of each server; where a provider does not publish it, little: what nine in ten servers with as much accelerator memory have."""
    accelerators = servers.num_accelerators * servers.accelerator_memory_bytes
    return np.where(
        np.isfinite(servers.memory_bytes), servers.memory_bytes, accelerators * facts.coefficients("planning")["unknown_host_memory_ratio"]
    )
