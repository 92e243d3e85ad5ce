"""Refit the intervals from leave-one-source-out errors and write facts/data/intervals.csv.

    python validation/fit_intervals.py [--truth DIR] [--check]

Deterministic: the same tables, folds and code give the same file. Prints the coverage of every
source under intervals that were fitted without it. `--check` writes nothing and fails when the file
is not current.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from interval_fit import Residuals, fit_model, nested_models
from rightfit import facts
from rightfit.estimation.intervals import METRIC_FAMILY, PROBABILITIES, IntervalModel, RegimeColumns, interval_columns
from rightfit.facts.devices import architecture_names
from rightfit.proof.cases.training import training_cases
from rightfit.proof.left_out import predict_left_out, read_folds, substituted
from rightfit.proof.predict import case_regimes, predict
from rightfit.proof.score import number
from rightfit.proof.tables import clean_row, read_truth

VALIDATION = Path(__file__).resolve().parent
TARGET = VALIDATION.parent / "src" / "rightfit" / "facts" / "data" / "intervals.csv"


#: Cells erased from a copy of every row, to learn how much wider an interval must be without them.
ERASURES: tuple[tuple[str, ...], ...] = (
    ("framework",),
    ("optimizer", "attention"),
    ("recompute",),
    ("framework", "optimizer", "attention", "recompute", "extra_flags", "weights_dtype", "mem_kind"),
    ("micro_batch", "global_batch", "grad_accum"),
    ("seq_len",),
    ("method", "lora_rank", "lora_targets", "weights_dtype"),
    ("model", "n_layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab"),
    ("gpu", "gpu_mem_gib"),
)


def usable_rows(folder: Path | None) -> list[dict[str, str]]:
    """Training rows that count."""
    truth = read_truth(folder).select(["train_memory", "train_throughput"])
    return [clean_row(row)[0] for row, reason in zip(truth.rows, truth.excluded, strict=True) if not reason]


def without_accelerator_families() -> dict[str, dict[str, float]]:
    """Coefficients as if no accelerator family had been calibrated: each takes the value
    of the unknown one."""
    values = facts.coefficients("compute")
    defaults = {field: values[f"{field}.default"] for field in {key.partition(".")[0] for key in values} if f"{field}.default" in values}
    names = set(architecture_names())
    return {
        "compute": {
            key: defaults[key.partition(".")[0]] for key in values if key.partition(".")[2] in names and key.partition(".")[0] in defaults
        }
    }


def residuals_of(rows: list[dict[str, str]], answers: list[dict[str, Any]], *, erased: bool, **extra: float) -> dict[str, Residuals]:
    """Log errors by family of these predictions."""
    cases = training_cases(rows)
    at = {int(row): i for i, row in enumerate(cases.index)}
    regime = case_regimes(cases, rows, np.arange(len(cases.index))).replace(**extra)
    result = {}
    for family in ("memory", "time"):
        kept, errors = [], []
        for i, (row, answer) in enumerate(zip(rows, answers, strict=True)):
            mine, sign = METRIC_FAMILY.get(row["metric"], ("", 1.0))
            ratio = number(row.get("measured")) / number(answer["predicted"])
            if mine == family and ratio > 0:
                kept.append(i)
                errors.append(sign * np.log(ratio))
        everything = Residuals(family, np.zeros(len(cases.index)), regime, np.array([""] * len(cases.index), dtype=object))
        part = everything.take(np.array([at[i] for i in kept], dtype=np.intp))
        sources = np.array([rows[i]["source"] for i in kept], dtype=object)
        result[family] = dataclasses.replace(part, log_error=np.array(errors), source=sources, erased=np.full(len(kept), erased))
    return result


def left_out_residuals(folder: Path | None) -> dict[str, Residuals]:
    """Log errors by family, from predictions that did not see the source; then of copies with cells
    erased, and of uncalibrated cards."""
    rows, folds = usable_rows(folder), read_folds(VALIDATION / "folds")
    parts = [residuals_of(rows, predict_left_out(rows, folds), erased=False)]
    for cells in ERASURES:
        copies = [{**row, **dict.fromkeys(cells, "")} for row in rows]
        parts.append(residuals_of(copies, predict_left_out(copies, folds), erased=True))
    with substituted(without_accelerator_families()):
        parts.append(residuals_of(rows, predict(rows), erased=True, device_uncalibrated=1.0))
    return {family: _joined([part[family] for part in parts]) for family in ("memory", "time")}


def _joined(parts: list[Residuals]) -> Residuals:
    regime = RegimeColumns.stack([part.regime for part in parts])
    joined = [np.concatenate([getattr(part, name) for part in parts]) for name in ("log_error", "source", "erased")]
    return Residuals(parts[0].family, joined[0], regime, joined[1], joined[2])


def coverage(data: Residuals, held: np.ndarray, model: IntervalModel) -> tuple[float, float, float]:
    """(share inside 80 %, inside 95 %, median width of 80 %) of these rows."""
    part = data.take(held)
    metric = "peak_memory_bytes" if data.family == "memory" else "step_s"
    figures = interval_columns(metric, np.ones(len(held)), part.regime, models={data.family: model})
    ratio = np.exp(part.log_error)
    inside80 = np.mean((ratio >= figures.low80) & (ratio <= figures.high80))
    inside95 = np.mean((ratio >= figures.low95) & (ratio <= figures.high95))
    return float(inside80), float(inside95), float(np.median(figures.high80 - figures.low80))


def nested_report(data: Residuals) -> str:
    """Coverage by source, each under intervals fitted without it, and over all rows and sources."""
    lines, rows, weights = [], [], []
    for held, model in nested_models(data):
        values = coverage(data, held, model)
        rows.append(values)
        weights.append(len(held))
        lines.append(
            f"  {data.source[held[0]]:32s} {len(held):5d} rows  80 %: {values[0]:6.1%}  95 %: {values[1]:6.1%}  width {values[2]:6.1%}"
        )
    table = np.array(rows)
    by_row, by_source = np.average(table, axis=0, weights=weights), table.mean(axis=0)
    for name, values in (("all rows", by_row), ("mean over sources", by_source)):
        lines.append(f"  {name:32s} {sum(weights):5d} rows  80 %: {values[0]:6.1%}  95 %: {values[1]:6.1%}  width {values[2]:6.1%}")
    return f"{data.family}, nested leave-one-source-out\n" + "\n".join(lines)


def architectures(data: Residuals) -> list[str]:
    """Accelerator families with errors to learn from."""
    names = architecture_names()
    seen = np.broadcast_to(data.regime.architecture, data.log_error.shape)[data.original]
    return sorted({names[int(code)] for code in seen})


def file_rows(data: Residuals) -> list[dict[str, str]]:
    """Rows of intervals.csv of one family."""
    model = fit_model(data)
    source = (
        f"validation/fit_intervals.py: {int(data.original.sum())} rows of {len(set(data.source.tolist()))} sources, each source left out"
    )
    common = {"family": data.family, "probability": "", "value": ""}
    rows = [{**common, "part": "scale", "name": name, "value": f"{value:g}", "source": source} for name, value in model.scale.items()]
    for name, values in model.quantiles.items():
        for probability, value in zip(PROBABILITIES, values, strict=True):
            rows.append(
                {**common, "part": "quantile", "name": name, "probability": f"{probability:g}", "value": f"{value:g}", "source": source}
            )
    rows += [{**common, "part": "architecture", "name": name, "source": source} for name in architectures(data)]
    return rows


def render(residuals: dict[str, Residuals]) -> str:
    """The text of intervals.csv."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, ("family", "part", "name", "probability", "value", "source"), lineterminator="\n")
    writer.writeheader()
    for data in residuals.values():
        if len(data.log_error):
            writer.writerows(file_rows(data))
    return buffer.getvalue()


def main(argv: list[str] | None = None) -> int:
    """Refit, report, write or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truth", type=Path, default=VALIDATION / "truth")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(argv)
    residuals = left_out_residuals(options.truth)
    text = render(residuals)
    if options.check:
        current = TARGET.read_text(encoding="utf-8") == text
        print(
            "intervals.csv is current" if current else "intervals.csv is not current: run python validation/fit_intervals.py",
            file=sys.stderr,
        )
        return 0 if current else 1
    for data in residuals.values():
        if len(data.log_error):
            print(nested_report(data))
    TARGET.write_text(text, encoding="utf-8")
    assert facts.table("intervals")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
