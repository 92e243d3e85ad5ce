"""Messages by key and fields, in both languages."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import urllib.error
from pathlib import Path

import pytest

from rightfit.errors import AmbiguousNameError, InputError, UnknownNameError
from rightfit.messages import Message, at_place, cause, contradiction, either, foreign, line_each, message, system_problem, without_place
from rightfit.messages.message import compiled, from_data, sentence


def test_a_message_is_put_into_words_of_each_language() -> None:
    message = Message("workload.sentence_too_long", count=5, most=3)
    assert str(message) == message.text("en") == "the sentence has 5 characters; 3 is the most"
    assert message.text("zh") == "句子有 5 个字符，最多 3 个"


def test_a_field_that_is_a_message_is_put_into_the_same_language() -> None:
    message = at_place("seed", Message("workload.empty", example=either(("1", "2", "3"))))
    assert str(message) == "seed: is empty; for example 1, 2 or 3"
    assert message.text("zh") == "seed：值为空，请写成例如 1, 2 或 3"
    assert at_place("seed", message) is message
    assert without_place(message, "seed") == message.fields["error"]
    assert without_place(message, "rate") is message


def test_several_are_a_line_each() -> None:
    told = line_each([Message("workload.all_at_once"), Message("workload.few_requests", count=0), "x"])
    assert str(told).splitlines()[1:] == ["0 requests; draw at least 1", "x"]
    assert len(told.text("zh").splitlines()) == 3 if isinstance(told, Message) else False


def test_a_contradiction_says_what_why_and_what_to_do() -> None:
    told = contradiction("trees", "7B", kind="model", why=Message("purposes.classical"), do=Message("contradictions.leave"))
    assert str(told).startswith("trees contradicts model 7B: it applies to classical machine learning")
    assert str(told).endswith("; leave it out")
    assert told.text("zh") == "trees 与模型 7B 矛盾：它只用于经典机器学习，如 xgboost 或 random-forest；请去掉这个选项。"


def test_a_message_is_a_value() -> None:
    message = Message("workload.few_requests", count=0)
    assert message == Message("workload.few_requests", count=0) != Message("workload.few_requests", count=1)
    assert pickle.loads(pickle.dumps(message)) == message
    assert len({message, Message("workload.few_requests", count=0)}) == 1
    with pytest.raises(AttributeError):
        message.key = "x"


def test_an_error_says_its_message() -> None:
    error = InputError(Message("workload.few_requests", count=0), field="count")
    assert (error.key, str(error)) == ("workload.few_requests", "0 requests; draw at least 1")
    assert error.text("zh") == "有 0 个请求，至少要抽取 1 个"
    assert (InputError("as it is").key, InputError("as it is").text("zh")) == ("", "as it is")


def test_names() -> None:
    error = UnknownNameError("model", "x" * 100, nearest=("a", "b", "c", "d"), allowed=Message("names.regions"))
    assert str(error) == f"unknown model {'x' * 77 + '...'!r}; see `rightfit catalog status` for regions; did you mean a, b, c?"
    assert error.text("zh").endswith("的模型。您是否想用：a、b、c？")
    assert str(AmbiguousNameError("model", "a", list("bcdefg"))) == "model 'a' is ambiguous; it could be b, c, d, e, f"


def test_what_the_system_and_other_programs_say() -> None:
    missing = OSError(2, "No such file or directory", "/nowhere")
    assert str(cause(missing)) == str(missing)
    assert str(system_problem(missing, lower=True)) == "no such file or directory"
    problem, inner = cause(missing), cause(urllib.error.URLError(ConnectionRefusedError(111, "Connection refused")))
    assert isinstance(problem, Message)
    assert problem.text("zh") == "'/nowhere' 没有这个文件或文件夹（错误码 2）"
    assert isinstance(inner, Message)
    assert inner.text("zh") == "连接被拒绝（错误码 111）"
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("[1,")
    assert str(cause(caught.value)) == str(caught.value)
    locked = cause(sqlite3.OperationalError("database is locked"))
    assert isinstance(locked, Message)
    assert locked.text("zh") == "数据库被占用"
    assert foreign("nobody says this") == "nobody says this"
    assert cause(InputError(Message("workload.all_at_once"))) == Message("workload.all_at_once")


def test_a_catalog_is_compiled_again_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "en" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    monkeypatch.setattr(message, "LOCALE", tmp_path)
    try:
        for second, text in enumerate(("one", "two")):
            (folder / "toy.po").write_text(f'{head}msgid "a"\nmsgstr "{text}"\n')
            os.utime(folder / "toy.po", (2e9 + 2 * second, 2e9 + 2 * second))
            message.catalog.cache_clear()
            assert sentence("toy.a", "en") == text
            os.utime(folder / "toy.mo", (2e9 + 2 * second + 1, 2e9 + 2 * second + 1))
        (folder / "toy.po").unlink()
        message.catalog.cache_clear()
        assert sentence("toy.a", "en") == "two"
        assert sentence("toy.b", "en") == "toy.b"
    finally:
        message.catalog.cache_clear()
    assert compiled(f'{head}msgid "a"\nmsgstr "b"\n'.encode()) == compiled(f'{head}msgid "a"\nmsgstr "b"\n'.encode())


@pytest.mark.parametrize(
    "place", [Path("a/b"), ValueError("odd"), (Message("facts.own_memory"), "b"), Message("facts.own_memory"), None, 0.5]
)
def test_a_message_crosses_a_process_as_json_whatever_it_holds(place: object) -> None:
    told = Message("others.no_module", module=place)
    back = from_data(json.loads(json.dumps(told.to_data())))
    assert isinstance(back, Message)
    assert [back.text(lang) for lang in ("en", "zh")] == [told.text(lang) for lang in ("en", "zh")]
