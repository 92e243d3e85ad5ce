"""Checkpoints."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.physics import checkpoint


def test_sharded_checkpoints_are_written_by_all_nodes() -> None:
    common = {"checkpoint_bytes": np.array([112e9]), "nodes": np.array([4.0]), "storage_bytes_per_s": np.array([1e9])}
    assert checkpoint.write_s(**common, sharded=np.array([0.0]))[0] == pytest.approx(112)
    assert checkpoint.write_s(**common, sharded=np.array([1.0]))[0] == pytest.approx(28)


def test_daly_interval() -> None:
    """A write of 60 s and a failure a day: sqrt(2 x 60 x 86400) = 3220 s."""
    interval = checkpoint.interval_s(write_s=np.array([60.0]), mean_time_between_failures_s=np.array([86400.0]))
    assert interval[0] == pytest.approx(3219.9, rel=1e-4)
    assert checkpoint.overhead_fraction(write_s=np.array([60.0]), interval_s=interval)[0] == pytest.approx(0.0183, rel=0.01)
