"""Score and fit the memory physics against measured peaks, leave-one-source-out.

    python validation/fit_memory.py TRUTH_DIR             error table by source, with each source's
                                                          errors under coefficients fitted without
                                                          it
    python validation/fit_memory.py TRUTH_DIR --write     also write the coefficients fitted on all
                                                          sources to
                                                          facts/data/coefficients/memory.toml
    python validation/fit_memory.py TRUTH_DIR --no-fit    score the bundled coefficients only

Rows of one source are not independent: every source weighs the square root of its number of rows.
The loss is the weighted mean of |log(predicted / measured)|.
"""

from __future__ import annotations

import argparse
import datetime
import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from rightfit import facts
from rightfit.physics.columns import Array, Method
from rightfit.physics.memory_peak import peak_memory
from rightfit.proof.cases.training import TrainingCases, training_cases
from rightfit.proof.tables import read_table

GIB = 2.0**30
FITTED = {
    "slack_steady_ratio": (0.0, 0.04),
    "slack_moving_ratio": (0.0, 1.0),
    "slack_varied_ratio": (0.0, 3.0),
    "slack_expandable_ratio": (0.0, 0.4),
    "slack_stored_ratio": (0.0, 0.5),
    "slack_overlap_ratio": (0.0, 1.0),
    "slack_bytes": (0.0, 6e8),
    "context_bytes": (3e8, 9e8),
    "nccl_peer_bytes": (0.0, 2.5e8),
    "short_data_fraction": (0.1, 0.5),
}
COEFFICIENTS = Path(__file__).parents[1] / "src/rightfit/facts/data/coefficients/memory.toml"


