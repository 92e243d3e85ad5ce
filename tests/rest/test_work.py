"""Answers are worked out one at a time, the same question once, within their time, and kept within
a number of bytes."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.rest.conftest import API, client_of

from rightfit import reach
from rightfit.rest import Settings
from rightfit.rest import answers as rest_answers
from rightfit.rest.reading import Refused
from rightfit.rest.work import AnswerCache, Workshop, key_of

SETTINGS = Settings(page=False)


def test_the_least_recently_used_answer_makes_room() -> None:
    cache = AnswerCache(5000)
    for name in "abcd":
        cache.put(name, b"x" * 900)
    assert cache.get("a") is not None
    cache.put("e", b"x" * 900)
    assert [name for name in "abcde" if cache.get(name) is None] == ["b"]
    assert cache.size_bytes == 4 * 1100
    cache.put("f", b"x" * 1300)
    assert cache.get("f") is None
    cache.put("a", b"y")
    assert (cache.get("a"), len(cache)) == (b"y", 4)
    cache.clear()
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_keys_depend_on_everything_and_on_no_order() -> None:
    assert key_of("plan", {"a": 1, "b": 2}) == key_of("plan", {"b": 2, "a": 1})
    assert len({key_of("plan", {"a": 1}), key_of("why", {"a": 1}), key_of("plan", {"a": "1"}), key_of("plan", {"a": 1}, "zh")}) == 4


def test_the_same_question_at_the_same_time_is_worked_out_once() -> None:
    shop, asked = Workshop(SETTINGS), []

    def question() -> bytes:
        asked.append(threading.current_thread().name)
        time.sleep(0.05)
        return b"answer"

    async def ask() -> list[tuple[bytes, bool]]:
        return list(await asyncio.gather(*(shop.answer("key", question) for _ in range(5))))

    assert {found for found, _ in asyncio.run(ask())} == {b"answer"}
    assert len(asked) == 1
    assert asyncio.run(shop.answer("key", question)) == (b"answer", True)


def test_a_question_that_fails_is_asked_again() -> None:
    shop, asked = Workshop(SETTINGS), []

    def question() -> bytes:
        asked.append(1)
        if len(asked) == 1:
            raise ValueError("once")
        return b"answer"

    with pytest.raises(ValueError, match="once"):
        asyncio.run(shop.answer("key", question))
    assert asyncio.run(shop.answer("key", question)) == (b"answer", False)


def test_work_is_for_clients_and_happens_one_at_a_time() -> None:
    shop = Workshop(SETTINGS)
    at_once, most = 0, 0

    def question() -> bool:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        time.sleep(0.01)
        at_once -= 1
        return reach.is_closed()

    async def ask() -> list[bool]:
        return list(await asyncio.gather(*(shop.run(question) for _ in range(5))))

    assert asyncio.run(ask()) == [True] * 5
    assert most == 1
    assert not reach.is_closed()


def test_too_many_who_wait_are_sent_away() -> None:
    shop = Workshop(dataclasses.replace(SETTINGS, most_waiting=2))

    async def ask() -> list[object]:
        return list(await asyncio.gather(*(shop.run(lambda: time.sleep(0.05)) for _ in range(4)), return_exceptions=True))

    refused = [one for one in asyncio.run(ask()) if isinstance(one, Refused)]
    assert [one.code for one in refused] == ["busy", "busy"]
    assert refused[0].headers["Retry-After"]
    assert shop.waiting == 0


def test_an_endless_answer_is_given_up_and_the_next_one_does_not_wait_for_it() -> None:
    shop, end = Workshop(dataclasses.replace(SETTINGS, answer_s=0.1)), threading.Event()

    async def ask() -> tuple[str, int]:
        try:
            await shop.run(lambda: end.wait(20))
        except Refused as refused:
            return refused.code, await shop.run(lambda: 7)
        return "", 0

    began_s = time.perf_counter()
    assert asyncio.run(ask()) == ("too_long", 7)
    assert time.perf_counter() - began_s < 5
    end.set()


def test_who_comes_again_is_told_how_long_the_queue_is() -> None:
    shop = Workshop(dataclasses.replace(SETTINGS, most_waiting=64, patience_s=1.0))

    async def ask(number: int) -> list[object]:
        return list(await asyncio.gather(*(shop.run(lambda: time.sleep(0.1)) for _ in range(number)), return_exceptions=True))

    for _ in range(12):
        asyncio.run(ask(3))  # it learns that an answer takes a tenth of a second
    began_s = time.perf_counter()
    found = asyncio.run(ask(40))
    assert time.perf_counter() - began_s < 4  # instead of 40 tenths: nobody waits much longer than the patience
    refused = [one for one in found if isinstance(one, Refused)]
    assert {one.code for one in refused} == {"busy"}
    assert 4 <= len(found) - len(refused) <= 20
    assert {int(one.headers["Retry-After"]) for one in refused} <= {1, 2, 3}
    shop._usual_s = 2.0
    shop.waiting = 10
    assert shop.retry_s() == 20
    shop.waiting = 0


def test_who_waits_behind_an_endless_answer_gets_an_answer() -> None:
    shop, end = Workshop(dataclasses.replace(SETTINGS, answer_s=0.3)), threading.Event()

    async def ask() -> list[object]:
        questions = [lambda: end.wait(20), lambda: 1, lambda: 2, lambda: time.sleep(0.2) or 3]  # type: ignore[func-returns-value]
        return list(await asyncio.gather(*(shop.run(question) for question in questions), return_exceptions=True))

    first, *others = asyncio.run(ask())
    end.set()
    assert isinstance(first, Refused)
    assert others == [1, 2, 3]  # their own limit counts from the start of their own work
    assert shop.waiting == 0


def test_refreshed_prices_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from rightfit.rest import work

    shop = Workshop(SETTINGS)
    first = shop.market.catalog()
    version = shop.market.version
    monkeypatch.setattr(work, "_LOOK_AGAIN_S", 0.0)
    assert shop.market.catalog() is first
    shop.market.version = "older"
    assert shop.market.catalog() is not first
    assert shop.market.version == version


def test_a_large_body_is_read_beside_the_event_loop(plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of every route that takes one."""
    from rightfit.rest import reading

    threads: list[str] = []
    read = reading.json_of

    def noted(body: bytes, **more: Any) -> Any:
        threads.append(threading.current_thread().name)
        return read(body, **more)

    monkeypatch.setattr(reading, "json_of", noted)
    with client_of(Settings(page=False, database_url=f"sqlite:///{tmp_path / 'plans.sqlite'}")) as client:
        _post_large(client, plan)
    assert len(threads) == 3
    assert all(name.startswith("rightfit-reading") for name in threads)


