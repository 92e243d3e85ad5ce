"""No model named: two or three typical models for the kind of data that was told, each planned, and
the question that would narrow it."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import api
from rightfit.cli.output import Answer, View
from rightfit.cli.plan_view import plan_answer, screen_parts
from rightfit.errors import InputError, RightfitError
from rightfit.explain.beside.answers import answers
from rightfit.explain.beside.in_words import way_text
from rightfit.explain.command_text import command_line
from rightfit.explain.listings import volume_text
from rightfit.explain.messages import label
from rightfit.explain.open_wishes import several_sum
from rightfit.explain.sheets import choice_sheet
from rightfit.explain.voices import plan_document
from rightfit.messages import Lang
from rightfit.planner.typical import MOST_MODELS, VolumeDecision, decide, typical_wishes
from rightfit.workload.model import Workload

if TYPE_CHECKING:
    from rightfit.explain.beside.questions import Question
    from rightfit.search.answer import Option, Plan
    from rightfit.workload.ask import Understood


def typical_answer(
    rows: Sequence[Mapping[str, str]],
    wishes: Mapping[str, Any],
    view: View,
    *,
    catalog: Any,
    questions: Sequence[Question] = (),
    least_bytes: float = 0.0,
) -> Answer | None:
    """A plan for each typical model, one paragraph each, and no more of them than help to choose;
    where no server serves, that of the last with what was lacking. None where there is no such
    model. `least_bytes`: what the user's own tables take, which no server of less memory is shown
    for."""
    parts: list[Any] = []
    refused: list[RightfitError] = []
    plans, options, size = [], [], 0.0
    missed: tuple[Plan, str] | None = None
    for row, wish in typical_wishes(rows, wishes):
        try:
            found = api.plan(Workload(**wish), catalog=catalog, top=1)
        except RightfitError as error:
            refused.append(error)
            continue
        head = label("typical", "model", view.lang, model=row["model"], why=row[f"why_{view.lang}"])
        if found.best is None:
            missed = (found, head)
            continue
        if _memory_bytes(found.best) < least_bytes:
            continue
        plans.append(plan_document(found, view.lang, catalog=catalog))
        options.append(found.best)
        size = found.workload.data_bytes or size
        said = [part for part in screen_parts(choice_sheet(found, view.lang), view) if isinstance(part, str)]
        asked = answers(questions, found, catalog, view.lang)
        parts.append("\n".join([head, *(f"  {line}" for line in (*asked, *said)), f"  {command_line(wish)}"]))
        if len(parts) == MOST_MODELS:
            break
    if not parts and refused:  # the models are usual ones: what none of them takes is wrong in the wish
        raise refused[0]
    if not parts and missed:
        lacking = plan_answer(missed[0], view, catalog=catalog)
        return dataclasses.replace(lacking, parts=[missed[1], *lacking.parts])
    if not parts:
        return None
    is_read = bool(size) and any(option.data_path for option in options)
    volume = volume_lines(decide(size, options, catalog), view.lang, is_billed=True) if is_read else []
    return Answer(plans, [], [*parts, *volume, label("typical", "question", view.lang, command=_named(wishes))])


def _memory_bytes(option: Option) -> float:
    """Memory of an option's GPUs, of its servers where they have none."""
    card = option.accelerator
    return option.nodes * (card.count_per_node * card.memory_bytes if card and card.name else option.memory_bytes)


def several_answer(
    found: Understood, parts: Sequence[Mapping[str, Any]], view: View, *, catalog: Any, questions: Sequence[Question] = ()
) -> Answer:
    """A plan for each model or step of a sentence, one paragraph each with what was asked beside
    it, and what all cost; where all are to stand on one GPU, the plan of that first."""
    from rightfit.explain.together import together, wants_one_gpu

    shared = together(found, parts, catalog, is_asked=len(parts) == 1 or wants_one_gpu(found))
    if len(parts) == 1 and shared is None:
        raise InputError(found.question(), field="ask")
    alone = [{key: value for key, value in one.items() if key not in _ONE_EACH} for one in parts] if shared else list(parts)
    alone = [] if shared and (len(parts) == 1 or shared.in_turn) else alone
    plans = [api.plan(Workload(**wishes), catalog=catalog, top=1) for wishes in alone]
    shown: list[str] = []
    if shared:
        said = [part for part in screen_parts(choice_sheet(shared.plan, view.lang), view) if isinstance(part, str)]
        head = label("several", "in_turn" if shared.in_turn else "on_one", view.lang)
        asked = answers(questions, shared.plan, catalog, view.lang)
        shown.append(
            "\n".join([head, *(f"  {line}" for line in (*asked, *said, *shared.lines(view.lang))), f"  {command_line(shared.wishes)}"])
        )
    for wishes, plan in zip(alone, plans, strict=True):
        name = wishes.get("model") or wishes["operation"]
        if shared:
            way = way_text(plan.best, view.lang) if plan.best else label("several", "none", view.lang)
            shown.append(label("several", "alone", view.lang, model=name, way=way, command=command_line(wishes)))
            continue
        said = [part for part in screen_parts(choice_sheet(plan, view.lang), view) if isinstance(part, str)]
        head = label("several", "model", view.lang, model=name)
        asked = answers(questions, plan, catalog, view.lang)
        shown.append("\n".join([head, *(f"  {line}" for line in (*asked, *said)), f"  {command_line(wishes)}"]))
    documents = [plan_document(plan, view.lang, catalog=catalog) for plan in ([shared.plan] if shared else []) + plans]
    summed = several_sum(plans, view.lang).split("\n")[: 1 if shared else None] if plans else []
    return Answer(documents, [], [*shown, *(["\n".join(summed)] if summed else [])])


#: What is told of one GPU for all holds for none of them alone.
_ONE_EACH = frozenset({"num_gpus", "max_nodes", "gpu"})


def volume_lines(made: VolumeDecision, lang: Lang, *, is_billed: bool) -> list[str]:
    """The decision by the volume of the data, drawn: every tier, the one that holds, and where a
    plan reads them the rate and what a month of it costs."""
    said = volume_text(made, lang)
    steps = [f"{'->' if step.holds else '  '} {step.span_text}" for step in said.steps]
    return ["\n".join([said.head, *steps, *([said.bill] if is_billed else [])])]


def _named(wishes: Mapping[str, Any]) -> str:
    words: Sequence[str] = [word for name, value in wishes.items() for word in ("--" + name.replace("_", "-"), str(value))]
    return shlex.join(["rightfit", "plan", "MODEL", *words])
