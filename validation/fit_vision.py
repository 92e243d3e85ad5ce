"""Score and fit training time and memory of models that are not language models against measured
rows, leave-one-source-out.

    python validation/fit_vision.py TRUTH_DIR                    error tables of the bundled
                                                                 coefficients
    python validation/fit_vision.py TRUTH_DIR --fit [--write]    fit on all sources; --write puts
                                                                 them into coefficients/vision.toml
    python validation/fit_vision.py TRUTH_DIR --loso --folds validation/folds/vision.json
            each source left out; coefficients to the file
    python validation/fit_vision.py TRUTH_DIR --intervals        facts/data/vision_intervals.csv
                                                                 from the errors under
                                                                 validation/folds/vision.json

Every coefficient is positive and starts from a prior; the fit minimises robust squared log errors
plus the squared log distance from the priors in units of `spread`. A source weighs the square
root of its rows; the rounds of one benchmark are one publisher and are left out one by one as
sources, and all together in the line "one publisher" (--publisher). Rows whose note says SUSPECT
are not used.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fit_common import DATA, left_out_residuals, quantiles, report, write_coefficients, write_folds, write_intervals
from rightfit import facts
from rightfit.estimation.sample_figures import (
    FIT_METRICS,
    MEMORY_PARENT,
    PROBABILITIES,
    SAMPLE_MEMORY_METRIC,
    TIME_PARENT,
    fits_columns,
    interval_scale,
    parent_of,
    row_doubts,
    sample_interval_group,
    sample_metric_values,
)
from rightfit.physics.columns import Array
from rightfit.proof.cases.samples import samples_cases
from rightfit.proof.tables import corrected, read_corrections, read_table

FILE = DATA / "coefficients/vision.toml"
FOLDS = Path(__file__).parent / "folds/vision.json"
#: Error (log) that a row has all the same; larger trusts the priors more, which new sources want,
#: and rounds of a known code base less.
NOISE, MEMORY_NOISE = 0.15, 0.25
EVALUATIONS = 15
MIN_ROWS, MIN_SOURCES = 40, 2
ENOUGH_SOURCES = 6  # a group of fewer takes the wider of its own quantiles and its parent's: a new source is not like the few
DOUBT = 0.1
COUNTER = 0.6  # rows whose counter is guessed err about as much more at the same coverage, source by source
SOURCE_EXPONENT = -0.75  # weight of a row in the quantiles by its source's rows
MEMORY_NAMES = re.compile(r"autocast_copy|opened_bytes|kept_|live_layers|workspace|table_bytes|slack|context_bytes")
STARVED = re.compile(r"data-?loading bound|loader is the bottleneck|loader=|ffcv beton", re.IGNORECASE)
RUN_NAMES = re.compile(r"run_")


#: Members of a family may move together by this much (log): what is learned of measured stacks,
#: chips and kinds of layer carries over to those that no other source measured (as in
#: fit_forward.py).
POOLS = {
    "launch_s": 0.4,
    "launch_silicon": 0.2,
    "layer_s": 0.4,
    "step_s": 0.3,
    "fraction_silicon": 0.2,
    "fraction_stack": 0.2,
    "fraction_kind": 0.2,
    "unfused_stack": 0.3,
    "pointwise_kind": 0.3,
    "passes_kind": 0.3,
    "backward_traffic": 0.15,
    "bandwidth_fraction": 0.15,
    "layers_kind": 0.2,
    "local_straggler": 0.4,
    "straggler": 0.4,
}


class Table:
    """Usable rows as cases."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        self.rows = [row for row in rows if "SUSPECT" not in row["notes"]]
        read = samples_cases(self.rows)
        self.cases = read.cases
        self.kept = [self.rows[int(i)] for i in read.index]
        self.measured = np.array([float(row["measured"]) for row in self.kept])
        self.source = np.array([row["source"] for row in self.kept])
        self.metric = np.array([row["metric"] for row in self.kept])
        self.group = np.array([sample_interval_group(m, work.modality) for m, work in zip(self.metric, self.cases.works, strict=True)])
        counts = {name: float(np.sum(self.source == name)) for name in set(self.source)}
        self.weight = np.array([counts[name] ** -0.25 for name in self.source])
        # Rows whose own flags say that the input pipeline set the pace tell nothing about
        # computing: scored, not fitted.
        starved = np.array([bool(STARVED.search(f"{row['extra_flags']} {row['notes']}")) for row in self.kept])
        self.weight[starved] = 0.0

    def predict(self, values: dict[str, float]) -> Array:
        with np.errstate(all="ignore"):
            figures, _ = sample_metric_values(self.cases, values)
        stacked = np.stack([np.broadcast_to(figures[name], len(self.kept)) for name in figures])
        names = {name: i for i, name in enumerate(figures)}
        return np.asarray(stacked[np.array([names[m] for m in self.metric]), np.arange(len(self.metric))], dtype=np.float64)


