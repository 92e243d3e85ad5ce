"""A plan as a report to print: everything on one page, nothing to click."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicegui import ui

from rightfit.errors import RightfitError
from rightfit.explain.cards import memory_use, option_card
from rightfit.explain.sheets import Breakdown, choice_of, option_parts, plan_sheet
from rightfit.explain.voices import option_text, voice_of
from rightfit.web.answers import Answers
from rightfit.web.cards import compare_table, draw_card
from rightfit.web.details import breakdown, draw_part, draw_parts
from rightfit.web.draw import box, button, heading, link, paragraph
from rightfit.web.state import PageState
from rightfit.web.tabs import opened
from rightfit.web.words import option_name, problem_lines, word

if TYPE_CHECKING:
    from rightfit.search.answer import Plan


class Report:
    """The report of one state."""

    def __init__(self, state: PageState, answers: Answers) -> None:
        self.state, self.answers = state, answers
        self.body: Any = None

    def draw(self) -> None:
        """What was asked; the answer follows."""
        state, lang = self.state, self.state.lang
        with box("div", "head"):
            heading(word("report.heading", lang), 1)
            with box("div", "actions"):
                button(word("report.print", lang), lambda: ui.run_javascript("window.print()"), "button primary")
                link(word("report.back", lang), state.address(), "button")
        if state.ask:
            paragraph(f"“{state.ask}”", "lead")
        paragraph(" · ".join(f"{option_name(name, lang)}: {value}" for name, value in state.wishes.items()), "muted")
        self.body = box("div", "report")
        with self.body:
            paragraph(word("result.working", lang), "busy")
        ui.timer(0, self.answer, once=True)

    async def answer(self) -> None:
        """The whole plan."""
        lang, wishes = self.state.lang, self.state.wishes
        try:
            plan = await self.answers.plan(wishes)
            catalog = self.answers.market.catalog()
            sheet = await self.answers.ask(
                ("sheet", lang, tuple(sorted(wishes.items()))), lambda: plan_sheet(plan, lang, everything=True, catalog=catalog)
            )
        except RightfitError as error:
            if self.body.is_deleted:
                return
            self.body.clear()
            with self.body, box("div", "problem"):
                for _, message in problem_lines(error, lang):
                    paragraph(message)
            return
        if not self.body.is_deleted:
            self.body.clear()
            with self.body:
                self._draw(plan, sheet)

    def _draw(self, plan: Plan, sheet: tuple[Any, ...]) -> None:
        lang = self.state.lang
        cards = [option_card(option, plan.workload, lang) for option in plan.options]
        if cards:
            with box("section", "section"):
                heading(word("result.heading", lang), 2)
                with box("div", "cards"):
                    for card in cards[:3]:
                        draw_card(card, lang, is_open=False, compared=False, on_open=None, on_compare=None)
        compared = [card for card in cards if card.rank in self.state.compare]
        if len(compared) > 1:
            with box("section", "section"):
                heading(word("tab.compare", lang), 2)
                compare_table(compared, lang)
        option = opened(plan, self.state.option)
        if option is not None and option is not plan.best:
            said = option_text(option, plan.workload, lang)
            with box("section", "section"):
                draw_part(choice_of(said), lang)
                draw_parts(option_parts(said, voice_of(plan), lang, currency=plan.workload.currency), lang)
        with box("section", "section"):
            for part in sheet:
                if isinstance(part, Breakdown) and part.name == "memory" and plan.best is not None:
                    with box("section", "part"):
                        breakdown(part, lang, room=memory_use(plan.best))
                else:
                    draw_part(part, lang)
