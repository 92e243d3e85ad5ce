"""Score and fit classical machine learning against measured rows, leave-one-source-out.

    python validation/fit_classical.py TRUTH_DIR              error tables with the bundled
                                                              coefficients
    python validation/fit_classical.py TRUTH_DIR --loso       also each source under coefficients
                                                              fitted without it
    python validation/fit_classical.py TRUTH_DIR --fit        fit on all and write
                                                              coefficients/classical.toml
    python validation/fit_classical.py TRUTH_DIR --folds      write validation/folds/classical.json
    python validation/fit_classical.py TRUTH_DIR --intervals  write
                                                              facts/data/classical_intervals.csv
                                                              from the errors under the folds

TRUTH_DIR holds classical_ml.csv; validation/measured_classical.csv
(validation/measure/classical_grid.py) is one more source, "rightfit-grid-2026-11". Every
coefficient is positive and starts from a prior; the fit minimises robust squared log errors, each
source weighing the square root of its rows, plus the squared log distance from the priors in units
of `spread`. A coefficient without data stays at its prior.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fit_common import DATA, left_out_residuals, quantiles, write_coefficients, write_folds, write_intervals
from rightfit import facts
from rightfit.estimation.figures import CLASSICAL_PARENT, PROBABILITIES, classical_interval_group
from rightfit.physics.columns import Array
from rightfit.proof.cases.tables import classical_cases
from rightfit.proof.family_predict import classical_metric_values
from rightfit.proof.tables import read_table

FILE = DATA / "coefficients/classical.toml"
FOLDS = Path(__file__).parent / "folds/classical.json"
GRID = Path(__file__).parent / "measured_classical.csv"
GRID_SOURCE = "rightfit-grid-2026-11"
NOISE = 0.25
DOUBT = 0.1
MIN_ROWS = 40
STEP = 1e-3
#: Rows of one source are not independent: one of n rows counts n^-0.4 in the intervals, as in those
#: of language models.
WEIGHT = 0.4
#: Time of our grid is the CPU time of one thread: the machine was shared, so wall times of two
#: threads say little.
_BASE = {"source": GRID_SOURCE, "date": "2026-11", "hardware": "AMD EPYC Turin (Zen 5), 2 cores"}


def grid_rows() -> list[dict[str, str]]:
    """Rows of our own measurements in the columns of the table."""
    found: list[dict[str, str]] = []
    if not GRID.exists():
        return found
    for row in csv.DictReader(GRID.read_text(encoding="utf-8").splitlines()):
        if row["task"] == "prepare":
            continue
        hist = row["library"] == "scikit-learn" and row["algorithm"] == "gradient boosting"
        settings = f"{row['settings'].replace('categorical', 'categorical columns')}; float32"
        if "categorical" in row["settings"]:
            settings += "; one-hot sparse" if row["library"] in ("xgboost", "scikit-learn") else ""
        if row["algorithm"] == "k-means":
            settings += ", max_iter=20"
        if row["algorithm"] == "sgd":
            settings += ", 5 epochs"
        if row["algorithm"] == "mlp":
            settings += ", 3 epochs, 2x200"
        algorithm = "hist gradient boosting" if hist else row["algorithm"]
        base = _BASE | {"library": row["library"], "algorithm": algorithm, "rows": row["rows"], "cols": row["cols"], "settings": settings}
        base |= {"cores": row["threads"], "gpu": "", "notes": "", "id": f"grid-{len(found)}"}
        if row["threads"] == "1" and float(row["cpu_s"]) > 0.005:
            found.append(base | {"metric": f"{row['task']}_time_s", "measured": row["cpu_s"]})
        found.append(base | {"metric": "peak_ram_gib", "measured": f"{float(row['peak_mib']) / 1024:.5g}"})
    return found


class Table:
    """Measured rows as cases."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        self.cases = classical_cases(rows)
        self.rows = [rows[int(i)] for i in self.cases.index]
        self.all_rows = rows
        self.measured = np.array([float(row["measured"]) for row in self.rows])
        self.source = np.array([row["source"] for row in self.rows])
        self.metric = np.array([row["metric"] for row in self.rows])
        counts = {name: float(np.sum(self.source == name)) for name in set(self.source)}
        self.weight = np.array([counts[name] ** -0.25 for name in self.source])
        self.weight /= self.weight.mean()

    def predict(self, values: dict[str, float]) -> Array:
        figures = classical_metric_values(self.cases, values)
        return np.where(self.metric == "peak_ram_gib", figures["peak_ram_gib"], figures["train_time_s"])


