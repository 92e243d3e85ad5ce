"""Pages that no browser opens are dropped: soon, and at once where one address asks for many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nicegui", reason="the extra web is not installed")

from nicegui import Client

from rightfit.web import page


class Page:
    """What the framework keeps of a page that was asked for."""

    def __init__(self, address: str, created: float, *, opened: bool = False, lost: bool = False) -> None:
        self.ip, self.created, self.has_socket_connection = address, created, opened
        self._delete_tasks = {"document": None} if lost else {}  # a connection that was lost may come back

    def delete(self) -> None:
        Client.instances = {name: one for name, one in Client.instances.items() if one is not self}


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Any:
    def keep(*found: Any) -> None:
        monkeypatch.setattr(Client, "instances", {str(place): one for place, one in enumerate(found)})

    return keep


def test_an_address_keeps_so_many_unopened_pages_and_no_other_s(pages: Any) -> None:
    mine = [Page("1.1.1.1", created) for created in range(page.MOST_UNOPENED + 5)]
    others = [Page("2.2.2.2", 0), Page("1.1.1.1", 0, opened=True), Page("1.1.1.1", 0, lost=True)]
    pages(*mine, *others)
    page.admit(mine[-1])
    left = list(Client.instances.values())
    assert left == [*mine[5:], *others]


def test_a_page_of_nobody_s_is_no_fault(pages: Any) -> None:
    class Own(Page):
        @property
        def ip(self) -> str:
            raise RuntimeError("Request is not set")

        @ip.setter
        def ip(self, _: str) -> None: ...

    pages(Own("", 0), SimpleNamespace(ip="1.1.1.1", created=0, has_socket_connection=False))
    page.admit(Page("1.1.1.1", 1))
    assert len(Client.instances) == 2
