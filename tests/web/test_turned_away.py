"""A visitor who turns to another tab, or goes, while something is worked out: what comes too late
is thrown away and writes on nothing."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest
from nicegui.testing import User
from tests.web.conftest import KEPT, MARKET, settled, until

from rightfit.web.answers import Answers

PLAN = "/?model=Llama-3-8B&task=finetune&method=lora&data=50k+samples&cloud=aws&lang=en"


class Held(Answers):
    """Answers of one kind that wait until the visitor has turned away."""

    kind = ""
    gate: threading.Event

    async def ask(self, key: tuple[Any, ...], work: Any) -> Any:
        """As ever, but held up where it is of the kind."""
        if key[0] != self.kind:
            return await super().ask(key, work)
        self.asked += 1
        return await super().ask((*key, "held"), lambda: self.gate.wait(20) and work())


@pytest.mark.parametrize("tab", ["export", "scale", "regions"])
def test_a_tab_that_was_left_is_not_drawn_on(visit: Any, tab: str, caplog: pytest.LogCaptureFixture) -> None:
    held = Held(market=MARKET, most_kept=10_000, _kept=KEPT)
    held.kind, held.gate, held.asked = {"export": "export", "scale": "scaling", "regions": "moves"}[tab], threading.Event(), 0

    async def steps(user: User) -> None:
        from nicegui import helpers

        helpers.warnings.reset()
        await user.open(PLAN)
        await settled(user, f"tab-{tab}")
        user.find(marker=f"tab-{tab}").click()
        await until(lambda: held.asked > 0)
        user.find(marker="tab-why").click()
        await settled(user, "tab-why")
        held.gate.set()
        await until(lambda: not held._running)
        await asyncio.sleep(0.5)  # whoever waited for the answer goes on

    with caplog.at_level(logging.WARNING):
        visit(steps, held)
    assert [line for line in caplog.messages if "deleted" in line] == []


def test_a_knob_that_was_turned_and_left_is_not_drawn_on(visit: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def steps(user: User) -> None:
        from nicegui import ElementFilter, helpers, ui

        helpers.warnings.reset()  # it is said once in the life of a process
        await user.open(PLAN)
        await settled(user, "tab-change")
        user.find(marker="tab-change").click()
        await settled(user, "knobs-apply")
        with user:
            slider = next(iter(ElementFilter(kind=ui.slider)))
        slider.value = 0 if slider.value else 1
        user.find(marker="tab-why").click()
        await asyncio.sleep(1.0)

    with caplog.at_level(logging.WARNING):
        visit(steps)
    assert [line for line in caplog.messages if "deleted" in line] == []
