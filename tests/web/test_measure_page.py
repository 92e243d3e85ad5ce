"""The guided path: question, trial, record, advice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from nicegui.testing import User
from tests.web.conftest import one, sees, settled, texts, until

from rightfit.errors import RightfitError
from rightfit.explain.messages import say
from rightfit.web import measure_page
from rightfit.web.measure_page import MOST_RECORDS, records_of
from rightfit.web.words import word

QUESTION = "/measure?model=meta-llama/Meta-Llama-3-8B&task=finetune&method=lora&data=2000Mtok&cloud=aws&purchase=on-demand"
LANGS = ["en", "zh"]


def record(step_s: float, wait: float = 0.0) -> dict[str, Any]:
    measured = [{"metric": "step_time_s", "value": step_s, "unit": "s", "n": 60}]
    measured += [{"metric": "data_wait_share", "value": wait, "unit": "share"}] if wait else []
    setup = {
        "model": "meta-llama/Meta-Llama-3-8B",
        "method": "lora",
        "gpu": "A100-SXM-80GB",
        "n_gpus": "1",
        "micro_batch": "4",
        "seq_len": "1024",
    }
    return {"kind": "run", "source": {"kind": "probe"}, "setup": setup, "measured": measured}


async def give(user: User, content: bytes, name: str = "run.json") -> None:
    """A file from the visitor's machine."""
    from nicegui.elements.upload_files import SmallFileUpload

    with user:
        await one(user, "records").handle_uploads([SmallFileUpload(name, "application/json", content)])


@pytest.mark.parametrize("lang", LANGS)
def test_from_the_question_to_the_advice(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{QUESTION}&lang={lang}")
        await settled(user, "plan-json")
        await sees(user, word("measure.advice_none", lang))  # type: ignore[arg-type]
        assert any("rightfit launch plan.json --trial" in text for text in texts(user))
        await give(user, json.dumps(record(2.4, wait=0.45)).encode())
        bound = say("measure.bound_input", lang)  # type: ignore[arg-type]
        await sees(user, say("measure.verdict_change", lang, bottleneck=bound))  # type: ignore[arg-type]
        await give(user, json.dumps(record(1.9)).encode())
        first, second = (records_of(json.dumps(found).encode(), "x")[0].id for found in (record(2.4, wait=0.45), record(1.9)))
        await settled(user, f"forget-{second}")
        user.find(marker=f"forget-{first}").click()
        test, stop = (say(f"measure.verdict_{name}", lang) for name in ("test", "stop"))  # type: ignore[arg-type]
        await until(lambda: {test, stop} & set(texts(user)) != set())
        said = say("measure.by_runs", lang)  # type: ignore[arg-type]
        assert any("aws/" in text and said in text for text in texts(user))

    visit(steps)


def test_the_question_can_be_changed_and_leads_to_the_plan(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{QUESTION}&lang=en")
        await settled(user, "plan-json")
        user.find(marker="field-data").clear().type("31Mtok").trigger("keydown.enter")
        await until(lambda: any("--data 31" in text for text in texts(user)))

    visit(steps)


@pytest.mark.parametrize("lang", LANGS)
def test_nothing_asked_and_wishes_that_cannot_be(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/measure?lang={lang}")
        await sees(user, word("measure.trial_none", lang), word("measure.advice_none", lang))  # type: ignore[arg-type]
        await user.open(f"/measure?model=Lama-3-9Z&data=5Mtok&lang={lang}")
        await sees(user, "Lama-3-9Z")
        await user.open(f"/measure?model=Llama-3-8B&method=full&data=5Mtok&gpu=T4&max_nodes=1&deadline=1h&lang={lang}")
        await sees(user, word("measure.no_trial", lang))  # type: ignore[arg-type]

    visit(steps)


def test_files_that_are_no_record_are_said(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{QUESTION}&lang=en")
        await settled(user, "plan-json")
        await give(user, b"\xff\x00 no json", "picture.png")
        await until(lambda: any("picture.png" in message for message in user.notify.messages))
        await sees(user, word("measure.advice_none", "en"))

    visit(steps)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"null", b'{"items": []}', b"[[[[", b"[" * 100_000, b'{"kind": "run"}', b'[{"kind": "run"}, 3]']
)
def test_what_is_no_record_is_one_error(content: bytes) -> None:
    with pytest.raises(RightfitError) as caught:
        records_of(content, "file.json")
    assert "\n" not in str(caught.value)


def test_a_list_of_records_is_cut() -> None:
    many = [record(1.0 + number / 100) for number in range(MOST_RECORDS + 5)]
    assert len(records_of(json.dumps({"items": many}).encode(), "runs.json")) == MOST_RECORDS


def test_a_file_is_read_beside_the_event_loop(visit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one visitor's record is read, the server answers all others."""
    import threading

    threads = []

    def noted(content: bytes, name: str) -> Any:
        threads.append(threading.current_thread())
        return records_of(content, name)

    monkeypatch.setattr(measure_page, "records_of", noted)

    async def steps(user: User) -> None:
        await user.open(f"{QUESTION}&lang=en")
        await settled(user, "plan-json")
        await give(user, json.dumps(record(2.4)).encode())
        await until(lambda: bool(threads))

    visit(steps)
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("lang", LANGS)
def test_what_the_server_does_not_take_is_said(visit: Any, lang: str) -> None:
    """The page allows what the server takes, and no more."""
    from rightfit.rest.settings import Settings
    from rightfit.web.answers import Answers

    assert Answers().most_upload_bytes == Settings().most_body_bytes

    async def steps(user: User) -> None:
        await user.open(f"{QUESTION}&lang={lang}")
        await settled(user, "plan-json")
        upload = one(user, "records")
        assert upload.props["max-file-size"] < Settings().most_body_bytes
        with user:
            for listener in [one for one in upload._event_listeners.values() if one.type == "failed"]:
                upload._handle_event({"listener_id": listener.id, "args": None})
        await until(lambda: word("measure.not_sent", lang) in user.notify.messages)  # type: ignore[arg-type]

    visit(steps)


@pytest.mark.parametrize(
    "more",
    [
        {"measured": record(1.0)["measured"] * 30_000},
        {"warnings": ["word " * 10] * 30_000},
        {"warnings": ["word " * 300_000]},
        {"command": "python " + "a b=c --d e " * 150_000},
        {"setup": {str(number): "x" * 50 for number in range(30_000)}},
    ],
    ids=["figures", "warnings", "one warning", "command", "setup"],
)
def test_a_record_that_is_far_too_large_is_refused_at_once(more: dict[str, Any]) -> None:
    import time

    content = json.dumps({**record(1.0), **more}).encode()
    began = time.process_time()
    with pytest.raises(RightfitError):
        records_of(content, "run.json")
    assert time.process_time() - began < 1.0
