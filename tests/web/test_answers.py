"""Answers are worked out once for all who ask the same, kept for a while, and forgotten when prices change."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from rightfit import reach
from rightfit.errors import InputError
from rightfit.web.answers import Answers, BusyError, InternalError
from rightfit.web.export_tab import zipped


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
