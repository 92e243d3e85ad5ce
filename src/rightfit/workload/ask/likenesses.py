"""Models of kinds that no table has (policies of robots, forecasters, cameras around a car, faces
that speak): planned like the nearest kind that is known, in amounts of their own units, as the
answer says.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from rightfit.facts import tables
from rightfit.facts.expressions import Expression
from rightfit.messages import Message
from rightfit.units import parse_count
from rightfit.workload.ask import grammar
from rightfit.workload.ask.sentence import Reading, Sentence

_TABLE = "likenesses"


@functools.cache
def _names() -> tuple[tuple[Expression, Mapping[str, str]], ...]:
    """(The names of a kind, its line.)"""
    return tuple((Expression(rf"(?<![A-Za-z])(?:{row['pattern']})(?![a-z])", ignore_case=True), row) for row in tables.table(_TABLE))


@functools.cache
def _units(kind: str) -> Expression:
    """So many of the units of a kind."""
    unit = next(row["unit"] for row in tables.table(_TABLE) if row["kind"] == kind)
    words = rf"(?:(?:own|expert|robot|teleop(?:erated)?)\s)?(?:{unit})(?![a-z])"
    return grammar.shape(rf"(?<![A-Za-z0-9.])(?P<amount>{{amount}})\s*{words}")


def read_likeness(sentence: Sentence) -> None:
    """The nearest kind, and how much of it; what is usual for it is settled at the end."""
    named = sorted(((found, row) for names, row in _names() for found in names.finditer(sentence.whole)), key=lambda one: one[0].start())
    if not named:
        return
    row = named[0][1]
    trains = _trains(sentence, row)
    model = row["train_model" if trains else "run_model"]
    if not model:
        return
    words = ", ".join(dict.fromkeys(found[0] for found, _ in named))
    for found, _ in named:
        sentence.blank(*found.span())
    sentence.readings.append(Reading("model", model, words))
    sentence.likeness = (row["kind"], row["train_options" if trains else "run_options"])
    how = Message(f"workload.likeness_{row['kind']}" if trains or not row["train_model"] else "workload.likeness_run")
    sentence.assumed.append(Message("workload.assumed_likeness", name=words, model=model, how=how))
    _read_amount(sentence, row, trains=trains)


def _trains(sentence: Sentence, row: Mapping[str, str]) -> bool:
    """Whether a model of the kind is to be trained: words say so, or its units are told and no
    words say that it runs."""
    said = {name: any(grammar.TASKS[task].search(sentence.whole) for task in tasks) for name, tasks in _SAID.items()}
    runs = said["runs"] or grammar.RUNNING.search(sentence.whole) is not None
    is_told = _units(row["kind"]).search(sentence.text) is not None and not runs
    return bool(row["train_model"]) and (sentence.is_retrained or said["trains"] or is_told or not row["run_model"])


_SAID = {"trains": ("train", "finetune"), "runs": ("serve", "batch")}


def _read_amount(sentence: Sentence, row: Mapping[str, str], *, trains: bool) -> None:
    """How much is told in the units of a kind, else what is usual for it."""
    for again in list(Expression(row["said"], ignore_case=True).finditer(sentence.text)) if row["said"] else ():
        sentence.note(*again.span())
    found = _units(row["kind"]).search(sentence.text)
    is_rate = row["each_unit"] == "rate"
    if found and is_rate:
        sentence.take(*found.span(), "rate", f"{parse_count(found['amount'].replace(' ', '')) * float(row['each']):g}/s")
        return
    if not trains:
        return
    if row["usual"]:
        sentence.readings = [one for one in sentence.readings if one.option != "data"]
    if found:
        sentence.take(*found.span(), "data", f"{parse_count(found['amount'].replace(' ', '')) * float(row['each']):.0f} {row['each_unit']}")
    elif row["usual"]:
        sentence.readings.append(Reading("data", row["usual"], ""))


def settle_likeness(sentence: Sentence, task: str) -> None:
    """What is usual for the kind and not told."""
    words = sentence.likeness[1].split()
    for option, value in zip(words[::2], words[1::2], strict=True):
        name = option.removeprefix("--").replace("-", "_")
        if name == "rate" and (task == "batch" or sentence.has("users")):
            continue
        if not sentence.has(name) and not (name == "method" and task == "train"):
            sentence.readings.append(Reading(name, value, ""))


__all__ = ["read_likeness", "settle_likeness"]
