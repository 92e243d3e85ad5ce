"""Score and fit the forward physics (vision, encoders, diffusion, speech) against measured
inference rows, leave-one-source-out.

    python validation/fit_forward.py TRUTH_DIR             error table by source, each source under
                                                           coefficients fitted without it
    python validation/fit_forward.py TRUTH_DIR --write     also write the coefficients fitted on all
                                                           sources to coefficients/forward.toml
    python validation/fit_forward.py TRUTH_DIR --no-fit    score the bundled coefficients only
    python validation/fit_forward.py TRUTH_DIR --folds validation/folds/forward.json
    python validation/fit_forward.py TRUTH_DIR --intervals   intervals from the errors under
                                                             validation/folds/forward.json (no fit)

Every coefficient is positive and starts from a prior; the fit minimises robust squared log errors,
each source weighing the square root of its rows, plus the squared log distance from the priors in
units of `spread`. Families of coefficients (POOLS) share one more offset, so that a member without
data moves with what the others say of the whole family, and one of no family stays at its prior.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fit_common import DATA, left_out_residuals, quantiles, report, source_weights, write_coefficients, write_folds, write_intervals
from rightfit import facts
from rightfit.estimation.figures import MEMORY_KIND, PROBABILITIES, SERVING_PARENT, serving_interval_group
from rightfit.estimation.forward import CaseColumns, pass_metric_values
from rightfit.physics.columns import Array
from rightfit.proof.cases.forward import forward_rows, is_forward
from rightfit.proof.family_predict import regimes
from rightfit.proof.tables import read_table

FILE = DATA / "coefficients/forward.toml"
FOLDS = Path(__file__).parent / "folds/forward.json"
#: Rows that a group needs for quantiles of its own, and the widening by each assumed input, as for
#: language models: rows with one assumption err no more than those with none, so the data neither
#: sets nor refutes it.
MIN_ROWS = 100
FEW_ROWS = 10  # with so many a group takes the wider of its own bounds and those of all rows
DOUBT = 0.15


#: Families whose priors may be off together, with the spread of that common offset (log): what
#: is learned of measured engines, chips and kinds of layer carries over to those that no
#: source measured.
POOLS = {
    "layer_s": 0.5,
    "launch_s": 0.4,
    "call_s": 0.4,
    "fraction_engine": 0.3,
    "fraction_silicon": 0.3,
    "unfused_engine": 0.3,
    "pointwise_kind": 0.3,
    "passes_kind": 0.3,
    "layer_silicon": 0.3,
    "bandwidth_fraction": 0.2,
}


class Table:
    """Rows of models without token-by-token generation, as cases."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        self.rows = [row for row in rows if is_forward(row)]
        self.read = forward_rows(self.rows)
        self.cases: CaseColumns = self.read.columns
        kept = [self.rows[i] for i in self.read.index]
        self.kept = kept
        self.measured = np.array([float(row["measured"]) for row in kept])
        self.source = np.array([row["source"] for row in kept])
        self.metric = np.array([row["metric"] for row in kept])
        counts = {name: float(np.sum(self.source == name)) for name in set(self.source)}
        self.weight = np.array([counts[name] ** -0.25 for name in self.source])

    def predict(self, values: dict[str, float]) -> Array:
        figures = pass_metric_values(self.cases, values)
        stacked = np.stack([figures[name] for name in figures])
        names = {name: i for i, name in enumerate(figures)}
        return np.asarray(stacked[np.array([names[m] for m in self.metric]), np.arange(len(self.metric))], dtype=np.float64)


def fit(table: Table, keep: np.ndarray, entries: dict[str, dict[str, object]]) -> dict[str, float]:
    """Coefficients fitted on the rows of `keep`."""
    names = [name for name, entry in entries.items() if float(str(entry["spread"])) > 0]
    fixed = {name: float(str(entry["prior"])) for name, entry in entries.items()}
    prior = np.log([fixed[name] for name in names])
    spread = np.array([float(str(entries[name]["spread"])) for name in names])
    pooled = np.array([[POOLS[pool] * (name.partition(".")[0] == pool) for pool in POOLS] for name in names])
    target = np.log(table.measured)

    def taken(offset: Array) -> dict[str, float]:
        logs = prior + offset[: len(names)] * spread + pooled @ offset[len(names) :]
        return fixed | {name: float(value) for name, value in zip(names, np.exp(logs), strict=True)}

    def residuals(offset: Array) -> Array:
        errors = (np.log(table.predict(taken(offset))) - target)[keep] * table.weight[keep]
        scaled = errors / NOISE
        robust = np.sign(scaled) * np.sqrt(2 * (np.sqrt(1 + scaled**2) - 1))
        return np.concatenate([robust, offset])

    found = least_squares(residuals, np.zeros(len(names) + len(POOLS)), method="trf", max_nfev=20, diff_step=1e-3)
    return taken(found.x)


NOISE = 0.08


