"""The catalog: servers, prices, accelerators and models with filters, order and pages, all in the address."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.catalog_tables import COLUMN_SORTS, SORTS, Question, catalog_page
from rightfit.explain.messages import Lang
from rightfit.records import dataclass
from rightfit.web.addresses import catalog_links
from rightfit.web.answers import Answers
from rightfit.web.draw import Sorting, box, button, heading, paragraph, table, text
from rightfit.web.state import LONGEST_VALUE, clean
from rightfit.web.words import option_name, problem_lines, word
from rightfit.workload.vocabulary import PURCHASES

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