def _part(table: Table, rows: np.ndarray) -> Table:
    """A table of these rows only: what a fit does not look at need not be predicted."""
    part = Table([row for row, here in zip(table.kept, rows, strict=True) if here])
    part.weight = table.weight[rows]
    return part


def _fit_part(
    table: Table,
    keep: np.ndarray,
    entries: dict[str, dict[str, object]],
    fixed: dict[str, float],
    names: list[str],
) -> dict[str, float]:
    prior = np.log([float(str(entries[name]["prior"])) for name in names])
    spread = np.array([float(str(entries[name]["spread"])) for name in names])
    table, keep = _part(table, keep), np.ones(int(np.sum(keep)), dtype=bool)
    target = np.log(table.measured)
    noise = MEMORY_NOISE if np.all(table.metric == SAMPLE_MEMORY_METRIC) else NOISE
    pooled = np.array([[POOLS[pool] * (name.partition(".")[0] == pool) for pool in POOLS] for name in names])
    pooled = pooled[:, pooled.any(axis=0)]

    def taken(offset: Array) -> dict[str, float]:
        logs = prior + offset[: len(names)] * spread + pooled @ offset[len(names) :]
        return fixed | dict(zip(names, (float(value) for value in np.exp(logs)), strict=True))

    def residuals(offset: Array) -> Array:
        values = taken(offset)
        errors = (np.log(table.predict(values)) - target)[keep] * table.weight[keep]
        scaled = errors / noise
        return np.concatenate([np.sign(scaled) * np.sqrt(2 * (np.sqrt(1 + scaled**2) - 1)), offset])

    first = np.zeros(len(names) + pooled.shape[1])
    found = least_squares(residuals, first, method="trf", max_nfev=EVALUATIONS, diff_step=1e-3)
    return taken(found.x)


def fit(table: Table, keep: np.ndarray, entries: dict[str, dict[str, object]], start: dict[str, float] | None = None) -> dict[str, float]:
    """Coefficients fitted on the rows of `keep`: memory and time apart, then what a whole run adds.

    `start`: coefficients of all rows, which a part that loses no row keeps; every other search
    begins at the priors.
    """
    values = {name: float(str(entry["prior"])) for name, entry in entries.items()}
    free = [name for name, entry in entries.items() if float(str(entry["spread"])) > 0]
    memory = table.metric == SAMPLE_MEMORY_METRIC
    run = table.metric == "time_to_train_min"
    used = set(_moved(table, entries, values, free))
    for rows, names in (
        (memory, [n for n in free if MEMORY_NAMES.match(n)]),
        (~memory & ~run, [n for n in free if not MEMORY_NAMES.match(n) and not RUN_NAMES.match(n)]),
        (run, [n for n in free if RUN_NAMES.match(n)]),
    ):
        part = [name for name in names if name in used]
        if start is not None and not np.any(rows & ~keep):
            values |= {name: start[name] for name in part}
        elif part and np.any(keep & rows):
            values = _fit_part(table, keep & rows, entries, values, part)
    return values


