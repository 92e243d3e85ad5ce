"""My prices: a price book is typed or chosen, checked line by line, and the best plan stands beside that of list prices. It is kept for this visit alone."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from typing import TYPE_CHECKING, Any

from nicegui import Client, ui

from rightfit.errors import FileInputError, RightfitError
from rightfit.explain.book_text import book_table
from rightfit.explain.cards import option_card
from rightfit.explain.messages import Lang
from rightfit.web.cards import draw_card
from rightfit.web.draw import box, button, heading, paragraph, table
from rightfit.web.forms import field, main_options, show_error
from rightfit.web.state import PageState
from rightfit.web.words import on_page, option_name, problem_lines, text_of, word

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.catalog.price_book import PriceBook
    from rightfit.search.answer import Plan
    from rightfit.web.answers import Answers

_EXAMPLE = text_of("example_book.toml")
USUAL = {"model": "Llama-3-8B", "task": "finetune", "method": "lora", "data": "50Mtok"}
MOST_CHARACTERS = 50_000
_WHERE = re.compile(r"^book:(?P<line>\d+): ")


class BookPage:
    """One visitor's price book and question. The question is the address; the book lives as long as the page."""

    def __init__(self, state: PageState, answers: Answers, client: Client, links: dict[str, Any]) -> None:
        self.state = state if state.wishes else state.with_wishes(USUAL)
        self.answers, self.client, self.links = answers, client, links
        self.typed: Any = None
        self.fields: dict[str, Any] = {}
        self.form: Any = None
        self.place: Any = None
        self.turn = 0

    def draw(self) -> None:
        """The book, the question, and a place for the answer."""
        lang = self.state.lang
        heading(word("page.book", lang), 1)
        paragraph(word("book.intro", lang), "lead")
        with box("section", "section panel"):
            self.typed = ui.textarea(word("book.file", lang), value=example_book(lang)).mark("book-file")
            self.typed.props(f"outlined autogrow spellcheck=false maxlength={MOST_CHARACTERS} input-class=mono")
            self._upload()
        with box("section", "section panel"):
            heading(word("book.question", lang), 2)
            self.form = box("div", "fields")
            self._draw_form()
            button(word("book.submit", lang), self.show, "button primary gap").mark("book-submit")
        self.place = box("div", "section")
        self.place.props["aria-live"] = "polite"

    def _upload(self) -> None:
        """A button that opens a file; what it holds takes the place of what was typed."""
        lang = self.state.lang
        upload = ui.upload(
            auto_upload=True,
            max_file_size=MOST_CHARACTERS * 4,
            on_upload=self._uploaded,
            on_rejected=lambda: ui.notify(word("book.too_large", lang), type="warning"),
        )
        upload.props("accept=.toml,.csv").classes("unseen").mark("book-upload")
        button(word("book.choose", lang), None, "chip gap", in_browser=f"() => getElement({upload.id}).$refs.qRef.pickFiles()")

    async def _uploaded(self, event: Any) -> None:
        self.typed.value = (await event.file.read()).decode("utf-8-sig", errors="replace")[:MOST_CHARACTERS]
        await self.show()

    def _draw_form(self) -> None:
        state = self.state
        self.form.clear()
        with self.form:
            self.fields = {}
            for name in main_options(state.wishes.get("task", "")):
                clouds = tuple(self.answers.market.catalog().as_of()) if name == "cloud" else ()
                self.fields[name] = field(name, state.wishes.get(name, ""), state.lang, self.change, clouds=clouds)

    async def change(self, name: str, value: str) -> None:
        """One field of the question changed."""
        before = self.state.wishes.get("task", "")
        self.state = self.state.with_wish(name, value)
        if self.state.wishes.get("task", "") != before:
            self._draw_form()
        await self.show()

    # ---- answers

    async def show(self) -> None:
        """The entries, and the two plans, unless the visitor has gone on."""
        self.turn += 1
        turn, state, lang = self.turn, self.state, self.state.lang
        with self.client:
            ui.navigate.history.replace(state.address("/book"))
        other = dataclasses.replace(state, lang="en" if lang == "zh" else "zh")
        self.links["language"].props["href"] = other.address("/book")
        for element in self.fields.values():
            show_error(element, "")
        source = str(self.typed.value or "")[:MOST_CHARACTERS]
        self.place.clear()
        self.place.props["aria-busy"] = "true"
        with self.place:
            paragraph(word("result.working", lang), "busy")
        lines: list[tuple[str, str]] = []
        found: tuple[PriceBook, Plan] | None = None
        listed: Plan | None = None
        try:
            book, catalog = read_book(source), self.answers.market.catalog()
            key = ("book", hashlib.sha256(source.encode()).hexdigest(), tuple(sorted(state.wishes.items())))
            listed = await self.answers.plan(state.wishes)
            found = book, await self.answers.ask(key, lambda: _planned(book, state, catalog))
        except FileInputError as error:
            lines = [("", said(line, lang)) for line in str(error).splitlines()]
        except RightfitError as error:
            lines = problem_lines(error, lang)
        if turn != self.turn or self.place.is_deleted:
            return
        self.place.props["aria-busy"] = "false"
        self.place.clear()
        with self.place:
            if found is None or listed is None:
                self._problem(lines)
            else:
                self._draw(found[0], listed, found[1])

    def _problem(self, lines: list[tuple[str, str]]) -> None:
        with box("div", "problem") as around:
            around.props["role"] = "alert"
            heading(word("book.wrong", self.state.lang), 3)
            for name, message in lines:
                if name in self.fields:
                    show_error(self.fields[name], message)
                paragraph(f"{option_name(name, self.state.lang)}: {message}" if name in self.fields else on_page(message, self.state.lang))

    def _draw(self, book: PriceBook, listed: Plan, priced: Plan) -> None:
        lang = self.state.lang
        with box("section", "versus"):
            for title, plan in (("book.with", priced), ("book.without", listed)):
                with box("div", "guided"):
                    heading(word(title, lang), 2)
                    if plan.best is None:
                        paragraph(word("result.none", lang))
                        continue
                    card = option_card(plan.best, plan.workload, lang)
                    is_listed = plan is listed  # a server of the book has no page
                    draw_card(card, lang, is_open=False, compared=False, on_open=None, on_compare=None, is_listed=is_listed)
        with box("section", "section"):
            heading(word("book.entries", lang, count=len(book.entries)), 2)
            table(book_table(book, lang), lang, title=False)
            paragraph(word("book.note", lang), "muted small gap")


