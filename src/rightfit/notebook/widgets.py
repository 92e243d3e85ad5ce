"""Charts as one widget: points or lines in a plane, drawn by the browser from traits; the same
figures as on the page."""

from __future__ import annotations

import html
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets
import traitlets

from rightfit import api
from rightfit.errors import InputError, RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.cards import option_card
from rightfit.explain.messages import problems_of
from rightfit.messages import Lang, Message
from rightfit.units import SECONDS_PER_HOUR, currency_sign
from rightfit.web.words import choice_name, on_page, option_name, word
from rightfit.workload.amounts import exchange_rate
from rightfit.workload.options import OPTIONS

if TYPE_CHECKING:
    from rightfit.search.answer import Plan


KINDS = ("offers", "scaling", "months")
MOST_POINTS = 1500
Series = dict[str, Any]


class Chart(anywidget.AnyWidget):  # type: ignore[misc]
    """`series`: name, kind ("points", "line" or "plans") and points [x, y, text, rank]. `axes`:
    name and whether it is logarithmic, x then y. `selected`: the rank of the plan that was clicked
    or chosen by the keyboard, 0 for none."""

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
    """A point for each feasible offer, a series for each cloud; what nothing beats as a line;
    the plans as numbers."""
    from rightfit.planner.plan import market_field
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
    """How much faster (a service: how many more requests) with more of the best
    server, beside the ideal."""
    from rightfit.planner.given import scaling

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
    from rightfit.explain.listings import owed_curves

    rate = _rate(plan)
    series: list[Series] = []
    for best in plan.options[:1]:
        for curve in owed_curves(lookup.ways_to_buy(f"{best.provider}/{best.instance_type}", region=best.region)):
            points = [[month, _short(usd * rate), "", 0] for month, usd in zip(curve.months, curve.usd, strict=True)]
            series.append({"name": q.purchase_text(curve.purchase, lang), "kind": "line", "points": points})
    money = plan.workload.currency.upper()
    return series, [_axis(word("chart.months", lang)), _axis(money, is_money=True)], word("chart.owed", lang)


# ---- The form as a widget: a sentence or fields, the answer below as a report, the chart of
# offers, and the plan that is chosen in it.

FIELDS = ("model", "task", "method", "data", "deadline", "budget", "users", "ttft", "cloud", "purchase")
_CHOICES = ("task", "method", "purchase")


