"""A plan of classical machine learning or data preparation in words. Frames are those of plan_text, so the faces draw them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rightfit.explain import quantities as q
from rightfit.explain import reasons as base
from rightfit.explain.messages import Lang, fields_of, has, say, say_or, topic
from rightfit.explain.plan_words import OptionText, Term, given_text, refusal_lines, telling, terms, worded
from rightfit.explain.server_words import is_priced, server_headline, server_text
from rightfit.families.tables.layout import GPU, HostLayout
from rightfit.search.answer import Assumption, Option, Plan, Reason, Rejection

_PREPARE = "prepare"


def host_renderer(lang: Lang, *, currency: str = "usd") -> Callable[[Reason], str]:
    """The function that turns reasons of host plans into sentences; others are left to the general renderer."""

    def render(reason: Reason) -> str:
        params, key = dict(reason.params), f"host.{reason.key}"
        if not has(key):
            return base.render(reason, lang, currency=currency)
        if "instance_type" in params:
            params["where"] = base.where_text(params, lang)
        texts = {name: _field(name, value, lang, currency=currency) for name, value in params.items()}
        if not fields_of(topic("host")[key.partition(".")[2]][lang]) <= set(texts):
            return base.render(reason, lang, currency=currency)
        return say(key, lang, **texts)

    return render


def _field(name: str, value: Any, lang: Lang, *, currency: str) -> str:
    if name == "term":
        return say_or(f"host.time_{value}", lang, str(value))
    if name == "bytes" and isinstance(value, int | float):
        return q.data_text(float(value))
    if name == "width_bytes" or name in ("count", "vcpus"):
        return q.plain(float(value), 6)
    if name == "rows":
        return q.count_text(float(value), lang)
    return base.field_text(name, value, lang, currency=currency)


def nothing_text(plan: Plan, lang: Lang) -> str:
    """The headline where nothing is feasible, or where the given server does not hold the job."""
    if plan.unfit is None:
        return _given_text(plan, lang) if plan.given and plan.rejected else say("choice.none", lang)
    option = plan.unfit
    where = base.where_text({"provider": option.provider, "instance_type": option.instance_type, "nodes": option.nodes}, lang)
    return say("host.unfit", lang, where=where, cards=server_text(option, lang), why=_why_unfit(plan, option, lang))


def _given_text(plan: Plan, lang: Lang) -> str:
    """The headline for a given server that cannot run the job at all."""
    first = telling(plan.rejected)
    gap = base.needed_had_text(first.criterion, first.needed, first.had, lang, currency=plan.workload.currency)
    return given_text(plan, first, _criterion_text(first.criterion, lang), gap, lang)


def _why_unfit(plan: Plan, option: Option, lang: Lang) -> str:
    failed = {rejection.criterion: rejection for rejection in plan.rejected}
    fields = _margins(option)
    if "host_memory" in failed:
        return say("host.unfit_ram", lang, **fields)
    if "gpu_memory" in failed:
        return say("host.unfit_card", lang, **{**fields, "card": base.field_text("limit_bytes", failed["gpu_memory"].needed, lang)})
    return say("host.unfit_other", lang)


def host_option_text(option: Option, workload: Any, lang: Lang) -> OptionText:
    """One option in words."""
    return worded(
        option,
        workload,
        lang,
        host_renderer(lang, currency=workload.currency),
        headline=server_headline(option, lang, currency=workload.currency),
        outcome=outcome_text(option, lang, currency=workload.currency),
        setup=setup_text(option, lang),
        speed=speed_text(option, lang),
        margin=say("host.margin_gpu" if _on_gpu(option) else "host.margin", lang, **_margins(option)),
        memory=_terms(option.memory_terms, "memory", lang, q.memory_text),
        time=_terms(option.time_terms, "time", lang, lambda value: q.duration_text(value, lang)),
    )


def _on_gpu(option: Option) -> bool:
    return isinstance(option.layout, HostLayout) and option.layout.device == GPU


def outcome_text(option: Option, lang: Lang, *, currency: str) -> str:
    """How long the job takes and what it costs, with 80 % intervals."""
    time, cost, known = option.estimate["total_time_s"], option.cost.total, option.facts
    return say(
        f"host.outcome_{known['job']}{'' if is_priced(option) else '_unpriced'}",
        lang,
        name=known["name"],
        rows=q.count_text(known["rows"], lang),
        cols=q.plain(known["cols"], 6),
        data=q.data_text(known["data_bytes"]),
        time=q.duration_text(time.mid, lang),
        low=q.duration_text(time.low80, lang),
        high=q.duration_text(time.high80, lang),
        work=q.duration_text(option.estimate["work_s"].mid, lang),
        cost=q.money_text(cost.mid, currency),
        cost_low=q.money_text(cost.low80, currency),
        cost_high=q.money_text(cost.high80, currency),
    )


def setup_text(option: Option, lang: Lang) -> str:
    """Library, and the processors or GPUs that it uses."""
    layout = option.layout
    assert isinstance(layout, HostLayout)
    key = "gpu" if layout.device == GPU else "cpu" if option.nodes == 1 else "cpu_each"
    return say(
        f"host.setup_{key}",
        lang,
        library=layout.library,
        threads=layout.threads,
        vcpus=q.plain(option.vcpus),
        cards=layout.cards,
        count=option.accelerator.count_per_node,
        nodes=option.nodes,
    )


def speed_text(option: Option, lang: Lang) -> str:
    """Rows or bytes per second."""
    if option.facts["job"] == _PREPARE:
        return say("host.speed_bytes", lang, rate=q.data_text(option.estimate["bytes_per_s"].mid))
    return say("host.speed_rows", lang, rate=q.count_text(option.estimate["rows_per_s"].mid, lang))


def _margins(option: Option) -> dict[str, str]:
    known = option.facts
    return {
        "ram": q.memory_text(option.estimate["host_memory_bytes"].mid),
        "needed": q.memory_text(known["ram_needed_bytes"]),
        "limit": q.memory_text(known["ram_capacity_bytes"]),
        "card": q.memory_text(option.estimate["peak_memory_bytes"].mid),
        "card_limit": q.memory_text(known["capacity_bytes"]),
    }


def _terms(values: Mapping[str, float], kind: str, lang: Lang, text: Callable[[float], str]) -> tuple[Term, ...]:
    """The parts of a sum, largest first."""
    return terms(values, lang, text, named=lambda name: say_or(f"host.{kind}_{name}", lang, name.replace("_", " ")))


def host_assumption_text(assumption: Assumption, lang: Lang) -> str:
    """One default that was taken, and why."""
    value = (
        q.data_text(float(assumption.value))
        if assumption.field == "data_bytes"
        else base.field_text(assumption.field, assumption.value, lang)
    )
    return say("choice.assumed", lang, field=assumption.field, value=value, why=host_renderer(lang)(assumption.why))


def host_rejection_lines(rejection: Rejection, lang: Lang, *, currency: str = "usd") -> list[str]:
    """A criterion with how many offers it refused, and its nearest miss with the least change that would let it pass."""
    render = host_renderer(lang, currency=currency)
    return refusal_lines(rejection, _criterion_text(rejection.criterion, lang), render, lang, currency=currency)


def _criterion_text(criterion: str, lang: Lang) -> str:
    return say_or(f"host.refused_{criterion}", lang, base.criterion_text(criterion, lang))
