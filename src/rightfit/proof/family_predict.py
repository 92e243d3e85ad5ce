"""Predictions for rows of the table of classical machine learning."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rightfit import facts
from rightfit.estimation.classical import gpu_memory, ram_terms, time_terms, total
from rightfit.estimation.classical_rates import Coefficients, coefficients
from rightfit.estimation.figures import classical_interval, classical_interval_group
from rightfit.estimation.forward import DTYPES, ENGINES, SCENARIOS, CaseColumns, fit_room, pass_metric_values
from rightfit.estimation.loading import LoaderCoefficients, Place, Work, case_columns, loader_coefficients, rates
from rightfit.estimation.sample_figures import (
    DURATION_METRIC,
    FIT_METRICS,
    SAMPLE_MEMORY_METRIC,
    SamplesCases,
    row_doubts,
    sample_interval_group,
    sample_metric_values,
    vision_interval,
)
from rightfit.estimation.sample_training import PRECISIONS, STACKS, TrainingColumns
from rightfit.facts.tables import shape
from rightfit.physics.columns import Array
from rightfit.proof.case_columns import certain_weights
from rightfit.proof.cases.forward import LoadingRow, emulated, forward_rows, read_loading_case
from rightfit.proof.cases.reader import Row
from rightfit.proof.cases.samples import SamplesRows, samples_cases
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


def classical_metric_values(cases: ClassicalCases, values: Coefficients | None = None) -> dict[str, Array]:
    """Every metric of every case, by name, in the table's unit."""
    values = values or coefficients()
    terms = time_terms(cases.job, cases.kinds, cases.cpu, values, gpu=cases.gpu, on_gpu=cases.on_gpu, age_years=cases.age_years)
    seconds = total(terms)
    # Cards are set up once a job: when a model predicts, the one that it was
    # trained or loaded on is.
    running = np.where(cases.on_gpu, seconds - terms["start"], seconds)
    times = {metric: running if metric == PREDICTION_METRIC else seconds for metric in TIME_METRICS}
    return {**times, MEMORY_METRIC: memory_gib(cases, values)}


def predict_classical(rows: list[dict[str, str]], answers: list[dict[str, Any]]) -> None:
    """Fill the answers of rows of classical machine learning: figure, interval, shares of its
    terms, assumptions, or why not."""
    cases = classical_cases(rows)
    for position, reason in cases.refused.items():
        answers[position]["error"] = reason
    if not len(cases.index):
        return
    figures = classical_metric_values(cases)
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
        _classical_fill(answers[int(position)], metric, value, cases, at, parts)


def _shares(terms: Mapping[str, Array]) -> dict[str, Array]:
    whole = np.maximum(total(terms), 1e-12)
    return {name: np.broadcast_to(value / whole, whole.shape) for name, value in terms.items()}


def _classical_taken(cases: ClassicalCases, at: int) -> dict[str, str]:
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


def _classical_fill(
    answer: dict[str, Any], metric: str, value: float, cases: ClassicalCases, index: int, terms: Mapping[str, float]
) -> None:
    answer["assumptions"] += cases.assumptions[index]
    if not (np.isfinite(value) and value > 0):
        answer["error"] = "the estimate is not a finite positive number: the row's sizes make no sense together"
        return
    doubts = np.array([float(len(cases.assumptions[index]))])
    found = classical_interval(metric, np.array([value]), doubts=doubts, gpu=bool(cases.on_gpu[index]), library=cases.kinds[index].library)
    bounds = (found.mid, found.low80, found.high80, found.low95, found.high95)
    answer.update(zip(("predicted", "low80", "high80", "low95", "high95"), (float(f"{bound[0]:.6g}") for bound in bounds), strict=True))
    answer["terms"] = dict(terms)
    answer["taken"] = _classical_taken(cases, index)
    group = classical_interval_group(metric, gpu=bool(cases.on_gpu[index]), library=cases.kinds[index].library)
    answer["regime"] = {"group": f"classical-{group}"}
    if metric == MEMORY_METRIC and (memory := float(np.broadcast_to(cases.cpu.memory_bytes, cases.index.shape)[index])) > 0:
        answer["regime"]["room"] = float(np.log(memory / (value * GIB)))


