"""What is said about the opened plan, a tab for each question: why, of what it is made, what if,
how to buy, where, compared, as files."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from nicegui import ui

from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.cards import memory_use, option_card
from rightfit.explain.listings import buy_curves, owed_curves, scale_line, scale_table
from rightfit.explain.quantities import Table
from rightfit.explain.sheets import Lines, Part, choice_of, first_caution, option_parts, plan_sheet
from rightfit.explain.voices import Knob, knobs, option_text, voice_of
from rightfit.messages import Lang
from rightfit.recent import exact_key
from rightfit.web.cards import breakdown, compare_table, draw_part, draw_parts, named
from rightfit.web.charts import break_even_chart, owed_chart, scale_chart
from rightfit.web.draw import box, button, heading, pair, paragraph, table, text
from rightfit.web.market_charts import MOVES, draw_moves, moves_of, world_map
from rightfit.web.words import option_name, problem_lines, word

if TYPE_CHECKING:
    from rightfit.planner.given import ScalePoint
    from rightfit.search.answer import Option, Plan, Section
    from rightfit.web.ask import PlanHost


def opened(plan: Plan, rank: int) -> Option | None:
    """The option of a rank, the best where there is none of it."""
    return next((option for option in plan.options if option.rank == rank), plan.best)


def why_tab(page: PlanHost, plan: Plan, option: Option) -> None:
    """Why this one, what to take care of, and why not the others; of the best the answer above has
    what it is and its setup."""
    lang, voice = page.state.lang, voice_of(plan)
    said = option_text(option, plan.workload, lang)
    parts = list(option_parts(said, voice, lang, currency=plan.workload.currency))
    sheet = plan_sheet(plan, lang)
    with box("div", "columns"):
        with box("div"):
            figures = tuple(line for line in (said.speed, said.margin, said.priced) if line)
            draw_part(Lines("figures", word("tab.figures", lang), figures) if option is plan.best else choice_of(said), lang)
            draw_parts(_not_above(named(parts, "why", "warnings"), plan, option, lang), lang)
            draw_parts(named(sheet, "load", "ways", "faster"), lang)
        with box("div"):
            draw_parts(named(sheet, "refused"), lang)
            with box("section", "part"):
                heading(word("tab.ask_server", lang), 3)
                _server_question(page, lang)
            draw_parts(named(parts, "data_path"), lang)
            draw_parts(named(sheet, "assumed"), lang)
    paragraph(sheet[-1] if isinstance(sheet[-1], str) else "", "muted small gap")


def _not_above(parts: Iterable[Part], plan: Plan, option: Option, lang: Lang) -> Iterator[Part]:
    """Parts without the caution that the answer above has where it is of the same option."""
    above = {line for part in first_caution(plan, lang) if isinstance(part, Lines) for line in part.lines} if option is plan.best else set()
    for part in parts:
        if not isinstance(part, Lines):
            yield part
        elif kept := tuple(line for line in part.lines if line not in above):
            yield dataclasses.replace(part, lines=kept)


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
    from rightfit.explain.listings import priced_places, region_prices

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


# ---- What would change the plan: advice, and knobs that re-plan while they are turned.

PAUSE_S = 0.25


def change_tab(page: PlanHost, plan: Plan, option: Option) -> None:
    """Advice, then the knobs."""
    lang = page.state.lang
    draw_parts(named(plan_sheet(plan, lang), "advice", "faster"), lang)
    found = knobs(plan)
    if not found:
        paragraph(word("tab.no_knobs", lang), "muted")
        return
    with box("section", "part"):
        heading(word("tab.knobs", lang), 3)
        Board(page, plan, found).draw()


class Board:
    """The knobs of one plan and the plan that they lead to. Nothing is kept until
    the visitor says so."""

    def __init__(self, page: PlanHost, plan: Plan, knobs: tuple[Knob, ...]) -> None:
        self.page, self.plan, self.knobs = page, plan, knobs
        self.turned: dict[str, str] = {}
        self.turn = 0
        self.sliders: dict[str, Any] = {}
        self.shown: dict[str, Any] = {}
        self.after: Any = None

    def draw(self) -> None:
        """Sliders, then the best plan now and then."""
        lang = self.page.state.lang
        with box("div", "knobs"):
            for knob in self.knobs:
                self._knob(knob, lang)
        with box("div", "versus"):
            with box("div", "panel"):
                text(word("tab.now", lang), "muted small")
                _best(self.plan, lang)
            self.after = box("div", "panel")
            self.after.props["aria-live"] = "polite"
        with box("div", "head gap"), box("div", "actions"):
            button(word("tab.apply", lang), self._apply, "button primary").mark("knobs-apply")
            button(word("tab.reset", lang), self._reset).mark("knobs-reset")
        self._same()

    def _knob(self, knob: Knob, lang: Lang) -> None:
        name = option_name(knob.option, lang)
        with box("div", "knob"):
            with box("div", "top-line"):
                text(name)
                self.shown[knob.option] = text(self._value_text(knob, knob.at), "value")
            slider = ui.slider(min=0, max=len(knob.values) - 1, step=1, value=knob.at).props("snap markers").mark(f"knob-{knob.option}")
            slider.props.update({"aria-label": name, "aria-valuetext": self._value_text(knob, knob.at)})
            slider.on_value_change(lambda event: self._turned(knob, int(event.value)))
            self.sliders[knob.option] = slider

    def _value_text(self, knob: Knob, index: int) -> str:
        return knob.values[index] or word("tab.no_limit", self.page.state.lang)

    async def _turned(self, knob: Knob, index: int) -> None:
        if self.after.is_deleted:
            return  # the visitor has turned to another tab meanwhile
        self.shown[knob.option].text = self.sliders[knob.option].props["aria-valuetext"] = self._value_text(knob, index)
        self.turned = {name: value for name, value in self.turned.items() if name != knob.option}
        if index != knob.at:
            self.turned[knob.option] = knob.values[index]
        self.turn += 1
        turn = self.turn
        await asyncio.sleep(PAUSE_S)
        if turn == self.turn and not self.after.is_deleted:
            await self._replan(turn)

    async def _replan(self, turn: int) -> None:
        if not self.turned:
            self._same()
            return
        lang, said, found = self.page.state.lang, "", None
        self.after.classes("stale")
        try:
            found = await self.page.answers.plan(self.wishes())
        except RightfitError as error:
            said = problem_lines(error, lang)[0][1]
        if turn != self.turn or self.after.is_deleted:
            return
        self.after.classes(remove="stale")
        self.after.clear()
        with self.after:
            text(word("tab.then", lang), "muted small")
            if found is None:
                paragraph(said)
            else:
                _best(found, lang)

    def wishes(self) -> Mapping[str, str]:
        """The wishes of the page with what was turned."""
        changed = {**self.page.state.wishes, **self.turned}
        return {name: value for name, value in changed.items() if value}

    def _same(self) -> None:
        self.after.clear()
        with self.after:
            text(word("tab.then", self.page.state.lang), "muted small")
            paragraph(word("tab.same", self.page.state.lang), "muted")

    def _reset(self) -> None:
        for knob in self.knobs:
            self.sliders[knob.option].value = knob.at

    async def _apply(self) -> None:
        if self.turned:
            await self.page.wish(self.wishes())


def _best(plan: Plan, lang: Lang) -> None:
    """The best option in four lines."""
    if plan.best is None:
        heading(word("result.none", lang), 3)
        return
    card = option_card(plan.best, plan.workload, lang)
    heading(card.server, 3)
    text(f"{card.hardware} · {card.provider} · {card.place} · {card.purchase}", "muted small", "div")
    with box("dl", "figures gap"):
        for fact in (card.money, card.time):
            pair(fact.label, fact.value, fact.detail, "figure")


# ---- Files that start the opened plan: shown, copied, downloaded one by one or all together.


def export_tab(page: PlanHost, plan: Plan, option: Option) -> None:
    """Targets that can express the plan, and the files of the chosen one."""
    from rightfit.exports import all_targets, job_of, plan_document

    lang = page.state.lang
    try:
        job = job_of(plan_document(plan.to_dict()), rank=option.rank)
    except RightfitError as error:
        paragraph(problem_lines(error, lang)[0][1])
        return
    able = {name: f"{name} – {target.summary}" for name, target in all_targets().items() if not target.problem(job)}
    if not able:
        paragraph(word("tab.export_none", lang), "muted")
        return
    with box("div", "head"):
        choice = (
            ui.select(able, label=word("tab.export_target", lang), value=next(iter(able)))
            .props("outlined dense options-dense")
            .mark("export-target")
        )
        choice.style("min-width: min(420px, 100%)")

        async def everything() -> None:
            await _download(page, job, "all", f"{job.name}.zip" if hasattr(job, "settings") else "rightfit.zip")

        button(word("tab.bundle", lang), everything, "button").mark("export-bundle")
    files = box("div", "files")

    async def show() -> None:
        found = await _files(page, job, str(choice.value))
        if files.is_deleted:
            return  # the visitor has turned to another tab meanwhile
        files.clear()
        with files:
            for path, content in found.items():
                _file(path, content, page)

    choice.on_value_change(show)
    ui.timer(0, show, once=True)


async def _files(page: PlanHost, job: Any, target: str) -> Mapping[str, str]:
    from rightfit.exports import files_of

    try:
        return await page.answers.ask(("export", exact_key(job), target), lambda: files_of(job, target))
    except RightfitError as error:
        ui.notify(problem_lines(error, page.state.lang)[0][1])
        return {}


async def _download(page: PlanHost, job: Any, target: str, name: str) -> None:
    found = await _files(page, job, target)
    if found:
        ui.download.content(zipped(found), name)


def zipped(files: Mapping[str, str]) -> bytes:
    """The files as one ZIP archive; the same files give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), content.encode("utf-8"))
    return buffer.getvalue()


def _file(path: str, content: str, page: PlanHost) -> None:
    lang = page.state.lang

    def copy() -> None:
        ui.clipboard.write(content)
        ui.notify(word("result.copied", lang))

    with box("section", "file"):
        with box("div", "head"):
            text(path, "", "h4")
            with box("div", "actions"):
                button(word("tab.copy", lang), copy, "chip", label_text=f"{word('tab.copy', lang)}: {path}")
                name = path.rsplit("/", 1)[-1]
                button(
                    word("tab.download", lang),
                    lambda: ui.download.content(content, name),
                    "chip",
                    label_text=f"{word('tab.download', lang)}: {path}",
                )
        shown = text(content, "", "pre")
        shown.props["tabindex"] = "0"


# ---- One to sixteen servers of the opened plan: time and money as curves, and as a table.


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
