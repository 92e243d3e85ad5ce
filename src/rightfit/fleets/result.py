"""The plan of a fleet as the library hands it out."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError
from rightfit.facts.devices import placement_of, slice_of
from rightfit.fleets.building import Built
from rightfit.fleets.packing import PART, Layout, Pool, Slots
from rightfit.fleets.reading import Fleet, Job, Owned
from rightfit.fleets.solver import Solved
from rightfit.fleets.ways import Way, Ways
from rightfit.market.sellers import Quota
from rightfit.messages import Message, cause
from rightfit.records import dataclass
from rightfit.units import SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, eq=False)
class FleetPlan:
    """A plan for a fleet: what was asked, the numbers, what the optimiser says, the ways of each
    workload, and the document of it all."""

    fleet: Fleet
    built: Built
    solved: Solved
    ways: Mapping[str, Ways]
    quotas: Sequence[Quota] = ()
    reasons: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    last: Mapping[str, Any] | None = None
    own_runs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    shared: Sequence[Mapping[str, Any]] = ()
    document: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The document: placements, purchases, calendar, cost, bound, gap, reasons."""
        return dict(self.document)

    def to_json(self) -> str:
        """The document as JSON."""
        return json.dumps(self.document, ensure_ascii=False, indent=2)


# ---- Which share of which card each service and job of a fleet's plan stands on.


def shared_servers(plan: FleetPlan) -> list[dict[str, Any]]:
    """Servers whose cards are shared: how they are paid, and of each card what stands where."""
    instance, solved, found = plan.built.instance, plan.solved.plan, []
    for pool in plan.built.pools:
        bought = [(item, count) for item, count in zip(instance.purchases, solved.bought, strict=True) if count]
        servers = [(item, count) for item, count in bought if item.resource == pool.cards]
        if not servers:
            continue
        cuts = [
            item.what.slots
            for item, count in bought
            if isinstance(item.what, Layout) and item.what.pool == pool.label
            for _ in range(count)
        ]
        waiting = _tenants(plan, pool)
        cards = [_card(pool, number, slots, waiting) for number, slots in enumerate(cuts)]
        parts = [
            {"purchase": item.what.purchase, "servers": count, "cost_usd": item.cost_usd * count if item.is_metered else 0.0}
            for item, count in servers
        ]
        found.append(
            {
                "name": f"shared {pool.label}",
                "way": pool.way,
                "servers": sum(count for _, count in servers),
                "parts": parts,
                "cards": [card for card in cards if any(one["service"] for one in card["slices"])],
            }
        )
    return found


def _tenants(plan: FleetPlan, pool: Pool) -> dict[str, list[str]]:
    """Names of services by slice that they take of a pool, one for each slice."""
    waiting: dict[str, list[str]] = {}
    for pick in plan.solved.plan.picked:
        service = plan.built.instance.services[pick.service]
        kind = service.kinds[pick.kind]
        for layer, mode, _ in pick.parts if kind.is_part else ():
            for name, resource in pool.slices.items():
                if kind.modes[mode].loads[0][0] == resource:
                    waiting.setdefault(name, []).extend([service.name] * kind.layers[layer].width)
    return waiting


