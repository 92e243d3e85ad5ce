"""The optimum of a fleet, with its bound: columns of placements are priced in as the LP asks
for them, then branch and bound over those, with list scheduling as the start and as the repair
where time is up.

The plan that is given is the best of all that were found, so it is never worse than list scheduling
nor than each job at its own best.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping

import numpy as np

from rightfit.fleets.instance import TOLERANCE, Choice, Demand, Instance, Placed, Solution, solution
from rightfit.fleets.listing import earlier, listed, overdrawn
from rightfit.fleets.matrix import Answer, Matrix, remaining
from rightfit.physics.columns import Array
from rightfit.records import dataclass

ALL_COLUMNS, PER_DEMAND, MOST_ROUNDS = 25_000, 4, 60
LP_SHARE, CLOSE = 0.6, 3e-4


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """The best plan, a bound that no plan of these choices can be below [USD], the LP's duals by
    (resource, row) [USD per unit], and what each job alone would take (None where limits forbid
    that together)."""

    plan: Solution
    bound_usd: float
    duals: Mapping[tuple[int, int], float]
    greedy_usd: float | None
    own_best_usd: float
    own_best_feasible: bool
    seconds: float
    columns: int
    demand_duals: Array

    @property
    def gap(self) -> float:
        """How far the plan may be above the best one, as a share of its cost."""
        return max(0.0, (self.plan.cost_usd - self.bound_usd) / self.plan.cost_usd) if self.plan.cost_usd > TOLERANCE else 0.0


def solve(instance: Instance, *, seconds: float = 20.0, gap: float = 1e-3) -> Solved:
    """The cheapest plan of those that place as much as can be placed."""
    began = time.monotonic()
    until = began + seconds
    greedy = listed(instance)
    own = _own_best(instance)
    candidates = [greedy, *([own] if own else [])]
    least = min(candidates, key=lambda plan: plan.key)
    limit = 0.0
    if least.missing > TOLERANCE:
        limit = _least_missing(instance, candidates, until=began + seconds / 2.0)
        least = min(candidates, key=lambda plan: plan.key)
    matrix = _matrix(instance, limit, candidates)
    relaxed, bound = _relax(matrix, until=began + (until - began) * LP_SHARE)
    if relaxed.found and limit == 0.0 and not _is_whole(matrix):
        bound = max(bound, _split_bound(instance, matrix, relaxed, seconds=max(remaining(until) / 2.0, 0.5)))
    if limit == 0.0:
        bound = max(bound, _alone(instance))
    rounded = _rounded(matrix, relaxed) if relaxed.found else None
    candidates += [plan for plan in (rounded,) if plan is not None]
    best = min(candidates, key=lambda plan: plan.key)
    whole = _branched(matrix, best, limit, until=until, gap=gap)
    if whole is not None:
        candidates.append(whole[0])
        if _is_whole(matrix):
            bound = max(bound, whole[1])
    best = earlier(instance, min(candidates, key=lambda plan: plan.key))
    duals = _duals(matrix, relaxed)
    own_usd = sum(min((choice.cost_usd for choice in _rented(instance, demand)), default=0.0) * demand.count for demand in instance.demands)
    own_usd += sum(alone_usd(service) for service in instance.services)
    prices = relaxed.duals[: len(instance.demands)] if relaxed.found else np.zeros(len(instance.demands))
    return Solved(
        plan=best,
        bound_usd=min(max(bound, 0.0), best.cost_usd),
        duals=duals,
        greedy_usd=greedy.cost_usd if greedy.missing <= best.missing + TOLERANCE else None,
        own_best_usd=own_usd,
        own_best_feasible=own is not None and own.cost_usd <= own_usd * (1.0 + TOLERANCE) + TOLERANCE,
        seconds=time.monotonic() - began,
        columns=len(matrix.cost),
        demand_duals=prices,
    )


def alone_usd(service: object) -> float:
    """What a service costs on the cheapest servers of its own [USD]; 0 where it has none."""
    kinds = service.kinds  # type: ignore[attr-defined]
    return min((kind_usd(service, row) for row, kind in enumerate(kinds) if not kind.is_part), default=0.0)


def kind_usd(service: object, row: int) -> float:
    """What a kind of a service costs where all is paid by the dearest of its ways, which is never
    what is owned [USD]."""
    kind = service.kinds[row]  # type: ignore[attr-defined]
    modes = [mode for mode in kind.modes if not mode.lowest] or list(kind.modes)
    paid = max(mode.usd_per_h for mode in modes)
    return float(kind.other_usd + sum(layer.width * layer.hours * paid for layer in kind.layers))


def _rented(instance: Instance, demand: Demand) -> list[Choice]:
    """The ways of a job that are in time, on nothing that is owned or bought for a term."""
    spans = [(choice, *instance.starts(demand, choice)) for choice in demand.choices if choice.is_rented]
    return [choice for choice, first, last in spans if last >= first]


def _own_best(instance: Instance) -> Solution | None:
    """Every job at its own cheapest choice, where that keeps all limits; services as list
    scheduling has them."""
    demands = []
    for demand in instance.demands:
        usable = _rented(instance, demand)
        if not usable:
            return None
        demands.append((demand, min(usable, key=lambda choice: choice.cost_usd)))
    alone = dataclasses.replace(instance, demands=tuple(dataclasses.replace(demand, choices=(choice,)) for demand, choice in demands))
    plan = listed(alone)
    if plan.missing > TOLERANCE:
        return None
    at = [next(row for row, one in enumerate(demand.choices) if one is choice) for demand, choice in demands]
    placed = [Placed(one.demand, at[one.demand], one.start, one.count) for one in plan.placed]
    return solution(instance, placed, list(plan.picked), list(plan.bought))


def _matrix(instance: Instance, limit: float | None, plans: list[Solution]) -> Matrix:
    """The model with all placements where they are few, else with those of some plans."""
    matrix = Matrix(instance, limit_missing=limit)
    if _number(instance) <= ALL_COLUMNS:
        for row, demand in enumerate(instance.demands):
            for at, choice in enumerate(demand.choices):
                first, last = instance.starts(demand, choice)
                for start in range(first, last + 1):
                    matrix.place(row, at, start)
    for plan in plans:
        for one in plan.placed:
            matrix.place(one.demand, one.choice, one.start)
    return matrix


def _number(instance: Instance) -> int:
    found = 0
    for demand in instance.demands:
        for choice in demand.choices:
            first, last = instance.starts(demand, choice)
            found += max(0, last - first + 1)
            if found > ALL_COLUMNS:
                return found
    return found


def _is_whole(matrix: Matrix) -> bool:
    return _number(matrix.instance) <= ALL_COLUMNS


def _least_missing(instance: Instance, candidates: list[Solution], *, until: float) -> float:
    """The least weight that must be left out, as far as the solver finds it; the plan that does so
    joins the candidates."""
    matrix = _matrix(instance, None, candidates)
    _relax(matrix, until=until)
    answer = matrix.solve(integer=True, seconds=max(remaining(until), 1.0), gap=1e-6)
    if answer.found:
        candidates.append(solution(instance, *matrix.read(answer.columns)))
    return min(plan.missing for plan in candidates) * (1.0 + TOLERANCE) + TOLERANCE


def _relax(matrix: Matrix, *, until: float) -> tuple[Answer, float]:
    """The LP over all placements: solved over few, priced, grown, until nothing more would help or
    time is up. And the bound."""
    answer = matrix.solve(integer=False, seconds=max(remaining(until), 1.0))
    whole, bound = _is_whole(matrix), -float("inf")
    pricing = None if whole else _Pricing(matrix.instance)
    for _ in range(MOST_ROUNDS):
        if not answer.found:
            return answer, bound
        if pricing is None:
            return answer, answer.bound
        better, least = pricing.price(matrix, answer.duals)
        bound = max(bound, answer.value + float(np.sum(np.minimum(least, 0.0) * pricing.counts)))
        if not better or remaining(until) < 0 or answer.value - bound <= CLOSE * max(abs(answer.value), 1.0):
            return answer, bound
        for column in better:
            matrix.place(*column)
        answer = matrix.solve(integer=False, seconds=max(remaining(until), 1.0))
    return answer, bound


def _alone(instance: Instance) -> float:
    """What jobs cost at the least if nothing were short, as if services were free: a bound where
    time was up before there was a better one."""
    found = 0.0
    for demand in instance.demands:
        spans = [(choice.cost_usd, *instance.starts(demand, choice)) for choice in demand.choices]
        found += demand.count * min((usd for usd, first, last in spans if last >= first), default=0.0)
    return found


def _split_bound(instance: Instance, matrix: Matrix, relaxed: Answer, *, seconds: float) -> float:
    """A bound with whole servers: jobs pay the LP's prices for what they take of resources;
    services and purchases, as integers, pay and are paid the same. By weak duality no plan that
    places all is cheaper, whatever the prices are."""
    if not instance.services and not instance.purchases:
        return -float("inf")
    first = matrix.resource_row[0] if matrix.resource_row else 0
    number = sum(resource.caps.shape[0] for resource in instance.resources)
    prices = np.maximum(-relaxed.duals[first : first + number], 0.0)
    caps = np.concatenate([resource.caps for resource in instance.resources]) if number else np.zeros(0)
    _, least = _Pricing(instance, in_order=False).price(matrix, relaxed.duals)  # without their order jobs are never dearer
    counts = np.array([demand.count for demand in instance.demands], dtype=np.float64)
    jobs = float(np.sum(counts * (least + relaxed.duals[: counts.shape[0]])))
    rest = Matrix(dataclasses.replace(instance, demands=()), limit_missing=0.0)
    shift = rest.resource_row[0] if rest.resource_row else 0
    for column, (rows, values) in enumerate(rest.entries):
        drawn = (rows >= shift) & (rows < shift + number)
        rest.cost[column] += float(np.sum(prices[rows[drawn] - shift] * values[drawn]))
    rest.upper_row[shift : shift + number] = np.where(caps > 0, caps, np.where(_negative(instance), np.inf, caps))
    answer = rest.solve(integer=True, seconds=seconds, gap=1e-4)
    return jobs + answer.bound - float(np.sum(prices * caps)) if answer.found else -float("inf")


def _negative(instance: Instance) -> Array:
    """Rows of which jobs may give back (the share of spot), so that they say
    nothing without the jobs."""
    flags = [np.full(resource.caps.shape[0], resource.kind == "spot") for resource in instance.resources]
    return np.concatenate(flags) if flags else np.zeros(0, dtype=np.bool_)


class _Pricing:
    """Finds placements that an LP would use: reduced costs of every choice at every start, from
    sums of duals over its periods."""

    def __init__(self, instance: Instance, *, in_order: bool = True) -> None:
        self.instance, self.in_order = instance, in_order
        self.counts = np.array([demand.count for demand in instance.demands], dtype=np.float64)
        self.spans = [
            [(*instance.starts(demand, choice), instance.length(choice)) for choice in demand.choices] for demand in instance.demands
        ]

    def price(self, matrix: Matrix, duals: Array) -> tuple[list[tuple[int, int, int]], Array]:
        """Placements of negative reduced cost, the best few of each demand; and the least reduced
        cost of each demand (demands,)."""
        instance, better = self.instance, []
        sums = []
        for at, resource in enumerate(instance.resources):
            first = matrix.resource_row[at]
            by_row = -duals[first : first + resource.caps.shape[0]]  # of "at most" rows a dual is negative: what a unit saves
            sums.append(np.concatenate([[0.0], np.cumsum(by_row[resource.row_of])]) if np.any(by_row > TOLERANCE) else None)
        least = np.zeros(len(instance.demands))
        money = matrix.limit_missing is not None
        for row, demand in enumerate(instance.demands):
            order = self._order(matrix, duals, row) if self.in_order else (None, None)
            found = self._of_demand(row, demand, sums, float(duals[row]), order, money=money)
            if found:
                least[row] = found[0][0]
                better += [(row, choice, start) for cost, choice, start in found[:PER_DEMAND] if cost < -1e-6]
        return better, least

    def _order(self, matrix: Matrix, duals: Array, row: int) -> tuple[Array | None, Array | None]:
        """What a placement pays for beginning and for being done in each period (periods + 1,): the
        duals of the jobs' order."""
        periods = self.instance.num_periods
        begun, done = (
            np.append(duals[first : first + periods], 0.0) if (first := rows.get(row)) is not None else None
            for rows in (matrix.begun_row, matrix.done_row)
        )
        return begun, done

    def _of_demand(
        self,
        row: int,
        demand: Demand,
        sums: list[Array | None],
        dual: float,
        order: tuple[Array | None, Array | None],
        *,
        money: bool,
    ) -> list[tuple[float, int, int]]:
        found = []
        for at, choice in enumerate(demand.choices):
            first, last, length = self.spans[row][at]
            if last < first:
                continue
            cost = (choice.cost_usd if money else 0.0) - dual
            extra: Array | None = None
            for resource, amount in choice.loads:
                if (taken := sums[resource]) is not None:
                    part = amount * (taken[first + length : last + length + 1] - taken[first : last + 1])
                    extra = part if extra is None else extra + part
            for resource in demand.budgets:
                if (taken := sums[resource]) is not None:
                    part = choice.cost_usd / length * (taken[first + length : last + length + 1] - taken[first : last + 1])
                    extra = part if extra is None else extra + part
            for taken, shift in zip(order, (0, length), strict=True):
                if taken is not None:
                    part = taken[first + shift : last + shift + 1]
                    extra = part if extra is None else extra + part
            start = first + (int(np.argmin(extra)) if extra is not None else 0)
            found.append((cost + (float(extra[start - first]) if extra is not None else 0.0), at, start))
        return sorted(found)


