"""What is left when a source is unknown: its stack with the rules that name it, its publisher,
its class of device.

Refitting coefficients without a source, while the rules that people wrote from its very table
stay, tests little. So the name of the software is withheld too, which takes every rule and class
of coefficients keyed to it; a publisher of several sources, MLPerf above all, is left out whole,
which only coefficients fitted on nothing do (their priors); and the class of a device takes the
priors of its family. Every publisher weighs the same: a row of a table of 700 rows is not 700
pieces of evidence.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rightfit.errors import FileInputError
from rightfit.facts import tables
from rightfit.proof.predict import predict
from rightfit.proof.tables import cell_text, read_cases
from rightfit.records import dataclass

# ---- Leave one source out: predict each source with coefficients that were fitted without it.
#
# A folds file holds, for every source, the coefficients that change when the source is left out:
# {source: {coefficient file: {key: value}}}. `validation/fit_speed.py --folds` and
# `validation/fit_memory.py --folds` write them; predictions with it are made by the code as it is
# now, so they can never be stale.

Coefficients = Mapping[str, Mapping[str, float]]


#: Modules that turn words into records and columns; nothing in their caches
#: depends on a coefficient.
_WITHOUT_COEFFICIENTS = frozenset(
    {
        *("setup", "convert", "hardware", "traced", "train_work", "train_networks", "vision_parts"),
    }
)


def _forget() -> None:
    """Drop every cached value that was computed from coefficients."""
    tables.coefficients.cache_clear()
    for name, module in list(sys.modules.items()):
        if name.startswith("rightfit.estimation.") and name.rpartition(".")[2] not in _WITHOUT_COEFFICIENTS:
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear") and getattr(value, "__module__", "") == name:
                    value.cache_clear()


@contextlib.contextmanager
def substituted(values: Coefficients) -> Iterator[None]:
    """Use other values of some coefficients inside the block, for cross-validation only. Not
    safe across threads."""
    tables.SUBSTITUTES.update({name: dict(entries) for name, entries in values.items()})
    _forget()
    try:
        yield
    finally:
        tables.SUBSTITUTES.clear()
        _forget()


def read_folds(folder: Path) -> dict[str, Coefficients]:
    """Coefficients by the source that was left out, from every JSON file of a folder; empty
    when there is none."""
    folds: dict[str, dict[str, Mapping[str, float]]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found: dict[str, Coefficients] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FileInputError(f"cannot read {path}: {error}") from None
        for source, values in found.items():
            folds.setdefault(source, {}).update(values)
    return dict(folds)


def predict_left_out(rows: Sequence[Mapping[str, Any]], folds: Mapping[str, Coefficients]) -> list[dict[str, Any]]:
    """Predictions in row order, each source with the coefficients of its fold; sources without a
    fold with those that ship."""
    answers: list[dict[str, Any]] = [{}] * len(rows)
    sources = [cell_text(row.get("source")) for row in rows]
    for source in dict.fromkeys(name if name in folds else "" for name in sources):
        index = [i for i, name in enumerate(sources) if (name if name in folds else "") == source]
        with substituted(folds.get(source, {})):
            for i, answer in zip(index, predict([rows[i] for i in index]), strict=True):
                answers[i] = answer
    return answers


Row = Mapping[str, Any]

#: What is left out, in the order of the page.
WAYS = ("stack", "publisher", "device", "named")
#: Column that names the software of a case, by table; of loaders the software is
#: what is asked about.
SOFTWARE = {
    "train_memory": "framework", "train_throughput": "framework", "inference": "engine", "vision_train": "framework", "classical_ml": "library",
}  # fmt: skip
_ONE_SERVER = 8.0
#: Every publisher weighs the same, but one of fewer rows weighs less: one row of a blog is not a
#: tenth of the evidence.
_FEW = 5.0


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the blind scores: the rows of `table` with one of `metrics` (any, where empty)
    for which `holds`."""

    name: str
    table: str
    metrics: tuple[str, ...] = ()
    holds: Callable[[Row], bool] = lambda row: True

    def has(self, table: str, row: Row) -> bool:
        """Whether a row of `table` is of this figure."""
        return table == self.table and (not self.metrics or cell_text(row.get("metric")) in self.metrics) and self.holds(row)


