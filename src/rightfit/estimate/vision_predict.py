"""Predictions for rows of the table of training that is not of language models: rates, step times, durations, memory, fits or not."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimate.figures import FigureColumns
from rightfit.estimate.train_rows import (
    DURATION_METRIC,
    FIT_METRICS,
    MEMORY_METRIC,
    RATE_METRICS,
    STEP_METRIC,
    TrainCases,
    train_cases,
)
from rightfit.estimate.vision_training import PRECISIONS, STACKS, Coefficients, TrainingColumns, coefficients, training_columns
from rightfit.physics.columns import Array
from rightfit.units import GIB

PROBABILITIES = (0.025, 0.1, 0.9, 0.975)
#: Groups of figures whose errors are alike, by metric and modality; those without a line in facts/data/vision_intervals.csv take the
#: parent.
TIME_PARENT, MEMORY_PARENT = "time", "memory"
#: Memory of image networks is one kind of error: what autograd keeps of convolutions and attention, counted layer by layer, whatever the
#: task.
MEMORY_IMAGES = "memory-images"
_IMAGE_TASKS = ("vision", "detection", "segmentation")
_FAMILIES = {
    "classification": "vision",
    "self-supervised": "vision",
    "contrastive": "vision",
    "video": "vision",
    "detection": "detection",
    "detection3d": "detection",
    "segmentation": "segmentation",
    "diffusion": "diffusion",
    "gan": "diffusion",
    "speech": "speech",
    "recommendation": "recommendation",
}


def metric_values(cases: TrainCases, values: Coefficients | None = None) -> tuple[dict[str, Array], TrainingColumns]:
    """Every metric of every case by name, in the unit of the table, and the columns that they come from."""
    values = values or coefficients()
    found = training_columns(cases.work, cases.setup, cases.device, cases.links, values=values)
    minutes = (
        cases.samples / found.samples_per_s * values["run_overhead"] + np.where(cases.benchmark > 0, values["run_start_s"], 0.0)
    ) / 60.0
    units = np.array([work.units for work in cases.works])
    figures = dict.fromkeys(RATE_METRICS, found.samples_per_s * units) | {STEP_METRIC: found.step_s, DURATION_METRIC: minutes}
    figures |= {MEMORY_METRIC: found.peak_bytes / GIB} | dict.fromkeys(FIT_METRICS, found.required_bytes / GIB)
    return figures, found


def fits_columns(cases: TrainCases, columns: TrainingColumns) -> NDArray[np.bool_]:
    """Whether each job fits the card that its row names, or one of the size that it states."""
    capacity = np.where(cases.has_device, columns.capacity_bytes, cases.stated_bytes)
    return np.less_equal(np.broadcast_to(columns.required_bytes, capacity.shape), capacity)


def interval_group(metric: str, modality: str) -> str:
    """The group whose errors a figure shares: memory, rate or duration of a family of models."""
    family = _FAMILIES.get(modality, "other")
    if metric == MEMORY_METRIC or metric in FIT_METRICS:
        return MEMORY_IMAGES if family in _IMAGE_TASKS else f"{MEMORY_PARENT}-{family}"
    return f"{'run' if metric == DURATION_METRIC else TIME_PARENT}-{family}"


def parent_of(group: str) -> str:
    """The group that stands in for one with too few measured rows."""
    return MEMORY_PARENT if group.startswith(MEMORY_PARENT) else TIME_PARENT


def row_doubts(cases: TrainCases, metric: str) -> tuple[Array, Array]:
    """Assumed inputs that bear on `metric`, and 1 where the counter of memory is a guess, for every case. Which card runs a job does not
    bear on its memory."""
    if metric == MEMORY_METRIC or metric in FIT_METRICS:
        return cases.memory_doubts, cases.unsure_counter
    return np.array([float(len(cases.assumptions[int(position)])) for position in cases.index]), np.zeros(len(cases.index))


@functools.cache
def _quantiles() -> Mapping[str, tuple[float, ...]]:
    table: dict[str, dict[str, float]] = {}
    for row in facts.table("vision_intervals"):
        table.setdefault(row["group"], {})[row["name"]] = float(row["value"])
    return {group: (*(found[f"{p:g}"] for p in PROBABILITIES), found["doubt"], found.get("counter", 0.0)) for group, found in table.items()}


def interval_scale(doubts: Array, unsure_counter: Array | float, *, doubt: Array | float, counter: Array | float) -> Array:
    """How many times as wide as the group's an interval is (in logs): wider by `doubt` for each of up to three assumed inputs, and by
    `counter`
    where nobody says what counted the memory (the allocator, the driver, or an author who rounds up to a card)."""
    return np.asarray(1.0 + doubt * np.minimum(doubts, 3.0) + counter * np.asarray(unsure_counter), dtype=np.float64)


def vision_interval(
    metric: str, mid: Array, *, modality: Sequence[str] | str, doubts: Array, unsure_counter: Array | float = 0.0
) -> FigureColumns:
    """Figures with their 80 % and 95 % intervals. mid, doubts: (N,); `doubts` counts the inputs that were assumed; see `interval_scale`.

    Conformal: quantiles of log(measured / predicted) on sources that the coefficients were not fitted on, by group
    (validation/fit_vision.py).
    """
    names = [modality] * len(mid) if isinstance(modality, str) else list(modality)
    table = _quantiles()
    rows = np.array([table.get(group, table[parent_of(group)]) for group in (interval_group(metric, name) for name in names)])
    scale = interval_scale(doubts, unsure_counter, doubt=rows[:, 4], counter=rows[:, 5])
    low95, low80, high80, high95 = (np.asarray(mid * np.exp(scale * rows[:, i])) for i in range(4))
    return FigureColumns(np.asarray(mid, dtype=np.float64), low80, high80, low95, high95)


def predict_vision(rows: Sequence[Mapping[str, str]], answers: list[dict[str, Any]]) -> None:
    """Fill `answers` (one a row, in order) with figures and intervals, or with the reason why there is none."""
    cases = train_cases(rows)
    for position, reason in cases.refused.items():
        answers[position]["error"] = reason
    if not len(cases.index):
        return
    with np.errstate(all="ignore"):
        figures, found = metric_values(cases)
    metrics = np.array([rows[int(i)]["metric"] for i in cases.index])
    for metric in np.unique(metrics):
        _fill(answers, cases, found, np.flatnonzero(metrics == metric), str(metric), figures[str(metric)])


def _taken(cases: TrainCases, at: int, metric: str) -> dict[str, str]:
    """What was taken for each column that a case may have left empty, by the name of the column."""
    setup = {name: float(np.broadcast_to(getattr(cases.setup, name), cases.index.shape)[at]) for name in _TAKEN}
    found = {
        "task": cases.works[at].modality,
        "framework": STACKS[int(setup["software"])],
        "precision": PRECISIONS[int(setup["precision"])],
        "batch_per_gpu": f"{setup['batch']:g}",
        "n_gpus": f"{setup['num_gpus']:g}",
        "image_size": "the model's usual one",
        "extra_flags": f"{setup['optimizer_bytes']:g} bytes of optimizer states a parameter, recomputation {setup['recompute']:g}",
    }
    if metric == DURATION_METRIC:
        found |= {"samples": f"{cases.works[at].epoch_samples:g} an epoch", "epochs": f"{cases.samples[at]:.4g} samples in all"}
    if cases.works[at].modality in ("speech", "recommendation", "text", "graph", "time-series"):
        del found["image_size"]
    return found


_TAKEN = ("software", "precision", "batch", "num_gpus", "optimizer_bytes", "recompute")


def _fill(answers: list[dict[str, Any]], cases: TrainCases, columns: TrainingColumns, here: Any, metric: str, values: Array) -> None:
    """Figures of one metric."""
    mid = np.broadcast_to(values, len(cases.index))[here]
    doubts, unsure = row_doubts(cases, metric)
    modality = [cases.works[i].modality for i in here]
    intervals = vision_interval(metric, mid, modality=modality, doubts=doubts[here], unsure_counter=unsure[here])
    bounds = np.stack([intervals.mid, intervals.low80, intervals.high80, intervals.low95, intervals.high95], axis=1)
    memory = metric == MEMORY_METRIC or metric in FIT_METRICS
    terms, whole = (columns.memory_terms, columns.peak_bytes) if memory else (columns.time_terms, columns.step_s)
    capacity = np.where(cases.has_device, columns.capacity_bytes, cases.stated_bytes)
    for at, i in enumerate(here):
        answer = answers[int(cases.index[i])]
        answer["assumptions"] += cases.assumptions[int(cases.index[i])]
        if not np.isfinite(bounds[at]).all() or mid[at] <= 0:
            answer["error"] = "the estimate is not a finite positive number: the row's sizes make no sense together"
            continue
        names = ("predicted", "low80", "high80", "low95", "high95")
        answer.update(zip(names, (float(f"{value:.6g}") for value in bounds[at]), strict=True))
        answer["terms"] = {name: float((np.broadcast_to(term, len(cases.index)) / whole)[i]) for name, term in terms.items()}
        answer["regime"] = {"group": f"samples-{interval_group(metric, modality[at])}", "counter": float(unsure[i])}
        answer["taken"] = _taken(cases, int(i), metric)
        if memory and (cases.has_device[i] or cases.stated_bytes[i] > 0):
            answer["regime"]["room"] = float(np.log(capacity[i] / np.broadcast_to(columns.required_bytes, capacity.shape)[i]))
