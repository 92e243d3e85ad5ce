"""Intervals around an estimate: conformal, by regime, from the errors on sources that the estimate was not fitted on.

For the log error r = log(measured / predicted) of a case with regime x, the scale is sigma(x) = exp(b0 + sum b_f x_f) and z = r / sigma(x)
has quantiles Q by group. An interval at coverage 1 - a is [mid exp(sigma Q(a/2)), mid exp(sigma Q(1 - a/2))].

The factors b and the quantiles are in facts/data/intervals.csv, written by `validation/fit_intervals.py` from leave-one-source-out
errors, shrunk towards the parent group where rows are few. Where nothing was calibrated (an accelerator, a kind of method) the
factor is wider than one and `source` says "extrapolated".

Reference: Vovk et al., Algorithmic Learning in a Random World (2005), chapter 4; Lei et al., Distribution-Free Predictive Inference for
Regression, JASA 113 (2018), section 5.2 (locally weighted conformal). Known error: coverage holds on average over sources like those
measured; a stack unlike all of them can miss more often (docs/accuracy.md has the coverage by source).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimate.figures import FigureColumns
from rightfit.estimate.regimes import RegimeColumns
from rightfit.facts.devices import architecture_names
from rightfit.physics.columns import Array
from rightfit.records import dataclass

MEMORY, TIME = "memory", "time"

#: Probabilities at which the quantiles of z are stored.
PROBABILITIES = (0.005, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.995)

#: Metrics and what they are made of: "time" figures are the inverse of a rate, so their errors change sign.
METRIC_FAMILY = {
    "peak_mem_gib_per_gpu": (MEMORY, 1.0),
    "peak_memory_bytes": (MEMORY, 1.0),
    "host_memory_bytes": (MEMORY, 1.0),
    "tokens_per_s_per_gpu": (TIME, -1.0),
    "tokens_per_s": (TIME, -1.0),
    "samples_per_s": (TIME, -1.0),
    "tflops_per_gpu": (TIME, -1.0),
    "mfu": (TIME, -1.0),
    "step_time_s": (TIME, 1.0),
    "step_s": (TIME, 1.0),
    "time_to_train_h": (TIME, 1.0),
    "total_time_s": (TIME, 1.0),
    "cost_usd": (TIME, 1.0),
}


@dataclass(frozen=True, slots=True)
class IntervalModel:
    """The fitted interval of one family: `scale` by feature ('base' is b0), `quantiles` of z by group at PROBABILITIES.

    `architectures` are the names (as in facts/data/architectures.csv) of accelerator families that the errors were seen on.
    """

    family: str
    scale: Mapping[str, float]
    quantiles: Mapping[str, tuple[float, ...]]
    architectures: tuple[str, ...] = ()

    def sigma(self, regime: RegimeColumns) -> Array:
        """Scale of the log error, one a row."""
        log_scale = np.full(1, self.scale["base"])
        for name, factor in self.scale.items():
            if name != "base" and factor:
                log_scale = log_scale + factor * (self.uncalibrated(regime) if name == "device_uncalibrated" else getattr(regime, name))
        scale: Array = np.exp(log_scale)
        return scale

    def uncalibrated(self, regime: RegimeColumns) -> Array:
        """1 where the accelerator is of a family that no error was seen on."""
        if not self.architectures:
            return regime.device_uncalibrated
        is_seen = np.zeros(np.shape(regime.architecture), dtype=np.bool_)
        for name in self.architectures:
            is_seen |= regime.architecture == architecture_names().index(name)
        return np.maximum(regime.device_uncalibrated, np.where(is_seen, 0.0, 1.0))

    def table(self) -> Array:
        """Quantiles as an array (group, probability), groups in the order of `GROUPS`."""
        groups = GROUPS[self.family]
        return np.array([self.quantiles.get(group, self.quantiles["all"]) for group in groups])


#: Groups whose errors have a shape of their own, by family.
GROUPS: Mapping[str, tuple[str, ...]] = {MEMORY: ("full", "adapter"), TIME: ("one-node", "many-nodes")}


def group_codes(family: str, regime: RegimeColumns) -> NDArray[np.intp]:
    """The index into `GROUPS[family]`, one a row."""
    if family == MEMORY:
        return ((regime.adapter + regime.quantized + regime.rare_method) > 0).astype(np.intp)
    return (regime.multi_node > 0).astype(np.intp)


@functools.cache
def interval_models() -> Mapping[str, IntervalModel]:
    """The fitted models that ship with the package (facts/data/intervals.csv), read once."""
    rows = facts.table("intervals")
    return {family: _model(family) for family in dict.fromkeys(row["family"] for row in rows)}


def _model(family: str) -> IntervalModel:
    rows = [row for row in facts.table("intervals") if row["family"] == family]
    quantiles: dict[str, list[float]] = {}
    for row in rows:
        if row["part"] == "quantile":
            quantiles.setdefault(row["name"], []).append(float(row["value"]))
    return IntervalModel(
        family,
        {row["name"]: float(row["value"]) for row in rows if row["part"] == "scale"},
        {name: tuple(values) for name, values in quantiles.items()},
        tuple(row["name"] for row in rows if row["part"] == "architecture"),
    )


def interval_columns(
    metric: str,
    mid: Array,
    regime: RegimeColumns,
    *,
    models: Mapping[str, IntervalModel] | None = None,
) -> FigureColumns:
    """Figures with their 80 % and 95 % intervals.

    `metric` is a key of METRIC_FAMILY; `mid` (N,) the estimate in any unit; `regime` broadcasts with it. Rates and times share their
    errors with the sign turned. A mid that is not positive and finite keeps an interval of its own value.
    """
    family, sign = METRIC_FAMILY[metric]
    model = (models or interval_models())[family]
    mid = np.asarray(mid, dtype=np.float64)
    table = model.table()
    columns = [PROBABILITIES.index(p) for p in (0.1, 0.9, 0.025, 0.975)]
    z = sign * table[group_codes(family, regime)][:, columns]
    spread = np.exp(model.sigma(regime)[:, None] * z)
    low80, high80, low95, high95 = (mid * spread[:, i] for i in ((0, 1, 2, 3) if sign > 0 else (1, 0, 3, 2)))
    source = "extrapolated" if np.all(model.uncalibrated(regime)) else "calibrated"
    return FigureColumns(np.broadcast_to(mid, low80.shape), low80, high80, low95, high95, source=source)


def probability_over(
    metric: str,
    mid: Array,
    limit: Array,
    regime: RegimeColumns,
    *,
    models: Mapping[str, IntervalModel] | None = None,
) -> Array:
    """Probability (0 to 1) that the true figure exceeds `limit`, for example that a job does not fit or misses its deadline.

    `mid` (N,) and `limit` (N,) or (1,) in one unit. Between the stored quantiles the distribution of z is linear; beyond the outermost
    ones its tail is exponential, with the slope of the last interval.
    """
    family, sign = METRIC_FAMILY[metric]
    model = (models or interval_models())[family]
    ratio = np.maximum(np.asarray(limit, dtype=np.float64), 1e-300) / np.maximum(np.asarray(mid, dtype=np.float64), 1e-300)
    z = sign * np.log(ratio) / model.sigma(regime)
    groups = np.broadcast_to(group_codes(family, regime), z.shape)
    below = np.empty(z.shape)
    for code, quantiles in enumerate(model.table()):
        chosen = groups == code
        below[chosen] = cumulative(z[chosen], quantiles)
    return 1.0 - below if sign > 0 else below


def cumulative(z: Array, quantiles: Array) -> Array:
    """Cumulative probability of z for a distribution given by its quantiles at PROBABILITIES, with exponential tails."""
    probabilities = np.array(PROBABILITIES)
    inside = np.interp(z, quantiles, probabilities)
    low_rate = np.log(probabilities[1] / probabilities[0]) / max(quantiles[1] - quantiles[0], 1e-9)
    high_rate = np.log((1 - probabilities[-2]) / (1 - probabilities[-1])) / max(quantiles[-1] - quantiles[-2], 1e-9)
    low_tail = probabilities[0] * np.exp(np.minimum(low_rate * (z - quantiles[0]), 0.0))
    high_tail = 1.0 - (1 - probabilities[-1]) * np.exp(np.minimum(-high_rate * (z - quantiles[-1]), 0.0))
    result: Array = np.where(z < quantiles[0], low_tail, np.where(z > quantiles[-1], high_tail, inside))
    return result
