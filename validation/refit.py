"""Refit everything in its order and write the accuracy page: coefficients, folds, intervals, page, headline.

    python validation/refit.py [--keep-coefficients]

`--keep-coefficients` leaves the physics coefficients alone and renews only what follows from them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

VALIDATION = Path(__file__).resolve().parent
TRUTH = str(VALIDATION / "truth")

COEFFICIENTS = (("fit_memory.py", TRUTH, "--write"), ("fit_speed.py", TRUTH, "--fit"))
FOLLOWING = (
    ("fit_memory_folds.py", TRUTH),
    ("fit_speed.py", TRUTH, "--folds", str(VALIDATION / "folds" / "speed.json")),
    ("fit_intervals.py",),
)


def run(script: str, *arguments: str) -> None:
    """One step, its output shown; a failure stops everything."""
    print(f"== {script} {' '.join(arguments)}", flush=True)
    subprocess.run([sys.executable, str(VALIDATION / script), *arguments], check=True)


def write_page() -> None:
    """Score with the new figures in a fresh state and write page, plots and headline."""
    from rightfit.estimate import validate

    result = validate.validate(TRUTH)
    page, headline = validate.repository_paths(Path(TRUTH))
    validate.write(result, page=page, headline=headline)
    print(result.summary())


def main(argv: list[str] | None = None) -> int:
    """All steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep-coefficients", action="store_true")
    options = parser.parse_args(argv)
    for script, *arguments in (*(() if options.keep_coefficients else COEFFICIENTS), *FOLLOWING):
        run(script, *arguments)
    write_page()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
