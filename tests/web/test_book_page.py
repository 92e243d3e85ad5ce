"""One's own prices on a page: typed or chosen, checked line by line, compared with list prices."""

from __future__ import annotations

from typing import Any

import pytest
from nicegui.testing import User
from tests.web.conftest import one, sees, settled, texts, until

from rightfit.errors import FileInputError
from rightfit.explain.messages import label
from rightfit.web.fleet_page import example_book, read_book, said
from rightfit.web.words import word

LANGS = ["en", "zh"]


@pytest.mark.parametrize("lang", LANGS)
def test_the_best_plan_at_one_s_own_prices_stands_beside_that_of_list_prices(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/book?lang={lang}")
        user.find(marker="book-submit").click()
        await settled(user, "card-1")
        await sees(user, word("book.with", lang), "rack-l40s", word("book.without", lang))  # type: ignore[arg-type]
        shown = texts(user)
        assert {label("book", "discount", lang), label("book", "tax", lang)} <= set(shown)  # type: ignore[arg-type]
        assert "provider aws · purchase on-demand · percent 30" in shown
        money = [float(text.lstrip("$")) for text in shown if text.startswith("$") and " " not in text]
        assert money[0] < money[len(money) // 2], "its own servers are cheaper"
        user.find(marker="field-data").clear().type("200Mtok").trigger("keydown.enter")
        await until(lambda: [text for text in texts(user) if text.startswith("$")] != [text for text in shown if text.startswith("$")])

    visit(steps)


@pytest.mark.parametrize("lang", LANGS)
def test_every_mistake_of_a_book_is_told_with_its_line(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/book?lang={lang}")
        await settled(user, "book-file")
        one(user, "book-file").value = '[[discount]]\nprovider = "awss"\npercent = 30\n[[tax]]\npercent = 300\n'
        user.find(marker="book-submit").click()
        await until(lambda: any("aws" in text for text in texts(user) if text.startswith(("Line 2", "第 2 行"))))
        assert any(text.startswith(("Line 5", "第 5 行")) for text in texts(user))
        one(user, "book-file").value = '[[discount]]\nprovider = "aws"\ngpu = "Ascend-910B"\npercent = 30\n'
        user.find(marker="book-submit").click()
        await until(lambda: any("no price in the catalog matches" in text for text in texts(user)))

    visit(steps)


def test_both_forms_of_a_book_are_read() -> None:
    assert len(read_book(example_book("zh")).entries) == len(read_book(example_book("en")).entries) == 3
    table = read_book("entry,provider,purchase,percent\ndiscount,aws,on-demand,30\n")
    assert [type(entry).__name__ for entry in table.entries] == ["Discount"]
    with pytest.raises(FileInputError, match="not TOML"):
        read_book("entry = \x00")
    assert read_book("").entries == ()


def test_a_problem_is_told_by_its_line() -> None:
    assert said("book:7: discount.percent: is missing", "zh") == "第 7 行：discount.percent: is missing"
    assert said("book: currency: unknown currency 'x'", "en") == "currency: unknown currency 'x'"
