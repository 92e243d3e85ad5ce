"""Score and fit the rates of loaders against measured rows, leave-one-source-out.

    python validation/fit_loading.py TRUTH_DIR                 errors by source with the bundled
                                                               coefficients
    python validation/fit_loading.py TRUTH_DIR --fit           the same with coefficients fitted on
                                                               all rows; --write keeps them
    python validation/fit_loading.py TRUTH_DIR --loso          each source under coefficients fitted
                                                               without it; --folds FILE writes those
    python validation/fit_loading.py TRUTH_DIR --intervals     quantiles of errors on left-out
                                                               sources into
                                                               facts/data/loading_intervals.csv

Every coefficient starts from a prior (a measurement here or what is known) and moves as far as data
pull it; see validation/fit_forward.py.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fit_common import DATA, quantiles, report
from rightfit import facts
from rightfit.estimation.loading import case_columns, rates
from rightfit.physics.columns import Array
from rightfit.proof.family_predict import GROUPS, values_of
from rightfit.proof.tables import read_table

FILE = DATA / "coefficients/loading.toml"
FOLDS = Path(__file__).parent / "folds/loading.json"
NOISE = 0.1
PROBABILITIES = (0.025, 0.1, 0.9, 0.975)
#: A group has quantiles of its own with this many sources or rows (every error is that of a source
#: left out); others share those of all rates.
LEAST_SOURCES, MIN_ROWS = 3, 100


class Table:
    """Rows that a rate or a size can be told for."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        found, groups, read = values_of(rows)
        keep = [position for position, value in enumerate(found) if np.isfinite(value)]
        self.refused = [rows[position] for position in range(len(rows)) if position not in set(keep)]
        self.rows = [rows[position] for position in keep]
        self.group = np.array([groups[position] for position in keep])
        self.measured = np.array([float(row["measured"]) for row in self.rows])
        self.source = np.array([row["source"] for row in self.rows])
        self.read = [read[position] for position in keep]
        self.columns = case_columns([told.case for told in self.read])
        self.count = np.array([told.count for told in self.read])
        self.bundled = found[keep]
        self.fitted = np.isin(self.group, ("decode", "pipeline"))
        self.duration = np.array([row["metric"] == "duration_h" for row in self.rows])
        counts = {name: float(np.sum((self.source == name) & self.fitted)) for name in set(self.source)}
        self.weight = np.array([max(counts[name], 1.0) ** -0.25 for name in self.source])

    def predict(self, values: dict[str, float]) -> Array:
        with np.errstate(all="ignore"):
            rate = rates(self.columns, values)
        rate = np.where(self.duration, self.count / rate / 3600.0, rate)
        return np.where(self.fitted, rate, self.bundled)


def fit(table: Table, keep: np.ndarray, entries: dict[str, dict[str, object]]) -> dict[str, float]:
    """Coefficients fitted on the rows of `keep`; those without a spread stay."""
    fixed = {name: float(str(entry.get("prior", entry["value"]))) for name, entry in entries.items()}
    names = [name for name, entry in entries.items() if float(str(entry.get("spread", 0))) > 0]
    prior = np.log([fixed[name] for name in names])
    spread = np.array([float(str(entries[name]["spread"])) for name in names])
    rows = keep & table.fitted

    def residuals(offset: Array) -> Array:
        values = fixed | dict(zip(names, np.exp(prior + offset * spread), strict=True))
        scaled = (np.log(table.predict(values)) - np.log(table.measured))[rows] * table.weight[rows] / NOISE
        return np.concatenate([np.sign(scaled) * np.sqrt(2 * (np.sqrt(1 + scaled**2) - 1)), offset])

    found = least_squares(residuals, np.zeros(len(names)), method="trf", max_nfev=40, diff_step=1e-3)
    return fixed | {name: float(f"{value:.6g}") for name, value in zip(names, np.exp(prior + found.x * spread), strict=True)}


