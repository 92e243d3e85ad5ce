"""What is bought now meets futures that nobody knows: prices, demand and stock are drawn,
everything but the purchases is planned anew in each, and what it would have cost to know beforehand
is the regret. Beside the plan's purchases stand those of no purchase, and of the middle of what
hindsight bought."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.fleets.instance import TOLERANCE, Choice, Demand, Instance, Kind, Mode, Solution
from rightfit.fleets.listing import purchase_loads
from rightfit.fleets.solver import solve
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.fleets.result import FleetPlan

METERED = ("on-demand", "spot")
_LEAST_S, _MOST_S = 0.3, 6.0  # of one solution
Bought = tuple[int, ...]
Dice = np.random.Generator


@dataclass(frozen=True, slots=True)
class Doubts:
    """How much of a fleet is in doubt: prices and demand by a share up and down, and the share of
    metered offers that cannot be had."""

    price: float
    demand: float
    gone: float


def usual_doubts() -> Doubts:
    """What is taken where nobody says otherwise."""
    known = facts.coefficients("planning")
    return Doubts(*(float(known[f"fleet_{name}"]) for name in ("price_doubt", "demand_doubt", "stock_gone")))


def futures_of(plan: FleetPlan, *, number: int, seconds: float, doubts: Doubts | None = None) -> dict[str, Any]:
    """The futures of a plan as data: cost over the draws, and mean and greatest regret of each way
    to buy. Fewer draws where time is up."""
    known, instance = doubts or usual_doubts(), plan.built.instance
    began, until = time.monotonic(), time.monotonic() + seconds
    nothing = (0,) * len(instance.purchases)
    plans: dict[str, Bought] = {"plan": _terms(instance, plan.solved.plan.bought), "nothing": nothing}
    draws: list[tuple[Instance, Solution, dict[Bought, Solution]]] = []
    for seed in range(number):
        if draws and until - time.monotonic() < (time.monotonic() - began) / len(draws):
            break
        drawn = future(instance, np.random.default_rng(seed), known)
        each = min(_MOST_S, max(_LEAST_S, (until - time.monotonic()) / (4.0 * (number - seed))))
        hindsight = solve(drawn, seconds=each).plan
        draws.append((drawn, hindsight, {bought: _after(drawn, bought, each) for bought in dict.fromkeys(plans.values())}))
    middle = tuple(int(count) for count in np.rint(np.median([_terms(instance, one.bought) for _, one, _ in draws], axis=0)))
    plans["middle"] = middle
    for drawn, _, found in draws:
        if middle not in found:
            found[middle] = _after(drawn, middle, _MOST_S / 4.0)
    return _told(plan, plans, draws, known)


def _terms(instance: Instance, bought: Sequence[int]) -> Bought:
    """What of a purchase binds for a term; what is paid by the hour is decided
    anew in each future."""
    return tuple(0 if item.is_metered else int(count) for item, count in zip(instance.purchases, bought, strict=True))


def _told(plan: FleetPlan, plans: Mapping[str, Bought], draws: Sequence[Any], doubts: Doubts) -> dict[str, Any]:
    distinct: dict[Bought, str] = {}
    for name, bought in plans.items():
        distinct.setdefault(bought, name)
    rows = [_row(plan, name, bought, draws) for bought, name in distinct.items()]
    best = min(rows, key=lambda row: (row["short"], row["mean_usd"], row["name"] != "plan"))
    costs = [found[plans["plan"]].cost_usd for _, _, found in draws]
    return {
        "draws": len(draws),
        **{f"{name}_share": value for name, value in dataclasses.asdict(doubts).items()},
        "least_usd": min(costs),
        "mean_usd": float(np.mean(costs)),
        "greatest_usd": max(costs),
        "ways_to_buy": rows,
        "best": best["name"],
    }


def _row(plan: FleetPlan, name: str, bought: Bought, draws: Sequence[Any]) -> dict[str, Any]:
    """One way to buy over all draws. `short`: draws in which it leaves out what hindsight places;
    their money is not compared."""
    usd, regrets, short = [], [], 0
    for _, hindsight, found in draws:
        after = found[bought]
        least = min([hindsight, *found.values()], key=lambda one: one.key)
        usd.append(after.cost_usd)
        if after.missing > least.missing + TOLERANCE:
            short += 1
        else:
            regrets.append(max(0.0, after.cost_usd - least.cost_usd))
    items = [
        {**{key: getattr(offer, key) for key in ("provider", "instance_type", "region", "purchase")}, "count": count}
        for offer, count in zip(plan.built.offers, bought, strict=True)
        if count
    ]
    return {
        "name": name,
        "buys": items,
        "mean_usd": float(np.mean(usd)),
        "mean_regret_usd": float(np.mean(regrets)) if regrets else None,
        "greatest_regret_usd": max(regrets, default=None),
        "short": short,
    }


# -- a future --------------------------------------------------------------------------------------


def future(instance: Instance, dice: Dice, doubts: Doubts) -> Instance:
    """One future: the metered prices of each seller moved together, all demand scaled, some metered
    offers gone. What is committed keeps its price."""
    prices = {key: math.exp(dice.uniform(-1.0, 1.0) * math.log1p(doubts.price)) for key in _metered(instance, _seller)}
    gone = {key for key in _metered(instance, _offer) if dice.random() < doubts.gone}
    jobs, services = (1.0 + dice.uniform(-1.0, 1.0, 2) * doubts.demand).tolist()
    moved = _mapped(instance, lambda one: _choice(one, prices, gone), lambda one: _kind(one, prices, gone, services))
    purchases = tuple(
        dataclasses.replace(one, cost_usd=one.cost_usd * prices.get(_seller(one.what), 1.0)) if one.is_metered else one
        for one in moved.purchases
    )
    return dataclasses.replace(moved, purchases=purchases, demands=tuple(_counted(one, jobs, dice) for one in moved.demands))


def _seller(way: Any) -> tuple[str, ...]:
    return (way.provider, way.purchase)


def _offer(way: Any) -> tuple[str, ...]:
    return (way.provider, way.instance_type, way.region, way.purchase)


def _metered(instance: Instance, key: Callable[[Any], tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Sellers or offers that are paid by the hour, in an order that does not change."""
    ways = [choice.way for demand in instance.demands for choice in demand.choices]
    ways += [mode.way for service in instance.services for kind in service.kinds for mode in kind.modes]
    return sorted({key(way) for way in ways if way.purchase in METERED})


