"""A wish without a model is answered by typical ones, or by questions with defaults; a question
that only a plan answers is answered by `check` too."""

from __future__ import annotations

import pytest

from rightfit import api
from rightfit.explain.open_wishes import open_wish, vague_wish
from rightfit.explain.questions import question_lookup
from rightfit.planner.plan import default_catalog


@pytest.mark.parametrize(
    "sentence", ["训练一个医疗模型", "我想做AI,租什么服务器", "train a medical model", "I want to build a classifier, which server"]
)
def test_a_vague_wish_gets_three_questions_with_defaults(sentence: str) -> None:
    found = vague_wish(sentence, default_catalog())
    assert found is not None
    for told in (found.explanation_en, found.explanation_zh):
        assert [line[:2] for line in told.splitlines()[1:4]] == ["1.", "2.", "3."]
        assert all(f"`{command}`" in told for command in found.facts["commands"])
    assert len(found.facts["commands"]) == 3


@pytest.mark.parametrize("sentence", ["今天天气怎么样", "hello", "微调 Llama-3-8B", "训练 GPT-7 turbo ultra", "H100 现在多少钱"])
def test_what_is_no_vague_wish_gets_none(sentence: str) -> None:
    assert vague_wish(sentence, default_catalog()) is None


def test_the_kind_of_data_names_the_models() -> None:
    found = open_wish("想做一个法律问答模型", default_catalog())
    assert found is not None
    assert "Qwen2.5-7B-Instruct" in found.explanation_zh


@pytest.mark.parametrize(
    "sentence", ["微调Llama-3-8B需要多少内存", "LoRA微调Qwen2.5-7B要几张卡", "how much RAM does LoRA of a 7B model need?"]
)
def test_check_answers_a_question_about_a_job(sentence: str) -> None:
    (found,) = api.check(sentence)
    assert found.claim is None
    assert "`rightfit plan " in found.explanation_zh
    assert question_lookup(sentence, default_catalog()) is None


@pytest.mark.parametrize("sentence", ["CPU 跑 7B int4 行不行", "Can I run Llama-3-8B on CPU only?", "没有显卡能跑 Qwen2.5-7B 吗"])
def test_a_cpu_serves_one_user(sentence: str) -> None:
    found = question_lookup(sentence, default_catalog())
    assert found is not None
    assert found.claim == "right"
    assert "tokens per second" in found.explanation_en
