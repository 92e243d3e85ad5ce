"""Fit what a request to a classical model costs, on our own measurements: no published
table has such rows.

    python validation/fit_classical_service.py [--write]

Non-negative least squares of log-weighted seconds in call, tree and operation, for each
library and family, on calls of one row (a service scores one at a time; rows beside others
share what a tree costs) and, without trees, of a hundred, brought to a core of speed 1
(facts/data/classical_cpus.csv). Each case is also predicted with rates fitted without its
shape of table.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from rightfit.estimation.classical_rates import UNIT_CLOCK_GHZ
from rightfit.facts.machines import host_processor

HERE = Path(__file__).resolve().parent
MEASURED = HERE / "measured_classical_service.csv"
TARGET = HERE.parent / "src/rightfit/facts/data/coefficients/classical_service.toml"
SOURCE = "fitted by validation/fit_classical_service.py on validation/measured_classical_service.csv (CPU time of one thread, Zen 5)"
FAMILIES = {
    "gradient boosting": "boosting",
    "hist gradient boosting": "boosting",
    "random forest": "forest",
    "svm": "kernel",
    "knn": "neighbours",
}
LIBRARIES = {"scikit-learn": "sklearn"}
Rates = dict[tuple[str, str], tuple[float, float, float]]


def rows() -> list[dict[str, Any]]:
    """Measured calls of one row, and of a hundred where a row's operations are the same in any
    company; seconds on a core of speed 1."""
    with MEASURED.open(newline="") as lines:
        read = [row for row in csv.DictReader(lines) if row["rows"] == "1" or (row["rows"] == "100" and row["trees"] == "0")]
    for row in read:
        cpu = host_processor(row["hardware"])
        row["seconds"] = float(row["cpu_s"]) * cpu.clock_hz / 1e9 / UNIT_CLOCK_GHZ * cpu.work_per_cycle
        row["key"] = (FAMILIES.get(row["algorithm"], "linear"), LIBRARIES.get(row["library"], row["library"]))
    return read


def fit(read: Sequence[Mapping[str, Any]]) -> Rates:
    """Seconds of a call, of a tree and of an operation, by family and library."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in read:
        if row["library"] != "fastapi":
            groups[row["key"]].append(row)
    return {key: _rates(group) for key, group in groups.items()}


def _rates(group: Sequence[Mapping[str, Any]]) -> tuple[float, float, float]:
    seconds = np.array([row["seconds"] for row in group])
    columns = np.array([[1.0, float(row["trees"]), float(row["work"]) * float(row["rows"])] for row in group])
    scale = np.maximum(columns.max(axis=0), 1.0)
    found, _ = nnls(columns / scale / seconds[:, None], np.ones(len(group)))  # relative errors count
    call, tree, work = (float(value) for value in found / scale)
    return call, tree, work


def predicted(row: Mapping[str, Any], rates: Rates) -> float:
    """Seconds of a call."""
    call, tree, work = rates[row["key"]]
    return call + tree * float(row["trees"]) + work * float(row["work"]) * float(row["rows"])


def web(read: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Seconds of the web server: of a request, and of one number in it."""
    known = [row for row in read if row["library"] == "fastapi"]
    columns = np.array([[1.0, float(row["cols"])] for row in known])
    seconds = np.array([row["seconds"] for row in known])
    found, _ = nnls(columns / seconds[:, None], np.ones(len(known)))
    return float(found[0]), float(found[1])


def node_bytes(read: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Bytes of a node of a tree as pickled, by family and library: median over the cases, nodes as
    a full tree has them at most."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in read:
        if float(row["trees"]) and row["key"][0] in ("boosting", "forest"):
            leaves = min(2.0 ** float(row["depth"]), float(row["fitted_rows"]) / 20.0)
            found[row["key"]].append(float(row["model_mib"]) * 2.0**20 / (float(row["trees"]) * 2.0 * leaves))
    return {key: float(np.median(values)) for key, values in found.items()}


def factors(read: Sequence[Mapping[str, Any]], *, leave_out: bool) -> list[float]:
    """How many times a call was mistaken, either way; `leave_out`: with rates fitted without
    tables of its width."""
    out = []
    for row in read:
        if row["library"] == "fastapi":
            continue
        rates = fit([other for other in read if other["cols"] != row["cols"]] if leave_out else read)
        if row["key"] not in rates:
            continue
        out.append(float(np.exp(abs(np.log(max(predicted(row, rates), 1e-9) / row["seconds"])))))
    return out


def entries(read: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, str, str]]:
    """Every coefficient: value, unit, source."""
    request, cell = web(read)
    unit = "on a core of speed 1 (Skylake at 3 GHz)"
    out = {"web_us": (request * 1e6, f"microseconds {unit}", SOURCE), "cell_us": (cell * 1e6, f"microseconds a number {unit}", SOURCE)}
    rates = fit(read)
    for name, at, scale, word in (
        ("call_us", 0, 1e6, "microseconds"),
        ("tree_us", 1, 1e6, "microseconds a tree"),
        ("operation_ns", 2, 1e9, "ns"),
    ):
        for family in dict.fromkeys(key[0] for key in rates):
            if name == "tree_us" and family not in ("boosting", "forest"):
                continue
            of = {library: values[at] * scale for (kind, library), values in rates.items() if kind == family}
            out[f"{name}.{family}"] = (float(np.median(list(of.values()))), f"{word} {unit}", f"median of the libraries; {SOURCE}")
            out |= {f"{name}.{family}.{library}": (value, f"{word} {unit}", SOURCE) for library, value in of.items()}
    sizes = node_bytes(read)
    for family in ("boosting", "forest"):
        of = {library: value for (kind, library), value in sizes.items() if kind == family}
        out[f"node_bytes.{family}"] = (float(np.median(list(of.values()))), "byte", f"median of the libraries; {SOURCE}")
        out |= {f"node_bytes.{family}.{library}": (value, "byte", SOURCE) for library, value in of.items()}
    loaded = float(np.median([float(row["loaded_mib"]) for row in read if row["library"] != "fastapi"]))
    server = max(float(row["loaded_mib"]) for row in read if row["library"] == "fastapi")
    out["runtime_mib"] = (loaded + server, "MiB a worker", f"median of the libraries loaded, and the web server's process; {SOURCE}")
    stream = "k nearest neighbours of one row among 1,000,000 x 30 float64 numbers: 35.3 ms of CPU time on one Zen 5 core, least of five, scikit-learn 1.9"
    out["core_stream_gbps"] = (6.8, "GB/s of the model's bytes", stream)
    out["support_share"] = (
        0.4,
        "1",
        "judgement: the share of rows that stay support vectors in noisy problems lies between a fifth and a half",
    )
    return out


def main() -> None:
    """Show the errors, and with --write the coefficients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    read = rows()
    for leave_out in (False, True):
        found = factors(read, leave_out=leave_out)
        words = "width left out" if leave_out else "fitted on all"
        print(f"{words}: factor {np.median(found):.2f} at the median, {np.quantile(found, 0.9):.2f} at P90, {len(found)} calls")
    if options.write:
        head = "# What a request to a classical model costs a core, and what its workers hold. Written by validation/fit_classical_service.py.\n"
        blocks = [
            f'["{name}"]\nvalue = {value:.6g}\nunit = "{unit}"\nsource = "{source}"\n'
            for name, (value, unit, source) in entries(read).items()
        ]
        TARGET.write_text("\n".join([head, *blocks]), encoding="utf-8")


if __name__ == "__main__":
    main()
