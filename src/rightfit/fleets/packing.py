"""Services on parts of cards: servers whose cards are cut by the vendor's placement table (MIG) or
shared in turn, as things that the optimiser buys.

A pool is a type of server in a region. Its servers add cards; a way to cut a card (a layout that no
other one exceeds) takes a card and adds slices; a service takes as many slices as it needs. So that
only whole layouts are bought, whatever is placed can be placed on real cards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from rightfit.facts.devices import placement_of, slice_of
from rightfit.fleets.instance import Kind, Layer, Mode, Purchase
from rightfit.fleets.reading import Fleet
from rightfit.fleets.ways import Offer, Part, Way, Ways
from rightfit.records import dataclass
from rightfit.units import HOURS_PER_MONTH

#: Parts that are asked for of a service by what it may share.
SLICES: Mapping[str, tuple[str, ...]] = {"whole": (), "mig": ("1g", "2g", "3g"), "turns": ("1g", "2g", "3g", "0.5", "0.25")}
PART = "part"
MOST_POOLS, MOST_SERVERS = 8, 64

Slots = tuple[tuple[str, int], ...]  # (slice, where it begins)
_Found = dict[tuple[str, str, str], dict[str, dict[str, Part]]]  # pool -> service -> slice -> part


@dataclass(frozen=True, slots=True)
class Layout:
    """A way to cut one card of a pool."""

    pool: str
    slots: Slots
    purchase: str = "layout"
    provider: str = ""

    def number(self, name: str) -> int:
        """How many slices of a name it has."""
        return sum(slot == name for slot, _ in self.slots)


@dataclass(frozen=True, slots=True)
class Pool:
    """A type of server in a region whose cards are shared: the resource of its cards, and those of
    its slices by name."""

    label: str
    way: Way
    cards: int
    slices: Mapping[str, int]


# -- ways to cut a card ----------------------------------------------------------------------------


def layouts(card: str, names: Sequence[str]) -> list[Slots]:
    """Every way to cut a card into slices of some names by its placement table, but none that
    another one exceeds. Slices that are isolated and fractions that are shared in turn never stand
    on one card."""
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


class Shop(Protocol):
    """What is being put together, as far as parts of cards need it: what is asked, and
    what can be bought."""

    fleet: Fleet
    ways: Mapping[str, Ways]
    horizon_h: float
    num_periods: int
    offers: list[Any]
    pools: list[Pool]
    purchases: list[Purchase]

    def room(self, label: str, unit: str) -> int:
        """A resource of which there is nothing but what is bought."""

    def servers_of(self, way: Way) -> list[tuple[Offer, float, bool]]:
        """Ways to have a server for the whole horizon: (offer, USD, whether it is
        paid by the hour)."""

    def payers(self, teams: Collection[str | None]) -> tuple[int, ...]:
        """The budgets that pay for what these teams share."""

    def loads(self, way: Way, servers: float) -> tuple[tuple[int, float], ...]:
        """What so many servers of a way take of quotas, stock and the share of spot."""


def shared_kinds(shop: Shop) -> dict[str, list[Kind]]:
    """Kinds of services on parts of cards, by name of the service; their servers and layouts join
    what can be bought."""
    kinds: dict[str, list[Kind]] = {}
    for key, tenants in _pools(shop):
        pool = _pool(shop, "/".join(key[:2]) + f" {key[2]}", tenants)
        shop.pools.append(pool)
        for name, parts in tenants.items():
            kinds.setdefault(name, []).extend(_kind(shop, pool, part) for part in parts.values())
    return kinds


def _pools(shop: Shop) -> list[tuple[tuple[str, str, str], dict[str, dict[str, Part]]]]:
    """Servers that at least two services may share, those first that could save most."""
    found: _Found = {}
    alone: dict[str, float] = {}
    for service in shop.fleet.services:
        ways = shop.ways[service.name]
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
        """What sharing saves an hour at most: each service pays no more than
        its share of a card."""
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


def _pool(shop: Shop, label: str, tenants: Mapping[str, Mapping[str, Part]]) -> Pool:
    """The pool's resources, servers and layouts."""
    parts = [part for mine in tenants.values() for part in mine.values()]
    way = dataclasses.replace(parts[0].way, servers=1)
    cards = shop.room(f"cards of {label}", "cards")
    names = sorted({part.slice for part in parts})
    pool = Pool(label, way, cards, {name: shop.room(f"{name} of {label}", "slices") for name in names})
    budgets = shop.payers({service.team for service in shop.fleet.services if service.name in tenants})
    last = shop.num_periods
    for offer, usd, is_metered in shop.servers_of(way):
        loads = shop.loads(dataclasses.replace(way, purchase=offer.purchase), 1.0)
        shop.offers.append(offer)
        shop.purchases.append(Purchase(offer, cards, usd, 0, last, MOST_SERVERS, way.accelerators, loads, budgets, is_metered=is_metered))
    for slots in layouts(way.accelerator, names):
        layout = Layout(label, slots)
        first, *others = [name for name in names if layout.number(name)]
        taken = ((cards, 1.0), *((pool.slices[name], -float(layout.number(name))) for name in others))
        shop.offers.append(layout)
        most = int(MOST_SERVERS * way.accelerators)
        shop.purchases.append(
            Purchase(layout, pool.slices[first], 0.0, 0, last, most, float(layout.number(first)), taken, (), is_metered=True)
        )
    return pool


def _kind(shop: Shop, pool: Pool, part: Part) -> Kind:
    way = dataclasses.replace(part.way, purchase=PART, servers=part.count, usd_per_h=0.0, servers_usd=0.0, levels=())
    layer = Layer(part.count, np.ones(shop.num_periods, dtype=np.bool_), shop.horizon_h)
    mode = Mode(way, 0.0, ((pool.slices[part.slice], 1.0),))
    return Kind(way, (layer,), (mode,), part.way.other_usd * shop.horizon_h / HOURS_PER_MONTH, is_part=True)
