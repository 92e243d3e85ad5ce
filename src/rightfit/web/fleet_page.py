"""A fleet on a page: the file is typed or pasted, the plan shows its calendar, its purchase list
and where everything runs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nicegui import Client, ui

from rightfit.errors import FileInputError, InputError, RightfitError
from rightfit.explain.cards import option_card
from rightfit.explain.fleet_text import (
    assumption_lines,
    buy_lines,
    calendar_svg,
    considered_lines,
    future_lines,
    head_lines,
    limit_lines,
    placement_table,
    scenario_lines,
    shared_lines,
    unplaced_lines,
)
from rightfit.explain.listings import book_table
from rightfit.messages import Lang, Message
from rightfit.web.answers import Answers
from rightfit.web.cards import draw_card
from rightfit.web.draw import box, bullets, button, heading, paragraph, table
from rightfit.web.forms import PageState, field, main_options, show_error
from rightfit.web.words import on_page, option_name, problem_lines, text_of, word

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.price_book import PriceBook
    from rightfit.search.answer import Plan


EXAMPLE = text_of("example_fleet.yaml")
MOST_CHARACTERS, MOST_LINES, SECONDS, MOST_FUTURES = 50_000, 24, 5.0, 20


class FleetPage:
    """One visitor's fleet. The file lives as long as the page."""

    def __init__(self, lang: Lang, answers: Answers, client: Client) -> None:
        self.lang, self.answers, self.client = lang, answers, client
        self.typed: Any = None
        self.futures: Any = None
        self.place: Any = None
        self.turn = 0

    def draw(self) -> None:
        """The file, and a place for the plan."""
        lang = self.lang
        heading(word("fleet.heading", lang), 1)
        paragraph(word("fleet.intro", lang), "lead")
        with box("section", "section panel"):
            self.typed = ui.textarea(word("fleet.file", lang), value=EXAMPLE).mark("fleet-file")
            self.typed.props(f"outlined autogrow spellcheck=false maxlength={MOST_CHARACTERS} input-class=mono")
            self.futures = ui.number(word("fleet.futures", lang), value=0, min=0, max=MOST_FUTURES, precision=0).mark("fleet-futures")
            self.futures.props("outlined")
            with box("div", "actions"):
                button(word("fleet.submit", lang), self.plan, "button primary").mark("fleet-submit")
        self.place = box("div", "gap")
        self.place.props["aria-live"] = "polite"

    async def plan(self) -> None:
        """Plan what the file says, unless the visitor has gone on in the meantime."""
        self.turn += 1
        turn, source = self.turn, str(self.typed.value or "")[:MOST_CHARACTERS]
        futures = int(min(max(self.futures.value or 0, 0), MOST_FUTURES))
        self.place.clear()
        with self.place:
            paragraph(word("fleet.working", self.lang), "muted")
        self.place.props["aria-busy"] = "true"
        try:
            values = read_text(source)
            catalog = self.answers.market.catalog()
            found = await self.answers.ask(("fleet", source, futures), lambda: _planned(values, catalog, futures))
        except RightfitError as error:
            found, lines = None, [message for _, message in problem_lines(error, self.lang)]
        if turn != self.turn or self.place.is_deleted:
            return
        self.place.props["aria-busy"] = "false"
        self.place.clear()
        with self.place:
            if found is None:
                for line in lines:
                    paragraph(line, "problem")
            else:
                self._draw(found)

    def _draw(self, found: Mapping[str, Any]) -> None:
        lang = self.lang
        with box("section", "part"):
            heading(word("fleet.plan", lang), 2)
            for line in head_lines(found, lang):
                paragraph(line)
            if told := unplaced_lines(found, lang):
                bullets(told)
        with box("section", "part"):
            heading(word("fleet.calendar", lang), 2)
            ui.html(calendar_svg(found, lang), sanitize=False).mark("fleet-calendar")  # every text in it is escaped
        with box("section", "part"):
            heading(word("fleet.purchases", lang), 2)
            bullets([*buy_lines(found, lang), *shared_lines(found, lang)])
            if told := considered_lines(found, lang):
                bullets(told)
        if told := future_lines(found, lang):
            with box("section", "part"):
                heading(word("fleet.futures_told", lang), 2)
                bullets(told)
        with box("section", "part"):
            heading(word("fleet.placements", lang), 2)
            table(placement_table(found, lang, most=None), lang)
        with box("section", "part"):
            heading(word("fleet.reasons", lang), 2)
            bullets([*limit_lines(found, lang), *scenario_lines(found, lang), *assumption_lines(found, lang)])
        document = json.dumps(found, ensure_ascii=False, indent=1)
        button("fleet-plan.json", lambda: ui.download.content(document, "fleet-plan.json"), "chip").mark("fleet-json")


