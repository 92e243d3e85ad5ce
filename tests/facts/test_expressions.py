"""Expressions that are compiled only where a text holds what they need."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from rightfit.facts import tables
from rightfit.facts.expressions import Expression, Needs, either, needs
from rightfit.workload.ask import understand

DATA = Path(__file__).parents[1] / "data"
SENTENCES = [
    line.partition(" => ")[0]
    for file in sorted(DATA.glob("sentences*.txt"))
    for line in file.read_text(encoding="utf-8").splitlines()
    if " => " in line  # no headings and no blank lines
]
EVERY = 50


def _shown(needed: Needs) -> list[set[Any]]:
    """What is needed, with < and > where a word begins and ends."""
    return [
        {one.replace("\x02", "<").replace("\x03", ">") if isinstance(one, str) else str(_shown(one)) for one in each} for each in needed
    ]


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        ("resnet-?50", [{"resnet"}, {"50"}]),
        ("Nets?", [{"net"}]),
        ("a|bc", [{"a", "bc"}]),
        ("a|", []),
        ("(a|bb)ccc", [{"a", "bb"}, {"ccc"}]),
        ("UNet(?:a|b)?", [{"unet"}]),
        (r"x\|y", [{"x>|<y"}]),
        (r"(?<![a-z])(?!no)(?P<name>card)s*(?=x)", [{"card"}]),
        (r"(?<![A-Za-z])(?!no)(?P<name>card)s*(?=x)", [{"<card"}]),
        (r"(?<![A-Za-z])(?:a|b cd)(?![A-Za-z])", [{"<a>", "<b> <cd>"}]),
        (r"\b(?:in|3D?)\b", [{"<in>", "3"}]),
        (r"\bin?\b", [{"<i"}]),
        (r"(?:in|on)+(?!\w)", [{"in", "on"}]),
        (r"(?:in|on)(?![\w-])", [{"in>", "on>"}]),
        (r"\d+ (?:weeks?|days?)", [set("0123456789"), {" "}, {"week", "day"}]),
        (r"\d\s", [set("0123456789")]),
        ("[个张]?[块卡]", [{"块", "卡"}]),
        ("[a-z]+", []),
        ("(?:lora){0,2}", []),
        ("(?:lora){1,2}", [{"lora"}]),
        ("(?P<a>x)(?(a)yy|zz)", [{"x"}]),
        ("(?i:GPU)|显卡", [{"gpu", "显卡"}]),
        ("µs", [{"s"}]),
        (".*", []),
    ],
)
def test_what_a_pattern_needs(pattern: str, needed: list[set[str]]) -> None:
    assert _shown(needs(pattern)) == needed


def test_small_letters_are_all_letters_of_an_expression_that_takes_both() -> None:
    assert _shown(needs("(?<![a-z])in(?![a-z])", ignore_case=True)) == [{"<in>"}]
    assert _shown(needs("(?<![a-z])in(?![a-z])")) == [{"in"}]
    assert re.search("(?<![a-z])in(?![a-z])", "XinX")
    assert Expression("(?<![a-z])in(?![a-z])").search("XinX")


def test_what_is_needed_of_one_of_several_things_is_all_of_it() -> None:
    own = Expression("on (?:my|our) own|ours")
    assert own.may_match("on our own")
    assert own.may_match("that is ours")
    assert not own.may_match("only our")


def test_the_end_of_the_part_that_is_searched_ends_a_word() -> None:
    assert Expression("in(?![A-Za-z])").search("inside", 0, 2)
    assert not Expression("in(?![A-Za-z])").search("inside")


def test_a_list_needs_one_of_its_words() -> None:
    found = needs(r"\b{epoch}s*", lambda name: (frozenset({"\x04epoch", "轮"}),) if name == "epoch" else ())
    assert _shown(found) == [{"<epoch", "轮"}]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("kiss", "KIſS"), ("in", "İN"), ("id", "ıd"), (r"\d+ GB", "٤٢ gb"), ("k80", "\u212a80"), ("[一-鿿]{2}X", "中文x"), (r"\bin", "ſ in")],
)
def test_letters_that_are_taken_for_others_are_found(pattern: str, text: str) -> None:
    found = re.search(pattern, text, re.IGNORECASE)
    assert found
    assert Expression(pattern, ignore_case=True).search(text)[0] == found[0]  # type: ignore[index]


def test_it_answers_as_the_expression_of_the_standard_library() -> None:
    text, pattern = "two GPUs and 4 gpus", r"(\d) gpus"
    for said in (text, "nothing"):
        plain, ours = re.compile(pattern, re.IGNORECASE), Expression(pattern, ignore_case=True)
        assert ours.findall(said) == plain.findall(said)
        assert ours.sub("x", said) == plain.sub("x", said)
        assert ours.subn("x", said) == plain.subn("x", said)
        assert ours.split(said) == plain.split(said)
        assert ours.split(said, maxsplit=1) == plain.split(said, maxsplit=1)
        assert [one.span() for one in ours.finditer(said, 2)] == [one.span() for one in plain.finditer(said, 2)]
        for way in ("search", "match", "fullmatch"):
            assert bool(getattr(ours, way)(said, 13)) == bool(getattr(plain, way)(said, 13))


def test_one_that_is_asked_often_answers_as_before() -> None:
    """Then it is compiled, and asks no more for what it needs."""
    rare = Expression(r"xeon|(?<!\w)epyc (\d+)", ignore_case=True)
    texts = [f"CPU EPYC {number}" if number % 3 else f"CPU Graviton {number}" for number in range(300)]
    plain = re.compile(r"xeon|(?<!\w)epyc (\d+)", re.IGNORECASE)
    assert [bool(rare.search(text)) for text in texts] == [bool(plain.search(text)) for text in texts]
    unused = Expression("neverthere", ignore_case=True)
    assert not any(unused.search(text) for text in texts[:50])
    assert unused._compiled is None
    assert not any(unused.search(text) for text in texts)
    assert unused._compiled is not None


def test_words_of_which_the_longest_counts() -> None:
    pattern = either(["gpu", "gpu hour", "显卡"], lambda word: (r"\b", r"\b") if word.isascii() else ("", ""))
    assert re.findall(pattern, "gpu hour, gpus, gpu, 两显卡") == ["gpu hour", "gpu", "显卡"]


def test_no_expression_is_passed_over_that_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = set[tuple[Expression, str]]()
    asked = Expression.may_match

    def noted(self: Expression, text: str, end: int = sys.maxsize) -> bool:
        if not (may := asked(self, text, end)):
            passed.add((self, text[:end]))
        return may

    monkeypatch.setattr(Expression, "may_match", noted)
    for sentence in SENTENCES[::EVERY]:
        understand(sentence)
    assert len({expression for expression, _ in passed}) > 400
    assert [(expression.pattern, text) for expression, text in passed if expression.compiled.search(text)] == []


def test_words_of_every_table_need_what_they_hold() -> None:
    wrong = []
    for file in (tables.DATA / "words").glob("*.csv"):
        for words in tables.lists(file.stem).values():
            for word in words:
                plain = re.fullmatch(r"[A-Za-z一-鿿 ]+", word.word)
                held = {run for each in needs(word.pattern) for run in each}
                if plain and {one.translate({2: None, 3: None}) for one in held} - {part.lower() for part in word.word.split(" ")} - {
                    word.word.lower()
                }:
                    wrong.append(word)
    assert wrong == []