class Table:
    """Measured rows as cases: GiB, source, and a function from coefficients to predictions."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        self.cases: TrainingCases = training_cases(rows)
        self.rows = [rows[i] for i in self.cases.index]
        self.measured = np.array([float(row["measured"]) for row in self.rows])
        # A bare "G" is 1e9 or 2**30 bytes: for fitting, not for scoring, the middle
        # of the two is taken.
        unclear = np.array(["GB/GiB ambiguous" in row["flags"] for row in self.rows])
        self.target = np.where(unclear, self.measured * (1e9 / GIB) ** 0.5, self.measured)
        self.source = np.array([row["source"] + (" (driver)" if row["usable"] != "1" else "") for row in self.rows])
        counts = {name: float(np.sum(self.source == name)) for name in set(self.source)}
        self.weight = np.array([counts[name] ** -0.5 for name in self.source])
        self.short = np.asarray(self.cases.setup.token_fraction) < 1.0

    def predict(self, coefficients: dict[str, float]) -> Array:
        """Peaks [GiB]."""
        fraction = np.where(self.short, coefficients["short_data_fraction"], 1.0)
        setup = self.cases.setup.replace(token_fraction=fraction)
        return peak_memory(self.cases.model, setup, self.cases.device, coefficients=coefficients).peak / GIB


def load(truth: Path, *, driver: bool) -> list[dict[str, str]]:
    """Usable rows with a figure; with `driver` also the nvidia-smi figures of runs whose
    allocated figure is usable."""
    rows = [row for row in read_table(truth, "train_memory") if row["measured"] and row["is_oom"] != "1"]
    twin = [row for row in rows if driver and row["why_not"] == "same run, allocated row kept" and row["mem_kind"] == "nvidia-smi"]
    return [row for row in rows if row["usable"] == "1"] + twin


def fit(table: Table, keep: Array, start: dict[str, float]) -> dict[str, float]:
    """Coefficients that minimise the weighted log error over the rows `keep`."""
    names = list(FITTED)
    low = np.array([FITTED[name][0] for name in names])
    span = np.array([FITTED[name][1] - FITTED[name][0] for name in names])

    def coefficients(point: Array) -> dict[str, float]:
        return {**start, **dict(zip(names, low + span * np.clip(point, 0.0, 1.0), strict=True))}

    def loss(point: Array) -> float:
        error = np.abs(np.log(table.predict(coefficients(point))[keep] / table.target[keep]))
        outside = np.sum(np.maximum(np.abs(point - 0.5) - 0.5, 0.0))
        return float(np.average(np.minimum(error, 0.7), weights=table.weight[keep]) + outside)

    first = np.clip((np.array([start[name] for name in names]) - low) / span, 0.02, 0.98)
    found = minimize(
        loss, first, method="Nelder-Mead", options={"maxiter": 1000, "xatol": 2e-3, "fatol": 2e-5, "initial_simplex": _simplex(first)}
    )
    return coefficients(found.x)


def _simplex(first: Array) -> Array:
    points = [first]
    for axis in range(first.size):
        moved = first.copy()
        moved[axis] += 0.25 if moved[axis] < 0.5 else -0.25
        points.append(moved)
    return np.array(points)


def leave_one_source_out(table: Table, start: dict[str, float]) -> Array:
    """Predictions of every row by coefficients fitted without its source."""
    predicted = np.empty(table.measured.size)
    for name in sorted(set(table.source)):
        base = name.removesuffix(" (driver)")
        mine = table.source == name
        others = ~np.char.startswith(table.source.astype(str), base)
        predicted[mine] = table.predict(fit(table, others, start))[mine]
    return predicted


def report(table: Table, predicted: Array, *, worst: int) -> None:
    """Errors by source and by method, and the worst rows."""
    error = predicted / table.measured - 1.0
    usable = np.array([row["usable"] == "1" for row in table.rows])
    print(f"{'source':42s} {'rows':>4s} {'median':>7s} {'signed':>7s} {'P90':>6s}")
    for name in sorted(set(table.source)):
        _line(name, error[table.source == name])
    full = np.asarray(table.cases.setup.method) == Method.FULL
    _line("ALL", error[usable])
    _line("full training", error[usable & full])
    _line("LoRA, QLoRA and others", error[usable & ~full])
    medians = [np.median(np.abs(error[table.source == name])) for name in sorted(set(table.source[usable]))]
    print(f"median of the medians by source {np.median(medians):.3f}")
    for i in np.argsort(-np.abs(error))[:worst]:
        row = table.rows[i]
        print(
            f"  {row['id']} {row['source']} {row['model']} {row['method']} measured {table.measured[i]:.1f} predicted {predicted[i]:.1f} GiB ({error[i]:+.2f})"
        )


def _line(name: str, error: Array) -> None:
    if error.size:
        size = np.abs(error)
        print(f"{name:42s} {error.size:4d} {np.median(size):7.3f} {np.median(error):+7.3f} {np.quantile(size, 0.9):6.3f}")


def write(values: dict[str, float], rows: int) -> None:
    """Put fitted values into the coefficient file, with the command they come from."""
    text = COEFFICIENTS.read_text(encoding="utf-8")
    day = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    source = f"fitted: validation/fit_memory.py TRUTH_DIR --write on {rows} measured rows, {day}"
    for name in FITTED:
        value = f"{values[name]:.4g}"
        pattern = re.compile(rf"(\[{name}\]\nvalue = )[^\n]+(\nunit = [^\n]+\nsource = )[^\n]+")
        text, count = pattern.subn(lambda found, value=value: f'{found[1]}{value}{found[2]}"{source}"', text)
        if count != 1:
            raise SystemExit(f"{COEFFICIENTS.name} has no entry {name}")
    COEFFICIENTS.write_text(text, encoding="utf-8")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--write", action="store_true", help="store the coefficients fitted on all sources")
    parser.add_argument("--no-fit", action="store_true", help="score the bundled coefficients")
    parser.add_argument("--worst", type=int, default=15)
    arguments: Any = parser.parse_args()
    table = Table(load(arguments.truth, driver=True))
    start = dict(facts.coefficients("memory"))
    if arguments.no_fit:
        report(table, table.predict(start), worst=arguments.worst)
        return
    report(table, leave_one_source_out(table, start), worst=arguments.worst)
    whole = fit(table, np.ones(table.measured.size, dtype=bool), start)
    print({name: float(f"{whole[name]:.4g}") for name in FITTED})
    if arguments.write:
        write(whole, table.measured.size)


if __name__ == "__main__":
    main()
