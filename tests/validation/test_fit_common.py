"""What the fits of coefficients share."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"
sys.path.insert(0, str(VALIDATION))

from fit_common import left_out_residuals  # noqa: E402
from rightfit import facts  # noqa: E402


class Rows:
    """Two rows of two sources, predicted by one coefficient each."""

    measured = np.array([2.0, 2.0])
    source = np.array(["a", "b"])

    def __init__(self, names: tuple[str, str]) -> None:
        self.names = names

    def predict(self, values: dict[str, float]) -> np.ndarray:
        return np.array([values[name] for name in self.names])


@pytest.mark.parametrize("family", ["forward", "vision", "classical"])
def test_a_fold_holds_what_its_source_changed_and_the_rest_is_that_of_all(family: str, tmp_path: Path) -> None:
    bundled = facts.coefficients(family)
    told, untold = sorted(name for name, value in bundled.items() if value > 0)[:2]
    folds = tmp_path / "folds.json"
    folds.write_text(json.dumps({source: {family: {told: 4.0}} for source in "ab"}), encoding="utf-8")
    assert left_out_residuals(Rows((told, untold)), folds, family) == pytest.approx(np.log([0.5, 2.0 / bundled[untold]]))
