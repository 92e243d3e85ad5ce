"""Whether memory runs out is whether a job fits, the other way round: asked or stated, in both
languages, of a card or of so many GB."""

from __future__ import annotations

import pytest

from rightfit.explain.fit_questions import asked_to_fit
from rightfit.explain.questions import question_lookup
from rightfit.explain.yes_or_no import answer_word
from rightfit.market import open_catalog
from rightfit.market.check import check

PAIRS = [
    ("13B全参数微调在4090上放得下吗", "13B全参数微调在4090上会爆显存吗", "会"),
    ("13B全参数微调在4090上放得下吗", "13B全参数微调在4090上会不会OOM", "会"),
    ("7B LoRA 24GB够吗", "7B LoRA 24GB会爆显存吗", "不会"),
    ("7B QLoRA在一张A10上放得下吗", "7B QLoRA在一张A10上会爆显存吗", "不会"),
    ("Does full fine-tuning of 13B fit on a 4090?", "Will full fine-tuning of 13B run out of memory on a 4090?", "yes"),
    ("Does LoRA of 7B fit on an A100?", "Will I run out of memory with LoRA of 7B on an A100?", "no"),
]


@pytest.mark.parametrize(("fits", "overflows", "word"), PAIRS)
def test_a_question_of_memory_running_out_is_the_other_answer(fits: str, overflows: str, word: str) -> None:
    catalog = open_catalog()
    room, short = question_lookup(fits, catalog), question_lookup(overflows, catalog)
    assert room is not None
    assert short is not None
    assert {room.claim, short.claim} == {"right", "wrong"}
    lang = "zh" if word in ("会", "不会") else "en"
    assert answer_word(overflows, str(short.facts.get("answer") or short.claim), lang) == word


@pytest.mark.parametrize(
    ("said", "claim"),
    [
        ("13B全参数微调在一张4090上会爆显存", "right"),
        ("13B全参数微调在一张4090上不会爆显存", "wrong"),
        ("7B QLoRA在24G显卡上会爆显存", "wrong"),
        ("7B QLoRA在24G显卡上不会爆显存", "right"),
        ("13B full fine-tuning runs out of memory on a 4090", "right"),
        ("13B full fine-tuning does not run out of memory on a 4090", "wrong"),
        ("LoRA of 7B won't run out of memory on an A100", "right"),
    ],
)
def test_a_statement_of_memory_running_out_and_its_denial(said: str, claim: str) -> None:
    from rightfit.explain.rule_lookup import rule_lookup

    assert check([said], rule=rule_lookup)[0].claim == claim


@pytest.mark.parametrize("said", ["爆显存怎么办", "CUDA out of memory怎么解决", "what to do about OOM"])
def test_a_symptom_without_a_job_stays_one(said: str) -> None:
    found = question_lookup(said, open_catalog())
    assert found is not None
    assert found.kind == "term"


def test_other_questions_are_left() -> None:
    assert not asked_to_fit("13B 需要多少显存")
    assert not asked_to_fit("What does 13B need?")


@pytest.mark.parametrize(
    ("said", "claim"),
    [
        ("A100速度和T4差不多", "wrong"),
        ("A100和T4性能一样吗", "wrong"),
        ("H100和H100速度差不多吗", "right"),
        ("Is an A100 about as fast as a T4?", "wrong"),
        ("T4 and A100 are equally fast", "wrong"),
        ("Is an A10 as fast as an A10?", "right"),
    ],
)
def test_cards_that_are_said_to_be_as_fast(said: str, claim: str) -> None:
    catalog = open_catalog()
    found = question_lookup(said, catalog)
    assert found is not None
    assert found.claim == claim
    assert found.facts["arithmetic"] > 0
