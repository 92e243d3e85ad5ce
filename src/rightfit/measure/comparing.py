"""What was measured beside what was predicted, and which other set-up would explain a run that left its interval.

Two sources of a prediction: the plan that the run was started from, where it runs on the plan's card; else the run's own set-up, by `rightfit predict`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rightfit.estimate.figures import Figure
from rightfit.facts.constants import constant_group
from rightfit.measure.evidence import Predict, cells
from rightfit.measure.from_plan import METRICS
from rightfit.measure.likeness import figure_of
from rightfit.measure.record import Measured, Run, metrics
from rightfit.measure.watching.expected import Expected
from rightfit.records import dataclass

_BOUNDS = ("predicted", "low80", "high80", "low95", "high95")
#: Set-ups that explain a run which is slower, faster, fuller or emptier than predicted: name -> columns of `rightfit predict`.
_EXPLAINING: Mapping[str, Mapping[str, str]] = {
    "fp32": {"precision": "fp32"},
    "bf16": {"precision": "bf16"},
    "recompute_full": {"recompute": "full"},
    "recompute_none": {"recompute": "none"},
    "attention_eager": {"attention": "eager"},
    "attention_flash": {"attention": "flash"},
}


@dataclass(frozen=True, slots=True)
class Beside:
    """A measured figure and its prediction in the metric's unit. `verdict`: inside, above or below the 95 % interval, or open where that is so
    wide that it says nothing; `origin`: plan or predict."""

    item: Measured
    predicted: Figure
    verdict: str
    origin: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A set-up under which the prediction comes near what was measured: its name, and the share by which it still misses."""

    name: str
    missed: float


def beside(run: Run, predict: Predict, expected: Expected | None = None) -> list[Beside]:
    """Every figure of the run that has a prediction: the plan's where there is one, else that of its set-up. One-sided figures are left out."""
    items = [
        item
        for item in run.measured
        if not item.bound and item.statistic in ("mean", "max") and item.counter in ("", "allocated", "reserved")
    ]
    kept = {item.metric: item for item in reversed(items) if figure_of({}, item.metric)}
    planned = _of_plan(list(kept.values()), expected, _cards(run)) if expected is not None else []
    told = {one.item.metric for one in planned}
    rest = [item for item in kept.values() if item.metric not in told]
    is_known = "model" in run.setup and bool(run.setup.get("gpu") or run.setup.get("device"))
    return [*planned, *(_of_setup(run, rest, predict) if is_known else [])]


def _cards(run: Run) -> float:
    try:
        return max(float(run.setup.get("n_gpus") or 1), 1.0)
    except ValueError:
        return 1.0


def _of_plan(items: Sequence[Measured], expected: Expected, cards: float) -> list[Beside]:
    by_metric = {metric: (name, scale) for name, (metric, scale) in METRICS.items()}
    found = []
    for item in items:
        name, scale = by_metric.get(item.metric, ("", 1.0))
        figure = expected.figure(name)
        if figure is not None:
            found.append(_judged(item, _times(figure, scale / cards if item.metric == "tokens_per_s_per_gpu" else scale), "plan"))
    return found


def _times(figure: Figure, by: float) -> Figure:
    return Figure(figure.mid * by, figure.low80 * by, figure.high80 * by, figure.low95 * by, figure.high95 * by, figure.source)


def _of_setup(run: Run, items: Sequence[Measured], predict: Predict) -> list[Beside]:
    answers = predict([cells(run, item) for item in items]) if items else []
    pairs = [(item, figure) for item, answer in zip(items, answers, strict=True) if (figure := _figure(answer)) is not None]
    return [_judged(item, figure, "predict") for item, figure in pairs]


def _figure(answer: Mapping[str, Any]) -> Figure | None:
    values = [answer.get(name) for name in _BOUNDS]
    known = [float(value) for value in values if value is not None]
    if len(known) != len(_BOUNDS):
        return None
    mid, low80, high80, low95, high95 = known
    return Figure(mid, low80, high80, low95, high95)


def _judged(item: Measured, figure: Figure, origin: str) -> Beside:
    if figure.high95 > constant_group("measure", "compare")["says_nothing"] * figure.low95:
        return Beside(item, figure, "open", origin)
    verdict = "above" if item.value > figure.high95 else "below" if item.value < figure.low95 else "inside"
    return Beside(item, figure, verdict, origin)


def explanations(run: Run, one: Beside, predict: Predict) -> list[Explanation]:
    """Other set-ups whose prediction comes nearer to what was measured than half of what is missed, the nearest first; none for a figure that did not leave its interval."""
    if one.verdict in ("inside", "open") or "model" not in run.setup:
        return []
    base = cells(run, one.item)
    variants = {name: columns for name, columns in _EXPLAINING.items() if any(base.get(key) != value for key, value in columns.items())}
    missed = abs(math.log(one.item.value / one.predicted.mid))
    limit = min(constant_group("measure", "compare")["explains"], missed / 2.0)
    found = []
    for name, answer in zip(variants, predict([{**base, **columns} for columns in variants.values()]), strict=True):
        predicted = answer.get("predicted")
        if predicted and predicted > 0 and abs(math.log(one.item.value / predicted)) <= limit:
            found.append(Explanation(name, one.item.value / predicted - 1.0))
    return sorted(found, key=lambda explanation: abs(explanation.missed))


def is_cost(one: Beside) -> bool:
    """Whether more of the figure is worse."""
    return metrics()[one.item.metric].sense == "cost"
