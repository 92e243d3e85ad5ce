"""Fit the coefficients of the serving physics to measured inference runs, and say how wrong it is
on sources left out.

    python validation/fit_serving.py TRUTH_DIR                    error tables with the coefficients
                                                                  that ship
    python validation/fit_serving.py TRUTH_DIR --fit              refit and write
                                                                  facts/data/coefficients/serving.toml
    python validation/fit_serving.py TRUTH_DIR --loso             error tables with each source left
                                                                  out of the fit
    python validation/fit_serving.py TRUTH_DIR --loso --folds OUT.json --intervals
            also write the fold coefficients and the intervals

Deterministic. Every coefficient moves in log space from its `prior` under a penalty that reflects
how well physics pins it; the loss is Cauchy's of log(predicted / measured); a source and kind of
metric counts by the square root of its rows.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation import serving
from rightfit.estimation.figures import PROBABILITIES, serving_interval_group
from rightfit.facts.tables import DATA
from rightfit.proof.cases.serving import ServingCases, serving_cases
from rightfit.proof.serving_predict import INFERENCE_METRICS, MEMORY_METRIC, case_doubts, is_generation
from rightfit.proof.tables import clean_row, read_cases

Array = NDArray[np.float64]
LOSS_SCALE = 0.12
# Standard deviation of a coefficient's logarithm around its prior.
SIGMAS = {
    "stream_fraction": 0.08,
    "gemm_fraction": 0.12,
    "kernel_quality": 0.10,
    "gemm_quality": 0.20,
    "attention_stream": 0.3,
    "link_fraction": 0.25,
    "all_reduce_s": 0.4,
    "expert_skew": 0.15,
    "interference": 0.15,
    "format_stream": 0.25,
    "format_gemm": 0.3,
    "stream_ramp_s": 0.5,
    "launch_s": 0.5,
    "context_bytes": 0.4,
    "cache_growth": 0.1,
    "workspace_factor": 0.3,
    "flash_fraction": 0.3,
    "workspace_bytes": 0.7,
    "mla_layer_s": 0.4,
    "moe_layer_s": 0.5,
    "linear_layer_s": 0.5,
    "index_layer_s": 0.5,
    "half_accumulation": 0.2,
    "pipeline_loss": 0.5,
    "port_stream": 0.3,
    "port_gemm": 0.4,
    "port_layer": 0.5,
    "format_launch": 0.15,
    "tensor_launch": 0.7,
    "joules_per_flop": 0.2,
    "repeat_passes": 0.3,
    "port_reduce": 0.5,
    "port_repeat": 0.7,
    "grouped_gemm": 0.3,
    # Measured on single kernels (validation/kernels).
    "format_gemm.fp8": 0.03,
    "grouped_gemm.generic": 0.03,
    "grouped_gemm.graph": 0.03,
    "grouped_gemm.vendor": 0.03,
    "expert_ramp": 0.4,
    "desktop_host": 0.25,
    "socket_crossing": 0.4,
    "host_staging": 0.3,
}
DEFAULT_SIGMA = 0.5
#: Rows whose notes say that the figure cannot be right.
DOUBTFUL = re.compile(
    r"treat as outlier|anomaly|probably not fp|avoid using|impossible|must be wrong|token count may include|flagged", re.IGNORECASE
)
FILE = DATA / "coefficients" / "serving.toml"


class Data:
    """Usable rows of language models with their measured values."""

    def __init__(self, folder: Path) -> None:
        path = next(path for path in (folder / "inference.csv", folder / "inference.csv.gz") if path.is_file())
        rows = [clean_row(row)[0] for row in read_cases(path)]
        self.all_rows = [row for row in rows if row["metric"] in INFERENCE_METRICS and is_generation(row)]
        self.rows = [row for row in self.all_rows if not DOUBTFUL.search(row["notes"])]
        cases = serving_cases(self.rows)
        self.cases: ServingCases = cases
        self.rows = [self.rows[int(i)] for i in cases.index]
        self.measured = np.array([float(row["measured"]) for row in self.rows])
        self.metric = np.array([row["metric"] for row in self.rows])
        self.source = np.array([row["source"] for row in self.rows])
        self.group = np.array([serving_interval_group(metric) for metric in self.metric])
        self.doubts = case_doubts(cases)

    def predict(self, values: Mapping[str, float], index: NDArray[np.intp] | None = None) -> Array:
        """Predicted metric of each row (or of rows `index`)."""
        index = np.arange(len(self.rows)) if index is None else index
        parts = [part.take(index) for part in (self.cases.model, self.cases.serve, self.cases.device, self.cases.links)]
        model, serve, device, links = parts
        times = serving.served_columns(model, serve, device, links, values=values)  # type: ignore[arg-type]
        found = serving.metric_values(serve, times)  # type: ignore[arg-type]
        memory = sum(serving.peak_memory_bytes(model, serve, device, values).values())  # type: ignore[arg-type]
        found[MEMORY_METRIC] = np.asarray(memory) / 2**30
        out = np.empty(len(index))
        for metric in np.unique(self.metric[index]):
            here = self.metric[index] == metric
            out[here] = np.broadcast_to(found[str(metric)], index.shape)[here]
        return out

    def residuals(self, values: Mapping[str, float], index: NDArray[np.intp] | None = None) -> Array:
        """log(predicted / measured)."""
        index = np.arange(len(self.rows)) if index is None else index
        with np.errstate(all="ignore"):
            found = np.log(self.predict(values, index) / self.measured[index])
        return np.clip(np.nan_to_num(found, nan=5.0), -5.0, 5.0)

    def weights(self) -> Array:
        """Weight of each row: a source and group of metrics counts by the
        square root of its rows."""
        keys = [f"{source}|{group}" for source, group in zip(self.source, self.group, strict=True)]
        names, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        assert len(names)
        return np.asarray(1.0 / np.sqrt(counts[inverse]))


def entries() -> dict[str, dict[str, object]]:
    """The coefficient file's entries."""
    return {key: dict(entry) for key, entry in facts.coefficient_entries("serving").items()}


