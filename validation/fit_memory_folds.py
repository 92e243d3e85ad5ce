"""Fit the memory coefficients once for every source left out and write them to
validation/folds/memory.json.

    python validation/fit_memory_folds.py [TRUTH_DIR]

The fold of the time coefficients is written by `python validation/fit_speed.py TRUTH_DIR --folds
validation/folds/speed.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import fit_memory
from rightfit import facts

VALIDATION = Path(__file__).resolve().parent


def memory_folds(truth: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Fitted memory coefficients by the source that was left out."""
    table = fit_memory.Table(fit_memory.load(truth, driver=True))
    start = dict(facts.coefficients("memory"))
    bases = np.array([name.removesuffix(" (driver)") for name in table.source])
    folds = {}
    for name in sorted(set(bases.tolist())):
        fitted = fit_memory.fit(table, bases != name, start)
        folds[name] = {"memory": {key: float(f"{fitted[key]:.6g}") for key in fit_memory.FITTED}}
        print(f"left out {name}", file=sys.stderr)
    return folds


def main(argv: list[str] | None = None) -> int:
    """Write the folds."""
    arguments = sys.argv[1:] if argv is None else argv
    folds = memory_folds(Path(arguments[0]) if arguments else VALIDATION / "truth")
    target = VALIDATION / "folds" / "memory.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(folds, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
