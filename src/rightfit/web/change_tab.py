"""What would change the plan: advice, and knobs that re-plan while they are turned."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nicegui import ui

from rightfit.errors import RightfitError
from rightfit.explain.cards import option_card
from rightfit.explain.knobs import Knob, knobs
from rightfit.explain.messages import Lang
from rightfit.explain.sheets import plan_sheet
from rightfit.web.details import draw_parts, named
from rightfit.web.draw import box, button, heading, pair, paragraph, text
from rightfit.web.words import option_name, problem_lines, word

if TYPE_CHECKING:
    from rightfit.search.answer import Option, Plan
    from rightfit.web.host import PlanHost

PAUSE_S = 0.25


def change_tab(page: PlanHost, plan: Plan, option: Option) -> None:
    """Advice, then the knobs."""
    lang = page.state.lang
    draw_parts(named(plan_sheet(plan, lang), "advice", "faster"), lang)
    found = knobs(plan)
    if not found:
        paragraph(word("tab.no_knobs", lang), "muted")
        return
    with box("section", "part"):
        heading(word("tab.knobs", lang), 3)
        Board(page, plan, found).draw()


class Board:
    """The knobs of one plan and the plan that they lead to. Nothing is kept until the visitor says so."""

    def __init__(self, page: PlanHost, plan: Plan, knobs: tuple[Knob, ...]) -> None:
        self.page, self.plan, self.knobs = page, plan, knobs
        self.turned: dict[str, str] = {}
        self.turn = 0
        self.sliders: dict[str, Any] = {}
        self.shown: dict[str, Any] = {}
        self.after: Any = None

    def draw(self) -> None:
        """Sliders, then the best plan now and then."""
        lang = self.page.state.lang
        with box("div", "knobs"):
            for knob in self.knobs:
                self._knob(knob, lang)
        with box("div", "versus"):
            with box("div", "panel"):
                text(word("tab.now", lang), "muted small")
                _best(self.plan, lang)
            self.after = box("div", "panel")
            self.after.props["aria-live"] = "polite"
        with box("div", "head gap"), box("div", "actions"):
            button(word("tab.apply", lang), self._apply, "button primary").mark("knobs-apply")
            button(word("tab.reset", lang), self._reset).mark("knobs-reset")
        self._same()

    def _knob(self, knob: Knob, lang: Lang) -> None:
        name = option_name(knob.option, lang)
        with box("div", "knob"):
            with box("div", "top-line"):
                text(name)
                self.shown[knob.option] = text(self._value_text(knob, knob.at), "value")
            slider = ui.slider(min=0, max=len(knob.values) - 1, step=1, value=knob.at).props("snap markers").mark(f"knob-{knob.option}")
            slider.props.update({"aria-label": name, "aria-valuetext": self._value_text(knob, knob.at)})
            slider.on_value_change(lambda event: self._turned(knob, int(event.value)))
            self.sliders[knob.option] = slider

    def _value_text(self, knob: Knob, index: int) -> str:
        return knob.values[index] or word("tab.no_limit", self.page.state.lang)

    async def _turned(self, knob: Knob, index: int) -> None:
        if self.after.is_deleted:
            return  # the visitor has turned to another tab meanwhile
        self.shown[knob.option].text = self.sliders[knob.option].props["aria-valuetext"] = self._value_text(knob, index)
        self.turned = {name: value for name, value in self.turned.items() if name != knob.option}
        if index != knob.at:
            self.turned[knob.option] = knob.values[index]
        self.turn += 1
        turn = self.turn
        await asyncio.sleep(PAUSE_S)
        if turn == self.turn and not self.after.is_deleted:
            await self._replan(turn)

    async def _replan(self, turn: int) -> None:
        if not self.turned:
            self._same()
            return
        lang, said, found = self.page.state.lang, "", None
        self.after.classes("stale")
        try:
            found = await self.page.answers.plan(self.wishes())
        except RightfitError as error:
            said = problem_lines(error, lang)[0][1]
        if turn != self.turn or self.after.is_deleted:
            return
        self.after.classes(remove="stale")
        self.after.clear()
        with self.after:
            text(word("tab.then", lang), "muted small")
            if found is None:
                paragraph(said)
            else:
                _best(found, lang)

    def wishes(self) -> Mapping[str, str]:
        """The wishes of the page with what was turned."""
        changed = {**self.page.state.wishes, **self.turned}
        return {name: value for name, value in changed.items() if value}

    def _same(self) -> None:
        self.after.clear()
        with self.after:
            text(word("tab.then", self.page.state.lang), "muted small")
            paragraph(word("tab.same", self.page.state.lang), "muted")

    def _reset(self) -> None:
        for knob in self.knobs:
            self.sliders[knob.option].value = knob.at

    async def _apply(self) -> None:
        if self.turned:
            await self.page.wish(self.wishes())


def _best(plan: Plan, lang: Lang) -> None:
    """The best option in four lines."""
    if plan.best is None:
        heading(word("result.none", lang), 3)
        return
    card = option_card(plan.best, plan.workload, lang)
    heading(card.server, 3)
    text(f"{card.hardware} · {card.provider} · {card.place} · {card.purchase}", "muted small", "div")
    with box("dl", "figures gap"):
        for fact in (card.money, card.time):
            pair(fact.label, fact.value, fact.detail, "figure")
