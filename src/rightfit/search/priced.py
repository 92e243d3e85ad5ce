"""Open the catalog with your own prices: the price book named, or the one in RIGHTFIT_PRICE_BOOK."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.catalog.market import Catalog, open_catalog
from rightfit.messages import Message
from rightfit.search.answer import Option, Reason, Section

if TYPE_CHECKING:
    from rightfit.catalog.price_book import Owned, PriceBook
    from rightfit.catalog.priced import PricedCatalog

ROUNDING = 1e-9  # of a bill: less than this is no credit, but a sum in another order
VARIABLE = "RIGHTFIT_PRICE_BOOK"


def book_path(given: str | Path | None = None) -> Path | None:
    """The price book to use: the one given, else that of the environment; None for list prices. "none" asks for list prices."""
    named = str(given) if given is not None else os.environ.get(VARIABLE, "")
    return Path(named) if named and named.casefold() != "none" else None


def open_priced(price_book: str | Path | None = None) -> Catalog:
    """The catalog, with the price book laid over it where there is one."""
    path = book_path(price_book)
    return open_catalog() if path is None else with_price_book(open_catalog(), path)


def with_price_book(catalog: Catalog, path: str | Path) -> PricedCatalog:
    """A catalog with the prices of a book in a file."""
    from rightfit.catalog.price_book import read_price_book

    return with_book(catalog, read_price_book(path))


def with_book(catalog: Catalog, book: PriceBook) -> PricedCatalog:
    """A catalog with the prices of a book; its owned servers without a price an hour cost what owning them costs."""
    from rightfit.catalog.price_book import Owned
    from rightfit.catalog.priced import PricedCatalog

    own = {entry.name: own_usd_per_h(entry, book) for entry in book.of(Owned) if entry.price is None}
    return PricedCatalog(catalog, book, own_usd_per_h=own)


def own_usd_per_h(entry: Owned, book: PriceBook) -> float:
    """An hour of work on an owned server by the book's figures of owning."""
    from rightfit.catalog.priced import card_of
    from rightfit.errors import InputError
    from rightfit.estimate.ownership import own_server

    given = dict(book.ownership)
    if entry.capex is not None:
        given["capex_usd"] = book.usd(entry.capex, entry=entry, field="capex")
    if entry.utilisation is not None:
        given["utilisation"] = entry.utilisation
    if not entry.gpu:
        raise book.error(entry, "price", Message("catalog.part_book_no_accelerator"))
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
    from rightfit.catalog.price_book import read_price_book
    from rightfit.workload import money

    with money.own_rates(read_price_book(path).rates):
        yield


def today() -> str:
    """The date of today, for credits that expire."""
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()


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