def _post_large(client: Any, plan: dict[str, Any]) -> None:
    large = {**RUN, "warnings": ["word " * 100] * 100}
    for path, body in (
        ("runs", {"runs": [large]}),
        ("plans", {"plan": plan, "name": "x" * 100}),
        ("export", {"plan": plan, "to": "skypilot"}),
    ):
        assert client.post(f"{API}/{path}", json=body).status_code in (200, 201), path


RUN = {
    "kind": "run",
    "source": {"kind": "probe"},
    "setup": {"model": "7B"},
    "measured": [{"metric": "step_time_s", "value": 1.9, "unit": "s"}],
}


# ---- long questions: fleets have a place of their own, and end when nobody waits any more


def _slow_fleets(monkeypatch: pytest.MonkeyPatch, ended: list[float]) -> None:
    def slow(*_: Any, **__: Any) -> Any:
        try:
            while True:
                reach.go_on()
                time.sleep(0.01)
        finally:
            ended.append(time.monotonic())

    monkeypatch.setattr(rest_answers, "fleet", slow)  # by the module: tests of pages drop its name from sys.modules


def test_fleets_under_way_turn_nobody_else_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ended: list[float] = []
    _slow_fleets(monkeypatch, ended)
    statuses: list[int] = []
    with client_of(Settings(page=False, answer_s=1.0, patience_s=0.5, database_url=f"sqlite:///{tmp_path / 'plans.sqlite'}")) as client:

        def ask(number: int) -> None:
            statuses.append(client.post(f"{API}/fleet", json={"fleet": {"name": f"f{number}"}}).status_code)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        others = [client.get(f"{API}/{route}").status_code for route in ("targets", "datasets", "models?q=llama", "ready", "health")]
        for thread in threads:
            thread.join()
        began = time.monotonic()
        while len(ended) < 1 and time.monotonic() - began < 3.0:
            time.sleep(0.02)
    assert others == [200] * 5
    assert statuses == [503] * 6
    assert ended
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rightfit-work") and _is_busy(thread)]


def _is_busy(thread: threading.Thread) -> bool:
    """Whether it is at work after a second in which it could have ended."""
    import sys

    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        frame = sys._current_frames().get(thread.ident or 0)
        if frame is None or frame.f_code.co_name == "_worker":
            return False
        time.sleep(0.02)
    return True


def test_an_answer_that_nobody_waits_for_ends_itself() -> None:
    from rightfit.errors import OutOfTimeError
    from rightfit.fleets.planning import plan_fleet

    fleet = {"jobs": [{"name": "a", "workload": {"model": "7B", "method": "qlora", "data": "5Mtok"}}]}
    with reach.within(0.0), pytest.raises(OutOfTimeError):
        plan_fleet(fleet, processes=1)
    with reach.within(60.0), reach.within(100.0):
        assert reach.left_s() <= 60.0
    reach.go_on()
