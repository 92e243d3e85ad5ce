"""An answer cut to what an assistant acts on, some 5 KB of it; the rest is kept for a while and
given part by part on request."""

from __future__ import annotations

import collections
import hashlib
import json
import re
import threading
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.errors import InputError, UnknownNameError
from rightfit.explain.messages import label
from rightfit.explain.quantities import Table
from rightfit.explain.sheets import Breakdown, Choice, Lines, Part
from rightfit.messages import Lang, Message
from rightfit.records import dataclass
from rightfit.workload.options import OPTIONS
from rightfit.workload.vocabulary import nearest_words

#: How many whole answers a server remembers, the oldest forgotten first.
MOST_KEPT = 50
_PLAIN = ("rank", "provider", "instance_type", "region", "nodes", "purchase", "price_as_of")
_INTERVAL = ("mid", "low80", "high80")
_FIGURES = (
    "peak_memory_bytes",
    "host_memory_bytes",
    "step_s",
    "train_time_s",
    "total_time_s",
    "tokens_per_s",
    "samples_per_s",
    "requests_per_s",
)
_LATENCIES = ("ttft_s", "tpot_s", "latency_s")
_MOST_ASSUMED = 6
_DIGITS = 4


class Kept:
    """Whole answers by their code."""

    def __init__(self) -> None:
        self._found: collections.OrderedDict[str, Mapping[str, Any]] = collections.OrderedDict()
        self._lock = threading.Lock()

    def keep(self, document: Mapping[str, Any]) -> str:
        """Remember an answer; its code is the same for the same answer."""
        code = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:10]
        with self._lock:
            self._found[code] = document
            self._found.move_to_end(code)
            while len(self._found) > MOST_KEPT:
                self._found.popitem(last=False)
        return code

    def part(self, code: str, name: str, rank: int | None) -> Any:
        """One part of an answer, or one option of it. InputError where the answer is forgotten,
        UnknownNameError for a part that it lacks."""
        document = self._found.get(code)
        if document is None:
            raise InputError(Message("faces.no_answer", code=code[:40], count=MOST_KEPT), field="answer")
        if name not in document:
            raise UnknownNameError(
                "part",
                name,
                nearest=nearest_words(name, list(document), count=2),
                allowed=Message("names.allowed_words", names=", ".join(document)),
                field="part",
            )
        found = document[name]
        if rank is None or name != "options":
            return found
        ranks = [option["rank"] for option in found]
        if rank not in ranks:
            raise InputError(
                Message("faces.no_rank", rank=rank, problem=", ".join(map(str, ranks)) or Message("measure.none")), field="rank"
            )
        return found[ranks.index(rank)]


KEPT = Kept()


def brief_plan(document: Mapping[str, Any]) -> dict[str, Any]:
    """A plan or an estimate: each option with money and figures, the reasons and warnings of the
    best, what was assumed."""
    options = document["options"]
    shown = options or [one for one in (document.get("unfit"),) if one]
    return {
        "answer": KEPT.keep(document),
        "workload": document["workload"],
        "options": [brief_option(option) for option in options],
        **({"unfit": brief_option(shown[0])} if shown and not options else {}),
        "why": shown[0]["why"] if shown else [],
        "warnings": shown[0]["warnings"] if shown else [],
        "assumptions": [one["why"] for one in document["assumptions"][:_MOST_ASSUMED]],
        "refused": [{name: one[name] for name in ("criterion", "count", "needed", "had")} for one in document["rejected"]],
        "parts": [name for name, value in document.items() if value],
    }


def brief_verdict(document: Mapping[str, Any]) -> dict[str, Any]:
    """A verdict on one server: where it stands, and what it would do."""
    option = document["option"]
    return {
        "answer": KEPT.keep(document),
        **{name: document[name] for name in ("provider", "instance_type", "fits", "standing")},
        **({"option": brief_option(option)} if option else {}),
        "parts": [name for name, value in document.items() if value],
    }


def brief_option(option: Mapping[str, Any]) -> dict[str, Any]:
    """Server, price and figures, each with its middle and 80 % interval, base
    units, four digits."""
    cost, accelerator = option["cost"], option["accelerator"]
    money = ("hourly_usd", "total_usd", "monthly_usd", "per_thousand_requests_usd", "per_million_tokens_usd")
    return {
        **{name: option[name] for name in _PLAIN},
        "accelerator": f"{accelerator['count_per_node']} x {accelerator['name']}" if accelerator["name"] else "",
        "probability": {name: _rounded(value) for name, value in option["probability"].items() if value is not None},
        "cost": {name: _rounded(cost[name]) for name in money if cost.get(name) is not None},
        "figures": {
            name: [_rounded(figure[key]) for key in _INTERVAL]
            for name, figure in option["estimate"].items()
            if name in (*_FIGURES, *_LATENCIES)
        },
    }


