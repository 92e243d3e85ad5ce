"""Mixed fleets at least cost, against trying everything."""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest

import rightfit
from rightfit.errors import MissingComponentError
from rightfit.search.service.scaling import cover, solver, undominated

LLAMA = "meta-llama/Meta-Llama-3-8B"


def by_trying(prices: np.ndarray, capacity: np.ndarray, load: float) -> float:
    """The least cost of all numbers of each kind that carry the load without any one unit."""
    most = [math.ceil(load / one) + 1 for one in capacity]
    best = math.inf
    for counts in itertools.product(*(range(top + 1) for top in most)):
        used = [one for one, count in zip(capacity, counts, strict=True) if count]
        if used and np.dot(capacity, counts) - max(used) >= load - 1e-9:
            best = min(best, float(np.dot(prices, counts)))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_solver_finds_what_trying_everything_finds(seed: int) -> None:
    pytest.importorskip("highspy")
    random = np.random.default_rng(seed)
    capacity, load = random.uniform(1.0, 9.0, 3), float(random.uniform(4.0, 25.0))
    prices = capacity * random.uniform(0.8, 1.3, 3)
    counts = cover(prices, capacity, load=load)
    assert counts @ prices == pytest.approx(by_trying(prices, capacity, load), rel=1e-6)
    assert counts @ capacity - capacity[counts > 0].max() >= load - 1e-6


def test_small_server_fills_the_rest_that_a_large_one_would_waste() -> None:
    pytest.importorskip("highspy")
    # 11 of load: three large ones (10 each) cost 30, seven small ones (2 each) 28; two large and
    # one small 24, and 12 are left when a large one fails.
    np.testing.assert_array_equal(cover(np.array([10.0, 4.0]), np.array([10.0, 2.0]), load=11.0), [2, 1])


@pytest.mark.parametrize("seed", range(6))
def test_dominated_kinds_never_lower_the_cost(seed: int) -> None:
    pytest.importorskip("highspy")
    random = np.random.default_rng(seed)
    capacity, prices = random.uniform(1.0, 9.0, 9), random.uniform(1.0, 9.0, 9)
    kept = undominated(prices, capacity)
    assert kept.size < 9
    whole, part = cover(prices, capacity, load=20.0) @ prices, cover(prices[kept], capacity[kept], load=20.0) @ prices[kept]
    assert part == pytest.approx(whole)


def test_plan_with_a_mixed_fleet_survives_the_loss_of_any_unit() -> None:
    pytest.importorskip("highspy")
    plan = rightfit.plan(LLAMA, task="serve", rate="17/s", cloud="aws", fleet="mixed", top=1)
    fleet = {one.name: one.content for one in plan.sections}["fleet"]
    assert plan.best is not None
    largest = max(part["capacity"] / part["nodes"] for part in fleet["parts"])
    assert fleet["capacity"] - largest >= 17.0 - 1e-6
    assert fleet["monthly_usd"] <= fleet["single_usd"] * (1 + 1e-9)
    assert fleet["monthly_usd"] == pytest.approx(730 * sum(part["hourly_usd"] for part in fleet["parts"]))
    assert sum(part["load_share"] for part in fleet["parts"]) == pytest.approx(1.0)
    assert len({part["region"] for part in fleet["parts"]}) == 1


def test_missing_solver_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(MissingComponentError, match=r"rightfit\[fleet\]"):
        solver()
    with pytest.raises(MissingComponentError):
        rightfit.plan(LLAMA, task="serve", rate="17/s", fleet="mixed")
