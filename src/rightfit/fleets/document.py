"""The answer for a fleet as one document in base units: what every face prints and
every export reads."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.fleets.instance import TOLERANCE, Choice, pick_usd
from rightfit.fleets.result import host_cards, moves_of
from rightfit.fleets.solver import alone_usd
from rightfit.units import HOURS_PER_MONTH

if TYPE_CHECKING:
    from rightfit.fleets.result import FleetPlan
    from rightfit.fleets.ways import Offer, Way

SCHEMA_VERSION = 1
_ALTERNATIVES, _CONSIDERED = 3, 12


def document(plan: FleetPlan) -> dict[str, Any]:
    """The document. Money in US dollars, times in hours from the start and as dates,
    amounts in servers."""
    placements = [*_jobs(plan), *_services(plan), *_shared(plan)]
    solved, reasons = plan.solved, plan.reasons
    cost = solved.plan.cost_usd
    found: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "kind": "fleet",
        "name": plan.fleet.name,
        "start": plan.fleet.start.isoformat(),
        "horizon_h": plan.built.horizon_h,
        "period_h": plan.built.instance.period_h,
        "cost": {
            "total_usd": cost,
            "terms": _terms(plan),
            "own_best_usd": solved.own_best_usd,
            "own_best_feasible": solved.own_best_feasible,
            "greedy_usd": solved.greedy_usd,
        },
        "bound_usd": solved.bound_usd,
        "gap": solved.gap,
        "placements": placements,
        "purchases": _purchases(plan),
        "considered": _considered(plan),
        "calendar": _calendar(placements),
        "utilisation": _utilisation(plan),
        "unplaced": _unplaced(plan),
        "shadow_prices": [{key: value for key, value in row.items() if key != "resource"} for row in reasons.get("shadow_prices", ())],
        "limit_costs": list(reasons.get("limit_costs", ())),
        "deadlines": list(reasons.get("deadlines", ())),
        "scenarios": list(reasons.get("scenarios", ())),
        "relaxations": list(reasons.get("relaxations", ())),
        "limits": _limits(plan),
        "assumptions": _assumptions(plan),
        "solver": {"seconds": solved.seconds, "columns": solved.columns, "reasons_skipped": bool(reasons.get("skipped"))},
    }
    found |= {"futures": reasons["futures"]} if "futures" in reasons else {}
    return found if plan.last is None else {**found, "moves": moves_of(found, plan.last)}


def moment(plan: FleetPlan, hours: float) -> str:
    """A date and time, hours after the start."""
    return (plan.fleet.start + datetime.timedelta(hours=hours)).isoformat(timespec="minutes")


def _place(way: Way) -> dict[str, Any]:
    return {
        **{name: getattr(way, name) for name in ("provider", "instance_type", "region", "purchase", "accelerator")},
        "accelerators_per_server": way.accelerators,
        "vcpus_per_server": way.vcpus,
        "memory_bytes_per_server": way.memory_bytes,
        "price_as_of": way.as_of,
    }


def _jobs(plan: FleetPlan) -> list[dict[str, Any]]:
    instance, found, cards = plan.built.instance, [], host_cards(plan)
    numbered = sorted(enumerate(plan.solved.plan.placed), key=lambda item: (item[1].start, item[1].demand))
    for number, one in numbered:
        demand, job = instance.demands[one.demand], plan.fleet.jobs[one.demand]
        choice = demand.choices[one.choice]
        begin = max(one.start * instance.period_h, demand.ready_h)
        found.append(
            {
                "name": demand.name,
                "kind": "job",
                "count": one.count,
                "team": job.team,
                "after": list(job.after),
                **_place(choice.way),
                "servers": choice.way.servers,
                "owned": _owned_label(plan, choice),
                **({"cards": cards[number], "host_cards": _host_cards(plan, choice)} if number in cards else {}),
                "start_h": begin,
                "end_h": begin + choice.hours,
                "start": moment(plan, begin),
                "end": moment(plan, begin + choice.hours),
                "hours": choice.hours,
                "deadline_h": job.due_h,
                "hourly_usd": choice.way.usd_per_h * choice.way.servers,
                "cost_usd": choice.cost_usd * one.count,
                "workload": dict(job.wishes),
                "why": _why(plan, one.demand, choice),
                "alternatives": _alternatives(plan, one.demand, choice),
            }
        )
    return found


def _owned_label(plan: FleetPlan, choice: Choice) -> str:
    """The line of what is owned that carries a placement; empty where it is rented."""
    return next((plan.built.limits[at].text for at, _ in choice.loads if plan.built.limits[at].kind == "owned"), "")


def _host_cards(plan: FleetPlan, choice: Choice) -> int:
    """Cards of the host on which a placement has some."""
    return max(plan.fleet.owned[plan.built.owned[at]].gpus_per_server for at, _ in choice.loads if at in plan.built.owned)


def _why(plan: FleetPlan, at: int, choice: Choice) -> dict[str, Any]:
    """What the job would run on alone, and what keeps it from there."""
    demand, job = plan.built.instance.demands[at], plan.fleet.jobs[at]
    ways = plan.ways[demand.name].found
    best = ways[0] if ways else None
    if best is None:
        return {}
    extra = choice.cost_usd - best.total_usd
    return {
        "own_best": {**_place(best), "servers": best.servers, "hours": best.hours, "cost_usd": best.total_usd},
        "extra_usd": extra,
        "kept_by": _kept_from(plan, at, best) if extra > TOLERANCE else [],
        "slack_h": None if job.due_h is None else job.due_h - demand.ready_h - choice.hours,
    }


def _kept_from(plan: FleetPlan, at: int, way: Way) -> list[str]:
    """Why a job is not on a way that alone would be cheaper: too slow for its time, not to be
    interrupted, or limits whose room others pay more for."""
    demand, job = plan.built.instance.demands[at], plan.fleet.jobs[at]
    if way.purchase == "spot" and not job.interruptible:
        return ["interruptible"]
    if way.hours > demand.due_h - demand.ready_h:
        return ["deadline"]
    paid = {resource for resource, _ in plan.solved.duals}
    choice = next((one for one in demand.choices if one.way is way), None)
    loads = {resource for resource, amount in choice.loads if amount > 0} | set(demand.budgets) if choice else set()
    return [plan.built.instance.resources[resource].name for resource in sorted(loads & paid)] or ["room"]


def _alternatives(plan: FleetPlan, at: int, taken: Choice) -> list[dict[str, Any]]:
    """The next ways of a job on other servers, with what they cost more."""
    demand, found, seen = plan.built.instance.demands[at], [], {(taken.way.server, taken.way.purchase)}
    for choice in sorted(demand.choices, key=lambda one: one.cost_usd):
        key = (choice.way.server, choice.way.purchase)
        if key in seen or choice.way.purchase == "owned":
            continue
        seen.add(key)
        extra = choice.cost_usd - taken.cost_usd
        kept = _kept_from(plan, at, choice.way) if extra < -TOLERANCE else []
        found.append({**_place(choice.way), "servers": choice.way.servers, "hours": choice.hours, "extra_usd": extra, "kept_by": kept})
        if len(found) == _ALTERNATIVES:
            break
    return found


def _services(plan: FleetPlan) -> list[dict[str, Any]]:
    instance, found = plan.built.instance, []
    for pick in plan.solved.plan.picked:
        service, asked = instance.services[pick.service], plan.fleet.services[pick.service]
        kind = service.kinds[pick.kind]
        parts = []
        for layer, mode, count in pick.parts:
            way, hours = kind.modes[mode].way, kind.layers[layer].hours
            at = next((plan.built.limits[at].text for at, _ in kind.modes[mode].loads if plan.built.limits[at].kind == "owned"), "")
            parts.append(
                {
                    "purchase": way.purchase,
                    "owned": at,
                    "servers": count,
                    "hours": hours,
                    "cost_usd": kind.modes[mode].usd_per_h * hours * count,
                    "layer": layer,
                }
            )
        running = np.sum([layer.width * layer.on for layer in kind.layers], axis=0)
        found.append(
            {
                "name": service.name,
                "kind": "service",
                "count": 1,
                "team": asked.team,
                **_place(kind.way),
                "servers": int(sum(layer.width for layer in kind.layers)),
                "least_servers": int(running.min(initial=0)) if running.size else 0,
                "parts": parts,
                "start_h": 0.0,
                "end_h": plan.built.horizon_h,
                "start": moment(plan, 0.0),
                "end": moment(plan, plan.built.horizon_h),
                "servers_by_period": [int(number) for number in running],
                "cost_usd": kind.other_usd + sum(part["cost_usd"] for part in parts),
                "workload": dict(asked.wishes),
                "why": {"own_best_usd": alone_usd(service)},
            }
        )
        if kind.is_part:
            found[-1] |= {"servers": 0, "least_servers": 0, "servers_by_period": [], "on": _slices(plan, service.name)}
    return found


def _slices(plan: FleetPlan, name: str) -> list[dict[str, Any]]:
    """The parts of cards that a service stands on."""
    return [
        {"name": row["name"], "server": card["server"], "card": card["card"], "slice": one["slice"], "start": one["start"]}
        for row in plan.shared
        for card in row["cards"]
        for one in card["slices"]
        if one["service"] == name
    ]


def _shared(plan: FleetPlan) -> list[dict[str, Any]]:
    """Servers whose cards services share, each with what stands where and what the same services
    would cost on servers of their own."""
    by_name = {service.name: service for service in plan.built.instance.services}
    others = {plan.built.instance.services[one.service].name: pick_usd(plan.built.instance, one) for one in plan.solved.plan.picked}
    found = []
    for row in plan.shared:
        names = sorted({one["service"] for card in row["cards"] for one in card["slices"] if one["service"]})
        found.append(
            {
                "name": row["name"],
                "kind": "server",
                "count": 1,
                "team": None,
                **_place(row["way"]),
                "purchase": row["parts"][0]["purchase"],
                "servers": row["servers"],
                "parts": row["parts"],
                "start_h": 0.0,
                "end_h": plan.built.horizon_h,
                "start": moment(plan, 0.0),
                "end": moment(plan, plan.built.horizon_h),
                "cost_usd": sum(part["cost_usd"] for part in row["parts"]),
                "cards": row["cards"],
                "holds": names,
                "paid_usd": sum(others[name] for name in names) + _paid_for(plan, row["name"]),
                "alone_usd": sum(alone_usd(by_name[name]) for name in names),
            }
        )
    return found


def _paid_for(plan: FleetPlan, name: str) -> float:
    """What the servers of a pool cost of this plan, by the hour and on terms [USD]."""
    pool = next(one for one in plan.built.pools if f"shared {one.label}" == name)
    bought = zip(plan.built.instance.purchases, plan.solved.plan.bought, strict=True)
    return sum(item.cost_usd * count for item, count in bought if item.resource == pool.cards)


def _purchases(plan: FleetPlan) -> list[dict[str, Any]]:
    found = []
    for item, count in zip(plan.built.instance.purchases, plan.solved.plan.bought, strict=True):
        if count and not item.is_metered:
            offer: Offer = item.what
            used = _use_of(plan, item.resource, item.first, item.last)
            team = next((plan.built.limits[at].text for at in item.budgets if plan.built.limits[at].kind == "team"), "")
            found.append({**_terms_of(plan, offer), "count": count, "cost_usd": item.cost_usd * count, "utilisation": used, "team": team})
    return found


def _use_of(plan: FleetPlan, resource: int, first: int, last: int) -> float:
    """Share of what was bought of a resource that is used within some periods."""
    from rightfit.fleets.instance import drawn

    bought = [
        sum(
            item.adds * count
            for item, count in zip(plan.built.instance.purchases, plan.solved.plan.bought, strict=True)
            if item.resource == resource and item.first <= period < item.last
        )
        for period in range(first, last)
    ]
    rest = drawn(plan.built.instance, plan.solved.plan)
    used = [number + rest.get((resource, period), 0.0) for number, period in zip(bought, range(first, last), strict=True)]
    return float(sum(used) / sum(bought)) if sum(bought) else 0.0


def _terms_of(plan: FleetPlan, offer: Offer) -> dict[str, Any]:
    """A commitment with its break-even: the share of its hours that must be used, and the months of
    steady use, until on demand would have cost more."""
    ratio = offer.usd_per_h / offer.on_demand_usd_per_h if offer.on_demand_usd_per_h else None
    return {
        **{
            name: getattr(offer, name)
            for name in ("provider", "instance_type", "region", "purchase", "usd_per_h", "on_demand_usd_per_h", "term_h")
        },
        "owed_usd": offer.usd_per_h * offer.term_h,
        "break_even_share": ratio if ratio is not None and ratio < 1 else None,
        "break_even_months": None if ratio is None or ratio >= 1 else ratio * offer.term_h / HOURS_PER_MONTH,
        "start": moment(plan, offer.since_h),
        "end": moment(plan, offer.since_h + offer.term_h),
        "price_as_of": offer.as_of,
        "basis": offer.basis,
    }


def _considered(plan: FleetPlan) -> list[dict[str, Any]]:
    """Commitments that were looked at for what stands on demand in this plan, with their
    break-even, and were not bought."""
    rented = {(row["provider"], row["instance_type"], row["region"]) for row in _services(plan)}
    bought = {(item["provider"], item["instance_type"], item["region"], item["purchase"]) for item in _purchases(plan)}
    found = []
    for offer in plan.built.considered:
        key = (offer.provider, offer.instance_type, offer.region)
        terms = _terms_of(plan, offer)
        if key in rented and (*key, offer.purchase) not in bought and terms["break_even_months"] is not None:
            found.append(terms)
    return sorted(found, key=lambda row: row["break_even_months"])[:_CONSIDERED]


def _calendar(placements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One bar a placement, by time: what a chart and a table draw."""
    keys = ("name", "kind", "count", "provider", "instance_type", "region", "purchase", "servers", "start_h", "end_h", "start", "end")
    return [
        {key: row[key] for key in keys} for row in sorted(placements, key=lambda row: (row["kind"] == "job", row["start_h"], row["name"]))
    ]