def example_book(lang: Lang) -> str:
    """A small book to begin with."""
    return _EXAMPLE.format(**{name: word(f"book.example_{name}", lang) for name in ("discount", "server", "price")})


def read_book(source: str) -> PriceBook:
    """What is typed, as a price book: CSV where its first line names the column of entries, else TOML. Raises FileInputError."""
    from rightfit.catalog.price_book import parse_price_book
    from rightfit.search.priced import today

    first = source.strip().splitlines()[0] if source.strip() else ""
    is_csv = "entry" in [cell.strip() for cell in first.split(",")] and "=" not in first
    return parse_price_book(source, "book", is_csv=is_csv, usual_date=today())


def said(line: str, lang: Lang) -> str:
    """A problem of the book with its line in the reader's language."""
    found = _WHERE.match(line)
    return word("book.line", lang, line=found["line"], problem=line[found.end() :]) if found else line.removeprefix("book: ")


def _planned(book: PriceBook, state: PageState, catalog: Catalog) -> Plan:
    from rightfit import api
    from rightfit.search.priced import with_book
    from rightfit.web.answers import TOP
    from rightfit.workload import money

    with money.own_rates(book.rates):
        return api.plan(api.read_workload(None, state.wishes), catalog=with_book(catalog, book), top=TOP)
