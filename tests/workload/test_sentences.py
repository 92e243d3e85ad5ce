"""Sentences with the request that each means, written before the reader was: every hard word is
used, or the sentence stops with the question."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path
from typing import Any

import pytest

from rightfit.errors import InputError
from rightfit.workload.ask import understand
from rightfit.workload.options import read_wish

FRIDAY = datetime.date(2026, 11, 20)
DATA = Path(__file__).parents[1] / "data"
LINES, TYPED, *BLIND = (
    [line for line in (DATA / name).read_text(encoding="utf-8").splitlines() if "=>" in line]
    for name in (
        "sentences_read.txt",
        "sentences_new.txt",
        "sentences_fresh.txt",
        "sentences_late.txt",
        "sentences_last.txt",
        "sentences_final.txt",
        "sentences_sixth.txt",
        "sentences_classes.txt",
    )
)


def wanted(text: str) -> tuple[dict[str, str], set[str], set[str]]:
    """Options, words of the question, words that are only listed."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    pairs = dict(part.split("=", 1) for part in parts if part[0] not in "?!")
    return pairs, {part[1:] for part in parts if part[0] == "?"}, {part[1:] for part in parts if part[0] == "!"}


def attributes(option: str, value: Any) -> object:
    """What an option sets, without the words it was written in."""
    text = "".join(str(value).casefold().split())
    if option in ("model", "have", "region", "gpu", "framework", "settings", "library", "kind", "avoid"):
        return text.replace("-", "").replace("rtx", "")
    found = read_wish(option, str(value))
    return {name: one for name, one in found.items() if name not in ("data", "budget") or len(found) == 2}


def verdict(line: str) -> tuple[str, str]:
    """ "right", "wrong" (answered otherwise than meant) or "asked" (needlessly); what differs."""
    sentence, _, expected = line.partition("=>")
    wishes, asked, listed = wanted(expected)
    try:
        found = understand(sentence, today=FRIDAY)
    except InputError as error:
        return ("right" if asked else "asked"), str(error)
    said = {**found.wishes, **({"have": found.own_machine} if found.own_machine else {})}
    if found.own_machine:
        said.pop("gpu", None)
    if found.kind:
        said["kind"] = found.kind
    questions = " ".join(found.weighty).casefold()
    missed = {word for word in asked if word.casefold() not in questions}
    differs = {
        name
        for name in {*said, *wishes}
        if name not in said or name not in wishes or attributes(name, said[name]) != attributes(name, wishes[name])
    }
    told = f"{said}; asks {found.weighty}; lists {found.unused}"
    if not differs and not missed and not (listed - set(found.unused)) and bool(asked) == bool(found.weighty):
        return "right", told
    if asked and found.weighty and not missed:
        return "right", told  # it stops, with the right question; what else was read is shown with it
    return ("asked" if found.weighty else "wrong"), f"{sorted(differs)} {sorted(missed)}: {told}"


@pytest.mark.parametrize("line", [*LINES, *TYPED, *itertools.chain(*BLIND)])
def test_what_is_meant_is_read(line: str) -> None:
    found, told = verdict(line)
    assert found == "right", told


def test_there_are_two_hundred_sentences() -> None:
    assert len(LINES) >= 200
    assert len(TYPED) >= 150
    assert sum(map(len, BLIND)) >= 200


@pytest.mark.parametrize(
    ("words", "hard"),
    [
        ("with a zephyranth", "zephyranth"),  # a means
        ("on Vastwing", "Vastwing"),  # a name
        ("with 7 zephyranths", "7 zephyranths"),  # a count
        ("not zephyranthine", "not zephyranthine"),  # a denial
        ("zephyranth 0.3", "zephyranth 0.3"),  # a setting
        ("zx-81b", "zx-81b"),  # a name by its digits
        ("高可用", "高可用"),
        ("不含紫檀", "不含紫檀"),
    ],
)
def test_what_counts_stops_the_answer(words: str, hard: str) -> None:
    assert hard in understand(f"fine-tune Llama-3-8B with LoRA on 50k samples, {words}", today=FRIDAY).weighty


@pytest.mark.parametrize("words", ["zephyranthine", "for our Vastwing", "to zephyranthise it", "紫檀木", "we love zephyranths"])
def test_ordinary_words_are_listed_and_stop_nothing(words: str) -> None:
    found = understand(f"fine-tune Llama-3-8B with LoRA on 50k samples, {words}", today=FRIDAY)
    assert not found.weighty
    assert found.unused


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("finetuen", "finetune"), ("fintune", "finetune"), ("fin-tune", "finetune"), ("pretrian", "train"), ("depoly", "serve")],
)
def test_slips_in_words_that_decide(typed: str, meant: str) -> None:
    assert understand(f"{typed} Llama-3-8B", today=FRIDAY).wishes["task"] == meant


@pytest.mark.parametrize("words", ["retain", "raining", "caution", "severing"])
def test_words_that_only_look_like_slips(words: str) -> None:
    assert "task" not in understand(f"Llama-3-8B {words}", today=FRIDAY).wishes
