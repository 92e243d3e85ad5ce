"""Intervals of figures of classical machine learning and data preparation: quantiles of log(measured / predicted) on left-out sources.

For r = log(measured / predicted) the interval at coverage 1 - a is [mid exp(s Q(a/2)), mid exp(s Q(1 - a/2))]; s = 1 + w x (inputs that
were assumed).
facts/data/classical_intervals.csv holds Q and w by group; `validation/fit_classical.py --intervals` writes it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from rightfit import facts
from rightfit.estimate.figures import FigureColumns
from rightfit.physics.columns import Array

PROBABILITIES = (0.025, 0.1, 0.9, 0.975)
PARENT = "time"
_MOST_DOUBTS = 3.0


#: Libraries whose memory is a heap that somebody sized or a collector fills: they err by more.
HEAPS = frozenset({"h2o", "h2o_xgboost", "spark", "r", "xgboost_old", "dask"})


def interval_group(metric: str, *, gpu: bool, library: str = "") -> str:
    """Group of figures whose errors are alike: time on processors, on GPUs, of predictions; memory of native code, of collected heaps."""
    if metric == "peak_ram_gib":
        return "memory-heap" if library in HEAPS else "memory"
    if metric == "predict_time_s":
        return "predict"
    return "time-gpu" if gpu else "time"


@functools.cache
def _models() -> Mapping[str, Mapping[str, float]]:
    models: dict[str, dict[str, float]] = {}
    for row in facts.table("classical_intervals"):
        models.setdefault(row["group"], {})[row["name"]] = float(row["value"])
    return models


def group_interval(group: str, mid: Array, *, doubts: Array) -> FigureColumns:
    """Figures of one group with their 80 % and 95 % intervals. mid, doubts: (N,); groups without a line take PARENT's."""
    model = _models()[group if group in _models() else PARENT]
    scale = 1.0 + model["doubt"] * np.minimum(doubts, _MOST_DOUBTS)
    low95, low80, high80, high95 = (np.asarray(mid * np.exp(scale * model[f"{p:g}"])) for p in PROBABILITIES)
    return FigureColumns(np.asarray(mid, dtype=np.float64), low80, high80, low95, high95)


def classical_interval(metric: str, mid: Array, *, doubts: Array, gpu: bool, library: str = "") -> FigureColumns:
    """Figures of a metric of classical machine learning with their intervals."""
    return group_interval(interval_group(metric, gpu=gpu, library=library), mid, doubts=doubts)