# ---- Predictions for rows of the inference table whose model does not generate token by token.


class ForwardPrediction(NamedTuple):
    """`value` in the metric's unit, or None with the reason in `error`.

    `regime` says what the width of an interval may depend on: `doubts` (number of assumptions),
    `kind` of the main stage, `modality`, `engine` class, and the `assumptions`; and what was
    `taken` for empty cells.
    """

    value: float | None
    error: str
    regime: Mapping[str, Any]


def regimes(cases: CaseColumns) -> list[str]:
    """Kind of the main stage and engine, as one word a case."""
    return [f"{work.stages[0].kind}/{ENGINES[int(engine)]}" for work, engine in zip(cases.works, cases.case["engine"], strict=True)]


_USUAL_INPUT = {"vision": "image_size", "image": "image_size", "video": "image_size", "text": "input_tokens", "audio": "audio_s"}


def _forward_taken(cases: CaseColumns, at: int) -> dict[str, str]:
    """What was taken for each column that a case may have left empty, by the name of the column."""
    case = {name: float(values[at]) for name, values in cases.case.items()}
    work = cases.works[at]
    found = {
        "batch_or_concurrency": f"{case['batch']:g}",
        "arrival": SCENARIOS[int(case["scenario"])].value,
        "engine": ENGINES[int(case["engine"])].value,
        "weights_dtype": DTYPES[int(case["dtype"])].value,
        "n_devices": f"{max(case['parallel'], case['shared']):g}",
    }
    if column := _USUAL_INPUT.get(work.modality):
        side = work.pixels**0.5
        found[column] = f"{side:.0f} pixels" if column == "image_size" and side else "the model's usual one"
    return found


def predict_forward(rows: Sequence[Row]) -> list[ForwardPrediction]:
    """One answer a row, in order: a value or an honest reason.

    `rows` have the columns of the measured inference table as text. Rows of decoders should not
    come here (see `cases.forward.is_forward`).
    """
    read = forward_rows(rows)
    answers = [ForwardPrediction(None, read.refused.get(position, ""), {}) for position in range(len(rows))]
    if not read.cases:
        return answers
    cases = read.columns
    with np.errstate(all="ignore"):
        figures = pass_metric_values(cases)
    for at, position in enumerate(read.index.tolist()):
        value = float(figures[rows[position]["metric"]][at])
        usable = np.isfinite(value) and value > 0
        work, assumed = cases.works[at], read.assumptions[at]
        regime = {
            "doubts": len(assumed),
            "kind": work.stages[0].kind,
            "modality": work.modality,
            "engine": ENGINES[int(cases.case["engine"][at])].value,
            "assumptions": assumed,
            "taken": _forward_taken(cases, at),
            "doubt": work.doubt,
            "room": fit_room(cases, at, read.cases[at].device.usable_bytes),
        }
        error = "" if usable else "the estimate is not a finite positive number"
        answers[position] = ForwardPrediction(value if usable else None, error, regime)
    return answers


# ---- Predictions for rows of the table of measured loaders: pictures a second, sizes of data sets,
# what an accelerator reads.

RATE_METRICS = ("images_per_s", "frames_per_s", "samples_per_s", "items_per_s", "clips_per_s")
_TOTAL = r"(?:^|_)({total_bytes})_per_s(?:$|_total)"
_ACCELERATORS = (
    r"(\d+)\s*(?:x\s*)?{pretended}?{benchmark_card}?{accelerator}\b"
    r"|accelerators?\s*[=:x]?\s*(\d+)|{benchmark_card_end}s?\s*x\s*(\d+)"
)
_UNITS = {"mb": 1e6, "mib": 2.0**20, "gb": 1e9, "gib": 2.0**30}
_FIGURES = ("predicted", "low80", "high80", "low95", "high95")
GROUPS = ("decode", "pipeline", "size", "emulated")


def _words(row: Row) -> str:
    return " ".join(row.get(name, "") for name in ("what", "loader", "hardware", "sample_kind"))


