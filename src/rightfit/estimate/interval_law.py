"""Intervals that hold for a source that nobody has seen: two-layer conformal, by group of figures.

For r = log(measured / predicted) the score of a row is |r| / s(x), s(x) = k(x) exp(sum b_f x_f) with what is not known of the case (k, from
intervals.csv, for training of language models) and the conditions x that were found to carry information. The rows of one source share an
offset, so the sources are the sample: the quantile Q of a group is that of the mean of the distributions of its sources, each source
weighing the same however many rows it has, with the distributions of the family of figures and of all figures mixed in where sources are few. The
interval at coverage c is [mid exp(-s Q(c)), mid exp(s Q(c))], symmetric in the log.

facts/data/interval_law.csv holds Q by group and b by family; `validation/fit_law.py` writes it from sources left out and from first contact.

Reference: Dunn, Wasserman, Ramdas, Distribution-free prediction sets for two-layer hierarchical models, JASA 118 (2023), section 3 (pooling the
distributions of groups). Known error: the coverage is of sources like those measured, on average over sources.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rightfit import facts
from rightfit.estimate.figures import FigureColumns
from rightfit.physics.columns import Array
from rightfit.records import dataclass

#: Coverages at which Q is stored.
LEVELS = (0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99)
ALL = "all"
#: Beginnings of the names of groups and the family that they are of; the first that fits. What is not here is a family by itself.
FAMILIES = (
    "memory",
    "time",
    "serving-memory",
    "serving",
    "forward-memory",
    "forward",
    "samples-memory",
    "samples-run",
    "samples-time",
    "classical-memory",
    "classical",
    "loading",
)


def family_of(group: str) -> str:
    """The family of figures of a group."""
    return next((family for family in FAMILIES if group == family or group.startswith(f"{family}-")), group)


@dataclass(frozen=True, slots=True)
class IntervalLaw:
    """`quantiles` of the score at LEVELS by group, family and ALL; `factors` of the conditions by family; `devices` that the coefficients of a
    family were fitted on; `risks` the largest probability of running out of memory at which a case is said to fit."""

    quantiles: Mapping[str, tuple[float, ...]]
    factors: Mapping[str, Mapping[str, float]]
    devices: Mapping[str, frozenset[str]]
    risks: Mapping[str, float]

    def most_risk(self, group: str) -> float:
        """The largest probability of running out of memory at which a case is said to fit: an even chance where no run tells."""
        return self.risks.get(family_of(group), 0.5)

    def quantiles_of(self, group: str) -> tuple[float, ...]:
        """Q of a group; of its family, or of all figures, where it was not seen."""
        return next(self.quantiles[name] for name in (group, family_of(group), ALL) if name in self.quantiles)

    def scale(self, groups: Sequence[str], conditions: Mapping[str, Array]) -> Array:
        """s(x), one a row. `conditions` are arrays by name; "knowledge" is k(x) itself."""
        families = np.array([family_of(group) for group in groups])
        log_scale = np.log(conditions["knowledge"]) if "knowledge" in conditions else np.zeros(len(groups))
        for family in np.unique(families):
            here = families == family
            for name, factor in self.factors.get(str(family), {}).items():
                if name in conditions:
                    log_scale[here] += factor * conditions[name][here]
        return np.asarray(np.exp(log_scale), dtype=np.float64)

    def half_widths(self, groups: Sequence[str], scale: Array, level: float) -> Array:
        """Half the width of the interval at coverage `level`, in the log."""
        rows = {group: np.interp(level, LEVELS, self.quantiles_of(group)) for group in dict.fromkeys(groups)}
        return np.asarray(scale * np.array([rows[group] for group in groups]), dtype=np.float64)

    def bounds(self, groups: Sequence[str], scale: Array, mid: Array) -> FigureColumns:
        """Figures with their 80 % and 95 % intervals."""
        narrow, wide = (np.exp(self.half_widths(groups, scale, level)) for level in (0.8, 0.95))
        return FigureColumns(mid, mid / narrow, mid * narrow, mid / wide, mid * wide)

    def probability_over(self, groups: Sequence[str], scale: Array, log_limit: Array) -> Array:
        """Probability (0 to 1) that r exceeds `log_limit` = log(limit / predicted): both sides of the middle hold a half."""
        outside = np.array(
            [tail(abs(float(x)) / float(s), self.quantiles_of(group)) for group, s, x in zip(groups, scale, log_limit, strict=True)]
        )
        return np.asarray(np.where(np.asarray(log_limit) >= 0, 0.5 * outside, 1.0 - 0.5 * outside), dtype=np.float64)


def tail(score: float, quantiles: Sequence[float]) -> float:
    """Share of the scores beyond `score`: linear between the stored quantiles, exponential beyond the last with the slope of the last piece."""
    if score <= quantiles[-1]:
        return float(1.0 - np.interp(score, (0.0, *quantiles), (0.0, *LEVELS)))
    rate = np.log((1 - LEVELS[-2]) / (1 - LEVELS[-1])) / max(quantiles[-1] - quantiles[-2], 1e-9)
    return float((1 - LEVELS[-1]) * np.exp(-rate * (score - quantiles[-1])))


class LawLine(NamedTuple):
    """A line of interval_law.csv: part of the law, group of figures, name of a quantile, condition or device, and a value where it has one."""

    part: str
    group: str
    name: str
    value: str


def parse_law(lines: Iterable[LawLine]) -> IntervalLaw:
    """The law from the lines of interval_law.csv."""
    quantiles: dict[str, list[float]] = {}
    factors: dict[str, dict[str, float]] = {}
    devices: dict[str, set[str]] = {}
    risks: dict[str, float] = {}
    for line in lines:
        match line.part:
            case "quantile":
                quantiles.setdefault(line.group, []).append(float(line.value))
            case "factor":
                factors.setdefault(line.group, {})[line.name] = float(line.value)
            case "risk":
                risks[line.group] = float(line.value)
            case _:
                devices.setdefault(line.group, set()).add(line.name)
    return IntervalLaw(
        {group: tuple(values) for group, values in quantiles.items()},
        factors,
        {name: frozenset(found) for name, found in devices.items()},
        risks,
    )


@functools.cache
def interval_law() -> IntervalLaw:
    """The law that ships with the package, read once."""
    return parse_law(LawLine(row["part"], row["group"], row["name"], row["value"]) for row in facts.table("interval_law"))
