"""The planning page: a sentence or fields, the best plans as cards, the chart of everything
feasible, and what is said about the opened plan."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from nicegui import Client, ui

from rightfit.errors import InputError, RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.cards import option_card
from rightfit.explain.messages import label
from rightfit.explain.quantities import Table
from rightfit.explain.rule_lookup import headline
from rightfit.explain.sheets import Choice, Extent, Lines, first_caution, plan_sheet, short_sheet, verdict_sheet
from rightfit.planner.home_currency import in_home_currency
from rightfit.web.answers import Answers
from rightfit.web.ask import AskPanel
from rightfit.web.cards import draw_card, draw_parts
from rightfit.web.charts import clouds_of, colour_of, field_chart, mark_of
from rightfit.web.draw import box, button, heading, link, paragraph, text
from rightfit.web.forms import MOST_COMPARED, TABS, PageState
from rightfit.web.guide_page import OPTIONS as GUIDE_OPTIONS
from rightfit.web.guide_page import GuideState
from rightfit.web.tabs import (
    breakdown_tab,
    buying_tab,
    change_tab,
    compare_tab,
    export_tab,
    opened,
    regions_tab,
    scale_tab,
    verdict_dialog,
    why_tab,
)
from rightfit.web.words import on_page, problem_lines, word

if TYPE_CHECKING:
    from rightfit.explain.beside.settled import Asked
    from rightfit.market.verdicts import CheckResult
    from rightfit.planner.plan import Field
    from rightfit.search.answer import Option, Plan

NUM_CARDS = 3
_EXTENT = Extent(commands=False)
_LINES_FIRST = 2  # of the choice: the work with time and cost, and the setup
_SENTENCE_END = re.compile(r"(?<=[.])\s|(?<=。)(?=.)")
_TABS = {
    "why": why_tab,
    "breakdown": breakdown_tab,
    "change": change_tab,
    "scale": scale_tab,
    "buying": buying_tab,
    "regions": regions_tab,
    "compare": compare_tab,
    "export": export_tab,
}


class PlanPage:
    """One visitor's page. `state` is all that is kept, and it is the address."""

    def __init__(self, state: PageState, answers: Answers, client: Client) -> None:
        self.state, self.answers, self.client = state, answers, client
        self.plan: Plan | None = None
        self.asked: Asked | None = None
        self.turn = 0
        self.address, self.is_walking = "", False  # what the browser shows, and whether Back or Forward leads there
        self.status: Any = None
        self.num_shown = max(NUM_CARDS, state.option, *state.compare) if state.compare else max(NUM_CARDS, state.option)
        self.panel = AskPanel(self)
        self.results: Any = None
        self.parts: dict[str, Any] = {}
        self.links: dict[str, Any] = {}

    def draw(self, links: dict[str, Any]) -> None:
        """The page without an answer; `links` lead to other languages and follow the state."""
        self.links = links
        self.panel.draw()
        self.status = paragraph("", "busy")
        self.status.props["role"] = "status"
        self.results = box("div", "results")
        self.results.props["aria-live"] = "polite"
        ui.on("rightfit_moved", lambda event: self.went(str(event.args or "")))
        if self.state.wishes or self.state.ask:
            self._busy(is_busy=True)
            ui.timer(0, self.start, once=True)

    async def start(self) -> None:
        """Answer what the address asks."""
        if self.state.ask and not self.state.wishes:
            await self.say(self.state.ask)
        else:
            await self.replan()

    # ---- what the visitor does

    async def say(self, sentence: str) -> None:
        """A sentence: its wishes take the place of those before, but for fields that were changed
        after it was typed."""
        try:
            self.asked = await self.answers.settled(sentence)
        except RightfitError as error:
            self._problem(error)
            return
        problem = self.panel.understand(self.asked.wish)
        if not self.panel.edited and (told := await self.answers.question(sentence)):
            self.turn += 1
            self.state = self.state.with_wishes({}, ask=sentence)
            self._told(told)
            return
        if problem is not None:
            self.turn += 1  # an answer under way belongs to what was asked before
            self._problem(problem)
            return
        assert self.panel.understood is not None
        self.state = self.state.with_wishes({**self.panel.understood.wishes, **self.asked.chosen, **self.panel.edited}, ask=sentence)
        self.panel.redraw_fields()
        if self.panel.understood.weighty:
            self._problem(InputError(self.panel.understood.question(), field="ask"))
            return
        await self.replan()

    async def wish(self, wishes: Mapping[str, str]) -> None:
        """Other wishes altogether; the sentence stays as the visitor's own words."""
        self.panel.edited.update({name: value for name, value in wishes.items() if self.state.wishes.get(name) != value})
        self.state = self.state.with_wishes(wishes, ask=self.state.ask)
        self.panel.redraw_fields()
        await self.replan()

    async def change(self, name: str, value: str) -> None:
        """One field changed."""
        before = self.state.wishes.get("task", "")
        self.panel.edited[name] = value
        self.state = self.state.with_wish(name, value)
        if self.state.wishes.get("task", "") != before:
            self.panel.redraw_fields()
        await self.replan()

    async def plan_again(self, sentence: str) -> None:
        """What the fields say; `sentence` is what stands above them, read already or empty."""
        self.state = dataclasses.replace(self.state, ask=sentence)
        await self.replan()

    async def went(self, query: str) -> None:
        """Back or Forward: the page as its address says, without a further entry in the history."""
        state = PageState.from_query(dict(parse_qsl(query.removeprefix("?"))), lang=self.state.lang)
        is_same = (state.wishes, state.ask) == (self.state.wishes, self.state.ask) and self.plan is not None
        self.state, self.is_walking = state, True
        try:
            if is_same:
                self._moved()
                self._draw_cards()
                self._draw_tabs()
                return
            self.panel.show_sentence(state.ask)
            self.panel.redraw_fields()
            if state.wishes or state.ask:
                await self.replan()
            else:
                self.turn += 1
                self.plan = None
                self._moved()
                self.panel.settle()
                self._empty()
        finally:
            self.is_walking = False

    def open(self, rank: int) -> None:
        """Open another plan."""
        self.state = dataclasses.replace(self.state, option=rank)
        self._moved()
        self._draw_cards()
        self._draw_tabs()

    def compare(self, rank: int, is_wanted: bool) -> None:
        """Take a plan into the comparison, or out of it."""
        others = tuple(known for known in self.state.compare if known != rank)
        if is_wanted and len(others) >= MOST_COMPARED:
            ui.notify(word("tab.compare_most", self.state.lang))
            self._draw_cards()
            return
        compared = tuple(sorted((*others, rank))) if is_wanted else others
        self.state = dataclasses.replace(self.state, compare=compared)
        self._moved()
        if self.state.tab == "compare":
            self._draw_tabs()

    def turn_to(self, tab: str) -> None:
        """Another tab."""
        self.state = dataclasses.replace(self.state, tab=tab)
        self._moved()
        self._draw_tabs()

    async def open_server(self, server: str, *, region: str = "", purchase: str = "") -> None:
        """Why a server was or was not chosen."""
        lang = self.state.lang
        try:
            verdict = await self.answers.verdict(self.state.wishes, server=server.strip()[:120], region=region, purchase=purchase)
        except RightfitError as error:
            ui.notify(problem_lines(error, lang)[0][1], type="warning")
            return
        with self.results:
            verdict_dialog(verdict_sheet(verdict, lang), lang)

    # ---- answers

    async def replan(self) -> None:
        """Work the plan out and draw it, unless the visitor has gone on in the meantime."""
        self.turn += 1
        turn = self.turn
        self._moved()
        self.panel.clear_errors()
        self.panel.settle()
        self.results.classes("stale")
        self._busy(is_busy=True)
        try:
            plan = in_home_currency(await self.answers.plan(self.state.wishes), self.state.lang)
        except RightfitError as error:
            if turn == self.turn and not self.results.is_deleted:
                self._problem(error)
            return
        if turn != self.turn or self.results.is_deleted:
            return
        self.plan = plan
        asked = (
            await self.answers.asked(self.asked, self.state.wishes, plan, self.state.lang)
            if self.asked and self.state.ask and plan.best
            else []
        )
        if turn != self.turn or self.results.is_deleted:
            return
        self._draw_results(plan, asked)
        await self._draw_chart(plan, turn)

    def _told(self, result: CheckResult) -> None:
        """What was asked is no plan: its answer stands where that would."""
        self.plan = None
        self._moved()
        self._empty()
        lang = self.state.lang
        verdict = headline(result, lang)
        with self.results, box("section", "section panel answer"):
            heading(verdict or result.query, 2)
            for line in str(result.to_dict(lang=lang)["explanation"]).splitlines():
                paragraph(line)
            said = self.panel.understood
            if said is not None and "data" in said.wishes and "model" not in said.wishes:
                self._draw_guide_link(said.wishes)

    def _moved(self) -> None:
        """The address and the links follow the state."""
        address = self.state.address()
        with self.client:  # the field that was changed may be gone by now: another task has other fields
            if self.address and address != self.address and not self.is_walking:
                ui.navigate.history.push(address)
            else:
                ui.navigate.history.replace(address)
        self.address = address
        other = dataclasses.replace(self.state, lang="en" if self.state.lang == "zh" else "zh")
        if "language" in self.links:
            self.links["language"].props["href"] = other.address()
        if "report" in self.links:
            self.links["report"].props["href"] = self.state.address("/report")

    def _problem(self, error: RightfitError) -> None:
        """What is wrong, beside the field it came from, and once more in a box where
        the answer would be."""
        self.plan = None
        lang = self.state.lang
        self._empty()
        lines = problem_lines(error, lang)
        self.panel.fold(is_folded=False)
        for name, message in lines:
            self.panel.show_error(name, message)
        with self.results, box("div", "problem") as around:
            around.props["role"] = "alert"
            heading(word("error.heading", lang), 3)
            for name, message in lines:
                paragraph(self.panel.named(name, message))
            if not self.state.wishes.get("model") and any(name in ("model", "ask", "") for name, _ in lines):
                self._draw_guide_link(self.state.wishes)

    def _draw_guide_link(self, wishes: Mapping[str, Any]) -> None:
        """The way to the page that finds a model, with what is known already."""
        told = {name: str(value) for name, value in wishes.items() if name in GUIDE_OPTIONS}
        lang = self.state.lang
        link(word("guide.ask", lang), GuideState("", self.state.ask, told).address(lang), "chip gap").mark("to-guide")

    def _empty(self) -> None:
        """Take the answer away, and what led from it."""
        self.results.classes(remove="stale")
        self._busy(is_busy=False)
        self.results.clear()
        self.links.pop("report", None)

    def _draw_results(self, plan: Plan, asked: Sequence[str] = ()) -> None:
        self._empty()
        lang = self.state.lang
        self.panel.fold(is_folded=True)
        if plan.best is None:
            with self.results, box("section", "section panel"):
                draw_parts(plan_sheet(plan, lang), lang)
            return
        if opened(plan, self.state.option) is plan.best and self.state.option != 1:
            self.state = dataclasses.replace(self.state, option=1)
        with self.results:
            if asked:
                with box("section", "section panel answer").mark("asked"):
                    for line in "\n".join(asked).splitlines():
                        paragraph(on_page(line, lang))
            self._draw_answer(plan)
            with box("section", "section"):
                heading(word("result.heading", lang), 2)
                self.parts["cards"] = box("div")
                self._draw_cards()
            self.parts["chart"] = box("section", "section")
            with box("section", "section") as section:
                section.props["id"] = "details"
                self.parts["tabs"] = box("div")
                self._draw_tabs()

    def _draw_answer(self, plan: Plan) -> None:
        """What to rent, cost, time, setup, the first caution, how sure, and how to start it, all on
        the first screen; what else a short answer says comes below."""
        lang = self.state.lang
        parts = [part for part in short_sheet(plan, lang, extent=_EXTENT) if not isinstance(part, Table)]
        at = next(place for place, part in enumerate(parts) if isinstance(part, Choice))
        choice = parts[at]
        assert isinstance(choice, Choice)
        warned = [part for part in parts if isinstance(part, Lines) and part.name == "warnings"] or first_caution(plan, lang)
        title = label("section", "warnings", lang) + ("" if lang == "zh" else " ")
        cautions = [line for part in warned if isinstance(part, Lines) for line in part.lines]
        with box("section", "section panel answer") as section:
            section.props["aria-label"] = word("result.answer", lang)
            draw_parts(parts[:at], lang)
            with box("h2"):
                first, _, rest = _SENTENCE_END.sub("\n", choice.headline, count=1).partition("\n")
                text(first)
                text(rest, "expected")
            for line in (*choice.lines[:_LINES_FIRST], *(f"{title}{line}" for line in cautions[:1])):
                paragraph(on_page(line, lang))
            card = option_card(plan.options[0], plan.workload, lang)
            with box("div", "chips gap sure"):
                text(card.confidence_text, f"level {card.confidence}")
                button(word("result.start", lang), self._show_files, "chip").mark("start-it")
                button(word("result.link", lang), self._copy_link, "chip")
                self.links["report"] = link(word("result.report", lang), self.state.address("/report"), "chip")
            for line in (*choice.lines[_LINES_FIRST:], *cautions[1:]):
                paragraph(on_page(line, lang), "muted")
            draw_parts((part for part in parts[at + 1 :] if part not in warned), lang)

    def _busy(self, *, is_busy: bool) -> None:
        """Say that an answer is worked out, beside the old one that still stands."""
        self.results.props["aria-busy"] = "true" if is_busy else "false"
        self.status.text = word("result.working", self.state.lang) if is_busy else ""

    def _show_files(self) -> None:
        self.turn_to("export")
        ui.run_javascript("document.getElementById('details').scrollIntoView()")

    def _copy_link(self) -> None:
        ui.run_javascript("navigator.clipboard && navigator.clipboard.writeText(location.href)")
        ui.notify(word("result.copied", self.state.lang))

    def _draw_cards(self) -> None:
        plan, lang = self.plan, self.state.lang
        if plan is None:
            return
        self.parts["cards"].clear()
        with self.parts["cards"]:
            with box("div", "cards"):
                for option in plan.options[: self.num_shown]:
                    self._draw_card(plan, option)
            hidden = len(plan.options) - self.num_shown
            if hidden > 0:
                button(word("result.more", lang, count=hidden), self._show_more, "button quiet").mark("more-plans")

    def _draw_card(self, plan: Plan, option: Option) -> None:
        state, rank = self.state, option.rank
        draw_card(
            option_card(option, plan.workload, state.lang),
            state.lang,
            is_open=rank == state.option,
            compared=rank in state.compare,
            on_open=lambda: self.open(rank),
            on_compare=lambda is_wanted: self.compare(rank, is_wanted),
        )

    def _show_more(self) -> None:
        self.num_shown = len(self.plan.options) if self.plan else NUM_CARDS
        self._draw_cards()

    def _draw_tabs(self) -> None:
        plan, lang = self.plan, self.state.lang
        option = opened(plan, self.state.option) if plan else None
        if plan is None or option is None:
            return
        self.parts["tabs"].clear()
        with self.parts["tabs"]:
            heading(option_card(option, plan.workload, lang).server, 2)
            with box("div", "tabs") as bar:
                bar.props.update({"role": "tablist", "aria-label": word("tab.label", lang)})
                for name in TABS:
                    tab = button(word(f"tab.{name}", lang), lambda name=name: self.turn_to(name), "tab").mark(f"tab-{name}")
                    is_open = name == self.state.tab
                    tab.props.update({"role": "tab", "id": f"tab-{name}", "data-key": f"tab-{name}"})
                    tab.props.update({"aria-selected": "true" if is_open else "false", "tabindex": "0" if is_open else "-1"})
            with box("div", "tab-panel") as panel:
                panel.props.update({"role": "tabpanel", "aria-labelledby": f"tab-{self.state.tab}"})
                _TABS[self.state.tab](self, plan, option)

    async def _draw_chart(self, plan: Plan, turn: int) -> None:
        if plan.best is None:
            return
        try:
            field = await self.answers.field(self.state.wishes)
        except RightfitError:
            return  # the cards stand without it; the failure is in the log
        if turn == self.turn and not self.results.is_deleted:
            with self.parts["chart"]:
                FieldChart(self, plan, field).draw()


