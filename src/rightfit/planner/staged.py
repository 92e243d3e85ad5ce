"""`plan --staged`: the smallest trial that would confirm a plan, what to expect of it and what to
decide, then the step up.

A trial runs on the fewest servers of the chosen type that show the same set-up: one where the job
fits one, one replica of a service. It lasts for start-up, enough steps to settle (or enough
requests, or a part of the data), and no longer; a way to pay with a term of hours or more is
replaced by the price by the hour.
"""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts, units
from rightfit.errors import RightfitError
from rightfit.estimation.figures import Figure
from rightfit.physics import money
from rightfit.planner.given import estimate_one
from rightfit.records import dataclass
from rightfit.search.answer import Option, Plan, Reason, Section

if TYPE_CHECKING:
    from rightfit.market import Catalog

#: What a trial measures, by the figures of its option: the first that an option has.
MEASURED = ("step_s", "requests_per_s", "rows_per_s", "bytes_per_s")
LONG_TERM_S = units.SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial: `option` at its number of servers, how long it is measured and rented, what it
    costs and which figure decides."""

    option: Option
    metric: str
    expected: Figure
    measured_s: float
    total_s: float
    usd: float
    steps: int
    data_share: float


def with_trial(plan: Plan, catalog: Catalog | None = None) -> Plan:
    """The plan with a section `staged`; as it is where there is nothing to rent."""
    if plan.best is None:
        return plan
    trial = trial_of(plan, plan.best, catalog)
    section = Section("staged", content_of(plan, plan.best, trial), tuple(reasons_of(plan, plan.best, trial)))
    return dataclasses.replace(plan, sections=(section, *plan.sections))


def trial_of(plan: Plan, best: Option, catalog: Catalog | None) -> Trial:
    """The smallest trial of an option."""
    usual = facts.coefficients("planning")
    option = smallest(plan, best, catalog)
    metric = next(name for name in MEASURED if name in option.estimate)
    expected, run_s = per_trial(option, best, metric), whole_s(option)
    startup_s = float(best.facts.get("startup_s") or usual["startup_s"])
    settled_s = settled(option, expected) if metric == "step_s" else usual["trial_requests_s"] if run_s is None else 0.0
    measured_s = max(settled_s, usual["trial_least_s"]) if run_s is None else min(max(settled_s, usual["trial_least_s"]), run_s)
    total_s = startup_s + measured_s
    return Trial(
        option=option,
        metric=metric,
        expected=expected,
        measured_s=measured_s,
        total_s=total_s,
        usd=rent_usd(option, total_s),
        steps=int(np.ceil(measured_s / expected.mid)) if metric == "step_s" else 0,
        data_share=min(measured_s / run_s, 1.0) if run_s else 1.0,
    )


def settled(option: Option, step: Figure) -> float:
    """Seconds until a step time has settled: so many micro-steps, and a few whole ones, since the
    optimizer's memory comes with the first."""
    usual = facts.coefficients("planning")
    return float(max(usual["trial_steps"] / max(option.layout.grad_accum, 1), usual["trial_whole_steps"]) * step.high80)


def smallest(plan: Plan, best: Option, catalog: Catalog | None) -> Option:
    """The chosen server, so few of them as show the same set-up, at a price by the hour."""
    span = int(best.facts.get("servers_per_replica") or 1)
    is_service = plan.workload.task == "serve"
    nodes = span if is_service else 1
    changes: dict[str, Any] = {"deadline": None, "budget": None, "confidence": None, "max_nodes": None, "quota": None}
    if best.facts.get("billing_minimum_s", 0.0) > LONG_TERM_S:
        changes["purchase"] = ("on-demand",)
    elif best.nodes == nodes or is_service:
        return dataclasses.replace(best, nodes=nodes) if best.nodes != nodes else best
    for count in dict.fromkeys((nodes, best.nodes)):
        found = tried(plan, best, count, changes, catalog)
        if found is not None:
            return dataclasses.replace(found, nodes=nodes) if is_service else found
    return best


def tried(plan: Plan, best: Option, nodes: int, changes: dict[str, Any], catalog: Catalog | None) -> Option | None:
    """The job on so many of the chosen servers, where it runs on them."""
    on = f"{best.provider}/{best.instance_type}"
    try:
        return estimate_one(plan.workload.with_changes(**changes), on=on, nodes=nodes, catalog=catalog).best
    except RightfitError:
        return None


def per_trial(option: Option, best: Option, metric: str) -> Figure:
    """The figure that a trial shows: a rate of requests is that of the servers of the trial."""
    figure = option.estimate[metric]
    if metric != "requests_per_s" or option.nodes >= best.nodes:
        return figure
    share = option.nodes / best.nodes
    names = ("mid", "low80", "high80", "low95", "high95")
    return dataclasses.replace(figure, **{name: getattr(figure, name) * share for name in names})


def whole_s(option: Option) -> float | None:
    """How long the whole job works; None for a service."""
    if "total_time_s" not in option.estimate:
        return None
    return max(float(option.facts.get("run_s") or option.estimate["total_time_s"].mid), 1.0)