def _is_full(row: Row) -> bool:
    return cell_text(row.get("method")) in ("full", "")


def _is_one_server(row: Row) -> bool:
    return float(cell_text(row.get("n_gpus")) or 1.0) <= _ONE_SERVER


#: Named as in the blind scores (validation/blind/scores.csv); the first that has a row owns it.
FIGURES = (
    Figure("memory, full fine-tuning", "train_memory", holds=_is_full),
    Figure("memory, adapters", "train_memory"),
    Figure("training speed, one server", "train_throughput", holds=_is_one_server),
    Figure("training speed, several servers", "train_throughput"),
    Figure("serving, time per token", "inference", ("tpot_ms", "decode_tok_per_s_single")),
    Figure("serving, throughput", "inference", ("output_tok_per_s_total", "total_tok_per_s", "req_per_s")),
    Figure("serving, first token", "inference", ("ttft_ms",)),
    Figure("serving, memory", "inference", ("peak_mem_gib",)),
    Figure(
        "forward passes (encoders, vision, diffusion, speech)", "inference", ("images_per_s", "sequences_per_s", "denoise_steps_per_s", "latency_ms")
    ),
    Figure("training on samples, rates", "vision_train", ("images_per_s_total", "samples_per_s_total", "s_per_iter")),
    Figure("training on samples, memory", "vision_train", ("peak_mem_gib_per_gpu",)),
    Figure("classical, time", "classical_ml", ("train_time_s",)),
    Figure("classical, memory", "classical_ml", ("peak_ram_gib",)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LeftOutScore:
    """Errors of one figure when something is left out: rows, publishers, median and 90th percentile
    of the absolute percentage error with every publisher weighing the same, and the share of
    measured values inside the 95 % interval, weighed alike."""

    rows: int
    publishers: int
    median: float
    p90: float
    in_95: float


# who and what -------------------------------------------------------------------------------------


def read_publishers(path: Path) -> tuple[tuple[re.Pattern[str], str], ...]:
    """(words of a source's name, publisher), in order; empty without the file."""
    return tuple((re.compile(row["words"], re.IGNORECASE), row["publisher"]) for row in read_cases(path)) if path.is_file() else ()


def publisher_of(source: str, publishers: Sequence[tuple[re.Pattern[str], str]]) -> str:
    """Who published a source; the source itself where nobody is known."""
    return next((name for words, name in publishers if words.search(source)), source)


@functools.cache
def priors(only_devices: bool = False) -> Mapping[str, Mapping[str, float]]:
    """Coefficients before any fit, by file; those of classes of devices alone."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted((tables.DATA / "coefficients").glob("*.toml")):
        entries = tables.coefficient_entries(path.stem)
        chosen = {key: float(str(one["prior"])) for key, one in entries.items() if "prior" in one}
        found[path.stem] = {key: value for key, value in chosen.items() if not only_devices or set(key.split(".")) & _device_classes()}
    return {name: values for name, values in found.items() if values}


@functools.cache
def _device_classes() -> frozenset[str]:
    from rightfit.estimation.pass_records import SILICON
    from rightfit.facts.devices import architecture_names
    from rightfit.facts.engines import family_names

    return frozenset({*architecture_names(), *family_names(), *SILICON}) - {"unknown", "other", "old"}


def _joined(first: Coefficients, second: Coefficients) -> Coefficients:
    return {name: {**first.get(name, {}), **second.get(name, {})} for name in first.keys() | second.keys()}


def coefficients_without(way: str, source: str, folds: Mapping[str, Coefficients], *, has_siblings: bool) -> Coefficients:
    """The coefficients that stand in when a source is left out. `has_siblings`: its publisher has
    other sources among the rows."""
    if way in ("stack", "publisher") and has_siblings:
        return _joined(folds.get(source, {}), priors())
    return _joined(folds.get(source, {}), priors(only_devices=True)) if way == "device" else folds.get(source, {})


# scoring ------------------------------------------------------------------------------------------


def answers_without(
    way: str,
    rows: Sequence[Row],
    names: Sequence[str],
    folds: Mapping[str, Coefficients],
    publishers: Sequence[tuple[re.Pattern[str], str]],
) -> list[dict[str, Any]]:
    """Predictions of rows of the tables `names`, in order, with one thing left out."""
    sources = [cell_text(row.get("source")) for row in rows]
    owners = {source: publisher_of(source, publishers) for source in sources}
    crowd = {owner for owner in owners.values() if sum(other == owner for other in owners.values()) > 1}
    asked = [{**row, SOFTWARE[name]: ""} if way == "stack" and name in SOFTWARE else row for row, name in zip(rows, names, strict=True)]
    groups: dict[str, tuple[Coefficients, list[int]]] = {}
    for at, source in enumerate(sources):
        values = coefficients_without(way, source, folds, has_siblings=owners[source] in crowd)
        groups.setdefault(json.dumps(values, sort_keys=True), (values, []))[1].append(at)
    answers: list[dict[str, Any]] = [{}] * len(rows)
    for values, index in groups.values():
        with substituted(values):
            for at, answer in zip(index, predict([asked[i] for i in index]), strict=True):
                answers[at] = answer
    return answers


def weighted_quantile(values: np.ndarray[Any, Any], weights: np.ndarray[Any, Any], share: float) -> float:
    """The smallest value below which at least `share` of the weight lies."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / np.sum(weights)
    return float(values[order][min(int(np.searchsorted(reached, share - 1e-12)), len(values) - 1)])


def score(measured: Sequence[float], answers: Sequence[Mapping[str, Any]], owners: Sequence[str]) -> LeftOutScore:
    """Errors with every publisher weighing the same."""
    kept = [i for i, answer in enumerate(answers) if measured[i] > 0 and (answer.get("predicted") or 0) > 0]
    if not kept:
        return LeftOutScore(0, 0, float("nan"), float("nan"), float("nan"))
    ape = np.array([abs(answers[i]["predicted"] / measured[i] - 1.0) for i in kept])
    inside = np.array([answers[i]["low95"] <= measured[i] <= answers[i]["high95"] for i in kept], dtype=np.float64)
    names = [owners[i] for i in kept]
    weights = np.array([min(1.0 / names.count(name), 1.0 / _FEW) for name in names])
    figures = weighted_quantile(ape, weights, 0.5), weighted_quantile(ape, weights, 0.9), float(np.average(inside, weights=weights))
    return LeftOutScore(len(kept), len(set(names)), *(round(value, 4) for value in figures))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def left_out_scores(
    rows: Sequence[Row], names: Sequence[str], folds: Mapping[str, Coefficients], publishers: Sequence[tuple[re.Pattern[str], str]]
) -> dict[str, dict[str, LeftOutScore]]:
    """Scores by figure and by what is left out. `names`: table of each row."""
    owner_of = [publisher_of(cell_text(row.get("source")), publishers) for row in rows]
    figure_of = [next((figure.name for figure in FIGURES if figure.has(name, row)), "") for name, row in zip(names, rows, strict=True)]
    out = [cell_text(row.get("is_oom")) in ("1", "1.0") for row in rows]
    measured = [float("nan") if gone else _number(cell_text(row.get("measured"))) for row, gone in zip(rows, out, strict=True)]
    found: dict[str, dict[str, LeftOutScore]] = {figure.name: {} for figure in FIGURES}
    for way in WAYS:
        answers = answers_without(way, rows, names, folds, publishers)
        for figure in found:
            index = [i for i, name in enumerate(figure_of) if name == figure]
            found[figure][way] = score([measured[i] for i in index], [answers[i] for i in index], [owner_of[i] for i in index])
    return {figure: scores for figure, scores in found.items() if any(one.rows for one in scores.values())}
