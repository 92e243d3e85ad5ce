"""Whether a plan keeps everything that a fleet demands: written without the optimiser and its matrices, period by period in plain Python."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from rightfit.facts.tables import table
from rightfit.fleet.instance import Instance, Solution, cost_of, missing_of

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
    """What a plan takes of each row of each resource, (resource, row) -> amount; what it buys counts against it."""
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


# -- parts of cards ------------------------------------------------------------------------------------------------------------------------


def card_faults(shared: Sequence[Mapping[str, Any]], needed: Mapping[str, int]) -> list[str]:
    """What servers break whose cards are shared, one line each: slices where the vendor's table has none, over each other, or over the card's memory;
    cards that the servers do not have; services with another number of slices than they need."""
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
