"""Intervals of serving figures: conformal, by metric, from the errors on sources that the estimate was not fitted on.

For r = log(measured / predicted) the interval at coverage 1 - a is [mid exp(s Q(a/2)), mid exp(s Q(1 - a/2))]; Q are quantiles of r / s
over
sources that were left out, s = 1 + w x (inputs that were assumed). facts/data/serving_intervals.csv holds Q and w by group of
metrics; `validation/fit_serving.py --intervals` writes those of language models, `validation/fit_forward.py --intervals` those of one
forward pass, by kind of model. Known error: coverage holds on average over sources like those measured.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from rightfit import facts
from rightfit.estimate.figures import FigureColumns
from rightfit.physics.columns import Array

PROBABILITIES = (0.025, 0.1, 0.9, 0.975)
#: Group of metrics whose errors are alike.
GROUPS = {
    "decode_tok_per_s_single": "decode",
    "tpot_ms": "tpot",
    "ttft_ms": "ttft",
    "prefill_tok_per_s": "prefill",
    "output_tok_per_s_total": "throughput",
    "total_tok_per_s": "throughput",
    "req_per_s": "throughput",
    "latency_ms": "latency",
    "peak_mem_gib": "memory",
    "images_per_s": "forward",
    "sequences_per_s": "forward",
    "denoise_steps_per_s": "forward",
}
#: Group of models of one forward pass by the modality of their work; those without a line in the table take PARENT.
PARENT = "forward"
KINDS = {
    "vision": "forward-vision",
    "text": "forward-encoder",
    "image": "forward-diffusion",
    "video": "forward-diffusion",
    "audio": "forward-speech",
}
MEMORY_KIND = "forward-memory"


@functools.cache
def _models() -> Mapping[str, Mapping[str, float]]:
    models: dict[str, dict[str, float]] = {}
    for row in facts.table("serving_intervals"):
        models.setdefault(row["group"], {})[row["name"]] = float(row["value"])
    return models


def interval_group(metric: str, *, modality: str = "") -> str:
    """The group of a metric; `modality` is that of a model of one forward pass, empty where text is generated."""
    group = GROUPS.get(metric, "latency")
    if not modality:
        return group
    return MEMORY_KIND if group == "memory" else KINDS.get(modality, PARENT)


def serving_interval(metric: str, mid: Array, *, doubts: Array, modality: str = "") -> FigureColumns:
    """Figures with their 80 % and 95 % intervals. mid, doubts: (N,); `doubts` counts the inputs that were assumed.

    Kinds with too few measured rows for quantiles of their own have no line in the table and take those of all forward passes.
    """
    group = interval_group(metric, modality=modality)
    model = _models()[group if group in _models() else PARENT]
    scale = 1.0 + model["doubt"] * np.minimum(doubts, 3.0)
    low95, low80, high80, high95 = (np.asarray(mid * np.exp(scale * model[f"{p:g}"])) for p in PROBABILITIES)
    return FigureColumns(np.asarray(mid, dtype=np.float64), low80, high80, low95, high95)
