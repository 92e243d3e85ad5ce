"""List scheduling: jobs in order of importance and deadline, each as a gang at the earliest moment
that has room, filling holes that others left.

It gives a plan without a solver: where the solver has no time, as the start of its search, and as
the plan that it must never be worse than.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from rightfit.fleets.instance import TOLERANCE, Choice, Demand, Index, Instance, Kind, Picked, Placed, Solution, Steady, solution
from rightfit.physics.columns import Array

#: (choice, start) of a demand in the order in which they are tried first.
Preferences = Mapping[int, Sequence[tuple[int, int]]]


class Board:
    """What is left of every resource while jobs are put in."""

    def __init__(self, instance: Instance, bought: Sequence[int] = ()) -> None:
        self.instance = instance
        self.free = [resource.caps.astype(np.float64).copy() for resource in instance.resources]
        self.momentary = [resource.is_momentary for resource in instance.resources]
        for item, count in zip(instance.purchases, bought, strict=False):
            for resource, rows, amount in purchase_loads(instance, item.first, item.last, item, count):
                np.add.at(self.free[resource], rows, -amount)

    def room(self, demand: Demand, choice: Choice, start: int) -> int:
        """How many of a demand have room on a choice from one period on."""
        end = start + self.instance.length(choice)
        most = demand.count
        for resource, amount in job_loads(self.instance, demand, choice):
            if amount <= 0:
                continue
            rows, needs = self._needs(resource, amount, start, end)
            most = min(most, int(np.floor(np.min((self.free[resource][rows] + TOLERANCE) / needs))))
        return max(most, 0)

    def _needs(self, resource: int, amount: float, start: int, end: int) -> tuple[Index, Array]:
        if self.momentary[resource]:
            return np.arange(start, end), np.full(end - start, amount)
        rows, number = np.unique(self.instance.resources[resource].row_of[start:end], return_counts=True)
        return rows.astype(np.intp), amount * number.astype(np.float64)

    def first_start(self, demand: Demand, choice: Choice, not_before: int = 0) -> int | None:
        """The earliest period from which one job of a demand has room on a choice."""
        first, last = self.instance.starts(demand, choice)
        first = max(first, not_before)
        if last < first:
            return None
        length = self.instance.length(choice)
        good = np.ones(last - first + 1, dtype=np.bool_)
        for resource, amount in job_loads(self.instance, demand, choice):
            if self.momentary[resource] and amount > 0:
                short = np.concatenate([[0], np.cumsum(self.free[resource][first : last + length] < amount - TOLERANCE)])
                good &= short[length:] == short[: last - first + 1]
        return next((int(start) + first for start in np.flatnonzero(good) if self.room(demand, choice, int(start) + first) > 0), None)

    def put(self, demand: Demand, choice: Choice, start: int, count: int) -> None:
        """Take what `count` jobs need; a negative count gives it back."""
        end = start + self.instance.length(choice)
        for resource, amount in job_loads(self.instance, demand, choice):
            rows, needs = self._needs(resource, amount, start, end)
            self.free[resource][rows] -= needs * count

    def servers(self, service: Steady, kind: Kind, layer: int, mode: int, most: int) -> int:
        """How many servers of a layer have room when they are paid one way."""
        for resource, rows, amount in mode_loads(self.instance, service, kind, layer, mode, 1):
            if amount.max(initial=0.0) <= 0:
                continue
            most = min(most, int(np.floor(np.min((self.free[resource][rows] + TOLERANCE) / np.maximum(amount, TOLERANCE)))))
        return max(most, 0)

    def other(self, service: Steady, kind: Kind, count: int) -> bool:
        """Take what a kind costs beside servers from the budgets (back with -1);
        whether there is as much."""
        loads = other_loads(self.instance, service, kind)
        if count > 0 and any(np.any(self.free[resource][rows] < amount - TOLERANCE) for resource, rows, amount in loads):
            return False
        for resource, rows, amount in loads:
            self.free[resource][rows] -= amount * count
        return True

    def put_servers(self, service: Steady, kind: Kind, layer: int, mode: int, count: int) -> None:
        """Take what `count` servers of a layer need."""
        for resource, rows, amount in mode_loads(self.instance, service, kind, layer, mode, count):
            self.free[resource][rows] -= amount


def job_loads(instance: Instance, demand: Demand, choice: Choice) -> tuple[tuple[int, float], ...]:
    """What one job takes of resources in each of its periods, its money included."""
    if not demand.budgets:
        return choice.loads
    return (*choice.loads, *((budget, choice.cost_usd / instance.length(choice)) for budget in demand.budgets))


def mode_loads(instance: Instance, service: Steady, kind: Kind, layer: int, mode: int, count: int) -> list[tuple[int, Index, Array]]:
    """(resource, rows, amounts) of `count` servers of a layer that are paid one way."""
    periods = np.flatnonzero(kind.layers[layer].on)
    usd = kind.modes[mode].usd_per_h * kind.layers[layer].hours / max(periods.shape[0], 1)
    loads = (*kind.modes[mode].loads, *((budget, usd) for budget in service.budgets))
    return [_of_rows(instance, resource, periods, amount * count) for resource, amount in loads]


def other_loads(instance: Instance, service: Steady, kind: Kind) -> list[tuple[int, Index, Array]]:
    """(resource, rows, amounts) of what a kind costs beside servers."""
    periods = np.arange(instance.num_periods)
    share = kind.other_usd / instance.num_periods
    return [_of_rows(instance, budget, periods, share) for budget in service.budgets] if share else []


def purchase_loads(instance: Instance, first: int, last: int, item: object, count: int) -> list[tuple[int, Index, Array]]:
    """(resource, rows, amounts) that purchases draw; what they add is negative."""
    periods = np.arange(first, last)
    loads = ((item.resource, -item.adds), *item.loads, *((budget, item.cost_usd / (last - first)) for budget in item.budgets))  # type: ignore[attr-defined]
    return [_of_rows(instance, resource, periods, amount * count) for resource, amount in loads]


def _of_rows(instance: Instance, resource: int, periods: Index, amount: float) -> tuple[int, Index, Array]:
    rows, number = np.unique(instance.resources[resource].row_of[periods], return_counts=True)
    return resource, rows.astype(np.intp), amount * number.astype(np.float64)


def listed(
    instance: Instance,
    *,
    preferences: Preferences | None = None,
    bought: Sequence[int] | None = None,
    kinds: Mapping[int, int] | None = None,
) -> Solution:
    """A plan by list scheduling. `preferences` of demands are tried first, then their choices by
    cost, each at its earliest moment; `kinds`: the kind that a service should have."""
    bought = list(bought) if bought is not None else [0] * len(instance.purchases)
    board = Board(instance, bought)
    picked = [one for row in _order_services(instance) if (one := _pick(board, row, (kinds or {}).get(row)))]
    placed: list[Placed] = []
    done: dict[int, int] = {}
    by = pressing(instance)
    for row in order(instance):
        demand = instance.demands[row]
        if any(before not in done for before in demand.after):
            continue
        begin = max((done[before] for before in demand.after), default=0)
        here = _place(board, row, (preferences or {}).get(row, ()), not_before=begin, by_h=by[row])
        if sum(one.count for one in here) == demand.count:
            done[row] = max((one.start + instance.length(demand.choices[one.choice]) for one in here), default=0)
        placed += here
    return earlier(instance, solution(instance, placed, picked, bought))


def order(instance: Instance) -> list[int]:
    """Demands: the important first, then those that are due first, then the dear; none before
    what it waits for."""
    by = pressing(instance)

    def key(row: int) -> tuple[float, float, float]:
        demand = instance.demands[row]
        return (-demand.weight, by[row], -min((choice.cost_usd for choice in demand.choices), default=0.0))

    ranked = sorted(range(len(instance.demands)), key=key)
    found: dict[int, None] = {}
    for row in ranked:
        stack = [row]
        while stack:
            waits = [before for before in instance.demands[stack[-1]].after if before not in found]
            if waits:
                stack.append(waits[0])
            else:
                found.setdefault(stack.pop())
    return list(found)


def pressing(instance: Instance) -> list[float]:
    """By when each demand should be done so that what waits for it can still be in time [h]: its
    own deadline where nothing does."""
    found = [demand.due_h for demand in instance.demands]
    left = [row for row, demand in enumerate(instance.demands) if demand.after]
    for _ in range(len(left)):  # a round for each link of the longest chain
        before = list(found)
        for row in left:
            demand = instance.demands[row]
            least = min((instance.length(choice) for choice in demand.choices), default=0) * instance.period_h
            for one in demand.after:
                found[one] = min(found[one], found[row] - least)
        if found == before:
            break
    return found


def _order_services(instance: Instance) -> list[int]:
    return sorted(range(len(instance.services)), key=lambda row: -instance.services[row].weight)


def _place(board: Board, row: int, first: Sequence[tuple[int, int]], *, not_before: int, by_h: float) -> list[Placed]:
    """Places as many of a demand as have room; those that others wait for by `by_h`
    [h] if that can be."""
    demand, left, found = board.instance.demands[row], board.instance.demands[row].count, []

    def put(choice: int, start: int) -> None:
        nonlocal left
        number = min(left, board.room(demand, demand.choices[choice], start))
        if number:
            board.put(demand, demand.choices[choice], start, number)
            found.append(Placed(row, choice, start, number))
            left -= number

    for choice, start in first:
        if left and start >= not_before:
            put(choice, start)
    cheap = np.argsort([one.cost_usd for one in demand.choices], kind="stable").tolist()
    for asked in [dataclasses.replace(demand, due_h=by_h), demand] if by_h < demand.due_h else [demand]:
        for choice in cheap:
            while left and (at := board.first_start(asked, demand.choices[choice], not_before)) is not None:
                put(choice, at)
    return found


def _pick(board: Board, row: int, wanted: int | None) -> Picked | None:
    """The first kind of a service that has room, the wanted one before the others, then by cost
    without what is owned."""
    service = board.instance.services[row]
    costs = [_dear(kind) for kind in service.kinds]
    ranks = np.argsort(costs, kind="stable").tolist()
    for number in [wanted, *ranks] if wanted is not None else ranks:
        kind = service.kinds[number]
        parts = _parts(board, service, kind)
        if parts is not None:
            return Picked(row, number, tuple(parts))
    return None


def _dear(kind: Kind) -> float:
    return kind.other_usd + sum(layer.width * layer.hours * max(mode.usd_per_h for mode in kind.modes) for layer in kind.layers)


def _parts(board: Board, service: Steady, kind: Kind) -> list[tuple[int, int, int]] | None:
    parts: list[tuple[int, int, int]] = []
    if not board.other(service, kind, 1):
        return None
    cheap = np.argsort([mode.usd_per_h for mode in kind.modes], kind="stable").tolist()
    for at, layer in enumerate(kind.layers):
        left = layer.width
        for mode in cheap:
            if at >= kind.modes[mode].lowest and left and (number := board.servers(service, kind, at, mode, left)):
                board.put_servers(service, kind, at, mode, number)
                parts.append((at, mode, number))
                left -= number
        if left:
            for taken in parts:
                board.put_servers(service, kind, taken[0], taken[1], -taken[2])
            board.other(service, kind, -1)
            return None
    return parts


def earlier(instance: Instance, plan: Solution) -> Solution:
    """The same plan with every job as early as there is room for it; money stays as it is. No money
    moves to another month."""
    board = Board(instance, plan.bought)
    for pick in plan.picked:
        service = instance.services[pick.service]
        board.other(service, service.kinds[pick.kind], 1)
        for at, mode, count in pick.parts:
            board.put_servers(service, service.kinds[pick.kind], at, mode, count)
    for one in plan.placed:
        demand = instance.demands[one.demand]
        board.put(demand, demand.choices[one.choice], one.start, one.count)
    moved: list[Placed] = []
    for one in sorted(plan.placed, key=lambda item: item.start):
        demand = instance.demands[one.demand]
        choice = demand.choices[one.choice]
        left = one.count
        begin = max((_end(instance, other) for other in moved if other.demand in demand.after), default=0) if demand.after else 0
        while left:
            board.put(demand, choice, one.start, -left)
            start = board.first_start(demand, choice, begin)
            stays = start is None or start > one.start or not _same_months(instance, demand, one.start, start, instance.length(choice))
            at = one.start if stays or start is None else start
            number = left if at == one.start else min(left, max(board.room(demand, choice, at), 1))
            board.put(demand, choice, at, number)
            left -= number
            if left:
                board.put(demand, choice, one.start, left)
            moved.append(Placed(one.demand, one.choice, at, number))
    return solution(instance, _joined(moved), list(plan.picked), list(plan.bought))


def overdrawn(instance: Instance, plan: Solution) -> bool:
    """Whether a plan buys or places more than there is room for."""
    board = Board(instance, plan.bought)
    for pick in plan.picked:
        service = instance.services[pick.service]
        for resource, rows, amount in other_loads(instance, service, service.kinds[pick.kind]):
            board.free[resource][rows] -= amount
        for at, mode, count in pick.parts:
            board.put_servers(service, service.kinds[pick.kind], at, mode, count)
    for one in plan.placed:
        demand = instance.demands[one.demand]
        board.put(demand, demand.choices[one.choice], one.start, one.count)
    caps = [resource.caps for resource in instance.resources]
    return any(np.any(free < -1e-5 * np.maximum(1.0, np.abs(cap))) for free, cap in zip(board.free, caps, strict=True))


def _end(instance: Instance, one: Placed) -> int:
    """The period from which a placement is over."""
    return one.start + instance.length(instance.demands[one.demand].choices[one.choice])


def _same_months(instance: Instance, demand: Demand, old: int, new: int, length: int) -> bool:
    """Whether a job's money falls on the same rows of its budgets wherever of
    two places it stands."""
    rows = [instance.resources[budget].row_of for budget in demand.budgets]
    return all(np.array_equal(row[old : old + length], row[new : new + length]) for row in rows)


def _joined(placed: Sequence[Placed]) -> list[Placed]:
    number: dict[tuple[int, int, int], int] = {}
    for one in placed:
        key = (one.demand, one.choice, one.start)
        number[key] = number.get(key, 0) + one.count
    return [Placed(*key, count) for key, count in number.items()]
