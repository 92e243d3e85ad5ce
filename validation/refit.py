"""Refit everything in its order and write the accuracy page: coefficients, folds,
intervals, page, headline.

    python validation/refit.py [--keep-coefficients] [--only
        training|serving|passes|vision|classical|loading]

`--keep-coefficients` leaves the physics coefficients alone and renews only what follows from them.
The folds of the forward passes are fits of their own, so they are renewed with either.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

VALIDATION = Path(__file__).resolve().parent
TRUTH = str(VALIDATION / "truth")
FOLDS = VALIDATION / "folds"

Steps = tuple[tuple[str, ...], ...]
#: By family of figures: the fits, and what follows from them (folds first, then the intervals that
#: are read off the folds' errors).
COEFFICIENTS: Mapping[str, Steps] = {
    "training": (("fit_memory.py", TRUTH, "--write"), ("fit_speed.py", TRUTH, "--fit")),
    "serving": (("fit_serving.py", TRUTH, "--fit"),),
    "passes": (("fit_forward.py", TRUTH, "--write", "--folds", str(FOLDS / "forward.json")),),
    "vision": (("fit_vision.py", TRUTH, "--fit", "--write"),),
    "classical": (("fit_classical.py", TRUTH, "--fit"),),
    "loading": (("fit_loading.py", TRUTH, "--fit", "--write"),),
}
FOLLOWING: Mapping[str, Steps] = {
    "training": (
        ("fit_memory_folds.py", TRUTH),
        ("fit_speed.py", TRUTH, "--folds", str(FOLDS / "speed.json")),
        ("fit_intervals.py",),
    ),
    "serving": (("fit_serving.py", TRUTH, "--loso", "--folds", str(FOLDS / "serving.json"), "--intervals"),),
    "passes": (("fit_forward.py", TRUTH, "--intervals"),),
    "vision": (
        ("fit_vision.py", TRUTH, "--loso", "--folds", str(FOLDS / "vision.json")),
        ("fit_vision.py", TRUTH, "--intervals"),
    ),
    "classical": (("fit_classical.py", TRUTH, "--folds"), ("fit_classical.py", TRUTH, "--intervals")),
    "loading": (("fit_loading.py", TRUTH, "--loso", "--folds", str(FOLDS / "loading.json")), ("fit_loading.py", TRUTH, "--intervals")),
}
FOLDS_ALONE: Mapping[str, Steps] = {"passes": (("fit_forward.py", TRUTH, "--folds", str(FOLDS / "forward.json")),)}


def steps(families: list[str], *, keep_coefficients: bool) -> list[tuple[str, ...]]:
    """The scripts with their arguments, in order."""
    first = FOLDS_ALONE if keep_coefficients else COEFFICIENTS
    return [step for name in families for step in (*first.get(name, ()), *FOLLOWING[name])]


def run(script: str, *arguments: str) -> None:
    """One step, its output shown; a failure stops everything."""
    print(f"== {script} {' '.join(arguments)}", flush=True)
    subprocess.run([sys.executable, str(VALIDATION / script), *arguments], check=True)


def write_page() -> None:
    """Score with the new figures in a fresh state and write page, plots and headline."""
    from rightfit.proof import validate

    result = validate.validate(TRUTH)
    validate.write(result, validate.repository_paths(Path(TRUTH)))
    print(result.summary())


def main(argv: list[str] | None = None) -> int:
    """All steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep-coefficients", action="store_true")
    parser.add_argument("--only", choices=list(COEFFICIENTS), action="append", help="this family alone; may be given again")
    options = parser.parse_args(argv)
    for script, *arguments in steps(options.only or list(COEFFICIENTS), keep_coefficients=options.keep_coefficients):
        run(script, *arguments)
    run("fit_law.py")  # of all families together
    write_page()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
