"""No model yet: data and a goal lead to two or three usual models, each with its server, and to
where the data lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from nicegui import Client, ui

from rightfit.errors import InputError, RightfitError
from rightfit.explain.cards import option_card
from rightfit.explain.listings import VolumeText, volume_text
from rightfit.messages import Lang
from rightfit.planner.typical import asked_rows, kinds, typical_wishes
from rightfit.records import dataclass
from rightfit.web.cards import draw_card
from rightfit.web.draw import box, button, heading, link, paragraph, text
from rightfit.web.forms import LONGEST_SENTENCE, LONGEST_VALUE, PageState, clean, field, show_error
from rightfit.web.words import option_name, problem_lines, word

if TYPE_CHECKING:
    from rightfit.search.answer import Plan
    from rightfit.web.answers import Answers

OPTIONS = ("data", "budget", "deadline")
#: A kind of data with an amount of it that people start with, to try the page.
EXAMPLES = {
    "images": {"data": "200GB", "kind": "images"},
    "table": {"data": "1Mrows", "kind": "table"},
    "text": {"data": "50ksamples", "kind": "text"},
    "audio": {"data": "100h", "kind": "audio"},
}


@dataclass(frozen=True, slots=True)
class GuideState:
    """What is told: the kind of data, what it is for in the visitor's words, and options of a
    workload. It is the address."""

    kind: str = ""
    goal: str = ""
    wishes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lang: Lang = "en"

    @classmethod
    def from_query(cls, query: Mapping[str, str], *, lang: Lang) -> GuideState:
        """The state of an address; what does not belong there is left out."""
        wishes = {name: value for name in OPTIONS if (value := clean(query.get(name, ""), LONGEST_VALUE))}
        kind = query.get("kind", "")
        return cls(kind if kind in kinds() else "", clean(query.get("goal", ""), LONGEST_SENTENCE), wishes, lang)

    def address(self, lang: Lang = "en") -> str:
        """The permanent link, in a language."""
        given = {"kind": self.kind, "goal": self.goal, **self.wishes, "lang": lang}
        return f"/guide?{urlencode({name: value for name, value in given.items() if value})}"


class GuidePage:
    """One visitor's way from data to a model and a server."""

    def __init__(self, state: GuideState, answers: Answers, client: Client, links: dict[str, Any]) -> None:
        self.state, self.answers, self.client, self.links = state, answers, client, links
        self.fields: dict[str, Any] = {}
        self.form: Any = None
        self.place: Any = None
        self.turn = 0

    def draw(self) -> None:
        """The questions; the answer follows."""
        lang = self.state.lang
        heading(word("guide.heading", lang), 1)
        paragraph(word("guide.intro", lang), "lead")
        with box("section", "panel section"):
            self.form = box("div", "fields guide-fields")
            self._draw_form()
            with box("div", "chips gap"):
                for name, told in EXAMPLES.items():
                    said = f"{told['data']} · {word(f'guide.kind_{name}', lang)}"
                    button(said, lambda told=told: self._example(told), "chip").mark(f"guide-{name}")
        self.place = box("div", "results")
        self.place.props["aria-live"] = "polite"
        if self.state.kind or self.state.goal:
            ui.timer(0, self.show, once=True)

    def _draw_form(self) -> None:
        state, lang = self.state, self.state.lang
        self.form.clear()
        with self.form:
            names = {kind: word(f"guide.kind_{kind}", lang) for kind in kinds()}
            kind = ui.select(names, label=word("guide.kind", lang), value=state.kind or None, clearable=True)
            kind.props("outlined dense options-dense stack-label").mark("guide-kind")
            kind.on_value_change(lambda event: self._tell(kind=event.value or ""))
            goal = ui.input(word("guide.goal", lang), value=state.goal, placeholder=word("guide.goal_hint", lang))
            goal.props(f"outlined dense stack-label maxlength={LONGEST_SENTENCE} autocomplete=off").mark("guide-goal")
            settle = lambda: self._tell(goal=clean(goal.value or "", LONGEST_SENTENCE))  # noqa: E731
            goal.on("change", settle)
            goal.on("keydown.enter", settle)
            self.fields = {name: field(name, state.wishes.get(name, ""), lang, self._wish, clouds=()) for name in OPTIONS}

    # ---- what the visitor does

    async def _example(self, told: Mapping[str, str]) -> None:
        self.state = dataclasses.replace(self.state, kind=told["kind"], goal="", wishes={"data": told["data"]})
        self._draw_form()
        await self.show()

    async def _tell(self, **told: str) -> None:
        if any(getattr(self.state, name) != value for name, value in told.items()):
            self.state = dataclasses.replace(self.state, **told)  # type: ignore[arg-type]
            await self.show()

    async def _wish(self, name: str, value: str) -> None:
        others = {key: old for key, old in self.state.wishes.items() if key != name}
        cleaned = clean(value, LONGEST_VALUE)
        self.state = dataclasses.replace(self.state, wishes={**others, name: cleaned} if cleaned else others)
        await self.show()

    # ---- the answer

    async def show(self) -> None:
        """A plan for each usual model, unless the visitor has gone on."""
        self.turn += 1
        turn, state, lang = self.turn, self.state, self.state.lang
        with self.client:
            ui.navigate.history.replace(state.address(lang))
        self.links["language"].props["href"] = state.address("en" if lang == "zh" else "zh")
        for element in self.fields.values():
            show_error(element, "")
        self.place.clear()
        if not (state.kind or state.goal):
            return
        self.place.props["aria-busy"] = "true"
        with self.place:
            paragraph(word("result.working", lang), "busy")
        found, volume = [], None
        refused: RightfitError | None = None
        try:
            rows = asked_rows(state.goal, state.kind)
        except InputError as error:
            rows, refused = [], error if state.kind else None
        for row, wishes in typical_wishes(rows, dict(state.wishes)):
            try:
                plan = await self.answers.plan(wishes)
            except RightfitError as error:
                refused = refused or error
                continue
            if plan.best is not None:
                found.append((row, wishes, plan))
        if found:
            volume = await self._volume([plan for _, _, plan in found])
        if turn != self.turn or self.place.is_deleted:
            return
        self.place.props["aria-busy"] = "false"
        self.place.clear()
        with self.place:
            if not found:
                self._problem(refused or InputError(word("guide.none" if not state.kind else "guide.no_server", lang)))
                return
            self._draw(found, volume)

    async def _volume(self, plans: list[Plan]) -> VolumeText | None:
        """Where the data lie, where the plans read any."""
        from rightfit.planner.typical import decide

        lang, catalog = self.state.lang, self.answers.market.catalog()
        options = [plan.best for plan in plans if plan.best is not None and plan.best.data_path]
        size = max((plan.workload.data_bytes or 0.0 for plan in plans), default=0.0)
        if not options or not size:
            return None
        key = ("volume", self.state.address(lang))
        return await self.answers.ask(key, lambda: volume_text(decide(size, options, catalog), lang))

    def _problem(self, error: RightfitError) -> None:
        lines = problem_lines(error, self.state.lang)
        with box("div", "problem") as around:
            around.props["role"] = "alert"
            for name, message in lines:
                if name in self.fields:
                    show_error(self.fields[name], message)
                paragraph(f"{option_name(name, self.state.lang)}: {message}" if name in self.fields else message)

    def _draw(self, found: list[tuple[Mapping[str, str], dict[str, Any], Plan]], volume: VolumeText | None) -> None:
        lang = self.state.lang
        with box("section", "section"):
            heading(word("guide.models", lang), 2)
            with box("div", "cards"):
                for row, wishes, plan in found:
                    with box("div", "guided"):
                        heading(row["model"], 3, "long-name")
                        paragraph(row[f"why_{lang}"], "muted")
                        assert plan.best is not None
                        draw_card(
                            option_card(plan.best, plan.workload, lang), lang, is_open=False, compared=False, on_open=None, on_compare=None
                        )
                        address = PageState(wishes={name: str(value) for name, value in wishes.items()}, lang=lang).address()
                        link(word("measure.open_plan", lang), address, "button primary")
            paragraph(word("guide.own", lang), "muted small gap")
        if volume is not None:
            with box("section", "section"):
                heading(volume.head, 2)
                _ladder(volume, lang)
                paragraph(volume.bill, "gap")


def _ladder(volume: VolumeText, lang: Lang) -> None:
    """The tiers as steps, the one that holds marked."""
    with box("ol", "ladder") as steps:
        steps.props["aria-label"] = volume.head
        for step in volume.steps:
            with box("li", "step holds" if step.holds else "step") as one:
                if step.holds:
                    one.props["aria-current"] = "step"
                text(step.span_text.partition("：" if lang == "zh" else ": ")[2])
                text(step.span, "span")
                if step.holds:
                    text(word("guide.here", lang), "here")
