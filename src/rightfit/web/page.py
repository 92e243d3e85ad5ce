"""The pages on a FastAPI application. `mount` adds them; everything they load
comes from this server."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fastapi import FastAPI
from nicegui import Client, app, ui
from starlette.requests import Request

from rightfit.messages import Lang
from rightfit.units import SECONDS_PER_YEAR
from rightfit.web import reading_pages
from rightfit.web.answers import Answers
from rightfit.web.catalog_pages import CatalogState, CatalogView, FitPage, ThingPage
from rightfit.web.draw import box, button, link, text
from rightfit.web.fleet_page import BookPage, FleetPage
from rightfit.web.forms import LONGEST_VALUE, PageState, clean
from rightfit.web.guide_page import GuidePage, GuideState
from rightfit.web.measure_page import MeasurePage
from rightfit.web.plan_page import PlanPage
from rightfit.web.reading_pages import Report
from rightfit.web.words import word

if TYPE_CHECKING:
    from rightfit.rest.settings import Settings


# ---- Pages that were asked for and never opened: a program that only reads the HTML leaves a
# page's state behind on the server. It is dropped soon, and one address cannot pile it up.

#: How long a browser may take to open the connection of a page [s], how often that is looked at
#: [s], and how many pages of one address may wait for it.
OPENS_WITHIN_S = 10.0
LOOK_EVERY_S = 2.0
MOST_UNOPENED = 30


def watch() -> None:
    """Drop pages that nobody opened in time, for as long as the server runs."""
    app.timer(LOOK_EVERY_S, lambda: Client.prune_instances(client_age_threshold=OPENS_WITHIN_S))


def admit(client: Client) -> None:
    """Take in a page, and drop the oldest unopened ones of its address where there are too many."""
    address = _address(client)
    waiting = [one for one in Client.instances.values() if _is_unopened(one) and one is not client and _address(one) == address]
    for one in sorted(waiting, key=lambda one: one.created)[: max(len(waiting) + 1 - MOST_UNOPENED, 0)]:
        one.delete()


def _is_unopened(client: Client) -> bool:
    """Whether nobody opened it. A page whose connection was lost has a time to come back, after
    which the framework drops it."""
    return not client.has_socket_connection and not getattr(client, "_delete_tasks", None)


def _address(client: Client) -> str:
    try:
        return str(client.ip)
    except RuntimeError:  # a page of the program itself, which nobody asked for
        return ""


# ---- What every page has around its content: header, languages, light and dark, footer.

PAGES = {
    "plan": "/",
    "guide": "/guide",
    "measure": "/measure",
    "fleet": "/fleet",
    "fit": "/fit",
    "book": "/book",
    "catalog": "/catalog",
    "accuracy": "/accuracy",
    "rules": "/rules",
    "about": "/about",
}
THEME_COOKIE, LANG_COOKIE = "rightfit_theme", "rightfit_lang"


@functools.cache
def style() -> str:
    """The style sheet of the page."""
    return resources.files("rightfit.web").joinpath("data", "style.css").read_text(encoding="utf-8")


@functools.cache
def script() -> str:
    """What every page does in the browser."""
    return resources.files("rightfit.web").joinpath("data", "browser.js").read_text(encoding="utf-8")


def lang_of(request: Request) -> Lang:
    """The language of a visitor: that of the address, of the cookie, of the
    browser, else English."""
    for said in (request.query_params.get("lang", ""), request.cookies.get(LANG_COOKIE, "")):
        if said in ("en", "zh"):
            return "zh" if said == "zh" else "en"
    for part in request.headers.get("accept-language", "")[:200].split(","):
        code = part.split(";")[0].strip().casefold()
        if code.startswith(("zh", "en")):
            return "zh" if code.startswith("zh") else "en"
    return "en"


def dark_of(request: Request) -> bool | None:
    """Dark, light, or as the system has it."""
    return {"dark": True, "light": False}.get(request.cookies.get(THEME_COOKIE, ""))


@contextmanager
def frame(page: str, lang: Lang, *, dark: bool | None, title: str = "", other: str = "") -> Iterator[dict[str, Any]]:
    """Draw the surroundings of a page; the content goes inside. `other`: the address of this page
    in the other language. Gives the links that move with the state of the page."""
    admit(ui.context.client)
    ui.add_head_html(f"<style>{style()}</style>")
    ui.add_head_html(f"<script>document.documentElement.lang = {json.dumps('zh-CN' if lang == 'zh' else 'en')};</script>")
    ui.add_head_html(f"<script>{script()}</script>")
    _only_main(ui.context.client)
    ui.page_title(f"{title} · rightfit" if title else "rightfit")
    ui.dark_mode(dark)
    found: dict[str, Any] = {}
    with box("div", "sheet"):
        link(word("page.skip", lang), "#content", "skip")
        with box("header", "top"), box("div", "width bar"):
            link("rightfit", f"/?lang={lang}", "mark")
            with box("nav", "nav") as nav:
                nav.props["aria-label"] = word("page.menu", lang)
                for name, path in PAGES.items():
                    link(word(f"page.{name}", lang), f"{path}?lang={lang}", current=name == page)
            with box("div", "tools"):
                found["language"] = link(word("page.other_language", lang), other or _other(page, lang), "tool")
                found["language"].props["aria-label"] = word("page.other_language_label", lang)
                found["language"].props["lang"] = "en" if lang == "zh" else "zh-CN"
                button("◐", _toggle_theme, "tool", label_text=word("page.theme", lang))
                menu = button("☰", None, "tool menu", label_text=word("page.menu", lang), in_browser=_TOGGLE_MENU)
                menu.props["aria-expanded"] = "false"
        with box("main", "width main") as main:
            main.props["id"] = "content"
            yield found
        with box("footer", "foot"), box("div", "width"):
            text(word("page.footer", lang))


#: On a phone the pages are behind a button: the answer needs the room.
_TOGGLE_MENU = "(event) => event.currentTarget.setAttribute('aria-expanded', document.querySelector('.nav').classList.toggle('shown'))"


def _only_main(client: Any) -> None:
    """The page of the framework around ours is a box: the one `main` is where the content is."""
    around = client.content.parent_slot.parent if client.content.parent_slot else None
    if around is not None and around.tag == "q-page":
        around.tag = "div"


def _other(page: str, lang: Lang) -> str:
    return f"{PAGES.get(page, '/')}?lang={'en' if lang == 'zh' else 'zh'}"


def _toggle_theme() -> None:
    """The other of light and dark, kept in a cookie; the page is drawn anew so that charts follow.
    The text is ours alone."""
    ui.run_javascript(
        f"document.cookie = '{THEME_COOKIE}=' + (document.body.classList.contains('body--dark') ? 'light' : 'dark')"
        f" + '; path=/; max-age={SECONDS_PER_YEAR:.0f}; samesite=lax'; location.reload();"
    )


def mount(app: FastAPI, settings: Settings) -> Answers:
    """Add the pages to an application; gives where their answers are worked out. Call it once,
    after all other routes: the pages lie at the root."""
    answers = Answers(most_waiting=settings.most_waiting, answer_s=settings.answer_s, most_upload_bytes=settings.most_body_bytes)
    add_pages(answers)
    ui.run_with(app, title="rightfit", favicon=ICON, dark=None, tailwind=False, show_welcome_message=False, reconnect_timeout=30.0)
    watch()
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
