"""A plan on the machine that one has, against the best that can be rented."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rightfit.search.answer import Option, Plan, Reason, Section
from rightfit.search.own_machine import read_machine, with_machine
from rightfit.search.several import month_of_task

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload


def plan_on_own(workload: Workload, have: str, plan: Callable[..., Plan], catalog: Catalog, **asked: Any) -> Plan:
    """The plan on the machine alone, with a section `rental`: what the best rental would take and cost. Where the machine does not do it, the plan is that
    of rentals, and its advice says so."""
    machine = read_machine(have)
    mine = workload.with_changes(gpu=(), cloud=("private",), purchase=("owned",))
    own = plan(mine, catalog=with_machine(catalog, machine), **asked)
    rented = plan(workload.with_changes(gpu=()), catalog=catalog, **asked)
    if own.best is None:
        why = max(own.rejected, key=lambda one: one.count).criterion if own.rejected else "gpu_memory"
        return dataclasses.replace(rented, advice=(Reason("own_does_not", {"machine": machine.name, "criterion": why}), *rented.advice))
    if rented.best is None:
        return own
    section = Section(
        "rental", {"option": rented.best.to_dict()}, (Reason("rent_instead" + month_of_task(workload.task), beside(rented.best)),)
    )
    return dataclasses.replace(own, sections=(section, *own.sections))


def beside(best: Option) -> dict[str, Any]:
    """A rental in the fields of a sentence."""
    time = best.estimate.get("total_time_s")
    return {
        **{name: getattr(best, name) for name in ("provider", "instance_type", "region", "purchase", "nodes")},
        "total_usd": best.cost.total_usd,
        **({"total_time_s": time.mid} if time else {}),
    }