def moved_keys(known: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Coefficients that a fit moves: by factors, so that what is nothing stays nothing."""
    return [key for key, entry in known.items() if float(str(entry["prior"])) > 0]


def sigma(key: str) -> float:
    """Prior standard deviation of a coefficient's logarithm."""
    return SIGMAS.get(key, SIGMAS.get(key.split(".")[0], DEFAULT_SIGMA))


def touched(data: Data, key: str) -> NDArray[np.intp]:
    """Rows that a coefficient can act on."""
    field, _, name = key.partition(".")
    serve = data.cases.serve
    if field in serving.BY_FAMILY:
        return _matches(serve.family, serving.family_names(), name, facts.coefficients("serving"), field)
    if field in serving.BY_LINK:
        return _matches(data.cases.links.intra_kind, serving.LINKS, name, facts.coefficients("serving"), field)
    if field.startswith(("format_", "port_")):
        first, _, engine = name.partition(".")
        column, names = (
            (serve.weight_format, serving.format_names()) if field.startswith("format_") else (serve.family, serving.family_names())
        )
        kin = [code for code, other in enumerate(serving.engine_classes()) if engine in serving._ancestors(other)]
        return np.flatnonzero((column == names.index(first)) & (np.isin(serve.engine, kin) if engine else True))
    if not name:
        return np.arange(len(data.rows))
    return _matches(serve.engine, serving.engine_classes(), name, facts.coefficients("serving"), field)


def _matches(column: Array, names: Sequence[str], name: str, values: Mapping[str, float], field: str) -> NDArray[np.intp]:
    if name != "default":
        return np.flatnonzero(np.isin(column, [code for code, other in enumerate(names) if name in serving._ancestors(other)]))
    own = [code for code, other in enumerate(names) if any(f"{field}.{kin}" in values for kin in serving._ancestors(other))]
    return np.flatnonzero(~np.isin(column, own))


def jacobian(data: Data, values: Mapping[str, float], keys: Sequence[str], rows_of: Mapping[str, NDArray[np.intp]], base: Array) -> Array:
    """Derivative of the residuals to the logarithm of each coefficient."""
    step = 0.02
    out = np.zeros((len(data.rows), len(keys)))
    for column, key in enumerate(keys):
        index = rows_of[key]
        if not len(index):
            continue
        out[index, column] = (data.residuals({**values, key: values[key] * np.exp(step)}, index) - base[index]) / step
    return out


def solve(matrix: Array, residual: Array, weight: Array, offset: Array, penalty: Array) -> Array:
    """Penalised, robustly weighted Gauss-Newton step."""
    robust = weight / (1.0 + (residual / LOSS_SCALE) ** 2)
    normal = matrix.T @ (matrix * robust[:, None]) / LOSS_SCALE**2 + np.diag(penalty)
    right = matrix.T @ (robust * residual) / LOSS_SCALE**2 + penalty * offset
    return np.asarray(np.linalg.solve(normal, -right))


def objective(residual: Array, weight: Array, offset: Array, penalty: Array) -> float:
    """What the fit makes small: robust errors and distance from the priors."""
    return float(np.sum(weight * np.log1p((residual / LOSS_SCALE) ** 2)) / 2 + np.sum(penalty * offset**2) / 2)


def fit(data: Data, *, iterations: int = 8) -> tuple[dict[str, float], Array, list[str]]:
    """Coefficients, the Jacobian at them, and the names of its columns."""
    known = entries()
    priors = {key: float(str(entry["prior"])) for key, entry in known.items()}
    values = {key: float(str(entry["value"])) for key, entry in known.items()}
    rows_of = {key: touched(data, key) for key in known}
    keys = moved_keys(known)
    weight = data.weights()
    penalty = np.array([1.0 / sigma(key) ** 2 for key in keys])
    matrix = np.zeros((len(data.rows), len(keys)))
    for round_number in range(iterations):
        base = data.residuals(values)
        matrix = jacobian(data, values, keys, rows_of, base)
        offset = np.array([np.log(values[key] / priors[key]) for key in keys])
        now = objective(base, weight, offset, penalty)
        step = np.clip(solve(matrix, base, weight, offset, penalty), -0.4, 0.4)
        for shrink in (1.0, 0.5, 0.25, 0.1):
            trial = {**values, **{key: values[key] * float(np.exp(shrink * move)) for key, move in zip(keys, step, strict=True)}}
            reached = objective(data.residuals(trial), weight, offset + shrink * step, penalty)
            if reached < now:
                values = trial
                break
        print(f"  round {round_number}: {now:.2f} -> {reached:.2f}", flush=True)
        if now - reached < 0.0007 * now:
            break
    return values, matrix, keys


def leave_one_out(data: Data, values: Mapping[str, float], matrix: Array, keys: Sequence[str]) -> tuple[Array, dict[str, dict[str, float]]]:
    """Residuals of each source with coefficients refitted without it (chord steps on the full fit's
    Jacobian), and those coefficients."""
    priors = {key: float(str(entry["prior"])) for key, entry in entries().items()}
    penalty = np.array([1.0 / sigma(key) ** 2 for key in keys])
    weight, out = data.weights(), np.empty(len(data.rows))
    folds: dict[str, dict[str, float]] = {}
    for source in np.unique(data.source):
        left, rest = np.flatnonzero(data.source == source), np.flatnonzero(data.source != source)
        trial = dict(values)
        base = data.residuals(trial, rest)
        for _ in range(4):
            offset = np.array([np.log(trial[key] / priors[key]) for key in keys])
            step = np.clip(solve(matrix[rest], base, weight[rest], offset, penalty), -0.5, 0.5)
            trial |= {key: trial[key] * float(np.exp(move)) for key, move in zip(keys, step, strict=True)}
            base = data.residuals(trial, rest)
        out[left] = data.residuals(trial, left)
        folds[str(source)] = {key: trial[key] for key in keys if abs(np.log(trial[key] / values[key])) > 1e-3}
    return out, folds


def weighted_quantile(values: Array, weights: Array, q: float) -> float:
    """Quantile where rows carry weights."""
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order]) / np.sum(weights)
    return float(values[order][np.searchsorted(cumulative, q)])


