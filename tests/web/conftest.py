"""Pages visited without a browser: NiceGUI's simulated user on the real application."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

pytest.importorskip("nicegui", reason="the extra web is not installed")

from nicegui.testing import User, user_simulation

from rightfit.rest.work import ServedMarket
from rightfit.web.answers import Answers
from rightfit.web.page import add_pages

MARKET = ServedMarket()
KEPT: OrderedDict[tuple[Any, ...], Any] = OrderedDict()  # answers are pure: what one test asked another need not wait for
PATIENCE = 80  # tenths of a second


@contextlib.asynccontextmanager
async def visitor(answers: Answers | None = None) -> AsyncIterator[User]:
    """Someone at the pages."""
    found = answers or Answers(market=MARKET, most_kept=10_000, _kept=KEPT)
    gc.freeze()  # NiceGUI collects garbage at each visit, which goes over all that tests before made
    async with user_simulation() as user:
        add_pages(found)
        yield user
    found.close()


@pytest.fixture
def visit() -> Callable[[Callable[[User], Coroutine[Any, Any, None]]], None]:
    """Run a visit: `visit(steps)` with steps(user)."""

    def run(steps: Callable[[User], Coroutine[Any, Any, None]], answers: Answers | None = None) -> None:
        async def whole() -> None:
            async with visitor(answers) as user:
                await steps(user)

        asyncio.run(whole())

    return run


async def sees(user: User, *texts: str) -> None:
    """All of these are on the page, soon."""
    for text in texts:
        await user.should_see(text, retries=PATIENCE)


async def settled(user: User, marker: str) -> None:
    """An element with this mark is on the page, soon."""
    await user.should_see(marker=marker, retries=PATIENCE)


async def until(holds: Callable[[], bool]) -> None:
    """Something holds, soon."""
    for _ in range(PATIENCE):
        if holds():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it never came")


def texts(user: User) -> list[str]:
    """Everything that the page says as text."""
    from nicegui import ElementFilter
    from nicegui.elements.mixins.text_element import TextElement

    with user:
        return [element.text for element in ElementFilter(kind=TextElement)]


def one(user: User, marker: str) -> Any:
    """The element with a mark."""
    (found,) = user.find(marker=marker).elements
    return found
