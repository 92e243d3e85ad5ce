"""How wrong are we: predictions against measured figures, by whatever one wants to slice them by.

APE is |predicted / measured - 1|; signed is predicted / measured - 1; coverage is the share of
measured values inside the interval; width is (high - low) / predicted. A false fit is a run that
ran out of memory and that the 95 % bound called fitting; a false refusal is a run that worked and
that the mid value called too big.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array
from rightfit.proof.tables import cell_text
from rightfit.records import dataclass

MEMORY_METRIC = "peak_mem_gib_per_gpu"
_MANY_NODES = 8  # GPUs of one server; the tables do not state the server


@dataclass(frozen=True, slots=True)
class GroupScore:
    """Errors of one group of rows. Fractions, not percent; NaN where there is
    nothing to measure."""

    group: str
    rows: int
    sources: int
    median_ape: float
    p90_ape: float
    signed_median: float
    by_source_median_ape: float
    within_20: float
    coverage80: float
    coverage95: float
    width80: float

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class FitScore:
    """Confusion of fits / does not fit. `false_fits` are out-of-memory runs whose 95 % bound fits;
    `_mid` counts by the mid value."""

    group: str
    ran: int
    false_refusals: int
    out_of_memory: int
    false_fits: int
    false_fits_mid: int

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class Scored:
    """The rows that have both a prediction and a measured value, as arrays beside the rows
    themselves. `is_factor`: see `ape`."""

    rows: list[Mapping[str, Any]]
    predictions: list[Mapping[str, Any]]
    measured: Array
    predicted: Array
    bounds: Array
    is_factor: bool = False

    @property
    def ape(self) -> Array:
        """Size of the error: |predicted / measured - 1|, or as a factor the larger over the
        smaller, less one."""
        if self.is_factor:
            return np.asarray(np.exp(np.abs(np.log(self.predicted / self.measured))) - 1.0)
        return np.abs(self.error)

    @property
    def error(self) -> Array:
        """predicted / measured - 1."""
        return self.predicted / self.measured - 1.0

    def take(self, index: NDArray[np.intp]) -> Scored:
        """Rows `index`."""
        return Scored(
            [self.rows[int(i)] for i in index],
            [self.predictions[int(i)] for i in index],
            self.measured[index],
            self.predicted[index],
            self.bounds[index],
            self.is_factor,
        )


def number(value: Any) -> float:
    """A cell as a float; NaN where there is none."""
    try:
        return float(value) if value not in (None, "") else math.nan
    except (TypeError, ValueError):
        return math.nan


def pair(rows: Sequence[Mapping[str, Any]], predictions: Sequence[Mapping[str, Any]], *, is_factor: bool = False) -> Scored:
    """Rows with a measured value and a prediction."""
    if len(rows) != len(predictions):
        raise ValueError(f"{len(rows)} rows but {len(predictions)} predictions")
    measured = np.array([number(row.get("measured")) for row in rows])
    predicted = np.array([number(answer.get("predicted")) for answer in predictions])
    names = ("low80", "high80", "low95", "high95")
    bounds = np.array([[number(answer.get(name)) for name in names] for answer in predictions]).reshape(-1, 4)
    keep = np.flatnonzero((measured > 0) & (predicted > 0))
    return Scored(
        [rows[int(i)] for i in keep], [predictions[int(i)] for i in keep], measured[keep], predicted[keep], bounds[keep], is_factor
    )


def group_score(group: str, scored: Scored) -> GroupScore:
    """Errors of these rows together."""
    if not scored.rows:
        return GroupScore(group, 0, 0, *([math.nan] * 8))
    error, ape = scored.error, scored.ape
    sources = np.array([cell_text(row.get("source")) for row in scored.rows])
    per_source = [float(np.median(ape[sources == name])) for name in np.unique(sources)]
    low80, high80, low95, high95 = scored.bounds.T
    inside80 = (scored.measured >= low80) & (scored.measured <= high80)
    inside95 = (scored.measured >= low95) & (scored.measured <= high95)
    return GroupScore(
        group,
        len(ape),
        len(per_source),
        float(np.median(ape)),
        float(np.quantile(ape, 0.9)),
        float(np.median(error)),
        float(np.median(per_source)),
        float(np.mean(ape <= 0.2)),
        float(np.mean(inside80)),
        float(np.mean(inside95)),
        float(np.median((high80 - low80) / scored.predicted)),
    )


def by(scored: Scored, key: Callable[[Mapping[str, Any]], str]) -> list[GroupScore]:
    """One score for each value of `key`, the largest group first."""
    names = np.array([key(row) for row in scored.rows], dtype=object)
    unique = sorted(set(names.tolist()), key=lambda name: (-int(np.sum(names == name)), str(name)))
    return [group_score(str(name), scored.take(np.flatnonzero(names == name))) for name in unique]


def is_memory(row: Mapping[str, Any]) -> bool:
    """Whether the row is of memory."""
    return cell_text(row.get("metric")) == MEMORY_METRIC


def num_gpus(row: Mapping[str, Any]) -> float:
    """GPUs of the run; 1 where the row does not say."""
    value = number(row.get("n_gpus"))
    return 1.0 if math.isnan(value) else value


def headline_group(row: Mapping[str, Any]) -> str:
    """The four figures that the project is judged by."""
    if is_memory(row):
        return "memory, full" if cell_text(row.get("method")) in ("full", "") else "memory, adapters"
    return "time, one node" if num_gpus(row) <= _MANY_NODES else "time, many nodes"


def size_group(row: Mapping[str, Any]) -> str:
    """Parameters of the model, in classes."""
    params = number(row.get("params"))
    edges = ((1e9, "under 1B"), (4e9, "1B to 4B"), (1e10, "4B to 10B"), (4e10, "10B to 40B"), (math.inf, "over 40B"))
    return "unknown" if math.isnan(params) else next(name for edge, name in edges if params < edge)


def parallel_group(row: Mapping[str, Any]) -> str:
    """The layout, in words of the tables."""
    model_parallel = any(number(row.get(name)) > 1 for name in ("tp", "pp", "cp", "ep"))
    strategy = cell_text(row.get("strategy")) or "unknown"
    return f"{strategy}, tp/pp/cp/ep" if model_parallel and strategy != "megatron" else strategy


def text_group(column: str) -> Callable[[Mapping[str, Any]], str]:
    """Slice by the text of one column."""
    return lambda row: cell_text(row.get(column)) or "unknown"


#: The slices of the accuracy page.
SLICES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "source": text_group("source"),
    "method": text_group("method"),
    "accelerator": text_group("gpu"),
    "size": size_group,
    "parallelism": parallel_group,
    "framework": text_group("framework"),
}


def fits_score(group: str, rows: Sequence[Mapping[str, Any]], predictions: Sequence[Mapping[str, Any]]) -> FitScore:
    """Confusion of fits / does not fit over the memory rows that say whether they ran.

    The mid verdict is the `fits` column; the verdict at the 95 % bound is in `fits95` where the
    predictor gives it.
    """
    ran = refused = failed = false_fits = false_fits_mid = 0
    for row, answer in zip(rows, predictions, strict=True):
        mid = cell_text(answer.get("fits"))
        if not is_memory(row) or mid == "":
            continue
        bound = cell_text(answer.get("fits95")) or mid
        if cell_text(row.get("is_oom")) == "1":
            failed += 1
            false_fits += bound == "1"
            false_fits_mid += mid == "1"
        else:
            ran += 1
            refused += mid == "0"
    return FitScore(group, ran, refused, failed, false_fits, false_fits_mid)


def answered_share(predictions: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """(rows with a prediction, rows)."""
    answers = [not math.isnan(number(answer.get("predicted"))) for answer in predictions]
    return sum(answers), len(answers)


def worst(scored: Scored, count: int = 10) -> list[int]:
    """Positions of the rows with the largest |log(predicted / measured)|, the worst first."""
    order = np.argsort(-np.abs(np.log(scored.predicted / scored.measured)), kind="stable")
    return [int(at) for at in order[:count]]


def text_of(row: Mapping[str, Any], column: str) -> str:
    """A cell as text; empty where the row lacks it."""
    return cell_text(row.get(column))


_NOT_CONFIGURATION = frozenset({"id", "measured", "date", "source_where", "trust", "flags", "why_not", "usable"})


#: Columns in which two sources may differ and still mean one configuration.
_OF_THE_SOURCE = _NOT_CONFIGURATION | {"source", "notes", "engine_version", "framework_version", "params_b"}


def source_spread(rows: Iterable[Mapping[str, Any]], key: Callable[[Mapping[str, Any]], str]) -> dict[str, list[float]]:
    """Relative differences a / b - 1 between the medians of two sources that measured one
    configuration (versions and remarks aside), by `key`."""
    return _spread(rows, key, _OF_THE_SOURCE, lambda sources: [float(np.median(values)) for values in sources])


def repeat_spread(rows: Iterable[Mapping[str, Any]], key: Callable[[Mapping[str, Any]], str]) -> dict[str, list[float]]:
    """Relative differences a / b - 1 of neighbouring measurements of one configuration, by `key`:
    no predictor can be better than half of it."""
    return _spread(rows, key, _NOT_CONFIGURATION, itertools.chain.from_iterable)


def _spread(
    rows: Iterable[Mapping[str, Any]],
    key: Callable[[Mapping[str, Any]], str],
    aside: frozenset[str],
    values_of: Callable[[Iterable[list[float]]], Iterable[float]],
) -> dict[str, list[float]]:
    """Relative differences of neighbouring values of one configuration, which is all columns but
    those `aside`; `values_of` gives them of what each source measured."""
    seen: dict[tuple[str, ...], dict[str, list[float]]] = {}
    labels: dict[tuple[str, ...], str] = {}
    for row in rows:
        value = number(row.get("measured"))
        if value > 0:
            cells = tuple(f"{name}={cell_text(text)}" for name, text in sorted(row.items()) if name and name not in aside)
            seen.setdefault(cells, {}).setdefault(cell_text(row.get("source")), []).append(value)
            labels[cells] = key(row)
    spread: dict[str, list[float]] = {}
    for cells, sources in seen.items():
        values = sorted(values_of(sources.values()))
        spread.setdefault(labels[cells], []).extend(high / low - 1 for low, high in itertools.pairwise(values))
    return spread


_SOFTWARE = ("engine", "framework", "library", "loader")


def after_free_factor(scored: Scored, *, by_software: bool = False) -> tuple[float, float]:
    """Median and P90 of the error that is left when every source (or every source and software) may
    have a factor of its own, fitted to its rows.

    No predictor that has not seen a source knows that factor, and no one factor is known better
    than this: a floor for whatever treats the rows of a source alike. NaN where there are no rows.
    """
    if not len(scored.measured):
        return math.nan, math.nan
    names = _SOFTWARE if by_software else ()
    keys = np.array(["|".join([cell_text(row.get("source")), *(cell_text(row.get(name)) for name in names)]) for row in scored.rows])
    logs = np.log(scored.predicted / scored.measured)
    for key in np.unique(keys):
        logs[keys == key] -= np.median(logs[keys == key])
    left = np.exp(np.abs(logs)) - 1.0 if scored.is_factor else np.abs(np.exp(logs) - 1.0)
    return float(np.median(left)), float(np.percentile(left, 90))