def _rounded(matrix: Matrix, relaxed: Answer) -> Solution | None:
    """LP rounding with repair: purchases rounded, services on the kind with the largest share, jobs
    by list scheduling with the LP's choices first."""
    values, instance = relaxed.columns, matrix.instance
    wanted: dict[int, list[tuple[float, int, int]]] = {}
    for (row, choice, start), value in zip(matrix.columns, values[matrix.num_fixed :].tolist(), strict=True):
        if value > TOLERANCE:
            wanted.setdefault(row, []).append((-value, choice, start))
    kinds: dict[int, tuple[float, int]] = {}
    for (at, number), column in matrix.z.items():
        kinds[at] = max(kinds.get(at, (-1.0, 0)), (float(values[column]), number))
    share = values[matrix.y0 : matrix.y0 + len(instance.purchases)]
    preferences = {row: [(choice, start) for _, choice, start in sorted(items)] for row, items in wanted.items()}
    plans = [
        listed(
            instance,
            preferences=preferences,
            bought=np.floor(share + part).astype(int).tolist(),
            kinds={at: number for at, (_, number) in kinds.items()},
        )
        for part in ((0.5, TOLERANCE) if instance.purchases else (TOLERANCE,))
    ]
    sound = [plan for plan in plans if not overdrawn(instance, plan)]  # purchases that were rounded may want more than there is
    return min(sound, key=lambda plan: plan.key) if sound else None


def _branched(matrix: Matrix, best: Solution, limit: float, *, until: float, gap: float) -> tuple[Solution, float] | None:
    """Branch and bound over the placements that are columns, starting from the best plan."""
    for one in best.placed:
        matrix.place(one.demand, one.choice, one.start)
    start = matrix.values_of(best.placed, best.picked, best.bought) if best.missing <= limit + TOLERANCE else None
    answer = matrix.solve(integer=True, seconds=max(remaining(until), 1.0), gap=gap, start=start)
    return (solution(matrix.instance, *matrix.read(answer.columns)), answer.bound) if answer.found else None


def _duals(matrix: Matrix, relaxed: Answer) -> Mapping[tuple[int, int], float]:
    """What one more unit of each row of each resource saves [USD]; only those
    that save anything."""
    if not relaxed.found:
        return {}
    found = {}
    for at, resource in enumerate(matrix.instance.resources):
        first = matrix.resource_row[at]
        for row in np.flatnonzero(relaxed.duals[first : first + resource.caps.shape[0]] < -TOLERANCE).tolist():
            found[at, row] = -float(relaxed.duals[first + row])
    return found
