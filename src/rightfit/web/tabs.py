"""What is said about the opened plan, a tab for each question: why, of what it is made, what if, how to buy, where, compared, as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicegui import ui

from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.buy_curves import buy_curves, owed_curves
from rightfit.explain.cards import memory_use, option_card
from rightfit.explain.messages import Lang
from rightfit.explain.sheets import choice_of, option_parts, plan_sheet
from rightfit.explain.tables import Table
from rightfit.explain.voices import option_text, voice_of
from rightfit.web.cards import compare_table
from rightfit.web.charts import break_even_chart, owed_chart
from rightfit.web.details import breakdown, draw_part, draw_parts, named
from rightfit.web.draw import box, button, heading, paragraph, table
from rightfit.web.moves import MOVES, draw_moves, moves_of
from rightfit.web.words import word
from rightfit.web.world import world_map

if TYPE_CHECKING:
    from rightfit.search.answer import Option, Plan, Section
    from rightfit.web.host import PlanHost


def opened(plan: Plan, rank: int) -> Option | None:
    """The option of a rank, the best where there is none of it."""
    return next((option for option in plan.options if option.rank == rank), plan.best)


def why_tab(page: PlanHost, plan: Plan, option: Option) -> None:
    """Why this one, how it is set up, what to take care of, and why not the others."""
    lang, voice = page.state.lang, voice_of(plan)
    said = option_text(option, plan.workload, lang)
    parts = list(option_parts(said, voice, lang, currency=plan.workload.currency))
    sheet = plan_sheet(plan, lang)
    with box("div", "columns"):
        with box("div"):
            draw_part(choice_of(said), lang)
            draw_parts(named(parts, "why", "warnings"), lang)
            draw_parts(named(sheet, "load", "ways", "faster"), lang)
        with box("div"):
            draw_parts(named(sheet, "refused"), lang)
            with box("section", "part"):
                heading(word("tab.ask_server", lang), 3)
                _server_question(page, lang)
            draw_parts(named(parts, "data_path"), lang)
            draw_parts(named(sheet, "assumed"), lang)
    paragraph(sheet[-1] if isinstance(sheet[-1], str) else "", "muted small gap")


def _server_question(page: PlanHost, lang: Lang) -> None:
    with box("div", "sentence-row"):
        field = ui.input(word("tab.ask_server_hint", lang)).props("outlined dense stack-label maxlength=120").mark("ask-server")
        field.props["aria-label"] = word("tab.ask_server", lang)

        async def ask() -> None:
            await page.open_server(str(field.value or ""))

        field.on("keydown.enter", ask)
        button(word("tab.ask_why", lang), ask).mark("ask-server-button")


def breakdown_tab(page: PlanHost, plan: Plan, option: Option) -> None:
    """Memory, time and cost as stacked bars."""
    lang = page.state.lang
    said = option_text(option, plan.workload, lang)
    parts = list(option_parts(said, voice_of(plan), lang, currency=plan.workload.currency))
    with box("div", "breakdowns"):
        for part in named(parts, "memory", "time", "cost"):
            with box("div", "part"):
                breakdown(part, lang, room=memory_use(option) if part.name == "memory" else None)


def buying_tab(page: PlanHost, plan: Plan, option: Option) -> None:
    """Every way to pay for the best server, from how much use on each pays, and the bill."""
    lang, currency = page.state.lang, plan.workload.currency
    sheet = plan_sheet(plan, lang, everything=True, catalog=None) if not voice_of(plan).is_training else plan_sheet(plan, lang)
    section = next((section for section in plan.sections if section.name == "buy"), None)
    for part in sheet:
        if isinstance(part, Table) and "purchase" in {column.key for column in part.columns} and part.title:
            table(part, lang)
    if section is not None and (curves := buy_curves(section)):
        heading(word("chart.break_even", lang), 3)
        chart = ui.echart(break_even_chart(curves, lang, currency=currency)).classes("chart short")
        chart.props["role"] = "img"
        chart.props["aria-label"] = word("chart.even_label", lang)
        draw_owed(section, lang, currency=currency)
    draw_parts(named(sheet, "buy_lines"), lang)
    if section is None and not named(sheet, "buy_lines"):
        paragraph(word("tab.no_prices", lang), "muted")


def draw_owed(section: Section, lang: Lang, *, currency: str = "usd") -> None:
    """What is owed by the months of use, where there is more than one way to pay."""
    curves = owed_curves(section)
    if len(curves) < 2:
        return
    heading(word("chart.owed", lang), 3)
    paragraph(word("chart.owed_note", lang), "muted small")
    chart = ui.echart(owed_chart(curves, lang, currency=currency)).classes("chart short")
    chart.props.update({"role": "img", "aria-label": word("chart.owed_label", lang)})


def compare_tab(page: PlanHost, plan: Plan, option: Option) -> None:
    """Up to four plans side by side."""
    lang = page.state.lang
    chosen = [known for known in plan.options if known.rank in page.state.compare]
    if len(chosen) < 2:
        paragraph(word("tab.compare_none", lang), "muted")
        return
    compare_table([option_card(known, plan.workload, lang) for known in chosen], lang)


def regions_tab(page: PlanHost, plan: Plan, option: Option) -> None:
    """Prices of the server by region."""
    from rightfit.explain.places import priced_places, region_prices

    lang, currency = page.state.lang, plan.workload.currency
    found = region_prices(option.provider, option.instance_type, lang, catalog=page.answers.market.catalog(), currency=currency)
    server = f"{q.provider_text(option.provider, lang)} {option.instance_type}"
    paragraph(word("tab.regions_note", lang, server=server), "muted")
    if not found.records:
        paragraph(word("tab.no_prices", lang))
        return
    world_map(
        priced_places(option.provider, option.instance_type, catalog=page.answers.market.catalog()),
        lang,
        currency=currency,
        chosen=option.region,
    )
    table(found, lang, title=False)
    _draw_moves_later(page, f"{option.provider}/{option.instance_type}", currency)


def _draw_moves_later(page: PlanHost, server: str, currency: str) -> None:
    """How the prices moved, as soon as that is looked up."""
    catalog = page.answers.market.catalog()
    place = box("div")

    async def answer() -> None:
        try:
            lines = await page.answers.ask((MOVES, server), lambda: moves_of(server, catalog=catalog))
        except RightfitError:
            return  # the house is full; prices stand above
        if not place.is_deleted:
            with place:
                draw_moves(lines, page.state.lang, currency=currency)

    with place:
        ui.timer(0, answer, once=True)


def verdict_dialog(parts: tuple[Any, ...], lang: Lang) -> Any:
    """Why a server was or was not chosen, above the page."""
    with ui.dialog() as dialog, box("div", "dialog"):
        dialog.props["aria-label"] = word("tab.ask_server", lang)
        draw_parts(parts, lang)
        button(word("tab.close", lang), dialog.close).mark("close-dialog")
    dialog.open()
    return dialog
