"""The linear model of a fleet in the hands of HiGHS: rows for demands, services and resources;
columns for placements, layers and purchases."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from rightfit.errors import MissingComponentError
from rightfit.fleets.instance import Instance, Picked, Placed
from rightfit.fleets.listing import job_loads, mode_loads, other_loads, purchase_loads
from rightfit.messages import Message
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search.solver import quiet_highs, solver_module

Column = tuple[int, int, int]  # demand, choice, start
SAME_VALUE = 1e-6  # relative; HiGHS sums the same products


def highs() -> Any:
    """The solver's module; MissingComponentError without the extra."""
    try:
        return solver_module()
    except ModuleNotFoundError:
        raise MissingComponentError(Message("rest.lacks", why=Message("rest.fleet_needs"), word="highspy")) from None


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What the solver says: value, the columns' values, the rows' duals (of an LP), its bound, and
    whether it found anything."""

    value: float
    columns: Array
    duals: Array
    bound: float
    found: bool


class Matrix:
    """The model, growing by columns. `limit_missing`: at most so much weight may be left out; None:
    what is left out is the objective, not money."""

    def __init__(self, instance: Instance, *, limit_missing: float | None) -> None:
        self.instance, self.limit_missing = instance, limit_missing
        self._rows()
        self.cost: list[float] = []
        self.upper: list[float] = []
        self.entries: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        self.integer: list[bool] = []
        self.columns: list[Column] = []
        self._solver: Any = None
        self._held = 0
        self.known: set[Column] = set()
        self._fixed()
        self.num_fixed = len(self.cost)

    # -- rows --------------------------------------------------------------------------------------

    def _rows(self) -> None:
        instance = self.instance
        self.demand_row = 0
        self.pick_row = len(instance.demands)
        lower = [float(demand.count) for demand in instance.demands] + [1.0] * len(instance.services)
        upper = list(lower)
        self.layer_row: dict[tuple[int, int], int] = {}
        for at, service in enumerate(instance.services):
            for number, kind in enumerate(service.kinds):
                self.layer_row[at, number] = len(lower)
                lower += [0.0] * len(kind.layers)
                upper += [0.0] * len(kind.layers)
        self.resource_row = []
        for resource in instance.resources:
            self.resource_row.append(len(lower))
            lower += [-np.inf] * resource.caps.shape[0]
            upper += resource.caps.tolist()
        self.missing_row = len(lower)
        lower.append(-np.inf)
        upper.append(np.inf if self.limit_missing is None else self.limit_missing)
        self._order_rows(lower, upper)
        self.lower, self.upper_row = np.array(lower), np.array(upper)

    def _order_rows(self, lower: list[float], upper: list[float]) -> None:
        """Rows of jobs that wait for others, a period each: how many are done, how many have begun,
        whether all are done, and that none begins before."""
        demands, periods = self.instance.demands, self.instance.num_periods
        waited = sorted({before for demand in demands for before in demand.after})
        self.done_row: dict[int, int] = {}
        self.begun_row: dict[int, int] = {}
        self.all_row: dict[int, int] = {}
        self.gate_row: dict[tuple[int, int], int] = {}

        def add(low: float) -> int:
            first = len(lower)
            lower.extend([low] * periods)
            upper.extend([0.0] * periods)
            return first

        for at in waited:
            self.done_row[at], self.all_row[at] = add(0.0), add(-np.inf)
        for row, demand in enumerate(demands):
            if demand.after:
                self.begun_row[row] = add(0.0)
                self.gate_row |= {(before, row): add(-np.inf) for before in demand.after}

    # -- columns -----------------------------------------------------------------------------------

    def _add(self, usd: float, upper: float, rows: Any, values: Any, *, weight: float = 0.0, integer: bool = True) -> None:
        self.cost.append(weight if self.limit_missing is None else usd)
        self.upper.append(upper)
        self.entries.append((np.asarray(rows, dtype=np.int32), np.asarray(values, dtype=np.float64)))
        self.integer.append(integer)

    def _resource_entries(self, loads: list[tuple[int, Any, Any]]) -> tuple[Any, Any]:
        if not loads:
            return np.zeros(0, dtype=np.int32), np.zeros(0)
        rows = np.concatenate([self.resource_row[resource] + at for resource, at, _ in loads])
        values = np.concatenate([amount for *_, amount in loads])
        if len(loads) > 1:
            rows, where = np.unique(rows, return_inverse=True)
            values = np.bincount(where, weights=values)
        return rows, values

    def _fixed(self) -> None:
        """Everything but placements of jobs."""
        instance = self.instance
        allowed = self.limit_missing is None or self.limit_missing > 0
        for row, demand in enumerate(instance.demands):
            self._add(0.0, demand.count if allowed else 0.0, [row, self.missing_row], [1.0, demand.weight], weight=demand.weight)
        for at, service in enumerate(instance.services):
            self._add(0.0, 1.0 if allowed else 0.0, [self.pick_row + at, self.missing_row], [1.0, service.weight], weight=service.weight)
        self.z: dict[tuple[int, int], int] = {}
        self.v: dict[tuple[int, int, int, int], int] = {}
        for at, service in enumerate(instance.services):
            for number, kind in enumerate(service.kinds):
                first = self.layer_row[at, number]
                self.z[at, number] = len(self.cost)
                rows, values = self._resource_entries(other_loads(instance, service, kind))
                widths = [-float(layer.width) for layer in kind.layers]
                rows = np.concatenate([[self.pick_row + at], np.arange(first, first + len(widths)), rows])
                self._add(kind.other_usd, 1.0, rows, np.concatenate([[1.0], widths, values]))
                for layer_at, layer in enumerate(kind.layers):
                    for mode_at, mode in enumerate(kind.modes):
                        if layer_at < mode.lowest or not layer.width:
                            continue
                        self.v[at, number, layer_at, mode_at] = len(self.cost)
                        rows, values = self._resource_entries(mode_loads(instance, service, kind, layer_at, mode_at, 1))
                        usd = mode.usd_per_h * layer.hours
                        self._add(usd, float(layer.width), np.concatenate([[first + layer_at], rows]), np.concatenate([[1.0], values]))
        self.y0 = len(self.cost)
        for item in instance.purchases:
            rows, values = self._resource_entries(purchase_loads(instance, item.first, item.last, item, 1))
            self._add(item.cost_usd, float(item.most), rows, values)
        self._order_columns()

    def _order_columns(self) -> None:
        """For jobs that wait: by period how many are done and have begun (sums of the periods
        before), and whether all are done (0 or 1)."""
        demands, periods = self.instance.demands, self.instance.num_periods
        self.done: dict[int, int] = {}
        self.begun: dict[int, int] = {}
        self.open: dict[int, int] = {}
        for at, first in self.done_row.items():
            self.done[at] = len(self.cost)
            self._sums(first, demands[at].count, [self.all_row[at]], -1.0)
            self.open[at] = len(self.cost)
            gates = [(row, gate) for (before, row), gate in self.gate_row.items() if before == at]
            for period in range(periods):
                rows = [self.all_row[at] + period, *(gate + period for _, gate in gates)]
                self._add(0.0, 1.0, rows, [float(demands[at].count), *(-float(demands[row].count) for row, _ in gates)])
        for row, first in self.begun_row.items():
            self.begun[row] = len(self.cost)
            self._sums(first, demands[row].count, [gate for (_, after), gate in self.gate_row.items() if after == row], 1.0)

    def _sums(self, first: int, most: int, others: list[int], value: float) -> None:
        """A column for each period that is the one before and what comes in it; each has a value in
        other rows of its period."""
        periods = self.instance.num_periods
        for period in range(periods):
            rows, values = [first + period, *(other + period for other in others)], [1.0, *([value] * len(others))]
            if period + 1 < periods:
                rows, values = [*rows, first + period + 1], [*values, -1.0]
            self._add(0.0, float(most), rows, values, integer=False)

    def _order_entries(self, row: int, start: int, end: int) -> tuple[list[int], list[float]]:
        """Rows in which a placement is counted as begun and as done."""
        rows = [self.begun_row[row] + start] if row in self.begun_row else []
        rows += [self.done_row[row] + end] if row in self.done_row and end < self.instance.num_periods else []
        return rows, [-1.0] * len(rows)

    def place(self, row: int, choice_at: int, start: int) -> None:
        """A column: a demand on a choice from one period on."""
        if (row, choice_at, start) in self.known:
            return
        self.known.add((row, choice_at, start))
        self.columns.append((row, choice_at, start))
        demand = self.instance.demands[row]
        choice = demand.choices[choice_at]
        end = start + self.instance.length(choice)
        loads = []
        for resource, amount in job_loads(self.instance, demand, choice):
            used = self.instance.resources[resource].row_of[start:end]
            if self.instance.resources[resource].is_momentary:
                loads.append((resource, used, np.full(end - start, amount)))
            else:
                at, number = np.unique(used, return_counts=True)
                loads.append((resource, at, amount * number))
        rows, values = self._resource_entries(loads)
        order, ones = self._order_entries(row, start, end)
        self._add(choice.cost_usd, float(demand.count), np.concatenate([[row], order, rows]), np.concatenate([[1.0], ones, values]))

    # -- solving -----------------------------------------------------------------------------------

    def solve(self, *, integer: bool, seconds: float, gap: float = 1e-3, start: Array | None = None) -> Answer:
        """Solve as it stands; `start`: values of columns to begin with."""
        began = time.monotonic()
        answer = self._solved(integer=integer, seconds=seconds, gap=gap, start=start)
        if start is not None and answer.found and not self._agrees(answer):
            answer = self._solved(integer=integer, seconds=seconds - (time.monotonic() - began), gap=gap, start=None)
        return answer

    def _agrees(self, answer: Answer) -> bool:
        """Whether the columns cost what the solver says that they do.

        HiGHS 1.16.0 values a start that presolve has shortened too low, takes that for the optimum
        and gives the start back.
        """
        usd = float(np.dot(self.cost, answer.columns))
        return abs(usd - answer.value) <= SAME_VALUE * max(abs(usd), 1.0)

    def _solved(self, *, integer: bool, seconds: float, gap: float, start: Array | None) -> Answer:
        solver = self._loaded(integer=True) if integer else self._warm()
        module = highs()
        solver.setOptionValue("time_limit", max(seconds, 0.1))
        solver.setOptionValue("mip_rel_gap", gap)
        solver.setOptionValue("mip_abs_gap", 1e-7)
        if start is not None:
            given = module.HighsSolution()
            given.col_value = start.tolist()
            solver.setSolution(given)
        solver.run()
        info, values = solver.getInfo(), solver.getSolution()
        found = bool(info.primal_solution_status == 2)
        columns = np.array(values.col_value) if found else np.zeros(len(self.cost))
        duals = np.array(values.row_dual) if not integer and found else np.zeros(self.lower.shape[0])
        value = float(info.objective_function_value) if found else float("inf")
        bound = float(info.mip_dual_bound) if integer else value
        done = solver.getModelStatus() == module.HighsModelStatus.kOptimal
        return Answer(value, columns, duals, bound if integer or done else -float("inf"), found)

    def _warm(self) -> Any:
        """The solver of the LP as it was left, with the columns that came since."""
        if self._solver is None:
            self._solver, self._held = self._loaded(integer=False), len(self.cost)
        elif self._held < len(self.cost):
            new = self.entries[self._held :]
            starts = np.cumsum([0, *(rows.shape[0] for rows, _ in new)])
            rows, values = (np.concatenate([entry[side] for entry in new]) for side in (0, 1))
            costs, uppers = np.array(self.cost[self._held :]), np.array(self.upper[self._held :])
            arrays = (starts[:-1].astype(np.int32), rows.astype(np.int32), values)
            self._solver.addCols(len(new), costs, np.zeros(len(new)), uppers, rows.shape[0], *arrays)
            self._held = len(self.cost)
        return self._solver

    def _loaded(self, *, integer: bool) -> Any:
        module = highs()
        solver = quiet_highs()
        solver.setOptionValue("threads", 1)
        model = module.HighsLp()
        sizes = np.array([0, *(rows.shape[0] for rows, _ in self.entries)])
        model.num_col_, model.num_row_ = len(self.cost), self.lower.shape[0]
        model.col_cost_, model.col_lower_, model.col_upper_ = np.array(self.cost), np.zeros(len(self.cost)), np.array(self.upper)
        model.row_lower_, model.row_upper_ = self.lower, self.upper_row
        model.a_matrix_.format_ = module.MatrixFormat.kColwise
        model.a_matrix_.start_ = np.cumsum(sizes).astype(np.int32)
        model.a_matrix_.index_ = np.concatenate([rows for rows, _ in self.entries]).astype(np.int32)
        model.a_matrix_.value_ = np.concatenate([values for _, values in self.entries])
        if integer:
            kinds = module.HighsVarType
            model.integrality_ = [kinds.kInteger if flag else kinds.kContinuous for flag in self.integer]
        solver.passModel(model)
        return solver

    # -- reading -----------------------------------------------------------------------------------

    def read(self, values: Array) -> tuple[list[Placed], list[Picked], list[int]]:
        """The plan that integer values stand for."""
        counts = np.rint(values).astype(int)
        placed = [Placed(*column, int(count)) for column, count in zip(self.columns, counts[self.num_fixed :], strict=True) if count > 0]
        picked = []
        for (at, number), column in self.z.items():
            if counts[column]:
                parts = [
                    (key[2], key[3], int(counts[where])) for key, where in self.v.items() if key[:2] == (at, number) and counts[where] > 0
                ]
                picked.append(Picked(at, number, tuple(parts)))
        bought = [int(count) for count in counts[self.y0 : self.y0 + len(self.instance.purchases)]]
        return placed, picked, bought

    def values_of(self, placed: Any, picked: Any, bought: Any) -> Array:
        """Values of columns that stand for a plan whose placements are all columns."""
        values = np.zeros(len(self.cost))
        at = {column: self.num_fixed + number for number, column in enumerate(self.columns)}
        left = [demand.count for demand in self.instance.demands]
        for one in placed:
            values[at[one.demand, one.choice, one.start]] = one.count
            left[one.demand] -= one.count
        values[: len(left)] = left
        values[len(left) : len(left) + len(self.instance.services)] = 1.0
        for pick in picked:
            values[len(left) + pick.service] = 0.0
            values[self.z[pick.service, pick.kind]] = 1.0
            for layer, mode, count in pick.parts:
                values[self.v[pick.service, pick.kind, layer, mode]] += count
        values[self.y0 : self.y0 + len(bought)] = bought
        self._order_values(values, placed)
        return values

    def _order_values(self, values: Array, placed: Any) -> None:
        periods = self.instance.num_periods
        for one in placed:
            end = one.start + self.instance.length(self.instance.demands[one.demand].choices[one.choice])
            if one.demand in self.begun:
                first = self.begun[one.demand]
                values[first + one.start : first + periods] += one.count
            if one.demand in self.done and end < periods:
                values[self.done[one.demand] + end : self.done[one.demand] + periods] += one.count
        for at, first in self.done.items():
            values[self.open[at] : self.open[at] + periods] = values[first : first + periods] >= self.instance.demands[at].count


def remaining(until: float) -> float:
    """Seconds that are left."""
    return until - time.monotonic()