def emulated_value(row: Row) -> float | None:
    """What an emulated accelerator, or all of them together, read or take; None where the
    row is not about one."""
    found, metric = emulated(_words(row)), row.get("metric", "")
    if found is None:
        return None
    samples = found.batch / found.computation_s
    if metric == "samples_per_s_per_accelerator":
        return float(samples)
    if metric == "required_MB_per_s_per_accelerator":
        return float(samples * found.record_bytes / 1e6)
    count = shape("loading", _ACCELERATORS).search(_words(row).casefold())
    if not count:
        return None
    number = float(next(group for group in count.groups() if group))
    return _total(number * samples * found.utilisation, found.record_bytes, row)


def _total(samples_per_s: float, record_bytes: float, row: Row) -> float | None:
    """What all accelerators take: in bytes of the row's unit, else of the unit in the metric's
    name, or in samples."""
    metric = row.get("metric", "").casefold()
    named = shape("loading", _TOTAL).search(metric)
    scale = _UNITS.get(row.get("unit", "").casefold().split("/")[0].strip(), _UNITS[named.group(1)] if named else 0.0)
    if scale and ("per_s" in metric or "throughput" in metric or "bandwidth" in metric):
        return samples_per_s * record_bytes / scale
    return samples_per_s if metric == "samples_per_s" else None


def sizes(told: LoadingRow, row: Row) -> float | None:
    """Bytes of a whole data set of pictures, in the unit of the row."""
    scale = {"gib": 2.0**30, "tb": 1e12, "mb": 1e6}.get(row.get("unit", "").casefold(), 1e9)
    if not told.count:
        words = " ".join(row.get(name, "") for name in ("sample_kind", "what")).casefold()
        known = [one for one in facts.datasets().values() if one.size_bytes and one.name.split(" ")[0].casefold() in words]
        best = max(known, key=lambda one: sum(word in words for word in one.name.casefold().split()), default=None)
        return best.size_bytes / scale if best else None
    count = told.count
    stored = told.case.file_bytes
    mixed = re.search(r"\bmix", row.get("sample_kind", "").casefold())
    if mixed:  # FFCV's mode that keeps a quarter of the pictures as they are (libffcv/ffcv, dataset sizes)
        stored = 0.75 * told.case.file_bytes + 0.25 * 3.0 * told.case.pixels
    return float(count * stored / scale)


def plain_value(told: LoadingRow, row: Row) -> float | None:
    """Metrics that need no rate of a loader."""
    metric = row.get("metric", "")
    if metric == "dataset_size":
        return sizes(told, row)
    if metric == "tokens_per_GB":
        return 1e9 / facts.coefficients("planning")["bytes_per_token"]
    if metric == "MB_per_s_per_1000_images_per_s":
        return 1000 * 2.0e5 * 0.55 / 1e6
    return None


def values_of(rows: Sequence[Row], values: LoaderCoefficients | None = None) -> tuple[Array, list[str], list[LoadingRow]]:
    """The metric of each row (NaN where it cannot be told), the group whose errors its interval is
    made of, and the cases."""
    read = [read_loading_case(row) for row in rows]
    with np.errstate(all="ignore"):
        rate = rates(case_columns([told.case for told in read]), values or loader_coefficients()) if read else np.zeros(0)
    out, groups = np.full(len(rows), np.nan), []
    for position, (row, told) in enumerate(zip(rows, read, strict=True)):
        group, value = _answer(row, told, float(rate[position]))
        out[position] = np.nan if value is None else value
        groups.append(group)
    return out, groups, read


def _answer(row: Row, told: LoadingRow, rate: float) -> tuple[str, float | None]:
    metric = row.get("metric", "")
    found = emulated_value(row)
    if found is not None:
        return "emulated", found
    if metric in RATE_METRICS:
        return ("decode" if told.case.work == Work.DECODE else "pipeline"), rate
    if metric == "duration_h" and told.count and told.case.work == Work.FETCH:
        return "pipeline", told.count / rate / 3600.0
    return "size", plain_value(told, row)


def interval_table() -> Mapping[str, Mapping[str, float]]:
    """Quantiles of log(measured / predicted) by group, from left-out sources
    (validation/fit_loading.py --intervals)."""
    found: dict[str, dict[str, float]] = {}
    for row in facts.table("loading_intervals"):
        found.setdefault(row["group"], {})[row["name"]] = float(row["value"])
    return found


