"""The fit of the coefficients of serving."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"
sys.path.insert(0, str(VALIDATION))


def test_every_coefficient_that_the_fit_moves_has_a_logarithm() -> None:
    pytest.importorskip("scipy")
    import fit_serving

    known = fit_serving.entries()
    moved = fit_serving.moved_keys(known)
    assert moved
    assert all(float(str(known[key][name])) > 0 for key in moved for name in ("prior", "value"))
    assert all(float(str(known[key]["value"])) == float(str(known[key]["prior"])) for key in known.keys() - set(moved))
