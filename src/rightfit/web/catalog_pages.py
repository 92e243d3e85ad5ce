"""The catalog: servers, prices, accelerators and models with filters, order and pages,
all in the address."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from nicegui import ui

from rightfit import lookup
from rightfit.errors import InputError, RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.catalog_tables import COLUMN_SORTS, SORTS, Question, catalog_page
from rightfit.explain.listings import fit_parts, priced_places
from rightfit.explain.quantities import Table
from rightfit.explain.things import Thing, card_thing, known_cards, server_thing
from rightfit.messages import Lang
from rightfit.records import dataclass
from rightfit.web.answers import Answers
from rightfit.web.draw import (
    Links,
    Sorting,
    box,
    bullets,
    button,
    card_address,
    catalog_links,
    fit_address,
    heading,
    link,
    pair,
    paragraph,
    plan_address,
    server_address,
    table,
    text,
)
from rightfit.web.forms import LONGEST_VALUE, clean
from rightfit.web.market_charts import MOVES, draw_moves, moves_of, world_map
from rightfit.web.tabs import draw_owed
from rightfit.web.words import option_name, problem_lines, word
from rightfit.workload.vocabulary import PURCHASES

if TYPE_CHECKING:
    from rightfit.planner.cards import Fit


KINDS = ("servers", "prices", "accelerators", "models")
FILTERS: Mapping[str, tuple[str, ...]] = {
    "servers": ("cloud", "gpu"),
    "prices": ("cloud", "gpu", "region", "purchase"),
    "accelerators": (),
    "models": (),
}
_LAST_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class CatalogState:
    """What is looked at."""

    kind: str = "servers"
    question: Question = dataclasses.field(default_factory=Question)
    lang: Lang = "en"

    @classmethod
    def from_query(cls, query: Mapping[str, str], *, lang: Lang) -> CatalogState:
        """The state of an address; what does not belong there is left out."""
        kind = query.get("kind", "")
        kind = kind if kind in KINDS else "servers"
        values: dict[str, Any] = {name: clean(query.get(name, ""), LONGEST_VALUE) for name in ("query", *FILTERS[kind])}
        sort = query["sort"] if query.get("sort") in SORTS[kind] else ""
        page = query.get("page", "")
        at = min(int(page), _LAST_PAGE) if page.isascii() and page.isdigit() and len(page) < 6 else 1
        question = Question(**values, sort=sort, descending=query.get("order") == "descending")
        return cls(kind, dataclasses.replace(question, first=question.count * max(0, at - 1)), lang)

    def query(self) -> dict[str, str]:
        """The parameters of the address."""
        asked = self.question
        found = {name: getattr(asked, name) for name in ("query", *FILTERS[self.kind], "sort")}
        found |= {"kind": self.kind, "lang": self.lang, "order": "descending" if asked.descending else ""}
        found |= {"page": str(asked.first // asked.count + 1) if asked.first else ""}
        return {name: value for name, value in found.items() if value}

    def address(self) -> str:
        """The permanent link."""
        return f"/catalog?{urlencode(self.query())}"


def usual_sort(kind: str) -> str:
    """The order of a kind where none is asked for."""
    return next(iter(COLUMN_SORTS[kind].values()))


class CatalogView:
    """One visitor's look at the catalog."""

    def __init__(self, state: CatalogState, answers: Answers, links: dict[str, Any]) -> None:
        self.state, self.answers, self.links = state, answers, links
        self.filters: Any = None
        self.lines: Any = None
        self.turn = 0

    def draw(self) -> None:
        """Kinds, filters, lines."""
        lang = self.state.lang
        heading(word("catalog.heading", lang), 1)
        self.stock = paragraph("", "lead")
        with box("div", "section"):
            self.bar = box("div", "tabs")
            self.bar.props.update({"role": "tablist", "aria-label": word("catalog.heading", lang)})
            self._draw_bar()
            with box("div", "tab-panel") as panel:
                panel.props["role"] = "tabpanel"
                panel.props["aria-label"] = word("catalog.heading", lang)
                self.filters = box("div", "filters")
                self._draw_filters()
                self.lines = box("div")
                self.lines.props["aria-live"] = "polite"
        ui.timer(0, self.show, once=True)

    def _draw_bar(self) -> None:
        self.bar.clear()
        with self.bar:
            for kind in KINDS:
                tab = button(word(f"catalog.{kind}", self.state.lang), lambda kind=kind: self._turn_to(kind), "tab").mark(f"kind-{kind}")
                is_open = kind == self.state.kind
                tab.props.update({"role": "tab", "aria-selected": "true" if is_open else "false", "data-key": f"kind-{kind}"})
                tab.props["tabindex"] = "0" if is_open else "-1"

    async def _turn_to(self, kind: str) -> None:
        kept = Question(query=self.state.question.query)
        self.state = dataclasses.replace(self.state, kind=kind, question=kept)
        self._draw_bar()
        self._draw_filters()
        await self.show()

    def _draw_filters(self) -> None:
        state, lang = self.state, self.state.lang
        self.filters.clear()
        with self.filters:
            self._line("query", word("catalog.search", lang), word("catalog.search_hint", lang))
            for name in FILTERS[state.kind]:
                if name == "cloud":
                    self._choice(name, {code: q.provider_text(code, lang) for code in self.answers.market.catalog().as_of()})
                elif name == "purchase":
                    self._choice(name, {code: q.purchase_text(code, lang) for code in PURCHASES.words})
                else:
                    self._line(name, option_name(name, lang), "")

    def _line(self, name: str, title: str, hint: str) -> None:
        field = ui.input(title, value=getattr(self.state.question, name), placeholder=hint)
        field.props(f"outlined dense stack-label debounce=300 maxlength={LONGEST_VALUE} autocomplete=off").mark(f"filter-{name}")
        field.on_value_change(lambda event: self._ask(**{name: clean(event.value or "", LONGEST_VALUE)}))

    def _choice(self, name: str, words: dict[str, str]) -> None:
        now = getattr(self.state.question, name)
        field = ui.select(words, label=option_name(name, self.state.lang), value=now if now in words else None, clearable=True)
        field.props("outlined dense options-dense stack-label").mark(f"filter-{name}")
        field.on_value_change(lambda event: self._ask(**{name: event.value or ""}))

    async def _sort(self, order: str) -> None:
        """By a column; once more turns it round."""
        asked = self.state.question
        again = order == (asked.sort or usual_sort(self.state.kind))
        await self._ask(sort=order, descending=again and not asked.descending)

    async def _ask(self, **changes: Any) -> None:
        self.state = dataclasses.replace(self.state, question=dataclasses.replace(self.state.question, first=0, **changes))
        await self.show()

    async def show(self) -> None:
        """The lines of the question, unless the visitor has gone on."""
        self.turn += 1
        turn, state = self.turn, self.state
        ui.navigate.history.replace(state.address())
        if "language" in self.links:
            self.links["language"].props["href"] = dataclasses.replace(state, lang="en" if state.lang == "zh" else "zh").address()
        catalog = self.answers.market.catalog()
        try:
            found = await self.answers.ask(
                ("catalog", state), lambda: catalog_page(state.kind, state.question, state.lang, catalog=catalog)
            )
            status = await self.answers.ask(("stock",), catalog.status)
        except RightfitError as error:
            if turn == self.turn and not self.lines.is_deleted:
                self.lines.clear()
                with self.lines, box("div", "problem") as around:
                    around.props["role"] = "alert"
                    paragraph(problem_lines(error, state.lang)[0][1])
            return
        if turn != self.turn or self.lines.is_deleted:
            return
        self.stock.text = word("page.stock", state.lang, servers=f"{status.servers:,}", prices=f"{status.prices:,}", newest=status.newest)
        self.lines.clear()
        with self.lines:
            if not found.table.records:
                paragraph(word("catalog.nothing", state.lang), "muted")
                return
            asked = state.question
            sorting = Sorting(COLUMN_SORTS[state.kind], asked.sort or usual_sort(state.kind), asked.descending, self._sort)
            table(found.table, state.lang, links=catalog_links(state.lang, state.kind), sorting=sorting)
            self._pager(found.total, len(found.table.records))

    def _pager(self, total: int, shown: int) -> None:
        asked, lang = self.state.question, self.state.lang
        with box("div", "pager"):
            text(word("catalog.found", lang, first=f"{asked.first + 1:,}", last=f"{asked.first + shown:,}", total=f"{total:,}"))
            with box("div", "chips"):
                for name, step, able in (("previous", -1, asked.first > 0), ("next", 1, asked.first + shown < total)):
                    found = button(word(f"catalog.{name}", lang), lambda step=step: self._step(step), "button").mark(f"pager-{name}")
                    found.props["disabled"] = not able

    async def _step(self, step: int) -> None:
        asked = self.state.question
        first = max(0, asked.first + step * asked.count)
        self.state = dataclasses.replace(self.state, question=dataclasses.replace(asked, first=first))
        await self.show()


