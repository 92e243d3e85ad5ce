"""What an estimate says: figures with intervals and the terms that they are made of."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.physics.columns import Array
from rightfit.records import dataclass

#: Normal scores of the ends of the intervals and of the middle: low95, low80, mid, high80, high95.
SCORES = (-1.959964, -1.281552, 0.0, 1.281552, 1.959964)
_FARTHEST = 8.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One predicted number in base units with an 80 % and a 95 % interval. `source`: formula,
    calibrated, measured or published."""

    mid: float
    low80: float
    high80: float
    low95: float
    high95: float
    source: str = "calibrated"

    def to_dict(self) -> dict[str, Any]:
        """As in the plan's JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class FigureColumns:
    """The same for N rows: five arrays of one shape."""

    mid: Array
    low80: Array
    high80: Array
    low95: Array
    high95: Array
    source: str = "calibrated"

    def row(self, index: int) -> Figure:
        """Row `index` as a Figure."""
        bounds = (self.mid, self.low80, self.high80, self.low95, self.high95)
        mid, low80, high80, low95, high95 = (float(column[index]) for column in bounds)
        return Figure(mid=mid, low80=low80, high80=high80, low95=low95, high95=high95, source=self.source)

    def take(self, index: NDArray[np.intp]) -> FigureColumns:
        """Rows `index`."""
        return FigureColumns(
            mid=self.mid[index],
            low80=self.low80[index],
            high80=self.high80[index],
            low95=self.low95[index],
            high95=self.high95[index],
            source=self.source,
        )

    def widened(self, deviation: float) -> FigureColumns:
        """The same with a further doubt: `deviation` of the logarithm [1], independent of the one
        that is told already."""
        ends = {}
        for name, score in zip(("low95", "low80", "mid", "high80", "high95"), SCORES, strict=True):
            width = np.log(np.divide(getattr(self, name), self.mid, out=np.ones_like(self.mid), where=self.mid > 0))
            ends[name] = self.mid * np.exp(np.sign(score) * np.sqrt(width**2 + (score * deviation) ** 2))
        return dataclasses.replace(self, **ends, source="extrapolated")


def exact(values: Array) -> FigureColumns:
    """Figures that follow by formula alone."""
    return FigureColumns(values, values, values, values, values, source="formula")


def normal_score(probability: float) -> float:
    """Quantile of the standard normal law (rational approximation 26.2.23 of Abramowitz and Stegun,
    error below 4.5e-4)."""
    if probability == 0.5:
        return 0.0
    tail = min(probability, 1.0 - probability)
    t = math.sqrt(-2.0 * math.log(max(tail, 1e-12)))
    value = t - (2.515517 + 0.802853 * t + 0.010328 * t * t) / (1.0 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t**3)
    return value if probability >= 0.5 else -value


def probability_within(figures: FigureColumns, limit: Array) -> Array:
    """Probability that each figure is at most `limit`, from its intervals: between their ends by
    the normal law of the logarithm."""
    rows = range(figures.mid.shape[0])
    return np.array([probability_of(figures.row(row), float(limit[row])) for row in rows])


def probability_of(figure: Figure, limit: float) -> float:
    """Probability that one figure is at most `limit`; a figure without an interval holds
    wholly or not at all."""
    if not (figure.mid > 0 and limit > 0):
        return float(figure.mid <= limit)
    if figure.low95 == figure.high95:
        return float(figure.mid <= limit)
    ends = np.array([figure.low95, figure.low80, figure.mid, figure.high80, figure.high95])
    logs = np.log(np.maximum.accumulate(np.maximum(ends, 1e-300) * (1.0 + 1e-9 * np.arange(5))))
    return 0.5 * (1.0 + math.erf(_score_at(logs, math.log(limit)) / math.sqrt(2.0)))


def _score_at(logs: Array, target: float) -> float:
    """Normal score of a value among the logarithms of the five ends; beyond them as steep as
    between the last two."""
    if target > logs[-1]:
        return float(min(SCORES[-1] + (target - logs[-1]) * (SCORES[-1] - SCORES[-2]) / (logs[-1] - logs[-2]), _FARTHEST))
    if target < logs[0]:
        return float(max(SCORES[0] - (logs[0] - target) * (SCORES[1] - SCORES[0]) / (logs[1] - logs[0]), -_FARTHEST))
    return float(np.interp(target, logs, np.array(SCORES)))


def value_at(figure: Figure, probability: float) -> float:
    """The value that a figure stays under with this probability: straight in the logarithm
    over the normal score."""
    ends = (figure.low95, figure.low80, figure.mid, figure.high80, figure.high95)
    if min(ends) <= 0 or not all(map(math.isfinite, ends)):
        return figure.mid
    logs, score = np.log(np.array(ends)), normal_score(probability)
    if abs(score) <= SCORES[-1]:
        return float(np.exp(np.interp(score, SCORES, logs)))
    at, beside = (-1, -2) if score > 0 else (0, 1)
    return float(np.exp(logs[at] + (score - SCORES[at]) * (logs[at] - logs[beside]) / (SCORES[at] - SCORES[beside])))


# ---- Intervals of figures of classical machine learning and data preparation: quantiles of
# log(measured / predicted) on left-out sources.
#
# For r = log(measured / predicted) the interval at coverage 1 - a is [mid exp(s Q(a/2)), mid exp(s
# Q(1 - a/2))]; s = 1 + w x (inputs that were assumed). facts/data/classical_intervals.csv holds Q
# and w by group; `validation/fit_classical.py --intervals` writes it.

PROBABILITIES = (0.025, 0.1, 0.9, 0.975)
CLASSICAL_PARENT = "time"
_MOST_DOUBTS = 3.0


#: Libraries whose memory is a heap that somebody sized or a collector fills: they err by more.
HEAPS = frozenset({"h2o", "h2o_xgboost", "spark", "r", "xgboost_old", "dask"})


def classical_interval_group(metric: str, *, gpu: bool, library: str = "") -> str:
    """Group of figures whose errors are alike: time on processors, on GPUs, of predictions; memory
    of native code, of collected heaps."""
    if metric == "peak_ram_gib":
        return "memory-heap" if library in HEAPS else "memory"
    if metric == "predict_time_s":
        return "predict"
    return "time-gpu" if gpu else "time"


@functools.cache
def _classical_models() -> Mapping[str, Mapping[str, float]]:
    models: dict[str, dict[str, float]] = {}
    for row in facts.table("classical_intervals"):
        models.setdefault(row["group"], {})[row["name"]] = float(row["value"])
    return models


def group_interval(group: str, mid: Array, *, doubts: Array) -> FigureColumns:
    """Figures of one group with their 80 % and 95 % intervals. mid, doubts: (N,); groups without a
    line take PARENT's."""
    model = _classical_models()[group if group in _classical_models() else CLASSICAL_PARENT]
    scale = 1.0 + model["doubt"] * np.minimum(doubts, _MOST_DOUBTS)
    low95, low80, high80, high95 = (np.asarray(mid * np.exp(scale * model[f"{p:g}"])) for p in PROBABILITIES)
    return FigureColumns(np.asarray(mid, dtype=np.float64), low80, high80, low95, high95)


