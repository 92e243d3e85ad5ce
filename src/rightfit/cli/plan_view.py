"""A plan on the screen: the choice in words, the options as a table, then what it is made of and what was refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.cli.labels import Lang, label
from rightfit.cli.output import Answer, View
from rightfit.cli.tables import Column, Table
from rightfit.explain import quantities as q
from rightfit.explain import renderer
from rightfit.explain.plan_text import OptionText, PlanText, Term, layout_text, option_text, plan_text, rejection_lines

if TYPE_CHECKING:
    from rightfit.search.answer import Option, Plan

_BAR_WIDTH = 30
_MOST_TERMS = 6
_MOST_REFUSALS = 4
_SMALLEST_SHARE = 1e-3


def plan_answer(plan: Plan, view: View) -> Answer:
    """A plan for people and programs."""
    if view.is_machine:
        render = renderer(view.lang, currency=plan.workload.currency)
        return Answer(plan.to_dict(render), [flat_option(option) for option in plan.options], [])
    return Answer(None, [], list(_plan_parts(plan, plan_text(plan, view.lang), view)))


def _plan_parts(plan: Plan, text: PlanText, view: View) -> Iterable[str | Table]:
    if text.best is not None and plan.best is not None:
        yield choice(text.best)
    else:
        yield "\n".join(line for line in (text.headline, text.blame) if line)
    if len(plan.options) > 1:
        yield options_table(plan, view)
    if text.best is not None:
        yield from _best_parts(text.best, view, currency=plan.workload.currency)
    yield from _sections(
        view,
        faster=text.faster,
        advice=text.advice,
        assumed=text.assumptions,
    )
    yield from refusals(plan, view)
    yield text.considered


def refusals(plan: Plan, view: View) -> Iterable[str]:
    """What was refused and how little it lacked: everything when asked or when nothing is left, else what most offers failed."""
    kept = plan.rejected if view.verbose or plan.best is None else sorted(plan.rejected, key=lambda one: -one.alone)[:_MOST_REFUSALS]
    lines = []
    for rejection in kept:
        first, *more = rejection_lines(rejection, view.lang, currency=plan.workload.currency)
        lines += [f"- {first}", *(f"    {line}" for line in more)]
    if lines:
        yield "\n".join([label("section", "refused", view.lang), *lines])


def option_answer(plan: Plan, option: Option, view: View) -> Answer:
    """One given server, all of it."""
    if view.is_machine:
        render = renderer(view.lang, currency=plan.workload.currency)
        return Answer(option.to_dict(render), [flat_option(option)], [])
    text = option_text(option, plan.workload, view.lang)
    assumed = plan_text(plan, view.lang).assumptions
    return Answer(None, [], [choice(text), *_best_parts(text, view, currency=plan.workload.currency), *_sections(view, assumed=assumed)])


def choice(text: OptionText) -> str:
    """What to rent, and what to expect of it."""
    return "\n".join([text.headline, *(f"  {line}" for line in (text.outcome, text.setup, text.speed, text.margin, text.priced) if line)])


def _best_parts(text: OptionText, view: View, *, currency: str) -> Iterable[str | Table]:
    yield from _sections(view, why=text.why, warnings=text.warnings)
    most = None if view.verbose else _MOST_TERMS
    breakdowns: tuple[tuple[str, Sequence[Term], Callable[[Any], str]], ...] = (
        ("memory", text.memory, q.memory_text),
        ("time", text.time, lambda value: q.duration_text(value, view.lang)),
        ("cost", text.cost, lambda value: q.money_text(value, currency)),
    )
    for name, terms, show in breakdowns:
        if terms:
            yield terms_table(name, terms, view.lang, show=show, most=most)


def _sections(view: View, **groups: Sequence[str]) -> Iterable[str]:
    """Headed lists; empty ones are left out."""
    for name, lines in groups.items():
        if lines:
            yield "\n".join([label("section", name, view.lang), *(f"- {line}" for line in lines)])


def options_table(plan: Plan, view: View) -> Table:
    """The ranked options, one a line."""
    currency = plan.workload.currency

    def money(value: float) -> str:
        return str(q.money_text(value, currency))

    columns = (
        Column("rank", right=True),
        Column("instance_type"),
        Column("region", drop=3),
        Column("gpus"),
        Column("purchase"),
        Column("hourly", money, right=True),
        Column("total_time", lambda value: q.duration_text(value, view.lang), right=True),
        Column("total", money, right=True),
        Column("peak", q.memory_text, right=True, drop=4),
        Column("layout", drop=6),
        Column("as_of", drop=2),
    )
    return Table(columns, [_option_record(option, view.lang) for option in plan.options])


def _option_record(option: Option, lang: Lang) -> dict[str, Any]:
    nodes = f"{option.nodes} x " if option.nodes > 1 else ""
    return {
        "rank": option.rank,
        "instance_type": f"{nodes}{option.provider}/{option.instance_type}",
        "region": option.region,
        "gpus": f"{option.num_accelerators} x {option.accelerator.name}",
        "purchase": q.purchase_text(option.purchase, lang),
        "hourly": option.cost.hourly_usd,
        "total_time": option.estimate["total_time_s"].mid,
        "total": option.cost.total_usd,
        "peak": option.estimate["peak_memory_bytes"].mid,
        "layout": layout_text(option.layout, lang),
        "as_of": option.price_as_of,
    }


def terms_table(name: str, terms: Sequence[Term], lang: Lang, *, show: Callable[[Any], str], most: int | None) -> Table:
    """The parts of a sum, largest first, each with its share as a bar; the small ones are folded into one line."""
    large = tuple(term for term in terms if term.share >= _SMALLEST_SHARE)
    kept = large[:most] if most is not None and len(large) > most + 1 else large
    shown: list[dict[str, Any]] = [{"term": term.label, "value": term.value, "share": term.share} for term in kept]
    rest = terms[len(kept) :]
    if rest:
        value, share = sum(term.value for term in rest), sum(term.share for term in rest)
        shown.append({"term": label("section", "other_terms", lang, count=len(rest)), "value": value, "share": share})
    columns = (
        Column("term"),
        Column("value", show, right=True),
        Column("share", q.percent_text, right=True),
        Column("bar", drop=1),
    )
    return Table(columns, [{**record, "bar": bar(record["share"])} for record in shown], title=label("section", name, lang))


def bar(share: float) -> str:
    """A share as a bar of blocks, or of # where the terminal cannot show them."""
    block = "█" if (getattr(sys.stdout, "encoding", "") or "").lower().startswith("utf") else "#"
    return block * max(1, round(share * _BAR_WIDTH)) if share > 0 else ""


def flat_option(option: Option) -> dict[str, Any]:
    """One option as one line of a table, in base units."""
    plain = ("rank", "provider", "region", "instance_type", "nodes", "purchase")
    figures = {
        key: value
        for name, figure in option.estimate.items()
        for key, value in ((name, figure.mid), (f"{name}_low80", figure.low80), (f"{name}_high80", figure.high80))
    }
    return {
        **{name: getattr(option, name) for name in plain},
        "accelerator": option.accelerator.name,
        "accelerators_per_node": option.accelerator.count_per_node,
        "vcpus": option.vcpus,
        "memory_bytes": option.memory_bytes,
        "network_gbps": option.network_gbps,
        "hourly_usd": option.cost.hourly_usd,
        "total_usd": option.cost.total_usd,
        **figures,
        **{f"layout_{name}": value for name, value in option.layout.to_dict().items()},
        "price_as_of": option.price_as_of,
        "price_source": option.price_source,
    }
