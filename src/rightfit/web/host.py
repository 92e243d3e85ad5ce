"""What the parts of the plan page need of the page that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rightfit.web.answers import Answers
    from rightfit.web.state import PageState


class PlanHost(Protocol):
    """A page with a question in its address and an answer below it."""

    state: PageState
    answers: Answers

    async def say(self, sentence: str) -> None: ...
    async def plan_again(self, sentence: str) -> None: ...
    async def change(self, name: str, value: str) -> None: ...
    async def wish(self, wishes: Mapping[str, str]) -> None: ...
    async def open_server(self, server: str, *, region: str = "", purchase: str = "") -> None: ...
