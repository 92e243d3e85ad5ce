"""A sentence taken apart into clauses, each held against figures that we know: of cards, of memory,
networks, data sets, disks and spot servers. What a clause names (a card, a model, a cloud) is
remembered for the next ones. A clause that no reader understands is not judged, never wrong.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rightfit.explain.messages import topic
from rightfit.facts.expressions import Expression, expression
from rightfit.messages import LANGS, Lang
from rightfit.records import dataclass

_OPEN_END = " ,，;；。.、!！?？"


@dataclass(frozen=True, slots=True)
class Part:
    """A clause with its verdict: right, wrong, unknown (it depends, `reason` says on what) or open
    (nobody here understands it)."""

    said: str
    word: str
    reason: Mapping[Lang, str] = dataclasses.field(default_factory=dict)
    is_common: bool = False


@dataclasses.dataclass(slots=True)
class Told:
    """What the sentence has said so far: later clauses are about the same things."""

    cards: tuple[str, ...] = ()
    spoken: str = ""
    column: str = ""
    params: float = 0.0
    training: bool = False
    is_full: bool = False
    inference: bool = False
    bits_per_s: float = 0.0
    table_bytes: float = 0.0
    is_table: bool = False
    cloud: str = ""
    is_spot: bool = False
    dataset: str = ""
    volume: str = ""
    stage: int = 0


Reader = Callable[[str, Told], Sequence[Part]]


def figures() -> Mapping[str, Any]:
    """Words and answers (data/figures.toml)."""
    return topic("figures")


@functools.cache
def word(name: str) -> Expression:
    """The words of an entry of [words]."""
    return expression(figures()["words"][name])


def both(key: str, **fields: Any) -> dict[Lang, str]:
    """A text in each language; a field may be a text in each language itself."""
    return {
        lang: figures()["texts"][key][lang].format(**{name: one[lang] if isinstance(one, Mapping) else one for name, one in fields.items()})
        for lang in LANGS
    }


def judged(said: str, holds: bool | None, reason: Mapping[Lang, str]) -> Part:
    """A clause that holds, does not, or depends (None)."""
    return Part(said, "unknown" if holds is None else "right" if holds else "wrong", reason)


def spaced(text: str) -> str:
    """Chinese and Latin words apart, full-width signs as plain ones."""
    for written, meant in (("×", "x"), ("（", "("), ("）", ")"), ("＝", "="), ("％", "%"), ("～", "~"), ("＋", "+")):
        text = text.replace(written, meant)
    text = re.sub(r"(?<=[\u4e00-\u9fff])(?=[A-Za-z0-9])|(?<=[A-Za-z0-9%])(?=[\u4e00-\u9fff])", " ", text)
    return " ".join(text.split())


def clauses(text: str) -> list[str]:
    """The clauses of a sentence; commas within numbers and brackets part nothing."""
    kept = re.sub(r"\([^()]*\)", lambda one: re.sub(r"[,，、;；:：]", " ", one[0]), spaced(text))
    kept = re.sub(r"(?<=\d),(?=\d{3}\b)", "", kept)
    return [part.strip(_OPEN_END) for part in word("clause").split(kept) if part.strip(_OPEN_END)]


def overall(found: Sequence[Part]) -> str:
    """One wrong clause makes a sentence wrong; one that claims something and was not judged leaves
    it open."""
    words = {part.word for part in found if part.word != "open" or _claims(part.said)}
    return next((one for one in ("wrong", "unknown", "open", "right") if one in words), "unknown").replace("open", "unknown")


def states(text: str) -> bool:
    """Whether a text states something that could be held against a figure: an amount, or a
    comparison that is no advice. Headings, explanations and advice without a number do not."""
    if word("states_amount").search(text):
        return True
    return bool(word("states").search(text)) and not word("proposes").search(text)


def _claims(clause: str) -> bool:
    """Whether a clause that was not judged claims anything: advice and asides do not."""
    if word("setting").match(clause) and not re.search(r"\d", clause):
        return False
    return not word("advice").search(clause) and not word("ends_open").search(clause) and len(clause) > 3
