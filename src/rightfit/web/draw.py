"""Small pieces that every part of the page is drawn with. Text always goes through the browser's
text nodes: nothing typed is ever markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from rightfit.explain.messages import label
from rightfit.explain.quantities import Column, Table
from rightfit.messages import Lang
from rightfit.records import dataclass


def box(tag: str = "div", classes: str = "") -> ui.element:
    """An element without text of its own."""
    return ui.element(tag).classes(classes)


def text(value: object, classes: str = "", tag: str = "span") -> Any:
    """An element that holds text, escaped."""
    return TextElement(tag=tag, text=str(value)).classes(classes)


def paragraph(value: object, classes: str = "") -> Any:
    """A paragraph."""
    return text(value, classes, "p")


def heading(value: object, level: int = 2, classes: str = "") -> Any:
    """A heading of one of three levels."""
    return text(value, classes, f"h{level}")


def link(value: str, href: str, classes: str = "", *, current: bool = False) -> Any:
    """A link within this server."""
    found = text(value, classes, "a")
    found.props["href"] = href
    if current:
        found.props["aria-current"] = "page"
    return found


def button(value: str, on_click: Any, classes: str = "button", *, label_text: str = "", in_browser: str = "") -> Any:
    """A plain button; `label_text` says what it does where its text alone does not. `in_browser` is
    a handler in JavaScript, for what the server need not know."""
    found = text(value, classes, "button")
    if in_browser:
        found.on("click", js_handler=in_browser)
    else:
        found.on("click", on_click)
    found.props["type"] = "button"
    if label_text:
        found.props["aria-label"] = label_text
    return found


def bullets(lines: Iterable[str], classes: str = "lines") -> None:
    """A list; a line that begins with blanks belongs to the one before."""
    with box("ul", classes):
        for line in lines:
            text(line.strip(), "more" if line.startswith("  ") else "", "li")


@dataclass(frozen=True, slots=True)
class Sorting:
    """Which columns can be sorted by (column: order), the order that holds now, and what a click on
    a heading does with its order."""

    orders: Mapping[str, str]
    now: str
    descending: bool
    on_click: Callable[[str], Any]


#: Where the cells of a column lead, from the record; an empty address is no link.
Links = Mapping[str, Callable[[Any], str]]


def table(
    content: Table, lang: Lang, *, classes: str = "table", title: bool = True, links: Links | None = None, sorting: Sorting | None = None
) -> None:
    """A table with its headings; numbers to the right."""
    if title and content.title:
        heading(content.title.rstrip(":："), 3)
    with box("div", "scroll") as around, box("table", classes):
        around.props["tabindex"] = "0"
        around.props["role"] = "region"
        around.props["aria-label"] = content.title or label("column", content.columns[0].key, lang)
        with box("thead"), box("tr"):
            for column in content.columns:
                _head_cell(column, lang, sorting)
        with box("tbody"):
            rows(content.columns, content.records, links or {})


def _head_cell(column: Column, lang: Lang, sorting: Sorting | None) -> None:
    """A heading; where the table can be sorted by its column, a button that does it."""
    name, order = label("column", column.key, lang), sorting.orders.get(column.key, "") if sorting else ""
    if sorting is None or not order:
        text(name, _classes(column), "th").props["scope"] = "col"
        return
    is_now = order == sorting.now
    with box("th", _classes(column)) as cell:
        cell.props["scope"] = "col"
        if is_now:
            cell.props["aria-sort"] = "descending" if sorting.descending else "ascending"
        sorter = button(name, lambda: sorting.on_click(order), "sorter").mark(f"sort-{order}")
        sorter.props["data-key"] = f"sort-{order}"


def rows(columns: Sequence[Column], records: Sequence[Any], links: Links | None = None) -> None:
    """The lines of a table."""
    for record in records:
        with box("tr"):
            for column in columns:
                shown, lead = column.show(record.get(column.key)), (links or {}).get(column.key)
                address = lead(record) if lead and shown else ""
                if not address:
                    text(shown, _classes(column), "td")
                    continue
                with box("td", _classes(column)):
                    link(shown, address)


def _classes(column: Column) -> str:
    return "number" if column.right else "flexible" if column.flexible else ""


def pair(name: str, value: str, detail: str = "", classes: str = "pair") -> None:
    """A label with its value."""
    with box("div", classes):
        text(name, "", "dt")
        with box("dd"):
            text(value, "value")
            if detail:
                text(detail, "detail")


# ---- Where things of the catalog have their pages.


def server_address(server: str, lang: Lang) -> str:
    """The page of a server, PROVIDER/INSTANCE."""
    return f"/server?{urlencode({'name': server, 'lang': lang})}"


def card_address(card: str, lang: Lang) -> str:
    """The page of a card."""
    return f"/card?{urlencode({'name': card, 'lang': lang})}"


def fit_address(gpu: str, count: int, task: str, lang: Lang) -> str:
    """The page of the models that fit some cards."""
    given = {"gpu": gpu, "count": str(count) if count != 1 else "", "task": task, "lang": lang}
    return f"/fit?{urlencode({name: value for name, value in given.items() if value})}"


def plan_address(lang: Lang, **wishes: str) -> str:
    """A plan."""
    return f"/?{urlencode({**{name: value for name, value in wishes.items() if value}, 'lang': lang})}"


def catalog_links(lang: Lang, kind: str) -> Links:
    """Where the lines of the catalog lead."""
    if kind in ("servers", "prices"):
        return {
            "instance_type": lambda record: server_address(record["server"], lang),
            "accelerator_name": lambda record: card_address(record["accelerator_name"], lang),
        }
    if kind == "accelerators":
        return {"name": lambda record: card_address(record["name"], lang)}
    return {"name": lambda record: plan_address(lang, model=record["name"])}
