"""The order in which everything is fitted again: scripts that exist, with the
options that they know."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"
sys.path.insert(0, str(VALIDATION))

import refit  # noqa: E402
from rightfit.proof.figures import FAMILIES  # noqa: E402

ALL = [found.name for found in FAMILIES]


def test_every_family_is_fitted_and_gets_its_folds_and_intervals() -> None:
    assert list(refit.COEFFICIENTS) == list(refit.FOLLOWING) == ALL
    whole = refit.steps(ALL, keep_coefficients=False)
    texts = [" ".join(step) for step in whole]
    for name in ("speed.json", "serving.json", "forward.json", "vision.json", "loading.json"):
        assert any(name in text for text in texts)
    assert sum("intervals" in text for text in texts) == 6
    order = [step[0] for step in refit.steps(["serving"], keep_coefficients=False)]
    assert order == ["fit_serving.py", "fit_serving.py"]


def test_kept_coefficients_are_not_written() -> None:
    kept = refit.steps(ALL, keep_coefficients=True)
    assert not [step for step in kept if "--fit" in step or "--write" in step]
    assert ("fit_forward.py", refit.TRUTH, "--intervals") in kept


@pytest.mark.parametrize(
    "script", sorted({step[0] for step in refit.steps(ALL, keep_coefficients=False) if any("--" in word for word in step)})
)
def test_scripts_know_these_options(script: str) -> None:
    pytest.importorskip("scipy")
    done = subprocess.run([sys.executable, str(VALIDATION / script), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    options = {word for step in refit.steps(ALL, keep_coefficients=False) if step[0] == script for word in step if word.startswith("--")}
    assert all(option in done.stdout for option in options)
