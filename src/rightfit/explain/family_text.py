"""A plan of classical machine learning or data preparation in words. Frames are those of plan_text,
so the faces draw them alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from rightfit.errors import UnavailableError
from rightfit.explain import plan_words
from rightfit.explain import quantities as q
from rightfit.explain import reasons as base
from rightfit.explain.amounts import table_text
from rightfit.explain.messages import family_topic, family_topics, fields_of, has, say, say_or, topic
from rightfit.explain.plan_words import OptionText, Term, given_text, refusal_lines, telling, terms, worded
from rightfit.explain.quantities import is_priced, server_headline, server_text
from rightfit.families.tables.match import GPU, HostLayout
from rightfit.messages import Lang
from rightfit.records import dataclass
from rightfit.search.answer import Assumption, Option, Plan, Reason, Rejection
from rightfit.search.constraints import WISHES

_PREPARE = "prepare"


def host_renderer(lang: Lang, *, currency: str = "usd") -> Callable[[Reason], str]:
    """The function that turns reasons of host plans into sentences; others are left to
    the general renderer."""

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


def host_nothing_text(plan: Plan, lang: Lang) -> str:
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
        outcome=outcome_text(option, workload, lang, currency=workload.currency),
        setup=setup_text(option, lang),
        speed=speed_text(option, lang),
        margin=say("host.margin_gpu" if _on_gpu(option) else "host.margin", lang, **_margins(option)),
        memory=_terms(option.memory_terms, "memory", lang, q.memory_text),
        time=_terms(option.time_terms, "time", lang, lambda value: q.duration_text(value, lang)),
    )


def _on_gpu(option: Option) -> bool:
    return isinstance(option.layout, HostLayout) and option.layout.device == GPU


def outcome_text(option: Option, workload: Any, lang: Lang, *, currency: str) -> str:
    """How long the job takes and what it costs, with 80 % intervals."""
    time, cost, known = option.estimate["total_time_s"], option.cost.total, option.facts
    money = q.cost_texts(cost.mid, cost.low80, cost.high80, lang, currency=currency)
    return say(
        f"host.outcome_{known['job']}{'' if is_priced(option) else '_unpriced'}",
        lang,
        name=known["name"],
        amount=table_text(option, workload, lang),
        time=q.duration_text(time.mid, lang),
        low=q.duration_text(time.low80, lang),
        high=q.duration_text(time.high80, lang),
        work=q.duration_text(option.estimate["work_s"].mid, lang),
        cost=money[0],
        cost_low=money[1],
        cost_high=money[2],
        beyond=plan_words.beyond_text(option, lang, currency=currency),
    )


def setup_text(option: Option, lang: Lang) -> str:
    """Library, and the processors or GPUs that it uses."""
    layout = option.layout
    assert isinstance(layout, HostLayout)
    key = "gpu" if layout.device == GPU else "cpu" if option.nodes == 1 else "cpu_each"
    disk = option.estimate["disk_bytes"].mid if "disk_bytes" in option.estimate and option.facts["job"] == "prepare" else 0.0
    key += "_disk" if disk > 0 and key == "cpu" else ""
    return say(
        f"host.setup_{key}",
        lang,
        disk=q.data_text(disk),
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


def host_assumption_text(assumption: Assumption, lang: Lang, currency: str = "usd") -> str:
    """One default that was taken, and why."""
    value = (
        q.data_text(float(assumption.value))
        if assumption.field == "data_bytes"
        else base.field_text(assumption.field, assumption.value, lang)
    )
    return base.assumed_text(assumption.field, value, host_renderer(lang, currency=currency)(assumption.why), lang)


def host_rejection_lines(rejection: Rejection, lang: Lang, *, currency: str = "usd") -> list[str]:
    """A criterion with how many offers it refused, and its nearest miss with the least change that
    would let it pass."""
    render = host_renderer(lang, currency=currency)
    return refusal_lines(rejection, _criterion_text(rejection.criterion, lang), render, lang, currency=currency)


def _criterion_text(criterion: str, lang: Lang) -> str:
    return say_or(f"host.refused_{criterion}", lang, base.criterion_text(criterion, lang))


# ---- The words of a family of work that brings no code here: data/families/NAME.toml, within the
# frames that all plans share.
#
# outcome, setup, speed         what an option does and what that takes; how it runs; how fast
#                               (needed)
# outcome_unpriced              the same without money, for a server without price
# margin                        how full the memory is, where the shared sentence does not suit
# time_TERM, memory_TERM        what the terms are called, where terms.toml does not name them
# KEY                           the sentence of a reason of the family's own, by its key
#
# Their fields: `model`, `operation`, `machine`, `nodes`; every fact and every word of the layout by
# its name; every figure of the estimate and `total_usd`, each also as NAME_low and NAME_high, the
# ends of its 80 % interval. Numbers come with the unit that their names end in.

NEEDED = ("outcome", "setup", "speed")


def lacking(family: str) -> str:
    """What is missing of the words of a family, in one line; empty where nothing is."""
    file = f"explain/data/families/{family}.toml"
    if family_topic(family) not in family_topics():
        return f"{file} is missing: it words {', '.join(NEEDED)} and the family's own reasons"
    missing = [key for key in NEEDED if key not in topic(family_topic(family))]
    return f"{file} lacks {', '.join(missing)}" if missing else ""


@dataclass(frozen=True, slots=True)
class FamilyWords:
    """How plans of one family are put in words."""

    family: str

    def __post_init__(self) -> None:
        if line := lacking(self.family):
            raise UnavailableError(line)

    def key(self, name: str) -> str:
        """The key of a message of the family's own."""
        return f"{family_topic(self.family)}.{name}"

    def renderer(self, lang: Lang, *, currency: str = "usd") -> Callable[[Reason], str]:
        """Reasons as sentences: the family's own, else those of all."""

        def render(reason: Reason) -> str:
            if not has(self.key(reason.key)):
                return base.render(reason, lang, currency=currency)
            texts = {name: figure_text(name, value, lang, currency=currency) for name, value in reason.params.items()}
            if "instance_type" in reason.params:
                texts["where"] = base.where_text(reason.params, lang)
            return say(self.key(reason.key), lang, **texts)

        return render

    def option_text(self, option: Option, workload: Any, lang: Lang) -> OptionText:
        """One option in words."""
        render, fields = self.renderer(lang, currency=workload.currency), option_fields(option, workload, lang)
        own = {name: say(self.key(name), lang, **fields) for name in NEEDED}
        if not is_priced(option) and has(self.key("outcome_unpriced")):
            own["outcome"] = say(self.key("outcome_unpriced"), lang, **fields)
        return plan_words.worded(
            option,
            workload,
            lang,
            render,
            headline=server_headline(option, lang, currency=workload.currency),
            **own,
            margin=say(self.key("margin"), lang, **fields) if has(self.key("margin")) else margin_text(option, lang),
            memory=self.terms(option.memory_terms, "memory", lang, q.memory_text),
            time=self.terms(option.time_terms, "time", lang, lambda value: q.duration_text(value, lang)),
            on_processors=not option.accelerator.name,
        )

    def terms(self, values: Mapping[str, float], kind: str, lang: Lang, text: Callable[[float], str]) -> tuple[Term, ...]:
        """The parts of a sum, largest first."""
        return plan_words.terms(values, lang, text, named=lambda name: self.term_text(name, kind, lang))

    def term_text(self, name: str, kind: str, lang: Lang) -> str:
        """What a term is called: by the family, else by all."""
        return say_or(self.key(f"{kind}_{name}"), lang, base.term_text(name, lang, kind=kind))

    def assumption_text(self, assumption: Assumption, lang: Lang, currency: str = "usd") -> str:
        """One default that was taken, and why."""
        value = figure_text(assumption.field, assumption.value, lang)
        return base.assumed_text(assumption.field, value, self.renderer(lang, currency=currency)(assumption.why), lang)