def report(data: Data, residual: Array, title: str) -> None:
    """Tables by group (rows alike and sources alike), and by group and source."""
    error = np.abs(np.exp(residual) - 1.0)
    print(f"\n{title}\n{'group':12} {'n':>5} {'median':>7} {'P90':>7}   sources alike (sqrt): median P90")
    for group in dict.fromkeys(data.group):
        here = np.flatnonzero(data.group == group)
        weight = data.weights()[here]
        quantiles = [weighted_quantile(error[here], weight, q) for q in (0.5, 0.9)]
        print(
            f"{group:12} {len(here):5} {np.median(error[here]):7.3f} {np.quantile(error[here], 0.9):7.3f}   {quantiles[0]:7.3f} {quantiles[1]:7.3f}"
        )
    print(f"\n{'group':12} {'source':36} {'class':9} {'n':>4} {'bias':>7} {'median':>7} {'P90':>7}")
    classes = np.array(serving.engine_classes())[data.cases.serve.engine.astype(int)]
    for key in sorted(set(zip(data.group, data.source, classes, strict=True))):
        here = (data.group == key[0]) & (data.source == key[1]) & (classes == key[2])
        bias, median, tail = np.median(residual[here]), np.median(error[here]), np.quantile(error[here], 0.9)
        print(f"{key[0]:12} {key[1]:36} {key[2]:9} {here.sum():4} {bias:7.2f} {median:7.3f} {tail:7.3f}")


