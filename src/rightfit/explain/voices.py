"""How each kind of plan is put in words: training, services and batches of inference, classical machine learning and data preparation.

Faces ask `voice_of(answer)` and never for the kind.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rightfit.explain import plan_words
from rightfit.explain.messages import Lang
from rightfit.explain.plan_words import OptionText, PlanText
from rightfit.explain.reasons import renderer

if TYPE_CHECKING:
    from rightfit.search.answer import Assumption, Option, Plan, Reason
    from rightfit.search.single import Verdict
    from rightfit.workload.model import Workload

_COMPARING = frozenset({"cheapest", "fastest", "balanced"})


@dataclasses.dataclass(frozen=True, slots=True)
class Voice:
    """The wording of one kind of plan. `headings`: the labels over its parts of memory, time and cost; `comparing`: reasons that compare an
    option with others; `limits`: reasons that say it keeps a limit; `unfit_heading`: over the set-up of a server that does not do it."""

    renderer: Callable[..., Callable[[Reason], str]]
    plan_text: Callable[[Plan, Lang], PlanText]
    option_text: Callable[[Option, Any, Lang], OptionText]
    assumption_text: Callable[[Assumption, Lang], str]
    rejection_lines: Callable[..., list[str]]
    headings: Mapping[str, str]
    comparing: frozenset[str]
    limits: frozenset[str]
    unfit_heading: str
    has_rules: bool = False
    is_service: bool = False

    def without_choice(self, option: Option, *, fits: bool) -> Option:
        """The option without the reasons that compare it with others, and, where the job does not fit, without those that say it does."""
        dropped = self.comparing if fits else self.comparing | self.limits
        return dataclasses.replace(option, why=tuple(reason for reason in option.why if reason.key not in dropped))


_TRAINING = Voice(
    renderer=renderer,
    plan_text=plan_words.plan_text,
    option_text=plan_words.option_text,
    assumption_text=plan_words.assumption_text,
    rejection_lines=plan_words.rejection_lines,
    headings={"memory": "memory", "time": "time", "cost": "cost"},
    comparing=_COMPARING,
    limits=frozenset({"fits", "deadline_met", "budget_met"}),
    unfit_heading="leanest_setup",
    has_rules=True,
)


@functools.cache
def _host() -> Voice:
    """The voice of classical machine learning and data preparation; its words are read when they are needed."""
    from rightfit.explain import host_text

    return Voice(
        renderer=host_text.host_renderer,
        plan_text=host_text.host_plan_text,
        option_text=host_text.host_option_text,
        assumption_text=host_text.host_assumption_text,
        rejection_lines=host_text.host_rejection_lines,
        headings={"memory": "memory_ram", "time": "time_job", "cost": "cost"},
        comparing=_COMPARING,
        limits=frozenset({"fits", "deadline_met", "budget_met"}),
        unfit_heading="leanest_setup",
    )


@functools.cache
def _service() -> Voice:
    """The voice of services and batches of inference; its words are read when they are needed."""
    from rightfit.explain import serving_text

    return Voice(
        renderer=serving_text.serving_renderer,
        plan_text=serving_text.serving_plan_text,
        option_text=serving_text.serving_option_text,
        assumption_text=serving_text.serving_assumption_text,
        rejection_lines=serving_text.serving_rejection_lines,
        headings={"memory": "memory", "time": "time", "cost": "cost"},
        comparing=_COMPARING | {"serve_cheapest", "serve_fastest", "serve_balanced"},
        limits=frozenset({"serve_deadline"}),
        unfit_heading="enough_servers",
        is_service=True,
    )


def voice_of(answer: Plan | Verdict) -> Voice:
    """The wording for an answer, told by its workload."""
    return voice_for(answer.workload)


def voice_for(workload: Workload) -> Voice:
    """The wording for answers to a workload."""
    if is_host_job(workload):
        return _host()
    return _service() if workload.task in ("serve", "batch") else _TRAINING


def is_host_job(workload: Workload) -> bool:
    """Whether answers are about classical machine learning or data preparation; embedding is answered as a batch of inference."""
    from rightfit.search.host_names import is_host_work

    return is_host_work(workload) and "embed" not in (workload.operation or "").casefold()


def plan_text(plan: Plan, lang: Lang) -> PlanText:
    """Everything that a plan says, in one language and in the currency of its workload."""
    return voice_of(plan).plan_text(plan, lang)


def option_text(option: Option, workload: Workload, lang: Lang) -> OptionText:
    """One option in words, in the currency of the workload."""
    return voice_for(workload).option_text(option, workload, lang)
