"""What an assistant may read and the questions it may offer: resources and prompts of the server."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.records import dataclass
from rightfit.workload.options import OPTIONS


@dataclass(frozen=True, slots=True)
class Shelf:
    """A text that can be read at an address."""

    uri: str
    name: str
    about: str
    mime_type: str
    read: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Question:
    """A usual question: `text` with a place for each of `asks` {name: what it is}."""

    name: str
    about: str
    asks: Mapping[str, str]
    text: str


def option_records(query: str = "") -> list[dict[str, Any]]:
    """Every option of a workload whose name or help holds the query: what it is, an example, the words it takes."""
    wanted = query.casefold().replace("-", "_")
    return [
        {
            "option": name,
            "help": option.help,
            "example": option.example,
            **({"words": list(option.vocabulary.words)} if option.vocabulary else {}),
        }
        for name, option in OPTIONS.items()
        if wanted in name or query.casefold() in option.help.casefold()
    ]


def _rules() -> str:
    from rightfit.explain.rules import all_rules

    return _json(
        [
            {"rule": name, "statement": rule.statement["en"], **{name: text["en"] for name, text in rule.reasons.items()}}
            for name, rule in all_rules().items()
        ]
    )


def _clouds() -> str:
    from rightfit.planner.plan import default_catalog
    from rightfit.search import places

    return _json(places.providers(default_catalog(), asked=[], lang="en"))


def _accelerators() -> str:
    from rightfit import api

    return _json(api.accelerators(""))


def _json(found: Sequence[Any]) -> str:
    from rightfit.explain.plain import plain

    return json.dumps([plain(one) for one in found], ensure_ascii=False)


def all_shelves() -> tuple[Shelf, ...]:
    """Every resource."""
    return (
        Shelf(
            "rightfit://options",
            "options",
            "every option of a workload with example and words",
            "application/json",
            lambda: _json(option_records()),
        ),
        Shelf("rightfit://rules", "rules", "rules of thumb, what holds of them and its source", "application/json", _rules),
        Shelf("rightfit://clouds", "clouds", "the clouds, with number of servers and date of prices", "application/json", _clouds),
        Shelf("rightfit://accelerators", "accelerators", "the accelerators with memory and rates", "application/json", _accelerators),
    )


_QUESTIONS = tomllib.loads(Path(__file__).with_name("data").joinpath("questions.toml").read_text(encoding="utf-8"))["question"]
QUESTIONS = tuple(Question(**one) for one in _QUESTIONS)
