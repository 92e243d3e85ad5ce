"""The sentence box and the fields, and what of the sentence was understood."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from nicegui import ui

from rightfit.errors import RightfitError
from rightfit.web.draw import box, button, heading, paragraph, text
from rightfit.web.forms import (
    LONGEST_SENTENCE,
    PageState,
    clean,
    field,
    list_name,
    main_options,
    model_names,
    more_options,
    show_error,
    value_name,
)
from rightfit.web.words import option_name, word, words
from rightfit.workload.options import OPTIONS

if TYPE_CHECKING:
    from rightfit.web.answers import Answers
    from rightfit.workload.ask import Understood


# ---- What the parts of the plan page need of the page that holds them.


class PlanHost(Protocol):
    """A page with a question in its address and an answer below it."""

    state: PageState
    answers: Answers

    async def say(self, sentence: str) -> None: ...
    async def plan_again(self, sentence: str) -> None: ...
    async def change(self, name: str, value: str) -> None: ...
    async def wish(self, wishes: Mapping[str, str]) -> None: ...
    async def open_server(self, server: str, *, region: str = "", purchase: str = "") -> None: ...


SUGGEST_PAUSE_S = 0.15


class AskPanel:
    """Where a visitor says what they want."""

    def __init__(self, page: PlanHost) -> None:
        self.page = page
        self.understood: Understood | None = None
        self.fields: dict[str, Any] = {}
        self.is_open = False
        self.places: dict[str, Any] = {}
        self.typed = 0
        self.edited: dict[str, str] = {}  # fields changed since the sentence was last typed in: what was said last holds

    def draw(self) -> None:
        """The box, the examples and the fields."""
        state, lang = self.page.state, self.page.state.lang
        self.places["heading"] = heading(word("ask.heading", lang), 1)
        self.places["lead"] = paragraph(word("page.tagline", lang), "lead")
        with box("section", "panel ask") as around:
            self.places["around"] = around
            with box("div", "sentence"):
                sentence = ui.input(word("ask.sentence", lang), value=state.ask, placeholder=word("ask.placeholder", lang))
                sentence.props(f"outlined stack-label maxlength={LONGEST_SENTENCE} autocomplete=off data-option=ask").mark("sentence")
                sentence.on_value_change(lambda _: self.edited.clear())
                sentence.on("keydown.enter", self._submit)
                self.places["sentence"] = sentence
                button(word("ask.submit", lang), self._submit, "button primary").mark("submit")
            with box("div", "chips scrolling") as chips:
                self.places["examples"] = chips
                chips.props.update({"role": "group", "aria-label": word("ask.examples", lang)})
                for name in words()["example"]:
                    button(word(f"example.{name}", lang), lambda name=name: self._example(name), "chip").mark(f"example-{name}")
            self.places["understood"] = box("div")
            self.places["edit"] = button(word("ask.edit", lang), lambda: self.fold(is_folded=False), "button quiet edit").mark("edit")
            self.places["fields"] = box("div", "wishes")
            self.redraw_fields()
        if state.ask:
            self.understand(state.ask)
        self.settle()

    def show_sentence(self, sentence: str) -> None:
        """Another sentence in its line, as it was typed once; what was read of the
        one before is gone."""
        self.places["sentence"].value = sentence
        self.places["understood"].clear()
        self.edited.clear()

    def settle(self) -> None:
        """What this is, and examples, are for those who have not begun."""
        begun = bool(self.page.state.wishes or self.page.state.ask)
        for name in ("lead", "examples"):
            self.places[name].set_visibility(not begun)
        self.places["heading"].classes(**{"add" if begun else "remove": "aside"})

    def fold(self, *, is_folded: bool) -> None:
        """On a phone the fields give way to the answer; a button brings them back."""
        self.places["around"].classes(**{"add" if is_folded else "remove": "folded"})

    async def _submit(self) -> None:
        """A new sentence is read; one that was read already does not undo what its
        fields say by now."""
        sentence = clean(self.places["sentence"].value, LONGEST_SENTENCE)
        if sentence and sentence != self.page.state.ask:
            await self.page.say(sentence)
        else:
            if not sentence:
                self.places["understood"].clear()
            await self.page.plan_again(sentence)

    async def _example(self, name: str) -> None:
        sentence = word(f"example.{name}", self.page.state.lang)
        self.places["sentence"].value = sentence
        self.edited.clear()
        await self.page.say(sentence)

    def understand(self, sentence: str) -> RightfitError | None:
        """Read a sentence and show what was understood and what was not; the problem
        where there is one."""
        from rightfit import api, reach
        from rightfit.explain.beside.questions import without_questions

        try:
            with reach.closed():
                self.understood = api.understand(without_questions(sentence).wish)
        except RightfitError as error:
            self.understood = None
            return error
        finally:
            self.places["understood"].clear()
        with self.places["understood"], box("div", "understood").mark("understood"):
            self._tokens("ask.read", [self._read(one.option, one.value) for one in self._readings()])
            self._tokens("ask.unused", list(self.understood.unused), "token off")
        return None

    def _readings(self) -> list[Any]:
        """What was read, in the order of the table of options."""
        assert self.understood is not None
        order = list(OPTIONS)
        return sorted((*self.understood.readings, *self.understood.inferred), key=lambda one: order.index(one.option))

    def _read(self, option: str, value: str) -> str:
        lang = self.page.state.lang
        return word("error.named", lang, field=option_name(option, lang), message=value_name(option, value, lang))

    def _tokens(self, key: str, values: list[str], classes: str = "token") -> None:
        if values:
            with box("div", "row"):
                text(word(key, self.page.state.lang), "name")
                for value in values:
                    text(value, classes)

    # ---- fields

    def redraw_fields(self) -> None:
        """The fields for the task of the state, with the values of the state."""
        state, lang = self.page.state, self.page.state.lang
        task = state.wishes.get("task", "")
        self.fields = {}
        self.places["fields"].clear()
        with self.places["fields"]:
            self._grid(main_options(task), state)
            more = [name for name in more_options(task) if self.is_open or state.wishes.get(name)]
            if more:
                self._grid(more, state)
            with box("div", "between"):
                button(word("ask.fewer" if self.is_open else "ask.more", lang), self._toggle, "button quiet").mark("more-options")
                button(word("ask.clear", lang), self._clear, "button quiet").mark("clear")
            self.places["names"] = box("datalist")
            if "model" in self.fields:
                self.places["names"].props["id"] = list_name(self.fields["model"])

    def _grid(self, names: Any, state: PageState) -> None:
        with box("div", "fields"):
            for name in names:
                clouds = tuple(self.page.answers.market.catalog().as_of()) if name == "cloud" else ()
                found = field(name, state.wishes.get(name, ""), state.lang, self.page.change, clouds=clouds)
                self.fields[name] = found
                if name == "model":
                    found.on_value_change(lambda event: self._suggest(str(event.value or "")))

    async def _suggest(self, query: str) -> None:
        """Names of models while one is typed."""
        self.typed += 1
        typed = self.typed
        await asyncio.sleep(SUGGEST_PAUSE_S)
        if typed != self.typed or self.places["names"].is_deleted:
            return
        found = model_names(query)
        self.places["names"].clear()
        with self.places["names"]:
            for name in found:
                box("option").props["value"] = name

    def _toggle(self) -> None:
        self.is_open = not self.is_open
        self.redraw_fields()

    def _clear(self) -> None:
        ui.navigate.to(PageState(lang=self.page.state.lang).address())

    # ---- problems

    def show_error(self, name: str, message: str) -> None:
        """One line below the field that it is about; below the sentence where it is about that."""
        found = self.fields.get(name) or (self.places["sentence"] if name == "ask" else None)
        if found is not None:
            show_error(found, message)

    def clear_errors(self) -> None:
        """No field is wrong."""
        for found in (*self.fields.values(), self.places["sentence"]):
            if found.props.get("error"):
                show_error(found, "")

    def named(self, name: str, message: str) -> str:
        """A message with the name of its field before it."""
        lang = self.page.state.lang
        return word("error.named", lang, field=option_name(name, lang), message=message) if name in words()["option"] else message
