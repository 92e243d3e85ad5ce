"""The vectorised search gives exactly what plain loops over everything give."""

from __future__ import annotations

import random

import numpy as np
import pytest
from brute import brute_force, front, rounded
from toy import NODE_COUNTS, ToyPhysics, random_market, random_wish

from rightfit.families.language.engine import LanguageEngine
from rightfit.families.language.kind import CRAFT
from rightfit.search.rank import pareto_front, scores
from rightfit.search.training.explore import explore


def _agree(seed: int, *, real: bool) -> int:
    dice = random.Random(seed)
    wish, wanted = random_wish(dice)
    market = random_market(dice, servers=2 if real else 4, offers=4 if real else 10)
    node_counts = NODE_COUNTS[:2] if real else NODE_COUNTS
    physics = LanguageEngine.of(wish.model) if real else ToyPhysics(float(wish.model.params_total))
    slow = brute_force(wish, market, wanted, physics, node_counts=node_counts)
    fast = explore(wish, market, wanted, CRAFT, node_counts=node_counts, engine=physics)
    feasible = {(int(o), node_counts[j]): (fast.bill.total_usd[o, j], fast.bill.total_s[o, j]) for o, j in np.argwhere(fast.bits == 0)}
    assert feasible.keys() == slow.feasible.keys()
    for key, pair in feasible.items():
        assert pair == pytest.approx(slow.feasible[key], rel=1e-9)
    if slow.best is None:
        return 0
    usd, seconds = (np.array(values) for values in zip(*feasible.values(), strict=True))
    score = scores(wish.workload.objective, total_usd=usd, total_s=seconds, slack_s=120.0)
    best = usd[score == 0].min() if wish.workload.objective == "time" else score.min()
    assert best == pytest.approx(slow.best[0], rel=1e-9)
    found = {(usd[row], seconds[row]) for row in pareto_front(usd, seconds)}
    assert rounded(found) == rounded(front(slow.feasible))
    return 1


@pytest.mark.parametrize("block", range(4))
def test_equals_brute_force_on_random_markets(block: int) -> None:
    answered = sum(_agree(seed, real=False) for seed in range(10 * block, 10 * block + 10))
    assert answered >= 2


def test_equals_brute_force_with_the_real_physics() -> None:
    answered = sum(_agree(seed, real=True) for seed in range(1000, 1003))
    assert answered >= 1


@pytest.mark.deep
def test_equals_brute_force_on_five_hundred_random_workloads() -> None:
    answered = sum(_agree(seed, real=False) for seed in range(100, 600))
    assert answered >= 150


@pytest.mark.deep
def test_equals_brute_force_with_the_real_physics_at_length() -> None:
    answered = sum(_agree(seed, real=True) for seed in range(2000, 2030))
    assert answered >= 5