def _utilisation(plan: FleetPlan) -> list[dict[str, Any]]:
    """What is owned, and what each quota is used for: the share of the horizon's capacity,
    and the most at once."""
    from rightfit.fleets.instance import drawn

    instance, used = plan.built.instance, drawn(plan.built.instance, plan.solved.plan)
    found = []
    for at, resource in enumerate(instance.resources):
        limit = plan.built.limits[at]
        if limit.kind not in ("owned", "quota", "budget", "team"):
            continue
        amounts = np.array([used.get((at, row), 0.0) for row in range(resource.caps.shape[0])])
        whole = float(resource.caps.sum())
        found.append(
            {
                "kind": limit.kind,
                "name": resource.name,
                "unit": resource.unit,
                "limit": float(resource.caps.max(initial=0.0)),
                "most": float(amounts.max(initial=0.0)),
                "share": float(amounts.sum() / whole) if whole else 0.0,
            }
        )
    return found


def _unplaced(plan: FleetPlan) -> list[dict[str, Any]]:
    number = dict.fromkeys(range(len(plan.built.instance.demands)), 0)
    for one in plan.solved.plan.placed:
        number[one.demand] += one.count
    found = []
    for at, demand in enumerate(plan.built.instance.demands):
        if number[at] < demand.count:
            ways = plan.ways[demand.name]
            waits = [plan.fleet.jobs[before].name for before in demand.after if number[before] < plan.built.instance.demands[before].count]
            why = "no_server" if not ways.found else "too_slow" if not demand.choices else "waits" if waits else "no_room"
            fastest = min((way.hours for way in ways.found), default=None)
            blame = [list(one) for one in ways.blame]
            found.append(
                {
                    "name": demand.name,
                    "kind": "job",
                    "count": demand.count - number[at],
                    "why": why,
                    "blame": [waits] if why == "waits" else blame,
                    "fastest_h": fastest,
                }
            )
    picked = {one.service for one in plan.solved.plan.picked}
    for at, service in enumerate(plan.built.instance.services):
        if at not in picked:
            ways = plan.ways[service.name]
            found.append(
                {
                    "name": service.name,
                    "kind": "service",
                    "count": 1,
                    "why": "no_room" if ways.found else "no_server",
                    "blame": [list(one) for one in ways.blame],
                }
            )
    return found


