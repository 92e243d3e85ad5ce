"""Servers, cards and one's own cards in a real browser: from the catalog to a server, to its card,
to the models that fit it; columns sorted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nicegui")
pytest.importorskip("axe_playwright_python")

from tests.faces.conftest import DESKTOP, PHONE

from rightfit.web.words import word


def sound(page: Any) -> list[str]:
    """What axe says of a page, and whether it is wider than the screen."""
    from axe_playwright_python.sync_playwright import Axe

    width, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    found = [found["id"] for found in Axe().run(page).response["violations"] if found["impact"] in ("serious", "critical")]
    return found + (["wider than the screen"] if width > room else [])


def prices(page: Any) -> list[float]:
    """The third column, as figures."""
    cells = page.eval_on_selector_all("tbody tr td:nth-child(3)", "found => found.map(one => one.innerText)")
    return [float(cell.lstrip("$").replace(",", "")) for cell in cells if cell]


@pytest.mark.parametrize(("lang", "size"), [("en", DESKTOP), ("zh", PHONE)])
def test_from_the_catalog_to_a_server_its_card_and_its_models(watched: Any, lang: str, size: dict[str, int]) -> None:
    page = watched(size=size).open("/catalog?gpu=A10G", lang, ready="tbody tr")
    page.get_by_role("link", name="g5.12xlarge", exact=True).first.click()
    page.wait_for_selector(".thing .button.quiet")
    assert "/server?name=aws%2Fg5.12xlarge" in page.url
    assert "Qwen/Qwen2.5-32B" in page.inner_text(".thing")
    assert sound(page) == []
    page.get_by_role("link", name=word("thing.card_page", lang, card="A10G")).click()  # type: ignore[arg-type]
    page.wait_for_selector(".thing .button.quiet")
    assert sound(page) == []
    page.get_by_role("link", name=word("fit.all", lang), exact=True).click()  # type: ignore[arg-type]
    page.wait_for_selector(".fits")
    assert page.locator(".fits tbody tr").count() > 10
    assert sound(page) == []
    page.go_back()
    page.wait_for_selector(".thing .lines")
    assert "/card?name=A10G" in page.url


def test_a_heading_sorts_keeps_its_focus_and_stands_in_the_address(watched: Any) -> None:
    page = watched().open("/catalog?gpu=H100", "en", ready="tbody tr")
    page.locator("[data-key=sort-price]").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("th[aria-sort=ascending] [data-key=sort-price]")
    assert prices(page) == sorted(prices(page))
    page.wait_for_function("document.activeElement.dataset.key === 'sort-price'")
    page.keyboard.press("Enter")
    page.wait_for_selector("th[aria-sort=descending] [data-key=sort-price]")
    dearest = prices(page)
    assert dearest == sorted(dearest, reverse=True)
    assert page.locator("th[aria-sort]").count() == 1
    assert "sort=price" in page.url
    assert "order=descending" in page.url
    page.reload()
    page.wait_for_selector("th[aria-sort=descending] [data-key=sort-price]")
    page.wait_for_selector("tbody tr")
    assert prices(page) == dearest
    assert sound(page) == []


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_my_cards_follow_every_field_by_enter_tab_and_choice(watched: Any, lang: str) -> None:
    page = watched().open("/fit", lang)
    card = page.get_by_label(word("fit.card", lang), exact=True)  # type: ignore[arg-type]
    card.fill("RTX-3090")
    page.get_by_role("option", name="RTX-3090", exact=True).click()
    page.wait_for_selector(".fits")
    assert "gpu=RTX-3090" in page.url
    fits = page.inner_text(".fits")
    count = page.get_by_label(word("fit.count", lang), exact=True)  # type: ignore[arg-type]
    for value, key in (("4", "Enter"), ("2", "Tab")):
        count.fill(value)
        count.press(key)
        page.wait_for_function(
            "before => { const now = document.querySelector('.fits'); return now && now.innerText !== before; }", arg=fits
        )
        page.wait_for_function("said => location.href.includes(said)", arg=f"count={value}")
        fits = page.inner_text(".fits")
    count.fill("0")
    count.press("Enter")
    page.wait_for_selector(".problem")
    assert word("fit.bad_count", lang, most=64) in page.inner_text(".problem")  # type: ignore[arg-type]


@pytest.mark.parametrize(("lang", "size"), [("zh", PHONE), ("en", DESKTOP)])
def test_a_newcomer_without_a_model_is_led_to_a_plan(watched: Any, lang: str, size: dict[str, int]) -> None:
    page = watched(size=size).open("/guide", lang)
    page.get_by_label(word("guide.kind", lang), exact=True).click()  # type: ignore[arg-type]
    page.get_by_role("option", name=word("guide.kind_images", lang), exact=True).click()  # type: ignore[arg-type]
    data = page.get_by_label(word("option.data", lang), exact=True)  # type: ignore[arg-type]
    data.fill("300GB")
    data.press("Tab")
    page.wait_for_selector(".step.holds")
    assert "data=300GB" in page.url
    assert "300 GB" in page.inner_text("main")
    assert page.locator(".guided .card").count() == 3
    heights = page.eval_on_selector_all(".guided .card", "found => found.map(one => one.getBoundingClientRect().height)")
    assert min(heights) > 200, "everything in a card has its own line"
    assert sound(page) == []
    page.get_by_role("link", name=word("measure.open_plan", lang)).first.click()  # type: ignore[arg-type]
    page.wait_for_selector(".card.open")
    assert "model=resnet50" in page.url


@pytest.mark.parametrize(("lang", "size"), [("zh", PHONE), ("en", DESKTOP)])
def test_a_price_book_is_chosen_typed_and_compared(watched: Any, lang: str, size: dict[str, int], tmp_path: Path) -> None:
    page = watched(size=size).open("/book", lang)
    page.get_by_role("button", name=word("book.submit", lang)).click()  # type: ignore[arg-type]
    page.wait_for_selector(".versus .card")
    assert page.locator(".versus .card").first.locator("h3").inner_text() == "rack-l40s"
    assert sound(page) == []
    mine = tmp_path / "mine.toml"
    mine.write_text('[[owned]]\nname = "our-4090"\ngpu = "RTX-4090"\ngpus = 8\nprice = 0.3\n')
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name=word("book.choose", lang)).click()  # type: ignore[arg-type]
    chooser.value.set_files(str(mine))
    page.wait_for_function("document.querySelector('.versus .card h3')?.innerText === 'our-4090'")
    data = page.get_by_label(word("option.data", lang), exact=True)  # type: ignore[arg-type]
    for value, key in (("70Mtok", "Enter"), ("90Mtok", "Tab")):
        before = page.inner_text(".versus .card .value")
        data.fill(value)
        data.press(key)
        page.wait_for_function("said => location.href.includes(said)", arg=value)
        page.wait_for_function(
            "before => { const now = document.querySelector('.versus .card .value'); return now && now.innerText !== before; }", arg=before
        )
