"""What an answer says of its case beside what engines assume: defaults that were taken in silence,
and words that nobody understood.

Engines leave what they took in `answer["taken"]`, keyed by the column that would have said it; a
column that is empty is then named with its value. Words of free columns that no list knows are
named too, and so are cells outside the allowed words. None of this widens an interval by itself:
the law of intervals (estimation/intervals.py) counts the assumptions of the engines.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit import facts
from rightfit.facts.resolve import resolve_offline
from rightfit.facts.tables import lists, says, shape, spelled
from rightfit.proof.case_columns import CaseColumn, case_columns, compared
from rightfit.proof.cases.serving import quantile_of
from rightfit.proof.cases.training import stated_habit_pattern
from rightfit.proof.serving_predict import is_generation
from rightfit.proof.tables import UNKNOWN_CELLS

_DATA = tomllib.loads(Path(__file__).with_name("data").joinpath("remarks.toml").read_text(encoding="utf-8"))
#: How an engine's own assumption begins where it already speaks of a column.
_SPOKEN: Mapping[str, str] = _DATA["spoken"]
_TABLES: Mapping[str, Mapping[str, Any]] = _DATA["table"]
_MOST_SHOWN = 12


def remarks_of(table: str, cells: Mapping[str, str], answer: Mapping[str, Any]) -> list[str]:
    """Everything that is to be said of a case beside the assumptions of the engine. `table`: kind
    of table; `cells`: what engines saw."""
    if answer.get("error"):
        return []
    return [
        *(answer.get("said") or ()),
        *silent_defaults(cells, answer),
        *not_allowed(table, cells),
        *not_computed(table, cells),
        *not_understood(table, cells),
        *compared(cells),
    ]


def _speaks_of(column: str, text: str) -> bool:
    return re.match(rf"(?:[\d.]+ )?{re.escape(_SPOKEN.get(column, column))}\b", text) is not None


_USUAL = re.compile(r"^(.*) not stated: the (?:framework's )?usual one taken$")


def with_values(answer: Mapping[str, Any]) -> list[str]:
    """The assumptions of the engine; where one says only that the usual was taken,
    with what that was."""
    taken = answer.get("taken") or {}
    found = []
    for text in answer["assumptions"]:
        match = _USUAL.match(text)
        column = match and next((name for name, words in _SPOKEN.items() if words == match[1] and name in taken), match[1])
        found.append(f"{match[1]} not stated: {taken[column]} taken" if match and column in taken else text)
    return found


def silent_defaults(cells: Mapping[str, str], answer: Mapping[str, Any]) -> list[str]:
    """Columns that the case leaves empty and what was taken for each, unless the engine said so."""
    said = [text.lower() for text in answer["assumptions"]]
    silent = {column: value for column, value in (answer.get("taken") or {}).items() if not cells.get(column)}
    return [f"{column} not stated: {value} taken" for column, value in silent.items() if not any(_speaks_of(column, text) for text in said)]


# words --------------------------------------------------------------------------------------------


@functools.cache
def _allowed(table: str) -> Mapping[str, frozenset[str]]:
    """Columns of one word each, and the words that they may hold."""
    return {
        one.column: frozenset(one.allowed.split("|"))
        for one in case_columns(table)
        if one.unit == "word" and one.allowed and one.column not in _TABLES[table]["free"].split()
    }


def not_allowed(table: str, cells: Mapping[str, str]) -> list[str]:
    """Cells that hold none of the words that their column allows."""
    stated = {
        column: cells[column].strip()
        for column in _allowed(table)
        if cells.get(column) and cells[column].strip().lower() not in UNKNOWN_CELLS
    }
    wrong = [(column, text) for column, text in stated.items() if text.lower() not in _allowed(table)[column]]
    return [f"{column} {text[:40]!r} is none of {', '.join(sorted(_allowed(table)[column]))}: not read" for column, text in wrong]


#: Columns that are understood and that no formula of batch prediction takes in, with what is
#: done in their place.
_UNUSED: Mapping[str, Mapping[str, Any]] = _DATA["unused"]
_MEANS = ("", "mean", "avg", "average")
_MEDIANS = ("median", "p50", "50", "50.0")


def not_computed(table: str, cells: Mapping[str, str]) -> list[str]:
    """Columns that are understood but not taken in, and percentiles that are none or that one
    forward pass, which takes one time, does not have."""
    rules = _UNUSED[table]
    metric = cells.get("metric", "peak_mem_")
    figure = "memory" if "mem_" in metric or "ram_" in metric else "time"
    told = [f"{column} is not taken in: {instead}" for column, instead in rules["always"].items() if cells.get(column)]
    told += [f"{column} is not taken in: it does not bear on {figure}" for column in rules[figure].split() if cells.get(column)]
    told += [
        f"{column} is not taken in: {others.replace(' ', ' and ')} decide"
        for column, others in rules["beside"].items()
        if cells.get(column) and all(_decides(other, cells) for other in others.split())
    ]
    percentile = cells.get("percentile", "").strip().lower()
    if table == "inference" and percentile not in _MEANS and not _is_quantile(percentile, cells):
        told.append(f"percentile {percentile[:20]!r}: the mean is predicted")
    return told


def _decides(column: str, cells: Mapping[str, str]) -> bool:
    """Whether a column is stated, and a name in it known: of an unknown model the dimensions
    beside its name count."""
    return _is_known_model(cells.get("model", "")) if column == "model" else bool(cells.get(column))


@functools.lru_cache(maxsize=4096)
def _is_known_model(name: str) -> bool:
    return bool(name) and "@" not in name and resolve_offline(name) is not None


def _is_quantile(percentile: str, cells: Mapping[str, str]) -> bool:
    """Whether a percentile is predicted: any of a language model under load; a forward pass has one
    time, which is its median too."""
    return quantile_of(percentile) > 0 and (percentile in _MEDIANS or is_generation(cells))


# free text ----------------------------------------------------------------------------------------


@functools.cache
def _known(table: str) -> re.Pattern[str]:
    """Everything that the readers of a table find in free text, as one expression."""
    found = {name: chosen.split() for name, chosen in _TABLES[table]["lists"].items()}
    words = [spelled(name, word.pattern) for name, chosen in found.items() for one in chosen for word in lists(name).get(one, ())]
    patterns = [row[column] for name, column in _TABLES[table].get("patterns", ()) for row in facts.table(name) if row[column]]
    patterns += [stated_habit_pattern()] if table == "training" else []
    return re.compile(
        "|".join(
            f"(?:{part})"
            for part in (*filter(None, (*words, *patterns)), spelled("remarks", f"{{{table}_remarks}}"))
            if not re.match(part, "")
        ),
        re.IGNORECASE,
    )


_SEPARATED = re.compile(r"[^;,|]+")
_TELLING = re.compile(r"[a-z\u4e00-\u9fff]{2}", re.IGNORECASE)


@functools.lru_cache(maxsize=8192)
def unknown_words(table: str, text: str) -> tuple[str, ...]:
    """Parts of a free text, between commas and semicolons, in which nothing is known."""
    known = [match.span() for match in _known(table).finditer(text)]
    parts = [match for match in _SEPARATED.finditer(text) if _TELLING.search(match[0])]
    return tuple(part[0].strip() for part in parts if not any(start < part.end() and end > part.start() for start, end in known))


def not_understood(table: str, cells: Mapping[str, str]) -> list[str]:
    """Free text in which nothing is known, and names of settings that fall back to the usual."""
    told = []
    for column in _TABLES[table].get("free_text", "").split():
        if words := unknown_words(table, cells[column]) if cells.get(column) else ():
            more = f" and {len(words) - _MOST_SHOWN} more" if len(words) > _MOST_SHOWN else ""
            told.append(f"{column} not understood: {', '.join(word[:60] for word in words[:_MOST_SHOWN])}{more}")
    judges = _JUDGES.get(table, {})
    told += [
        f"{column} {cells[column][:40]!r} not known: the usual one taken"
        for column, knows in judges.items()
        if cells.get(column) and not knows(cells[column])
    ]
    return told


def _in_table(name: str) -> Callable[[str], bool]:
    def knows(text: str) -> bool:
        lowered = text.lower().strip().rstrip("?")
        return any(part and re.search(part, lowered) for row in facts.table(name) for part in _alternatives(row["match"]))

    return functools.lru_cache(maxsize=1024)(knows)


def _alternatives(match: str) -> Sequence[str]:
    return [match] if "(" in match else match.split("|")


def _found(words: str) -> Callable[[str], bool]:
    """Whether a cell holds a word of the list."""
    return lambda text: says("remarks", words, text, ignore_case=True)


def _is(words: str) -> Callable[[str], bool]:
    """Whether a cell is a word of the list."""
    return lambda text: shape("remarks", f"^{{{words}}}$", ignore_case=True).search(text) is not None


def _either(*judges: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: any(judge(text) for judge in judges)


_JUDGES: Mapping[str, Mapping[str, Callable[[str], bool]]] = {
    "training": {
        "precision": _in_table("dtypes"),
        "optimizer": _in_table("optimizers"),
        "weights_dtype": _found("weights_dtype"),
        "strategy": _either(_is("strategy"), _found("parallel_part")),
        "sharding": _found("sharding"),
        "attention": _found("attention"),
        "recompute": _is("recompute"),
        "method": _is("method"),
        "offload": _found("offload"),
    },
    "inference": {
        "kv_dtype": _found("kv_dtype"),
        "compute_dtype": _found("compute_dtype"),
        "request_rate": _found("request_rate"),
        "batch_or_concurrency": _found("batch_or_concurrency"),
        "host": _found("host"),
        "split": _is("split"),
    },
    "samples": {
        "precision": _found("precision"),
        "counter": _found("counter"),
        "image_size": lambda text: any(letter.isdigit() for letter in text),
    },
    "classical": {
        "density": _found("density"),
        "pinning": _is("pinning"),
        "hardware": _found("hardware"),
    },
}


# ---- Which columns of a case do not bear on its figure: each told cell is tried without it and
# with another value; what moves nothing is named, so that nobody takes it for counted.

#: Rows that are tried so; in a longer table the engines' own remarks have to do.
MOST_ROWS = 200
_NEVER = ("id", "metric")
_COUNTS = ("count", "tokens", "sequences", "samples", "GiB", "10^9", "10^6", "pixels", "s", "ms", "requests/s", "MB", "flag", "share")
_FIGURES = ("predicted", "low80", "high80", "low95", "high95", "error")

Answered = Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]]


def name_idle(tables: Sequence[str], cells: Sequence[Mapping[str, str]], answers: Sequence[dict[str, Any]], answered: Answered) -> None:
    """Add to each answer's remarks the columns that its figure does not hang on. `answered` gives
    the answers of rows, their intervals included."""
    tried: list[tuple[int, str, dict[str, str]]] = []
    for index, (table, row, answer) in enumerate(zip(tables, cells, answers, strict=True)):
        if answer.get("error") or not answer.get("predicted"):
            continue
        for column in case_columns(table):
            if column.column not in _NEVER and row.get(column.column):
                tried += [(index, column.column, {**row, column.column: value}) for value in _others(column, row[column.column])]
    if not tried:
        return
    found = answered([row for _, _, row in tried])
    moves: dict[tuple[int, str], bool] = {}
    for (index, name, _), other in zip(tried, found, strict=True):
        changed = any(other.get(figure) != answers[index].get(figure) for figure in _FIGURES)
        moves[index, name] = moves.get((index, name), False) or changed
    for (index, name), moved in moves.items():
        if not moved:
            answers[index].setdefault("idle", []).append(name)


def _others(column: CaseColumn, cell: str) -> list[str]:
    """No value, and another one of the column's kind."""
    allowed = [word for word in column.allowed.split("|") if column.unit in ("word", "flag") and word and word != cell.strip().lower()]
    others = ["", *allowed[:4]]
    if not allowed and re.fullmatch(r"\d+(\.\d+)?", cell.strip()):
        number = float(cell)
        others += [f"{number * 2 or 1:g}", f"{number * 8 or 4:g}"] if number != 1 or column.unit != "share" else ["0.5"]
    return others


def idle_text(answer: Mapping[str, Any], told: Sequence[str]) -> list[str]:
    """The line that names them; those that a remark speaks of are named already."""
    names = [name for name in answer.get("idle", ()) if not any(name in text for text in told)]
    return [f"not used for this figure: {', '.join(names)}"] if names else []