def write_values(values: Mapping[str, float]) -> None:
    """Put the values into the coefficient file, all else as it is."""
    lines, key = [], ""
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            key = json.loads(line[1:-1])
        lines.append(f"value = {values[key]:.6g}" if line.startswith("value = ") else line)
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def interval_weights(data: Data, group: str) -> Array:
    """Weights of rows in a group's quantiles: its own sources, and all other figures of speed
    together as one source more.

    A figure that one large source dominates says little about the next source; the
    others' errors do.
    """
    own = data.group == group
    weight = np.where(own, data.weights(), 0.0)
    others = ~own & (data.group != "memory")
    if group == "memory" or not others.any():
        return weight
    share = weight.sum() / len(np.unique(data.source[own])) / data.weights()[others].sum()
    return np.asarray(weight + np.where(others, data.weights() * share, 0.0))


def write_intervals(data: Data, residual: Array) -> None:
    """Quantiles of the errors on sources left out, by group; the width per assumed
    input is set first."""
    path = DATA / "serving_intervals.csv"
    old = list(csv.DictReader(path.open(encoding="utf-8")))
    fitted = set(data.group)
    rows = [row for row in old if row["group"] not in fitted]
    source = "validation/fit_serving.py --intervals: conformal quantiles of errors on left-out sources"
    for group in dict.fromkeys(data.group):
        doubt = 0.15
        z = -residual / (1.0 + doubt * np.minimum(data.doubts, 3.0))
        weight = interval_weights(data, group)
        counted = weight > 0
        quantiles = {p: weighted_quantile(z[counted], weight[counted], p) for p in PROBABILITIES}
        rows += [{"group": group, "name": f"{p:g}", "value": f"{value:.4f}", "source": source} for p, value in quantiles.items()]
        rows.append({"group": group, "name": "doubt", "value": f"{doubt}", "source": source})
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ("group", "name", "value", "source"), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("truth", type=Path)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--loso", action="store_true")
    parser.add_argument("--folds", type=Path)
    parser.add_argument("--intervals", action="store_true")
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    data = Data(options.truth)
    print(f"{len(data.all_rows)} rows of language models, {len(data.rows)} usable")
    values: dict[str, float] = dict(facts.coefficients("serving"))
    if options.fit:
        values, matrix, keys = fit(data, iterations=options.rounds)
        write_values(values)
    elif options.loso:
        rows_of = {key: touched(data, key) for key in values}
        keys = list(values)
        matrix = jacobian(data, values, keys, rows_of, data.residuals(values))
    report(data, data.residuals(values), "with all sources")
    if options.loso:
        residual, folds = leave_one_out(data, values, matrix, keys)
        report(data, residual, "with each source left out")
        if options.folds:
            known = json.loads(options.folds.read_text(encoding="utf-8")) if options.folds.exists() else {}
            for source, found in folds.items():
                known.setdefault(source, {})["serving"] = found
            options.folds.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        if options.intervals:
            write_intervals(data, residual)


if __name__ == "__main__":
    main()
