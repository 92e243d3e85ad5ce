"""No model named: two or three typical models for the kind of data and what it is for (facts/data/typical_models.csv)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rightfit import facts
from rightfit.errors import UnknownNameError
from rightfit.workload.vocabulary import nearest_words

MOST_MODELS = 3


def typical_rows(sentence: str, kind: str = "") -> list[Mapping[str, str]]:
    """The typical models for the words of a sentence, each once, the first that fit; then those of a kind of data."""
    found: dict[str, Mapping[str, str]] = {}
    rows = facts.table("typical_models")
    for row in (
        *(row for row in rows if re.search(row["pattern"], sentence, re.IGNORECASE)),
        *(row for row in rows if row["kind"] == kind),
    ):
        found.setdefault(row["model"], row)
    return list(found.values())[:MOST_MODELS]


def kinds() -> tuple[str, ...]:
    """The kinds of data that typical models are known for."""
    return tuple(dict.fromkeys(row["kind"] for row in facts.table("typical_models")))


def read_kind(text: str) -> str:
    """A kind of data; raises with the nearest."""
    word = text.strip().casefold()
    if word not in kinds():
        raise UnknownNameError("kind", text, nearest=nearest_words(word, kinds()), allowed="allowed: " + ", ".join(kinds()), field="kind")
    return word


def typical_wishes(sentence: str, wishes: Mapping[str, Any], kind: str = "") -> list[tuple[Mapping[str, str], dict[str, Any]]]:
    """The wish with each typical model; what the sentence says goes before what is usual."""
    out = []
    for row in typical_rows(sentence, kind):
        words = row["options"].split()
        usual = {name.removeprefix("--").replace("-", "_"): value for name, value in zip(words[::2], words[1::2], strict=True)}
        task = {"task": row["task"]} if row["task"] and wishes.get("task") in (None, "train") else {}
        out.append((row, {**usual, **wishes, **task, "model": row["model"]}))
    return out