def family_nothing_text(plan: Plan, lang: Lang) -> str:
    """The headline where nothing is feasible; of a given server, what keeps the job
    from running on it."""
    physical = tuple(rejection for rejection in plan.rejected if rejection.criterion not in WISHES)
    return plan_words.nothing_text(dataclasses.replace(plan, unfit=None, rejected=physical or plan.rejected), lang)


def option_fields(option: Option, workload: Any, lang: Lang) -> dict[str, str]:
    """All that the words of an option may name, as texts."""
    figures = {**option.estimate, "total_usd": option.cost.total}
    values = {
        **{name: value for name, value in option.facts.items() if isinstance(value, str | int | float)},
        **option.layout.to_dict(),
        **{name: figure.mid for name, figure in figures.items()},
        "model": workload.model,
        "operation": workload.operation or "",
        "nodes": option.nodes,
    }
    ends = {
        f"{name}_{end}": figure_text(name, value, lang, currency=workload.currency)
        for name, figure in figures.items()
        for end, value in (("low", figure.low80), ("high", figure.high80))
    }
    texts = {name: figure_text(name, value, lang, currency=workload.currency) for name, value in values.items()}
    texts["total_usd"] = q.cost_text(option.cost.total_usd, lang, workload.currency)
    return {**texts, **ends, "machine": server_text(option, lang)}


def figure_text(name: str, value: Any, lang: Lang, *, currency: str = "usd") -> str:
    """A value in the unit that its name ends in; of a rate what passes in a second."""
    if name.endswith("_per_s") and isinstance(value, int | float):
        return q.data_text(value) if name.startswith("bytes") else q.count_text(value, lang)
    return base.field_text(name, value, lang, currency=currency)


def margin_text(option: Option, lang: Lang) -> str:
    """How full the memory gets; empty where nothing says how much there is."""
    peak, limit = option.estimate.get("peak_memory_bytes"), option.facts.get("capacity_bytes")
    if peak is None or not limit:
        return ""
    texts = {"peak": peak.mid, "high": peak.high95, "limit": float(limit)}
    return say("choice.plain_margin", lang, **{name: q.memory_text(value) for name, value in texts.items()})
