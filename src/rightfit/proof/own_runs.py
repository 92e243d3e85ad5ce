"""Batch prediction with runs of one's own: figures moved by what the runs missed, and the runs named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.measure.evidence import Evidence, corrections, evidence_of, moved
from rightfit.measure.likeness import case_of
from rightfit.measure.record import metrics
from rightfit.proof.predict import predict
from rightfit.proof.tables import cell_text

if TYPE_CHECKING:
    from rightfit.measure.record import Run


def evidence(runs: Sequence[Run]) -> Evidence:
    """What these runs missed the prediction by."""
    return evidence_of(runs, lambda rows: predict(rows))


def predict_with_runs(rows: Sequence[Mapping[str, Any]], runs: Sequence[Run]) -> list[dict[str, Any]]:
    """As `predict`, with `source` (calibrated or measured, empty where the runs say nothing) and `runs` (their ids) in every answer."""
    return predict_with_evidence(rows, evidence(runs))


def predict_with_evidence(rows: Sequence[Mapping[str, Any]], known: Evidence) -> list[dict[str, Any]]:
    """As `predict_with_runs`, of runs whose evidence is known."""
    answers = predict(rows)
    cells = [{str(name): cell_text(value) for name, value in row.items() if name is not None} for row in rows]
    found = corrections(known, [case_of(row, answer["metric"]) for row, answer in zip(cells, answers, strict=True)])
    for answer, correction in zip(answers, found, strict=True):
        answer["source"], answer["runs"] = "", ""
        if correction is not None and answer["predicted"]:
            is_cost = metrics()[answer["metric"]].sense == "cost"
            figures = moved(correction, answer["predicted"], is_cost=is_cost)
            answer.update({name: float(f"{value:.6g}") for name, value in figures.items()})
            answer["source"], answer["runs"] = correction.source, " ".join(correction.runs)
    return answers
