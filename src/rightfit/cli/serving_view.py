"""A serving plan on the screen: the choice in words, the options as a table, then what it is made of and what was refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rightfit.cli.buy_view import buy_parts
from rightfit.cli.labels import Lang, label
from rightfit.cli.output import Answer, View
from rightfit.cli.plan_view import _option_parts, _sections, choice
from rightfit.cli.serving_load_view import simulation_table
from rightfit.cli.tables import Column, Table
from rightfit.explain import quantities as q
from rightfit.explain.economics_text import section_lines
from rightfit.explain.load_text import load_lines
from rightfit.explain.serving_text import serving_plan_text, serving_rejection_lines, serving_renderer
from rightfit.search.answer import Option, Plan, Rejection
from rightfit.search.serving_answer import ServingCost, ServingLayout
from rightfit.units import format_duration

_MOST_REFUSALS = 4


def serving_answer(plan: Plan, view: View) -> Answer:
    """A serving plan for people and programs."""
    currency = plan.workload.currency
    if view.is_machine:
        data = {**plan.to_dict(serving_renderer(view.lang, currency=currency)), "rules": []}
        return Answer(data, [flat_serving_option(option) for option in plan.options], [])
    return Answer(None, [], list(_parts(plan, view)))


def _parts(plan: Plan, view: View) -> Iterable[str | Table]:
    currency, text = plan.workload.currency, serving_plan_text(plan, view.lang)
    yield choice(text.best) if text.best else "\n".join(line for line in (text.headline, text.blame) if line)
    if len(plan.options) > 1:
        yield serving_table(plan, view)
    yield from simulation_table(plan, view)
    if text.best is not None:
        yield from _option_parts(text.best, view, currency=currency)
    render = serving_renderer(view.lang, currency=currency)
    yield from buy_parts(plan, view, render)
    ways = section_lines(plan, render, everything=view.verbose)
    yield from _sections(view, load=load_lines(plan, render), advice=text.advice, ways=ways, assumed=text.assumptions)
    yield from serving_refusals(plan.rejected, view, currency=currency, everything=view.verbose or plan.best is None)
    yield text.considered


def serving_refusals(rejected: Sequence[Rejection], view: View, *, currency: str, everything: bool) -> Iterable[str]:
    """What was refused and how little it lacked."""
    lines: list[str] = []
    for rejection in rejected if everything else sorted(rejected, key=lambda one: -one.alone)[:_MOST_REFUSALS]:
        first, *more = serving_rejection_lines(rejection, view.lang, currency=currency)
        lines += [f"- {first}", *(f"    {line}" for line in more)]
    if lines:
        yield "\n".join([label("section", "refused", view.lang), *lines])


def serving_table(plan: Plan, view: View) -> Table:
    """The ranked options, one a line."""
    currency = plan.workload.currency

    def money(value: float) -> str:
        return str(q.money_text(value, currency)) if value == value else ""

    def seconds(value: float | None) -> str:
        return "" if value is None else format_duration(value)

    monthly = plan.workload.task == "serve"
    columns = (
        Column("rank", right=True),
        Column("instance_type", flexible=True),
        Column("region", drop=5),
        Column("gpus"),
        Column("replicas", right=True),
        Column("weights", drop=4),
        Column("purchase", drop=6),
        *(
            (Column("monthly", money, right=True),)
            if monthly
            else (Column("total_time", seconds, right=True), Column("total", money, right=True))
        ),
        Column("per_thousand", money, right=True, drop=2),
        Column("per_million", money, right=True, drop=1),
        *(
            (Column("ttft", seconds, right=True), Column("tpot", seconds, right=True), Column("latency", seconds, right=True, drop=3))
            if monthly
            else ()
        ),
    )
    records = [_record(option, view.lang) for option in plan.options]
    kept = [
        column
        for column in columns
        if any(record.get(column.key) not in (None, "") and record.get(column.key) == record.get(column.key) for record in records)
    ]
    return Table(kept, records)


def _record(option: Option, lang: Lang) -> dict[str, Any]:
    cost, layout = option.cost, option.layout
    assert isinstance(cost, ServingCost)
    assert isinstance(layout, ServingLayout)
    nodes = f"{option.nodes}x " if option.nodes > 1 else ""
    figures = {name: option.estimate[f"{name}_s"].mid if f"{name}_s" in option.estimate else None for name in ("ttft", "tpot", "latency")}
    cards = f"{option.num_accelerators}x {option.accelerator.name}" if option.accelerator.name else f"{option.vcpus * option.nodes:g} vCPU"
    return {
        "rank": option.rank,
        "instance_type": f"{nodes}{option.provider}/{option.instance_type}",
        "region": option.region,
        "gpus": cards,
        "replicas": layout.replicas,
        "weights": layout.weight_format,
        "purchase": q.purchase_text(option.purchase, lang),
        "monthly": cost.monthly_usd,
        "total": cost.total_usd,
        "total_time": option.estimate["total_time_s"].mid if "total_time_s" in option.estimate else None,
        "per_thousand": cost.per_thousand_requests_usd,
        "per_million": cost.per_million_tokens_usd,
        **figures,
    }


def flat_serving_option(option: Option) -> dict[str, Any]:
    """One option as one line of a table, in base units."""
    plain = ("rank", "provider", "region", "instance_type", "nodes", "purchase")
    figures = {
        key: value
        for name, figure in option.estimate.items()
        for key, value in ((name, figure.mid), (f"{name}_low80", figure.low80), (f"{name}_high80", figure.high80))
    }
    cost = option.cost
    assert isinstance(cost, ServingCost)
    return {
        **{name: getattr(option, name) for name in plain},
        "accelerator": option.accelerator.name,
        "accelerators_per_node": option.accelerator.count_per_node,
        "vcpus": option.vcpus,
        "memory_bytes": option.memory_bytes,
        "hourly_usd": cost.hourly_usd,
        "monthly_usd": cost.monthly_usd,
        "per_thousand_requests_usd": cost.per_thousand_requests_usd,
        "per_million_tokens_usd": cost.per_million_tokens_usd,
        **figures,
        **{f"layout_{name}": value for name, value in option.layout.to_dict().items()},
        "price_as_of": option.price_as_of,
        "price_source": option.price_source,
    }