def calibrate(group: np.ndarray, z: Array, source: np.ndarray) -> dict[str, Array]:
    """Quantiles of the parent (all rows but those of memory) and by group: its own with MIN_ROWS
    rows, the wider of both with FEW_ROWS."""
    parent = group != MEMORY_KIND
    found = {SERVING_PARENT: quantiles(z[parent], source[parent], PROBABILITIES)}
    for name in sorted(set(group) - {SERVING_PARENT}):
        here = group == name
        if np.sum(here) < FEW_ROWS:
            continue
        own = quantiles(z[here], source[here], PROBABILITIES)
        wider = np.where(np.array(PROBABILITIES) < 0.5, np.minimum(own, found[SERVING_PARENT]), np.maximum(own, found[SERVING_PARENT]))
        found[name] = own if np.sum(here) >= MIN_ROWS else wider
    return found


def intervals(table: Table) -> dict[str, Array]:
    """Quantiles by group; prints the coverage, also where the quantiles too were taken without the
    row's source ("nested")."""
    group = np.array([serving_interval_group(m, modality=work.modality) for m, work in zip(table.metric, table.cases.works, strict=True)])
    scale = 1.0 + DOUBT * np.minimum([len(assumed) for assumed in table.read.assumptions], 3.0)
    z = left_out_residuals(table, FOLDS, "forward") / scale
    found = calibrate(group, z, table.source)
    bounds = np.array([found.get(name, found[SERVING_PARENT]) for name in group])
    nested = np.zeros_like(bounds)
    for source in sorted(set(table.source)):
        here = table.source == source
        without = calibrate(group[~here], z[~here], table.source[~here])
        nested[here] = [without.get(name, without[SERVING_PARENT]) for name in group[here]]
    print(f"{'group':20s} rows sources  80 %: coverage (sources alike) nested width   95 %: the same      width = high / low, median")
    for name in [*sorted(set(group)), "all"]:
        here = group == name if name != "all" else np.ones(len(z), dtype=bool)
        line = f"{name:20s} {np.sum(here):4d} {len(set(table.source[here])):7d}"
        for low, high in ((1, 2), (0, 3)):
            inside, apart = (((q[:, low] <= z) & (z <= q[:, high]))[here] for q in (bounds, nested))
            width = np.exp(np.median(((bounds[:, high] - bounds[:, low]) * scale)[here]))
            line += f"  {np.mean(inside):6.1%} ({np.average(inside, weights=source_weights(table.source[here])):6.1%}) {np.mean(apart):6.1%} {width:6.2f}"
        print(line + ("" if name in found or name == "all" else f"   takes {SERVING_PARENT!r}"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--no-fit", action="store_true")
    parser.add_argument("--folds", type=Path, help="write the coefficients of every source left out to this file")
    parser.add_argument("--intervals", action="store_true", help="write facts/data/serving_intervals.csv and do nothing else")
    arguments = parser.parse_args()
    table = Table(read_table(arguments.truth, "inference"))
    if arguments.intervals:
        path, found = DATA / "serving_intervals.csv", intervals(table)
        of_language = [row for row in csv.DictReader(path.open(encoding="utf-8")) if not row["group"].startswith(SERVING_PARENT)]
        source = "validation/fit_forward.py --intervals: conformal quantiles of errors on left-out sources"
        write_intervals(path, source, PROBABILITIES, found, {group: {"doubt": DOUBT} for group in found}, of_language)
        return
    entries = {name: dict(entry) for name, entry in facts.coefficient_entries("forward").items()}
    for position, reason in table.read.refused.items():
        print("refused:", table.rows[position]["source"], table.rows[position]["model"], reason)
    print(f"{len(table.rows)} rows, {len(table.cases)} answered")
    values = {name: float(str(entry["value"])) for name, entry in entries.items()}
    start = datetime.datetime.now(tz=datetime.UTC)
    if not arguments.no_fit:
        values = fit(table, np.ones(len(table.measured), dtype=bool), entries)
    ratio = table.predict(values) / table.measured
    report("fitted on all: by source", table.source, ratio)
    left_out = np.ones(len(ratio))
    folds: dict[str, dict[str, float]] = {}
    if not arguments.no_fit:
        for source in sorted(set(table.source)):
            here = table.source == source
            folds[source] = fit(table, ~here, entries)
            left_out[here] = (table.predict(folds[source]) / table.measured)[here]
        report("leave one source out: by source", table.source, left_out)
        report("leave one source out: by metric", table.metric, left_out)
        report("leave one source out: by regime", np.array(regimes(table.cases)), left_out)
    print("seconds:", (datetime.datetime.now(tz=datetime.UTC) - start).total_seconds())
    if arguments.folds and folds:
        write_folds(arguments.folds, "forward", folds)
    if arguments.write:
        command = "python validation/fit_forward.py TRUTH_DIR --write"
        write_coefficients(FILE, f"Coefficients of the forward physics. `value` was fitted from `prior` by: {command}", values, entries)


if __name__ == "__main__":
    main()
