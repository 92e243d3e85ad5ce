"""Predictions for rows of the table of classical machine learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rightfit.estimate.classical import gpu_memory, ram_terms, time_terms, total
from rightfit.estimate.classical_intervals import classical_interval, interval_group
from rightfit.estimate.classical_rates import Coefficients, coefficients
from rightfit.physics.columns import Array
from rightfit.proof.cases.tables import MEMORY_METRIC, PREDICTION_METRIC, TIME_METRICS, ClassicalCases, classical_cases
from rightfit.units import GIB


def memory_gib(cases: ClassicalCases, values: Coefficients) -> Array:
    """Peak memory of the host, of the GPU, or what training adds, as each row asks [GiB]."""
    terms = ram_terms(cases.job, cases.kinds, cases.cpu.threads, values)
    host = total(terms)
    growth = host - terms["runtime"] - terms["data"]
    found = np.where(cases.growth_only > 0, growth, host)
    if np.any(cases.card_memory > 0):
        found = np.where(cases.card_memory > 0, gpu_memory(cases.job, cases.kinds, values), found)
    # A source that reports whole gigabytes prints 1 for everything smaller.
    return np.asarray(np.maximum(found / GIB, cases.reported_gib), dtype=np.float64)


def metric_values(cases: ClassicalCases, values: Coefficients | None = None) -> dict[str, Array]:
    """Every metric of every case, by name, in the table's unit."""
    values = values or coefficients()
    terms = time_terms(cases.job, cases.kinds, cases.cpu, values, gpu=cases.gpu, on_gpu=cases.on_gpu, age_years=cases.age_years)
    seconds = total(terms)
    # Cards are set up once a job: when a model predicts, the one that it was trained or loaded on is.
    running = np.where(cases.on_gpu, seconds - terms["start"], seconds)
    times = {metric: running if metric == PREDICTION_METRIC else seconds for metric in TIME_METRICS}
    return {**times, MEMORY_METRIC: memory_gib(cases, values)}


def predict_classical(rows: list[dict[str, str]], answers: list[dict[str, Any]]) -> None:
    """Fill the answers of rows of classical machine learning: figure, interval, shares of its terms, assumptions, or why not."""
    cases = classical_cases(rows)
    for position, reason in cases.refused.items():
        answers[position]["error"] = reason
    if not len(cases.index):
        return
    figures = metric_values(cases)
    values = coefficients()
    shares = {
        "time": _shares(
            time_terms(cases.job, cases.kinds, cases.cpu, values, gpu=cases.gpu, on_gpu=cases.on_gpu, age_years=cases.age_years)
        ),
        "memory": _shares(ram_terms(cases.job, cases.kinds, cases.cpu.threads, values)),
    }
    for at, position in enumerate(cases.index):
        metric = rows[int(position)]["metric"]
        value = float(figures[metric][at])
        terms = shares["memory" if metric == MEMORY_METRIC else "time"]
        parts = {name: float(share[at]) for name, share in terms.items()}
        if metric == PREDICTION_METRIC and cases.on_gpu[at]:
            started = parts.pop("start")
            parts = {name: share / max(1.0 - started, 1e-12) for name, share in parts.items()}
        _fill(answers[int(position)], metric, value, cases, at, parts)


def _shares(terms: Mapping[str, Array]) -> dict[str, Array]:
    whole = np.maximum(total(terms), 1e-12)
    return {name: np.broadcast_to(value / whole, whole.shape) for name, value in terms.items()}


def _taken(cases: ClassicalCases, at: int) -> dict[str, str]:
    """What was taken for each column that a case may have left empty."""
    task = cases.tasks[at]
    trees = f"{task.trees:g} trees of {task.leaves:g} leaves, " if task.trees else ""
    return {
        "library": task.library,
        "density": "sparse" if task.sparse else "dense",
        "categorical": f"{task.categorical:g}",
        "settings": f"{trees}{task.iterations:g} iterations" if trees or task.iterations else "the library's",
        "cores": f"{float(np.broadcast_to(cases.cpu.threads, cases.index.shape)[at]):g} threads",
    }


def _fill(answer: dict[str, Any], metric: str, value: float, cases: ClassicalCases, index: int, terms: Mapping[str, float]) -> None:
    answer["assumptions"] += cases.assumptions[index]
    if not (np.isfinite(value) and value > 0):
        answer["error"] = "the estimate is not a finite positive number: the row's sizes make no sense together"
        return
    doubts = np.array([float(len(cases.assumptions[index]))])
    found = classical_interval(metric, np.array([value]), doubts=doubts, gpu=bool(cases.on_gpu[index]), library=cases.kinds[index].library)
    bounds = (found.mid, found.low80, found.high80, found.low95, found.high95)
    answer.update(zip(("predicted", "low80", "high80", "low95", "high95"), (float(f"{bound[0]:.6g}") for bound in bounds), strict=True))
    answer["terms"] = dict(terms)
    answer["taken"] = _taken(cases, index)
    group = interval_group(metric, gpu=bool(cases.on_gpu[index]), library=cases.kinds[index].library)
    answer["regime"] = {"group": f"classical-{group}"}
    if metric == MEMORY_METRIC and (memory := float(np.broadcast_to(cases.cpu.memory_bytes, cases.index.shape)[index])) > 0:
        answer["regime"]["room"] = float(np.log(memory / (value * GIB)))
