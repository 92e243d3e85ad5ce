"""Fit the coefficients of the time physics to measured throughput, and say how wrong it is.

    python validation/fit_speed.py TRUTH_DIR                    error tables with the coefficients
                                                                that ship
    python validation/fit_speed.py TRUTH_DIR --fit              refit all coefficients and write
                                                                facts/data/coefficients/*.toml
    python validation/fit_speed.py TRUTH_DIR --folds OUT.json   refit once for every source left out
                                                                and write its coefficients

Deterministic. Each coefficient moves in log space from its prior (the `prior` entry of its TOML
table) under a penalty that reflects how well physics pins it; the loss is Cauchy's of
log(predicted / measured), so that a wrong row pulls little; a source counts by the square root of
its rows. Coefficients that no row informs stay at their prior.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from rightfit.estimation import training
from rightfit.facts import tables
from rightfit.proof.cases.training import TrainingCases, training_cases
from rightfit.proof.left_out import substituted
from rightfit.proof.tables import read_table

FILES = ("compute", "network", "software")
LOSS_SCALE = 0.16
PENALTY = 1.0
# How far a coefficient may drift from its prior: standard deviation of its logarithm, by field;
# data-sheet-like fields are held tightly.
SIGMAS = {
    "gemm_fraction": 0.10,
    "vector_fraction": 0.06,
    "joules_per_flop": 0.20,
    "ramp_k": 0.5,
    "bandwidth_fraction": 0.08,
    "eager_attention": 0.4,
    "flash_forward": 0.15,
    "flash_backward": 0.15,
    "first_flash_forward": 0.15,
    "first_flash_backward": 0.15,
    "best_flash_forward": 0.15,
    "best_flash_backward": 0.15,
    "gemm_quality": 0.06,
    "layer_forward_cpu_s": 0.5,
    "fsdp_layer_cpu_s": 0.7,
    "expert_cpu_s": 1.0,
    "step_cpu_s": 0.7,
    "update_cpu_s": 0.7,
    "overlap": 0.2,
    "pass_factor": 0.25,
    "softmax_passes": 0.25,
    "update_passes": 0.25,
    "expert_gemm": 0.2,
    "selective_share": 0.3,
    "dequantise_fraction": 0.25,
    "fp8_overhead_passes": 0.3,
    "weight_sync_bandwidth": 0.5,
    "weight_sync_s": 0.5,
    "context_overlap": 0.3,
    "switch_fraction": 0.15,
    "mesh_fraction": 0.2,
    "pcie_fraction": 0.15,
    "socket_fraction": 0.4,
    "inter_fraction": 0.2,
    "straggler": 1.0,
    "local_straggler": 0.7,
    "card_straggler": 0.5,
}
SHARES = {
    "overlap",
    "gemm_quality",
    "switch_fraction",
    "mesh_fraction",
    "inter_fraction",
    "context_overlap",
    "pipeline_overlap",
    "expert_overlap",
    "tensor_overlap",
}


def read_rows(truth: Path, *, usable: bool = True) -> list[dict[str, str]]:
    """Rows of the throughput table."""
    return [row for row in read_table(truth, "train_throughput") if not usable or row["usable"] == "1"]


class Problem:
    """The measured rows as columns, and predictions under any coefficients."""

    def __init__(self, rows: Sequence[dict[str, str]]) -> None:
        self.cases: TrainingCases = training_cases(list(rows))
        self.rows = [rows[i] for i in self.cases.index]
        self.measured = np.array([float(row["measured"]) for row in self.rows])
        self.source = np.array([row["source"] for row in self.rows])
        sizes = {name: int(np.sum(self.source == name)) for name in np.unique(self.source)}
        # Rows without a length say little about speed: the mean of instruction data
        # is assumed for them.
        known = np.array([1.0 if row["seq_len"] else 0.2 for row in self.rows])
        self.weight = np.array([sizes[name] ** -0.25 for name in self.source]) * known

    def predict(self) -> np.ndarray:
        """Tokens per second and GPU with the current coefficients."""
        case = self.cases
        step = training.step_columns(case.model, case.setup, case.device, case.links)
        return case.setup.tokens_per_step / (step.step_s * case.setup.num_gpus)

    def log_errors(self) -> np.ndarray:
        """log(predicted / measured)."""
        return np.log(self.predict() / self.measured)


def priors() -> dict[tuple[str, str], float]:
    """Every positive coefficient: (file, key) -> prior value."""
    found = {}
    for name in FILES:
        for key, entry in tables.coefficient_entries(name).items():
            value = float(str(entry.get("prior", entry["value"])))
            if value > 0 and key.partition(".")[0] in SIGMAS:
                found[(name, key)] = value
    return found


def sigma(key: str) -> float:
    """Prior spread of a coefficient's logarithm."""
    return SIGMAS[key.partition(".")[0]]


