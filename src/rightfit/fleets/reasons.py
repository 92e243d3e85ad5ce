"""Why a plan is as it is, as data: what one more of each limit saves, what each limit costs, what a
wrong price or a server that is gone changes, and the smallest relaxation where not all can be
placed. All by solving again; nothing is guessed."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.fleets.instance import TOLERANCE, Choice, Demand, Instance, Kind, Solution, cost_of
from rightfit.fleets.listing import listed
from rightfit.fleets.solver import solve

if TYPE_CHECKING:
    from rightfit.fleets.result import FleetPlan

WRONG_BY, DAY_H, WEEK_H = 0.2, 24.0, 168.0
MOST_LIMITS, MOST_DEADLINES, MOST_PRICES = 6, 5, 3
#: Solving again takes a share of the time that solving took; a plan that took longer than this is
#: not solved again for its reasons [s].
PATIENCE_S = 6.0
_ROOMY, _FINE = 1e9, 0.05


def reasons_of(plan: FleetPlan, *, seconds: float) -> Mapping[str, Any]:
    """`shadow_prices`, `limit_costs`, `deadlines`, `scenarios` and, where something is left
    out, `relaxations`."""
    until = time.monotonic() + seconds
    shadow = shadow_prices(plan)
    if plan.solved.plan.missing > TOLERANCE:
        return {"shadow_prices": shadow, "relaxations": relaxations(plan, until=until), "limit_costs": [], "deadlines": [], "scenarios": []}
    if plan.solved.seconds > PATIENCE_S:
        return {"shadow_prices": shadow, "relaxations": [], "limit_costs": [], "deadlines": [], "scenarios": [], "skipped": True}
    return {
        "shadow_prices": [{**row, **_step(plan, row, until)} for row in shadow],
        "limit_costs": limit_costs(plan, until=until),
        "deadlines": deadlines(plan, until=until),
        "scenarios": scenarios(plan, until=until),
        "relaxations": [],
    }


def shadow_prices(plan: FleetPlan) -> list[dict[str, Any]]:
    """Limits of which a little more would save money, the dearest first: USD a week for one unit
    more, by the LP's duals."""
    by_resource: dict[int, float] = {}
    for (resource, _), usd in plan.solved.duals.items():
        by_resource[resource] = by_resource.get(resource, 0.0) + usd
    found = []
    for resource, usd in sorted(by_resource.items(), key=lambda item: -item[1]):
        limit, row = plan.built.limits[resource], plan.built.instance.resources[resource]
        if limit.kind == "committed" or usd <= TOLERANCE:
            continue
        weekly = usd * WEEK_H / plan.built.horizon_h
        found.append(
            {"kind": limit.kind, "limit": limit.text or row.name, "unit": row.unit, "usd_per_unit_week": weekly, "resource": resource}
        )
    return found[:MOST_LIMITS]


def _again(plan: FleetPlan, instance: Instance, until: float) -> Solution | None:
    """The plan of a changed fleet; None where no time is left."""
    left = until - time.monotonic()
    return solve(instance, seconds=min(left, PATIENCE_S)).plan if left > 0.5 else None


def _with_caps(instance: Instance, resources: Sequence[int], change: Callable[[Any], Any]) -> Instance:
    rows = tuple(dataclasses.replace(one, caps=change(one.caps)) if at in resources else one for at, one in enumerate(instance.resources))
    return dataclasses.replace(instance, resources=rows)


def _step(plan: FleetPlan, row: Mapping[str, Any], until: float) -> dict[str, Any]:
    """What a step more of a limit saves over the horizon: a whole server of what draws on it
    (of money a tenth)."""
    resource = int(row["resource"])
    caps = plan.built.instance.resources[resource].caps
    amounts = [
        amount for demand in plan.built.instance.demands for choice in demand.choices for at, amount in choice.loads if at == resource
    ]
    amounts += [
        amount
        for service in plan.built.instance.services
        for kind in service.kinds
        for mode in kind.modes
        for at, amount in mode.loads
        if at == resource
    ]
    step = max(amounts, default=0.0) if row["unit"] != "USD" else 0.1 * float(caps.max(initial=0.0))
    if step <= 0:
        return {"step": None, "step_saves_usd": None}
    after = _again(plan, _with_caps(plan.built.instance, (resource,), lambda caps: np.where(caps > 0, caps + step, caps)), until)
    return {"step": step, "step_saves_usd": _saved(plan, after)}