def rent_usd(option: Option, seconds: float) -> float:
    """What a trial costs, by the minute at least; the price by the hour where a term of the option
    is longer than a trial."""
    usual = facts.coefficients("planning")
    billed = money.billed_s(
        np.array([seconds]), minimum_s=np.array([usual["trial_billing_s"]]), increment_s=np.array([usual["trial_billing_s"]])
    )
    each = option.cost.hourly_usd / max(_rented(option), 1)
    return float(each * option.nodes * billed[0] / 3600.0)


def _rented(option: Option) -> float:
    """Servers that the hourly price of an option is of."""
    return float(option.facts.get("servers") or option.nodes)


def limit_of(plan: Plan, best: Option, trial: Trial) -> float:
    """The measured figure at which the plan stops being right: the step with which the
    deadline is missed, the rate below which more servers are needed; without either, the end
    of the 80 % interval."""
    deadline_s, steps = plan.workload.deadline_s, best.facts.get("steps")
    if trial.metric == "step_s":
        if deadline_s and steps and trial.option.nodes == best.nodes:
            return float(max((deadline_s - float(best.facts.get("startup_s") or 0.0)) / float(steps), 0.0))
        return trial.expected.high80
    rate = best.facts.get("rate_per_s")
    if trial.metric == "requests_per_s" and rate and plan.workload.task == "serve":
        return float(rate) * trial.option.nodes / best.nodes
    return trial.expected.low80


def content_of(plan: Plan, best: Option, trial: Trial) -> dict[str, Any]:
    """The trial and the step up, for programs."""
    option = trial.option
    peak = option.estimate["peak_memory_bytes"]
    return {
        "trial": {
            **{name: getattr(option, name) for name in ("provider", "instance_type", "region", "purchase", "nodes")},
            **{name: getattr(trial, name) for name in ("total_s", "measured_s", "usd", "steps", "data_share")},
            "commands": list(commands_of(plan, trial)),
        },
        "expected": {trial.metric: trial.expected.to_dict(), "peak_memory_bytes": peak.to_dict()},
        "decide": {"metric": trial.metric, "limit": limit_of(plan, best, trial), "memory_limit_bytes": option.facts.get("capacity_bytes")},
        "step_up": {**{name: getattr(best, name) for name in ("provider", "instance_type", "region", "purchase", "nodes")}, **_bill(best)},
    }


def _bill(best: Option) -> dict[str, Any]:
    time = best.estimate.get("total_time_s")
    return {"total_usd": best.cost.total_usd, "total_time_s": time.mid if time else None}


def commands_of(plan: Plan, trial: Trial) -> tuple[str, ...]:
    """What to type: start the servers from the plan, run the first steps measured, size anew from
    what was measured."""
    own = trial.option.provider == "private"  # a machine of the user's own: nothing is rented there
    start = f"rightfit export plan.json --to {'all' if own else 'skypilot'} --out trial"
    if plan.workload.task == "serve":
        return start, "rightfit probe --url ADDRESS --plan plan.json --out run.json", "rightfit resize run.json"
    size = f"rightfit resize run.json --data {shlex.quote(str(plan.workload.data))}" if plan.workload.data else "rightfit resize run.json"
    if trial.metric == "step_s" and plan.best is not None and plan.best.nodes == 1 and not own:
        return "rightfit launch plan.json --trial", size
    return start, "rightfit probe --plan plan.json --out run.json -- COMMAND", size


def reasons_of(plan: Plan, best: Option, trial: Trial) -> list[Reason]:
    """The same for people."""
    option, figure = trial.option, trial.expected
    place = {"provider": option.provider, "instance_type": option.instance_type, "nodes": option.nodes, "purchase": option.purchase}
    kind = {"step_s": "steps", "requests_per_s": "requests"}.get(trial.metric, "data")
    measured = {"steps": trial.steps, "share": trial.data_share, "measured_s": trial.measured_s}
    suffix = "_s" if trial.metric == "step_s" else "_bytes" if trial.metric == "bytes_per_s" else ""
    ends = {f"{name}{suffix}": value for name, value in (("mid", figure.mid), ("low", figure.low80), ("high", figure.high80))}
    peak = option.estimate["peak_memory_bytes"]
    memory = {"peak_bytes": peak.mid, "high_bytes": peak.high80, "limit_bytes": float(option.facts.get("capacity_bytes") or peak.high95)}
    up = {"provider": best.provider, "instance_type": best.instance_type, "nodes": best.nodes, "total_usd": best.cost.total_usd}
    return [
        Reason(f"staged_trial_{kind}", {**place, **measured, "total_s": trial.total_s, "trial_usd": trial.usd}),
        Reason("staged_commands", {"command": "; ".join(commands_of(plan, trial))}),
        Reason(f"staged_expect_{trial.metric}", ends),
        *([] if "replica_rate_per_s" in best.facts else [Reason("staged_memory", memory)]),  # an engine takes all that it is given
        Reason(f"staged_decide_{trial.metric}", {f"limit{suffix}": limit_of(plan, best, trial)}),
        Reason("staged_up_month" if plan.workload.task == "serve" else "staged_up", up),
    ]
