"""Sentences with the request that each means, written before the reader was: every hard word is
used, or the sentence stops with the question."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from rightfit.errors import InputError
from rightfit.workload.ask import understand
from rightfit.workload.options import read_wish

FRIDAY = datetime.date(2026, 11, 20)
FILE = Path(__file__).parents[1] / "data" / "sentences_read.txt"
LINES = [line for line in FILE.read_text(encoding="utf-8").splitlines() if "=>" in line]


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


@pytest.mark.parametrize("line", LINES)
def test_what_is_meant_is_read(line: str) -> None:
    found, told = verdict(line)
    assert found == "right", told


def test_there_are_two_hundred_sentences() -> None:
    assert len(LINES) >= 200
