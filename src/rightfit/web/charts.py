"""Charts as options of ECharts: where things go and what they are called. Figures come as they are
from search and explain; colours from the style sheet."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rightfit.explain import quantities as q
from rightfit.messages import Lang
from rightfit.units import currency_sign
from rightfit.web.words import word
from rightfit.workload.amounts import exchange_rate

if TYPE_CHECKING:
    from rightfit.explain.listings import BuyCurve, OwedCurve
    from rightfit.planner.given import ScalePoint
    from rightfit.planner.plan import Field
    from rightfit.search.answer import Plan

NUM_COLOURS = 6
#: Marks of the chart, in the order in which they are taken: each has the shape of its name
#: in the style sheet.
MARKS = ("circle", "triangle", "diamond", "rect", "pin")


def colour(name: str) -> str:
    """A colour of the style sheet, looked up by the browser when it draws."""
    return f"getComputedStyle(document.body).getPropertyValue('--{name}').trim()"


def colour_of(position: int) -> str:
    """The colour of a cloud; those beyond the colours begin again with another mark."""
    return f"c{position % NUM_COLOURS + 1}"


def mark_of(position: int) -> str:
    """The mark of a cloud in the chart."""
    return MARKS[position // NUM_COLOURS % len(MARKS)]


def clouds_of(field: Field, plan: Plan) -> list[str]:
    """Clouds of the ranked plans in their order, then the others by how many offers they
    have in the field."""
    counts: dict[str, int] = {}
    for name in field.provider:
        counts[name] = counts.get(name, 0) + 1
    ranked = dict.fromkeys(option.provider for option in plan.options if option.provider in counts)
    return [*ranked, *sorted(counts.keys() - ranked.keys(), key=lambda name: (-counts[name], name))]


def field_chart(field: Field, plan: Plan, lang: Lang, *, hidden: Sequence[str] = ()) -> dict[str, Any]:
    """Cost against time: a point for each feasible offer, one series a cloud; the front as a line;
    the ranked plans on top.

    A point is [time, money, row of the field]; a plan is [time, money, rank].
    """
    service = plan.workload.task == "serve"
    rate, unit_s = exchange_rate(plan.workload.currency).units_per_usd, 1.0 if service else 3600.0
    times, money = (field.total_s / unit_s).tolist(), (field.total_usd * rate).tolist()
    rows: dict[str, list[list[float]]] = {}
    for row, name in enumerate(field.provider):
        rows.setdefault(name, []).append([_short(times[row]), _short(money[row]), row])
    clouds = clouds_of(field, plan)
    series = [_cloud_series(name, rows[name], position, lang) for position, name in enumerate(clouds)]
    front = sorted((rows_of for name in clouds for rows_of in rows[name] if field.is_front[int(rows_of[2])]), key=lambda point: point[0])
    sign = currency_sign(plan.workload.currency)
    return {
        "animation": False,
        "grid": {"left": 8, "right": 24, "top": 36, "bottom": 32, "containLabel": True},
        "tooltip": {
            "trigger": "item",
            "confine": True,
            ":formatter": _tooltip(field, plan, lang, unit_s=unit_s, sign=sign),
            **tip_style(),
        },
        "legend": {"show": False, "selected": {q.provider_text(name, lang): name not in hidden for name in clouds}},
        "xAxis": _axis(word("chart.x_request" if service else "chart.x_job", lang), times, name_at="middle"),
        "yAxis": _axis(word("chart.y_month" if service else "chart.y_job", lang, currency=plan.workload.currency.upper()), money),
        "series": [*series, _front_series(front, lang), _plans_series(plan, lang, unit_s=unit_s, rate=rate)],
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _cloud_series(name: str, points: list[list[float]], position: int, lang: Lang) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": q.provider_text(name, lang),
        "data": points,
        "symbol": mark_of(position),
        "symbolSize": 7 if position < NUM_COLOURS else 9,
        "itemStyle": {":color": colour(colour_of(position)), "opacity": 0.6},
        "emphasis": {"itemStyle": {"opacity": 1}},
    }


def _front_series(points: list[list[float]], lang: Lang) -> dict[str, Any]:
    return {
        "type": "line",
        "name": word("chart.front", lang),
        "data": [point[:2] for point in points],
        "step": "end",
        "symbol": "none",
        "silent": True,
        "lineStyle": {"width": 1.5, ":color": colour("ink"), "opacity": 0.55},
        "z": 3,
    }


def _plans_series(plan: Plan, lang: Lang, *, unit_s: float, rate: float) -> dict[str, Any]:
    points = []
    for option in plan.options:
        figure = option.estimate["total_time_s" if "total_time_s" in option.estimate else "latency_s"]
        points.append([_short(figure.mid / unit_s), _short(option.cost.total_usd * rate), option.rank])
    return {
        "type": "scatter",
        "name": word("chart.plans", lang),
        "data": points,
        "symbolSize": 22,
        "itemStyle": {":color": colour("accent"), ":borderColor": colour("surface"), "borderWidth": 2},
        "label": {
            "show": True,
            ":formatter": "point => String(point.data[2])",
            ":color": colour("accent-ink"),
            "fontSize": 12,
            "fontWeight": "bold",
        },
        "z": 5,
    }


def _axis(name: str, values: Sequence[float], *, name_at: str = "end") -> dict[str, Any]:
    """A logarithmic axis around the values."""
    known = [value for value in values if value > 0 and math.isfinite(value)]
    low, high = (min(known), max(known)) if known else (1.0, 10.0)
    return {
        "type": "log",
        "name": name,
        "nameLocation": name_at,
        "nameGap": 28 if name_at == "middle" else 16,
        "nameTextStyle": {":color": colour("muted"), "fontSize": 13, "align": "center" if name_at == "middle" else "left"},
        "min": _floor(low),
        "max": _ceil(high),
        "axisLabel": {
            ":color": colour("muted"),
            "fontSize": 12,
            "hideOverlap": True,
            ":formatter": "value => value >= 1000 ? value.toLocaleString('en') : String(+value.toPrecision(3))",
        },
        "axisLine": {"show": False},
        "axisTick": {"show": False},
        "splitLine": {"lineStyle": {":color": colour("line")}},
        "minorSplitLine": {"show": False},
    }


def _floor(value: float) -> float:
    """The next lower of 1, 2, 5 x 10^n."""
    power = 10.0 ** math.floor(math.log10(value))
    return float(f"{max(step * power for step in (1, 2, 5) if step * power <= value * 1.0001):.6g}")


def _ceil(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return float(f"{min(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.9999):.6g}")


def tip_style() -> dict[str, Any]:
    return {
        ":backgroundColor": colour("surface"),
        ":borderColor": colour("line"),
        "textStyle": {":color": colour("ink"), "fontSize": 13},
    }


def _tooltip(field: Field, plan: Plan, lang: Lang, *, unit_s: float, sign: str) -> str:
    """A function of the browser that words a point from tables of names; names are of our own
    catalog and escaped all the same."""
    tables: dict[str, list[str]] = {"server": [], "region": [], "way": []}
    rows = []
    labels = [f"{q.provider_text(provider, lang)} {name}" for provider, name in zip(field.provider, field.instance_type, strict=True)]
    cards = [f"{count:g} × {name}" if name else "" for name, count in zip(field.accelerator, field.accelerators_per_node, strict=True)]
    ways = [q.purchase_text(name, lang) for name in field.purchase]
    places = {name: {} for name in tables}  # type: dict[str, dict[str, int]]
    for row, values in enumerate(zip((f"{a}|{b}" for a, b in zip(labels, cards, strict=True)), field.region, ways, strict=True)):
        codes = []
        for table, value in zip(tables, values, strict=True):
            known = places[table]
            if value not in known:
                known[value] = len(tables[table])
                tables[table].append(value)
            codes.append(known[value])
        rows.append([*codes, int(field.nodes[row])])
    plans = {option.rank: f"{option.provider}/{option.instance_type}" for option in plan.options}
    data = json.dumps({"rows": rows, **tables, "plans": plans, "sign": sign}, ensure_ascii=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )
    duration = _request_text(lang) if unit_s == 1.0 else _hours_text(lang)
    return (
        f"(() => {{ const d = {data}; const e = t => String(t).replace(/[&<>\"']/g, c => '&#' + c.charCodeAt(0) + ';');"
        f" const time = {duration}; const money = v => d.sign + (v >= 1000 ? Math.round(v).toLocaleString('en') : v >= 1 ? v.toFixed(2) : String(+v.toPrecision(3)));"
        " return p => { const [x, y, i] = p.data; const tail = '<br>' + money(y) + ' · ' + time(x);"
        f" if (p.seriesName === {json.dumps(word('chart.plans', lang), ensure_ascii=False)}) return '<b>' + i + '. ' + e(d.plans[i]) + '</b>' + tail;"
        " const r = d.rows[i]; if (!r) return ''; const [s, c] = d.server[r[0]].split('|');"
        " return '<b>' + (r[3] > 1 ? r[3] + ' × ' : '') + e(s) + '</b>' + (c ? '<br>' + e(c) : '') + '<br>' + e(d.region[r[1]]) + ' · ' + e(d.way[r[2]]) + tail; }; })()"
    )


def _hours_text(lang: Lang) -> str:
    hours, minutes = ("小时", "分钟") if lang == "zh" else ("h", "min")
    return f"x => x < 1 ? Math.round(x * 60) + ' {minutes}' : (+x.toPrecision(3)).toLocaleString('en') + ' {hours}'"


def _request_text(lang: Lang) -> str:
    seconds, millis = ("秒", "毫秒") if lang == "zh" else ("s", "ms")
    return f"x => x < 1 ? Math.round(x * 1000) + ' {millis}' : +x.toPrecision(3) + ' {seconds}'"


def break_even_chart(curves: Sequence[BuyCurve], lang: Lang, *, currency: str) -> dict[str, Any]:
    """The money of a month by the hours used, a line for each way to pay."""
    points = [(curve.purchase, list(zip(curve.hours, curve.usd, strict=True))) for curve in curves]
    return _money_lines(points, word("chart.hours", lang), curves[0].hours[1] if curves else 730, lang, currency=currency)


def owed_chart(curves: Sequence[OwedCurve], lang: Lang, *, currency: str) -> dict[str, Any]:
    """What is owed by the months of use, a line for each way to pay."""
    points = [(curve.purchase, list(zip(curve.months, curve.usd, strict=True))) for curve in curves]
    last = max((curve.months[-1] for curve in curves), default=36.0)
    chart = _money_lines(points, word("chart.months", lang), last, lang, currency=currency)
    return {**chart, "xAxis": {**chart["xAxis"], "interval": last / 6}}


def _money_lines(
    lines: Sequence[tuple[str, Sequence[tuple[float, float]]]], name: str, last: float, lang: Lang, *, currency: str
) -> dict[str, Any]:
    """Money against a linear axis, a line for each way to pay."""
    rate = exchange_rate(currency).units_per_usd
    return {
        **money_frame(currency),
        "xAxis": {"type": "value", "max": last, "name": name, "nameLocation": "middle", "nameGap": 26, **plain_axis()},
        "series": [_curve_series(purchase, points, position, lang, rate=rate) for position, (purchase, points) in enumerate(lines)],
    }


def money_frame(currency: str) -> dict[str, Any]:
    """What charts of lines of money share: all but the axis below and the lines."""
    money, axis = money_form(currency), plain_axis()
    return {
        "animation": False,
        "grid": {"left": 8, "right": 24, "top": 16, "bottom": 64, "containLabel": True},
        "legend": {
            "bottom": 0,
            "type": "scroll",
            "textStyle": {":color": colour("ink"), "fontSize": 13},
            "icon": "roundRect",
            "itemHeight": 8,
        },
        "tooltip": {"trigger": "axis", "confine": True, ":valueFormatter": money, **tip_style()},
        "yAxis": {"type": "value", **axis, "axisLabel": {**axis["axisLabel"], ":formatter": money}},
    }


def money_form(currency: str) -> str:
    """A function of the browser that writes money."""
    sign = json.dumps(currency_sign(currency))
    return f"v => {sign} + (v >= 1000 ? Math.round(v).toLocaleString('en') : String(+v.toPrecision(3)))"


def plain_axis() -> dict[str, Any]:
    return {
        "axisLabel": {":color": colour("muted"), "fontSize": 12},
        "splitLine": {"lineStyle": {":color": colour("line")}},
        "nameTextStyle": {":color": colour("muted"), "fontSize": 13},
    }


def scale_chart(points: Sequence[ScalePoint], what: str, lang: Lang, *, currency: str) -> dict[str, Any]:
    """By the number of servers: the speed beside the ideal one (`what` speed or capacity), or the
    money (`what` money)."""
    rate, axis, is_money = exchange_rate(currency).units_per_usd, plain_axis(), what == "money"
    form = money_form(currency) if is_money else "v => +v.toPrecision(3) + ' ×'"
    values = [_short(point.usd.mid * rate if is_money else point.gain) for point in points]
    nodes = [point.nodes for point in points]
    planned = {
        "type": "line",
        "name": word("chart.planned", lang),
        "data": list(zip(nodes, values, strict=True)),
        "symbolSize": 8,
        "lineStyle": {"width": 2.5, ":color": colour("c1")},
        "itemStyle": {":color": colour("c1")},
        "z": 3,
    }
    ideal = {
        "type": "line",
        "name": word("chart.ideal", lang),
        "data": [[nodes[0], 1.0], [nodes[-1], nodes[-1] / nodes[0]]],
        "symbol": "none",
        "lineStyle": {"width": 1.5, "type": "dashed", ":color": colour("muted")},
        "itemStyle": {":color": colour("muted")},
    }
    return {
        "animation": False,
        "grid": {"left": 8, "right": 24, "top": 16, "bottom": 40 if is_money else 64, "containLabel": True},
        "legend": {
            "show": not is_money,
            "bottom": 0,
            "textStyle": {":color": colour("ink"), "fontSize": 13},
            "icon": "roundRect",
            "itemHeight": 8,
        },
        "tooltip": {"trigger": "axis", "confine": True, ":valueFormatter": form, **tip_style()},
        "xAxis": {
            "type": "value",
            "min": nodes[0],
            "max": nodes[-1],
            "minInterval": 1,
            "name": word("chart.servers", lang),
            "nameLocation": "middle",
            "nameGap": 26,
            **axis,
        },
        "yAxis": {"type": "value", "min": 0, **axis, "axisLabel": {**axis["axisLabel"], ":formatter": form}},
        "series": [planned] if is_money else [planned, ideal],
    }


def _curve_series(purchase: str, points: Sequence[tuple[float, float]], position: int, lang: Lang, *, rate: float) -> dict[str, Any]:
    ink = colour(f"c{position % 7 + 1}")
    return {
        "type": "line",
        "name": q.purchase_text(purchase, lang),
        "data": [[_short(at), _short(usd * rate)] for at, usd in points],
        "symbol": "none",
        "lineStyle": {"width": 2.5, ":color": ink},
        "itemStyle": {":color": ink},
    }
