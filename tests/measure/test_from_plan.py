"""A figure that somebody measured of a planned option becomes evidence: its record predicts, and
later plans read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rightfit
from rightfit.explain.voices import plan_document
from rightfit.measure.ingest import ingest
from rightfit.measure.own_runs import run_of_measurement
from rightfit.measure.record import Run, document
from rightfit.proof.predict import evidence


@pytest.fixture(scope="module")
def planned() -> dict[str, Any]:
    return plan_document(rightfit.plan("meta-llama/Meta-Llama-3-8B", method="lora", data="50Mtok", gpu="A100", top=2), "en")


def measured_of(planned: dict[str, Any], name: str, factor: float) -> Run:
    option = planned["options"][0]
    run = run_of_measurement(planned, option=1, name=name, value=option["estimate"][name]["mid"] * factor)
    assert run is not None
    return run


@pytest.mark.parametrize("name", ["step_s", "samples_per_s", "tokens_per_s", "peak_memory_bytes"])
def test_a_figure_measured_as_planned_misses_the_prediction_by_little(planned: dict[str, Any], name: str) -> None:
    found = evidence([measured_of(planned, name, 1.0)])
    assert found.unused == ()
    assert abs(found.rows[0].residual) < 0.12  # the plan and the row predict one case; what the row leaves open is usual


def test_a_slow_step_is_evidence_of_a_slow_stack(planned: dict[str, Any]) -> None:
    assert evidence([measured_of(planned, "step_s", 1.5)]).rows[0].residual == pytest.approx(0.405, abs=0.13)


def test_the_list_of_a_server_is_read_as_records(planned: dict[str, Any], tmp_path: Path) -> None:
    run = measured_of(planned, "step_s", 1.2)
    path = tmp_path / "runs.json"
    path.write_text(json.dumps({"total": 1, "items": [document(run)]}))
    assert ingest(path) == [run]
    assert rightfit.plan("meta-llama/Meta-Llama-3-8B", method="lora", data="50Mtok", gpu="A100", top=1, runs=path).best.facts["own_runs"]  # type: ignore[union-attr]


def test_what_is_no_figure_of_a_run_makes_no_record(planned: dict[str, Any]) -> None:
    assert run_of_measurement(planned, option=1, name="disk_bytes", value=1.0) is None
    assert run_of_measurement(planned, option=99, name="step_s", value=1.0) is None