class PlanForm(ipywidgets.VBox):  # type: ignore[misc]
    """`fields`: the widgets by option. `plan`: the last answer, None before there was one or where
    the wish could not be read. `chart`: the chart of its offers, whose `selected` is the plan that
    `details` tells about."""

    def __init__(self, wishes: Mapping[str, str], lang: Lang) -> None:
        self.lang = lang
        self.plan: Plan | None = None
        self.chart: Chart | None = None
        self.sentence = ipywidgets.Text(description=word("ask.sentence", lang), placeholder=word("ask.placeholder", lang), **_wide())
        self.fields: dict[str, Any] = {name: self._field(name) for name in FIELDS}
        self.further: dict[str, str] = {}
        self.button = ipywidgets.Button(description=word("ask.submit", lang), button_style="primary")
        self.told, self.answer, self.details, self.place = (ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.VBox())
        grid = ipywidgets.GridBox(
            list(self.fields.values()), layout=ipywidgets.Layout(grid_template_columns="repeat(auto-fill, minmax(20rem, 1fr))")
        )
        super().__init__([self.sentence, grid, self.button, self.told, self.place, self.details, self.answer])
        self._is_filling = False
        self.fill(wishes)
        self.button.on_click(lambda _: self.submit())
        for field in (self.sentence, *self.fields.values()):
            field.observe(self._changed, names="value")
        if wishes:
            self.submit()

    @property
    def wishes(self) -> dict[str, str]:
        """What the fields say, and what was given beside them."""
        return {**self.further, **{name: str(field.value).strip() for name, field in self.fields.items() if str(field.value or "").strip()}}

    def fill(self, wishes: Mapping[str, str]) -> None:
        """These values and no others into the fields; what has no field, or is no choice of its
        list, stays beside them."""
        before, self._is_filling = self._is_filling, True
        try:
            self.further = {}
            for field in self.fields.values():
                field.value = ""
            self._put(wishes)
        finally:
            self._is_filling = before

    def _put(self, wishes: Mapping[str, str]) -> None:
        for name, value in wishes.items():
            field = self.fields.get(name)
            if field is None or (name in _CHOICES and str(value) not in dict(field.options).values()):
                self.further[name] = str(value)
            else:
                field.value = str(value)

    def submit(self) -> None:
        """Read the sentence where there is one (its words fill the fields), plan, and show the
        answer or what was wrong."""
        try:
            if text := self.sentence.value.strip():
                understood = api.understand(text)
                self.fill(understood.settled())
                self._clear_sentence()
            plan = api.plan(api.read_workload(None, self.wishes))
        except RightfitError as error:
            self.plan = None
            lines = [on_page(problem.message, self.lang) for problem in problems_of(error, self.lang)]
            self._show(_paragraphs(lines), "", "")
            self.chart, self.place.children = None, ()
            return
        self.plan = plan
        self._show("", plan.to_html(self.lang), "")
        self._draw(plan)

    def _changed(self, change: Mapping[str, Any]) -> None:
        """A field was left or chosen, or Enter pressed in the sentence."""
        is_emptied = change["owner"] is self.sentence and not change["new"].strip()
        if not self._is_filling and not is_emptied:
            self.submit()

    def _clear_sentence(self) -> None:
        self._is_filling = True
        self.sentence.value = ""
        self._is_filling = False

    def _draw(self, plan: Plan) -> None:
        self.chart = chart_of(plan, "offers", self.lang) if plan.options else None
        self.place.children = (self.chart,) if self.chart is not None else ()
        if self.chart is not None:
            self.chart.observe(lambda change: self._tell(plan, change["new"]), names="selected")
            self._tell(plan, self.chart.selected)

    def _tell(self, plan: Plan, rank: int) -> None:
        """The plan of a rank, as a card."""
        option = next((found for found in plan.options if found.rank == rank), None)
        if option is None:
            self.details.value = ""
            return
        card = option_card(option, plan.workload, self.lang)
        facts = "".join(
            f"<tr><td>{_text(fact.label)}</td><td><b>{_text(fact.value)}</b> {_text(fact.detail)}</td></tr>"
            for fact in (card.money, card.time, *card.facts)
        )
        self.details.value = f"<h4>{card.rank}. {_text(card.server)} · {_text(card.place)}</h4><table>{facts}</table>"

    def _show(self, told: str, answer: str, details: str) -> None:
        self.told.value, self.answer.value, self.details.value = told, answer, details

    def _field(self, name: str) -> Any:
        title, option = option_name(name, self.lang), OPTIONS[name]
        if name in _CHOICES and option.vocabulary is not None:
            words = [("", ""), *((_word(name, code, self.lang), code) for code in option.vocabulary.words)]
            return ipywidgets.Dropdown(options=words, value="", description=title)
        hint = word("ask.for_example", self.lang, example=option.example) if option.example else ""
        return ipywidgets.Text(description=title, placeholder=hint, continuous_update=False)


def _word(option: str, code: str, lang: Lang) -> str:
    if option == "purchase":
        return q.purchase_text(code, lang)
    return q.method_text(code, lang) if option == "method" else choice_name(option, code, lang)


def _wide() -> dict[str, Any]:
    return {
        "continuous_update": False,
        "layout": ipywidgets.Layout(width="100%", max_width="60rem"),
        "style": {"description_width": "initial"},
    }


def _paragraphs(lines: list[str]) -> str:
    return '<div role="alert">' + "".join(f"<p><b>{_text(line)}</b></p>" for line in lines) + "</div>"


def _text(value: object) -> str:
    return html.escape(str(value))