def _choice(one: Choice, prices: Mapping[Any, float], gone: set[tuple[str, ...]]) -> Choice | None:
    if one.way.purchase not in METERED:
        return one
    if _offer(one.way) in gone:
        return None
    return dataclasses.replace(one, cost_usd=one.cost_usd + one.way.servers_usd * (prices[_seller(one.way)] - 1.0))


def _kind(one: Kind, prices: Mapping[Any, float], gone: set[tuple[str, ...]], demand: float) -> Kind | None:
    modes = tuple(_mode(mode, prices) for mode in one.modes if mode.way.purchase not in METERED or _offer(mode.way) not in gone)
    if not any(not mode.lowest for mode in modes):
        return None
    sizes = [0, *(math.ceil(size * demand - TOLERANCE) for size in itertools.accumulate(layer.width for layer in one.layers))]
    layers = tuple(
        dataclasses.replace(layer, width=high - low) for layer, (low, high) in zip(one.layers, itertools.pairwise(sizes), strict=True)
    )
    return dataclasses.replace(one, modes=modes, layers=layers, other_usd=one.other_usd * demand)


def _mode(one: Mode, prices: Mapping[Any, float]) -> Mode:
    return one if one.way.purchase not in METERED else dataclasses.replace(one, usd_per_h=one.usd_per_h * prices[_seller(one.way)])


def _counted(one: Demand, factor: float, dice: Dice) -> Demand:
    """As many jobs as a factor says, a part of one by chance."""
    return dataclasses.replace(one, count=math.floor(one.count * factor + dice.random()))


def _mapped(instance: Instance, choice: Callable[[Choice], Choice | None], kind: Callable[[Kind], Kind | None]) -> Instance:
    demands = (dataclasses.replace(one, choices=tuple(kept for old in one.choices if (kept := choice(old)))) for one in instance.demands)
    services = (dataclasses.replace(one, kinds=tuple(left for old in one.kinds if (left := kind(old)))) for one in instance.services)
    return dataclasses.replace(instance, demands=tuple(demands), services=tuple(services))


# -- after the purchases ---------------------------------------------------------------------------


def settled(instance: Instance, bought: Bought) -> tuple[Instance, float]:
    """The numbers once so much is bought: its capacity is there, nothing more can be bought for a
    term, and its money [USD] is spent."""
    caps = [resource.caps.astype(np.float64).copy() for resource in instance.resources]
    spent = 0.0
    for item, count in zip(instance.purchases, bought, strict=True):
        if item.is_metered:
            continue
        spent += item.cost_usd * count
        for resource, rows, amount in purchase_loads(instance, item.first, item.last, item, count) if count else []:
            np.add.at(caps[resource], rows, -amount)
    resources = tuple(dataclasses.replace(one, caps=room) for one, room in zip(instance.resources, caps, strict=True))
    metered = tuple(item for item in instance.purchases if item.is_metered)
    return dataclasses.replace(instance, resources=resources, purchases=metered), spent


def _after(instance: Instance, bought: Bought, seconds: float) -> Solution:
    """The best plan of a future in which so much is bought, whatever else it needs by the hour."""
    rest, spent = settled(instance, bought)
    found = solve(rest, seconds=seconds).plan
    return dataclasses.replace(found, bought=bought, cost_usd=found.cost_usd + spent)
