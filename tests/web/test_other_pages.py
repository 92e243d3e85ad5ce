"""Catalog, accuracy, rules of thumb, about, report."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from nicegui.testing import User
from tests.web.conftest import one, sees, settled, texts, until

from rightfit.explain.messages import label
from rightfit.web.reading_pages import published_tables, said
from rightfit.web.words import word, words

LANGS = ["en", "zh"]


def shown_prices(user: User) -> list[float]:
    """The prices on the page, from the first line down."""
    lines = [row.default_slot.children for row in user_rows(user)]
    return [float(cells[1].text.lstrip("$").replace(",", "")) for cells in lines]


def user_rows(user: User) -> list[Any]:
    """The lines of the table on the page."""
    from nicegui import ElementFilter

    with user:
        return [row for body in ElementFilter() if body.tag == "tbody" for row in body.default_slot.children]


async def other_prices(user: User, before: list[float]) -> list[float]:
    """The prices on the page as soon as they are others."""
    for _ in range(80):
        await asyncio.sleep(0.1)
        if (found := shown_prices(user)) and found != before:
            return found
    raise AssertionError("the prices stay the same")


@pytest.mark.parametrize("lang", LANGS)
def test_the_catalog_filters_sorts_and_pages(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/catalog?kind=prices&gpu=H100&lang={lang}")
        await settled(user, "pager-next")
        first = texts(user)
        assert any("707" not in text and "25" in text for text in first)
        assert all("A100" not in text for text in first if "H100" in text)
        prices = shown_prices(user)
        assert prices == sorted(prices)
        assert len(prices) == 25
        user.find(marker="pager-next").click()
        later = await other_prices(user, prices)
        assert later[0] >= prices[-1]
        user.find(marker="sort-price").click()
        dearest = await other_prices(user, later)
        assert dearest == sorted(dearest, reverse=True)
        assert dearest[0] > later[-1]

    visit(steps)


@pytest.mark.parametrize("lang", LANGS)
def test_every_kind_of_the_catalog_is_listed(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/catalog?lang={lang}")
        await settled(user, "pager-next")
        for kind, name in {"accelerators": "A100-SXM-80GB", "servers": "num_accelerators", "models": "family"}.items():
            user.find(marker=f"kind-{kind}").click()
            await until(lambda kind=kind: one(user, f"kind-{kind}").props["aria-selected"] == "true")
            await sees(user, name if kind == "accelerators" else label("column", name, lang))

    visit(steps)


def test_an_unknown_name_in_the_catalog_is_a_line(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open("/catalog?kind=prices&region=atlantis&lang=en")
        await sees(user, "atlantis")

    visit(steps)


def test_a_search_without_result_says_so(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open("/catalog?query=zzzzzz&lang=zh")
        await sees(user, word("catalog.nothing", "zh"))

    visit(steps)


def test_the_accuracy_page_shows_the_published_tables(visit: Any) -> None:
    tables = published_tables()
    assert len(tables) >= 2
    assert len(tables[0]) > 20

    async def steps(user: User) -> None:
        await user.open("/accuracy?lang=en")
        shown = texts(user)
        for row in (*tables[0], *tables[1]):
            assert all(cell in shown for cell in row)

    visit(steps)


def test_every_word_of_the_published_tables_is_known_in_chinese() -> None:
    unknown = {
        part
        for table in published_tables()
        for row in table
        for cell in row
        for part in [cell]
        if re.search(r"[A-Za-z]", re.sub(r"P90|GPU|CPU|token", "", said(cell, "zh")))
    }
    assert unknown == set()


@pytest.mark.parametrize("lang", LANGS)
def test_rules_are_tried_on_their_examples(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/rules?lang={lang}")
        before = len(texts(user))
        user.find(marker="rule-ram_4x_vram").click()
        for _ in range(80):
            await asyncio.sleep(0.1)
            if len(texts(user)) > before:
                break
        assert len(texts(user)) > before

    visit(steps)


def test_any_claim_can_be_checked(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open("/rules?lang=en")
        user.find(marker="claim").type("g5.xlarge=T4")
        user.find(marker="claim-ask").click()
        await sees(user, "A10G")

    visit(steps)


@pytest.mark.parametrize("lang", LANGS)
def test_every_page_is_whole_in_both_languages(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        for page in ("/about", "/accuracy", "/rules", "/catalog", "/", "/report?model=7B&data=1Mtok"):
            await user.open(f"{page}{'&' if '?' in page else '?'}lang={lang}")
            names = (word(f"page.{name}", lang) for name in ("plan", "catalog", "accuracy", "rules", "about"))
            await sees(user, word("page.footer", lang), *names)

    visit(steps)


def test_the_browser_s_language_decides_where_nothing_else_does(visit: Any) -> None:
    async def steps(user: User) -> None:
        user.http_client.headers["accept-language"] = "zh-CN,zh;q=0.9,en;q=0.5"
        await user.open("/about")
        await sees(user, words()["page"]["footer"]["zh"])

    visit(steps)


@pytest.mark.parametrize("lang", LANGS)
def test_the_report_holds_the_whole_plan(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/report?model=Llama-3-8B&task=finetune&method=lora&data=50k+samples&compare=1,2&lang={lang}")
        await settled(user, "card-1")
        await sees(user, word("tab.compare", lang))
        headings = {
            "en": ("Why and how", "Assumed", "Refused", "Full bill", "Rules of thumb"),
            "zh": ("理由与依据", "默认假设", "被排除的", "完整账单", "经验法则"),
        }
        shown = texts(user)
        assert all(any(text.startswith(title) for text in shown) for title in headings[lang])
        await user.should_not_see(marker="open-1")

    visit(steps)