def as_values(keys: Sequence[tuple[str, str]], start: np.ndarray, move: np.ndarray) -> dict[str, dict[str, float]]:
    """Coefficient files with `start` moved by exp(move * sigma)."""
    values: dict[str, dict[str, float]] = {name: {} for name in FILES}
    for (name, key), base, step in zip(keys, start, move, strict=True):
        value = float(base * math.exp(step * sigma(key)))
        values[name][key] = min(value, 1.0) if key.partition(".")[0] in SHARES else value
    return values


def fit(
    problem: Problem,
    *,
    leave_out: str = "",
    begin: np.ndarray | None = None,
    active: np.ndarray | None = None,
    evaluations: int = 25,
) -> tuple[dict[str, dict[str, float]], np.ndarray]:
    """Coefficients that fit all rows but those of `leave_out`, and their moves from the prior."""
    known = priors()
    keys = list(known)
    start = np.array([known[key] for key in keys])
    use = problem.source != leave_out
    active = informative(problem, keys, start) if active is None else active
    move0 = np.zeros(len(keys)) if begin is None else begin.copy()

    def residuals(part: np.ndarray) -> np.ndarray:
        move = move0.copy()
        move[active] = part
        with substituted(as_values(keys, start, move)):
            error = problem.log_errors()[use]
        scaled = error / LOSS_SCALE
        soft = np.sign(scaled) * np.sqrt(np.log1p(scaled**2))
        return np.concatenate([soft * problem.weight[use], PENALTY * part])

    result = least_squares(residuals, move0[active], method="trf", max_nfev=evaluations, diff_step=0.02, xtol=1e-4, ftol=1e-4)
    move0[active] = result.x
    return as_values(keys, start, move0), move0


def informative(problem: Problem, keys: Sequence[tuple[str, str]], start: np.ndarray) -> np.ndarray:
    """Indices of coefficients that change some prediction."""
    base = problem.predict()
    moved = []
    for i in range(len(keys)):
        move = np.zeros(len(keys))
        move[i] = 0.5
        with substituted(as_values(keys, start, move)):
            if np.any(np.abs(problem.predict() / base - 1.0) > 1e-6):
                moved.append(i)
    return np.array(moved, dtype=np.intp)


def table(title: str, groups: Sequence[tuple[str, np.ndarray]], error: np.ndarray) -> None:
    """Print median, P90 and signed median of each group."""
    print(f"\n{title:34s} {'rows':>5s} {'median':>7s} {'P90':>7s} {'signed':>7s}")
    for name, index in groups:
        part = error[index]
        print(
            f"{name[:34]:34s} {len(part):5d} {np.median(np.abs(part)):7.1%} {np.quantile(np.abs(part), 0.9):7.1%} {np.median(part):+7.1%}"
        )


def report(problem: Problem, predicted: np.ndarray, *, worst: int = 10) -> None:
    """Error tables of predictions."""
    error = predicted / problem.measured - 1.0
    rows = problem.rows
    gpus = np.array([float(row["n_gpus"] or 1) for row in rows])
    many = np.array([float(row["n_gpus"] or 1) > 8 for row in rows])
    parallel = np.array([any(float(row[k] or 1) > 1 for k in ("tp", "pp", "ep", "cp")) for row in rows])
    everything = [("all", np.arange(len(rows))), ("one node", np.flatnonzero(~many)), ("many nodes", np.flatnonzero(many))]
    everything.append(("many nodes with tp/pp/cp/ep", np.flatnonzero(many & parallel)))
    everything.append(("one GPU", np.flatnonzero(gpus == 1)))
    table("all", everything, error)
    per_source = [np.median(np.abs(error[problem.source == name])) for name in np.unique(problem.source)]
    print(f"median of per-source medians {np.median(per_source):.1%}")
    for column in ("source", "gpu", "method", "strategy", "precision"):
        values = [row[column] for row in rows]
        table(column, [(name, np.flatnonzero(np.array(values) == name)) for name in sorted(set(values))], error)
    order = np.argsort(-np.abs(np.log(predicted / problem.measured)))[:worst]
    case = problem.cases
    step = training.step_columns(case.model, case.setup, case.device, case.links)
    print("\nworst rows")
    for i in order:
        row = rows[i]
        shares = {name: float(np.broadcast_to(value, len(rows))[i] / step.step_s[i]) for name, value in step.terms.items()}
        top = max(shares, key=lambda name: shares[name])
        print(
            f"{row['id']} {error[i]:+.0%} {row['source']} {row['model']} {row['gpu']} x{row['n_gpus']} {row['strategy']} {top} {shares[top]:.0%}"
        )