def _moved(table: Table, entries: dict[str, dict[str, object]], values: dict[str, float], free: list[str]) -> list[str]:
    """Coefficients that any prediction depends on."""
    base = np.log(table.predict(values))
    return [name for name in free if np.any(np.abs(np.log(table.predict(values | {name: values[name] * 1.2})) - base) > 1e-6)]


def report_all(title: str, table: Table, ratio: Array) -> None:
    for part, here in (
        ("rate", ~np.isin(table.metric, (SAMPLE_MEMORY_METRIC, "time_to_train_min"))),
        ("run", table.metric == "time_to_train_min"),
        ("memory", table.metric == SAMPLE_MEMORY_METRIC),
    ):
        report(f"{title}: {part} by source", table.source[here], ratio[here])
        report(f"{title}: {part} by group", table.group[here], ratio[here])


def calibrate(group: np.ndarray, z: Array, source: np.ndarray) -> dict[str, Array]:
    parents = np.array([parent_of(name) for name in group])
    found = {
        name: quantiles(z[parents == name], source[parents == name], PROBABILITIES, SOURCE_EXPONENT)
        for name in (TIME_PARENT, MEMORY_PARENT)
        if np.any(parents == name)
    }
    for name in sorted(set(group)):
        here = group == name
        if np.sum(here) >= MIN_ROWS and len(set(source[here])) >= MIN_SOURCES:
            own, parent = quantiles(z[here], source[here], PROBABILITIES, SOURCE_EXPONENT), found[parent_of(name)]
            wider = np.where(np.array(PROBABILITIES) < 0.5, np.minimum(own, parent), np.maximum(own, parent))
            few = (
                len(set(source[here])) < ENOUGH_SOURCES and parent_of(name) == TIME_PARENT
            )  # memory's parent is mostly another kind of program
            found[name] = wider if few else own
    return found


def row_scale(table: Table) -> Array:
    """How many times as wide as its group's each row's interval is."""
    memory = table.metric == SAMPLE_MEMORY_METRIC
    (doubts, _), (memory_doubts, unsure) = row_doubts(table.cases, ""), row_doubts(table.cases, SAMPLE_MEMORY_METRIC)
    return interval_scale(np.where(memory, memory_doubts, doubts), np.where(memory, unsure, 0.0), doubt=DOUBT, counter=COUNTER)


def intervals(table: Table) -> dict[str, Array]:
    scale = row_scale(table)
    z = left_out_residuals(table, FOLDS, "vision") / scale
    found = calibrate(table.group, z, table.source)
    bounds = np.array([found.get(name, found[parent_of(name)]) for name in table.group])
    nested = np.zeros_like(bounds)
    for source in sorted(set(table.source)):
        here = table.source == source
        without = calibrate(table.group[~here], z[~here], table.source[~here])
        nested[here] = [without.get(name, without.get(parent_of(name), found[parent_of(name)])) for name in table.group[here]]
    print(f"{'group':22s} rows sources  80 %: coverage nested width   95 %: the same")
    for name in [*sorted(set(table.group)), "all"]:
        here = table.group == name if name != "all" else np.ones(len(z), dtype=bool)
        line = f"{name:22s} {np.sum(here):4d} {len(set(table.source[here])):7d}"
        for low, high in ((1, 2), (0, 3)):
            inside, apart = (((q[:, low] <= z) & (z <= q[:, high]))[here] for q in (bounds, nested))
            line += f"  {np.mean(inside):6.1%} {np.mean(apart):6.1%} {np.exp(np.median(((bounds[:, high] - bounds[:, low]) * scale)[here])):6.2f}"
        print(line + ("" if name in found or name == "all" else "   takes the parent"))
    return found


