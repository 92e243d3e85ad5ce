"""The page of single kernels tells every operation, and every measured kernel has a prediction."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from loaded import load_module

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return load_module(ROOT / "benchmarks" / "bench_kernels.py")


def test_the_page_has_a_row_for_every_operation(bench: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench, "PAGE", tmp_path / "accuracy" / "kernels.md")
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench_kernels.py", "--write"])
    assert bench.main() == 0
    text = bench.PAGE.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert [operation.words for operation in bench.OPERATIONS.values() if f"| {operation.words} |" not in text] == []


def test_every_operation_is_measured_and_predicted(bench: ModuleType) -> None:
    rows = bench.read_rows()
    assert {row["operation"] for row in rows} == set(bench.OPERATIONS)
    for name, operation in bench.OPERATIONS.items():
        kernels = bench.kernels_of([row for row in rows if row["operation"] == name])
        predicted = operation.predict(kernels)
        assert np.all(np.isfinite(predicted)), name
        assert np.all(predicted > 0), name