def _saved(plan: FleetPlan, after: Solution | None) -> float | None:
    return None if after is None else max(0.0, plan.solved.plan.cost_usd - after.cost_usd)


def limit_costs(plan: FleetPlan, *, until: float) -> list[dict[str, Any]]:
    """What each limit that binds costs: the saving if it were not there, USD over the horizon."""
    found: list[dict[str, Any]] = []
    binding = {plan.built.limits[resource] for resource, _ in plan.solved.duals} - {
        limit for limit in plan.built.limits if limit.kind in ("committed", "owned")
    }
    for limit in sorted(binding, key=lambda one: (one.kind, one.text))[:MOST_LIMITS]:
        rows = [at for at, one in enumerate(plan.built.limits) if one == limit]
        after = _again(plan, _with_caps(plan.built.instance, rows, lambda caps: caps + _ROOMY), until)
        found.append(
            {"kind": limit.kind, "limit": limit.text or plan.built.instance.resources[rows[0]].name, "costs_usd": _saved(plan, after)}
        )
    return sorted(found, key=lambda row: -(row["costs_usd"] or 0.0))


def deadlines(plan: FleetPlan, *, until: float) -> list[dict[str, Any]]:
    """What a day more saves for the jobs that pay most above what they would cost if they had time:
    USD over the horizon."""
    instance = plan.built.instance
    paid: dict[int, float] = {}
    for one in plan.solved.plan.placed:
        demand = instance.demands[one.demand]
        ways = [way.total_usd for way in plan.ways[demand.name].found]
        paid[one.demand] = paid.get(one.demand, 0.0) + one.count * (demand.choices[one.choice].cost_usd - min(ways, default=0.0))
    found: list[dict[str, Any]] = []
    timed = [at for at, usd in sorted(paid.items(), key=lambda item: -item[1]) if usd > 0.01 and plan.fleet.jobs[at].due_h is not None]
    for at in timed[:MOST_DEADLINES]:
        later = _later(plan, at, DAY_H)
        found.append({"job": instance.demands[at].name, "later_h": DAY_H, "saves_usd": _saved(plan, _again(plan, later, until))})
    return [row for row in found if row["saves_usd"] is None or row["saves_usd"] > 0.01]


def _later(plan: FleetPlan, at: int, hours: float) -> Instance:
    """The numbers with one job due later, and the ways that were too slow before."""
    from rightfit.fleets.building import Builder

    fleet = plan.fleet
    job = fleet.jobs[at]
    longer = dataclasses.replace(job, due_h=(job.due_h or 0.0) + hours)
    changed = dataclasses.replace(fleet, jobs=(*fleet.jobs[:at], longer, *fleet.jobs[at + 1 :]), horizon_h=plan.built.horizon_h)
    built = Builder(changed, plan.ways, quotas=plan.quotas, market=None, catalog=None).built().instance
    demand = _same_resources(plan, built.demands[at])
    return dataclasses.replace(
        plan.built.instance, demands=(*plan.built.instance.demands[:at], demand, *plan.built.instance.demands[at + 1 :])
    )


def _same_resources(plan: FleetPlan, demand: Demand) -> Demand:
    """A demand that was built without what can be bought: its resources stand first in both."""
    known = len([limit for limit in plan.built.limits if limit.kind != "committed"])
    return dataclasses.replace(demand, choices=tuple(choice for choice in demand.choices if all(at < known for at, _ in choice.loads)))


