"""The form as a widget: a sentence or fields, the answer below as a report, the chart of offers, and the plan that is chosen in it."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ipywidgets

from rightfit import api
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.cards import option_card
from rightfit.explain.messages import Lang
from rightfit.explain.problems import problems_of
from rightfit.notebook.drawing import Chart, chart_of
from rightfit.web.words import choice_name, on_page, option_name, word
from rightfit.workload.options import OPTIONS

if TYPE_CHECKING:
    from rightfit.search.answer import Plan

FIELDS = ("model", "task", "method", "data", "deadline", "budget", "users", "ttft", "cloud", "purchase")
_CHOICES = ("task", "method", "purchase")


class PlanForm(ipywidgets.VBox):  # type: ignore[misc]
    """`fields`: the widgets by option. `plan`: the last answer, None before there was one or where the wish could not be read. `chart`: the chart of its offers, whose
    `selected` is the plan that `details` tells about."""

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
        """These values and no others into the fields; what has no field, or is no choice of its list, stays beside them."""
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
        """Read the sentence where there is one (its words fill the fields), plan, and show the answer or what was wrong."""
        try:
            if text := self.sentence.value.strip():
                understood = api.understand(text)
                self.fill(understood.wishes)
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