def predict_loading(rows: Sequence[Row], answers: Sequence[dict[str, Any]]) -> None:
    """Fill the answers of rows of the table of measured loaders."""
    found, groups, read = values_of(rows)
    quantiles = interval_table()
    for value, group, told, row, answer in zip(found, groups, read, rows, answers, strict=True):
        if group in ("decode", "pipeline") and told.case.work != Work.GPU and any("number of cores" in text for text in told.assumptions):
            answer["error"] = (
                "how many cores load is not in the row (cpu_cores, workers of the loader, or vCPUs of the hardware), so its rate cannot be told"
            )
            continue
        if not np.isfinite(value) or value <= 0:
            metric = str(row.get("metric", ""))[:60]
            answer["error"] = f"metric {metric!r} of a data-loading row is not predicted, or the row lacks what it needs"
            continue
        taken = told.assumptions if group in ("decode", "pipeline") else ()
        answer["assumptions"] += list(taken)
        answer["regime"] = {"group": f"loading-{group}"}
        answer["taken"] = {
            "loader": told.loader,
            "cpu_cores": f"{told.case.workers:g}",
            "sample_kind": f"{told.case.pixels / 1e6:.2g} megapixels in {told.case.file_bytes / 1e3:.3g} kB",
        }
        if group == "pipeline" and told.case.place == Place.UNSAID:
            answer["taken"]["hardware"] = "data in memory"
        widen = 1.0 + 0.15 * min(len(taken), 3)
        bounds = [value * np.exp(quantiles[group][name] * widen) for name in ("0.1", "0.9", "0.025", "0.975")]
        answer.update(zip(_FIGURES, (float(f"{figure:.6g}") for figure in (value, *bounds)), strict=True))


# ---- Predictions for rows of the table of training that is not of language models: each row in the
# metric that it asks for.


def predict_vision(rows: Sequence[Mapping[str, str]], answers: list[dict[str, Any]]) -> None:
    """Fill `answers` (one a row, in order) with figures and intervals, or with the reason
    why there is none."""
    read = samples_cases(rows)
    for position, reason in read.refused.items():
        answers[position]["error"] = reason
    if not len(read.cases):
        return
    with np.errstate(all="ignore"):
        figures, found = sample_metric_values(read.cases)
    metrics = np.array([rows[int(i)]["metric"] for i in read.index])
    for metric in np.unique(metrics):
        _samples_fill(answers, rows, read, found, np.flatnonzero(metrics == metric), str(metric), figures[str(metric)])


def _samples_taken(cases: SamplesCases, at: int, metric: str) -> dict[str, str]:
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


def _samples_fill(
    answers: list[dict[str, Any]], rows: Sequence[Row], read: SamplesRows, columns: TrainingColumns, here: Any, metric: str, values: Array
) -> None:
    """Figures of one metric."""
    cases = read.cases
    mid = np.broadcast_to(values, len(cases))[here]
    doubts, unsure = row_doubts(cases, metric)
    modality = [cases.works[i].modality for i in here]
    intervals = vision_interval(metric, mid, modality=modality, doubts=doubts[here], unsure_counter=unsure[here])
    bounds = np.stack([intervals.mid, intervals.low80, intervals.high80, intervals.low95, intervals.high95], axis=1)
    memory = metric == SAMPLE_MEMORY_METRIC or metric in FIT_METRICS
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
        answer["regime"] = {"group": f"samples-{sample_interval_group(metric, modality[at])}", "counter": float(unsure[i])}
        answer["taken"] = _samples_taken(cases, int(i), metric)
        if memory and not cases.works[i].assumptions:
            held = answer["terms"]["weights"] * answer["predicted"]
            answer["regime"]["floor"] = certain_weights(
                rows[int(read.index[i])], held, narrowest=0.5, devices=float(np.broadcast_to(cases.setup.num_gpus, len(cases))[i])
            )
        if memory and (cases.has_device[i] or cases.stated_bytes[i] > 0):
            answer["regime"]["room"] = float(np.log(capacity[i] / np.broadcast_to(columns.required_bytes, capacity.shape)[i]))
