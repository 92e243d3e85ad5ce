"""What is wrong, as data and in two languages."""

from __future__ import annotations

import pytest

import rightfit
from rightfit.errors import AmbiguousNameError, InputError, MissingComponentError, NoAnswerError, RightfitError, UnknownNameError
from rightfit.explain.messages import code_of, json_bytes, plain, problems_of
from rightfit.messages import Message


def error_of(**wishes: object) -> RightfitError:
    with pytest.raises(RightfitError) as caught:
        rightfit.Workload(**wishes)
    return caught.value


def test_a_number_outside_its_limits() -> None:
    (problem,) = problems_of(error_of(model="7B", epochs=-1), "zh")
    assert (problem.code, problem.field, problem.allowed, problem.nearest) == ("quantity", "epochs", "0.001 至 100,000", ("0.001",))
    assert problem.message == "epochs：'-1' 不是正数，可用 0.001 至 100,000，最接近的是 0.001"
    assert (
        problems_of(error_of(model="7B", epochs=-1), "en")[0].message
        == "epochs: '-1' is not positive; allowed 0.001 to 100,000, nearest 0.001"
    )


def test_an_unknown_name() -> None:
    error = UnknownNameError("model", "Llama-9", nearest=("Llama-3", "Llama-2"), allowed="a name", field="model")
    (problem,) = problems_of(error, "zh")
    assert problem.message == "没有名为“Llama-9”的模型。您是否想用：Llama-3、Llama-2？"
    assert problem.to_dict() == {
        "key": "problems.unknown_name_allowed_near",
        "field": "model",
        "message": problem.message,
        "allowed": "a name",
        "nearest": ["Llama-3", "Llama-2"],
    }
    assert problems_of(AmbiguousNameError("model", "x", ["a", "b"]), "zh")[0].message == "模型“x”可能指多个：a、b。"


@pytest.mark.parametrize(
    ("name", "wishes"),
    [
        ("model", {"task": "train"}),
        ("cache_hits", {"model": "7B", "task": "serve", "users": 10, "cache_hits": 0.5}),
        ("adapter_rank", {"model": "7B", "task": "serve", "users": 10, "adapter_rank": 8}),
        ("think", {"model": "7B", "task": "serve", "think": "5s"}),
        ("percentile", {"model": "7B", "task": "serve", "users": 10, "percentile": 95}),
    ],
)
def test_a_question_back_is_asked_in_chinese_too(name: str, wishes: dict[str, object]) -> None:
    error = error_of(**wishes)
    asked = Message(f"questions.{name}")
    assert [problem.message for problem in problems_of(error, "en") if problem.field == name] == [f"{name}: {asked.text('en')}"]
    assert [problem.message for problem in problems_of(error, "zh") if problem.field == name] == [f"{name}：{asked.text('zh')}。"]


def test_several_problems_are_told_apart() -> None:
    problems = problems_of(error_of(model="7B", epochs=-1, deadline="soon", metod="x"), "en")
    assert [problem.field for problem in problems] == ["epochs", "deadline", "metod"]
    assert problems[2].nearest == ("method",)


@pytest.mark.parametrize(
    ("error", "code"), [(InputError("x"), "input"), (NoAnswerError("x"), "no_answer"), (MissingComponentError("x"), "unavailable")]
)
def test_codes(error: RightfitError, code: str) -> None:
    assert code_of(error) == code
    assert problems_of(error, "zh")[0].title


def test_json_holds_anything() -> None:
    assert plain({"a": float("nan"), 1: (2.0, float("inf"))}) == {"a": None, "1": [2, None]}
    assert json_bytes("\ud800 文") == '"\\ud800 文"'.encode()
