"""Predictions for rows of the inference table whose model does not generate token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rightfit.estimate.forward import metric_values
from rightfit.estimate.forward_cases import DTYPES, ENGINES, SCENARIOS, CaseColumns
from rightfit.proof.cases.forward import forward_rows
from rightfit.proof.cases.reader import Row


class ForwardPrediction(NamedTuple):
    """`value` in the metric's unit, or None with the reason in `error`.

    `regime` says what the width of an interval may depend on: `doubts` (number of assumptions), `kind` of the main stage, `modality`,
    `engine` class, and the `assumptions`; and what was `taken` for empty cells.
    """

    value: float | None
    error: str
    regime: Mapping[str, Any]


def regimes(cases: CaseColumns) -> list[str]:
    """Kind of the main stage and engine, as one word a case."""
    return [f"{work.stages[0].kind}/{ENGINES[int(engine)]}" for work, engine in zip(cases.works, cases.case["engine"], strict=True)]


_USUAL_INPUT = {"vision": "image_size", "image": "image_size", "video": "image_size", "text": "input_tokens", "audio": "audio_s"}


def _taken(cases: CaseColumns, at: int) -> dict[str, str]:
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

    `rows` have the columns of the measured inference table as text. Rows of decoders should not come here (see `cases.forward.is_forward`).
    """
    read = forward_rows(rows)
    answers = [ForwardPrediction(None, read.refused.get(position, ""), {}) for position in range(len(rows))]
    if not read.cases:
        return answers
    cases = read.columns
    with np.errstate(all="ignore"):
        figures = metric_values(cases)
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
            "taken": _taken(cases, at),
        }
        error = "" if usable else "the estimate is not a finite positive number"
        answers[position] = ForwardPrediction(value if usable else None, error, regime)
    return answers