def _terms(plan: FleetPlan) -> dict[str, float]:
    """Money by way to pay; commitments under their own name; what is beside servers
    under `beside_servers`."""
    instance = plan.built.instance
    found: dict[str, float] = {}

    def add(name: str, usd: float) -> None:
        if abs(usd) > TOLERANCE:
            found[name] = found.get(name, 0.0) + usd

    for one in plan.solved.plan.placed:
        choice = instance.demands[one.demand].choices[one.choice]
        add(choice.way.purchase, choice.way.servers_usd * one.count)
        add("beside_servers", choice.way.other_usd * one.count)
    for pick in plan.solved.plan.picked:
        kind = instance.services[pick.service].kinds[pick.kind]
        add("beside_servers", kind.other_usd)
        for layer, mode, count in pick.parts:
            add(kind.modes[mode].way.purchase, kind.modes[mode].usd_per_h * kind.layers[layer].hours * count)
    for item, count in zip(instance.purchases, plan.solved.plan.bought, strict=True):
        add(item.what.purchase, item.cost_usd * count)
    return found


def _limits(plan: FleetPlan) -> dict[str, Any]:
    fleet = plan.fleet
    return {
        "quota": [
            {
                "text": one.text,
                "most": one.most,
                "unit": one.unit,
                "gpus": list(one.gpus),
                "types": list(one.types),
                "providers": list(one.providers),
                "regions": list(one.regions),
                "purchases": list(one.purchases),
            }
            for one in plan.quotas
        ],
        "budget_usd_per_month": fleet.budget_usd,
        "teams_usd_per_month": dict(fleet.team_budgets),
        "spot_share": fleet.spot_share,
        "teams": sorted({team for team in (*(job.team for job in fleet.jobs), *(service.team for service in fleet.services)) if team}),
        **{key: list(value) for key, value in fleet.limits.items()},
    }


