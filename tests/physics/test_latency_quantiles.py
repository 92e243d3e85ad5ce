"""Quantiles of latencies: they average to the mean that they belong to, and grow with the level."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rightfit.physics import waiting as quantiles
from rightfit.physics.columns import Array

#: Each law as a function of the quantile alone, of mean 2 s.
LAWS: dict[str, Callable[[Array], Array]] = {
    "step": lambda level: quantiles.of_step(np.full(1, 4.0), level),
    "queue": lambda level: quantiles.of_queue(np.full(1, 2.0), level),
    "wait": lambda level: quantiles.of_wait(np.full(1, 2.0), level),
    "first wave": lambda level: quantiles.of_first_wave(np.full(1, 20.0), np.full(1, 0.1), level),
    "interruptions": lambda level: quantiles.of_interruptions(np.full(1, 2.0), np.full(1, 1.0), np.full(1, 101.0), level),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_a_quantile_of_zero_is_the_mean(law: Callable[[Array], Array]) -> None:
    assert law(np.zeros(1)) == pytest.approx(2.0)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_quantiles_average_to_the_mean_and_grow(law: Callable[[Array], Array]) -> None:
    levels = (np.arange(20_000) + 0.5) / 20_000
    found = law(levels)
    assert np.mean(found) == pytest.approx(2.0, rel=0.01)
    assert np.all(np.diff(found) >= 0)


def test_waits_in_a_random_queue_are_exponential() -> None:
    found = quantiles.of_wait(np.full(3, 1.0), np.array([0.5, 0.9, 0.99]))
    assert found == pytest.approx([0.693, 2.303, 4.605], abs=1e-3)


def test_after_the_first_wave_most_users_wait_for_nobody() -> None:
    # A tenth of the requests are of the first wave: half of that, a twentieth, is the mean share of
    # the others' prompts.
    found = quantiles.of_first_wave(np.full(2, 10.0), np.full(2, 0.05), np.array([0.5, 0.95]))
    assert found == pytest.approx([0.0, 5.0])
