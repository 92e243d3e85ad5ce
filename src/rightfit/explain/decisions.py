"""The decisions that posts draw as flow charts, drawn for a job: every branch, its own lit, each
threshold worked out (data/decisions.toml)."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rightfit.explain import quantities as q
from rightfit.explain.listings import volume_text
from rightfit.explain.market_statements import judge_statement
from rightfit.explain.messages import topic
from rightfit.explain.trials import need_on_one_card
from rightfit.facts.expressions import Expression, expression
from rightfit.messages import LANGS, Lang
from rightfit.planner.typical import decide

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult
    from rightfit.search.answer import Option, Plan

_METHODS = ("full", "lora", "qlora")


def _table() -> Mapping[str, Any]:
    return topic("decisions")


@functools.cache
def chart_words() -> tuple[Expression, ...]:
    """How people ask for the charts."""
    return tuple(expression(word) for word in _table()["asked"]["words"])


def chart_lookup(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The decisions drawn for a usual job, where a sentence asks for nothing else."""
    from rightfit.market.verdicts import CheckResult
    from rightfit.planner.plan import plan
    from rightfit.workload import Workload

    if not any(pattern.fullmatch(sentence.strip(" ,，。?？!")) for pattern in chart_words()):
        return None
    found = plan(Workload(**_table()["asked"]["example"]), catalog=catalog, top=1)
    told = {lang: "\n".join(decision_lines(found, catalog, lang)) for lang in LANGS}
    return CheckResult(sentence, "term", True, None, {"id": "decisions"}, (), told["en"], told["zh"])


def decision_lines(plan: Plan, catalog: Catalog, lang: Lang) -> list[str]:
    """The charts for a plan with an option: head, then each question with its branches."""
    best = plan.best
    if best is None:
        return []
    model = str(plan.workload.model or plan.workload.operation).rsplit("/", 1)[-1]
    lines = [_table()["head"][lang].format(job=model)]
    for name, (lit, fields) in _lit(plan, best, catalog).items():
        chart = _table()[name]
        lines.append(chart[lang].format(**fields))
        lines += [_branch(text[lang].format(**fields), is_lit=branch == lit) for branch, text in chart["branches"].items()]
    if plan.workload.data_bytes or best.data_path.get("dataset_bytes"):
        size = float(plan.workload.data_bytes or best.data_path["dataset_bytes"])
        lines.append(_table()["volume"][lang])
        lines += [_branch(step.span_text, is_lit=step.holds) for step in volume_text(decide(size, [best], catalog), lang).steps]
    return lines


def _branch(text: str, *, is_lit: bool) -> str:
    return f"  {'->' if is_lit else '  '} {text}"


def _lit(plan: Plan, best: Option, catalog: Catalog) -> dict[str, tuple[str, dict[str, str]]]:
    """The charts that speak about a job: its branch, and the fields of the texts."""
    workload = plan.workload
    task = {"serve": "serve", "batch": "serve", "prepare": "prepare"}.get(str(workload.task), "train")
    charts: dict[str, tuple[str, dict[str, str]]] = {"task": (task, {}), "device": ("gpu" if best.num_accelerators else "cpu", {})}
    if workload.task == "finetune" and best.layout.method in _METHODS:
        charts["method"] = (best.layout.method, {name: _need(plan, catalog, method=name) for name in _METHODS})
    if task == "train" and best.num_accelerators:
        lit = "one" if best.num_accelerators == 1 else "several" if best.nodes == 1 else "servers"
        charts["cards"] = (lit, {"need": _need(plan, catalog), "card": q.memory_text(best.accelerator.memory_bytes)})
    hours = judge_statement("market_subscription_for_long_use", catalog).figures["hours"]
    way = best.purchase if best.purchase in ("spot", "on-demand") else "committed"
    charts["purchase"] = (way, {"hours": f"{hours:.0f}"})
    return charts


def _need(plan: Plan, catalog: Catalog, **changes: Any) -> str:
    workload = plan.workload.with_changes(**changes, optimizer=None) if changes else plan.workload
    need = need_on_one_card(workload, catalog=catalog)
    return "?" if math.isnan(need) else q.memory_text(need)
