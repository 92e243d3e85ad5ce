"""Data loading."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.physics import loading


def one(**values: float) -> float:
    base = {"samples": 256.0, "bytes_per_sample": 110e3, "storage_bytes_per_s": 1e9, "samples_per_core_s": 0.0, "cores": 0.0} | values
    return float(loading.loading_s(**{name: np.array([value]) for name, value in base.items()})[0])


def test_reading_by_hand() -> None:
    assert one() == pytest.approx(256 * 110e3 / 1e9)


def test_decoding_can_be_the_slower() -> None:
    """256 JPEGs at 100 a second and core on 8 cores."""
    assert one(samples_per_core_s=100, cores=8) == pytest.approx(0.32)


def test_unknown_rates_mean_no_limit() -> None:
    assert one(storage_bytes_per_s=0) == 0