def separate_groups(errors_of: Callable[[Array], Array], count: int) -> list[tuple[list[int], np.ndarray]]:
    """Coefficients in groups of which no two touch one row, each with the coefficient that a row
    belongs to (-1 = none).

    A row's error depends on the few coefficients of its own library and algorithm. What touches a
    row is tried at two places, since a maximum can hide a coefficient at one of them.
    """
    touched = np.zeros((count, len(errors_of(np.zeros(count)))), dtype=bool)
    for place in (np.zeros(count), np.where(np.arange(count) % 2, 0.7, -0.7)):
        centre = errors_of(place)
        for at in range(count):
            moved = place.copy()
            moved[at] += 0.3
            touched[at] |= errors_of(moved) != centre
    groups: list[tuple[list[int], np.ndarray]] = []
    for at in np.argsort(-touched.sum(axis=1), kind="stable"):
        free = next((group for group in groups if not np.any((group[1] >= 0) & touched[at])), None)
        if free is None:
            free = ([], np.full(touched.shape[1], -1))
            groups.append(free)
        free[0].append(int(at))
        free[1][touched[at]] = at
    return groups


def fit(table: Table, keep: np.ndarray, entries: dict[str, dict[str, object]]) -> dict[str, float]:
    """Coefficients fitted on the rows of `keep`."""
    names = [name for name, entry in entries.items() if float(str(entry["spread"])) > 0]
    fixed = {name: float(str(entry["prior"])) for name, entry in entries.items()}
    prior = np.log([fixed[name] for name in names])
    spread = np.array([float(str(entries[name]["spread"])) for name in names])
    target = np.log(table.measured)

    def errors_of(offset: Array) -> Array:
        values = fixed | dict(zip(names, np.exp(prior + offset * spread), strict=True))
        errors = (np.log(table.predict(values)) - target)[keep] * table.weight[keep] / NOISE
        return np.asarray(np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1)))

    def residuals(offset: Array) -> Array:
        return np.concatenate([errors_of(offset), offset])

    groups = separate_groups(errors_of, len(names))

    def slopes(offset: Array) -> Array:
        """Slopes of the residuals: coefficients that no row shares are moved together."""
        centre, found = errors_of(offset), np.zeros((int(np.sum(keep)), len(names)))
        for members, owner in groups:
            moved = offset.copy()
            moved[members] += STEP
            change = (errors_of(moved) - centre) / STEP
            here = owner >= 0
            found[here, owner[here]] = change[here]
        return np.vstack([found, np.eye(len(names))])

    found = least_squares(residuals, np.zeros(len(names)), jac=slopes, method="trf", max_nfev=40)
    return fixed | {name: float(value) for name, value in zip(names, np.exp(prior + found.x * spread), strict=True)}


def report(title: str, groups: np.ndarray, ratio: Array) -> None:
    """Factor at the median and P90, bias; by group."""
    print(f"\n{title:52s} rows  median    P90   bias   (factors)")
    for name in [*sorted(set(groups)), "all"]:
        here = np.abs(np.log(ratio[groups == name] if name != "all" else ratio))
        bias = np.exp(np.median(np.log(ratio[groups == name] if name != "all" else ratio)))
        if len(here):
            print(f"{name[:52]:52s} {len(here):5d} {np.exp(np.median(here)):7.2f} {np.exp(np.percentile(here, 90)):6.2f} {bias:6.2f}")


def tables(title: str, table: Table, ratio: Array) -> None:
    """Errors by source and metric, by library and algorithm."""
    memory = np.where(
        table.metric == "peak_ram_gib",
        "RAM",
        np.where(table.metric == "predict_time_s", "predict", np.where(table.cases.on_gpu > 0, "time GPU", "time")),
    )
    report(f"{title}: metric", memory, ratio)
    report(f"{title}: source", np.array([f"{s} {m}" for s, m in zip(table.source, memory, strict=True)]), ratio)
    report(
        f"{title}: regime", np.array([f"{m} {k.algorithm.name} {k.library}" for m, k in zip(memory, table.cases.kinds, strict=True)]), ratio
    )


