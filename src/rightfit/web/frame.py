"""What every page has around its content: header, languages, light and dark, footer."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

from nicegui import ui
from starlette.requests import Request

from rightfit.explain.messages import Lang
from rightfit.units import SECONDS_PER_YEAR
from rightfit.web.draw import box, button, link, text
from rightfit.web.visitors import admit
from rightfit.web.words import word

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
    """The language of a visitor: that of the address, of the cookie, of the browser, else English."""
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
    """Draw the surroundings of a page; the content goes inside. `other`: the address of this page in the other language. Gives the links
    that move
    with the state of the page."""
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
        with box("main", "width main") as main:
            main.props["id"] = "content"
            yield found
        with box("footer", "foot"), box("div", "width"):
            text(word("page.footer", lang))


def _only_main(client: Any) -> None:
    """The page of the framework around ours is a box: the one `main` is where the content is."""
    around = client.content.parent_slot.parent if client.content.parent_slot else None
    if around is not None and around.tag == "q-page":
        around.tag = "div"


def _other(page: str, lang: Lang) -> str:
    return f"{PAGES.get(page, '/')}?lang={'en' if lang == 'zh' else 'zh'}"


def _toggle_theme() -> None:
    """The other of light and dark, kept in a cookie; the page is drawn anew so that charts follow. The text is ours alone."""
    ui.run_javascript(
        f"document.cookie = '{THEME_COOKIE}=' + (document.body.classList.contains('body--dark') ? 'light' : 'dark')"
        f" + '; path=/; max-age={SECONDS_PER_YEAR:.0f}; samesite=lax'; location.reload();"
    )
