"""No model named: two or three typical models for the kind of data that was told, each planned, and the question that would narrow it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rightfit import facts
from rightfit.cli.output import Answer, View
from rightfit.errors import RightfitError, UnknownNameError
from rightfit.explain import quantities as q
from rightfit.explain.documents import plan_document
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.short import quiet_sheet
from rightfit.search.answer import Option
from rightfit.workload.model import Workload
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


def typical_answer(sentence: str, wishes: Mapping[str, Any], view: View, *, catalog: Any, kind: str = "") -> Answer | None:
    """A plan for each typical model, one paragraph each; None where the sentence tells no kind of data or none can be planned."""
    from rightfit import api
    from rightfit.cli.asking import command_line
    from rightfit.cli.plan_view import screen_parts

    parts: list[Any] = []
    refused: list[RightfitError] = []
    plans, options, size = [], [], 0.0
    for row, wish in typical_wishes(sentence, wishes, kind):
        try:
            found = api.plan(Workload(**wish), catalog=catalog, top=1)
        except RightfitError as error:
            refused.append(error)
            continue
        if found.best is None:
            continue
        plans.append(plan_document(found, view.lang, catalog=catalog))
        options.append(found.best)
        size = found.workload.data_bytes or size
        head = label("typical", "model", view.lang, model=row["model"], why=row[f"why_{view.lang}"])
        said = [part for part in screen_parts(quiet_sheet(found, view.lang), view) if isinstance(part, str)]
        parts.append("\n".join([head, *(f"  {line}" for line in said), f"  {command_line(wish)}"]))
    if not parts and refused:  # the models are usual ones: what none of them takes is wrong in the wish
        raise refused[0]
    if not parts:
        return None
    volume = volume_lines(size, options, catalog, view.lang) if size and any(option.data_path for option in options) else []
    return Answer(plans, [], [*parts, *volume, label("typical", "question", view.lang, command=_named(wishes))])


def volume_lines(size: float, options: Sequence[Option], catalog: Any, lang: Lang) -> list[str]:
    """The decision by the volume of the data, drawn: every tier, the one that holds, the rate, and what a month of it costs."""
    from rightfit.planner.volume import decide

    made = decide(size, options, catalog)
    ends = [*(least for _, least in made.tiers[1:]), None]
    lines = [label("volume", "head", lang, size=q.data_text(size))]
    for (name, least), end in zip(made.tiers, ends, strict=True):
        span = (
            label("volume", "above", lang, low=q.data_text(least)) if end is None else label("volume", "below", lang, high=q.data_text(end))
        )
        lines.append(f"{'->' if name == made.tier else '  '} {label('volume', name, lang, span=span)}")
    rates = {"read": f"{q.data_text(made.read_bytes_per_s)}/s", "rate": f"{made.parallel_bytes_per_s / 1e9:.3g} GB/s"}
    money = {"object": q.money_text(made.object_usd_per_month), "parallel": q.money_text(made.parallel_usd_per_month)}
    return ["\n".join([*lines, label("volume", "bill", lang, **rates, **money, held=q.data_text(made.parallel_bytes))])]


def _named(wishes: Mapping[str, Any]) -> str:
    words: Sequence[str] = [word for name, value in wishes.items() for word in ("--" + name.replace("_", "-"), str(value))]
    return shlex.join(["rightfit", "plan", "MODEL", *words])