def leave_out(table: Table, entries: dict[str, dict[str, object]]) -> tuple[dict[str, dict[str, float]], Array]:
    """Coefficients without each source, and predicted / measured under them."""
    folds, ratio = {}, np.ones(len(table.measured))
    for source in sorted(set(table.source)):
        here = table.source == source
        folds[source] = fit(table, ~here, entries)
        ratio[here] = (table.predict(folds[source]) / table.measured)[here]
    return folds, ratio


def _quantiles(z: Array, source: np.ndarray) -> Array:
    return quantiles(z, source, PROBABILITIES, -WEIGHT)


def intervals(table: Table) -> dict[str, Array]:
    """Quantiles by group from the errors under the folds; prints the coverage, also with the row's
    source left out of the quantiles."""
    z = left_out_residuals(table, FOLDS, "classical")
    scale = 1.0 + DOUBT * np.minimum([len(noted) for noted in table.cases.assumptions], 3.0)
    z /= scale
    group = np.array(
        [
            classical_interval_group(m, gpu=bool(g), library=k.library)
            for m, g, k in zip(table.metric, table.cases.on_gpu, table.cases.kinds, strict=True)
        ]
    )
    found = {
        name: _quantiles(z[group == name], table.source[group == name]) for name in sorted(set(group)) if np.sum(group == name) >= MIN_ROWS
    }
    found.setdefault(CLASSICAL_PARENT, _quantiles(z, table.source))
    print(f"{'group':12s} rows  cover 80  cover 95  nested 80  nested 95  width 80  width 95")
    for name in sorted(set(group)):
        here = group == name
        bounds = found.get(name, found[CLASSICAL_PARENT])
        nested = np.zeros((np.sum(here), 4))
        for source in set(table.source[here]):
            apart = here & (table.source != source)
            nested[table.source[here] == source] = (
                _quantiles(z[apart], table.source[apart])
                if np.sum(apart) >= MIN_ROWS
                else _quantiles(z[table.source != source], table.source[table.source != source])
            )
        cover = [np.mean((bounds[a] <= z[here]) & (z[here] <= bounds[b])) for a, b in ((1, 2), (0, 3))]
        apart_cover = [np.mean((nested[:, a] <= z[here]) & (z[here] <= nested[:, b])) for a, b in ((1, 2), (0, 3))]
        print(
            f"{name:12s} {np.sum(here):4d} {cover[0]:9.1%} {cover[1]:9.1%} {apart_cover[0]:10.1%} {apart_cover[1]:10.1%} {np.exp(bounds[2] - bounds[1]):9.2f} {np.exp(bounds[3] - bounds[0]):9.2f}"
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    for name in ("fit", "loso", "folds", "intervals"):
        parser.add_argument(f"--{name}", action="store_true")
    arguments = parser.parse_args()
    table = Table([*read_table(arguments.truth, "classical_ml"), *grid_rows()])
    for position, reason in table.cases.refused.items():
        print("refused:", table.all_rows[position]["source"], table.all_rows[position]["algorithm"], reason)
    if arguments.intervals:
        path, found = DATA / "classical_intervals.csv", intervals(table)
        of_preparation = [row for row in csv.DictReader(path.open(encoding="utf-8")) if row["group"].startswith("prepare")]
        source = "validation/fit_classical.py --intervals: quantiles of errors on left-out sources"
        write_intervals(path, source, PROBABILITIES, found, {group: {"doubt": DOUBT} for group in found}, of_preparation)
        return
    entries = {name: dict(entry) for name, entry in facts.coefficient_entries("classical").items()}
    values = {name: float(str(entry["value"])) for name, entry in entries.items()}
    if arguments.fit:
        values = fit(table, np.ones(len(table.measured), dtype=bool), entries)
        command = "python validation/fit_classical.py TRUTH_DIR --fit"
        head = f"Coefficients of classical machine learning. `value` was fitted from `prior` by: {command}"
        write_coefficients(FILE, head, values, entries)
    tables("bundled" if not arguments.fit else "fitted on all", table, table.predict(values) / table.measured)
    if arguments.loso or arguments.folds:
        folds, ratio = leave_out(table, entries)
        tables("source left out", table, ratio)
        if arguments.folds:
            write_folds(FOLDS, "classical", folds)


if __name__ == "__main__":
    main()
