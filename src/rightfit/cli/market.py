"""Open the catalog, and say so when that takes a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.cli.output import View, note
from rightfit.explain.labels import label

if TYPE_CHECKING:
    from rightfit.catalog import Catalog


def open_market(view: View) -> Catalog:
    """The catalog, with the price book that was given; its store is built on first use, which takes seconds and is announced."""
    from rightfit.catalog import store
    from rightfit.search.priced import open_priced

    if not store.store_path().exists():
        note(label("catalog", "building", view.lang), view)
    return open_priced(view.price_book)
