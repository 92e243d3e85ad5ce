"""Batch prediction of inference rows: language models here, everything that is one forward pass in forward_predict."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit.errors import RightfitError
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics.columns import Array

if TYPE_CHECKING:
    from rightfit.estimate.figures import FigureColumns
    from rightfit.estimate.serving_cases import ServingCases

MEMORY_METRIC = "peak_mem_gib"
#: Metrics that only generation of text has.
TOKEN_METRICS = (
    "decode_tok_per_s_single",
    "tpot_ms",
    "ttft_ms",
    "prefill_tok_per_s",
    "output_tok_per_s_total",
    "total_tok_per_s",
)
#: Metrics that one forward pass has too.
SHARED_METRICS = ("latency_ms", "req_per_s", MEMORY_METRIC)
FORWARD_METRICS = ("images_per_s", "sequences_per_s", "denoise_steps_per_s")
INFERENCE_METRICS = (*TOKEN_METRICS, *SHARED_METRICS, *FORWARD_METRICS)

_GENERATING = ("decoder", "moe-decoder", "vlm")
_GIB = 2.0**30
_FIGURES = ("predicted", "low80", "high80", "low95", "high95")


def is_generation(row: Mapping[str, str]) -> bool:
    """Whether the row is about a language model that generates text: by its metric and its model's record."""
    metric = row.get("metric", "")
    if metric in FORWARD_METRICS:
        return False
    record, assumption = _record(row)
    if record is None or "usual shape" in assumption:
        # A name that nobody knows: only the metric can tell.
        return metric in TOKEN_METRICS
    if not isinstance(record, TransformerArchitecture):
        return False
    if metric == "latency_ms" and not row.get("output_tokens") and record.kind == "vlm":
        return False
    return record.kind in _GENERATING or (record.kind == "encoder-decoder" and metric in TOKEN_METRICS[:3])


def _record(row: Mapping[str, str]) -> tuple[object | None, str]:
    from rightfit.estimate.serving_cases import architecture

    try:
        return architecture(row.get("model", "").strip(), _positive(row.get("params_b", "")))
    except RightfitError:
        return None, ""


def _positive(text: str) -> float:
    try:
        return max(float(text), 0.0)
    except ValueError:
        return 0.0


def predict_inference(rows: list[dict[str, str]], answers: list[dict[str, Any]]) -> None:
    """Fill the answers of inference rows, each by the part that knows its kind of model."""
    generation = [is_generation(row) for row in rows]
    for chosen, work in ((True, _predict_generation), (False, _predict_forward)):
        index = [i for i, flag in enumerate(generation) if flag is chosen]
        if index:
            work([rows[i] for i in index], [answers[i] for i in index])


def _predict_forward(rows: list[dict[str, str]], answers: list[dict[str, Any]]) -> None:
    """Encoders, vision, diffusion, speech: estimate/forward_predict.py."""
    if importlib.util.find_spec("rightfit.estimate.forward_predict") is None:
        for answer in answers:
            answer["error"] = "this kind of model is not predicted yet"
        return
    from rightfit.estimate.serving_intervals import serving_interval

    predict_forward: Callable[[Sequence[Mapping[str, str]]], list[tuple[float | None, str, Mapping[str, Any]]]]
    predict_forward = importlib.import_module("rightfit.estimate.forward_predict").predict_forward
    for row, answer, (value, error, regime) in zip(rows, answers, predict_forward(rows), strict=True):
        answer["error"] = error
        if value is not None and np.isfinite(value) and value > 0:
            doubts = np.array([float(regime["doubts"])])
            figures = serving_interval(row.get("metric", ""), np.array([value]), doubts=doubts, modality=regime["modality"])
            _write(answer, figures, 0)


def _predict_generation(rows: list[dict[str, str]], answers: list[dict[str, Any]]) -> None:
    """Language models: one evaluation of the physics for all rows, then each row in the metric that it asks for."""
    from rightfit.estimate.serving_cases import serving_cases

    cases = serving_cases(rows)
    for index, reason in cases.refused.items():
        answers[index]["error"] = reason
    if not len(cases.index):
        return
    values, terms = generation_values(cases)
    metrics = np.array([answers[int(i)]["metric"] for i in cases.index])
    for metric in np.unique(metrics):
        here = np.flatnonzero(metrics == metric)
        if str(metric) not in values:
            _refuse(answers, cases, here, f"metric {str(metric)[:60]!r} is not predicted; the metrics are {', '.join(INFERENCE_METRICS)}")
            continue
        shares = terms["memory" if metric == MEMORY_METRIC else "time"]
        _answer(answers, cases, here, str(metric), values[str(metric)][here], {name: share[here] for name, share in shares.items()})


def generation_values(cases: ServingCases) -> tuple[dict[str, Array], dict[str, dict[str, Array]]]:
    """Every metric of every case, and the shares of its terms: of a decode step ("time") and of memory ("memory")."""
    from rightfit.estimate.serving import metric_values, peak_memory_bytes, serving_columns

    shape = cases.index.shape
    times = serving_columns(cases.model, cases.serve, cases.device, cases.links)
    memory = {name: np.broadcast_to(term, shape) for name, term in peak_memory_bytes(cases.model, cases.serve, cases.device).items()}
    total = np.sum(list(memory.values()), axis=0)
    values = {name: np.broadcast_to(value, shape) for name, value in metric_values(cases.serve, times).items()}
    values[MEMORY_METRIC] = total / _GIB
    return values, {
        "time": {name: term / times.step_s for name, term in times.decode_terms.items()},
        "memory": {name: term / total for name, term in memory.items()},
    }


def _refuse(answers: list[dict[str, Any]], cases: ServingCases, index: NDArray[np.intp], reason: str) -> None:
    for i in index:
        answers[int(cases.index[i])]["error"] = reason


def case_doubts(cases: ServingCases) -> Array:
    """How many inputs of each case were assumed; those that hardly matter are not counted."""
    return np.array([float(sum(not text.startswith("device '") for text in texts)) for texts in cases.assumptions])


def _answer(
    answers: list[dict[str, Any]], cases: ServingCases, index: NDArray[np.intp], metric: str, mid: Array, shares: Mapping[str, Array]
) -> None:
    """Write figures, assumptions and term shares of these cases."""
    from rightfit.estimate.serving_intervals import serving_interval

    figures = serving_interval(metric, mid, doubts=case_doubts(cases)[index])
    usable = np.isfinite(mid) & (mid > 0)
    for position, i in enumerate(index):
        answer = answers[int(cases.index[i])]
        answer["assumptions"] += cases.assumptions[int(i)]
        if not usable[position]:
            answer["error"] = answer["error"] or "the estimate is not a finite positive number: the row's values make no sense together"
            continue
        _write(answer, figures, position)
        answer["terms"] = {name: float(value[position]) for name, value in shares.items()}


def _write(answer: dict[str, Any], figures: FigureColumns, position: int) -> None:
    columns = (figures.mid, figures.low80, figures.high80, figures.low95, figures.high95)
    answer.update({name: float(f"{column[position]:.6g}") for name, column in zip(_FIGURES, columns, strict=True)})
