"""A plan or a verdict as the contract's JSON document, and an option as one flat record. The one place from which every face takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rightfit.explain.checks import check_rules
from rightfit.explain.messages import Lang
from rightfit.explain.voices import voice_of
from rightfit.search.answer import Cost, summary

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.search.answer import Option, Plan
    from rightfit.search.verdict import Verdict

_PLAIN = ("rank", "provider", "region", "instance_type", "nodes", "purchase")


def plan_document(plan: Plan, lang: Lang, *, catalog: Catalog | None = None) -> dict[str, Any]:
    """The plan as in the contract, its sentences in `lang`, and what the rules of thumb say of it."""
    voice = voice_of(plan)
    currency = plan.workload.currency
    rules = check_rules(plan, catalog=catalog) if voice.is_training else ()
    return {
        **plan.to_dict(voice.renderer(lang, currency=currency)),
        "rules": [check.to_dict(lang, currency=currency) for check in rules],
    }


def verdict_document(verdict: Verdict, lang: Lang) -> dict[str, Any]:
    """Why a server was or was not chosen, as data, its sentences in `lang`."""
    return verdict.to_dict(voice_of(verdict).renderer(lang, currency=verdict.workload.currency))


def flat_option(option: Option) -> dict[str, Any]:
    """One option as one line of a table, in base units."""
    return {
        **{name: getattr(option, name) for name in _PLAIN},
        "accelerator": option.accelerator.name,
        "accelerators_per_node": option.accelerator.count_per_node,
        "vcpus": option.vcpus,
        "memory_bytes": option.memory_bytes,
        **_money(option),
        **_figures(option),
        **{f"layout_{name}": value for name, value in option.layout.to_dict().items()},
        "price_as_of": option.price_as_of,
        "price_source": option.price_source,
    }


def flat_point(option: Option) -> dict[str, Any]:
    """A point of the Pareto front as one line of a table."""
    accelerator = option.accelerator
    return {**summary(option), "accelerator": accelerator.name, "accelerators_per_node": accelerator.count_per_node}


def _money(option: Option) -> dict[str, Any]:
    cost = option.cost
    if type(cost) is Cost:
        return {"network_gbps": option.network_gbps, "hourly_usd": cost.hourly_usd, "total_usd": cost.total_usd}
    names = ("hourly_usd", "monthly_usd", "per_thousand_requests_usd", "per_million_tokens_usd")
    return {name: getattr(cost, name) for name in names}


def _figures(option: Option) -> dict[str, float]:
    """The middle and the 80 % interval of every figure."""
    return {
        key: value
        for name, figure in option.estimate.items()
        for key, value in ((name, figure.mid), (f"{name}_low80", figure.low80), (f"{name}_high80", figure.high80))
    }
