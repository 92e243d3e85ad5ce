"""What an estimate says: figures with intervals and the terms that they are made of."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.records import dataclass

Array = NDArray[np.float64]

#: Normal scores of the ends of the intervals and of the middle: low95, low80, mid, high80, high95.
SCORES = (-1.959964, -1.281552, 0.0, 1.281552, 1.959964)
_FARTHEST = 8.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One predicted number in base units with an 80 % and a 95 % interval. `source`: formula, calibrated, measured or published."""

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
        """The same with a further doubt: `deviation` of the logarithm [1], independent of the one that is told already."""
        ends = {}
        for name, score in zip(("low95", "low80", "mid", "high80", "high95"), SCORES, strict=True):
            width = np.log(np.divide(getattr(self, name), self.mid, out=np.ones_like(self.mid), where=self.mid > 0))
            ends[name] = self.mid * np.exp(np.sign(score) * np.sqrt(width**2 + (score * deviation) ** 2))
        return dataclasses.replace(self, **ends, source="extrapolated")


def exact(values: Array) -> FigureColumns:
    """Figures that follow by formula alone."""
    return FigureColumns(values, values, values, values, values, source="formula")


def normal_score(probability: float) -> float:
    """Quantile of the standard normal law (rational approximation 26.2.23 of Abramowitz and Stegun, error below 4.5e-4)."""
    if probability == 0.5:
        return 0.0
    tail = min(probability, 1.0 - probability)
    t = math.sqrt(-2.0 * math.log(max(tail, 1e-12)))
    value = t - (2.515517 + 0.802853 * t + 0.010328 * t * t) / (1.0 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t**3)
    return value if probability >= 0.5 else -value


def probability_within(figures: FigureColumns, limit: Array) -> Array:
    """Probability that each figure is at most `limit`, from its intervals: between their ends by the normal law of the logarithm."""
    rows = range(figures.mid.shape[0])
    return np.array([probability_of(figures.row(row), float(limit[row])) for row in rows])


def probability_of(figure: Figure, limit: float) -> float:
    """Probability that one figure is at most `limit`; a figure without an interval holds wholly or not at all."""
    if not (figure.mid > 0 and limit > 0):
        return float(figure.mid <= limit)
    if figure.low95 == figure.high95:
        return float(figure.mid <= limit)
    ends = np.array([figure.low95, figure.low80, figure.mid, figure.high80, figure.high95])
    logs = np.log(np.maximum.accumulate(np.maximum(ends, 1e-300) * (1.0 + 1e-9 * np.arange(5))))
    return 0.5 * (1.0 + math.erf(_score_at(logs, math.log(limit)) / math.sqrt(2.0)))


def _score_at(logs: Array, target: float) -> float:
    """Normal score of a value among the logarithms of the five ends; beyond them as steep as between the last two."""
    if target > logs[-1]:
        return float(min(SCORES[-1] + (target - logs[-1]) * (SCORES[-1] - SCORES[-2]) / (logs[-1] - logs[-2]), _FARTHEST))
    if target < logs[0]:
        return float(max(SCORES[0] - (logs[0] - target) * (SCORES[1] - SCORES[0]) / (logs[1] - logs[0]), -_FARTHEST))
    return float(np.interp(target, logs, np.array(SCORES)))


def value_at(figure: Figure, probability: float) -> float:
    """The value that a figure stays under with this probability: straight in the logarithm over the normal score."""
    ends = (figure.low95, figure.low80, figure.mid, figure.high80, figure.high95)
    if min(ends) <= 0 or not all(map(math.isfinite, ends)):
        return figure.mid
    logs, score = np.log(np.array(ends)), normal_score(probability)
    if abs(score) <= SCORES[-1]:
        return float(np.exp(np.interp(score, SCORES, logs)))
    at, beside = (-1, -2) if score > 0 else (0, 1)
    return float(np.exp(logs[at] + (score - SCORES[at]) * (logs[at] - logs[beside]) / (SCORES[at] - SCORES[beside])))
