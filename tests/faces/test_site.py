"""The documentation site: builds in both languages without a warning (so every link leads
somewhere), and asks nothing of other hosts."""

from __future__ import annotations

import functools
import http.server
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

pytest.importorskip("sphinx")
pytest.importorskip("furo")
pytest.importorskip("myst_parser")

ROOT = Path(__file__).parents[2]
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
NOT_LOADED = {"canonical", "prev", "next", "index", "search", "author"}


class Page(HTMLParser):
    """What a page loads, where it links to, and what can be linked to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found["id"]} if "id" in found else set()
        if tag in LOADED and LOADED[tag] in found and not NOT_LOADED & set(found.get("rel", "").split()):
            self.loads.append(found[LOADED[tag]])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. A warning of Sphinx fails the build."""
    out = tmp_path_factory.mktemp("site")
    result = subprocess.run([sys.executable, ROOT / "scripts/build_site.py", out], capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stderr[-4000:]
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Every page of both languages."""
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_both_languages_have_the_same_pages(site: Path, pages: dict[Path, Page]) -> None:
    addresses = {lang: {path.relative_to(site / lang) for path in pages if (site / lang) in path.parents} for lang in ("en", "zh")}
    assert addresses["en"] == addresses["zh"]
    assert len(addresses["en"]) > 80


def test_nothing_is_loaded_from_other_hosts(site: Path, pages: dict[Path, Page]) -> None:
    outside = {(path.name, address) for path, page in pages.items() for address in page.loads if re.match(r"(https?:)?//", address)}
    assert outside == set()
    for sheet in site.rglob("*.css"):
        assert re.findall(r"""(?:url\(|@import)\s*['"]?(?:https?:)?//""", sheet.read_text(encoding="utf-8")) == []


def test_every_link_within_the_site_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            target, _, anchor = unquote(link).partition("#")
            file = (path.parent / target).resolve() if target else path.resolve()
            if not file.exists() or (anchor and file in pages and anchor not in pages[file].ids):
                wrong.append((str(path.relative_to(site)), link))
    assert wrong == []


def test_a_reader_can_switch_language_on_every_page(site: Path, pages: dict[Path, Page]) -> None:
    for lang, other in (("en", "zh"), ("zh", "en")):
        page = site / lang / "docs/tutorial.html"
        assert any((page.parent / link).resolve() == site / other / "docs/tutorial.html" for link in pages[page].links)


def test_pages_without_a_twin_say_so_and_twins_do_not(site: Path) -> None:
    note = "本页暂无中文版"
    assert note in (site / "zh/docs/concepts/search.html").read_text(encoding="utf-8")
    for name in ("tutorial", "faq", "comparison", "scenarios"):
        text = (site / f"zh/docs/{name}.html").read_text(encoding="utf-8")
        assert note not in text
        assert '<html class="no-js" lang="zh-CN"' in text or 'lang="zh' in text
    assert note not in (site / "en/docs/concepts/search.html").read_text(encoding="utf-8")


def test_links_and_contents_as_the_site_has_them(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import build_site
    finally:
        sys.path.pop(0)
    (tmp_path / "docs").mkdir()
    text = "[a](docs/) [b](README.md) [c](docs/x.zh.md#y) `[d](README.md)` [`g h`](z.zh.md) [e](https://example.org/README.md)\n```text\n[f](README.md)\n```\n"
    found = build_site.linked(text, Path("page.md"), stage=tmp_path, lang="zh")
    assert found == text.replace("[b](README.md)", "[b](index.md)").replace("x.zh.md", "x.md").replace("z.zh.md", "z.md")
    contents = build_site.contents(["docs/tutorial", "docs/tasks/vision", "docs/new", "CHANGELOG"], lang="en")
    assert contents.index("docs/tutorial") < contents.index("docs/new") < contents.index("docs/tasks/vision") < contents.index("CHANGELOG")


# ---- In a browser: the search finds, and no line of code is cut.

FOUND = {
    "en": {"install": "docs/tutorial.html", "batch size": "docs/faq.html", "spot": "docs/concepts/purchase/spot.html"},
    "zh": {"安装": "docs/tutorial.html", "批大小": "docs/faq.html", "竞价": "docs/concepts/purchase/spot.html", "install": ""},
}
#: Results that a reader looks at.
SEEN = 8


@pytest.fixture(scope="module")
def home(site: Path) -> Iterator[str]:
    """The site as a server gives it."""
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Files, without a line for each."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.parametrize("lang", FOUND)
def test_the_search_finds_what_readers_look_for(browser: Any, home: str, lang: str) -> None:
    page = browser.new_page()
    for words, wanted in FOUND[lang].items():
        page.goto(f"{home}/{lang}/search.html?q={quote(words)}")
        page.wait_for_selector("#search-results li > a")
        page.wait_for_function("!document.querySelector('#search-progress')?.textContent")
        links = page.eval_on_selector_all("#search-results li > a", "found => found.map(one => one.getAttribute('href').split(/[?#]/)[0])")
        assert not wanted or wanted in links[:SEEN], f"{words}: {links[:SEEN]}"
    page.close()


def test_no_line_of_code_is_cut_on_a_small_desktop(browser: Any, home: str, site: Path, pages: dict[Path, Page]) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    cut = []
    for path in sorted(pages):
        if path.parent == site or ("reference" in path.parts and path.stem != "python"):
            continue  # the front door leads on to a language
        page.goto(f"{home}/{path.relative_to(site)}", wait_until="domcontentloaded")
        if page.evaluate("[...document.querySelectorAll('pre')].some(one => one.scrollWidth > one.clientWidth + 1)"):
            cut.append(path.relative_to(site).as_posix())
    page.close()
    assert cut == []
