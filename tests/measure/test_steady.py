"""What of a run is warm-up, and when a step time has settled."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.measure.signals import steady


def test_warm_up_is_dropped_and_the_rest_is_the_step_time() -> None:
    found = steady([9.0, 4.0, 2.0, 1.5, *[1.0] * 40])
    assert found is not None
    assert found.mean == pytest.approx(1.0)
    assert found.dropped == 5  # a tenth of 44, more than the three slow ones
    assert found.is_stable


def test_a_long_start_is_dropped_whole() -> None:
    found = steady([5.0] * 12 + [1.0] * 60)
    assert found is not None
    assert (found.dropped, found.mean) == (12, 1.0)


@pytest.mark.parametrize(
    ("intervals", "why"),
    [([1.0] * 15, "too few"), (list(np.linspace(1, 2, 100)), "a trend"), (list(np.random.default_rng(0).lognormal(0, 1, 40)), "too noisy")],
)
def test_what_has_not_settled_is_not_stable(intervals: list[float], why: str) -> None:
    found = steady(intervals)
    assert found is not None
    assert not found.is_stable, why


def test_clock_jumps_and_missing_values_do_not_count() -> None:
    found = steady([1.0, 1.0, -3600.0, float("nan"), 0.0, *[1.0] * 30])
    assert found is not None
    assert found.mean == 1.0
    assert steady([]) is None
    assert steady([1.0]) is None


def test_a_million_steps_take_no_time() -> None:
    found = steady(np.full(1_000_000, 0.01).tolist())
    assert found is not None
    assert found.count == 900_000
