"""The pages on a FastAPI application. `mount` adds them; everything they load comes from this server."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from fastapi import FastAPI
from nicegui import Client, ui
from starlette.requests import Request

from rightfit.web import reading_pages, visitors
from rightfit.web.answers import Answers
from rightfit.web.book_page import BookPage
from rightfit.web.catalog_page import CatalogState, CatalogView
from rightfit.web.fleet_page import FleetPage
from rightfit.web.frame import dark_of, frame, lang_of
from rightfit.web.guide_page import GuidePage, GuideState
from rightfit.web.measure_page import MeasurePage
from rightfit.web.plan_page import PlanPage
from rightfit.web.report_page import Report
from rightfit.web.state import LONGEST_VALUE, PageState, clean
from rightfit.web.things import FitPage, ThingPage
from rightfit.web.words import word

if TYPE_CHECKING:
    from rightfit.rest.settings import Settings


def mount(app: FastAPI, settings: Settings) -> Answers:
    """Add the pages to an application; gives where their answers are worked out. Call it once, after all other routes: the pages lie at the
    root."""
    answers = Answers(most_waiting=settings.most_waiting, answer_s=settings.answer_s)
    add_pages(answers)
    ui.run_with(app, title="rightfit", favicon=ICON, dark=None, tailwind=False, show_welcome_message=False, reconnect_timeout=30.0)
    visitors.watch()
    return answers


ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0d5a6c"/>'
    '<path d="M8 22V10h3v12zm7 0v-8h3v8zm7 0V6h3v16z" fill="#fff"/></svg>'
)


def add_pages(answers: Answers) -> None:
    """Register every page."""

    async def plan(request: Request, client: Client) -> None:
        state = PageState.from_query(request.query_params, lang=lang_of(request))
        other = dataclasses.replace(state, lang="en" if state.lang == "zh" else "zh").address()
        with frame("plan", state.lang, dark=dark_of(request), title=word("page.plan", state.lang), other=other) as links:
            PlanPage(state, answers, client).draw(links)

    async def report(request: Request) -> None:
        state = PageState.from_query(request.query_params, lang=lang_of(request))
        other = dataclasses.replace(state, lang="en" if state.lang == "zh" else "zh").address("/report")
        with frame("report", state.lang, dark=dark_of(request), title=word("report.heading", state.lang), other=other):
            Report(state, answers).draw()

    async def measure(request: Request, client: Client) -> None:
        state = PageState.from_query(request.query_params, lang=lang_of(request))
        other = dataclasses.replace(state, lang="en" if state.lang == "zh" else "zh").address("/measure")
        with frame("measure", state.lang, dark=dark_of(request), title=word("page.measure", state.lang), other=other) as links:
            MeasurePage(state, answers, client, links).draw()

    async def fleet(request: Request, client: Client) -> None:
        lang = lang_of(request)
        with frame("fleet", lang, dark=dark_of(request), title=word("page.fleet", lang)):
            FleetPage(lang, answers, client).draw()

    async def catalog(request: Request) -> None:
        state = CatalogState.from_query(request.query_params, lang=lang_of(request))
        with frame("catalog", state.lang, dark=dark_of(request), title=word("page.catalog", state.lang)) as links:
            CatalogView(state, answers, links).draw()

    async def accuracy(request: Request) -> None:
        lang = lang_of(request)
        with frame("accuracy", lang, dark=dark_of(request), title=word("page.accuracy", lang)):
            reading_pages.accuracy(lang)

    async def rules(request: Request) -> None:
        lang = lang_of(request)
        claim = request.query_params.get("claim", "")
        other = reading_pages.rules_address("en" if lang == "zh" else "zh", claim)
        with frame("rules", lang, dark=dark_of(request), title=word("page.rules", lang), other=other) as links:
            reading_pages.Rules(answers, lang, claim).draw(links)

    async def about(request: Request) -> None:
        lang = lang_of(request)
        with frame("about", lang, dark=dark_of(request), title=word("page.about", lang)):
            reading_pages.about(lang)

    async def thing(request: Request, kind: str) -> None:
        lang, name = lang_of(request), clean(request.query_params.get("name", ""), LONGEST_VALUE)
        other = f"/{kind}?{urlencode({'name': name, 'lang': 'en' if lang == 'zh' else 'zh'})}"
        with frame("catalog", lang, dark=dark_of(request), title=name or word(f"page.{kind}", lang), other=other):
            ThingPage(kind, name, answers, lang).draw()

    async def server(request: Request) -> None:
        await thing(request, "server")

    async def card(request: Request) -> None:
        await thing(request, "card")

    async def fit(request: Request) -> None:
        lang = lang_of(request)
        with frame("fit", lang, dark=dark_of(request), title=word("page.fit", lang)) as links:
            FitPage(request.query_params, answers, lang, links).draw()

    async def guide(request: Request, client: Client) -> None:
        state = GuideState.from_query(request.query_params, lang=lang_of(request))
        other = state.address("en" if state.lang == "zh" else "zh")
        with frame("guide", state.lang, dark=dark_of(request), title=word("page.guide", state.lang), other=other) as links:
            GuidePage(state, answers, client, links).draw()

    async def book(request: Request, client: Client) -> None:
        state = PageState.from_query(request.query_params, lang=lang_of(request))
        other = dataclasses.replace(state, lang="en" if state.lang == "zh" else "zh").address("/book")
        with frame("book", state.lang, dark=dark_of(request), title=word("page.book", state.lang), other=other) as links:
            BookPage(state, answers, client, links).draw()

    pages = {
        "/": plan,
        "/report": report,
        "/measure": measure,
        "/fleet": fleet,
        "/guide": guide,
        "/fit": fit,
        "/book": book,
        "/catalog": catalog,
        "/server": server,
        "/card": card,
        "/accuracy": accuracy,
        "/rules": rules,
        "/about": about,
    }
    for path, page in pages.items():
        ui.page(path)(page)
