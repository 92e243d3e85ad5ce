"""The optimiser: sound by a checker that knows no solver, equal to brute force, never worse than
list scheduling, monotone in what is allowed."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaded import load_module

from rightfit.fleets.instance import Choice, Demand, Instance, Placed, Solution, faults, solution
from rightfit.fleets.listing import listed
from rightfit.fleets.matrix import Answer, Matrix
from rightfit.fleets.solver import solve
from rightfit.physics.columns import Array

synthetic = load_module(Path(__file__).parent / "synthetic.py")


@pytest.mark.deep
@pytest.mark.parametrize("block", range(10))
def test_the_checker_accepts_a_thousand_random_fleets(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        waits = 0.3 if seed % 4 == 0 else 0.0
        made = synthetic.instance(seed, jobs=3 + seed % 6, services=seed % 3, purchases=seed % 2, periods=4 + seed % 5, waits=waits)
        found = solve(made, gap=1e-6)
        assert faults(made, found.plan) == [], seed
        assert found.bound_usd <= found.plan.cost_usd + 1e-6
        greedy = listed(made)
        assert faults(made, greedy) == [], seed
        assert found.plan.key <= (greedy.key[0], greedy.key[1] + 1e-6), seed
        if found.own_best_feasible and found.plan.missing < 1e-6:
            assert found.plan.cost_usd <= found.own_best_usd + 1e-6, seed


def _ways(made: Instance, demand: Demand) -> Iterator[tuple[int, Choice, int, int]]:
    for at, choice in enumerate(demand.choices):
        first, last = made.starts(demand, choice)
        for start in range(first, last + 1):
            yield at, choice, start, start + made.length(choice)


def brute_force(made: Instance) -> tuple[float, float]:
    """(weight left out, money) of the best plan, by trying everything."""
    free = {(at, row): float(cap) for at, resource in enumerate(made.resources) for row, cap in enumerate(resource.caps)}
    best = (float("inf"), float("inf"))
    ends: list[list[int]] = [[] for _ in made.demands]
    units = [(row, demand) for row, demand in enumerate(made.demands) for _ in range(demand.count)]

    def descend(depth: int, missing: float, usd: float) -> None:
        nonlocal best
        if (missing, usd) >= best:
            return
        if depth == len(units):
            best = (missing, usd)
            return
        row, demand = units[depth]
        done = all(len(ends[before]) == made.demands[before].count for before in demand.after)
        begin = max((end for before in demand.after for end in ends[before]), default=0)
        for _, choice, start, end in _ways(made, demand) if done else ():
            if start < begin:
                continue
            loads = [*choice.loads, *((budget, choice.cost_usd / (end - start)) for budget in demand.budgets)]
            taken = [((at, int(made.resources[at].row_of[period])), amount) for at, amount in loads for period in range(start, end)]
            for key, amount in taken:
                free[key] -= amount
            ends[row].append(end)
            if all(free[key] >= -1e-7 for key, _ in taken):
                descend(depth + 1, missing, usd + choice.cost_usd)
            ends[row].pop()
            for key, amount in taken:
                free[key] += amount
        descend(depth + 1, missing + demand.weight, usd)

    for counts in itertools.product(*(range(item.most + 1) for item in made.purchases)):
        spent = 0.0
        for item, count in zip(made.purchases, counts, strict=True):
            spent += item.cost_usd * count
            for period in range(item.first, item.last):
                free[item.resource, int(made.resources[item.resource].row_of[period])] += item.adds * count
                for budget in item.budgets:
                    free[budget, int(made.resources[budget].row_of[period])] -= item.cost_usd * count / (item.last - item.first)
        if all(value >= -1e-7 for value in free.values()):
            descend(0, 0.0, spent)
        for item, count in zip(made.purchases, counts, strict=True):
            for period in range(item.first, item.last):
                free[item.resource, int(made.resources[item.resource].row_of[period])] -= item.adds * count
                for budget in item.budgets:
                    free[budget, int(made.resources[budget].row_of[period])] += item.cost_usd * count / (item.last - item.first)
    return best


@pytest.mark.deep
@pytest.mark.parametrize("block", range(5))
def test_jobs_that_wait_for_others_equal_brute_force(block: int) -> None:
    """Chains and forks of up to four jobs, two of each: the same money as trying everything, and
    nothing starts too early."""
    for seed in range(block * 40, block * 40 + 40):
        two = {"jobs": 2, "count": 2} if seed % 2 else {"jobs": 4, "count": 1}
        made = synthetic.instance(seed, offers=2, modes=1, periods=5, limits=1, purchases=seed % 3 == 0, waits=0.6, tight=0.6, **two)
        found = solve(made, gap=1e-9)
        assert faults(made, found.plan) == [], seed
        assert found.bound_usd <= found.plan.cost_usd + 1e-6
        missing, usd = brute_force(made)
        assert found.plan.missing == pytest.approx(missing, abs=1e-6), seed
        assert found.plan.cost_usd == pytest.approx(usd, rel=1e-5, abs=1e-5), seed


@pytest.mark.deep
@pytest.mark.parametrize("block", range(5))
def test_small_fleets_equal_brute_force(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        made = synthetic.instance(seed, jobs=3, offers=2, modes=1, periods=4, limits=1, purchases=seed % 2, count=1, tight=0.4)
        found = solve(made, gap=1e-9)
        missing, usd = brute_force(made)
        assert found.plan.missing == pytest.approx(missing, abs=1e-6), seed
        assert found.plan.cost_usd == pytest.approx(usd, rel=1e-5, abs=1e-5), seed


@pytest.mark.parametrize("seed", [143, 279, 318])
def test_a_start_never_makes_a_plan_dearer(seed: int) -> None:
    """HiGHS 1.16.0 gave these starts back as the optimum, at a value that their
    placements do not have."""
    made = synthetic.instance(seed, jobs=3, offers=2, modes=1, periods=4, limits=1, purchases=seed % 2, count=1, tight=0.4)
    found = solve(made, gap=1e-9)
    missing, usd = brute_force(made)
    assert found.plan.missing == pytest.approx(missing, abs=1e-6)
    assert found.plan.cost_usd == pytest.approx(usd, rel=1e-5, abs=1e-5)
    assert found.bound_usd <= found.plan.cost_usd + 1e-6


def test_an_answer_that_does_not_cost_what_it_says_is_asked_again_without_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = Matrix._solved

    def misvaluing(self: Matrix, *, start: Array | None, **wanted: Any) -> Answer:
        asked.append(start is not None)
        found = real(self, start=start, **wanted)
        return found if start is None else dataclasses.replace(found, columns=start, value=0.0, bound=0.0)

    monkeypatch.setattr(Matrix, "_solved", misvaluing)
    made = synthetic.instance(143, jobs=3, offers=2, modes=1, periods=4, limits=1, purchases=1, count=1, tight=0.4)
    assert solve(made, gap=1e-9).plan.cost_usd == pytest.approx(brute_force(made)[1], rel=1e-5)
    assert asked[-2:] == [True, False]


def _key(made: Instance) -> tuple[float, float]:
    return solve(made, gap=1e-9).plan.key


def _not_more(found: tuple[float, float], before: tuple[float, float]) -> bool:
    return found[0] < before[0] - 1e-6 or (found[0] <= before[0] + 1e-6 and found[1] <= before[1] * (1 + 1e-6) + 1e-5)


@pytest.mark.parametrize("seed", range(25))
def test_more_of_a_limit_or_a_later_deadline_never_costs_more(seed: int) -> None:
    made = synthetic.instance(seed, jobs=5, purchases=seed % 2, tight=0.5)
    before = _key(made)
    for row, resource in enumerate(made.resources):
        wider = dataclasses.replace(resource, caps=resource.caps + 1.0)
        assert _not_more(_key(dataclasses.replace(made, resources=(*made.resources[:row], wider, *made.resources[row + 1 :]))), before)
    later = tuple(dataclasses.replace(demand, due_h=demand.due_h + made.period_h) for demand in made.demands)
    assert _not_more(_key(dataclasses.replace(made, demands=later)), before)


@pytest.mark.parametrize("seed", range(25))
def test_a_job_less_never_costs_more_where_all_are_placed(seed: int) -> None:
    made = synthetic.instance(seed, jobs=5, services=seed % 2, tight=2.0)
    before = _key(made)
    for row in range(len(made.demands)):
        after = _key(dataclasses.replace(made, demands=made.demands[:row] + made.demands[row + 1 :]))
        assert _not_more(after, before), row


@pytest.mark.parametrize("seed", range(10))
def test_prices_scale_and_the_order_of_jobs_does_not_matter(seed: int) -> None:
    made = synthetic.instance(seed, jobs=5, tight=50.0)
    usd = _key(made)[1]
    dearer = [
        dataclasses.replace(demand, choices=tuple(dataclasses.replace(choice, cost_usd=choice.cost_usd * 3) for choice in demand.choices))
        for demand in made.demands
    ]
    assert _key(dataclasses.replace(made, demands=tuple(dearer)))[1] == pytest.approx(3 * usd, rel=1e-5)
    assert _key(dataclasses.replace(made, demands=made.demands[::-1]))[1] == pytest.approx(usd, rel=1e-5)


@pytest.mark.parametrize("seed", range(10))
def test_without_limits_each_job_is_at_its_own_best(seed: int) -> None:
    made = synthetic.instance(seed, jobs=6, limits=0)
    free = tuple(dataclasses.replace(one, caps=one.caps * 0.0 if one.kind == "owned" else one.caps + 1e6) for one in made.resources)
    found = solve(dataclasses.replace(made, resources=free), gap=1e-9)
    assert found.own_best_feasible
    assert found.plan.cost_usd == pytest.approx(found.own_best_usd, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_large_fleets_are_priced_in_and_stay_near_their_bound(seed: int) -> None:
    made = synthetic.instance(seed, jobs=150, offers=40, modes=3, periods=40, limits=30, tight=0.05)
    found = solve(made, seconds=30)
    assert faults(made, found.plan) == []
    assert found.gap < 0.05
    assert found.plan.key <= listed(made).key


@pytest.mark.parametrize("seed", range(20))
def test_waiting_for_others_is_never_cheaper_and_always_in_order(seed: int) -> None:
    made = synthetic.instance(seed, jobs=7, services=seed % 2, purchases=seed % 2, periods=9, waits=0.25, tight=1.0)
    free = dataclasses.replace(made, demands=tuple(dataclasses.replace(demand, after=()) for demand in made.demands))
    found, greedy = solve(made, gap=1e-9), listed(made)
    assert faults(made, found.plan) == []
    assert faults(made, greedy) == []
    assert found.plan.key <= (greedy.key[0], greedy.key[1] + 1e-6)
    assert _not_more(_key(free), found.plan.key)


@pytest.mark.parametrize("seed", range(3))
def test_large_fleets_with_chains_are_priced_in(seed: int) -> None:
    """Placements are priced with what the order of jobs says: too many columns to have them all."""
    made = synthetic.instance(seed, jobs=50, offers=20, modes=3, periods=40, limits=30, tight=0.05, waits=0.03)
    assert any(demand.after for demand in made.demands)
    found = solve(made, seconds=30)
    assert faults(made, found.plan) == []
    assert found.gap < 0.06
    assert found.plan.key <= listed(made).key


def test_the_checker_sees_a_job_that_does_not_wait() -> None:
    choice = Choice("a", 1.0, 3.0)
    demands = (Demand("first", 2, 0.0, 40.0, (choice,)), Demand("second", 1, 0.0, 40.0, (choice,), after=(0,)))
    made = Instance(4.0, 10, (), demands)
    good = solution(made, [Placed(0, 0, 0, 1), Placed(0, 0, 2, 1), Placed(1, 0, 3, 1)], [], [])
    early = solution(made, [Placed(0, 0, 0, 1), Placed(0, 0, 2, 1), Placed(1, 0, 2, 1)], [], [])
    lacking = solution(made, [Placed(0, 0, 0, 1), Placed(1, 0, 3, 1)], [], [])
    assert faults(made, good) == []
    assert "before first ends" in faults(made, early)[0]
    assert "not all of it" in faults(made, lacking)[0]
    assert [one.start for one in solve(made).plan.placed if one.demand == 1] == [1]


def test_the_checker_sees_what_is_wrong() -> None:
    """Each fault of a plan is told."""
    made = synthetic.instance(3, jobs=4)
    plan = solve(made, gap=1e-9).plan
    assert faults(made, plan) == []
    one = plan.placed[0]
    late = dataclasses.replace(one, start=made.num_periods - 1)
    twice = (*plan.placed, dataclasses.replace(one, count=one.count))
    assert faults(made, solution(made, [late, *plan.placed[1:]], list(plan.picked), list(plan.bought)))
    assert faults(made, solution(made, list(twice), list(plan.picked), list(plan.bought)))
    assert faults(made, dataclasses.replace(plan, cost_usd=plan.cost_usd + 5))
    full = [row for row, resource in enumerate(made.resources) if resource.kind in ("owned", "quota")]
    none = tuple(
        dataclasses.replace(resource, caps=resource.caps * 0 - 1) if row in full else resource
        for row, resource in enumerate(made.resources)
    )
    everything = [Placed(row, 0, made.starts(demand, demand.choices[0])[0], demand.count) for row, demand in enumerate(made.demands)]
    broken: Solution = solution(dataclasses.replace(made, resources=none), everything, [], [0] * len(made.purchases))
    assert faults(dataclasses.replace(made, resources=none), broken)


def test_a_resource_knows_whether_each_period_has_a_row() -> None:
    made = synthetic.instance(1, periods=6)
    assert [resource.is_momentary for resource in made.resources] == [True, True, True, False]
    assert np.array_equal(made.resources[0].row_of, np.arange(6))
