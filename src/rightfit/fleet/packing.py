"""Services on parts of cards: servers whose cards are cut by the vendor's placement table (MIG) or shared in turn, as things that the optimiser buys.

A pool is a type of server in a region. Its servers add cards; a way to cut a card (a layout that no other one exceeds) takes a card and adds slices; a
service takes as many slices as it needs. So that only whole layouts are bought, whatever is placed can be placed on real cards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.facts.slices import placement_of, slice_of
from rightfit.fleet.instance import Kind, Layer, Mode, Purchase
from rightfit.fleet.ways import Part, Way
from rightfit.units import HOURS_PER_MONTH

if TYPE_CHECKING:
    from rightfit.fleet.building import Builder
    from rightfit.fleet.result import FleetPlan

#: Parts that are asked for of a service by what it may share.
SLICES: Mapping[str, tuple[str, ...]] = {"whole": (), "mig": ("1g", "2g", "3g"), "turns": ("1g", "2g", "3g", "0.5", "0.25")}
PART = "part"
MOST_POOLS, MOST_SERVERS = 8, 64

Slots = tuple[tuple[str, int], ...]  # (slice, where it begins)
_Found = dict[tuple[str, str, str], dict[str, dict[str, Part]]]  # pool -> service -> slice -> part


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """A way to cut one card of a pool."""

    pool: str
    slots: Slots
    purchase: str = "layout"
    provider: str = ""

    def number(self, name: str) -> int:
        """How many slices of a name it has."""
        return sum(slot == name for slot, _ in self.slots)


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """A type of server in a region whose cards are shared: the resource of its cards, and those of its slices by name."""

    label: str
    way: Way
    cards: int
    slices: Mapping[str, int]


# -- ways to cut a card --------------------------------------------------------------------------------------------------------------------


def layouts(card: str, names: Sequence[str]) -> list[Slots]:
    """Every way to cut a card into slices of some names by its placement table, but none that another one exceeds. Slices that are isolated and
    fractions that are shared in turn never stand on one card."""
    isolated = [name for name in names if (part := slice_of(card, name)) and part.isolated]
    return [*_maximal(card, isolated), *_maximal(card, [name for name in names if name not in isolated])]


def _maximal(card: str, names: Sequence[str]) -> list[Slots]:
    found: dict[tuple[int, ...], Slots] = {}
    known = [(name, place) for name in names if (place := placement_of(card, name))]
    width = max((place.places for _, place in known), default=0)
    slots = [
        (name, start, start * (width // place.places), place.size * (width // place.places))
        for name, place in known
        for start in place.starts
    ]

    def descend(at: int, busy: int, taken: Slots) -> None:
        found.setdefault(tuple(sum(name == one for one, _ in taken) for name, _ in known), taken)
        for number in range(at, len(slots)):
            name, start, first, size = slots[number]
            mask = ((1 << size) - 1) << first
            if not busy & mask:
                descend(number + 1, busy | mask, (*taken, (name, start)))

    descend(0, 0, ())
    counts = [count for count in found if any(count)]
    best = [one for one in counts if not any(other != one and all(a <= b for a, b in zip(one, other, strict=True)) for other in counts)]
    return [found[one] for one in best]


# -- what the optimiser may buy ------------------------------------------------------------------------------------------------------------


def shared_kinds(builder: Builder) -> dict[str, list[Kind]]:
    """Kinds of services on parts of cards, by name of the service; their servers and layouts join what can be bought."""
    kinds: dict[str, list[Kind]] = {}
    for key, tenants in _pools(builder):
        pool = _pool(builder, "/".join(key[:2]) + f" {key[2]}", tenants)
        builder.pools.append(pool)
        for name, parts in tenants.items():
            kinds.setdefault(name, []).extend(_kind(builder, pool, part) for part in parts.values())
    return kinds


def _pools(builder: Builder) -> list[tuple[tuple[str, str, str], dict[str, dict[str, Part]]]]:
    """Servers that at least two services may share, those first that could save most."""
    found: _Found = {}
    alone: dict[str, float] = {}
    for service in builder.fleet.services:
        ways = builder.ways[service.name]
        alone[service.name] = min(
            (way.usd_per_h * way.servers for way in ways.found if way.purchase.startswith("on-demand")), default=np.inf
        )
        for part in ways.parts:
            way = part.way
            if way.purchase.startswith("on-demand") and way.accelerators >= 1 and placement_of(way.accelerator, part.slice):
                mine = found.setdefault((way.provider, way.instance_type, way.region), {}).setdefault(service.name, {})
                if part.slice not in mine or part.count < mine[part.slice].count:
                    mine[part.slice] = part

    def saves(tenants: Mapping[str, Mapping[str, Part]]) -> float:
        """What sharing saves an hour at most: each service pays no more than its share of a card."""
        shares = {
            name: min(_share(part) * part.way.usd_per_h / part.way.accelerators for part in parts.values())
            for name, parts in tenants.items()
        }
        return float(sum(max(0.0, min(alone[name], 1e6) - share) for name, share in shares.items()))

    shared = [(key, tenants) for key, tenants in found.items() if len(tenants) > 1 and saves(tenants) > 0]
    return sorted(shared, key=lambda item: (-saves(item[1]), item[0]))[:MOST_POOLS]


def _share(part: Part) -> float:
    """The share of one card that a part is."""
    place = placement_of(part.way.accelerator, part.slice)
    assert place is not None
    return part.count * place.size / place.places


def _pool(builder: Builder, label: str, tenants: Mapping[str, Mapping[str, Part]]) -> Pool:
    """The pool's resources, servers and layouts."""
    parts = [part for mine in tenants.values() for part in mine.values()]
    way = dataclasses.replace(parts[0].way, servers=1)
    cards = builder.room(f"cards of {label}", "cards")
    names = sorted({part.slice for part in parts})
    pool = Pool(label, way, cards, {name: builder.room(f"{name} of {label}", "slices") for name in names})
    budgets = (builder.budget_at,) if builder.budget_at is not None else ()
    last = builder.num_periods
    for offer, usd, is_metered in builder.servers_of(way):
        loads = builder.loads(dataclasses.replace(way, purchase=offer.purchase), 1.0)
        builder.offers.append(offer)
        builder.purchases.append(
            Purchase(offer, cards, usd, 0, last, MOST_SERVERS, way.accelerators, loads, budgets, is_metered=is_metered)
        )
    for slots in layouts(way.accelerator, names):
        layout = Layout(label, slots)
        first, *others = [name for name in names if layout.number(name)]
        taken = ((cards, 1.0), *((pool.slices[name], -float(layout.number(name))) for name in others))
        builder.offers.append(layout)
        most = int(MOST_SERVERS * way.accelerators)
        builder.purchases.append(
            Purchase(layout, pool.slices[first], 0.0, 0, last, most, float(layout.number(first)), taken, (), is_metered=True)
        )
    return pool


def _kind(builder: Builder, pool: Pool, part: Part) -> Kind:
    way = dataclasses.replace(part.way, purchase=PART, servers=part.count, usd_per_h=0.0, servers_usd=0.0, levels=())
    layer = Layer(part.count, np.ones(builder.num_periods, dtype=np.bool_), builder.horizon_h)
    mode = Mode(way, 0.0, ((pool.slices[part.slice], 1.0),))
    return Kind(way, (layer,), (mode,), part.way.other_usd * builder.horizon_h / HOURS_PER_MONTH, is_part=True)


# -- which share of which card -------------------------------------------------------------------------------------------------------------


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