def scenarios(plan: FleetPlan, *, until: float) -> list[dict[str, Any]]:
    """Of the servers that take most of the money: what the plan costs if their price is 20 % higher
    than thought or there is none, and what it would cost to have known (`regret_usd`)."""
    instance, spent = plan.built.instance, _spent(plan)
    found = []
    for server, purchase, _ in sorted(spent, key=lambda row: -row[2])[:MOST_PRICES]:
        dearer = _repriced(instance, server, purchase, 1.0 + WRONG_BY)
        after = _again(plan, dearer, until)
        old = cost_of(dearer, plan.solved.plan.placed, plan.solved.plan.picked, plan.solved.plan.bought)
        row = {"server": server, "purchase": purchase, "change": WRONG_BY, "plan_usd": old}
        known = (
            {}
            if after is None
            else {"best_usd": min(after.cost_usd, old), "regret_usd": max(0.0, old - after.cost_usd), "moved": _moved(plan, after)}
        )
        found.append({"kind": "price", **row, **known})
        gone = _again(plan, _without(instance, server, purchase), until)
        if gone is not None:
            extra = {
                "best_usd": gone.cost_usd,
                "extra_usd": gone.cost_usd - plan.solved.plan.cost_usd,
                "moved": _moved(plan, gone),
                "missing": gone.missing,
            }
            found.append({"kind": "gone", "server": server, "purchase": purchase, **extra})
    return found


def _spent(plan: FleetPlan) -> list[tuple[str, str, float]]:
    money: dict[tuple[str, str], float] = {}
    instance = plan.built.instance
    for one in plan.solved.plan.placed:
        choice = instance.demands[one.demand].choices[one.choice]
        key = (choice.way.server, choice.way.purchase)
        money[key] = money.get(key, 0.0) + choice.cost_usd * one.count
    for pick in plan.solved.plan.picked:
        kind = instance.services[pick.service].kinds[pick.kind]
        for layer, mode, count in pick.parts:
            key = (kind.modes[mode].way.server, kind.modes[mode].way.purchase)
            money[key] = money.get(key, 0.0) + kind.modes[mode].usd_per_h * kind.layers[layer].hours * count
    return [(*key, usd) for key, usd in money.items() if usd > TOLERANCE]


def _mapped(instance: Instance, choice: Callable[[Choice], Choice | None], kind: Callable[[Kind], Kind | None]) -> Instance:
    demands = [
        dataclasses.replace(demand, choices=tuple(one for old in demand.choices if (one := choice(old)))) for demand in instance.demands
    ]
    services = [
        dataclasses.replace(service, kinds=tuple(kept for old in service.kinds if (kept := kind(old)))) for service in instance.services
    ]
    return dataclasses.replace(instance, demands=tuple(demands), services=tuple(services))


def _repriced(instance: Instance, server: str, purchase: str, factor: float) -> Instance:
    def choice(old: Choice) -> Choice:
        is_it = (old.way.server, old.way.purchase) == (server, purchase)
        return dataclasses.replace(old, cost_usd=old.cost_usd + old.way.servers_usd * (factor - 1.0)) if is_it else old

    def kind(old: Kind) -> Kind:
        modes = tuple(
            dataclasses.replace(mode, usd_per_h=mode.usd_per_h * factor)
            if (mode.way.server, mode.way.purchase) == (server, purchase)
            else mode
            for mode in old.modes
        )
        return dataclasses.replace(old, modes=modes)

    return _mapped(instance, choice, kind)


def _without(instance: Instance, server: str, purchase: str) -> Instance:
    def choice(old: Choice) -> Choice | None:
        return None if (old.way.server, old.way.purchase) == (server, purchase) else old

    def kind(old: Kind) -> Kind | None:
        modes = tuple(mode for mode in old.modes if (mode.way.server, mode.way.purchase) != (server, purchase))
        return dataclasses.replace(old, modes=modes) if any(not mode.lowest for mode in modes) else None

    return _mapped(instance, choice, kind)


def _moved(plan: FleetPlan, after: Solution) -> int:
    """Jobs and services that stand on another server or are paid another way."""
    before = {one.demand: one.choice for one in plan.solved.plan.placed}
    jobs = sum(before.get(one.demand) != one.choice for one in after.placed)
    kinds = {one.service: one.kind for one in plan.solved.plan.picked}
    return int(jobs + sum(kinds.get(one.service) != one.kind for one in after.picked))


# -- what would make everything possible -----------------------------------------------------------