def _assumptions(plan: FleetPlan) -> list[dict[str, Any]]:
    """Defaults that were taken: field, value, key of the sentence that says why."""
    fleet, found = plan.fleet, []

    def assume(field: str, value: Any, key: str, **params: Any) -> None:
        found.append({"field": field, "value": value, "key": key, "params": {"value": value, **params}})

    if not fleet.start_given:
        assume("start", fleet.start.date().isoformat(), "start")
    if fleet.horizon_h is None:
        assume("horizon", plan.built.horizon_h, "horizon")
    assume("period_h", plan.built.instance.period_h, "period")
    if fleet.steady_h is None and fleet.services:
        assume("steady", None, "steady")
    if plan.built.months > 1 and (fleet.budget_usd or fleet.team_budgets):
        assume("month", HOURS_PER_MONTH, "month")
    if any(item.gpus for item in fleet.owned):
        assume("owned", [item.text for item in fleet.owned if item.gpus], "own_servers")
    if any(limit.kind == "stock" for limit in plan.built.limits):
        assume("stock", [limit.text for limit in plan.built.limits if limit.kind == "stock"], "stock")
    if plan.own_runs:
        assume("runs", [f"{name} {change}" for name, change in plan.own_runs.items()], "runs")
    return found


def rows_of(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The placements as rows of a table for programs (csv)."""
    keys = ("name", "kind", "count", "team", "provider", "instance_type", "region", "purchase", "servers", "start", "end", "cost_usd")
    return [{key: row.get(key) for key in keys} for row in found["placements"]]