class FieldChart:
    """The chart of everything feasible with its filter by cloud."""

    def __init__(self, page: PlanPage, plan: Plan, field: Field) -> None:
        self.page, self.plan, self.field = page, plan, field
        self.hidden: set[str] = set()
        self.chart: Any = None

    def draw(self) -> None:
        """Heading, clouds, chart, and what it shows in words."""
        lang, shown = self.page.state.lang, len(self.field)
        heading(word("chart.heading", lang), 2)
        with box("div", "panel"):
            with box("div", "chips scrolling") as chips:
                chips.props.update({"role": "group", "aria-label": word("chart.clouds", lang)})
                for position, name in enumerate(clouds_of(self.field, self.plan)):
                    self._chip(name, position)
            self.chart = ui.echart(field_chart(self.field, self.plan, lang), on_point_click=self._clicked).classes("chart")
            self.chart.props.update({"role": "img", "aria-label": word("chart.label", lang)})
            key = "chart.note" if shown == self.field.num_feasible else "chart.note_some"
            text(word(key, lang, count=f"{self.field.num_feasible:,}", shown=f"{shown:,}"), "muted small", "div")

    def _chip(self, name: str, position: int) -> None:
        shown = q.provider_text(name, self.page.state.lang)

        def toggle() -> None:
            self.hidden ^= {name}
            chip.props["aria-pressed"] = "false" if name in self.hidden else "true"
            kind = "legendUnSelect" if name in self.hidden else "legendSelect"
            self.chart.run_chart_method("dispatchAction", {"type": kind, "name": shown})

        chip = button("", toggle, "chip").mark(f"cloud-{name}")
        chip.props["aria-pressed"] = "true"
        with chip:
            box("span", f"swatch mark-{mark_of(position)}").style(f"background: var(--{colour_of(position)})")
            text(shown)

    async def _clicked(self, event: Any) -> None:
        if not isinstance(event.data, list) or len(event.data) != 3:
            return
        row = int(event.data[2])
        if event.series_name == word("chart.plans", self.page.state.lang):
            self.page.open(row)
            return
        if 0 <= row < len(self.field):
            server = f"{self.field.provider[row]}/{self.field.instance_type[row]}"
            await self.page.open_server(server, region=self.field.region[row], purchase=self.field.purchase[row])