def left_out(table: Table, entries: dict[str, dict[str, object]]) -> dict[str, dict[str, float]]:
    """Coefficients fitted without each source."""
    return {source: fit(table, table.source != source, entries) for source in sorted(set(table.source))}


def predict_left_out(table: Table, folds: dict[str, dict[str, float]]) -> Array:
    out = np.zeros(len(table.rows))
    for source, values in folds.items():
        here = table.source == source
        out[here] = table.predict(values)[here]
    return out


def write(values: dict[str, float]) -> None:
    """Put the values into the coefficient file; everything else stays as it is."""
    text = FILE.read_text(encoding="utf-8")
    for name, value in values.items():
        text = re.sub(rf'(\["{name}"\]\nvalue = )\S+', rf"\g<1>{value:.6g}", text)
    FILE.write_text(text, encoding="utf-8")


def intervals(table: Table, predicted: Array) -> None:
    """Quantiles by group from left-out errors; groups of few sources share those of all.
    Prints what they cover."""
    widen = 1.0 + 0.15 * np.minimum([len(told.assumptions) * flag for told, flag in zip(table.read, table.fitted, strict=True)], 3)
    z = np.log(table.measured / predicted) / widen
    lines, source = [], "validation/fit_loading.py --intervals: quantiles of errors on left-out sources"
    for group in GROUPS:
        here = table.group == group
        own = len(set(table.source[here])) >= LEAST_SOURCES or np.sum(here) >= MIN_ROWS
        pooled = here if own else here | table.fitted
        # Rates that follow from the definition of a benchmark: a tenth for its rounding and rules
        # (engineering judgement).
        bounds = np.array([-0.2, -0.08, 0.06, 0.12]) if group == "emulated" else quantiles(z[pooled], table.source[pooled], PROBABILITIES)
        inside = [np.mean((z[here] >= bounds[a]) & (z[here] <= bounds[b])) for a, b in ((1, 2), (0, 3))]
        print(f"{group:10s} {np.sum(here):4d} rows  80 %: {inside[0]:.1%}  95 %: {inside[1]:.1%}  bounds {np.round(np.exp(bounds), 2)}")
        lines += [(group, f"{p:g}", f"{b:.4f}", source) for p, b in zip(PROBABILITIES, bounds, strict=True)]
    with (DATA / "loading_intervals.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("group", "name", "value", "source"))
        writer.writerows(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    for flag in ("--fit", "--write", "--loso", "--intervals"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--folds", type=Path)
    arguments = parser.parse_args()
    table = Table(read_table(arguments.truth, "data_loading"))
    entries = {name: dict(entry) for name, entry in facts.coefficient_entries("loading").items()}
    for row in table.refused:
        print("refused:", row["id"], row["source"], row["metric"], row["what"][:60])
    values = {name: float(str(entry["value"])) for name, entry in entries.items()}
    if arguments.fit:
        values = fit(table, np.ones(len(table.rows), dtype=bool), entries)
        print({name: value for name, value in values.items() if "prior" in entries[name]})
    report(
        "coefficients as they are" if not arguments.fit else "fitted on all: by source",
        table.source,
        table.predict(values) / table.measured,
    )
    out = table.predict(values)
    if arguments.loso:
        folds = left_out(table, entries)
        out = predict_left_out(table, folds)
        report("each source left out: by source", table.source, out / table.measured)
        report("each source left out: by group", table.group, out / table.measured)
        if arguments.folds:
            arguments.folds.write_text(
                json.dumps({name: {"loading": one} for name, one in folds.items()}, indent=1, sort_keys=True) + "\n", encoding="utf-8"
            )
    if arguments.intervals:
        folds = {name: one["loading"] for name, one in json.loads(FOLDS.read_text(encoding="utf-8")).items()}
        intervals(table, predict_left_out(table, folds))


if __name__ == "__main__":
    main()
