"""The ranked options of a plan as a table, one a line, and the simulated percentiles beside
the analytic ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rightfit.explain import quantities as q
from rightfit.explain.messages import label
from rightfit.explain.plan_words import layout_text
from rightfit.explain.quantities import Column, Table, as_text, server_text
from rightfit.explain.serving_text import analytic_triple, simulated_triple
from rightfit.messages import Lang
from rightfit.units import format_duration

if TYPE_CHECKING:
    from rightfit.search.answer import Option, Plan


_LATENCIES = ("ttft", "tpot", "latency")


def _money(currency: str) -> Callable[[float], str]:
    return lambda value: str(q.money_text(value, currency))


def _time(lang: Lang) -> Callable[[float | None], str]:
    """A time in a cell: short in English, in words in Chinese; empty where there is none."""
    shown: Callable[[float], str] = (lambda value: q.duration_text(value, lang)) if lang == "zh" else format_duration
    return lambda value: "" if value is None else shown(value)


def _cost(lang: Lang, currency: str) -> Callable[[float], str]:
    return lambda value: str(q.cost_text(value, lang, currency))


def _job_table(plan: Plan, lang: Lang, machine: str, *figures: Column, total: Callable[[Any], str] = as_text) -> Table:
    """The ranked options of a job, one a line: `machine` says on what,
    `figures` are of its kind."""
    columns = (
        Column("rank", right=True),
        Column("instance_type", flexible=True),
        Column("region", drop=4),
        Column(machine),
        Column("purchase", drop=1),
        Column("hourly", _money(plan.workload.currency), right=True, drop=2),
        Column("total_time", _time(lang), right=True),
        Column("total", total, right=True),
        *holds_column(plan, lang),
        *figures,
        Column("as_of", drop=3),
    )
    return Table(columns, [_job_record(option, lang, plan.workload.currency, machine) for option in plan.options])


def _record(option: Option, lang: Lang, machine: dict[str, Any], money: dict[str, Any]) -> dict[str, Any]:
    """What is told of an option of any kind, with what its kind says of its
    machine and its money."""
    nodes = f"{option.nodes}x " if option.nodes > 1 else ""
    return {
        "rank": option.rank,
        "instance_type": f"{nodes}{option.provider}/{option.instance_type}",
        "region": option.region,
        **machine,
        "purchase": q.purchase_text(option.purchase, lang),
        **money,
        "holds": holds(option),
    }


def _job_record(option: Option, lang: Lang, currency: str, machine: str) -> dict[str, Any]:
    cost = {"hourly": option.cost.hourly_usd, "total_time": option.estimate["total_time_s"].mid}
    if machine == "machine":
        ram = option.estimate["host_memory_bytes" if "host_memory_bytes" in option.estimate else "peak_memory_bytes"].mid
        told = _record(option, lang, {machine: server_text(option, lang)}, {**cost, "total": option.cost.total_usd})
        return {**told, "ram": ram, "as_of": option.price_as_of}
    cards = f"{option.num_accelerators}x {option.accelerator.name}"
    return {
        **_record(option, lang, {machine: cards}, {**cost, "total": total_text(option, lang, currency)}),
        "peak": option.estimate["peak_memory_bytes"].mid,
        "layout": layout_text(option.layout, lang),
        "as_of": dated_text(option, lang),
    }


def training_table(plan: Plan, lang: Lang) -> Table:
    """The ranked options of training, one a line."""
    return _job_table(plan, lang, "gpus", Column("peak", q.memory_text, right=True, drop=5), Column("layout", drop=7))


def holds(option: Option) -> float | None:
    """The probability that an option keeps deadline and budget: the lesser of the two; None where
    neither was given."""
    known = [chance for name, chance in option.probability.items() if name != "fits" and chance is not None]
    return min(known, default=None)


def holds_column(plan: Plan, lang: Lang) -> tuple[Column, ...]:
    """The column of that probability, where something was to hold."""
    asked = any(holds(option) is not None for option in plan.options)
    return (Column("holds", lambda value: q.probability_text(value, lang) if value is not None else "", right=True),) if asked else ()


def total_text(option: Option, lang: Lang, currency: str) -> str:
    """The total; of an estimated price marked so."""
    total = str(q.cost_text(option.cost.total_usd, lang, currency))
    return f"~{total}" if option.facts.get("is_estimate") else total


def dated_text(option: Option, lang: Lang) -> str:
    """The date of the price, and whether it is old."""
    return option.price_as_of + (label("remark", "is_old", lang) if option.facts.get("is_stale") else "")


def server_table(plan: Plan, lang: Lang) -> Table:
    """The ranked options of a job that may do without accelerators, one a line."""
    ram = Column("ram", q.memory_text, right=True, drop=5)
    return _job_table(plan, lang, "machine", ram, total=_cost(lang, plan.workload.currency))


def service_table(plan: Plan, lang: Lang) -> Table:
    """The ranked options of a service or a batch of inference, one a line."""
    currency = plan.workload.currency

    def money(value: float) -> str:
        return str(q.money_text(value, currency)) if value == value else ""

    seconds = _time(lang)

    monthly = plan.workload.task == "serve"
    columns = (
        Column("rank", right=True),
        Column("instance_type", flexible=True),
        Column("region", drop=6),
        Column("gpus"),
        Column("replicas", right=True, drop=1),
        Column("weights", drop=5),
        Column("purchase", drop=7),
        *(
            (Column("monthly", money, right=True),)
            if monthly
            else (Column("total_time", seconds, right=True), Column("total", money, right=True))
        ),
        *holds_column(plan, lang),
        Column("per_thousand", money, right=True, drop=3),
        Column("per_million", money, right=True, drop=2),
        *(
            (
                Column("ttft", seconds, right=True),
                Column("tpot", seconds, right=True, drop=1),
                Column("latency", seconds, right=True, drop=4),
            )
            if monthly
            else ()
        ),
    )
    records = [_service_record(option, lang) for option in plan.options]
    kept = [
        column
        for column in columns
        if any(record.get(column.key) not in (None, "") and record.get(column.key) == record.get(column.key) for record in records)
    ]
    return Table(kept, records)


def _service_record(option: Option, lang: Lang) -> dict[str, Any]:
    cost, layout = option.cost, option.layout
    from rightfit.search.service.options import ServingCost, ServingLayout

    assert isinstance(cost, ServingCost)
    assert isinstance(layout, ServingLayout)
    figures = {name: option.estimate[f"{name}_s"].mid if f"{name}_s" in option.estimate else None for name in ("ttft", "tpot", "latency")}
    cards = f"{option.num_accelerators}x {option.accelerator.name}" if option.accelerator.name else f"{option.vcpus * option.nodes:g} vCPU"
    machine = {"gpus": cards, "replicas": layout.replicas, "weights": layout.weight_format}
    return {
        **_record(option, lang, machine, {"monthly": cost.monthly_usd, "total": cost.total_usd}),
        "total_time": option.estimate["total_time_s"].mid if "total_time_s" in option.estimate else None,
        "per_thousand": cost.per_thousand_requests_usd,
        "per_million": cost.per_million_tokens_usd,
        **figures,
    }


def simulation_table(plan: Plan, lang: Lang) -> Iterable[Table]:
    """One line an option and latency; nothing where nothing was simulated."""
    shown = [option for option in plan.options if "ttft_p50_s" in option.facts.get("simulated", {})]
    if shown:
        columns = (Column("rank", right=True), Column("figure"), Column("analytic", right=True), Column("simulated", right=True))
        yield Table(
            columns, [line for option in shown for line in _simulation_lines(option, lang)], title=label("section", "simulation", lang)
        )


def _simulation_lines(option: Option, lang: Lang) -> list[dict[str, object]]:
    return [
        {
            "rank": option.rank if name == _LATENCIES[0] else "",
            "figure": label("column", name, lang),
            "analytic": analytic_triple(option, name, lang),
            "simulated": simulated_triple(option.facts["simulated"], name, lang),
        }
        for name in _LATENCIES
    ]