# ---- A page for each server and each card, and the page that says which models fit one's cards.

MOST_CARDS = 64
TASKS = ("", "serve", "finetune")


# ---- one server, one card


class ThingPage:
    """One visitor's look at a server or a card: figures at once, models that fit as soon as
    they are worked out."""

    def __init__(self, kind: str, name: str, answers: Answers, lang: Lang) -> None:
        self.kind, self.name, self.answers, self.lang = kind, clean(name, LONGEST_VALUE), answers, lang
        self.body: Any = None
        self.ways: Any = None

    def draw(self) -> None:
        """The heading; the rest follows."""
        title = self.name or word(f"page.{self.kind}", self.lang)
        heading(title, 1, "long-name")
        self.body = box("div")
        with self.body:
            paragraph(word("thing.working", self.lang), "busy")
        ui.timer(0, self.answer, once=True)

    async def answer(self) -> None:
        """What it is, what it costs, what fits."""
        make, catalog = (server_thing if self.kind == "server" else card_thing), self.answers.market.catalog()
        try:
            found = await self.answers.ask((self.kind, self.name, self.lang), lambda: make(self.name, self.lang, catalog=catalog))
        except RightfitError as error:
            if self.body.is_deleted:
                return
            self.body.clear()
            with self.body, box("div", "problem") as around:
                around.props["role"] = "alert"
                for _, message in problem_lines(error, self.lang):
                    paragraph(message)
            with self.body:
                link(word("thing.catalog", self.lang), f"/catalog?{urlencode({'query': self.name, 'lang': self.lang})}", "chip gap")
            return
        if self.body.is_deleted:
            return
        self.body.clear()
        with self.body:
            place = self._draw(found)
        await asyncio.gather(self._draw_fits(found, place), self._draw_ways(found))

    def _draw(self, found: Thing) -> Any:
        """Everything but the models; gives the place for them."""
        lang, is_server = self.lang, self.kind == "server"
        paragraph(found.lead, "lead")
        with box("div", "actions chips gap no-print"):
            if is_server and found.card:
                link(word("thing.card_page", lang, card=found.card), card_address(found.card, lang), "chip")
            chosen = {"cloud": found.name.partition("/")[0]} if is_server else {}
            if found.card:
                link(word("thing.plan", lang), plan_address(lang, gpu=found.card, model="Llama-3-8B", task="finetune", **chosen), "chip")
            query = {"query": found.name} if is_server else {"gpu": found.card}
            link(word("thing.prices", lang), f"/catalog?{urlencode({'kind': 'prices', **query, 'lang': lang})}", "chip")
        with box("section", "section thing"):
            with box("div", "panel"):
                heading(word("thing.figures", lang), 2)
                with box("dl", "facts gap"):
                    for fact in found.facts:
                        pair(fact.label, fact.value)
            with box("div"):
                heading(word("thing.good_for", lang), 2)
                place = box("div", "gap")
                place.props["aria-live"] = "polite"
                if found.remarks:
                    bullets(found.remarks)
        with box("section", "section"):
            heading(found.prices.title or word("thing.prices", lang), 2)
            if found.prices.records:
                paragraph(word("thing.region_note" if is_server else "thing.cloud_note", lang), "muted small")
                if is_server:
                    provider, _, name = found.name.partition("/")
                    world_map(priced_places(provider, name, catalog=self.answers.market.catalog()), lang)
                cheapest: Links = {"cheapest_server": lambda record: server_address(record["server"], lang)}
                table(found.prices, lang, title=False, links=cheapest)
            else:
                paragraph(word("tab.no_prices", lang), "muted")
        if is_server and found.prices.records:
            self.ways = box("section", "section")
        if found.servers.records:
            with box("section", "section"):
                heading(found.servers.title, 2)
                table(found.servers, lang, title=False, links=catalog_links(lang, "servers"))
                more = urlencode({"kind": "servers", "gpu": found.card, "lang": lang})
                link(word("thing.all_servers", lang), f"/catalog?{more}", "button quiet")
        paragraph(word("thing.source", lang, source=found.source), "muted small section")
        return place

    async def _draw_ways(self, found: Thing) -> None:
        """What is owed by months of use, of a server with several ways to pay."""
        if self.ways is None or self.ways.is_deleted:
            return
        catalog = self.answers.market.catalog()
        try:
            section = await self.answers.ask(("ways", found.name), lambda: lookup.ways_to_buy(found.name, catalog=catalog))
            moves = await self.answers.ask((MOVES, found.name), lambda: moves_of(found.name, catalog=catalog))
        except RightfitError:
            return  # no sound price to begin with; the table says so
        if not self.ways.is_deleted:
            with self.ways:
                draw_owed(section, self.lang)
                draw_moves(moves, self.lang)

    async def _draw_fits(self, found: Thing, place: Any) -> None:
        """The models that fit, where it has whole cards."""
        if not found.card or found.num_cards < 1:
            return
        lang, count = self.lang, int(found.num_cards)
        with place:
            paragraph(word("fit.working", lang), "muted")
        try:
            fits = await fits_for(self.answers, found.card, count, "")
        except RightfitError as error:
            fits, lines = (), [message for _, message in problem_lines(error, lang)]
        if place.is_deleted:
            return
        place.clear()
        with place:
            if not fits:
                for line in lines:
                    paragraph(line, "muted")
                return
            said, _ = fit_parts(fits, lang)
            paragraph(said)
            link(word("fit.all", lang), fit_address(found.card, count, "", lang), "button quiet")


