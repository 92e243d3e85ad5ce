"""Run benchmarks by name and append what they say to benchmarks/history.csv.

Usage: scripts/bench NAME ... [--dry-run]     (without a name: which there are, from
                                              benchmarks/tracked.toml; --dry-run appends nothing)

A line: date, commit ("+" behind it: with changes that are not committed), cores, load of the
machine before the run (processes that want a core, over the last minute), name, ratio, figures.
Compare ratios where cores are the same and no load exceeds them.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE, HISTORY = ROOT / "benchmarks" / "tracked.toml", ROOT / "benchmarks" / "history.csv"
COLUMNS = ("date", "commit", "cores", "load", "name", "ratio", "figures")


def tracked() -> dict[str, Any]:
    """The benchmarks whose figures are kept."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def figures_of(benchmark: Mapping[str, Any], text: str) -> dict[str, float]:
    """The figures in what a benchmark printed; it stops where one is missing."""
    found = {name: re.search(pattern, text, re.MULTILINE) for name, pattern in benchmark["figures"].items()}
    if missing := [name for name, match in found.items() if match is None]:
        sys.exit(f"{' '.join(benchmark['command'])} did not print {', '.join(missing)}:\n{text}")
    return {name: float(match[1]) for name, match in found.items() if match}


def ratio_of(benchmark: Mapping[str, Any], figures: Mapping[str, float]) -> float:
    """The figure that counts, or one figure over another."""
    above, _, below = benchmark["ratio"].partition(" / ")
    return figures[above] / figures[below] if below else figures[above]


def commit() -> str:
    """The commit that is measured, with a plus where the checkout differs from it."""
    git = ("git", "-C", str(ROOT))
    name = subprocess.run((*git, "rev-parse", "--short=10", "HEAD"), capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    changed = subprocess.run((*git, "status", "--porcelain", "src", "benchmarks/*.py"), capture_output=True, text=True, check=True).stdout  # noqa: S603
    return name + ("+" if changed else "")


def measured(name: str, benchmark: Mapping[str, Any]) -> dict[str, str]:
    """Run one benchmark; its line of the table."""
    load = os.getloadavg()[0]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))}
    command = (sys.executable, *benchmark["command"])
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"{' '.join(command)} exited with {done.returncode}:\n{done.stderr}")
    print(done.stdout)
    figures = figures_of(benchmark, done.stdout)
    cells = (
        datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        commit(),
        str(os.cpu_count()),
        f"{load:.1f}",
        name,
        f"{ratio_of(benchmark, figures):.4g}",
        "; ".join(f"{key}={value:.4g}" for key, value in figures.items()),
    )
    return dict(zip(COLUMNS, cells, strict=True))


def append(row: Mapping[str, str], history: Path = HISTORY) -> None:
    """Append a line; the first one brings the heading."""
    is_new = not history.exists()
    with history.open("a", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()
    table = tracked()
    if unknown := [name for name in given.names if name not in table]:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(table)}", file=sys.stderr)
        return 2
    if not given.names:
        print("\n".join(f"{name:<10}{benchmark['about']}" for name, benchmark in table.items()))
    for name in given.names:
        row = measured(name, table[name])
        print(", ".join(f"{key} {value}" for key, value in row.items()))
        if not given.dry_run:
            append(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