def read_text(source: str) -> Mapping[str, Any]:
    """What is typed, as the keys of a fleet. InputError for what is no YAML, or more
    than a page plans."""
    from rightfit.fleets.sources import from_text, lines_of

    values = from_text("fleet", source)
    lines = lines_of(values)
    if lines > MOST_LINES:
        raise InputError(Message("faces.too_many_lines", lines=lines, most=MOST_LINES), field="fleet", allowed=f"at most {MOST_LINES}")
    return values


def _planned(values: Mapping[str, Any], catalog: Any, futures: int) -> dict[str, Any]:
    from rightfit import api

    return api.fleet(values, catalog=catalog, seconds=SECONDS, processes=1, futures=futures).to_dict()


# ---- My prices: a price book is typed or chosen, checked line by line, and the best plan stands
# beside that of list prices. It is kept for this visit alone.

_EXAMPLE = text_of("example_book.toml")
USUAL = {"model": "Llama-3-8B", "task": "finetune", "method": "lora", "data": "50Mtok"}
MOST_BOOK_CHARACTERS = 50_000
_WHERE = re.compile(r"^book:(?P<line>\d+): ")


class BookPage:
    """One visitor's price book and question. The question is the address; the book lives
    as long as the page."""

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
            self.typed.props(f"outlined autogrow spellcheck=false maxlength={MOST_BOOK_CHARACTERS} input-class=mono")
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
            max_file_size=MOST_BOOK_CHARACTERS * 4,
            on_upload=self._uploaded,
            on_rejected=lambda: ui.notify(word("book.too_large", lang), type="warning"),
        )
        upload.props("accept=.toml,.csv").classes("unseen").mark("book-upload")
        button(word("book.choose", lang), None, "chip gap", in_browser=f"() => getElement({upload.id}).$refs.qRef.pickFiles()")

    async def _uploaded(self, event: Any) -> None:
        self.typed.value = (await event.file.read()).decode("utf-8-sig", errors="replace")[:MOST_BOOK_CHARACTERS]
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
        source = str(self.typed.value or "")[:MOST_BOOK_CHARACTERS]
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
            found = book, await self.answers.ask(key, lambda: _planned_with(book, state, catalog))
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
    """What is typed, as a price book: CSV where its first line names the column of entries, else
    TOML. Raises FileInputError."""
    from rightfit.market.offers import today
    from rightfit.market.price_book import parse_price_book

    first = source.strip().splitlines()[0] if source.strip() else ""
    is_csv = "entry" in [cell.strip() for cell in first.split(",")] and "=" not in first
    return parse_price_book(source, "book", is_csv=is_csv, usual_date=today())


def said(line: str, lang: Lang) -> str:
    """A problem of the book with its line in the reader's language."""
    found = _WHERE.match(line)
    return word("book.line", lang, line=found["line"], problem=line[found.end() :]) if found else line.removeprefix("book: ")


def _planned_with(book: PriceBook, state: PageState, catalog: Catalog) -> Plan:
    from rightfit import api
    from rightfit.search.offers import with_book
    from rightfit.web.answers import TOP
    from rightfit.workload import amounts

    with amounts.own_rates(book.rates):
        return api.plan(api.read_workload(None, state.wishes), catalog=with_book(catalog, book), top=TOP)
