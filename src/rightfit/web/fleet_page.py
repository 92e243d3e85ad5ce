"""A fleet on a page: the file is typed or pasted, the plan shows its calendar, its purchase list and where everything runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nicegui import Client, ui

from rightfit.errors import InputError, RightfitError
from rightfit.explain.fleet_chart import calendar_svg
from rightfit.explain.fleet_text import (
    assumption_lines,
    buy_lines,
    considered_lines,
    future_lines,
    head_lines,
    limit_lines,
    placement_table,
    scenario_lines,
    shared_lines,
    unplaced_lines,
)
from rightfit.explain.messages import Lang
from rightfit.messages import Message
from rightfit.web.answers import Answers
from rightfit.web.draw import box, bullets, button, heading, paragraph, table
from rightfit.web.words import problem_lines, text_of, word

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
    """What is typed, as the keys of a fleet. InputError for what is no YAML, or more than a page plans."""
    from rightfit.fleet.sources import from_text, lines_of

    values = from_text("fleet", source)
    lines = lines_of(values)
    if lines > MOST_LINES:
        raise InputError(Message("faces.too_many_lines", lines=lines, most=MOST_LINES), field="fleet", allowed=f"at most {MOST_LINES}")
    return values


def _planned(values: Mapping[str, Any], catalog: Any, futures: int) -> dict[str, Any]:
    from rightfit import api

    return api.fleet(values, catalog=catalog, seconds=SECONDS, processes=1, futures=futures).to_dict()
