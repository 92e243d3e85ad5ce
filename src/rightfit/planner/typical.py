"""No model named: two or three typical models for the kind of data and what it is for
(facts/data/typical_models.csv)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import UnknownNameError
from rightfit.messages import Message
from rightfit.records import dataclass
from rightfit.search.answer import Option
from rightfit.workload.amounts import is_table
from rightfit.workload.vocabulary import nearest_words

if TYPE_CHECKING:
    from rightfit.market import Catalog


MOST_MODELS = 3


_RUNS = frozenset({"serve", "batch"})
"""What is done with a model that is trained already."""


def typical_rows(sentence: str, kind: str = "", task: str = "") -> list[Mapping[str, str]]:
    """The typical models for the words of a sentence, each once, the first that fit; then those
    of a kind of data. Where it is told what is done with the model: those usual for that."""
    rows = facts.table("typical_models")
    told = [row for row in rows if re.search(row["pattern"], sentence, re.IGNORECASE)]
    of_kind = [row for row in rows if row["kind"] == kind]
    if any(row["kind"] == kind for row in told):
        told = [row for row in told if row["kind"] == kind]
    elif sentence:  # nothing says what is done with the data: the models that are usual for all of the kind
        of_kind = [row for row in of_kind if re.search(row["pattern"], kind, re.IGNORECASE)] or of_kind
    found: dict[str, Mapping[str, str]] = {}
    for row in _usual_for(task, [*told, *of_kind]):
        found.setdefault(row["model"], row)
    return list(found.values())


def _usual_for(task: str, rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """The rows for what is done, or all where there is none for it."""
    if task in _RUNS:
        own = [row for row in rows if row["task"] in ("", task)] or [row for row in rows if row["task"] in _RUNS]
        own = own or [{**row, "options": "", "task": task} for row in rows]  # how one is trained says nothing of how it runs
    else:
        own = [row for row in rows if row["task"] != "serve" and not (task and row["task"] == "batch")]
    return own or rows


def asked_rows(goal: str, kind: str = "") -> list[Mapping[str, str]]:
    """The typical models for a goal, of a kind of data or of the kinds that its words tell; raises
    with the nearest where no such goal is known."""
    if not goal.strip():
        return typical_rows("", kind)[:MOST_MODELS]
    told = typical_rows(goal)[:MOST_MODELS]
    of_kinds = {kind} if kind else {row["kind"] for row in told} or set(kinds())
    goals = [row for row in facts.table("typical_goals") if row["kind"] in of_kinds]
    found = [row for row in goals if re.search(row["pattern"], goal, re.IGNORECASE)]
    if not found and told and not kind:
        return told
    if not found:
        names = {word: row["goal"] for row in goals for word in (row["goal"], row["goal_zh"])}
        allowed = Message("names.allowed_words" if kind else "names.goal_of_kinds", names=", ".join(dict.fromkeys(names.values())))
        nearest = nearest_words(goal.strip().casefold(), names, aliases=names)
        raise UnknownNameError("goal", goal, nearest=nearest, allowed=allowed, field="goal")
    return list({model: _row_of(row, model) for row in found for model in row["models"].split()}.values())[:MOST_MODELS]


def _row_of(goal: Mapping[str, str], model: str) -> Mapping[str, str]:
    """A typical model for a goal: what is told of it where it is one of a kind of
    data, else of the goal."""
    rows = [row for row in facts.table("typical_models") if row["kind"] == goal["kind"]]
    own = next((row for row in rows if row["model"] == model), None)
    return own or {"model": model, **{name: goal[name] for name in ("task", "options", "why_en", "why_zh")}}


def kinds() -> tuple[str, ...]:
    """The kinds of data that typical models are known for."""
    return tuple(dict.fromkeys(row["kind"] for row in facts.table("typical_models")))


def read_kind(text: str) -> str:
    """A kind of data; raises with the nearest."""
    word = text.strip().casefold()
    if word not in kinds():
        raise UnknownNameError(
            "kind",
            text,
            nearest=nearest_words(word, kinds()),
            allowed=Message("names.allowed_words", names=", ".join(kinds())),
            field="kind",
        )
    return word


def is_of_kind(model: str, kind: str) -> bool:
    """Whether a model works on a kind of data: is like one of those that are usual for it."""
    wanted = {_alike(row["model"]) for row in facts.table("typical_models") if row["kind"] == read_kind(kind)}
    return bool(wanted & {_alike(model)} - {None})


def _alike(model: str) -> tuple[str, str] | None:
    found = facts.resolve_offline(model)
    return (
        (type(found.record).__name__, getattr(found.record, "kind", "") if isinstance(found.record, facts.TransformerArchitecture) else "")
        if found
        else None
    )


def typical_wishes(rows: Sequence[Mapping[str, str]], wishes: Mapping[str, Any]) -> list[tuple[Mapping[str, str], dict[str, Any]]]:
    """The wish with each typical model; what was said goes before what is usual."""
    out = []
    for row in rows:
        words = row["options"].split()
        usual = {name.removeprefix("--").replace("-", "_"): value for name, value in zip(words[::2], words[1::2], strict=True)}
        task = {"task": row["task"]} if row["task"] and wishes.get("task") in (None, "train") else {}
        if is_table(str(wishes.get("data", ""))):
            usual.pop("columns", None)  # those that nobody said never contradict those that were
        wish = {**usual, **wishes, **task, "model": row["model"]}
        if wish.get("task") != "serve" and isinstance(wish.get("budget"), str):  # a month's money is what a job may cost
            wish["budget"] = wish["budget"].removesuffix("/month")
        out.append((row, wish))
    return out


# ---- Where so much data lie while a model trains on them: the decision by volume, with the rate
# that is read and what a month of it costs.


@dataclass(frozen=True, slots=True)
class VolumeDecision:
    """`tier` of data_tiers.csv; `read_bytes_per_s`: the fastest that one of the planned
    options reads; money by the month [USD]: an object store, and (above a terabyte) a parallel
    file system that is as large as the data and fast enough. `tiers`: name and least size of
    each, ascending."""

    data_bytes: float
    tier: str
    where: str
    read_bytes_per_s: float
    object_usd_per_month: float
    parallel_usd_per_month: float
    parallel_bytes: float
    parallel_bytes_per_s: float
    provider: str
    region: str
    tiers: tuple[tuple[str, float], ...]


def decide(data_bytes: float, options: Sequence[Option], catalog: Catalog) -> VolumeDecision:
    """The decision for an amount of data that these options train on; prices are those of the first
    option's place, else of AWS in us-east-1."""
    rows = sorted(facts.table("data_tiers"), key=lambda row: float(row["least_bytes"]))
    tier = [row for row in rows if float(row["least_bytes"]) <= data_bytes][-1]
    read = max((float(option.data_path.get("read_bytes_per_s") or 0.0) for option in options), default=0.0)
    place = (options[0].provider, options[0].region) if options else ("aws", "us-east-1")
    stored = catalog.storage_price_usd_per_gb_month(*place, "object") or catalog.storage_price_usd_per_gb_month(
        "aws", "us-east-1", "object"
    )
    shared = parallel_system()
    size = max(data_bytes, float(shared["least_gb"]) * 1e9, read / float(shared["bytes_per_s_per_byte"]))
    return VolumeDecision(
        data_bytes=data_bytes,
        tier=tier["name"],
        where=tier["where"],
        read_bytes_per_s=read,
        object_usd_per_month=data_bytes / 1e9 * float(stored or math.nan),
        parallel_usd_per_month=size / 1e9 * float(shared["usd_per_gb_month"]),
        parallel_bytes=size,
        parallel_bytes_per_s=size * float(shared["bytes_per_s_per_byte"]),
        provider=place[0],
        region=place[1],
        tiers=tuple((row["name"], float(row["least_bytes"])) for row in rows),
    )


def parallel_system() -> Mapping[str, Any]:
    """The parallel file system that sizes are reckoned with: least size, rate and price by size
    (facts/data/volumes.csv)."""
    row = next(row for row in facts.table("volumes") if "lustre" in row["volume"])
    return {**row, "bytes_per_s_per_byte": float(row["mb_per_s_per_gb"]) * 1e6 / 1e9}
