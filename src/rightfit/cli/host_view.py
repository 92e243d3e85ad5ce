"""A plan of classical machine learning or data preparation on the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.cli.labels import Lang, label
from rightfit.cli.output import Answer, View
from rightfit.cli.plan_view import _MOST_REFUSALS, _MOST_TERMS, _sections, choice, flat_option, terms_table, without_choice
from rightfit.cli.tables import Column, Table
from rightfit.explain import quantities as q
from rightfit.explain.host_text import (
    host_assumption_text,
    host_option_text,
    host_plan_text,
    host_rejection_lines,
    host_renderer,
    server_text,
)
from rightfit.explain.plan_text import OptionText
from rightfit.search.answer import Option, Plan, Reason, Rejection
from rightfit.units import format_duration

if TYPE_CHECKING:
    from rightfit.search.single import Verdict


def host_answer(plan: Plan, view: View) -> Answer:
    """A host plan for people and programs."""
    currency = plan.workload.currency
    if view.is_machine:
        data = {**plan.to_dict(host_renderer(view.lang, currency=currency)), "rules": []}
        return Answer(data, [flat_option(option) for option in plan.options], [])
    return Answer(None, [], list(_parts(plan, view)))


def _parts(plan: Plan, view: View) -> Iterable[str | Table]:
    currency, text = plan.workload.currency, host_plan_text(plan, view.lang)
    shown = text.best or text.unfit
    yield choice(text.best) if text.best else "\n".join(line for line in (text.headline, text.blame) if line)
    if len(plan.options) > 1:
        yield host_table(plan, view)
    if shown is not None:
        yield from _option_parts(shown, view, currency=currency)
    yield from _sections(view, faster=text.faster, advice=text.advice, assumed=text.assumptions)
    yield from host_refusals(plan.rejected, view, currency=currency, everything=view.verbose or plan.best is None)
    yield text.considered


def _option_parts(text: OptionText, view: View, *, currency: str) -> Iterable[str | Table]:
    yield from _sections(view, why=text.why, warnings=text.warnings)
    most = None if view.verbose else _MOST_TERMS
    for name, terms, show in (
        ("memory_ram", text.memory, q.memory_text),
        ("time_job", text.time, lambda value: q.duration_text(value, view.lang)),
        ("cost", text.cost, lambda value: q.money_text(value, currency)),
    ):
        if terms:
            yield terms_table(name, terms, view.lang, show=show, most=most)


def host_refusals(rejected: Sequence[Rejection], view: View, *, currency: str, everything: bool) -> Iterable[str]:
    """What was refused and how little it lacked."""
    lines: list[str] = []
    for rejection in rejected if everything else sorted(rejected, key=lambda one: -one.alone)[:_MOST_REFUSALS]:
        first, *more = host_rejection_lines(rejection, view.lang, currency=currency)
        lines += [f"- {first}", *(f"    {line}" for line in more)]
    if lines:
        yield "\n".join([label("section", "refused", view.lang), *lines])


def host_table(plan: Plan, view: View) -> Table:
    """The ranked options, one a line."""
    currency = plan.workload.currency

    def money(value: float) -> str:
        return str(q.money_text(value, currency))

    columns = (
        Column("rank", right=True),
        Column("instance_type", flexible=True),
        Column("region", drop=3),
        Column("machine"),
        Column("purchase"),
        Column("hourly", money, right=True, drop=1),
        Column("total_time", format_duration, right=True),
        Column("total", money, right=True),
        Column("ram", q.memory_text, right=True, drop=4),
        Column("as_of", drop=2),
    )
    return Table(columns, [_record(option, view.lang) for option in plan.options])


def _record(option: Option, lang: Lang) -> dict[str, Any]:
    nodes = f"{option.nodes}x " if option.nodes > 1 else ""
    return {
        "rank": option.rank,
        "instance_type": f"{nodes}{option.provider}/{option.instance_type}",
        "region": option.region,
        "machine": server_text(option, lang),
        "purchase": q.purchase_text(option.purchase, lang),
        "hourly": option.cost.hourly_usd,
        "total_time": option.estimate["total_time_s"].mid,
        "total": option.cost.total_usd,
        "ram": option.estimate["host_memory_bytes"].mid,
        "as_of": option.price_as_of,
    }


def host_verdict_answer(verdict: Verdict, view: View) -> Answer:
    """Why a server was or was not chosen, and what it would do."""
    currency = verdict.workload.currency
    render = host_renderer(view.lang, currency=currency)
    if view.is_machine:
        return Answer(verdict.to_dict(render), [flat_option(verdict.option)] if verdict.option else [], [])
    return Answer(None, [], list(_verdict_parts(verdict, view, render, currency=currency)))


def _verdict_parts(verdict: Verdict, view: View, render: Callable[[Reason], str], *, currency: str) -> Iterable[str | Table]:
    name = f"{verdict.provider}/{verdict.instance_type}"
    job = verdict.option.facts["name"] if verdict.option else verdict.workload.model
    head = label("why", "fits" if verdict.fits else "does_not_fit", view.lang, name=name, model=job)
    yield "\n".join([head, *(f"- {render(reason)}" for reason in verdict.standing)])
    if len(verdict.failed) > 1 or view.verbose:
        yield from host_refusals(verdict.failed, view, currency=currency, everything=True)
    if verdict.option is not None:
        text = host_option_text(without_choice(verdict.option, fits=verdict.fits), verdict.workload, view.lang)
        lines = choice(text).splitlines()
        heading = label("why", "best_setup" if verdict.fits else "leanest_setup", view.lang)
        yield "\n".join([heading, *([f"  {lines[0]}"] if verdict.fits else []), *lines[1:]])
        yield from _option_parts(text, view, currency=currency)
    yield from _sections(view, assumed=[host_assumption_text(assumption, view.lang) for assumption in verdict.assumptions])