def write(values: dict[str, dict[str, float]], command: str) -> None:
    """Write coefficients back to their files, keeping priors, units and sources."""
    for name in FILES:
        entries = tables.coefficient_entries(name)
        lines = [f"# Coefficients of the time physics. `value` was fitted from `prior` by: {command}", ""]
        for key, entry in entries.items():
            prior = float(str(entry.get("prior", entry["value"])))
            value = values[name].get(key, prior)
            lines += [
                f'["{key}"]',
                f"value = {value:.6g}",
                f"prior = {prior:.6g}",
                f'unit = "{entry["unit"]}"',
                f'source = "{entry["source"]}"',
                "",
            ]
        (tables.DATA / "coefficients" / f"{name}.toml").write_text("\n".join(lines), encoding="utf-8")


def linear_moves(problem: Problem, move: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log errors at `move` and their slope in each active coefficient."""
    known = priors()
    keys, start = list(known), np.array(list(known.values()))

    def errors(at: np.ndarray) -> np.ndarray:
        with substituted(as_values(keys, start, at)):
            return problem.log_errors()

    base = errors(move)
    slopes = np.empty((len(base), len(active)))
    for column, index in enumerate(active):
        moved = move.copy()
        moved[index] += 0.05
        slopes[:, column] = (errors(moved) - base) / 0.05
    return base, slopes


def refit_without(
    problem: Problem, move: np.ndarray, active: np.ndarray, base: np.ndarray, slopes: np.ndarray, use: np.ndarray
) -> np.ndarray:
    """Moves that minimise the same loss over the rows `use`, predictions taken as linear around
    `move` (reweighted least squares)."""
    part = move[active].copy()
    penalty = PENALTY**2 * np.eye(len(active))
    weight = (problem.weight[use] / LOSS_SCALE) ** 2
    for _ in range(60):
        error = base[use] + slopes[use] @ (part - move[active])
        robust = weight / (1.0 + (error / LOSS_SCALE) ** 2)
        normal = slopes[use].T @ (slopes[use] * robust[:, None]) + penalty
        part = part - 0.7 * np.linalg.solve(normal, slopes[use].T @ (robust * error) + PENALTY**2 * part)
    out = move.copy()
    out[active] = np.clip(part, -4.0, 4.0)
    return out


def leave_one_out(problem: Problem) -> tuple[np.ndarray, dict[str, Any]]:
    """Predictions of each source with coefficients refitted without it.

    The refit is linearised around the fit to all rows; predictions are then made by the full model.
    """
    known = priors()
    keys, start = list(known), np.array(list(known.values()))
    active = informative(problem, keys, start)
    _, move = fit(problem, active=active)
    base, slopes = linear_moves(problem, move, active)
    predicted = np.empty(len(problem.rows))
    folds: dict[str, Any] = {}
    for name in np.unique(problem.source):
        inside = problem.source == name
        values = as_values(keys, start, refit_without(problem, move, active, base, slopes, ~inside))
        folds[str(name)] = values
        with substituted(values):
            predicted[inside] = problem.predict()[inside]
    return predicted, folds


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--folds", type=Path)
    arguments = parser.parse_args()
    problem = Problem(read_rows(arguments.truth))
    if arguments.fit:
        values, _ = fit(problem)
        write(values, "python validation/fit_speed.py TRUTH_DIR --fit")
        tables.coefficient_entries.cache_clear()
        with substituted({}):
            report(problem, problem.predict())
    elif arguments.folds:
        predicted, folds = leave_one_out(problem)
        arguments.folds.write_text(json.dumps(folds, indent=1, sort_keys=True), encoding="utf-8")
        report(problem, predicted)
    else:
        report(problem, problem.predict())


if __name__ == "__main__":
    main()
