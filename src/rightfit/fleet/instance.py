"""A fleet as the optimiser sees it: demands with choices, services with layers, resources with capacities by period, things to buy. Numbers only.

Time is cut into `num_periods` periods of `period_h` hours. A resource has rows of capacity and says which row each period draws on: a quota has one row
a period, a monthly budget one row a month, the share of spot one row in all. A choice of a job loads resources in each period that it occupies.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.records import dataclass

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """Something of which there is only so much. `caps` (rows,) in `unit`; `row_of` (periods,): the row that each period draws on.

    `kind`: owned, committed, quota, stock, budget or spot. `limit`: which line of the fleet's limits it is.
    """

    name: str
    kind: str
    unit: str
    caps: Array
    row_of: Index

    @property
    def is_momentary(self) -> bool:
        """Whether each period has a row of its own: what one period leaves is no use to the next."""
        return bool(self.caps.shape[0] == self.row_of.shape[0] and np.array_equal(self.row_of, np.arange(self.row_of.shape[0])))


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One way to run one job: money [USD], how long it takes [h], and what it takes of resources in each of its periods, (resource, amount).
    `is_rented`: on nothing that is owned or bought for a term."""

    way: Any
    cost_usd: float
    hours: float
    loads: tuple[tuple[int, float], ...] = ()
    is_rented: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """`count` equal jobs, each to be run once within [ready_h, due_h]. `weight`: how much it matters that one is placed. `budgets`: resources that its
    money draws on, spread evenly over its periods. `after`: demands that must be done, all of each, before one of these starts."""

    name: str
    count: int
    ready_h: float
    due_h: float
    choices: tuple[Choice, ...]
    weight: float = 1.0
    budgets: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Servers of a service that are needed at the same hours: `width` of them, in the periods of `on` (periods,), `hours` [h] in all."""

    width: int
    on: Mask
    hours: float


@dataclass(frozen=True, slots=True, eq=False)
class Mode:
    """One way to pay for servers of a kind. `loads` of one server; `lowest`: the first layer that may be paid so (spot only above the base)."""

    way: Any
    usd_per_h: float
    loads: tuple[tuple[int, float], ...] = ()
    lowest: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One type of server in one region for a service: its layers, base first, and the ways to pay. `other_usd`: what it costs beside servers.
    `is_part`: it stands on parts of cards that others pay for, so that what it costs alone is not known."""

    way: Any
    layers: tuple[Layer, ...]
    modes: tuple[Mode, ...]
    other_usd: float = 0.0
    is_part: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Steady:
    """A service: one of its kinds is picked."""

    name: str
    kinds: tuple[Kind, ...]
    weight: float = 1.0
    budgets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Purchase:
    """Capacity that can be bought: each one adds `adds` to `resource` in periods [first, last) for `cost_usd`, at most `most`. It draws on other
    resources (`loads`, in each of those periods) and on `budgets`. `is_metered`: paid by the hour like any other, so that it binds nobody."""

    what: Any
    resource: int
    cost_usd: float
    first: int
    last: int
    most: int
    adds: float = 1.0
    loads: tuple[tuple[int, float], ...] = ()
    budgets: tuple[int, ...] = ()
    is_metered: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """Everything to decide on."""

    period_h: float
    num_periods: int
    resources: tuple[Resource, ...] = ()
    demands: tuple[Demand, ...] = ()
    services: tuple[Steady, ...] = ()
    purchases: tuple[Purchase, ...] = ()

    def length(self, choice: Choice) -> int:
        """Periods that a choice occupies."""
        return max(1, math.ceil(choice.hours / self.period_h - TOLERANCE))

    def starts(self, demand: Demand, choice: Choice) -> tuple[int, int]:
        """First and last period in which a choice may start; the last is below the first where it cannot be in time."""
        first = math.ceil(demand.ready_h / self.period_h - TOLERANCE)
        latest = math.floor((demand.due_h - choice.hours) / self.period_h + TOLERANCE)
        return first, min(latest, self.num_periods - self.length(choice))


@dataclass(frozen=True, slots=True)
class Placed:
    """`count` jobs of a demand on one of its choices from one period on."""

    demand: int
    choice: int
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Picked:
    """A service on one of its kinds: (layer, mode, servers)."""

    service: int
    kind: int
    parts: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Solution:
    """A plan: what is placed, picked and bought (count of each purchase). `missing`: weighted jobs and services that are not."""

    placed: tuple[Placed, ...]
    picked: tuple[Picked, ...]
    bought: tuple[int, ...]
    cost_usd: float
    missing: float

    @property
    def key(self) -> tuple[float, float]:
        """What plans are compared by: first that all is placed, then money."""
        return (round(self.missing, 6), self.cost_usd)


def cost_of(instance: Instance, placed: tuple[Placed, ...], picked: tuple[Picked, ...], bought: tuple[int, ...]) -> float:
    """Money of a plan [USD]."""
    jobs = sum(instance.demands[one.demand].choices[one.choice].cost_usd * one.count for one in placed)
    services = sum(pick_usd(instance, one) for one in picked)
    return float(jobs + services + sum(item.cost_usd * count for item, count in zip(instance.purchases, bought, strict=True)))


def pick_usd(instance: Instance, one: Picked) -> float:
    """Money of a service [USD]."""
    kind = instance.services[one.service].kinds[one.kind]
    return kind.other_usd + sum(kind.modes[mode].usd_per_h * kind.layers[layer].hours * count for layer, mode, count in one.parts)


def missing_of(instance: Instance, placed: tuple[Placed, ...], picked: tuple[Picked, ...]) -> float:
    """Weight of what a plan leaves out."""
    jobs = sum(demand.weight * demand.count for demand in instance.demands) - sum(
        instance.demands[one.demand].weight * one.count for one in placed
    )
    services = sum(one.weight for one in instance.services) - sum(instance.services[one.service].weight for one in picked)
    return float(jobs + services)


def solution(instance: Instance, placed: list[Placed], picked: list[Picked], bought: list[int]) -> Solution:
    """A plan with its money and what it leaves out."""
    parts = (tuple(placed), tuple(picked), tuple(bought))
    return Solution(*parts, cost_of(instance, *parts), missing_of(instance, parts[0], parts[1]))
