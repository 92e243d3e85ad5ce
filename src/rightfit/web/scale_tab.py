"""One to sixteen servers of the opened plan: time and money as curves, and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from rightfit.errors import RightfitError
from rightfit.explain.scale_text import scale_line, scale_table
from rightfit.web.charts import scale_chart
from rightfit.web.draw import box, heading, paragraph, table
from rightfit.web.words import problem_lines, word

if TYPE_CHECKING:
    from rightfit.planner.scaling import ScalePoint
    from rightfit.search.answer import Option, Plan
    from rightfit.web.host import PlanHost


def scale_tab(page: PlanHost, plan: Plan, option: Option) -> None:
    """A place for the curves; they are drawn as soon as they are worked out."""
    lang = page.state.lang
    place = box("div")
    place.props["aria-live"] = "polite"
    with place:
        paragraph(word("tab.scale_working", lang), "busy")

    async def answer() -> None:
        points: tuple[ScalePoint, ...] = ()
        problem = ""
        try:
            points = await page.answers.scaling(
                page.state.wishes, server=f"{option.provider}/{option.instance_type}", region=option.region, purchase=option.purchase
            )
        except RightfitError as error:
            problem = problem_lines(error, lang)[0][1]
        if place.is_deleted:
            return
        place.clear()
        with place:
            if problem:
                paragraph(problem, "muted")
            else:
                _draw(page, plan, points)

    with place:
        ui.timer(0, answer, once=True)


def _draw(page: PlanHost, plan: Plan, points: tuple[ScalePoint, ...]) -> None:
    lang, currency = page.state.lang, plan.workload.currency
    paragraph(scale_line(points, lang))
    if len(points) > 1:
        with box("div", "two-charts"):
            for what in ("speed" if points[0].requests_per_s is None else "capacity", "money"):
                with box("div"):
                    heading(word(f"chart.scale_{what}", lang), 3)
                    chart = ui.echart(scale_chart(points, what, lang, currency=currency)).classes("chart short")
                    chart.props.update({"role": "img", "aria-label": word("chart.scale_label", lang)})
    if points:
        table(scale_table(points, lang, currency=currency), lang, title=False)
    paragraph(word("tab.scale_note", lang), "muted small gap")
