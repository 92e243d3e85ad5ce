"""Runs as evidence: what each missed the prediction by, and what that says of other cases.

`predict` is given, so that this room knows no engine: rows of cells in, answers with `predicted` out. In what the user asks, an empty cell fits any run's:
whoever leaves the framework open means the one that runs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rightfit.measure import calibration
from rightfit.measure.likeness import Case, as_cases, case_of
from rightfit.measure.record import Measured, Run, metrics
from rightfit.records import dataclass

Predict = Callable[[list[dict[str, str]]], Sequence[Mapping[str, Any]]]
#: A figure is corrected only where own rows made at most this share of the sources worse (calibration_widths.csv).
_MOST_WORSE = 0.5
_STATISTICS = ("mean", "median", "max", "p50", "last", "total")
#: Figures of serving that did not carry to another card on published data.
BOUND_TO_CARD = frozenset(("time-per-token", "first-token", "serving-throughput"))


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure of a run beside its prediction: `residual` = log(measured / predicted) of a cost, its inverse of a rate."""

    run: str
    metric: str
    case: Case
    residual: float
    bound: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Rows of runs, and why others could not be used: (run, metric, reason)."""

    rows: tuple[Row, ...]
    unused: tuple[tuple[str, str, str], ...]

    def of(self, figure: str) -> tuple[Row, ...]:
        """Rows of one figure."""
        return tuple(row for row in self.rows if row.case.figure == figure)


@dataclass(frozen=True, slots=True)
class Correction:
    """What runs say of one case: the factor on its cost, the log half-widths of the 80 % and 95 % interval, where it comes from ("calibrated", or
    "measured" where the very set-up ran), the runs, the kind of step, and the factors of stack, job and server apart."""

    factor: float
    half80: float
    half95: float
    source: str
    runs: tuple[str, ...]
    step: str
    stack: float
    job: float
    server: float


def evidence_of(runs: Sequence[Run], predict: Predict) -> Evidence:
    """Every figure of the runs that can be calibrated, predicted from the set-up that its record tells."""
    asked = [(run, item, cells(run, item)) for run in runs for item in _figures(run)]
    answers = predict([row for _, _, row in asked]) if asked else []
    rows, unused = [], []
    for (run, item, row), answer in zip(asked, answers, strict=True):
        predicted = answer.get("predicted")
        if not predicted or not predicted > 0 or item.value <= 0:
            unused.append((run.id, item.metric, str(answer.get("error") or "no prediction")))
            continue
        sign = 1.0 if metrics()[item.metric].sense == "cost" else -1.0
        rows.append(Row(run.id, item.metric, named(case_of(row, item.metric)), sign * math.log(item.value / predicted), item.bound))
    return Evidence(tuple(rows), tuple(unused))


def cells(run: Run, item: Measured) -> dict[str, str]:
    """A figure of a run as a row for `predict`; memory of the counter that it was read from."""
    counter = (
        {"mem_kind": item.counter}
        if item.metric == "peak_mem_gib_per_gpu" and item.counter in ("allocated", "reserved", "nvidia-smi")
        else {}
    )
    return {**run.setup, **counter, "metric": item.metric}


def _figures(run: Run) -> list[Measured]:
    """One figure of each kind: of several statistics the mean, else the median; nothing that a preallocating framework filled."""
    kept: dict[tuple[str, str], Measured] = {}
    for item in sorted(
        run.measured, key=lambda item: _STATISTICS.index(item.statistic) if item.statistic in _STATISTICS else len(_STATISTICS)
    ):
        figure = metrics()[item.metric].figure
        if figure in _calibrated() and item.statistic in _STATISTICS and item.counter != "preallocated":
            kept.setdefault((figure, item.counter), item)
    return list(kept.values())


def _calibrated() -> set[str]:
    return set(calibration.laws()) | {figure.replace("samples-", "training-") for figure in calibration.laws()}


def named(case: Case) -> Case:
    """The case with the model's and the card's own names, so that two spellings are one."""
    model = 1 if case.figure.startswith("samples") else 0
    job = tuple(_model(text) if at == model else text for at, text in enumerate(case.job))
    return dataclasses.replace(case, job=job, card=_card(case.card))


def _model(text: str) -> str:
    from rightfit import facts
    from rightfit.errors import RightfitError

    try:
        return str(facts.model(text).name).casefold() if text else ""
    except (RightfitError, AttributeError):
        return text


def _card(text: str) -> str:
    from rightfit import facts
    from rightfit.errors import RightfitError

    try:
        return facts.accelerator(text).name.casefold() if text else ""
    except RightfitError:
        return text


def useful(figure: str, rows: int) -> bool:
    """Whether so many own rows of the job made few enough published sources worse."""
    shares = [share for (name, known), share in calibration.worse().items() if name == figure and known <= max(rows, 1)]
    return bool(shares) and min(shares) <= _MOST_WORSE


def corrections(evidence: Evidence, asked: Sequence[Case]) -> list[Correction | None]:
    """What the runs say of each case; None where they say nothing of its figure."""
    found: list[Correction | None] = [None] * len(asked)
    for figure in dict.fromkeys(case.figure for case in asked):
        rows = evidence.of(figure)
        if figure in calibration.laws() and rows and useful(figure, len(rows)):
            index = [i for i, case in enumerate(asked) if case.figure == figure]
            for i, correction in zip(index, _of_figure(figure, rows, [named(asked[i]) for i in index]), strict=True):
                found[i] = correction
    return found


def _of_figure(figure: str, rows: Sequence[Row], asked: Sequence[Case]) -> list[Correction]:
    law = calibration.laws()[figure]
    targets = [_aligned(case, rows) for case in asked]
    cases = as_cases([*(row.case for row in rows), *targets])
    known, target = cases.take(np.arange(len(rows))), cases.take(np.arange(len(rows), len(rows) + len(targets)))
    residual = np.array([row.residual for row in rows])
    values, noise = calibration.settled(law, known, residual, [row.bound for row in rows])
    posterior = calibration.posterior(law, known, values, target, noise=noise)
    steps = calibration.step_kinds(known, target)
    runs = tuple(dict.fromkeys(row.run for row in rows))
    result = []
    for at, step in enumerate(steps):
        of_job = int(np.sum(known.job == target.job[at]))
        wide = calibration.width(figure, of_job, step)
        deviation = float(posterior.deviation[at])
        one_sided = all(row.bound for row, server in zip(rows, known.server, strict=True) if server == target.server[at])
        result.append(
            Correction(
                *(math.exp(float(posterior.mean[at])), wide[0] * deviation, wide[1] * deviation),
                "measured" if step == "same" and not one_sided else "calibrated",
                runs,
                step,
                *(math.exp(float(part[at])) for part in (posterior.stack, posterior.job, posterior.server)),
            )
        )
    return result


def _aligned(case: Case, rows: Sequence[Row]) -> Case:
    """The case with the job and the counter of the run that it fits, an empty cell fitting any."""
    for row in rows:
        if all(not mine or not theirs or mine == theirs for mine, theirs in zip(case.job, row.case.job, strict=True)) and _same_counter(
            case, row.case
        ):
            return dataclasses.replace(
                case, job=row.case.job, counter=row.case.counter, count=case.count or "1" if row.case.count else case.count
            )
    return case


def _same_counter(case: Case, other: Case) -> bool:
    return not case.counter or not other.counter or case.counter == other.counter


def moved(correction: Correction, predicted: float, *, is_cost: bool) -> dict[str, float]:
    """The corrected figure with its intervals, in the unit of `predicted`."""
    mid = predicted * correction.factor if is_cost else predicted / correction.factor
    narrow, wide = math.exp(correction.half80), math.exp(correction.half95)
    return {"predicted": mid, "low80": mid / narrow, "high80": mid * narrow, "low95": mid / wide, "high95": mid * wide}
