"""One given server under a service or a batch job on the screen: `rightfit estimate` and `rightfit why`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from rightfit.cli.labels import label
from rightfit.cli.output import Answer, View
from rightfit.cli.plan_view import _option_parts, _sections, choice
from rightfit.cli.serving_view import flat_serving_option, serving_answer, serving_refusals
from rightfit.cli.tables import Table
from rightfit.explain.serving_text import serving_assumption_text, serving_given_text, serving_option_text, serving_renderer
from rightfit.search.answer import Option, Plan
from rightfit.search.single import Verdict

_CHOICE_REASONS = frozenset({"serve_cheapest", "serve_fastest", "serve_balanced", "cheapest", "fastest", "balanced"})
_KEPT_LIMITS = frozenset({"serve_deadline"})


def without_choice(option: Option, *, fits: bool) -> Option:
    """The option without the reasons that compare it with others, and, where there are too few servers, without those that say it is in time."""
    dropped = _CHOICE_REASONS if fits else _CHOICE_REASONS | _KEPT_LIMITS
    return dataclasses.replace(option, why=tuple(reason for reason in option.why if reason.key not in dropped))


def serving_estimate_answer(plan: Plan, view: View) -> Answer:
    """As a plan, but nothing was chosen: what the given servers do, or what they lack and how many of them would do."""
    options = tuple(without_choice(option, fits=True) for option in plan.options)
    unfit = plan.unfit and without_choice(plan.unfit, fits=False)
    plan = dataclasses.replace(plan, options=options, unfit=unfit)
    if view.is_machine or plan.best is not None:
        return serving_answer(plan, view)
    return Answer(None, [], list(_unfit_parts(plan, view)))


def _unfit_parts(plan: Plan, view: View) -> Iterable[str | Table]:
    currency = plan.workload.currency
    yield serving_given_text(plan, view.lang)
    if plan.unfit is not None:
        text = serving_option_text(plan.unfit, plan.workload, view.lang)
        yield "\n".join([label("why", "enough_servers", view.lang), *(f"  {line}" for line in choice(text).splitlines())])
        yield from _option_parts(text, view, currency=currency)
    yield from _sections(view, assumed=[serving_assumption_text(assumption, view.lang) for assumption in plan.assumptions])
    yield from serving_refusals(plan.rejected, view, currency=currency, everything=True)


def serving_verdict_answer(verdict: Verdict, view: View) -> Answer:
    """Why a server was or was not chosen, and what it would do."""
    currency = verdict.workload.currency
    render = serving_renderer(view.lang, currency=currency)
    if view.is_machine:
        return Answer(verdict.to_dict(render), [flat_serving_option(verdict.option)] if verdict.option else [], [])
    return Answer(None, [], list(_verdict_parts(verdict, view)))


def _verdict_parts(verdict: Verdict, view: View) -> Iterable[str | Table]:
    currency = verdict.workload.currency
    render = serving_renderer(view.lang, currency=currency)
    name = f"{verdict.provider}/{verdict.instance_type}"
    head = label("why", "fits" if verdict.fits else "does_not_fit", view.lang, name=name, model=verdict.workload.model)
    yield "\n".join([head, *(f"- {render(reason)}" for reason in verdict.standing)])
    if len(verdict.failed) > 1 or view.verbose:
        yield from serving_refusals(verdict.failed, view, currency=currency, everything=True)
    if verdict.option is not None:
        text = serving_option_text(without_choice(verdict.option, fits=verdict.fits), verdict.workload, view.lang)
        lines = choice(text).splitlines()
        head = label("why", "best_setup" if verdict.fits else "enough_servers", view.lang)
        yield "\n".join([head, *(f"  {line}" for line in lines)])
        yield from _option_parts(text, view, currency=currency)
    yield from _sections(view, assumed=[serving_assumption_text(assumption, view.lang) for assumption in verdict.assumptions])
