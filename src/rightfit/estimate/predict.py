"""Batch prediction: measured-table rows in, one answer a row out, in their order, none lost.

Every column is optional. An empty cell is unknown: the usual default is taken, named in `assumptions`, and the interval widens. A row
that cannot be predicted has an empty `predicted` and says why in `error`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.errors import RightfitError
from rightfit.estimate.tables import PREDICTION_COLUMNS, cell_text, clean_row
from rightfit.physics.columns import Array

if TYPE_CHECKING:
    from rightfit.estimate.cases import TrainingCases
    from rightfit.estimate.figures import FigureColumns
    from rightfit.estimate.regimes import RegimeColumns

MEMORY_METRIC = "peak_mem_gib_per_gpu"
RATE_METRICS = ("tokens_per_s_per_gpu", "samples_per_s", "step_time_s", "tflops_per_gpu", "mfu")
DURATION_METRIC = "time_to_train_h"
TRAINING_METRICS = (MEMORY_METRIC, *RATE_METRICS, DURATION_METRIC)

#: Columns that only the other tables have, and what to say about them.
OTHER_TABLES = {
    "engine": "serving and inference rows are not predicted yet",
    "input_tokens": "serving and inference rows are not predicted yet",
    "library": "classical machine-learning rows are not predicted yet",
    "image_size": "vision, speech, diffusion and recommender rows are not predicted yet",
    "loader": "data-loading rows are not predicted yet",
}

_GIB = 2.0**30
_SIGNIFICANT_DIGITS = 6


def predict(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Predict each row's metric with its intervals.

    `rows` have the column names of the measured tables (train memory and throughput today); values may be text or numbers. The answer has
    one dictionary a row, in order, with PREDICTION_COLUMNS first and the columns of the row that the contract does not know carried through.
    Numbers are None where there is none.
    """
    cleaned = [clean_row(row) for row in rows]
    answers = [_blank(cells) for cells, _ in cleaned]
    pending: list[int] = []
    for index, (cells, problem) in enumerate(cleaned):
        problem = problem or _out_of_scope(cells)
        if problem:
            answers[index]["error"] = problem
        else:
            pending.append(index)
    _in_pieces(pending, lambda part: _predict_training([cleaned[i][0] for i in part], [answers[i] for i in part]), answers)
    return [_finish(answer, cells) for answer, (cells, _) in zip(answers, cleaned, strict=True)]


def _blank(cells: Mapping[str, str]) -> dict[str, Any]:
    answer: dict[str, Any] = dict.fromkeys(PREDICTION_COLUMNS)
    metric = cells.get("metric", "")
    answer.update(id=cells.get("id", ""), metric=metric, engine="analytic", assumptions=[], error="")
    if not metric and not _other_table(cells):
        answer["metric"] = MEMORY_METRIC
        answer["assumptions"] = ["metric not stated: peak memory taken"]
    return answer


def _other_table(cells: Mapping[str, str]) -> str:
    if "micro_batch" in cells or "method" in cells:
        return ""
    return next((reason for column, reason in OTHER_TABLES.items() if column in cells), "")


def _out_of_scope(cells: Mapping[str, str]) -> str:
    """Why a row is not one of training; empty when it is."""
    metric = cells.get("metric", "")
    if reason := _other_table(cells):
        return reason
    if metric and metric not in TRAINING_METRICS:
        return f"metric {metric[:60]!r} is not predicted; the metrics are {', '.join(TRAINING_METRICS)}"
    if not any(cells.values()):
        return "the row is empty"
    return ""


def _in_pieces(indices: list[int], work: Callable[[list[int]], None], answers: list[dict[str, Any]]) -> None:
    """Run `work` on all rows at once; when one row breaks it, halve until that row stands alone and carries the reason itself."""
    if not indices:
        return
    try:
        with np.errstate(all="ignore"):
            work(indices)
    except Exception as error:  # one bad row in ten thousand must not cost the others their answer
        if len(indices) > 1:
            middle = len(indices) // 2
            _in_pieces(indices[:middle], work, answers)
            _in_pieces(indices[middle:], work, answers)
        else:
            message = str(error) if isinstance(error, RightfitError) else f"cannot be computed: {type(error).__name__}: {error}"
            answers[indices[0]]["error"] = message


def _predict_training(rows: list[dict[str, str]], answers: list[dict[str, Any]]) -> None:
    """Fill the answers of training rows."""
    from rightfit.estimate.cases import training_cases

    cases = training_cases(rows)
    for index, reason in cases.refused.items():
        answers[index]["error"] = reason
    if not len(cases.index):
        return
    kept = [int(i) for i in cases.index]
    metrics = np.array([answers[i]["metric"] for i in kept])
    memory, time = np.flatnonzero(metrics == MEMORY_METRIC), np.flatnonzero(metrics != MEMORY_METRIC)
    if memory.size:
        _answer_memory(cases, rows, answers, memory)
    if time.size:
        _answer_time(cases, rows, answers, time)
