"""A page for each server and each card, and the page that says which models fit one's cards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from nicegui import ui

from rightfit import lookup
from rightfit.errors import InputError, RightfitError
from rightfit.explain.fits import fit_parts
from rightfit.explain.messages import Lang
from rightfit.explain.places import priced_places
from rightfit.explain.tables import Table
from rightfit.explain.things import Thing, card_thing, known_cards, server_thing
from rightfit.web.addresses import card_address, catalog_links, fit_address, plan_address, server_address
from rightfit.web.draw import Links, box, bullets, button, heading, link, pair, paragraph, table
from rightfit.web.moves import MOVES, draw_moves, moves_of
from rightfit.web.state import LONGEST_VALUE, clean
from rightfit.web.tabs import draw_owed
from rightfit.web.words import problem_lines, word
from rightfit.web.world import world_map

if TYPE_CHECKING:
    from rightfit.planner.fit import Fit
    from rightfit.web.answers import Answers

MOST_CARDS = 64
TASKS = ("", "serve", "finetune")


# ---- one server, one card


class ThingPage:
    """One visitor's look at a server or a card: figures at once, models that fit as soon as they are worked out."""

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
    from rightfit.planner.fit import fits_of
    from rightfit.search.own_machine import Machine

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