async def fits_for(answers: Answers, gpu: str, count: int, task: str) -> tuple[Fit, ...]:
    """Which models fit, worked out once for all who ask."""
    from rightfit.planner.cards import fits_of
    from rightfit.search.ownership import Machine

    catalog = answers.market.catalog()
    return await answers.ask(("fit", gpu, count, task), lambda: fits_of(Machine(gpu, count, ""), task=task, catalog=catalog))


# ---- my cards


class FitPage:
    """Which models fit one's cards; card, number and task are in the address."""

    def __init__(self, query: Mapping[str, str], answers: Answers, lang: Lang, links: dict[str, Any]) -> None:
        self.gpu = clean(query.get("gpu", ""), LONGEST_VALUE)
        self.count = clean(query.get("count", ""), 4) or "1"
        self.task = query.get("task", "") if query.get("task", "") in TASKS else ""
        self.answers, self.lang, self.links = answers, lang, links
        self.place: Any = None
        self.turn = 0

    def draw(self) -> None:
        """The cards, and what fits them."""
        lang = self.lang
        heading(word("page.fit", lang), 1)
        paragraph(word("fit.intro", lang), "lead")
        with box("section", "panel section"):
            with box("div", "fields fit-fields"):
                card = ui.select(list(known_cards()), label=word("fit.card", lang), value=self._card() or None, with_input=True)
                card.props("outlined dense options-dense stack-label").mark("fit-card")
                card.on_value_change(lambda event: self._change("gpu", str(event.value or "")))
                count = ui.input(word("fit.count", lang), value=self.count)
                count.props("outlined dense stack-label inputmode=numeric maxlength=4 autocomplete=off").mark("fit-count")
                settle = lambda: self._change("count", str(count.value or ""))  # noqa: E731
                count.on("change", settle)
                count.on("keydown.enter", settle)
                tasks = {name: word(f"fit.task_{name or 'all'}", lang) for name in TASKS}
                task = ui.select(tasks, label=word("fit.task", lang), value=self.task)
                task.props("outlined dense options-dense stack-label").mark("fit-task")
                task.on_value_change(lambda event: self._change("task", event.value or ""))
            with box("div", "chips gap"):
                for name in ("RTX-4090", "RTX-3060", "L40S", "A100-SXM-80GB", "H20-96GB", "Ascend-910B"):
                    button(name, lambda name=name: card.set_value(name), "chip")
        self.place = box("section", "section")
        self.place.props["aria-live"] = "polite"
        if self.gpu:
            ui.timer(0, self.show, once=True)

    def _card(self) -> str:
        """The card of the address as the list spells it."""
        from rightfit import facts

        found = facts.match_accelerators(self.gpu) if self.gpu else ()
        return facts.accelerator(self.gpu, typical=True).name if found else ""

    async def _change(self, name: str, value: str) -> None:
        value = clean(value, LONGEST_VALUE)
        if value != getattr(self, name):
            setattr(self, name, value)
            await self.show()

    async def show(self) -> None:
        """The models, unless the visitor has gone on."""
        self.turn += 1
        turn, lang = self.turn, self.lang
        number = int(self.count) if self.count.isascii() and self.count.isdigit() else 0
        address = fit_address(self.gpu, number or 1, self.task, lang)
        ui.navigate.history.replace(address)
        other: Lang = "en" if lang == "zh" else "zh"
        self.links["language"].props["href"] = fit_address(self.gpu, number or 1, self.task, other)
        self.place.clear()
        if not self.gpu:
            return
        self.place.props["aria-busy"] = "true"
        with self.place:
            paragraph(word("fit.working", lang), "muted")
        draw: Callable[[], None]
        try:
            if not 1 <= number <= MOST_CARDS:
                raise InputError(word("fit.bad_count", lang, most=MOST_CARDS))
            thing = await self.answers.ask(("card", self.gpu, lang), self._thing)
            fits = await fits_for(self.answers, thing.card, number, self.task)
            draw = lambda: self._draw(fits, number)  # noqa: E731
        except RightfitError as error:
            lines = [message for _, message in problem_lines(error, lang)]
            draw = lambda: self._problem(lines)  # noqa: E731
        except asyncio.CancelledError:
            return
        if turn != self.turn or self.place.is_deleted:
            return
        self.place.props["aria-busy"] = "false"
        self.place.clear()
        with self.place:
            draw()

    def _thing(self) -> Thing:
        return card_thing(self.gpu, self.lang, catalog=self.answers.market.catalog())

    @staticmethod
    def _problem(lines: list[str]) -> None:
        with box("div", "problem") as around:
            around.props["role"] = "alert"
            for line in lines:
                paragraph(line)

    def _draw(self, fits: tuple[Fit, ...], number: int) -> None:
        lang = self.lang
        said, found = fit_parts(fits, lang)
        card = fits[0].gpu
        with box("section", "panel answer"):
            paragraph(said)
            link(word("thing.card_page", lang, card=card), card_address(card, lang), "button quiet")
        with box("section", "section"):
            heading(word("fit.models", lang), 2)
            task = {"serve": "serve", "finetune": "finetune"}.get(self.task, "")
            lead: Links = {"model": lambda record: plan_address(lang, model=record["model"], gpu=card, task=task)}
            table(Table(found.columns, found.records, title=word("fit.models", lang)), lang, title=False, links=lead, classes="table fits")
            paragraph(word("fit.note", lang), "muted small gap")
