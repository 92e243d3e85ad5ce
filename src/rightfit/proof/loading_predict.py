"""Predictions for rows of the table of measured loaders: pictures a second, sizes of data sets, what an accelerator reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rightfit import facts
from rightfit.estimate.loading import Coefficients, Place, Work, case_columns, coefficients, rates
from rightfit.facts.word_tables import shape
from rightfit.physics.columns import Array
from rightfit.proof.cases.loading import LoadingRow, emulated, read_case
from rightfit.proof.cases.reader import Row

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
    """What an emulated accelerator, or all of them together, read or take; None where the row is not about one."""
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
    """What all accelerators take: in bytes of the row's unit, else of the unit in the metric's name, or in samples."""
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


def values_of(rows: Sequence[Row], values: Coefficients | None = None) -> tuple[Array, list[str], list[LoadingRow]]:
    """The metric of each row (NaN where it cannot be told), the group whose errors its interval is made of, and the cases."""
    read = [read_case(row) for row in rows]
    with np.errstate(all="ignore"):
        rate = rates(case_columns([told.case for told in read]), values or coefficients()) if read else np.zeros(0)
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
    """Quantiles of log(measured / predicted) by group, from left-out sources (validation/fit_loading.py --intervals)."""
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
