"""A fleet as the optimiser sees it: demands with choices, services with layers, resources with
capacities by period, things to buy. Numbers only.

Time is cut into `num_periods` periods of `period_h` hours. A resource has rows of capacity and says
which row each period draws on: a quota has one row a period, a monthly budget one row a month, the
share of spot one row in all. A choice of a job loads resources in each period that it occupies.
"""

from __future__ import annotations

import datetime
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.facts.tables import table
from rightfit.physics.columns import Array
from rightfit.records import dataclass

Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """Something of which there is only so much. `caps` (rows,) in `unit`; `row_of` (periods,): the
    row that each period draws on.

    `kind`: owned, committed, quota, stock, budget or spot. `limit`: which line of the
    fleet's limits it is.
    """

    name: str
    kind: str
    unit: str
    caps: Array
    row_of: Index

    @property
    def is_momentary(self) -> bool:
        """Whether each period has a row of its own: what one period leaves is
        no use to the next."""
        return bool(self.caps.shape[0] == self.row_of.shape[0] and np.array_equal(self.row_of, np.arange(self.row_of.shape[0])))


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One way to run one job: money [USD], how long it takes [h], and what it takes of resources in
    each of its periods, (resource, amount).
    `is_rented`: on nothing that is owned or bought for a term."""

    way: Any
    cost_usd: float
    hours: float
    loads: tuple[tuple[int, float], ...] = ()
    is_rented: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """`count` equal jobs, each to be run once within [ready_h, due_h]. `weight`: how much it
    matters that one is placed. `budgets`: resources that its money draws on, spread evenly over its
    periods. `after`: demands that must be done, all of each, before one of these starts."""

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
    """Servers of a service that are needed at the same hours: `width` of them, in the periods of
    `on` (periods,), `hours` [h] in all."""

    width: int
    on: Mask
    hours: float


@dataclass(frozen=True, slots=True, eq=False)
class Mode:
    """One way to pay for servers of a kind. `loads` of one server; `lowest`: the first layer that
    may be paid so (spot only above the base)."""

    way: Any
    usd_per_h: float
    loads: tuple[tuple[int, float], ...] = ()
    lowest: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One type of server in one region for a service: its layers, base first, and the ways to pay.
    `other_usd`: what it costs beside servers.
    `is_part`: it stands on parts of cards that others pay for, so that what it costs
    alone is not known."""

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
    """Capacity that can be bought: each one adds `adds` to `resource` in periods [first, last) for
    `cost_usd`, at most `most`. It draws on other resources (`loads`, in each of those periods) and
    on `budgets`. `is_metered`: paid by the hour like any other, so that it binds nobody."""

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
        """First and last period in which a choice may start; the last is below the first where it
        cannot be in time."""
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
    """A plan: what is placed, picked and bought (count of each purchase). `missing`: weighted jobs
    and services that are not."""

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


# ---- Demand by hour as few levels, and the hours of the horizon at which each is needed.

MOST_LEVELS = 3


def levels_of(rates: Sequence[float]) -> tuple[float, ...]:
    """At most three rates [1/s], rising, that the hours are rounded up to: the least, the greatest,
    and the one between that wastes least."""
    known = sorted({rate for rate in rates if rate > 0})
    if len(known) <= MOST_LEVELS:
        return tuple(known)
    low, high = known[0], known[-1]
    given = np.array([rate for rate in rates if rate > 0])

    def waste(middle: float) -> float:
        return float(np.sum(np.where(given <= low, low, np.where(given <= middle, middle, high)) - given))

    return (low, min(known[1:-1], key=waste), high)


