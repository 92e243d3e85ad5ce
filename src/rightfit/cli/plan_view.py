"""A plan on the screen: the choice in words, the options as a table, then what it is made of and what was refused."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.cli.buy_view import buy_parts
from rightfit.cli.labels import Lang, label
from rightfit.cli.output import Answer, View
from rightfit.cli.tables import Column, Table
from rightfit.explain import quantities as q
from rightfit.explain import renderer
from rightfit.explain.advice import advise
from rightfit.explain.checks import check_rules
from rightfit.explain.plan_text import OptionText, PlanText, Term, assumption_text, layout_text, option_text, plan_text, rejection_lines
from rightfit.units import format_duration

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.search.answer import Option, Plan, Rejection
    from rightfit.search.single import Verdict

_CHOICE_REASONS = {"cheapest", "fastest", "balanced"}
_BAR_WIDTH = 30
_MOST_TERMS = 6
_MOST_REFUSALS = 4
_SMALLEST_SHARE = 1e-3


def plan_answer(plan: Plan, view: View, *, catalog: Catalog | None = None) -> Answer:
    """A plan for people and programs."""
    if is_host_plan(plan):
        from rightfit.cli.host_view import host_answer

        return host_answer(plan, view)
    if plan.workload.task in ("serve", "batch"):
        from rightfit.cli.serving_view import serving_answer

        return serving_answer(plan, view)
    if not view.is_machine:
        return Answer(None, [], list(_plan_parts(plan, plan_text(plan, view.lang), view, catalog=catalog)))
    currency = plan.workload.currency
    rules = [check.to_dict(view.lang, currency=currency) for check in check_rules(plan, catalog=catalog)]
    data = {**plan.to_dict(renderer(view.lang, currency=currency)), "rules": rules}
    return Answer(data, [flat_option(option) for option in plan.options], [])


def is_host_plan(plan: Plan | Verdict) -> bool:
    """Whether an answer is about classical machine learning or data preparation; embedding is answered as a batch of inference."""
    from rightfit.search.host_names import is_host_work

    return is_host_work(plan.workload) and "embed" not in (plan.workload.operation or "").casefold()


def _plan_parts(plan: Plan, text: PlanText, view: View, *, catalog: Catalog | None) -> Iterable[str | Table]:
    currency = plan.workload.currency
    shown = text.best or text.unfit
    yield choice(text.best) if text.best else "\n".join(line for line in (text.headline, text.blame) if line)
    if len(plan.options) > 1:
        yield options_table(plan, view)
    if shown is not None:
        yield from _option_parts(shown, view, currency=currency)
    yield from buy_parts(plan, view, renderer(view.lang, currency=currency))
    yield from _sections(view, faster=text.faster, advice=text.advice, assumed=text.assumptions)
    yield from refusals(plan.rejected, view, currency=currency, everything=view.verbose or plan.best is None)
    if view.verbose:
        yield from _sections(view, smaller=[effect.text(view.lang) for effect in advise(plan, catalog=catalog)])
        yield from _sections(view, rules=[check.text(view.lang, currency=currency) for check in check_rules(plan, catalog=catalog)])
    yield text.considered


def estimate_answer(plan: Plan, view: View, *, catalog: Catalog | None = None) -> Answer:
    """One given server: as a plan, but nothing was chosen, so no reason of a choice is given."""
    if plan.workload.task in ("serve", "batch"):
        from rightfit.cli.serving_single_view import serving_estimate_answer

        return serving_estimate_answer(plan, view)
    options = tuple(without_choice(option, fits=True) for option in plan.options)
    unfit = plan.unfit and without_choice(plan.unfit, fits=False)
    return plan_answer(dataclasses.replace(plan, options=options, unfit=unfit), view, catalog=catalog)


def without_choice(option: Option, *, fits: bool) -> Option:
    """The option without the reasons that compare it with others, and, where the job does not fit, without those that say it does."""
    dropped = _CHOICE_REASONS if fits else {*_CHOICE_REASONS, "fits", "deadline_met", "budget_met"}
    return dataclasses.replace(option, why=tuple(reason for reason in option.why if reason.key not in dropped))


def verdict_answer(verdict: Verdict, view: View) -> Answer:
    """Why a server was or was not chosen, and what it would do."""
    if verdict.workload.task in ("serve", "batch"):
        from rightfit.cli.serving_single_view import serving_verdict_answer

        return serving_verdict_answer(verdict, view)
    if is_host_plan(verdict):
        from rightfit.cli.host_view import host_verdict_answer

        return host_verdict_answer(verdict, view)
    currency = verdict.workload.currency
    render = renderer(view.lang, currency=currency)
    if view.is_machine:
        return Answer(verdict.to_dict(render), [flat_option(verdict.option)] if verdict.option else [], [])
    return Answer(None, [], list(_verdict_parts(verdict, view, render, currency=currency)))


def _verdict_parts(verdict: Verdict, view: View, render: Callable[[Any], str], *, currency: str) -> Iterable[str | Table]:
    name = f"{verdict.provider}/{verdict.instance_type}"
    head = label("why", "fits" if verdict.fits else "does_not_fit", view.lang, name=name, model=verdict.workload.model)
    yield "\n".join([head, *(f"- {render(reason)}" for reason in verdict.standing)])
    if len(verdict.failed) > 1 or view.verbose:
        yield from refusals(verdict.failed, view, currency=currency, everything=True)
    if verdict.option is not None:
        text = option_text(without_choice(verdict.option, fits=verdict.fits), verdict.workload, view.lang)
        lines = choice(text).splitlines()
        head = label("why", "best_setup" if verdict.fits else "leanest_setup", view.lang)
        yield "\n".join([head, *([f"  {lines[0]}"] if verdict.fits else []), *lines[1:]])
        yield from _option_parts(text, view, currency=currency)
    yield from _sections(view, assumed=[assumption_text(assumption, view.lang) for assumption in verdict.assumptions])


def refusals(rejected: Sequence[Rejection], view: View, *, currency: str, everything: bool) -> Iterable[str]:
    """What was refused and how little it lacked; `everything`, or the criteria that alone exclude most."""
    lines = []
    for rejection in rejected if everything else sorted(rejected, key=lambda one: -one.alone)[:_MOST_REFUSALS]:
        first, *more = rejection_lines(rejection, view.lang, currency=currency)
        lines += [f"- {first}", *(f"    {line}" for line in more)]
    if lines:
        yield "\n".join([label("section", "refused", view.lang), *lines])


def choice(text: OptionText) -> str:
    """What to rent, and what to expect of it."""
    return "\n".join([text.headline, *(f"  {line}" for line in (text.outcome, text.setup, text.speed, text.margin, text.priced) if line)])


def _option_parts(text: OptionText, view: View, *, currency: str) -> Iterable[str | Table]:
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
    yield from _sections(view, data_path=text.data)


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
        Column("instance_type", flexible=True),
        Column("region", drop=3),
        Column("gpus"),
        Column("purchase"),
        Column("hourly", money, right=True, drop=1),
        Column("total_time", format_duration, right=True),
        Column("total", right=True),
        Column("peak", q.memory_text, right=True, drop=4),
        Column("layout", drop=6),
        Column("as_of", drop=2),
    )
    return Table(columns, [_option_record(option, view.lang, currency) for option in plan.options])


def _option_record(option: Option, lang: Lang, currency: str) -> dict[str, Any]:
    nodes = f"{option.nodes}x " if option.nodes > 1 else ""
    return {
        "rank": option.rank,
        "instance_type": f"{nodes}{option.provider}/{option.instance_type}",
        "region": option.region,
        "gpus": f"{option.num_accelerators}x {option.accelerator.name}",
        "purchase": q.purchase_text(option.purchase, lang),
        "hourly": option.cost.hourly_usd,
        "total_time": option.estimate["total_time_s"].mid,
        "total": total_text(option, currency),
        "peak": option.estimate["peak_memory_bytes"].mid,
        "layout": layout_text(option.layout, lang),
        "as_of": dated_text(option, lang),
    }


def total_text(option: Option, currency: str) -> str:
    """The total; of an estimated price also what the option is ranked by."""
    total = str(q.money_text(option.cost.total_usd, currency))
    if not option.facts.get("is_estimate"):
        return total
    return f"~{total} (<{q.money_text(option.facts['price']['ranked_usd'], currency)})"


def dated_text(option: Option, lang: Lang) -> str:
    """The date of the price, and whether it is old."""
    return option.price_as_of + (label("remark", "is_old", lang) if option.facts.get("is_stale") else "")


def terms_table(name: str, terms: Sequence[Term], lang: Lang, *, show: Callable[[Any], str], most: int | None) -> Table:
    """The parts of a sum, largest first, each with its share as a bar; the small ones are folded into one line."""
    large = tuple(term for term in terms if abs(term.share) >= _SMALLEST_SHARE)
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