def relaxations(plan: FleetPlan, *, until: float) -> list[dict[str, Any]]:
    """The least change of each single limit (all quotas, all budgets, all deadlines, stock)
    under which everything can be placed; where none does alone, there is none. Within 5 %
    of the least."""
    found: list[dict[str, Any]] = []
    instance = plan.built.instance
    nobody: list[dict[str, Any]] = [
        {"kind": "workload", "job": name, "blame": [list(one) for one in ways.blame]} for name, ways in plan.ways.items() if not ways.found
    ]
    if _is_whole(plan, instance, plan.solved.plan):
        return nobody
    groups: dict[str, list[int]] = {}
    for at, limit in enumerate(plan.built.limits):
        kind = "budget" if limit.kind == "team" else limit.kind
        if kind in ("quota", "budget", "stock"):
            groups.setdefault(kind, []).append(at)
    for kind, rows in sorted(groups.items()):
        share = _least(lambda factor, rows=rows: _wider(instance, rows, factor), plan, until, high=_needed(plan, rows, until))  # type: ignore[misc]
        if share is not None:
            found.append({"kind": kind, "factor": share})
    later = _least(lambda factor: _all_later(plan, factor - 1.0), plan, until, high=plan.built.horizon_h)
    if later is not None:
        found.append({"kind": "deadline", "factor": 1.0 + (later - 1.0) / plan.built.horizon_h, "later_h": later - 1.0})
    found += nobody
    return sorted(found, key=lambda row: row.get("factor", 0.0))


def _all_later(plan: FleetPlan, hours: float) -> Instance:
    """The numbers with every deadline so much later and the horizon with them."""
    from rightfit.fleets.building import Builder

    jobs = tuple(dataclasses.replace(job, due_h=None if job.due_h is None else job.due_h + hours) for job in plan.fleet.jobs)
    changed = dataclasses.replace(plan.fleet, jobs=jobs, horizon_h=plan.built.horizon_h + hours)
    return Builder(changed, plan.ways, quotas=plan.quotas, market=None, catalog=None).built().instance


def _wider(instance: Instance, rows: Sequence[int], factor: float) -> Instance:
    """The numbers with some limits `factor` times as large; a limit of nothing
    grows by one each."""
    return _with_caps(instance, rows, lambda caps: np.where(caps > 0, caps * factor, factor - 1.0))


def _needed(plan: FleetPlan, rows: Sequence[int], until: float) -> float | None:
    """A factor of some limits with which everything is placed: what the plan without them takes;
    None where that does not do either."""
    from rightfit.fleets.instance import drawn

    open_ = _with_caps(plan.built.instance, rows, lambda caps: caps + _ROOMY)
    found = _again(plan, open_, until)
    if found is None or not _is_whole(plan, open_, found):
        return None
    caps = [resource.caps for resource in plan.built.instance.resources]
    used = drawn(open_, found)
    factors = [float(amount / caps[at][row] if caps[at][row] > 0 else amount + 1.0) for (at, row), amount in used.items() if at in rows]
    return max([1.0, *factors]) * (1.0 + TOLERANCE)


def _is_whole(plan: FleetPlan, instance: Instance, found: Solution) -> bool:
    """Whether everything is placed that any server can do at all."""
    number = {row: 0 for row, demand in enumerate(plan.built.instance.demands) if plan.ways[demand.name].found}
    for one in found.placed:
        if one.demand in number:
            number[one.demand] += one.count
    services = sum(bool(plan.ways[service.name].found) for service in plan.fleet.services)
    return all(count == instance.demands[row].count for row, count in number.items()) and len(found.picked) >= services


def _least(changed: Callable[[float], Instance], plan: FleetPlan, until: float, *, high: float | None) -> float | None:
    """The least factor above 1 with which everything is placed, within 5 %, at most `high` where
    that is known to do; None where nothing does."""

    def does(factor: float) -> bool:
        made = changed(factor)
        if _is_whole(plan, made, listed(made)):
            return True
        left = until - time.monotonic()
        return left > 0.5 and _is_whole(plan, made, solve(made, seconds=min(left, PATIENCE_S)).plan)

    if high is None or not does(high):
        return None
    low = 1.0
    while high / low > 1.0 + _FINE and until - time.monotonic() > 0.5:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if does(middle) else (middle, high)
    return high
