"""A price book in words: its entries as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.tables import Column, Table

if TYPE_CHECKING:
    from rightfit.catalog.price_book import PriceBook


def book_table(book: PriceBook, lang: Lang) -> Table:
    """An entry a line: what it is, and what it says in the words of the book."""
    records = []
    for entry in book.entries:
        given = entry.model_dump(exclude_unset=True)
        said = " · ".join(f"{name} {_said(value)}" for name, value in given.items() if name != "line")
        records.append({"book_line": entry.line, "entry": label("book", type(entry).__name__.casefold(), lang), "says": said})
    return Table(
        (Column("book_line", right=True), Column("entry"), Column("says", flexible=True)), records, title=label("book", "title", lang)
    )


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else f"{value:.12g}" if isinstance(value, float) else str(value)
