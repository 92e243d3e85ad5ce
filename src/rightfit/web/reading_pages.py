"""Pages to read: how accurate the figures are, rules of thumb, what this is."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from nicegui import ui

import rightfit
from rightfit.errors import RightfitError
from rightfit.explain.cards import memory_use, option_card
from rightfit.explain.messages import say
from rightfit.explain.rule_lookup import LONGEST_TEXT, headed, headline
from rightfit.explain.rules import all_rules, post_title
from rightfit.explain.sheets import Breakdown, choice_of, option_parts, plan_sheet
from rightfit.explain.voices import option_text, voice_of
from rightfit.messages import Lang
from rightfit.web.answers import Answers
from rightfit.web.cards import breakdown, compare_table, draw_card, draw_part, draw_parts
from rightfit.web.draw import box, button, heading, link, paragraph, text
from rightfit.web.forms import LONGEST_VALUE, PageState, clean
from rightfit.web.tabs import opened
from rightfit.web.words import option_name, problem_lines, word, words

if TYPE_CHECKING:
    from rightfit.market.verdicts import CheckResult
    from rightfit.search.answer import Plan


# ---- accuracy


@functools.cache
def published_tables() -> tuple[tuple[tuple[str, ...], ...], ...]:
    """The tables of the last `rightfit validate --write`, as rows of cells, the heading first."""
    text = resources.files("rightfit.web").joinpath("data", "accuracy.json").read_text(encoding="utf-8")
    return tuple(tuple(map(tuple, rows)) for rows in json.loads(text))


def accuracy(lang: Lang) -> None:
    """The page on accuracy."""
    heading(word("page.accuracy", lang), 1)
    paragraph(word("accuracy.intro", lang), "lead")
    for title, rows in zip(("errors", "intervals", "fits", "left"), published_tables(), strict=False):
        with box("section", "section"):
            heading(word(f"accuracy.{title}", lang), 2)
            _accuracy_table(rows, word(f"accuracy.{title}", lang), lang)


def _accuracy_table(rows: Sequence[Sequence[str]], title: str, lang: Lang) -> None:
    with box("div", "scroll") as around, box("table", "table"):
        around.props.update({"tabindex": "0", "role": "region", "aria-label": title})
        with box("thead"), box("tr"):
            for position, name in enumerate(rows[0]):
                text(said(name, lang), "number" if position else "", "th").props["scope"] = "col"
        with box("tbody"):
            for row in rows[1:]:
                with box("tr"):
                    for position, cell in enumerate(row):
                        text(said(cell, lang), "number" if position else "", "td")


def said(cell: str, lang: Lang) -> str:
    """A cell of the published page in the reader's language, piece by piece; figures and unknown
    words as they are."""
    if lang == "en":
        return cell
    known = words()["accuracy_word"]
    whole = known.get(_key(cell))
    return whole["zh"] if whole else "，".join(known[_key(part)]["zh"] if _key(part) in known else part for part in cell.split(", "))


def _key(text_: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text_.casefold()).strip("_")


# ---- rules of thumb


class Rules:
    """Rules of thumb by the post they stand in, each tried on its example when asked;
    and any other claim."""

    def __init__(self, answers: Answers, lang: Lang, claim: str = "") -> None:
        self.answers, self.lang, self.claim = answers, lang, clean(claim, LONGEST_VALUE)

    def draw(self, links: dict[str, Any]) -> None:
        """The page; a claim that stands in the address is checked at once."""
        lang = self.lang
        heading(word("page.rules", lang), 1)
        paragraph(word("rules.intro", lang), "lead")
        with box("section", "panel section"):
            heading(word("rules.check", lang), 3)
            with box("div", "sentence-row"):
                field = ui.textarea(word("rules.claim", lang), value=self.claim, placeholder="RAM >= 4x VRAM · g5.xlarge (1xT4)")
                field.props(f"outlined dense stack-label autogrow rows=1 maxlength={LONGEST_TEXT}").mark("claim")
                button(word("rules.ask", lang), lambda: ask(), "button primary").mark("claim-ask")
            place: Any = box("div", "gap")
            place.props["aria-live"] = "polite"

        async def ask() -> None:
            claim = (field.value or "").strip()[:LONGEST_TEXT]
            address = claim if len(claim) <= LONGEST_VALUE and "\n" not in claim else ""  # a pasted text is too long for one
            ui.navigate.history.replace(rules_address(lang, address))
            links["language"].props["href"] = rules_address("en" if lang == "zh" else "zh", address)
            await self._try(claim, place)

        field.on("keydown.enter.prevent", ask)
        if self.claim:
            ui.timer(0, ask, once=True)
        posts: dict[int, list[Any]] = {}
        for rule in all_rules().values():
            posts.setdefault(rule.post, []).append(rule)
        for post, rules in sorted(posts.items()):
            with box("section", "section"):
                title = post_title(post, lang)
                heading(f"{post + 1}. {title[:1].upper()}{title[1:]}", 2)
                for rule in rules:
                    self._rule(rule)

    def _rule(self, rule: Any) -> None:
        with box("div", "rule"):
            with box("div", "head tight"):
                paragraph(rule.statement[self.lang])
                trier = button(word("rules.try", self.lang), lambda: self._try(rule.id, place), "chip")
                trier.mark(f"rule-{rule.id}")
            place: Any = box("div")
            place.props["aria-live"] = "polite"

    async def _try(self, claim: str, place: Any) -> None:
        """What our figures say of a claim."""
        if not claim:
            return
        from rightfit import api

        catalog = self.answers.market.catalog()
        try:
            found = await self.answers.ask(("check", claim), lambda: api.check([claim], catalog=catalog))
            lines = [("" if len(found) == 1 else _headed(result, self.lang), _told(result, self.lang)) for result in found]
        except RightfitError as error:
            lines = [("", message) for _, message in problem_lines(error, self.lang)]
        if not place.is_deleted:
            place.clear()
            with place:
                for head, line in lines:
                    if head:
                        paragraph(head)
                    paragraph(line, "muted")


def _told(result: CheckResult, lang: Lang) -> str:
    told: str = result.to_dict(lang=lang)["explanation"]
    return told or say("rule_words.unknown", lang)


def _headed(result: CheckResult, lang: Lang) -> str:
    """What was stated, of several statements of one text, and the verdict."""
    return headed(result.query, headline(result, lang), lang)


def rules_address(lang: Lang, claim: str = "") -> str:
    """The permanent link of the rules, or of a claim that is checked."""
    return f"/rules?{urlencode({'claim': claim, 'lang': lang} if claim else {'lang': lang})}"


# ---- about


def about(lang: Lang) -> None:
    """What this is, where prices come from, what intervals and confidence mean."""
    heading(word("page.about", lang), 1)
    with box("div", "prose section"):
        for name in ("what", "prices", "intervals", "confidence", "privacy"):
            paragraph(word(f"about.{name}", lang))
        paragraph(word("about.version", lang, version=rightfit.__version__), "muted")


# ---- A plan as a report to print: everything on one page, nothing to click.


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
