"""Fit how much a few runs of one's own say of others: the five numbers and the interval factors of
each figure (src/rightfit/measure/evidence.py).

    python validation/fit_calibration.py                    print what 0 to 3 own rows are worth on
                                                            sources left out
    python validation/fit_calibration.py --write            and write facts/data/calibration.csv,
                                                            calibration_widths.csv,
                                                            validation/own_runs.csv
    python validation/fit_calibration.py --second FOLDER    keep the residuals of the second set
                                                            (rows that are not in this repository),
                                                            as the program predicts now

Residuals: validation/truth, each source predicted with the coefficients of its fold, and
residuals/second_jobs.csv, sources that no coefficient has seen. The five numbers maximise the
likelihood of the sources (a source weighs n^-1/2 of its n rows), shrunk towards START; each source
is scored with numbers and factors fitted without it: k random rows of a job are known, the other
rows of that job are predicted.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rightfit.measure.evidence import (
    MOST_RESIDUAL,
    MOST_ROWS,
    PARTS,
    STEPS,
    Case,
    Cases,
    Law,
    as_cases,
    case_of,
    parts_of,
    posterior_of,
    step_kinds,
)
from rightfit.measure.record import metrics
from rightfit.proof.left_out import predict_left_out, read_folds
from rightfit.proof.predict import predict
from rightfit.proof.score import number
from rightfit.proof.tables import read_truth

VALIDATION = Path(__file__).resolve().parent
DATA = VALIDATION.parent / "src" / "rightfit" / "facts" / "data"
SECOND = VALIDATION / "residuals" / "second_jobs.csv"
TABLE = VALIDATION / "own_runs.csv"
TABLES = ("train_memory", "train_throughput", "inference", "vision_train")
HIDDEN = ("notes", "source", "source_where", "usable", "why_not", "measured")
#: Where the fit begins and what it is shrunk to: e, b, s, n, v.
START = {
    "training-memory": (0.16, 0.19, 0.03, 0.04, 0.09),
    "training-step": (0.08, 0.14, 0.05, 0.17, 0.16),
    "time-per-token": (0.04, 0.21, 0.03, 0.03, 0.22),
    "serving-throughput": (0.25, 0.19, 0.15, 0.11, 0.18),
    "serving-memory": (0.15, 0.18, 0.09, 0.14, 0.04),
    "first-token": (0.47, 0.07, 0.06, 0.25, 0.29),
    "samples-step": (0.38, 0.22, 0.03, 0.03, 0.20),
    "samples-memory": (0.20, 0.20, 0.05, 0.10, 0.15),
    "latency": (0.20, 0.20, 0.08, 0.15, 0.20),
}
#: Weight of the shrinking: this many sources that say START, with log standard deviation 1/2.
SHRINK = 2.4
#: Rows of a source that enter the likelihood, and draws of known rows in the scores.
MOST, DRAWS = 40, 20
#: Sources below which a kind of step has no factors of its own.
LEAST_SOURCES = 6


@dataclasses.dataclass(frozen=True)
class Source:
    """Rows of one source: cases and residuals (cost-like)."""

    name: str
    cases: Cases
    residual: NDArray[np.float64]

    def take(self, index: NDArray[np.intp]) -> Source:
        """Rows `index`."""
        return Source(self.name, self.cases.take(index), self.residual[index])


Line = tuple[str, Case, float]


def lines_of(rows: Sequence[Mapping[str, str]], answers: Sequence[Mapping[str, Any]]) -> list[Line]:
    """(source, case, residual) of rows that have a prediction and a measured value."""
    lines = []
    for row, answer in zip(rows, answers, strict=True):
        measured, predicted, metric = number(row.get("measured")), number(answer.get("predicted")), row.get("metric", "")
        if not (measured > 0 and predicted > 0):
            continue
        case = case_of(row, metric)
        if case.figure in START:
            sign = 1.0 if metrics()[metric].sense == "cost" else -1.0
            lines.append((row["source"], case, float(sign * np.log(measured / predicted))))
    return lines


def left_out() -> list[Line]:
    """Lines of validation/truth, each source with the coefficients of its fold."""
    truth = read_truth(VALIDATION / "truth")
    kept = [row for row, why, table in zip(truth.rows, truth.excluded, truth.table, strict=True) if not why and table in TABLES]
    rows = [{name: str(value or "") for name, value in row.items() if name} for row in kept]
    return lines_of(rows, predict_left_out(rows, read_folds(VALIDATION / "folds")))


def keep_second(folder: Path) -> None:
    """Write the residuals of a folder of tables, with jobs, cards and counts as
    numbers within a source."""
    lines: list[Line] = []
    for name in TABLES:
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
            rows = [{key: value or "" for key, value in row.items() if key} for row in csv.DictReader(stream)]
        rows = [row for row in rows if row.get("usable", "1") == "1"]
        lines += lines_of(rows, predict([{key: value for key, value in row.items() if key not in HIDDEN} for row in rows]))
    codes: dict[tuple[str, object], int] = {}
    with SECOND.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("figure", "source", "job", "card", "count", "counter", "batch", "length", "residual"))
        for source, case, residual in lines:
            job = codes.setdefault((source, case.job), len(codes))
            card = codes.setdefault((source, case.card), len(codes))
            writer.writerow(
                (case.figure, source, job, card, case.count, case.counter, f"{case.batch:.4g}", f"{case.length:.4g}", f"{residual:.4f}")
            )
    print(f"{len(lines)} lines in {SECOND}")


def read_second(known: set[str]) -> list[Line]:
    """Lines of residuals/second_jobs.csv of sources that validation/truth does not have."""
    with SECOND.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["source"] not in known]
    return [
        (
            row["source"],
            Case(row["figure"], (row["job"],), row["card"], row["count"], row["counter"], float(row["batch"]), float(row["length"])),
            float(row["residual"]),
        )
        for row in rows
    ]


def by_figure(lines: Sequence[Line]) -> dict[str, list[Source]]:
    """Sources of each figure."""
    found: dict[str, dict[str, list[Line]]] = {}
    for line in lines:
        found.setdefault(line[1].figure, {}).setdefault(line[0], []).append(line)
    return {
        figure: [
            Source(name, as_cases([case for _, case, _ in rows]), np.array([r for _, _, r in rows]))
            for name, rows in sorted(sources.items())
        ]
        for figure, sources in found.items()
    }


def fit(figure: str, sources: Sequence[Source]) -> Law:
    """The five numbers, by penalised likelihood."""
    start, chance = np.log(START[figure]), np.random.default_rng(0)
    parts = [
        source if len(source.residual) <= MOST else source.take(np.sort(chance.choice(len(source.residual), MOST, replace=False)))
        for source in sources
    ]

    def loss(log_law: NDArray[np.float64]) -> float:
        law, total = Law(*np.exp(log_law)), 0.0
        for part in parts:
            covariance = sum(parts_of(law, part.cases, part.cases)) + np.eye(len(part.residual)) * (law.v**2 + 1e-9)
            factor = np.linalg.cholesky(covariance)
            z = np.linalg.solve(factor, np.clip(part.residual, -MOST_RESIDUAL, MOST_RESIDUAL))
            total += (np.log(np.diag(factor)).sum() + 0.5 * z @ z) / np.sqrt(len(part.residual))
        return float(total + SHRINK * 0.5 * np.sum((log_law - start) ** 2))

    found = minimize(loss, start, method="L-BFGS-B", bounds=[(np.log(0.01), np.log(1.5))] * len(PARTS), options={"maxiter": 60})
    return Law(*(float(value) for value in np.exp(found.x)))


@dataclasses.dataclass
class Tried:
    """Rows of one source that were predicted from k known rows of their job."""

    residual: NDArray[np.float64]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    plain: NDArray[np.float64]
    step: NDArray[np.str_]


def tried(source: Source, law: Law, known: int, seed: int = 1) -> Tried | None:
    """Known rows drawn at random from a job, the others of it predicted; None where no job has more
    rows than are known."""
    chance = np.random.default_rng(seed)
    jobs = [index for job in np.unique(source.cases.job) if len(index := np.flatnonzero(source.cases.job == job)) > known]
    if not jobs:
        return None
    if len(jobs) > 25:
        jobs = [jobs[i] for i in chance.choice(len(jobs), 25, replace=False)]
    parts = []
    for job in jobs:
        for _ in range(max(1, 3 * DRAWS // (2 + len(jobs)))):
            order = chance.permutation(job)
            told, rest = source.take(order[:known]), source.take(order[known : known + MOST])
            found = posterior_of(law, told.cases, told.residual, rest.cases)
            plain = np.full(len(rest.residual), np.clip(told.residual, -MOST_RESIDUAL, MOST_RESIDUAL).mean())
            parts.append((rest.residual, found.mean, found.deviation, plain, np.array(step_kinds(told.cases, rest.cases))))
    return Tried(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def ape(residual: NDArray[np.float64]) -> NDArray[np.float64]:
    """Size of the error |predicted / measured - 1| of a cost."""
    return np.abs(np.expm1(-residual))


def quantile(values: Sequence[NDArray[np.float64]], level: float) -> float:
    """A quantile in which each source weighs the same."""
    kept = [part for part in values if len(part)]
    all_values, weights = np.concatenate(kept), np.concatenate([np.full(len(part), 1 / len(part)) for part in kept])
    order = np.argsort(all_values)
    share = np.cumsum(weights[order]) / weights.sum()
    return float(all_values[order][np.searchsorted(share, level)])


def factors(trials: Mapping[str, Tried], step: str = "") -> tuple[float, float, int]:
    """Factors of the standard deviation for 80 % and 95 %, and of how many sources; `step`
    alone where given."""
    scores = [
        np.abs(t.residual - t.mean)[keep] / t.deviation[keep] for t in trials.values() if (keep := (t.step == step) | (not step)).any()
    ]
    return (quantile(scores, 0.8), quantile(scores, 0.95), len(scores)) if scores else (np.nan, np.nan, 0)


def score(figure: str, sources: Sequence[Source]) -> tuple[Law, list[dict[str, Any]], list[dict[str, Any]]]:
    """The numbers of all sources, the lines of the table on own rows, and the interval factors."""
    law = fit(figure, sources)
    without = {source.name: fit(figure, [other for other in sources if other is not source]) for source in sources}
    lines, found = [], []
    for known in range(1, MOST_ROWS + 1):
        trials = {source.name: t for source in sources if (t := tried(source, without[source.name], known))}
        line = _line(trials)
        for step in ("", *STEPS):
            f80, f95, count = factors(trials, step)
            if count >= (LEAST_SOURCES if step else 1):
                cell = {"figure": figure, "rows": known, "step": step or "all", "factor80": f80, "factor95": f95}
                found.append({**cell, "worse": line["worse_corrected"], "sources": count})
        lines.append({"figure": figure, "rows": known, **line})
    return law, lines, found


def _line(trials: Mapping[str, Tried]) -> dict[str, Any]:
    before, after, plain = (
        {name: ape(t.residual - getattr(t, part)) if part else ape(t.residual) for name, t in trials.items()}
        for part in ("", "mean", "plain")
    )
    median = {name: quantile(list(errors.values()), 0.5) for name, errors in (("none", before), ("corrected", after), ("plain", plain))}
    p90 = quantile(list(after.values()), 0.9)
    worse = {
        kind: float(np.mean([np.median(errors[name]) > np.median(before[name]) for name in before]))
        for kind, errors in (("corrected", after), ("plain", plain))
    }
    inside = []
    for name, trial in trials.items():
        rest = {other: t for other, t in trials.items() if other != name}
        own = np.abs(trial.residual - trial.mean) / trial.deviation
        inside.append(float(np.mean(own <= factors(rest)[0])) if rest else np.nan)
    return {
        "sources": len(trials),
        "median_none": median["none"],
        "median_corrected": median["corrected"],
        "median_plain": median["plain"],
        "cut": 1 - median["corrected"] / median["none"],
        "p90_corrected": p90,
        "worse_corrected": worse["corrected"],
        "worse_plain": worse["plain"],
        "inside80": float(np.nanmean(inside)),
    }


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as CSV, figures in four digits."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: f"{value:.4g}" if isinstance(value, float) else value for name, value in row.items()} for row in rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--second", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.second:
        keep_second(options.second)
        return
    first = left_out()
    figures = by_figure(first + read_second({source for source, _, _ in first}))
    numbers: list[dict[str, Any]] = []
    table: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for figure in START:
        law, lines, steps = score(figure, figures[figure])
        rows = sum(len(source.residual) for source in figures[figure])
        numbers += [
            {
                "figure": figure,
                "part": part,
                "value": value,
                "unit": "log",
                "rows": rows,
                "sources": len(figures[figure]),
                "source": "validation/fit_calibration.py",
            }
            for part, value in zip(PARTS, law, strict=True)
        ]
        table, found = table + lines, found + [{**step, "source": "validation/fit_calibration.py"} for step in steps]
        for line in lines:
            print(
                figure,
                *(
                    f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}"
                    for name, value in line.items()
                    if name != "figure"
                ),
            )
    if options.write:
        write_table(DATA / "calibration.csv", numbers)
        write_table(DATA / "calibration_widths.csv", found)
        write_table(TABLE, table)


if __name__ == "__main__":
    main()
