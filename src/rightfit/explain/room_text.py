"""Memory by moment, the largest batch that fits, and how each term is worked out with its source."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.explain import quantities as q
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang, say, topic
from rightfit.explain.plan_words import OptionText
from rightfit.explain.tables import Column, Table
from rightfit.families.registry import name_of

if TYPE_CHECKING:
    from rightfit.search.answer import Plan, Section

_DATA = Path(__file__).with_name("data")

_SOURCE = re.compile(r"Source: (.*?)(?:\. Known error|\n\s*\n|$)", re.DOTALL)


def phase_tables(plan: Plan, lang: Lang) -> Iterable[Table]:
    """What a card must hold at each moment of a step, largest first, and its share of what the card gives."""
    for section in _sections(plan):
        room = float(section.content["capacity_bytes"])
        held = sorted(section.content["phase_bytes"].items(), key=lambda item: -item[1])
        records = [{"moment": label("phase", name, lang), "needed": value, "of_card": value / room} for name, value in held]
        columns = (Column("moment"), Column("needed", q.memory_text, right=True), Column("of_card", q.percent_text, right=True))
        yield Table(columns, records, title=label("section", "phases", lang))


def batch_lines(plan: Plan, render: Callable[[Any], str]) -> list[str]:
    """The largest micro-batch that the card would hold."""
    return [render(reason) for section in _sections(plan) for reason in section.reasons]


def _sections(plan: Plan) -> list[Section]:
    return [section for section in plan.sections if section.name == "memory"]


def formula_lines(plan: Plan, text: OptionText, lang: Lang) -> list[str]:
    """How the terms of memory and time are worked out, with the source of each."""
    family = name_of(plan.workload)
    found = [(term.label, formula_of(kind, term.name, family)) for kind in ("memory", "time") for term in getattr(text, kind)]
    return [
        say("formulas.line", lang, name=name, formula=say(f"formulas.{key}", lang), source=source_of(functions()[key]))
        for name, key in found
        if key
    ]


def formula_of(kind: str, term: str, family: str) -> str:
    """The key of the formula of a term in a family of work; empty where none is told."""
    name = f"{kind}_{term.removesuffix('_s')}"
    keys = (f"{name}/{family}", *([name] if family in ("language", "samples") else []))
    return next((key for key in keys if key in topic("formulas")), "")


@cache
def functions() -> Mapping[str, str]:
    """The function of the physics behind each formula."""
    return tomllib.loads((_DATA / "formula_functions.toml").read_text(encoding="utf-8"))


@cache
def source_of(function: str) -> str:
    """Where the equation of a function of the physics comes from: its own source, or that of its module."""
    name, _, member = function.partition(".")
    module = importlib.import_module(f"rightfit.physics.{name}")
    texts = (inspect.getdoc(getattr(module, member)) or "", inspect.getdoc(module) or "")
    found = next(match for match in map(_SOURCE.search, texts) if match)
    return " ".join(found[1].split()).rstrip(".")
