"""The words of a family of work that brings no code here: data/families/NAME.toml, within the frames that all plans share.

outcome, setup, speed         what an option does and what that takes; how it runs; how fast (needed)
outcome_unpriced              the same without money, for a server without price
margin                        how full the memory is, where the shared sentence does not suit
time_TERM, memory_TERM        what the terms are called, where terms.toml does not name them
KEY                           the sentence of a reason of the family's own, by its key

Their fields: `model`, `operation`, `machine`, `nodes`; every fact and every word of the layout by its name; every figure of the estimate
and `total_usd`,
each also as NAME_low and NAME_high, the ends of its 80 % interval. Numbers come with the unit that their names end in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from rightfit.errors import UnavailableError
from rightfit.explain import plan_words
from rightfit.explain import quantities as q
from rightfit.explain import reasons as base
from rightfit.explain.messages import Lang, family_topic, family_topics, has, say, say_or, topic
from rightfit.explain.plan_words import OptionText, Term
from rightfit.explain.server_words import is_priced, server_headline, server_text
from rightfit.records import dataclass
from rightfit.search.answer import Assumption, Option, Plan, Reason
from rightfit.search.constraints import WISHES

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

    def assumption_text(self, assumption: Assumption, lang: Lang) -> str:
        """One default that was taken, and why."""
        value = figure_text(assumption.field, assumption.value, lang)
        return say("choice.assumed", lang, field=assumption.field, value=value, why=self.renderer(lang)(assumption.why))


def nothing_text(plan: Plan, lang: Lang) -> str:
    """The headline where nothing is feasible; of a given server, what keeps the job from running on it."""
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
