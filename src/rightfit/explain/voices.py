"""How each kind of plan is put in words: training, services and batches of inference, classical machine learning and data preparation; and
any other
family of work by a table of words (family_words.py).

Faces ask `voice_of(answer)` and never for the kind.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from rightfit.explain import option_tables, plan_words
from rightfit.explain.messages import Lang, say
from rightfit.explain.plan_words import OptionText, PlanText
from rightfit.explain.reasons import renderer
from rightfit.explain.tables import Table
from rightfit.families.registry import name_of
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.search.answer import Assumption, Option, Plan, Reason
    from rightfit.search.verdict import Verdict
    from rightfit.workload.model import Workload


@dataclass(frozen=True, slots=True)
class Voice:
    """The wording of one kind of plan. `headings`: the labels over its parts of memory, time and cost; `unfit_heading`: over the set-up of
    a server
    that does not do it; `is_training`: of neural networks, which rules of thumb are about; `is_service`: answers requests, one by one or as
    a batch."""

    renderer: Callable[..., Callable[[Reason], str]]
    option_text: Callable[[Option, Any, Lang], OptionText]
    nothing_text: Callable[[Plan, Lang], str]
    assumption_text: Callable[[Assumption, Lang], str]
    options_table: Callable[[Plan, Lang], Table] = option_tables.server_table
    rejection_lines: Callable[..., list[str]] = plan_words.rejection_lines
    blame_text: Callable[[Plan, Lang], str] = plan_words.blame_text
    headings: Mapping[str, str] = field(default_factory=lambda: {"memory": "memory", "time": "time_job", "cost": "cost"})
    unfit_heading: str = "leanest_setup"
    is_training: bool = False
    is_service: bool = False


_TRAINING = Voice(
    renderer=renderer,
    option_text=plan_words.option_text,
    nothing_text=plan_words.nothing_text,
    assumption_text=plan_words.assumption_text,
    options_table=option_tables.training_table,
    headings={"memory": "memory", "time": "time", "cost": "cost"},
    is_training=True,
)


@functools.cache
def _host() -> Voice:
    """The voice of classical machine learning and data preparation; its words are read when they are needed."""
    from rightfit.explain import host_text

    return Voice(
        renderer=host_text.host_renderer,
        option_text=host_text.host_option_text,
        nothing_text=host_text.nothing_text,
        assumption_text=host_text.host_assumption_text,
        rejection_lines=host_text.host_rejection_lines,
        headings={"memory": "memory_ram", "time": "time_job", "cost": "cost"},
    )


@functools.cache
def _service() -> Voice:
    """The voice of services and batches of inference; its words are read when they are needed."""
    from rightfit.explain import serving_text

    return Voice(
        renderer=serving_text.serving_renderer,
        option_text=serving_text.serving_option_text,
        nothing_text=lambda _, lang: say("choice.none", lang),
        blame_text=serving_text.serving_blame_text,
        assumption_text=serving_text.serving_assumption_text,
        rejection_lines=serving_text.serving_rejection_lines,
        options_table=option_tables.service_table,
        headings={"memory": "memory", "time": "time", "cost": "cost"},
        unfit_heading="enough_servers",
        is_service=True,
    )


@functools.cache
def _worded(family: str) -> Voice:
    """The voice of a family whose words are a table."""
    from rightfit.explain import family_words

    words = family_words.FamilyWords(family)
    return Voice(
        renderer=words.renderer,
        option_text=words.option_text,
        nothing_text=family_words.nothing_text,
        assumption_text=words.assumption_text,
    )


def voice_of(answer: Plan | Verdict) -> Voice:
    """The wording for an answer, told by its workload."""
    return voice_for(answer.workload)


def voice_for(workload: Workload) -> Voice:
    """The wording for answers to a workload: that of its family."""
    return voice_of_family(name_of(workload))


def voice_of_family(family: str) -> Voice:
    """The wording of a family: its own code, else its table of words."""
    return OF_FAMILY[family]() if family in OF_FAMILY else _worded(family)


#: The families whose wording is code.
OF_FAMILY: Mapping[str, Callable[[], Voice]] = {
    "language": lambda: _TRAINING,
    "samples": lambda: _TRAINING,
    "serving": _service,
    "passes": _service,
    "tables": _host,
}


def plan_text(plan: Plan, lang: Lang) -> PlanText:
    """Everything that a plan says, in one language and in the currency of its workload."""
    voice, currency = voice_of(plan), plan.workload.currency
    render = voice.renderer(lang, currency=currency)
    best, unfit = (voice.option_text(option, plan.workload, lang) if option else None for option in (plan.best, plan.unfit))
    return PlanText(
        headline=best.headline if best else voice.nothing_text(plan, lang),
        considered=plan_words.considered_text(plan, lang),
        best=best,
        assumptions=tuple(voice.assumption_text(assumption, lang) for assumption in plan.assumptions),
        rejected=tuple(line for rejection in plan.rejected for line in voice.rejection_lines(rejection, lang, currency=currency)),
        blame=voice.blame_text(plan, lang),
        advice=tuple(render(reason) for reason in plan.advice),
        faster=() if voice.is_service else plan_words.faster_lines(plan, lang),
        unfit=None if voice.is_service else unfit,
    )


def option_text(option: Option, workload: Workload, lang: Lang) -> OptionText:
    """One option in words, in the currency of the workload."""
    return voice_for(workload).option_text(option, workload, lang)
