"""Rows of the measured table of classical machine learning as columns: task, processor, GPU, or an honest reason why not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rightfit.errors import RightfitError
from rightfit.estimate.classical import ClassicalTask, classical_task, gpu_support, job_columns
from rightfit.estimate.classical_hardware import gpu_figures, is_known_processor, row_cpu_columns, row_processor, stated_memory_bytes
from rightfit.estimate.classical_rates import ClassicalKinds
from rightfit.facts.constants import constant_group
from rightfit.physics.classical import CpuColumns, GpuColumns
from rightfit.physics.classical_work import JobColumns
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.units import parse_count

PREDICTION_METRIC = "predict_time_s"
TIME_METRICS = ("train_time_s", PREDICTION_METRIC)
MEMORY_METRIC = "peak_ram_gib"
CLASSICAL_METRICS = (*TIME_METRICS, MEMORY_METRIC)


@dataclass(frozen=True, slots=True)
class ClassicalCases:
    """Rows that can be told, under one another. `index` their positions in the table; `on_gpu` 1 where a GPU does the work; `growth_only` 1
    where the
    memory is what training adds to the data; `age_years` of the library against those of today; `card_memory` 1 where it is that of the
    GPU; `reported_gib` the step in which a source reports memory (0 = exact)."""

    index: NDArray[np.intp]
    tasks: tuple[ClassicalTask, ...]
    job: JobColumns
    kinds: ClassicalKinds
    cpu: CpuColumns
    gpu: GpuColumns
    on_gpu: Array
    growth_only: Array
    card_memory: Array
    reported_gib: Array
    age_years: Array
    refused: Mapping[int, str]
    assumptions: tuple[tuple[str, ...], ...]


def is_classical(row: Mapping[str, str]) -> bool:
    """Whether a row is of the table of classical machine learning: it has its columns, or one of its metrics."""
    return row.get("metric", "") in CLASSICAL_METRICS or ("library" in row and "algorithm" in row)


def _count(text: str) -> float:
    """A number as tables write it ("11M", "1e6", "10,500,000"); 0 where there is none."""
    cleaned = text.strip().replace(",", "").replace(" ", "")
    try:
        return float(cleaned) if cleaned else 0.0
    except ValueError:
        pass
    try:
        return float(parse_count(cleaned))
    except (RightfitError, ValueError):
        return 0.0


def _year(text: str) -> float:
    found = re.search(r"(?:19|20)\d\d", text)
    return float(found[0]) if found else 0.0


_HIST_SINCE = 2017.0
#: Libraries of this year are those of today, and no histogram library is older than the other.
_TODAY, _FIRST = 2025.0, 2017.0


def _age_years(date: str, library: str) -> float:
    """Years before the library of the row was as fast as it is today."""
    year, settled = _year(date), constant_group("classical_usual", "settled").get(library, _TODAY)
    return float(np.clip(settled - year, 0.0, settled - _FIRST)) if year else 0.0


def _library(row: Mapping[str, str]) -> str:
    """The library with what its date adds: XGBoost before 2017 was exact."""
    text = row.get("library", "")
    named_old = re.search(r"201[4-6]|\b0\.[1-6]\b", text)
    year = _year(row.get("date", ""))
    if "xgboost" in text.lower() and "hist" not in text.lower() and "h2o" not in text.lower() and (named_old or 0 < year < _HIST_SINCE):
        return "xgboost exact"
    return text


def _task(row: Mapping[str, str]) -> ClassicalTask:
    rows, cols = _count(row.get("rows", "")), _count(row.get("cols", ""))
    return classical_task(
        row.get("algorithm", ""),
        rows=rows,
        cols=cols,
        library=_library(row),
        settings="; ".join(text for text in (row.get("settings", ""), row.get("variant", "")) if text),
        data=_about_data(row),
        filled=_filled_share(row),
        predicts=row.get("metric") == "predict_time_s",
    )


def _filled_share(row: Mapping[str, str]) -> float:
    """Share of the cells that hold something, as `density` states it; 0 where it does not."""
    found = re.search(r"(\d*\.?\d+(?:e-?\d+)?)\s*(%?)", row.get("density", ""))
    share = float(found[1]) / (100.0 if found[2] else 1.0) if found else 0.0
    return share if 0.0 < share < 1.0 else 0.0


def _about_data(row: Mapping[str, str]) -> str:
    """What is said about the data as this library sees them."""
    categorical = f"{row['categorical']} categorical" if row.get("categorical") else ""
    one_hot = "one-hot sparse" if "one-hot" in row.get("library", "").lower() else ""
    return "; ".join(text for text in (row.get("density", ""), categorical, one_hot) if text)


def _problem(row: Mapping[str, str]) -> str:
    """Why a row cannot be told before anything is computed; empty when it can."""
    metric = row.get("metric", "")
    if metric not in CLASSICAL_METRICS:
        return f"metric {metric[:60]!r} is not predicted for classical machine learning; the metrics are {', '.join(CLASSICAL_METRICS)}"
    if not row.get("algorithm") and not row.get("library"):
        return "the row names neither library nor algorithm"
    for column in ("rows", "cols"):
        if _count(row.get(column, "")) < 1:
            return f"{column} is missing or not a positive number"
    if metric == MEMORY_METRIC and (_count(row.get("nodes", "")) > 1 or re.search(r"\bcluster\b", row.get("hardware", ""), re.IGNORECASE)):
        return "how a cluster divides the table among its machines is not predicted, so the memory of one cannot be told"
    if "sparse" in (density := row.get("density", "").lower()) and "one-hot" not in density and not re.search(r"\d", density):
        return "how many cells of the sparse table are filled is not in the row: give density as a share (0.01)"
    if row.get("gpu") and gpu_figures(row["gpu"]) is None:
        return f"GPU {row['gpu'][:60]!r} is not known"
    return ""


_NO_GPU = (1e11, 1e13, 1e12, 0.0, 1.0)


def _doubts(row: Mapping[str, str], task: ClassicalTask) -> tuple[str, ...]:
    noted = list(task.assumptions)
    if not is_known_processor(row.get("hardware", "")):
        noted.append("processor not known: a usual server taken")
    if not row.get("cores"):
        noted.append("cores not stated: all of the machine taken")
    return tuple(noted)


def classical_cases(rows: Sequence[Mapping[str, str]]) -> ClassicalCases:
    """Columns for the rows that can be told, reasons for the others."""
    refused: dict[int, str] = {}
    kept: list[int] = []
    tasks: list[ClassicalTask] = []
    for position, row in enumerate(rows):
        try:
            problem = _problem(row)
            task = None if problem else _task(row)
            if task is not None and row.get("gpu"):
                task = gpu_support(task)
                problem = "" if task else "no GPU library runs this algorithm"
        except RightfitError as error:
            problem, task = str(error), None
        if task is None:
            refused[position] = problem
        else:
            kept.append(position)
            tasks.append(task)
    return _stacked(rows, kept, tasks, refused)


def _stacked(
    rows: Sequence[Mapping[str, str]], kept: Sequence[int], tasks: Sequence[ClassicalTask], refused: Mapping[int, str]
) -> ClassicalCases:
    chosen = [rows[i] for i in kept]
    machines = [row_processor(row.get("hardware", ""), _count(row.get("cores", "")), row.get("pinning", "")) for row in chosen]
    gpus = np.array([gpu_figures(row["gpu"]) if row.get("gpu") else _NO_GPU for row in chosen], dtype=np.float64).reshape(-1, 5)
    memory = np.array([row.get("metric") == MEMORY_METRIC for row in chosen], dtype=np.float64)
    on_gpu = np.array([bool(row.get("gpu")) for row in chosen], dtype=np.float64)
    return ClassicalCases(
        index=np.array(kept, dtype=np.intp),
        tasks=tuple(tasks),
        job=job_columns(tasks),
        kinds=ClassicalKinds(task.kind for task in tasks),
        cpu=row_cpu_columns(machines, [stated_memory_bytes(row.get("hardware", "")) for row in chosen]),
        gpu=GpuColumns(lanes=gpus[:, 0], flops=gpus[:, 1], bandwidth=gpus[:, 2], memory_bytes=gpus[:, 3], count=gpus[:, 4]),
        on_gpu=on_gpu,
        growth_only=np.array([row.get("counter", "").strip().lower() == "added" for row in chosen], dtype=np.float64),
        card_memory=on_gpu * memory,
        reported_gib=np.array([_count(row.get("rounded_to_gib", "")) for row in chosen]),
        age_years=np.array(
            [_age_years(row.get("date", ""), "" if row.get("gpu") else task.library) for row, task in zip(chosen, tasks, strict=True)]
        ),
        refused=refused,
        assumptions=tuple(_doubts(row, task) for row, task in zip(chosen, tasks, strict=True)),
    )
