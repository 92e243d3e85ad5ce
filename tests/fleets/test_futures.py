"""What is bought, judged by futures: what is drawn stays within its doubts, money adds up, and
hindsight is never dearer."""

from __future__ import annotations

import dataclasses
import math
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaded import load_module

from rightfit.fleets.futures import Doubts, future, futures_of, settled, usual_doubts
from rightfit.fleets.instance import Choice, Instance, Kind, Solution, faults
from rightfit.fleets.solver import solve

synthetic = load_module(Path(__file__).parent / "synthetic.py")

NONE = Doubts(0.0, 0.0, 0.0)
WORDS = {"od": "on-demand", 0: "on-demand", 1: "spot", 2: "on-demand"}


def way(named: Any, usd: float) -> Any:
    """A synthetic way with the names that real ones have."""
    offer, mode = named
    return types.SimpleNamespace(
        provider=f"seller {offer % 2}", instance_type=f"type {offer}", region="here", purchase=WORDS.get(mode, mode), servers_usd=usd
    )


def made(seed: int) -> Instance:
    """A random fleet with services and purchases, whose ways have names."""
    found: Instance = synthetic.instance(seed, jobs=4, services=2, purchases=1, limits=1, tight=3.0)

    def choice(one: Choice) -> Choice:
        return dataclasses.replace(one, way=way(one.way, one.cost_usd))

    def kind(one: Kind) -> Kind:
        return dataclasses.replace(one, modes=tuple(dataclasses.replace(mode, way=way(mode.way, 0.0)) for mode in one.modes))

    demands = tuple(dataclasses.replace(one, choices=tuple(map(choice, one.choices))) for one in found.demands)
    services = tuple(dataclasses.replace(one, kinds=tuple(map(kind, one.kinds))) for one in found.services)
    return dataclasses.replace(found, demands=demands, services=services)


def plan_of(instance: Instance, plan: Solution) -> Any:
    """As much of a plan as the futures read."""
    offer = types.SimpleNamespace(provider="seller 0", instance_type="type 0", region="here", purchase="reserved-1y")
    built = types.SimpleNamespace(instance=instance, offers=(offer,) * len(instance.purchases))
    return types.SimpleNamespace(built=built, solved=types.SimpleNamespace(plan=plan))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_bought_costs_the_same_when_it_is_there(seed: int) -> None:
    instance = made(seed)
    plan = solve(instance, gap=1e-6).plan
    rest, spent = settled(instance, plan.bought)
    after = solve(rest, gap=1e-6).plan
    assert after.missing == pytest.approx(plan.missing, abs=1e-6)
    assert after.cost_usd + spent == pytest.approx(plan.cost_usd, rel=1e-4)
    assert faults(rest, after) == []


@pytest.mark.parametrize("seed", range(6))
def test_without_doubt_there_is_no_regret(seed: int) -> None:
    instance = made(seed)
    plan = solve(instance, gap=1e-6).plan
    found = futures_of(plan_of(instance, plan), number=2, seconds=20.0, doubts=NONE)
    row = next(row for row in found["ways_to_buy"] if row["name"] == "plan")
    assert found["draws"] == 2
    assert found["mean_usd"] == pytest.approx(plan.cost_usd, rel=2e-3)
    assert row["greatest_regret_usd"] <= 2e-3 * plan.cost_usd


@pytest.mark.parametrize("seed", range(4))
def test_regret_is_what_knowing_would_have_saved(seed: int) -> None:
    instance = made(seed)
    found = futures_of(plan_of(instance, solve(instance).plan), number=4, seconds=30.0, doubts=Doubts(0.5, 0.5, 0.1))
    rows = {row["name"]: row for row in found["ways_to_buy"]}
    assert {"plan"} <= set(rows) <= {"plan", "nothing", "middle"}
    assert found["least_usd"] <= found["mean_usd"] <= found["greatest_usd"]
    for row in rows.values():
        assert row["short"] == 4 or 0 <= row["mean_regret_usd"] <= row["greatest_regret_usd"]
    least = min(row["short"] for row in rows.values())
    best = rows[found["best"]]
    assert best["short"] == least
    assert all(best["mean_usd"] <= row["mean_usd"] for row in rows.values() if row["short"] == least)