def table_rows(folder: Path, name: str, *, as_stated: bool = False) -> list[dict[str, str]]:
    """Rows of a measured table with validation/corrections.csv applied, or as they
    stand in the table."""
    corrections = [] if as_stated else read_corrections(Path(__file__).parent)
    return corrected(name, read_table(folder, name), corrections)


def feasibility(folder: Path, values: dict[str, float], *, as_stated: bool = False) -> None:
    """Share of published fits / does-not-fit statements that the estimate agrees with."""
    rows = [row for row in table_rows(folder, "vision_oom", as_stated=as_stated) if row["metric"] in FIT_METRICS]
    read = samples_cases(rows)
    _, found = sample_metric_values(read.cases, values)
    said = np.array([rows[int(i)]["metric"] == "fits" for i in read.index]) == np.array(
        [float(rows[int(i)]["measured"]) > 0 for i in read.index]
    )
    agree = fits_columns(read.cases, found) == said
    print(
        f"\nfits / does not fit: {len(rows)} statements, {len(said)} answered, {np.sum(agree)} agreed ({np.mean(agree):.1%}); fits {np.sum(said)}, does not {np.sum(~said)}"
    )
    for i in np.flatnonzero(~agree)[:40]:
        row = rows[int(read.index[i])]
        print(
            "   ",
            row["model"],
            row["precision"],
            row["gpu"],
            row["image_size"],
            row["extra_flags"][:90],
            f"required {found.required_bytes[i] / 2**30:.1f} GiB",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--loso", action="store_true")
    parser.add_argument("--publisher", action="store_true", help="leave all rounds of the benchmark out together")
    parser.add_argument("--as-stated", action="store_true", help="without validation/corrections.csv")
    parser.add_argument("--folds", type=Path)
    parser.add_argument("--intervals", action="store_true")
    parser.add_argument("--oom", action="store_true")
    arguments = parser.parse_args()
    table = Table(table_rows(arguments.truth, "vision_train", as_stated=arguments.as_stated))
    entries = {name: dict(entry) for name, entry in facts.coefficient_entries("vision").items()}
    values = {name: float(str(entry["value"])) for name, entry in entries.items()}
    if arguments.intervals:
        found = intervals(table)
        judged = {group: {"doubt": DOUBT} | ({"counter": COUNTER} if parent_of(group) == MEMORY_PARENT else {}) for group in found}
        source = "validation/fit_vision.py --intervals: conformal quantiles of errors on left-out sources"
        write_intervals(DATA / "vision_intervals.csv", source, PROBABILITIES, found, judged)
        return
    print(f"{len(table.rows)} rows, {len(table.kept)} answered")
    started = time.time()
    everything = np.ones(len(table.measured), dtype=bool)
    if arguments.fit:
        values = fit(table, everything, entries)
        if arguments.write:
            command = "python validation/fit_vision.py TRUTH_DIR --fit --write"
            head = f"Coefficients of training that is not of language models. `value` was fitted from `prior` by: {command}"
            write_coefficients(FILE, head, values, entries)
        print(f"fitted in {time.time() - started:.0f} s")
    ratio = table.predict(values) / table.measured
    out = np.ones(len(ratio))
    if arguments.loso:
        folds = {}
        for source in sorted(set(table.source)):
            here = table.source == source
            folds[source] = fit(table, ~here, entries, values)
            print(f"{source}: {time.time() - started:.0f} s", flush=True)
            out[here] = (table.predict(folds[source]) / table.measured)[here]
        if arguments.folds:
            write_folds(arguments.folds, "vision", folds)
        report_all("left out", table, out)
    else:
        report_all("bundled" if not arguments.fit else "fitted on all", table, ratio)
    if arguments.publisher:
        here = np.array(["training_results" in name for name in table.source])
        part = fit(table, ~here, entries)
        report_all("one publisher left out", table, np.where(here, table.predict(part) / table.measured, 1.0))
    if arguments.oom:
        feasibility(arguments.truth, values, as_stated=arguments.as_stated)


if __name__ == "__main__":
    main()
