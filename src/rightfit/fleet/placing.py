"""Which share of which card each service and job of a fleet's plan stands on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rightfit.facts.slices import placement_of, slice_of
from rightfit.fleet.packing import Layout, Pool, Slots
from rightfit.fleet.result import FleetPlan


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
    """Of each placement on a part of a host of one's own (by its number in the plan) the cards of each of its jobs. Cards of a host are alike, so
    that whoever starts first takes the first free ones and there are always enough."""
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