def test_a_purchase_that_no_demand_uses_is_regretted() -> None:
    instance = made(3)
    useless = dataclasses.replace(instance.purchases[0], cost_usd=1000.0, loads=(), budgets=())
    instance = dataclasses.replace(instance, purchases=(useless,))
    plan = solve(instance, gap=1e-6).plan
    assert plan.bought == (0,)
    wrong = dataclasses.replace(plan, bought=(1,), cost_usd=plan.cost_usd + 1000.0)
    found = futures_of(plan_of(instance, wrong), number=3, seconds=20.0, doubts=Doubts(0.1, 0.1, 0.0))
    rows = {row["name"]: row for row in found["ways_to_buy"]}
    assert found["best"] == "nothing"
    assert rows["plan"]["buys"][0]["count"] == 1
    assert rows["plan"]["mean_regret_usd"] > 0.5 * 1000.0
    assert rows["nothing"]["mean_regret_usd"] < 0.01 * plan.cost_usd


def test_what_is_drawn_stays_within_its_doubts() -> None:
    instance, doubts = made(1), Doubts(0.2, 0.25, 0.0)
    factors: set[float] = set()
    for seed in range(20):
        drawn = future(instance, np.random.default_rng(seed), doubts)
        by_seller: dict[tuple[str, str], float] = {}
        for old, new in zip(instance.demands, drawn.demands, strict=True):
            assert math.floor(0.75 * old.count) <= new.count <= math.ceil(1.25 * old.count)
            for before, after in zip(old.choices, new.choices, strict=True):
                if before.way.purchase not in ("on-demand", "spot"):
                    assert after.cost_usd == before.cost_usd
                    continue
                factor = after.cost_usd / before.cost_usd
                assert 1 / 1.2 - 1e-9 <= factor <= 1.2 + 1e-9
                assert by_seller.setdefault((before.way.provider, before.way.purchase), factor) == pytest.approx(factor)
        factors |= set(by_seller.values())
        for old_one, new_one in zip(instance.services, drawn.services, strict=True):
            for old_kind, new_kind in zip(old_one.kinds, new_one.kinds, strict=True):
                before_all, after_all = (sum(layer.width for layer in kind.layers) for kind in (old_kind, new_kind))
                assert math.ceil(0.75 * before_all) <= after_all <= math.ceil(1.25 * before_all)
        assert drawn.purchases == instance.purchases
    assert min(factors) < 0.9
    assert max(factors) > 1.1


def test_where_nothing_metered_can_be_had_what_is_owned_and_bought_is_left() -> None:
    drawn = future(made(2), np.random.default_rng(0), Doubts(0.0, 0.0, 1.0))
    words = {choice.way.purchase for demand in drawn.demands for choice in demand.choices}
    assert words <= {"owned", "committed"}
    assert words
    assert all(mode.way.purchase == "owned" for one in drawn.services for kind in one.kinds for mode in kind.modes)


def test_equal_seeds_draw_equal_futures() -> None:
    one, other = (future(made(5), np.random.default_rng(7), usual_doubts()) for _ in range(2))
    assert [demand.count for demand in one.demands] == [demand.count for demand in other.demands]
    assert [[choice.cost_usd for choice in demand.choices] for demand in one.demands] == [
        [choice.cost_usd for choice in demand.choices] for demand in other.demands
    ]


def test_time_that_is_up_gives_fewer_draws() -> None:
    instance = made(0)
    assert 1 <= futures_of(plan_of(instance, solve(instance).plan), number=200, seconds=0.5, doubts=usual_doubts())["draws"] < 200
