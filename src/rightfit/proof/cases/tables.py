"""Rows of the measured table of classical machine learning as cases: task, processor, GPU, or an
honest reason why not."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.estimation.classical import ClassicalTask, TableCase, classical_task, gpu_support, job_columns
from rightfit.estimation.classical_rates import ClassicalKinds, GpuFigures, Host, card_figures, gpu_columns, host_columns
from rightfit.facts.classical import algorithm_named
from rightfit.facts.machines import host_processor, older_card, unrented_card
from rightfit.facts.tables import constant_group, constants, shape
from rightfit.physics.classical import CpuColumns, GpuColumns
from rightfit.physics.classical_work import Algorithm, JobColumns
from rightfit.physics.columns import Array
from rightfit.proof.cases.reader import RefusedRowError, Row, count_of, read_rows
from rightfit.records import dataclass

PREDICTION_METRIC = "predict_time_s"
TIME_METRICS = ("train_time_s", PREDICTION_METRIC)
MEMORY_METRIC = "peak_ram_gib"
CLASSICAL_METRICS = (*TIME_METRICS, MEMORY_METRIC)


@dataclass(frozen=True, slots=True)
class ClassicalCases:
    """Rows that can be told, under one another. `index` their positions in the table; `on_gpu` 1
    where a GPU does the work; `growth_only` 1 where the memory is what training adds to the data;
    `age_years` of the library against those of today; `card_memory` 1 where it is that of the GPU;
    `reported_gib` the step in which a source reports memory (0 = exact)."""

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
    refused: dict[int, str]
    assumptions: tuple[tuple[str, ...], ...]


def is_classical(row: Row) -> bool:
    """Whether a row is of the table of classical machine learning: it has its columns, or
    one of its metrics."""
    return row.get("metric", "") in CLASSICAL_METRICS or ("library" in row and "algorithm" in row)


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


def _library(row: Row) -> str:
    """The library with what its date adds: XGBoost before 2017 was exact."""
    text = row.get("library", "")
    told = re.search(r"tree_method\W*(\w+)", f"{row.get('settings', '')} {row.get('variant', '')}".lower())
    if told and "xgboost" in text.lower():  # what is told decides, not the year in which it was the default
        return "xgboost exact" if told[1] == "exact" else text if "hist" in text.lower() else f"{text} hist"
    named_old = re.search(r"201[4-6]|\b0\.[1-6]\b", text)
    year = _year(row.get("date", ""))
    if "xgboost" in text.lower() and "hist" not in text.lower() and "h2o" not in text.lower() and (named_old or 0 < year < _HIST_SINCE):
        return "xgboost exact"
    return text


def table_case(row: Row) -> TableCase:
    """The job of a row."""
    told = algorithm_named(
        row.get("algorithm", ""),
        library=_library(row),
        settings="; ".join(text for text in (row.get("settings", ""), row.get("variant", "")) if text),
        data=_about_data(row),
    )
    return TableCase(
        Algorithm[told.algorithm],
        told.library,
        count_of(row.get("rows", "")),
        count_of(row.get("cols", "")),
        told.settings,
        filled=_filled_share(row),
        predicts=row.get("metric") == PREDICTION_METRIC,
    )


_SHARE = r"(\d*\.?\d+(?:e-?\d+)?)\s*(%?)"


def _filled_share(row: Row) -> float:
    """Share of the cells that hold something, as `density` or the settings state it; 0 where they
    do not."""
    stated = re.search(_SHARE, row.get("density", ""))
    told = f"{row.get('settings', '')} {row.get('variant', '')}".lower()
    found = stated or shape("setup", r"{density_word}\s*[=:]?\s*" + _SHARE).search(told)
    empty = re.search(rf"sparsity\s*[=:]?\s*{_SHARE}", told) if not found else None
    match = found or empty
    share = float(match[1]) / (100.0 if match[2] else 1.0) if match else 0.0
    share = 1.0 - share if empty else share
    return share if 0.0 < share <= 1.0 else 0.0


def _about_data(row: Row) -> str:
    """What is said about the data as this library sees them."""
    categorical = f"{row['categorical']} categorical" if row.get("categorical") else ""
    one_hot = "one-hot sparse" if "one-hot" in row.get("library", "").lower() else ""
    sparse = "sparse" if not row.get("density") and 0.0 < _filled_share(row) < 1.0 else ""
    return "; ".join(text for text in (row.get("density", "") or sparse, categorical, one_hot) if text)


def _problem(row: Row) -> str:
    """Why a row cannot be told before anything is computed; empty when it can."""
    metric = row.get("metric", "")
    if metric not in CLASSICAL_METRICS:
        return f"metric {metric[:60]!r} is not predicted for classical machine learning; the metrics are {', '.join(CLASSICAL_METRICS)}"
    if not row.get("algorithm") and not row.get("library"):
        return "the row names neither library nor algorithm"
    for column in ("rows", "cols"):
        if count_of(row.get(column, "")) < 1:
            return f"{column} is missing or not a positive number"
    if metric == MEMORY_METRIC and (
        count_of(row.get("nodes", "")) > 1 or re.search(r"\bcluster\b", row.get("hardware", ""), re.IGNORECASE)
    ):
        return "how a cluster divides the table among its machines is not predicted, so the memory of one cannot be told"
    if "sparse" in (density := row.get("density", "").lower()) and "one-hot" not in density and not re.search(r"\d", density):
        return "how many cells of the sparse table are filled is not in the row: give density as a share (0.01)"
    if row.get("gpu") and gpu_figures(row["gpu"]) is None:
        return f"GPU {row['gpu'][:60]!r} is not known"
    return ""


def _task(row: Row) -> ClassicalTask:
    """What a row runs, on a GPU in the library that has it there; a row that cannot be told is
    refused with the reason."""
    if problem := _problem(row):
        raise RefusedRowError(problem)
    task = classical_task(table_case(row))
    if row.get("gpu"):
        on_gpu = gpu_support(task)
        if on_gpu is None:
            raise RefusedRowError("no GPU library runs this algorithm")
        return on_gpu
    return task


def _doubts(row: Row, task: ClassicalTask, host: Host) -> tuple[str, ...]:
    noted = list(task.assumptions)
    if not host.processor.is_known:
        noted.append("processor not known: a usual server taken")
    if not row.get("cores"):
        noted.append("cores not stated: all of the machine taken")
    return tuple(noted)


#: Stands where no GPU works: any figures that divide nothing by zero.
_NO_GPU = GpuFigures(1e11, 1e13, 1e12, 0.0)


def classical_cases(rows: Sequence[Row]) -> ClassicalCases:
    """Columns for the rows that can be told, reasons for the others."""
    tasks, index, refused = read_rows(rows, _task)
    chosen = [rows[i] for i in index]
    hosts = [host_of(row.get("hardware", ""), count_of(row.get("cores", "")), row.get("pinning", "")) for row in chosen]
    memory = np.array([row.get("metric") == MEMORY_METRIC for row in chosen], dtype=np.float64)
    on_gpu = np.array([bool(row.get("gpu")) for row in chosen], dtype=np.float64)
    return ClassicalCases(
        index=np.array(index, dtype=np.intp),
        tasks=tuple(tasks),
        job=job_columns(tasks),
        kinds=ClassicalKinds(task.kind for task in tasks),
        cpu=host_columns(hosts),
        gpu=gpu_columns([gpu_figures(row.get("gpu", "")) or _NO_GPU for row in chosen]),
        on_gpu=on_gpu,
        growth_only=np.array([row.get("counter", "").strip().lower() == "added" for row in chosen], dtype=np.float64),
        card_memory=on_gpu * memory,
        reported_gib=np.array([count_of(row.get("rounded_to_gib", "")) for row in chosen]),
        age_years=np.array(
            [_age_years(row.get("date", ""), "" if row.get("gpu") else task.library) for row, task in zip(chosen, tasks, strict=True)]
        ),
        refused=refused,
        assumptions=tuple(_doubts(row, task, host) for row, task, host in zip(chosen, tasks, hosts, strict=True)),
    )


# machines -----------------------------------------------------------------------------------------


_VCPUS_PER_XLARGE = constants("classical_usual")["vcpus_per_xlarge"]
_SIZES = {"large": 2.0, "medium": 1.0, "xlarge": _VCPUS_PER_XLARGE}
_INSTANCE = r"\b([a-z][a-z0-9-]{1,14})\.(?:(?:metal-)?(\d*)({extra_large})|({plain_size}))\b"
_SOCKETS = r"\b(\d+) ?[x×] ?{maker_after_count}|\b(\d+)[ -]sockets?"
_MEMORY = r"(\d+(?:\.\d+)?) ?{gigabyte}\b(?! ?GPU)"
_TWO_SOCKETS = 2.0


def _search(name: str, text: str) -> re.Match[str] | None:
    return shape("classical", name, ignore_case=True).search(text)


def _vcpus(text: str) -> float:
    """vCPUs that an instance name or the words "(32 vCPU)" tell; 0 when nothing does."""
    if found := _search(r"(\d+) ?v?{cpu_word}\b", text):
        return float(found[1])
    found = _search(_INSTANCE, text)
    if not found:
        return 0.0
    if found[3]:
        return float(found[2] or 1) * _VCPUS_PER_XLARGE
    return _SIZES.get((found[4] or "").lower(), 0.0)


def host_of(hardware: str, cores: float, pinning: str) -> Host:
    """The processor at work of a measured row. `cores` are threads where the machine's words
    do not say physical.

    `pinning` of a run tells more: both threads of a core, both sockets, everything of a machine, or
    a thread on each of its cores.
    """
    processor = host_processor(hardware)
    per_core, per_socket = processor.threads_per_core, processor.cores
    stated = float(found[1] or found[2]) if (found := _search(_SOCKETS, hardware)) else 0.0
    vcpus = _vcpus(hardware)
    threads = cores or vcpus or per_socket * max(stated, 1.0) * per_core
    pinned = pinning.strip().lower()
    if pinned:
        cores_used = threads / per_core if pinned in ("both threads", "everything") else threads
    elif "physical" in hardware.lower() or re.search(r",\s*\d+ cores\b", hardware):
        cores_used = threads
    elif vcpus and threads <= vcpus / 2.0:
        cores_used = threads  # fewer threads than cores: each has a core of its own
    elif stated and threads <= per_socket * stated:
        cores_used = threads
    else:
        cores_used = threads / per_core if threads > 1 else threads
    across = pinned in ("both sockets", "everything") and stated != 1
    sockets = max(_TWO_SOCKETS if across and (stated or _TWO_SOCKETS) > 1 else 1.0, np.ceil(cores_used / per_socket))
    return Host(processor, max(cores_used, 1.0), threads, float(sockets), _memory_bytes(hardware))


def _memory_bytes(hardware: str) -> float:
    """Memory of the machine as its words tell [bytes]; 0 when they do not."""
    found = _search(_MEMORY, hardware)
    return float(found[1]) * 2.0**30 if found else 0.0


@functools.cache
def gpu_figures(text: str) -> GpuFigures | None:
    """A GPU by its name, "2x GTX 1080" included; None when nobody knows it."""
    count = float(found[1]) if (found := re.match(r"\s*(\d+) ?[x×] ?", text)) else 1.0
    name = re.sub(r"^\s*\d+ ?[x×] ?", "", text)
    name = re.sub(r"\(.*?\)", "", name).strip()
    if not name:
        return None
    try:
        return card_figures(facts.accelerator(name, typical=True), count=count)
    except RightfitError:
        card = older_card(name)
    if card is not None:
        return card_figures(card, count=count)
    other = unrented_card(name)
    return card_figures(other, count=count) if other is not None and other.fp32_flops else None
