"""No model named: two or three typical models for the kind of data and what it is for (facts/data/typical_models.csv)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rightfit import facts
from rightfit.errors import UnknownNameError
from rightfit.messages import Message
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


def asked_rows(goal: str, kind: str = "") -> list[Mapping[str, str]]:
    """The typical models for a goal, of a kind of data or of the kinds that its words tell; raises with the nearest where no such goal is known."""
    if not goal.strip():
        return typical_rows("", kind)
    told = typical_rows(goal)
    of_kinds = {kind} if kind else {row["kind"] for row in told} or set(kinds())
    goals = [row for row in facts.table("typical_goals") if row["kind"] in of_kinds]
    found = [row for row in goals if re.search(row["pattern"], goal, re.IGNORECASE)]
    if not found and told and not kind:
        return told
    if not found:
        names = {word: row["goal"] for row in goals for word in (row["goal"], row["goal_zh"])}
        allowed = Message(
            "names.part_allowed_words" if kind else "names.part_goal_of_kinds", names=", ".join(dict.fromkeys(names.values()))
        )
        nearest = nearest_words(goal.strip().casefold(), names, aliases=names)
        raise UnknownNameError("goal", goal, nearest=nearest, allowed=allowed, field="goal")
    return list({model: _row_of(row, model) for row in found for model in row["models"].split()}.values())[:MOST_MODELS]


def _row_of(goal: Mapping[str, str], model: str) -> Mapping[str, str]:
    """A typical model for a goal: what is told of it where it is one of a kind of data, else of the goal."""
    rows = [row for row in facts.table("typical_models") if row["kind"] == goal["kind"]]
    own = next((row for row in rows if row["model"] == model), None)
    return own or {"model": model, **{name: goal[name] for name in ("task", "options", "why_en", "why_zh")}}


def kinds() -> tuple[str, ...]:
    """The kinds of data that typical models are known for."""
    return tuple(dict.fromkeys(row["kind"] for row in facts.table("typical_models")))


def read_kind(text: str) -> str:
    """A kind of data; raises with the nearest."""
    word = text.strip().casefold()
    if word not in kinds():
        raise UnknownNameError(
            "kind",
            text,
            nearest=nearest_words(word, kinds()),
            allowed=Message("names.part_allowed_words", names=", ".join(kinds())),
            field="kind",
        )
    return word


def typical_wishes(rows: Sequence[Mapping[str, str]], wishes: Mapping[str, Any]) -> list[tuple[Mapping[str, str], dict[str, Any]]]:
    """The wish with each typical model; what was said goes before what is usual."""
    out = []
    for row in rows:
        words = row["options"].split()
        usual = {name.removeprefix("--").replace("-", "_"): value for name, value in zip(words[::2], words[1::2], strict=True)}
        task = {"task": row["task"]} if row["task"] and wishes.get("task") in (None, "train") else {}
        out.append((row, {**usual, **wishes, **task, "model": row["model"]}))
    return out