def _card(pool: Pool, number: int, slots: Slots, waiting: Mapping[str, list[str]]) -> dict[str, Any]:
    """One card: its slices, each with the service that stands there ("" where it is free)."""
    per_server, slices = int(pool.way.accelerators), []
    for name, start in sorted(slots, key=lambda slot: slot[1]):
        part, place = slice_of(pool.way.accelerator, name), placement_of(pool.way.accelerator, name)
        assert part is not None
        assert place is not None
        queue = waiting.get(name, [])
        slices.append(
            {
                "slice": part.name,
                "start": start,
                "size": place.size,
                "places": place.places,
                "memory_share": part.memory_share,
                "service": queue.pop(0) if queue else "",
            }
        )
    return {"server": number // per_server, "card": number % per_server, "slices": slices}


def host_cards(plan: FleetPlan) -> dict[int, list[list[int]]]:
    """Of each placement on a part of a host of one's own (by its number in the plan) the cards of
    each of its jobs. Cards of a host are alike, so that whoever starts first takes the first free
    ones and there are always enough."""
    instance, placed = plan.built.instance, plan.solved.plan.placed
    found: dict[int, list[list[int]]] = {}
    for at, line in plan.built.owned.items():
        cards = plan.fleet.owned[line].gpus_per_server
        until = [0] * cards
        on = [(one, number) for number, one in enumerate(placed) if any(resource == at for resource, _ in _choice(plan, one).loads)]
        for one, number in sorted(on, key=lambda item: item[0].start) if plan.fleet.owned[line].count == 1 else ():
            choice = _choice(plan, one)
            needs = round(sum(amount for resource, amount in choice.loads if resource == at) * cards)
            for _ in range(one.count):
                mine = [card for card in range(cards) if until[card] <= one.start][:needs]
                for card in mine:
                    until[card] = one.start + instance.length(choice)
                if needs < cards:
                    found.setdefault(number, []).append(mine)
    return found


def _choice(plan: FleetPlan, one: Any) -> Any:
    return plan.built.instance.demands[one.demand].choices[one.choice]


# ---- A fleet that is planned again: what the last plan has running stays where it is, what it has
# done is left out, what it bought is owned.

RUNNING = "{name} (running)"


@dataclass(frozen=True, slots=True)
class Rolled:
    """The fleet that is left to plan, the ways of what is running (by name of job), and where
    services stand (name -> server, region)."""

    fleet: Fleet
    running: Mapping[str, Ways]
    standing: Mapping[str, tuple[str, str]]
    done: int


def read_last(last: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    """The last plan's document. FileInputError for what is none."""
    if isinstance(last, Mapping):
        found: Any = last
    else:
        try:
            found = json.loads(Path(last).read_text("utf-8"))
        except FileNotFoundError:
            raise FileInputError(Message("problems.no_file", name=last, hint=""), field="from") from None
        except (OSError, ValueError, RecursionError) as error:
            raise FileInputError(Message("fleet.not_a_plan_because", name=last, error=cause(error)), field="from") from None
    if not isinstance(found, Mapping) or found.get("kind") != "fleet" or not isinstance(found.get("placements"), list):
        raise FileInputError(
            Message("fleet.not_a_plan", name=last if not isinstance(last, Mapping) else "last"),
            field="from",
        )
    return found


def rolled(fleet: Fleet, last: Mapping[str, Any]) -> Rolled:
    """What is left of a fleet after a last plan, as it is at the fleet's start."""
    shift = (fleet.start - datetime.datetime.fromisoformat(last["start"])).total_seconds() / SECONDS_PER_HOUR
    left = {job.name: job.count for job in fleet.jobs}
    by_name = {job.name: job for job in fleet.jobs}
    jobs: list[Job] = []
    running: dict[str, Ways] = {}
    done = 0
    for number, row in enumerate(last["placements"]):
        name = str(row["name"]).removesuffix(RUNNING.format(name=""))
        if row["kind"] != "job" or name not in by_name or row["start_h"] >= shift:
            continue
        count = min(int(row["count"]), left[name])
        left[name] -= count
        rest = row["end_h"] - shift
        if rest <= 0 or not count:
            done += count
            continue
        label = RUNNING.format(name=name) if RUNNING.format(name=name) not in running else f"{RUNNING.format(name=name)} {number}"
        running[label] = Ways((_rest(row, rest),))
        jobs.append(dataclasses.replace(by_name[name], name=label, count=count, ready_h=0.0, due_h=None, interruptible=True, after=()))
    there = {job.name: [job.name] if left[job.name] else [] for job in fleet.jobs}
    for label in running:
        there[next(name for name in by_name if label.startswith(RUNNING.format(name=name)))].append(label)
    for job in fleet.jobs:
        if left[job.name]:
            after = tuple(name for before in job.after for name in there[before])
            jobs.append(dataclasses.replace(job, count=left[job.name], after=after))
    standing = {
        row["name"]: (f"{row['provider']}/{row['instance_type']}", row["region"])
        for row in last["placements"]
        if row["kind"] == "service" and row["purchase"] != PART
    }
    return Rolled(dataclasses.replace(fleet, jobs=tuple(jobs), owned=(*fleet.owned, *_bought(last, shift))), running, standing, done)


def _rest(row: Mapping[str, Any], rest_h: float) -> Way:
    """What is left of a placement as the only way of its job."""
    share = rest_h / row["hours"]
    each = row["cost_usd"] / row["count"] * share
    rent = min(row["hourly_usd"] * rest_h, each)
    return Way(
        **{key: row[key] for key in ("provider", "instance_type", "region", "purchase", "servers")},
        country="",
        hours=rest_h,
        usd_per_h=row["hourly_usd"] / row["servers"],
        other_usd=each - rent,
        servers_usd=rent,
        accelerator=row["accelerator"],
        accelerators=row["accelerators_per_server"],
        vcpus=row["vcpus_per_server"],
        as_of=row["price_as_of"],
    )


def _bought(last: Mapping[str, Any], shift: float) -> list[Owned]:
    found = []
    for row in last.get("purchases", ()):
        ends = (
            datetime.datetime.fromisoformat(row["end"]) - datetime.datetime.fromisoformat(last["start"])
        ).total_seconds() / SECONDS_PER_HOUR - shift
        begins = (
            datetime.datetime.fromisoformat(row["start"]) - datetime.datetime.fromisoformat(last["start"])
        ).total_seconds() / SECONDS_PER_HOUR - shift
        if ends > 0:
            kind = "block" if row["purchase"] == "capacity-block" else "reservation"
            text = f"{row['provider']}/{row['instance_type']}"
            found.append(
                Owned(kind, row["provider"], row["instance_type"], (), 0, row["count"], row["region"], 0.0, max(begins, 0.0), ends, text)
            )
    return found


def staying(ways: Mapping[str, Ways], rolled_fleet: Rolled) -> dict[str, Ways]:
    """Ways after what runs: the rest of running jobs, and services where they stand as long
    as that is possible."""
    found = dict(ways)
    found.update(rolled_fleet.running)
    for name, (server, region) in rolled_fleet.standing.items():
        if name in found:
            here = tuple(way for way in found[name].found if (way.server, way.region) == (server, region))
            found[name] = Ways(here) if here else found[name]
    return found


def moves_of(found: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """What changed: how many names are as before, which moved, how many are new and gone."""
    before, after = _places(last), _places(found)
    both = [name for name in after if name in before]
    moved = [
        {"name": name, "before": " + ".join(sorted(before[name])), "after": " + ".join(sorted(after[name]))}
        for name in both
        if before[name] != after[name]
    ]
    gone = len([name for name in before if name not in after])
    return {"kept": len(both) - len(moved), "moved": moved, "added": len([name for name in after if name not in before]), "gone": gone}


def _places(found: Mapping[str, Any]) -> dict[str, set[str]]:
    places: dict[str, set[str]] = {}
    for row in found["placements"]:
        name = str(row["name"]).partition(RUNNING.format(name=""))[0]
        places.setdefault(name, set()).add(f"{row['provider']}/{row['instance_type']} {row['region']} {row['purchase']}")
    return places
