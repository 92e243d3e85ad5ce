"""What the fits of coefficients share: reports of errors, the files that they write, and the errors
of rows under coefficients that were fitted without their source."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rightfit import facts
from rightfit.physics.columns import Array

DATA = Path(__file__).parents[1] / "src/rightfit/facts/data"
Entries = Mapping[str, Mapping[str, object]]
_JUDGED = "engineering judgement; the quantiles above were taken with it"


class Rows(Protocol):
    """Measured rows that coefficients predict."""

    measured: Array
    source: np.ndarray

    def predict(self, values: Any) -> Array: ...


def report(title: str, groups: np.ndarray, ratio: Array) -> None:
    """Absolute error at the median and P90, and the bias, of predicted / measured by group."""
    print(f"\n{title:48s} rows  median   P90  signed")
    for name in [*sorted(set(groups)), "all"]:
        here = ratio[groups == name] if name != "all" else ratio
        if len(here):
            error = np.abs(here - 1)
            print(f"{name[:48]:48s} {len(here):5d} {np.median(error):6.1%} {np.percentile(error, 90):6.1%} {np.median(here) - 1:+6.1%}")


def write_coefficients(path: Path, head: str, values: Mapping[str, float], entries: Entries) -> None:
    """Write coefficients with their priors, spreads, units and sources."""
    lines = [f"# {head}", ""]
    for name, entry in entries.items():
        lines += [f'["{name}"]', f"value = {values[name]:.6g}"]
        lines += [f"{key} = {entry[key]}" for key in ("prior", "spread")]
        lines += [f'{key} = "{entry[key]}"' for key in ("unit", "source") if key in entry]
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")


def write_folds(path: Path, family: str, folds: Mapping[str, Mapping[str, float]]) -> None:
    """Write the coefficients of every source left out."""
    cut = {source: {family: {name: float(f"{value:.6g}") for name, value in values.items()}} for source, values in folds.items()}
    path.write_text(json.dumps(cut, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def left_out_residuals(table: Rows, folds: Path, family: str) -> Array:
    """log(measured / predicted) of every row, under coefficients fitted without its source; one
    that its fold does not hold is that of all sources, as in `rightfit.proof.left_out`."""
    values = json.loads(folds.read_text(encoding="utf-8"))
    bundled = facts.coefficients(family)
    out = np.zeros(len(table.measured))
    for source in sorted(set(table.source)):
        here = table.source == source
        out[here] = np.log(table.measured / table.predict({**bundled, **values[source][family]}))[here]
    return out


def source_weights(source: np.ndarray, exponent: float = -0.5) -> Array:
    """Weights by which sources count more nearly alike than their rows: a row of a source of n rows
    counts n^exponent."""
    _, inverse, counts = np.unique(source, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse] ** exponent, dtype=np.float64)


def quantiles(z: Array, source: np.ndarray, probabilities: Sequence[float], exponent: float = -0.5) -> Array:
    """Weighted quantiles of errors."""
    order = np.argsort(z, kind="stable")
    cumulative = np.cumsum(source_weights(source, exponent)[order])
    return np.asarray(z[order][np.minimum(np.searchsorted(cumulative / cumulative[-1], probabilities), len(z) - 1)])


def write_intervals(
    path: Path,
    source: str,
    probabilities: Sequence[float],
    found: Mapping[str, Array],
    judged: Mapping[str, Mapping[str, float]],
    behind: Sequence[Mapping[str, str]] = (),
) -> None:
    """Write the quantiles of each group, what was judged of it, and rows that stay as they are."""
    rows: list[Mapping[str, str]] = []
    for group, values in found.items():
        rows += [
            {"group": group, "name": f"{p:g}", "value": f"{value:.4f}", "source": source}
            for p, value in zip(probabilities, values, strict=True)
        ]
        rows += [{"group": group, "name": name, "value": f"{value}", "source": _JUDGED} for name, value in judged.get(group, {}).items()]
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ("group", "name", "value", "source"), lineterminator="\n")
        writer.writeheader()
        writer.writerows([*rows, *behind])
