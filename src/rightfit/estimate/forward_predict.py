"""Predictions for rows of the inference table whose model does not generate token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rightfit.estimate.forward import Coefficients, batch_s, coefficients
from rightfit.estimate.forward_cases import ForwardCases, forward_cases
from rightfit.estimate.forward_devices import SILICON
from rightfit.estimate.forward_words import DTYPES, ENGINES, SCENARIOS
from rightfit.physics.columns import Array
from rightfit.units import GIB


class ForwardPrediction(NamedTuple):
    """`value` in the metric's unit, or None with the reason in `error`.

    `regime` says what the width of an interval may depend on: `doubts` (number of assumptions), `kind` of the main stage, `modality`,
    `engine` class, and
    the `assumptions` as one text.
    """

    value: float | None
    error: str
    regime: Mapping[str, Any]


def metric_values(cases: ForwardCases, values: Coefficients | None = None) -> dict[str, Array]:
    """Every metric of every case, by name, in the unit of the table."""
    values = values or coefficients()
    case = cases.case
    seconds = batch_s(cases, values)
    own = case["audio"] > 0
    per_batch = np.where(own, 1.0, case["batch"])
    rate = per_batch * case["parallel"] / seconds
    latency = seconds * case["in_flight"]
    tokens = np.where(case["tokens_out"] > 0, case["tokens_out"], case["tokens_in"])
    return {
        "images_per_s": rate,
        "sequences_per_s": rate,
        "req_per_s": rate,
        "denoise_steps_per_s": 1.0 / seconds,
        "latency_ms": latency * 1e3,
        "total_tok_per_s": rate * np.maximum(tokens, 1.0),
        "output_tok_per_s_total": rate * np.maximum(case["tokens_out"], 1.0),
        "peak_mem_gib": peak_bytes(cases, values) / GIB,
    }


_STORED_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "amp": 4.0, "bf16": 2.0, "int8": 1.0, "fp8": 1.0}
_HELD_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "amp": 2.0, "bf16": 2.0, "int8": 2.0, "fp8": 2.0}


def peak_bytes(cases: ForwardCases, values: Coefficients) -> Array:
    """Memory of one device [bytes]: weights, the activations that live at a time, and what the runtime itself takes, where the counter sees it."""
    case = cases.case
    stored = np.array([_STORED_BYTES[name] for name in DTYPES])[case["dtype"].astype(np.intp)]
    held = np.array([_HELD_BYTES[name] for name in DTYPES])[case["dtype"].astype(np.intp)]
    per_layer = cases.stage["activations"] / np.maximum(cases.stage["layers"], 1.0) * cases.stage["items"]
    widest = np.zeros(len(cases.index))
    np.maximum.at(widest, cases.stage_row, per_layer)
    live: Array = case["batch"] * (widest * values["live_layers"] + case["state_elements"]) * held
    runtime = np.where(case["silicon"] == SILICON.index("cpu"), values["runtime_cpu_bytes"], values["runtime_bytes"])
    seen = np.where(case["tensors_only"] > 0, 0.0, runtime)
    return np.asarray(case["params"] * stored + live + seen, dtype=np.float64)


def regimes(cases: ForwardCases) -> list[str]:
    """Kind of the main stage and engine, as one word a row."""
    return [f"{work.stages[0].kind}/{ENGINES[int(engine)]}" for work, engine in zip(cases.works, cases.case.get("engine", []), strict=True)]


_USUAL_INPUT = {"vision": "image_size", "image": "image_size", "video": "image_size", "text": "input_tokens", "audio": "audio_s"}


def _taken(cases: ForwardCases, at: int) -> dict[str, str]:
    """What was taken for each column that a case may have left empty, by the name of the column."""
    case = {name: float(values[at]) for name, values in cases.case.items()}
    work = cases.works[at]
    found = {
        "batch_or_concurrency": f"{case['batch']:g}",
        "arrival": SCENARIOS[int(case["scenario"])],
        "engine": ENGINES[int(case["engine"])],
        "weights_dtype": DTYPES[int(case["dtype"])],
        "n_devices": f"{max(case['parallel'], case['shared']):g}",
    }
    if column := _USUAL_INPUT.get(work.modality):
        side = work.pixels**0.5
        found[column] = f"{side:.0f} pixels" if column == "image_size" and side else "the model's usual one"
    return found


def predict_forward(rows: Sequence[Mapping[str, str]]) -> list[ForwardPrediction]:
    """One answer a row, in order: a value or an honest reason.

    `rows` have the columns of the measured inference table as text. Rows of decoders should not come here (see `forward_cases.is_forward`).
    """
    cases = forward_cases(rows)
    answers = [ForwardPrediction(None, cases.refused.get(position, ""), {}) for position in range(len(rows))]
    if not len(cases.index):
        return answers
    with np.errstate(all="ignore"):
        figures = metric_values(cases)
    engines = [ENGINES[int(code)] for code in cases.case["engine"]]
    for at, position in enumerate(cases.index):
        value = float(figures[rows[int(position)]["metric"]][at])
        usable = np.isfinite(value) and value > 0
        error = "" if usable else "the estimate is not a finite positive number"
        taken = cases.assumptions[int(position)]
        work = cases.works[at]
        regime = {"doubts": len(taken), "kind": work.stages[0].kind, "modality": work.modality, "engine": engines[at]}
        regime["assumptions"] = "; ".join(taken)
        regime["taken"] = _taken(cases, at)
        answers[int(position)] = ForwardPrediction(value if usable else None, error, regime)
    return answers