def hourly_level(
    rates: Sequence[float], levels: Sequence[float], *, start: datetime.datetime, hours: int
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """For each hour from the start the number of levels that it needs (0: none)."""
    shape = np.asarray(rates)
    offset = start.hour + (24 * start.weekday() if shape.shape[0] > 24 else 0)
    by_hour = shape[(offset + np.arange(hours)) % shape.shape[0]]
    return np.asarray(np.where(by_hour <= 0, 0, np.searchsorted(np.asarray(levels) * (1 + 1e-9), by_hour) + 1), dtype=np.intp)


def on_of(needed: Any, level: int, *, period_h: float, num_periods: int) -> tuple[Mask, float]:
    """Periods in which a level is needed at any hour, and the hours that it is needed in all."""
    on_hours = np.asarray(needed) > level
    period = np.minimum((np.arange(on_hours.shape[0]) / period_h).astype(np.intp), num_periods - 1)
    on = np.zeros(num_periods, dtype=np.bool_)
    on[period[on_hours]] = True
    return on, float(np.count_nonzero(on_hours))


# ---- Whether a plan keeps everything that a fleet demands: written without the optimiser and its
# matrices, period by period in plain Python.

_SLACK = 1e-5


def faults(instance: Instance, plan: Solution) -> list[str]:
    """What a plan breaks, one line each; empty for a sound plan."""
    return [
        *_times(instance, plan),
        *_order(instance, plan),
        *_counts(instance, plan),
        *_overdrawn(instance, plan),
        *_money(instance, plan),
    ]


def _times(instance: Instance, plan: Solution) -> list[str]:
    found = []
    for one in plan.placed:
        demand = instance.demands[one.demand]
        choice = demand.choices[one.choice]
        begin = one.start * instance.period_h
        end = begin + choice.hours
        if begin < demand.ready_h - _SLACK:
            found.append(f"{demand.name} starts at {begin:g} h, before {demand.ready_h:g} h")
        if end > demand.due_h + _SLACK:
            found.append(f"{demand.name} ends at {end:g} h, after {demand.due_h:g} h")
        if end > instance.num_periods * instance.period_h + _SLACK:
            found.append(f"{demand.name} ends after the horizon")
    return found


def _order(instance: Instance, plan: Solution) -> list[str]:
    """Jobs that start before what they wait for is done."""
    found = []
    ends: dict[int, list[float]] = defaultdict(list)
    for one in plan.placed:
        ends[one.demand] += [one.start * instance.period_h + instance.demands[one.demand].choices[one.choice].hours] * one.count
    for one in plan.placed:
        demand = instance.demands[one.demand]
        for before in demand.after:
            first = instance.demands[before]
            if len(ends[before]) < first.count:
                found.append(f"{demand.name} runs, but {first.name}, which it waits for, not all of it")
            elif first.count and max(ends[before]) > one.start * instance.period_h + _SLACK:
                found.append(
                    f"{demand.name} starts at {one.start * instance.period_h:g} h, before {first.name} ends at {max(ends[before]):g} h"
                )
    return found


def _counts(instance: Instance, plan: Solution) -> list[str]:
    found = []
    number: dict[int, int] = defaultdict(int)
    for one in plan.placed:
        number[one.demand] += one.count
        if one.count < 1:
            found.append(f"{instance.demands[one.demand].name}: a placement of {one.count}")
    found += [
        f"{demand.name} runs {number[row]} of {demand.count} times"
        for row, demand in enumerate(instance.demands)
        if number[row] > demand.count
    ]
    seen: set[int] = set()
    for pick in plan.picked:
        service = instance.services[pick.service]
        if pick.service in seen:
            found.append(f"{service.name} is picked twice")
        seen.add(pick.service)
        kind = service.kinds[pick.kind]
        for row, layer in enumerate(kind.layers):
            servers = sum(count for at, _, count in pick.parts if at == row)
            if servers != layer.width:
                found.append(f"{service.name}: layer {row} has {servers} servers, needs {layer.width}")
        found += [f"{service.name}: mode {mode} below its layer" for at, mode, _ in pick.parts if at < kind.modes[mode].lowest]
        found += [f"{service.name}: {count} servers" for *_, count in pick.parts if count < 0]
    for item, count in zip(instance.purchases, plan.bought, strict=True):
        if not 0 <= count <= item.most:
            found.append(f"{count} of {item.what} bought, at most {item.most}")
    return found


def drawn(instance: Instance, plan: Solution) -> dict[tuple[int, int], float]:
    """What a plan takes of each row of each resource, (resource, row) -> amount; what it buys
    counts against it."""
    used: dict[tuple[int, int], float] = defaultdict(float)

    def take(resource: int, period: int, amount: float) -> None:
        used[resource, int(instance.resources[resource].row_of[period])] += amount

    for one in plan.placed:
        demand = instance.demands[one.demand]
        choice = demand.choices[one.choice]
        end = one.start
        while (end - one.start) * instance.period_h < choice.hours - _SLACK or end == one.start:
            end += 1
        for period in range(one.start, min(end, instance.num_periods)):
            for resource, amount in choice.loads:
                take(resource, period, amount * one.count)
            for resource in demand.budgets:
                take(resource, period, choice.cost_usd * one.count / (end - one.start))
    for pick in plan.picked:
        service = instance.services[pick.service]
        kind = service.kinds[pick.kind]
        for at, mode, count in pick.parts:
            layer = kind.layers[at]
            on = [period for period in range(instance.num_periods) if layer.on[period]]
            for period in on:
                for resource, amount in kind.modes[mode].loads:
                    take(resource, period, amount * count)
                for resource in service.budgets:
                    take(resource, period, kind.modes[mode].usd_per_h * layer.hours * count / len(on))
        for resource in service.budgets:
            for period in range(instance.num_periods):
                take(resource, period, kind.other_usd / instance.num_periods)
    for item, count in zip(instance.purchases, plan.bought, strict=True):
        for period in range(item.first, item.last):
            take(item.resource, period, -item.adds * count)
            for resource, amount in item.loads:
                take(resource, period, amount * count)
            for resource in item.budgets:
                take(resource, period, item.cost_usd * count / (item.last - item.first))
    return used


def _overdrawn(instance: Instance, plan: Solution) -> list[str]:
    found = []
    for (resource, row), amount in drawn(instance, plan).items():
        limit = float(instance.resources[resource].caps[row])
        if amount > limit + _SLACK * max(1.0, abs(limit)):
            found.append(f"{instance.resources[resource].name}: {amount:g} of {limit:g} {instance.resources[resource].unit} in row {row}")
    return found


def _money(instance: Instance, plan: Solution) -> list[str]:
    cost = cost_of(instance, plan.placed, plan.picked, plan.bought)
    missing = missing_of(instance, plan.placed, plan.picked)
    found = [] if abs(cost - plan.cost_usd) <= _SLACK * max(1.0, cost) else [f"costs {cost:g}, says {plan.cost_usd:g}"]
    return (
        found if abs(missing - plan.missing) <= _SLACK * max(1.0, missing) else [*found, f"leaves out {missing:g}, says {plan.missing:g}"]
    )


# -- parts of cards --------------------------------------------------------------------------------


def card_faults(shared: Sequence[Mapping[str, Any]], needed: Mapping[str, int]) -> list[str]:
    """What servers break whose cards are shared, one line each: slices where the vendor's table has
    none, over each other, or over the card's memory; cards that the servers do not have; services
    with another number of slices than they need."""
    found = []
    has: dict[str, int] = defaultdict(int)
    for row in shared:
        seen: set[tuple[int, int]] = set()
        for card in row["cards"]:
            place = (card["server"], card["card"])
            label = f"{row['name']}, server {place[0]}, card {place[1]}"
            if place in seen or place[0] >= row["servers"] or place[1] >= row["way"].accelerators:
                found.append(f"{label}: there is no such card, or it is cut twice")
            seen.add(place)
            found += [f"{label}: {fault}" for fault in _cut_faults(row["way"].accelerator, card["slices"])]
            for one in card["slices"]:
                has[one["service"]] += 1
    names = {name for name in (*needed, *has) if name}
    return found + [
        f"{name} has {has[name]} slices, needs {needed.get(name, 0)}" for name in sorted(names) if has[name] != needed.get(name, 0)
    ]


def _cut_faults(card: str, slices: Sequence[Mapping[str, Any]]) -> list[str]:
    found = []
    memory = sum(one["memory_share"] for one in slices)
    if memory > 1.0 + _SLACK:
        found.append(f"slices take {memory:g} of its memory")
    busy: set[float] = set()
    for one in slices:
        parts = {(one["start"] + step) / one["places"] for step in range(one["size"])}
        if busy & parts or max(parts) >= 1.0:
            found.append(f"{one['slice']} at {one['start']} lies over another slice or beyond the card")
        busy |= parts
        if "g" in one["slice"] and not _is_allowed(card, one):
            found.append(f"{one['slice']} cannot begin at {one['start']}")
    if len({"g" in one["slice"] for one in slices}) > 1:
        found.append("MIG slices and fractions on one card")
    return found


def _is_allowed(card: str, one: Mapping[str, Any]) -> bool:
    """Whether the vendor's tables have a slice of this name on the card, and let it begin there."""
    known = any(re.fullmatch(row["cards"], card) and row["profile"] == one["slice"] for row in table("card_slices"))
    places = [
        row
        for row in table("slice_placements")
        if re.fullmatch(row["cards"], card)
        and row["instances"] == one["slice"].partition(".")[0]
        and float(row["memory_share"]) == one["memory_share"]
    ]
    return known and any(str(one["start"]) in row["starts"].split() and int(row["size"]) == one["size"] for row in places)
