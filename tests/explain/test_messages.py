"""The catalogue is complete: every message in both languages, with the same fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import rightfit
from rightfit.explain.messages import TOPICS, family_topics, fields_of, has, join, say, sentences, topic
from rightfit.messages import LANGS, spaced

MESSAGES = [(name, key) for name in (*TOPICS, *family_topics()) for key in topic(name)]


def faults_of(name: str, key: str) -> Iterator[str]:
    """What is wrong with a message."""
    message = topic(name)[key]
    where = f"explain/data/{name}.toml: {key}"
    if lacking := [lang for lang in LANGS if not message.get(lang, "").strip()]:
        yield f"{where} has no text in {', '.join(lacking)}"
        return
    if set(message) != set(LANGS):
        yield f"{where} has more than {', '.join(LANGS)}"
    if fields_of(message["en"]) != fields_of(message["zh"]):
        yield f"{where} names other fields in en than in zh"
    if marks := [mark for mark in (", ", "; ", "。 ", " (") if mark in message["zh"]]:
        yield f"{where} has English punctuation in zh: {marks}"


def test_every_message_has_both_languages_with_the_same_fields_and_marks() -> None:
    assert MESSAGES
    faults = [fault for name, key in MESSAGES for fault in faults_of(name, key)]
    assert not faults, "; ".join(faults)


def test_no_message_is_written_twice() -> None:
    reasons = [tuple(message.values()) for message in topic("reasons").values()]
    assert len(reasons) == len(set(reasons))


# A key that is put together from parts ends where its first part does.
SAID = re.compile(r"""\bsay\(\s*(?:"([a-z_]+\.[\w.-]+)"|"([a-z_]+\.[\w.-]+)" if .*? else "([a-z_]+\.[\w.-]+)")""", re.DOTALL)
SOURCES = sorted(Path(rightfit.__file__).parent.rglob("*.py"))


def test_every_message_that_is_said_is_there() -> None:
    said = {(key, path.name) for path in SOURCES for found in SAID.findall(path.read_text("utf-8")) for key in filter(None, found)}
    assert len(said) > 100
    missing = sorted(f"{name} says {key}, which explain/data/{key.split('.')[0]}.toml lacks" for key, name in said if not has(key))
    assert not missing, "; ".join(missing)


def test_fields_are_filled_in() -> None:
    assert say("reasons.budget_met", "en", total_usd="$5", budget_usd="$8", probability="95%").endswith(
        "the $8 budget, with 95% probability."
    )
    assert say("reasons.budget_met", "zh", total_usd="$5", budget_usd="$8", probability="95%") == "费用 $5，在 $8 预算之内的概率为 95%。"


def test_a_blank_stands_between_chinese_and_latin() -> None:
    assert spaced("把全参数微调换成QLoRA，用2张A100即可") == "把全参数微调换成 QLoRA，用 2 张 A100 即可"
    assert spaced(spaced("用2张A100")) == "用 2 张 A100"


def test_lists_and_sentences_join_as_each_language_does() -> None:
    assert join(["a", "b"], "en") == "a, b"
    assert join(["甲", "乙"], "zh") == "甲、乙"
    assert sentences(["One.", "", "Two."], "en") == "One. Two."
    assert sentences(["一。", "二。"], "zh") == "一。二。"


def test_a_rate_of_one_is_of_one_thing() -> None:
    assert [say("amounts.rate", "en", rate=rate) for rate in ("1", "2", "0.1", "11")] == [
        f"at {text}" for text in ("1 request/s", "2 requests/s", "0.1 requests/s", "11 requests/s")
    ]


def test_a_token_has_one_name_in_chinese() -> None:
    root = Path(rightfit.__file__).parent
    texts = [root / "web" / "data" / "words.toml", root / "explain" / "data" / "labels.toml", root / "facts" / "data" / "case_columns.csv"]
    assert not [path.name for path in texts if "词元" in path.read_text(encoding="utf-8")]