def classical_interval(metric: str, mid: Array, *, doubts: Array, gpu: bool, library: str = "") -> FigureColumns:
    """Figures of a metric of classical machine learning with their intervals."""
    return group_interval(classical_interval_group(metric, gpu=gpu, library=library), mid, doubts=doubts)


# ---- Intervals of serving figures: conformal, by metric, from the errors on sources that the
# estimate was not fitted on.
#
# For r = log(measured / predicted) the interval at coverage 1 - a is [mid exp(s Q(a/2)), mid exp(s
# Q(1 - a/2))]; Q are quantiles of r / s over sources that were left out, s = 1 + w x (inputs that
# were assumed). facts/data/serving_intervals.csv holds Q and w by group of metrics;
# `validation/fit_serving.py --intervals` writes those of language models,
# `validation/fit_forward.py --intervals` those of one forward pass, by kind of model. Known error:
# coverage holds on average over sources like those measured.

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
#: Group of models of one forward pass by the modality of their work; those without a line in the
#: table take PARENT.
SERVING_PARENT = "forward"
KINDS = {
    "vision": "forward-vision",
    "text": "forward-encoder",
    "image": "forward-diffusion",
    "video": "forward-diffusion",
    "audio": "forward-speech",
}
MEMORY_KIND = "forward-memory"


@functools.cache
def _serving_models() -> Mapping[str, Mapping[str, float]]:
    models: dict[str, dict[str, float]] = {}
    for row in facts.table("serving_intervals"):
        models.setdefault(row["group"], {})[row["name"]] = float(row["value"])
    return models


def serving_interval_group(metric: str, *, modality: str = "") -> str:
    """The group of a metric; `modality` is that of a model of one forward pass, empty where
    text is generated."""
    group = GROUPS.get(metric, "latency")
    if not modality:
        return group
    return MEMORY_KIND if group == "memory" else KINDS.get(modality, SERVING_PARENT)


def serving_interval(metric: str, mid: Array, *, doubts: Array, modality: str = "") -> FigureColumns:
    """Figures with their 80 % and 95 % intervals. mid, doubts: (N,); `doubts` counts the inputs
    that were assumed.

    Kinds with too few measured rows for quantiles of their own have no line in the table and take
    those of all forward passes.
    """
    group = serving_interval_group(metric, modality=modality)
    model = _serving_models()[group if group in _serving_models() else SERVING_PARENT]
    scale = 1.0 + model["doubt"] * np.minimum(doubts, 3.0)
    low95, low80, high80, high95 = (np.asarray(mid * np.exp(scale * model[f"{p:g}"])) for p in PROBABILITIES)
    return FigureColumns(np.asarray(mid, dtype=np.float64), low80, high80, low95, high95)
