"""Predictions for rows of the table of training that is not of language models: each row in the metric that it asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rightfit.estimate.vision_predict import (
    DURATION_METRIC,
    FIT_METRICS,
    MEMORY_METRIC,
    SamplesCases,
    interval_group,
    metric_values,
    row_doubts,
    vision_interval,
)
from rightfit.estimate.vision_training import PRECISIONS, STACKS, TrainingColumns
from rightfit.physics.columns import Array
from rightfit.proof.cases.samples import SamplesRows, samples_cases


def predict_vision(rows: Sequence[Mapping[str, str]], answers: list[dict[str, Any]]) -> None:
    """Fill `answers` (one a row, in order) with figures and intervals, or with the reason why there is none."""
    read = samples_cases(rows)
    for position, reason in read.refused.items():
        answers[position]["error"] = reason
    if not len(read.cases):
        return
    with np.errstate(all="ignore"):
        figures, found = metric_values(read.cases)
    metrics = np.array([rows[int(i)]["metric"] for i in read.index])
    for metric in np.unique(metrics):
        _fill(answers, read, found, np.flatnonzero(metrics == metric), str(metric), figures[str(metric)])


def _taken(cases: SamplesCases, at: int, metric: str) -> dict[str, str]:
    """What was taken for each column that a case may have left empty, by the name of the column."""
    setup = {name: float(np.broadcast_to(getattr(cases.setup, name), (len(cases),))[at]) for name in _TAKEN}
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


def _fill(answers: list[dict[str, Any]], read: SamplesRows, columns: TrainingColumns, here: Any, metric: str, values: Array) -> None:
    """Figures of one metric."""
    cases = read.cases
    mid = np.broadcast_to(values, len(cases))[here]
    doubts, unsure = row_doubts(cases, metric)
    modality = [cases.works[i].modality for i in here]
    intervals = vision_interval(metric, mid, modality=modality, doubts=doubts[here], unsure_counter=unsure[here])
    bounds = np.stack([intervals.mid, intervals.low80, intervals.high80, intervals.low95, intervals.high95], axis=1)
    memory = metric == MEMORY_METRIC or metric in FIT_METRICS
    terms, whole = (columns.memory_terms, columns.peak_bytes) if memory else (columns.time_terms, columns.step_s)
    capacity = np.where(cases.has_device, columns.capacity_bytes, cases.stated_bytes)
    for at, i in enumerate(here):
        answer = answers[int(read.index[i])]
        answer["assumptions"] += read.assumptions[i]
        if not np.isfinite(bounds[at]).all() or mid[at] <= 0:
            answer["error"] = "the estimate is not a finite positive number: the row's sizes make no sense together"
            continue
        names = ("predicted", "low80", "high80", "low95", "high95")
        answer.update(zip(names, (float(f"{value:.6g}") for value in bounds[at]), strict=True))
        answer["terms"] = {name: float((np.broadcast_to(term, len(cases)) / whole)[i]) for name, term in terms.items()}
        answer["regime"] = {"group": f"samples-{interval_group(metric, modality[at])}", "counter": float(unsure[i])}
        answer["taken"] = _taken(cases, int(i), metric)
        if memory and (cases.has_device[i] or cases.stated_bytes[i] > 0):
            answer["regime"]["room"] = float(np.log(capacity[i] / np.broadcast_to(columns.required_bytes, capacity.shape)[i]))
