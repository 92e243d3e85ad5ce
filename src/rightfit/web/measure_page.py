"""Measure: from the question to the second server on one page. The plan names the smallest trial,
its record is given back, and the page says what held the run back, what to change for nothing,
which server then, and whether a further test pays. Records are kept for this visit alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nicegui import Client, ui

from rightfit.errors import RightfitError
from rightfit.explain.run_text import advice_parts, figure_table, run_lines
from rightfit.explain.sheets import Lines, plan_sheet
from rightfit.messages import Message
from rightfit.web.answers import Answers
from rightfit.web.cards import draw_parts, named
from rightfit.web.draw import box, bullets, button, heading, link, paragraph, table, text
from rightfit.web.forms import PageState, field, main_options
from rightfit.web.words import problem_lines, word

if TYPE_CHECKING:
    from rightfit.measure.record import Run
    from rightfit.measure.resizing import Advice
    from rightfit.search.answer import Plan

MOST_RECORDS = 20
#: Of a request with a file so much is not the file; and figures of a record that are shown.
_AROUND_BYTES, MOST_SHOWN = 10_000, 60
_STEPS = ("question", "trial", "record", "advice")


class MeasurePage:
    """One visitor's guided path. The wish is the address; records live as long as the page."""

    def __init__(self, state: PageState, answers: Answers, client: Client, links: dict[str, Any]) -> None:
        self.state, self.answers, self.client, self.links = state, answers, client, links
        self.runs: list[Run] = []
        self.places: dict[str, Any] = {}
        self.turn = 0

    def draw(self) -> None:
        """The four steps, each with a place for its answer."""
        lang = self.state.lang
        heading(word("measure.heading", lang), 1)
        paragraph(word("measure.intro", lang), "lead")
        for number, step in enumerate(_STEPS, start=1):
            with box("section", "section panel") as section:
                section.props["aria-labelledby"] = f"step-{step}"
                heading(f"{number}. {word(f'measure.{step}', lang)}", 2).props["id"] = f"step-{step}"
                paragraph(word(f"measure.{step}_note", lang), "muted")
                if step == "record":
                    self._upload(section)
                self.places[step] = box("div", "gap")
                if step != "question":
                    self.places[step].props["aria-live"] = "polite"
        self._draw_question()
        ui.timer(0, self.again, once=True)

    def _draw_question(self) -> None:
        state = self.state
        self.places["question"].clear()
        with self.places["question"]:
            with box("div", "fields"):
                for name in main_options(state.wishes.get("task", "")):
                    clouds = tuple(self.answers.market.catalog().as_of()) if name == "cloud" else ()
                    field(name, state.wishes.get(name, ""), state.lang, self.change, clouds=clouds)
            self.links["plan"] = link(word("measure.open_plan", state.lang), state.address(), "chip")

    def _upload(self, section: Any) -> None:
        """A button that opens the files, and the section as a place to drop them: the uploader
        itself has controls without names, so it works unseen."""
        lang, most = self.state.lang, max(self.answers.most_upload_bytes - _AROUND_BYTES, 1)
        refused = word("measure.too_large", lang, megabytes=f"{most / 1e6:.3g}", count=MOST_RECORDS)
        upload = ui.upload(
            multiple=True,
            auto_upload=True,
            max_file_size=most,
            max_files=MOST_RECORDS,
            on_upload=self._uploaded,
            on_rejected=lambda: ui.notify(refused, type="warning"),
        )
        upload.on("failed", lambda: ui.notify(word("measure.not_sent", lang), type="warning"))
        upload.props("accept=.json").classes("unseen").mark("records")
        there = f"getElement({upload.id}).$refs.qRef"
        button(word("measure.choose", lang), None, in_browser=f"() => {there}.pickFiles()")
        section.on("dragover", js_handler="event => event.preventDefault()")
        section.on("drop", js_handler=f"event => {{ event.preventDefault(); {there}.addFiles(event.dataTransfer.files) }}")

    # ---- what the visitor does

    async def change(self, name: str, value: str) -> None:
        """One field of the question changed."""
        before = self.state.wishes.get("task", "")
        self.state = self.state.with_wish(name, value)
        with self.client:
            ui.navigate.history.replace(self.state.address("/measure"))
        if self.state.wishes.get("task", "") != before:
            self._draw_question()
        other = dataclasses.replace(self.state, lang="en" if self.state.lang == "zh" else "zh")
        self.links["language"].props["href"] = other.address("/measure")
        self.links["plan"].props["href"] = self.state.address()
        await self.again()

    async def _uploaded(self, event: Any) -> None:
        await self.take(event.file.name, await event.file.read())

    async def take(self, name: str, content: bytes) -> None:
        """A file of records; what is none is said."""
        lang = self.state.lang
        try:
            found = await self.answers.apart(lambda: records_of(content, name))
        except RightfitError as error:
            with self.client:
                said = word("measure.no_record", lang, name=name[:80], problem=problem_lines(error, lang)[0][1])
                ui.notify(said, type="warning", multi_line=True, timeout=10_000)
            return
        known = {run.id for run in self.runs}
        self.runs = [*self.runs, *(run for run in found if run.id not in known)][-MOST_RECORDS:]
        await self.again()

    async def forget(self, id_: str) -> None:
        """Take a record away."""
        self.runs = [run for run in self.runs if run.id != id_]
        await self.again()

    # ---- answers

    async def again(self) -> None:
        """Work out the trial and the advice anew, unless the visitor has gone
        on in the meantime."""
        self.turn += 1
        turn = self.turn
        self._draw_records()
        await self._show("trial", turn, self._trial, bool(self.state.wishes.get("model") or self.state.wishes.get("operation")))
        await self._show("advice", turn, self._advice, bool(self.runs))

    async def _show(self, step: str, turn: int, answer: Callable[[], Any], is_asked: bool) -> None:
        lang, place = self.state.lang, self.places[step]
        if turn != self.turn or place.is_deleted:
            return
        place.clear()
        with place:
            paragraph(word("measure.working" if is_asked else f"measure.{step}_none", lang), "muted")
        if not is_asked:
            return
        place.props["aria-busy"] = "true"
        try:
            draw = await answer()
        except RightfitError as error:
            lines = [message for _, message in problem_lines(error, lang)]
            draw = lambda: [paragraph(line, "problem") for line in lines]  # noqa: E731
        if turn != self.turn or place.is_deleted:
            return
        place.props["aria-busy"] = "false"
        place.clear()
        with place:
            draw()

    async def _trial(self) -> Callable[[], Any]:
        plan = await self.answers.staged(self.state.wishes)
        return lambda: self._draw_trial(plan)

    def _draw_trial(self, plan: Plan) -> None:
        from rightfit.explain.voices import plan_document

        lang = self.state.lang
        section = next((section for section in plan.sections if section.name == "staged"), None)
        if section is None:
            paragraph(word("measure.no_trial", lang))
            return
        for part in named(plan_sheet(plan, lang), "staged"):  # the commands stand below, to be copied
            lines = [line for line, reason in zip(part.lines, section.reasons, strict=True) if reason.key != "staged_commands"]
            draw_parts([Lines(part.name, part.heading, tuple(lines))], lang)
        commands = "\n".join(section.content["trial"]["commands"])
        with box("section", "file gap"):
            with box("div", "head"):
                text(word("measure.commands", lang), "", "h3")
                with box("div", "actions"):
                    button(word("tab.copy", lang), lambda: ui.clipboard.write(commands), "chip")
                    document = json.dumps(plan_document(plan, lang), ensure_ascii=False, indent=1)
                    button("plan.json", lambda: ui.download.content(document, "plan.json"), "chip").mark("plan-json")
            text(commands, "", "pre").props["tabindex"] = "0"

    def _draw_records(self) -> None:
        lang = self.state.lang
        self.places["record"].clear()
        with self.places["record"]:
            for run in self.runs:
                with box("section", "part"):
                    with box("div", "head tight"):
                        heading(word("measure.run", lang, id=run.id), 3)
                        button(word("measure.forget", lang), lambda id_=run.id: self.forget(id_), "chip").mark(f"forget-{run.id}")
                    bullets(run_lines(run, lang))
                    if run.measured:
                        table(figure_table([run], lang, most=MOST_SHOWN), lang)

    async def _advice(self) -> Callable[[], Any]:
        from rightfit import api

        runs, catalog = tuple(self.runs), self.answers.market.catalog()
        wishes: dict[str, Any] = dict(self.state.wishes)
        key = ("resize", tuple(sorted(wishes.items())), tuple(run.id for run in runs))
        found: Advice = await self.answers.ask(key, lambda: api.resize(runs, catalog=catalog, **wishes))
        return lambda: draw_parts(advice_parts(found, self.state.lang), self.state.lang)


def records_of(content: bytes, name: str) -> list[Run]:
    """The records of a file: one, a list, or the list of a server. Raises
    FileInputError, UnknownNameError."""
    from rightfit.errors import FileInputError
    from rightfit.measure.record import json_of, run_of, sealed

    try:
        found = json_of(content)
    except ValueError:
        raise FileInputError(Message("faces.not_a_run", file=name[:80])) from None
    items = found.get("items", [found]) if isinstance(found, dict) else found
    if not isinstance(items, list) or not items:
        raise FileInputError(Message("faces.no_run", file=name[:80]))
    return [sealed(run_of(item, where=name[:80])) for item in items[:MOST_RECORDS]]
