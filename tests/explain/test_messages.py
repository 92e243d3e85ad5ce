"""The catalogue is complete: every message in both languages, with the same fields."""

from __future__ import annotations

import pytest

from rightfit.explain.messages import TOPICS, fields_of, join, say, sentences, spaced, topic

MESSAGES = [(name, key) for name in TOPICS for key in topic(name)]


@pytest.mark.parametrize(("name", "key"), MESSAGES)
def test_every_message_has_both_languages_with_the_same_fields(name: str, key: str) -> None:
    message = topic(name)[key]
    assert set(message) == {"en", "zh"}
    assert message["en"].strip()
    assert message["zh"].strip()
    assert fields_of(message["en"]) == fields_of(message["zh"])


@pytest.mark.parametrize(("name", "key"), MESSAGES)
def test_chinese_text_uses_chinese_punctuation(name: str, key: str) -> None:
    text = topic(name)[key]["zh"]
    assert not any(mark in text for mark in (", ", "; ", "。 "))
    assert " (" not in text


def test_no_message_is_written_twice() -> None:
    reasons = [tuple(message.values()) for message in topic("reasons").values()]
    assert len(reasons) == len(set(reasons))


def test_fields_are_filled_in() -> None:
    assert say("reasons.budget_met", "en", total_usd="$5", budget_usd="$8") == "It costs $5, within the budget of $8."
    assert say("reasons.budget_met", "zh", total_usd="$5", budget_usd="$8") == "费用 $5，在 $8 预算之内。"


def test_a_blank_stands_between_chinese_and_latin() -> None:
    assert spaced("把全参数微调换成QLoRA，用2张A100即可") == "把全参数微调换成 QLoRA，用 2 张 A100 即可"
    assert spaced(spaced("用2张A100")) == "用 2 张 A100"


def test_lists_and_sentences_join_as_each_language_does() -> None:
    assert join(["a", "b"], "en") == "a, b"
    assert join(["甲", "乙"], "zh") == "甲、乙"
    assert sentences(["One.", "", "Two."], "en") == "One. Two."
    assert sentences(["一。", "二。"], "zh") == "一。二。"
