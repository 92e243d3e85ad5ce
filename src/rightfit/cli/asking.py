"""Wishes in plain words, and the few questions that matter when nothing was said at all."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.cli.declared import is_chinese
from rightfit.cli.output import View, note
from rightfit.errors import InputError
from rightfit.explain.command_text import command_line
from rightfit.explain.messages import label
from rightfit.messages import Lang, Message
from rightfit.workload.options import read_wish

if TYPE_CHECKING:
    from rightfit.workload.ask import Understood

_FIRST = ("model", "task")


class NoModelError(InputError):
    """A sentence that names no model; `found`: what it says, `wishes`: with what was given
    beside it."""

    def __init__(self, found: Understood, wishes: Mapping[str, Any]) -> None:
        catalog = "gpu" in wishes and "task" not in wishes
        asked = Message("cli.catalog_question", command=_catalog_command(wishes)) if catalog else Message("cli.sentence_without_model")
        super().__init__(asked, field="ask")
        self.found, self.wishes = found, dict(wishes)


class SeveralPlansError(InputError):
    """A sentence that names several models or steps; `found`: what it says, `parts`: the wishes of
    each, in order."""

    def __init__(self, found: Understood, parts: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(found.question(), field="ask")
        self.found, self.parts = found, tuple(parts)


class UnreadWordsError(InputError):
    """A sentence whose model is known, with words that may change the answer and that no option
    takes: `words`; `wishes`: the rest of it, with what was given beside it; `leaves_a_plan`:
    the rest may be planned under them; `turns`: they would make another answer of it."""

    def __init__(self, found: Understood, wishes: Mapping[str, Any]) -> None:
        super().__init__(found.question(), field="ask")
        self.words, self.wishes = found.weighty, dict(wishes)
        self.leaves_a_plan, self.turns = found.leaves_a_plan(), found.turns()


_QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "train": ("method", "data", "deadline", "budget"),
    "finetune": ("method", "data", "deadline", "budget"),
    "serve": ("rate", "latency", "budget"),
    "batch": ("data", "deadline", "budget"),
    "prepare": ("data", "deadline"),
}


def in_words_of(sentence: str | None, view: View) -> View:
    """Answers to a Chinese sentence are in Chinese, unless --lang says otherwise."""
    if view.is_lang_given or not sentence or not is_chinese(sentence):
        return view
    return dataclasses.replace(view, lang="zh")


def wishes_of(sentence: str, given: Mapping[str, Any], view: View, *, ask_with: str | None = None) -> dict[str, Any]:
    """The wishes of a sentence, overruled by options that were given beside it. Says on standard
    error what was understood and what was not used. `ask_with`: the language model that reads it,
    URL#MODEL."""
    from rightfit.explain.stories import told_first
    from rightfit.workload.ask import FROM_SCRATCH, understand

    if ask_with:
        from rightfit.workload.ask.by_model import understand_with

        found = understand_with(sentence, ask_with)
    else:
        found = understand(sentence)
    chosen = {name: value for name, value in given.items() if value is not None}
    if not chosen and not found.own_machine and (found.unused or "operation" in found.wishes):
        from rightfit.explain.open_wishes import wishes_by_model, wishes_by_step

        if several := wishes_by_model(found) or wishes_by_step(found):
            raise SeveralPlansError(found, several)
    wishes = {**found.wishes, **chosen}
    if have := found.own_machine:
        wishes = {**{name: value for name, value in wishes.items() if name != "gpu"}, "have": have}
    quoted = {reading.option: reading.words for reading in found.readings}
    parts = [
        f"{name} = {value}" + (f" ({quoted[name]!r})" if name in quoted and name not in chosen else "") for name, value in wishes.items()
    ]
    is_told = not view.is_machine and not ask_with and told_first(found)  # what was understood of a post leads its answer
    if not is_told:
        note(label("status", "understood", view.lang, wishes="; ".join(parts) or "-"), view)
    compared = {FROM_SCRATCH: "task", "workload.assumed_alternative": "model"}
    hidden = ("workload.assumed_told", "workload.assumed_without") if is_told else ()
    if assumed := [one for one in found.assumed if compared.get(one.key) not in chosen and one.key not in hidden]:
        note(label("status", "assumed", view.lang, words="; ".join(one.text(view.lang) for one in assumed)), view)
    if found.unused and not is_told:
        note(label("status", "not_used", view.lang, words="; ".join(found.unused)), view)
    if is_library(wishes.get("model")):  # names no algorithm
        del wishes["model"]
    if "model" not in wishes and wishes.get("task") != "prepare":
        refuse_closed(found.unused)
        if unknown := found.unknown_model():
            raise InputError(unknown, field="ask")
        raise NoModelError(found, wishes)
    note(label("status", "same_as", view.lang, command=command_line(wishes)), view)
    if found.weighty:
        raise UnreadWordsError(found, wishes)
    return wishes


def _catalog_command(wishes: Mapping[str, Any]) -> str:
    """The command that lists what a sentence about cards alone asks for."""
    named = [(name, wishes[name]) for name in ("gpu", "cloud", "region", "country", "purchase") if name in wishes]
    return shlex.join(["rightfit", "prices", *(word for name, value in named for word in (f"--{name}", str(value)))])


def refuse_closed(words: Iterable[str]) -> None:
    """A sentence about a model that only its maker runs is not one about another model."""
    from rightfit.facts.resolve import closed_model, resolve_model

    if closed := next((word for word in words if closed_model(word)), ""):
        resolve_model(closed, network=False)


def is_library(model: Any) -> bool:
    """Whether what was read as a model is a library of many."""
    from rightfit.facts.classical import library_without_algorithm

    return isinstance(model, str) and bool(library_without_algorithm(model))


def interview(view: View, *, ask: Callable[[str], str]) -> dict[str, Any]:
    """The wishes of somebody who said nothing yet: a sentence, or one answer a question; an empty
    answer leaves the option open."""
    sentence = ask(label("question", "sentence", view.lang)).strip()
    if sentence:
        return wishes_of(sentence, {}, view)
    wishes: dict[str, Any] = {}
    for name in _FIRST:
        _answer(wishes, name, view.lang, ask=ask, needed=name == "model")
    for name in _QUESTIONS.get(str(read_wish("task", wishes.get("task", "finetune"))["task"]), ()):
        _answer(wishes, name, view.lang, ask=ask)
    note(label("status", "same_as", view.lang, command=command_line(wishes)), view)
    return wishes


def _answer(wishes: dict[str, Any], name: str, lang: Lang, *, ask: Callable[[str], str], needed: bool = False) -> None:
    """One question, again until the answer can be read."""
    problem = ""
    while True:
        text = ask((problem + "\n" if problem else "") + label("question", name, lang)).strip()
        if not text and not needed:
            return
        try:
            if not text:
                raise InputError(Message("cli.needed"))
            read_wish(name, text)
        except InputError as error:
            problem = error.text(lang)
            continue
        wishes[name] = text
        return
