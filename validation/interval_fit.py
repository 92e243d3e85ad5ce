"""Fit the interval model: a scale of the log error by regime, and quantiles of the
standardised error by group.

Rows of one source are not independent, so a row weighs n^-0.4 of its source's n rows,
and everything is cross-fitted by source: the z of a source comes from a scale that was
fitted without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from rightfit.estimation.intervals import GROUPS, PROBABILITIES, IntervalModel, RegimeColumns, group_codes

Array = NDArray[np.float64]

#: What may not be known of a case. Not knowing something never makes a figure more certain, so
#: these factors may only widen.
KNOWLEDGE = (
    "framework_unknown",
    "counter_unknown",
    "shape_typical",
    "batch_unknown",
    "length_unknown",
    "method_unknown",
    "recompute_unknown",
    "details_unknown",
    "device_unknown",
    "device_uncalibrated",
)
WIDEN_ONLY = (*KNOWLEDGE, "variable_length", "moe")
#: Penalty on the square of a factor: strong for what a case is, weak for what is not known of it
#: (those have rows of their own).
RIDGE = 0.05
KNOWLEDGE_RIDGE = 0.005
ERASED_WEIGHT = 0.2
GROUP_PRIOR_SOURCES = 12.0
#: A row weighs n^-SOURCE_EXPONENT of its source's n rows: 0 would let one long table decide, 1
#: would give a table of one row as much say.
SOURCE_EXPONENT = 0.4
FEATURES = tuple(field.name for field in dataclasses.fields(RegimeColumns) if field.name != "architecture")
#: What a case is, as far as it earned its place: every other flag of RegimeColumns was tried and
#: made the nested coverage no better and the intervals wider, because sources differ from each
#: other more than regimes do.
USED = {"memory": (*KNOWLEDGE, "variable_length", "moe"), "time": (*KNOWLEDGE, "moe")}


@dataclasses.dataclass(frozen=True)
class Residuals:
    """Log errors log(measured / predicted) of one family (times, not rates) with the regime of each
    row and its source."""

    family: str
    log_error: Array
    regime: RegimeColumns
    source: NDArray[np.object_]
    erased: NDArray[np.bool_] | None = None

    @property
    def original(self) -> NDArray[np.bool_]:
        """Rows as they were published; the others are copies with some cells erased, to learn what
        not knowing costs."""
        return np.ones(len(self.log_error), dtype=bool) if self.erased is None else ~self.erased

    def take(self, index: NDArray[np.intp]) -> Residuals:
        """Rows `index`."""
        full = {name: np.broadcast_to(getattr(self.regime, name), self.log_error.shape)[index] for name in (*FEATURES, "architecture")}
        erased = None if self.erased is None else self.erased[index]
        return Residuals(self.family, self.log_error[index], RegimeColumns.of(**full), self.source[index], erased)

    def features(self) -> Array:
        """The regime as a matrix (row, feature)."""
        return np.stack([np.broadcast_to(getattr(self.regime, name), self.log_error.shape) for name in FEATURES], axis=1)

    def weights(self) -> Array:
        """n^-0.4 of the row's source, less for a copy with erased cells, summing to one."""
        _, inverse, counts = np.unique(self.source.astype(str), return_inverse=True, return_counts=True)
        weights = np.where(self.original, 1.0, ERASED_WEIGHT) / counts[inverse] ** SOURCE_EXPONENT
        return np.asarray(weights / weights.sum())

    def folds(self) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """(rows without a source, rows of the source), source by source."""
        for name in sorted(set(self.source.tolist())):
            yield np.flatnonzero(self.source != name), np.flatnonzero(self.source == name)


def fit_scale(data: Residuals, *, ridge: float | None = None) -> dict[str, float]:
    """Log-scale factors by feature: the penalised maximum of a Laplace likelihood."""
    x, w, size = data.features(), data.weights(), np.abs(data.log_error)
    fitted = [i for i, name in enumerate(FEATURES) if name in USED[data.family] and np.ptp(x[:, i]) > 0]
    design = x[:, fitted]
    strength = np.array([KNOWLEDGE_RIDGE if FEATURES[i] in KNOWLEDGE else (RIDGE if ridge is None else ridge) for i in fitted])

    def loss(beta: Array) -> tuple[float, Array]:
        log_sigma = beta[0] + design @ beta[1:]
        ratio = size * np.exp(-log_sigma)
        slope = w * (1.0 - ratio)
        penalty = strength * beta[1:]
        gradient = np.concatenate([[slope.sum()], design.T @ slope + penalty])
        return float(np.sum(w * (ratio + log_sigma)) + 0.5 * np.sum(penalty * beta[1:])), gradient

    bounds = [(-6.0, 1.0), *(((0.0 if FEATURES[i] in WIDEN_ONLY else -1.5), 1.5) for i in fitted)]
    start = np.concatenate([[np.log(np.average(size, weights=w) + 1e-3)], np.zeros(len(fitted))])
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500})
    scale = {"base": float(result.x[0])}
    scale.update({FEATURES[i]: float(value) for i, value in zip(fitted, result.x[1:], strict=True)})
    return {name: round(value, 4) for name, value in scale.items()}


def weighted_quantiles(values: Array, weights: Array, probabilities: Sequence[float]) -> Array:
    """Quantiles of a weighted sample, interpolated between the midpoints of the steps."""
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    middle = (cumulative - 0.5 * weights[order]) / cumulative[-1]
    return np.interp(probabilities, middle, values[order])


def group_quantiles(data: Residuals, z: Array) -> dict[str, tuple[float, ...]]:
    """Quantiles of z: over all rows, and by group, shrunk to those of all by the number of
    sources in the group."""
    keep = np.flatnonzero(data.original)
    data, z = data.take(keep), z[keep]
    weights, codes = data.weights(), np.broadcast_to(group_codes(data.family, data.regime), z.shape)
    everything = weighted_quantiles(z, weights, PROBABILITIES)
    quantiles = {"all": everything}
    for code, name in enumerate(GROUPS[data.family]):
        inside = codes == code
        if inside.sum() < 20:
            continue
        sources = len(set(data.source[inside].tolist()))
        own = weighted_quantiles(z[inside], weights[inside], PROBABILITIES)
        quantiles[name] = (sources * own + GROUP_PRIOR_SOURCES * everything) / (sources + GROUP_PRIOR_SOURCES)
    return {name: tuple(round(float(v), 4) for v in np.maximum.accumulate(values)) for name, values in quantiles.items()}


def cross_fitted_z(data: Residuals) -> Array:
    """z of every row under the scale fitted without its source."""
    z = np.empty_like(data.log_error)
    for rest, held in data.folds():
        sigma = IntervalModel(data.family, fit_scale(data.take(rest)), {}).sigma(data.take(held).regime)
        z[held] = data.log_error[held] / sigma
    return z


def fit_model(data: Residuals) -> IntervalModel:
    """The interval model of one family, cross-fitted by source."""
    return IntervalModel(data.family, fit_scale(data), group_quantiles(data, cross_fitted_z(data)))


def nested_models(data: Residuals) -> Iterator[tuple[NDArray[np.intp], IntervalModel]]:
    """(rows of a source, the model fitted without that source at all), source by source: for
    an honest coverage."""
    for rest, held in data.folds():
        yield held[data.original[held]], fit_model(data.take(rest))