def _rounded(value: Any) -> Any:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


# ---- An answer as a few lines that an assistant can quote: the sheet that every face draws,
# cut to what matters.

#: The lists of a sheet that are worth quoting; the rest is in the structured answer.
QUOTED = frozenset({"why", "warnings", "standing", "refused", "advice", "assumed", "load"})
_MOST_LINES, _MOST_ROWS, _LONGEST = 6, 5, 4000


def sheet_text(parts: Iterable[Part], lang: Lang) -> str:
    """The parts worth quoting as plain text."""
    shown = [text for part in parts if (text := _part_text(part, lang))]
    text = "\n".join(shown)
    return text if len(text) <= _LONGEST else text[:_LONGEST].rpartition("\n")[0] + "\n..."


def _part_text(part: Part, lang: Lang) -> str:
    if isinstance(part, Choice):
        return "\n".join(line for line in (part.heading, part.headline, *part.lines) if line)
    if isinstance(part, Lines):
        return "\n".join([part.heading, *_list(part.lines)]) if part.name in QUOTED else ""
    if isinstance(part, Table):
        return table_text(part, lang)
    return "" if isinstance(part, Breakdown) else part


def _list(lines: Sequence[str]) -> list[str]:
    shown = [line if line.startswith("  ") else f"- {line}" for line in lines[:_MOST_LINES]]
    return [*shown, f"- ... ({len(lines) - _MOST_LINES})"] if len(lines) > _MOST_LINES else shown


def table_text(table: Table, lang: Lang) -> str:
    """The first rows of a table, cells separated by bars."""
    rows = [[column.show(record.get(column.key)) for column in table.columns] for record in table.records[:_MOST_ROWS]]
    heading = [label("column", column.key, lang) for column in table.columns]
    return "\n".join([*([table.title] if table.title else []), *(" | ".join(row) for row in (heading, *rows))])


_FLAG = re.compile(r"--([a-z][a-z-]+)")
_COMMAND = re.compile(r"`?\brightfit (prices add|[a-z]+)\b`?")
_SENTENCE = re.compile(r".+?(?:[.;?!](?=\s|$)\s*|[。；！？]|$)")


def spoken(text: str, tool_of: Callable[[str], str]) -> str:
    """A text of the library without command lines: flags by the names of arguments, commands by
    those of tools; a sentence about a command that no tool does is left out."""
    lines = [_spoken_line(line, tool_of) for line in text.splitlines()]
    return "\n".join(said for said, line in zip(lines, text.splitlines(), strict=True) if said or not line)


def _spoken_line(line: str, tool_of: Callable[[str], str]) -> str:
    kept = [piece for piece in _SENTENCE.findall(line) if all(tool_of(found) for found in _COMMAND.findall(piece))]
    said = _COMMAND.sub(lambda found: f"`{tool_of(found[1])}`", "".join(kept).rstrip())
    return _FLAG.sub(lambda found: f"`{found[1].replace('-', '_')}`", said.rstrip(";；"))


def spoken_data(found: Any, tool_of: Callable[[str], str]) -> Any:
    """Every text of an answer's data as `spoken` says it."""
    if isinstance(found, str):
        return spoken(found, tool_of)
    if isinstance(found, Mapping):
        return {key: spoken_data(value, tool_of) for key, value in found.items()}
    return [spoken_data(one, tool_of) for one in found] if isinstance(found, list | tuple) else found


# ---- What an assistant may read and the questions it may offer: resources and
# prompts of the server.


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
    """Every option of a workload whose name or help holds the query: what it is, an example,
    the words it takes."""
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
    from rightfit.search import servers

    return _json(servers.providers(default_catalog(), asked=[], lang="en"))


def _accelerators() -> str:
    from rightfit import api

    return _json(api.accelerators(""))


def _json(found: Sequence[Any]) -> str:
    from rightfit.explain.messages import plain

    return json.dumps([plain(one) for one in found], ensure_ascii=False)


def all_shelves() -> tuple[Shelf, ...]:
    """Every resource."""
    return (
        Shelf(
            "rightfit://options",
            "options",
            "every argument that describes a workload, with example and accepted values",
            "application/json",
            lambda: _json(option_records()),
        ),
        Shelf("rightfit://rules", "rules", "rules of thumb, whether each is right, and the source", "application/json", _rules),
        Shelf("rightfit://clouds", "clouds", "the clouds, with number of servers and price dates", "application/json", _clouds),
        Shelf(
            "rightfit://accelerators",
            "accelerators",
            "the accelerators, with memory, bandwidth and compute",
            "application/json",
            _accelerators,
        ),
    )


_QUESTIONS = tomllib.loads(Path(__file__).with_name("data").joinpath("questions.toml").read_text(encoding="utf-8"))["question"]
QUESTIONS = tuple(Question(**one) for one in _QUESTIONS)
