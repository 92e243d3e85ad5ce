"""Charts as one widget: points or lines in a plane, drawn by the browser from traits; the same figures as on the page."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from rightfit.errors import InputError
from rightfit.explain import quantities as q
from rightfit.explain.messages import Lang
from rightfit.messages import Message
from rightfit.units import SECONDS_PER_HOUR, currency_sign
from rightfit.web.words import word
from rightfit.workload.money import exchange_rate

if TYPE_CHECKING:
    from rightfit.search.answer import Plan

KINDS = ("offers", "scaling", "months")
MOST_POINTS = 1500
Series = dict[str, Any]


class Chart(anywidget.AnyWidget):  # type: ignore[misc]
    """`series`: name, kind ("points", "line" or "plans") and points [x, y, text, rank]. `axes`: name and whether it is logarithmic, x then y. `selected`: the rank of
    the plan that was clicked or chosen by the keyboard, 0 for none."""

    _esm = resources.files("rightfit.notebook").joinpath("data", "chart.js").read_text(encoding="utf-8")
    series = traitlets.List().tag(sync=True)
    axes = traitlets.List().tag(sync=True)
    title = traitlets.Unicode("").tag(sync=True)
    sign = traitlets.Unicode("$").tag(sync=True)
    selected = traitlets.Int(0).tag(sync=True)


def chart_of(plan: Plan, kind: str, lang: Lang) -> Chart:
    """A chart of a plan."""
    if kind not in KINDS:
        raise InputError(Message("faces.unknown_chart", word=kind[:40], names=", ".join(KINDS)), field="kind")
    series, axes, title = {"offers": _offers, "scaling": _scaling, "months": _months}[kind](plan, lang)
    return Chart(
        series=series,
        axes=axes,
        title=title,
        sign=currency_sign(plan.workload.currency),
        selected=plan.options[0].rank if plan.options else 0,
    )


def _axis(name: str, *, is_log: bool = False, is_money: bool = False) -> dict[str, Any]:
    return {"name": name, "log": is_log, "money": is_money}


def _rate(plan: Plan) -> float:
    return float(exchange_rate(plan.workload.currency).units_per_usd)


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _offers(plan: Plan, lang: Lang) -> tuple[list[Series], list[dict[str, Any]], str]:
    """A point for each feasible offer, a series for each cloud; what nothing beats as a line; the plans as numbers."""
    from rightfit.planner.field import market_field
    from rightfit.web.charts import clouds_of

    field, rate = market_field(plan.workload, most=MOST_POINTS), _rate(plan)
    is_service = plan.workload.task == "serve"
    unit_s = 1.0 if is_service else SECONDS_PER_HOUR
    series: dict[str, Series] = {
        name: {"name": q.provider_text(name, lang), "kind": "points", "points": []} for name in clouds_of(field, plan)
    }
    front = []
    for row, (provider, server, region) in enumerate(zip(field.provider, field.instance_type, field.region, strict=True)):
        text = f"{int(field.nodes[row])} × {server}, {q.region_text(region, lang)}, {q.purchase_text(field.purchase[row], lang)}"
        point = [_short(field.total_s[row] / unit_s), _short(field.total_usd[row] * rate), text, 0]
        series[provider]["points"].append(point)
        if field.is_front[row]:
            front.append([*point[:2], "", 0])
    plans = []
    for option in plan.options:
        time = option.estimate["total_time_s" if "total_time_s" in option.estimate else "latency_s"].mid
        plans.append(
            [_short(time / unit_s), _short(option.cost.total_usd * rate), f"{option.provider}/{option.instance_type}", option.rank]
        )
    drawn = [
        *series.values(),
        {"name": word("chart.front", lang), "kind": "line", "points": sorted(front)},
        {"name": word("chart.plans", lang), "kind": "plans", "points": plans},
    ]
    names = ("chart.x_request", "chart.y_month") if is_service else ("chart.x_job", "chart.y_job")
    money = word(names[1], lang, currency=plan.workload.currency.upper())
    return drawn, [_axis(word(names[0], lang), is_log=True), _axis(money, is_log=True, is_money=True)], word("chart.heading", lang)


def _scaling(plan: Plan, lang: Lang) -> tuple[list[Series], list[dict[str, Any]], str]:
    """How much faster (a service: how many more requests) with more of the best server, beside the ideal."""
    from rightfit.planner.scaling import scaling

    found = scaling(plan.workload, on=f"{plan.options[0].provider}/{plan.options[0].instance_type}") if plan.options else ()
    name = "chart.scale_capacity" if found and found[0].requests_per_s is not None else "chart.scale_speed"
    lines = []
    if found:
        planned = [[point.nodes, _short(point.gain), "", 0] for point in found]
        ideal = [[point.nodes, _short(point.nodes / found[0].nodes), "", 0] for point in found]
        lines = [(word("chart.planned", lang), planned), (word("chart.ideal", lang), ideal)]
    series: list[Series] = [{"name": title, "kind": "line", "points": points} for title, points in lines]
    return series, [_axis(word("chart.servers", lang)), _axis("×")], word(name, lang)


def _months(plan: Plan, lang: Lang) -> tuple[list[Series], list[dict[str, Any]], str]:
    """What is owed for the best server by months of use, a line for each way to pay."""
    from rightfit import lookup
    from rightfit.explain.buy_curves import owed_curves

    rate = _rate(plan)
    series: list[Series] = []
    for best in plan.options[:1]:
        for curve in owed_curves(lookup.ways_to_buy(f"{best.provider}/{best.instance_type}", region=best.region)):
            points = [[month, _short(usd * rate), "", 0] for month, usd in zip(curve.months, curve.usd, strict=True)]
            series.append({"name": q.purchase_text(curve.purchase, lang), "kind": "line", "points": points})
    money = plan.workload.currency.upper()
    return series, [_axis(word("chart.months", lang)), _axis(money, is_money=True)], word("chart.owed", lang)
