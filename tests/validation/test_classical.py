"""The committed grid, folds, intervals and rates of classical machine learning belong together."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from types import ModuleType

import numpy as np
from loaded import load_module

from rightfit import facts
from rightfit.estimation.figures import PROBABILITIES
from rightfit.proof.left_out import predict_left_out

VALIDATION = Path(__file__).resolve().parents[2] / "validation"
GRID = VALIDATION / "measured_classical.csv"


def load(path: Path) -> ModuleType:
    return load_module(path)


def test_measured_numbers_are_positive_and_peaks_hold_what_was_there_before() -> None:
    rows = list(csv.DictReader(GRID.read_text(encoding="utf-8").splitlines()))
    assert len(rows) > 200
    for row in rows:
        assert float(row["wall_s"]) > 0
        assert float(row["peak_mib"]) >= 0.99 * float(row["before_mib"])
    assert not {row["hardware"] for row in rows if "Zen 5" not in row["hardware"]}


def test_rates_are_those_of_the_grid() -> None:
    rates = load(VALIDATION / "measure/preparation_rates.py")
    rows = list(csv.DictReader(GRID.read_text(encoding="utf-8").splitlines()))
    expected = [*rates.measured_lines(rows), *rates.image_rows(rows)]
    bundled = [row for row in facts.table("preparation_rates") if row["source"].startswith("measured")]
    assert bundled == expected


def test_every_source_has_a_fold_with_the_bundled_coefficients() -> None:
    folds = json.loads((VALIDATION / "folds/classical.json").read_text(encoding="utf-8"))
    with gzip.open(VALIDATION / "truth/classical_ml.csv.gz", "rt", encoding="utf-8") as stream:
        sources = {row["source"] for row in csv.DictReader(stream)}
    assert sources <= set(folds)
    names = set(facts.coefficient_entries("classical"))
    assert all(set(fold["classical"]) == names for fold in folds.values())


def test_left_out_errors_stay_what_the_page_says() -> None:
    folds = json.loads((VALIDATION / "folds/classical.json").read_text(encoding="utf-8"))
    with gzip.open(VALIDATION / "truth/classical_ml.csv.gz", "rt", encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["metric"] == "train_time_s" and not row["gpu"]]
    answers = predict_left_out(rows, folds)
    errors = np.abs(np.log([answer["predicted"] / float(row["measured"]) for row, answer in zip(rows, answers, strict=True)]))
    assert np.exp(np.median(errors)) < 1.7
    assert np.exp(np.percentile(errors, 90)) < 3.8


def test_intervals_widen_with_coverage() -> None:
    models: dict[str, dict[str, float]] = {}
    for row in facts.table("classical_intervals"):
        models.setdefault(row["group"], {})[row["name"]] = float(row["value"])
        assert "placeholder" not in row["source"]
    for model in models.values():
        ends = [model[f"{p:g}"] for p in PROBABILITIES]
        assert ends == sorted(ends)
        assert ends[1] < 0 < ends[2]
