"""No model named: two or three typical models for the kind of data that was told, each planned, and the question that would narrow it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rightfit.cli.output import Answer, View
from rightfit.errors import RightfitError
from rightfit.explain.documents import plan_document
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.short import quiet_sheet
from rightfit.planner.typical import typical_wishes
from rightfit.search.answer import Option
from rightfit.workload.model import Workload


def typical_answer(rows: Sequence[Mapping[str, str]], wishes: Mapping[str, Any], view: View, *, catalog: Any) -> Answer | None:
    """A plan for each typical model, one paragraph each; None where there is no such model or none can be planned."""
    from rightfit import api
    from rightfit.cli.asking import command_line
    from rightfit.cli.plan_view import screen_parts

    parts: list[Any] = []
    refused: list[RightfitError] = []
    plans, options, size = [], [], 0.0
    for row, wish in typical_wishes(rows, wishes):
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
    from rightfit.explain.volume_text import volume_text
    from rightfit.planner.volume import decide

    said = volume_text(decide(size, options, catalog), lang)
    steps = [f"{'->' if step.holds else '  '} {step.span_text}" for step in said.steps]
    return ["\n".join([said.head, *steps, said.bill])]


def _named(wishes: Mapping[str, Any]) -> str:
    words: Sequence[str] = [word for name, value in wishes.items() for word in ("--" + name.replace("_", "-"), str(value))]
    return shlex.join(["rightfit", "plan", "MODEL", *words])
