"""Answers are worked out once for all who ask the same, kept for a while, and forgotten
when prices change."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from rightfit import reach
from rightfit.errors import InputError
from rightfit.web.answers import Answers, BusyError, InternalError
from rightfit.web.tabs import zipped


def _ask(answers: Answers, *works: tuple[str, Any]) -> list[Any]:
    async def whole() -> list[Any]:
        found = await asyncio.gather(*(answers.ask((key,), work) for key, work in works), return_exceptions=True)
        answers.close()
        return list(found)

    return asyncio.run(whole())


def test_the_same_question_is_worked_out_once() -> None:
    calls: list[int] = []
    answers = Answers()
    assert _ask(answers, *[("same", lambda: calls.append(1) or len(calls))] * 20) == [1] * 20
    assert _ask(answers, ("same", lambda: 99)) == [1]


def test_only_so_many_answers_are_kept() -> None:
    answers = Answers(most_kept=2)
    for name in ("a", "b", "c"):
        _ask(answers, (name, lambda name=name: name))
    assert _ask(answers, ("a", lambda: "again"), ("c", lambda: "again")) == ["again", "c"]


def test_refreshed_prices_give_other_answers() -> None:
    answers = Answers()
    assert _ask(answers, ("price", lambda: 1)) == [1]
    answers.market.version = "tomorrow"
    assert _ask(answers, ("price", lambda: 2)) == [2]


def test_work_is_done_out_of_reach_of_files_and_beside_the_loop() -> None:
    here = threading.get_ident()
    assert _ask(Answers(), ("where", lambda: (reach.is_closed(), threading.get_ident() != here))) == [(True, True)]


def test_who_waits_too_long_is_told_and_a_full_queue_too() -> None:
    gate = threading.Event()
    (found,) = _ask(Answers(answer_s=0.05), ("slow", lambda: gate.wait(0.5)))
    assert isinstance(found, BusyError)
    found = _ask(Answers(most_waiting=2), *[(str(n), lambda: gate.wait(0.2)) for n in range(3)])
    assert [isinstance(one, BusyError) for one in found] == [False, False, True]


def test_the_limit_counts_from_the_start_of_the_work_and_not_in_the_queue() -> None:
    """One thread, four answers of 0.15 s with a limit of 0.3 s each: the last waits longer than its
    limit, and is answered."""
    slow = [(str(number), lambda number=number: time.sleep(0.15) or number) for number in range(4)]
    assert _ask(Answers(threads=1, answer_s=0.3), *slow) == [0, 1, 2, 3]


def test_who_would_wait_too_long_is_sent_away_at_once_with_a_time() -> None:
    gate = threading.Event()
    answers = Answers(threads=1, patience_s=2.0, _usual_s=0.5)

    async def all_at_once() -> list[Any]:
        began = time.perf_counter()
        every = [asyncio.ensure_future(answers.ask((str(number),), lambda: gate.wait(5))) for number in range(7)]
        await asyncio.sleep(0.1)
        refused = [one.exception() for one in every if one.done()]
        assert time.perf_counter() - began < 1
        gate.set()
        return [refused, await asyncio.gather(*every, return_exceptions=True)]

    refused, ended = asyncio.run(all_at_once())
    assert [isinstance(one, BusyError) for one in ended] == [False] * 5 + [True] * 2  # five of half a second are past two seconds
    assert [one.retry_s for one in refused] == [3, 3]
    answers.close()


def test_failures_of_ours_become_a_number_and_those_of_the_visitor_stay(caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> None:
        raise InputError("no", field="data")

    ours, theirs = _ask(Answers(), ("ours", lambda: 1 / 0), ("theirs", refuse))
    assert isinstance(ours, InternalError)
    assert "division" not in str(ours)
    assert ours.number in caplog.text
    assert isinstance(theirs, InputError)
    assert theirs.field == "data"


def test_a_bundle_is_a_whole_archive_and_always_the_same() -> None:
    import io
    import zipfile

    files = {"a/task.yaml": "name: x\n", "README.md": "读我\n"}
    assert zipped(files) == zipped(files)
    with zipfile.ZipFile(io.BytesIO(zipped(files))) as archive:
        assert {name: archive.read(name).decode() for name in archive.namelist()} == files
