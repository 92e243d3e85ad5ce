"""A server of one's own: its price, power and upkeep from the facts (each overridable), and what an
hour of work on it costs."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rightfit import facts
from rightfit.errors import InputError, QuantityError, UnknownNameError
from rightfit.messages import Message
from rightfit.physics import money
from rightfit.physics.money import Ownership, YearlyCost
from rightfit.records import dataclass
from rightfit.units import HOURS_PER_YEAR

MODULES_PER_SERVER = 8
# What a user may set, besides the habits in facts/data/ownership.csv: the price
# of the whole server.
PRICE = "capex_usd"


@dataclass(frozen=True, slots=True)
class Default:
    """One habit or price of owning with its range and source."""

    name: str
    value: float
    unit: str
    low: float
    high: float
    source: str
    en: str
    zh: str


@dataclass(frozen=True, slots=True)
class OwnServer:
    """A server that can be bought. `values`: every assumption by name; `given`: those that the user
    set; `is_part`: cards that are only sold on boards of eight, of which fewer are wanted, so that
    the figures are the share of a whole server."""

    accelerator: str
    num_cards: int
    capex_low_usd: float
    capex_high_usd: float
    full_w: float
    is_part: bool
    price_source: str
    values: Mapping[str, float]
    given: frozenset[str]

    @property
    def utilisation(self) -> float:
        """Share of all hours in which it works."""
        return self.values["utilisation"]

    def ownership(self, *, capex_usd: float | None = None) -> Ownership:
        """As columns for physics, one row; `capex_usd` in place of the price."""
        numbers = {**self.values, "full_w": self.full_w, "idle_w": self.full_w * self.values["idle_power_share"]}
        numbers |= {} if capex_usd is None else {PRICE: capex_usd}
        return Ownership(**{field.name: np.array([numbers[field.name]]) for field in dataclasses.fields(Ownership)})

    def cost(self, *, capex_usd: float | None = None) -> YearlyCost:
        """What it costs in a year."""
        return money.yearly_cost(self.ownership(capex_usd=capex_usd))

    @property
    def usd_per_busy_h(self) -> float:
        """An hour of work at the assumed utilisation."""
        return float(money.usd_per_busy_h(self.cost(), utilisation=np.array([self.utilisation]))[0])

    def break_even(self, rent_usd_per_h: float) -> tuple[float, float, float]:
        """Share of all hours from which it is cheaper than renting, for the middle, the low and the
        high price of the server."""
        rent = np.array([rent_usd_per_h])
        prices = (None, self.capex_low_usd, self.capex_high_usd)
        mid, low, high = (float(money.break_even_utilisation(self.cost(capex_usd=price), rent_usd_per_h=rent)[0]) for price in prices)
        return mid, low, high

    def payback_years(self, rent_usd_per_h: float) -> float:
        """Years after which the rent saved has paid for it at the assumed utilisation."""
        arrays = {"rent_usd_per_h": np.array([rent_usd_per_h]), "utilisation": np.array([self.utilisation])}
        return float(money.payback_years(self.ownership(), self.cost(), **arrays)[0])

    def yearly_terms(self) -> dict[str, float]:
        """The year's bill at the assumed utilisation by what it is for [USD]."""
        cost = self.cost()
        busy = cost.power_usd_per_busy_h * HOURS_PER_YEAR * self.utilisation
        names = ("purchase_usd", "interest_usd", "space_usd", "maintenance_usd", "staff_usd")
        return {**{name: float(getattr(cost, name)[0]) for name in names}, "power_usd": float((cost.idle_power_usd + busy)[0])}


@functools.cache
def _rows() -> Mapping[tuple[str, str], Default]:
    numbers = ("value", "low", "high")
    rows = facts.table("ownership")
    return {
        (row["kind"], row["name"]): Default(
            **{field.name: float(row[field.name]) if field.name in numbers else row[field.name] for field in dataclasses.fields(Default)}  # type: ignore[arg-type]
        )
        for row in rows
    }


def defaults() -> Mapping[str, Default]:
    """Every habit of owning by name."""
    return {name: row for (kind, name), row in _rows().items() if kind == "default"}


#: Where a server of one's own may stand, beside a server room.
PLACES = ("home", "office", "colocation")


def habits_of(place: str) -> Mapping[str, Default]:
    """The habits of owning that differ at a place from those of a server room, by name."""
    return {name: row for (kind, name), row in _rows().items() if place and kind == place}


def own_server(accelerator: str, num_cards: int, given: Mapping[str, Any] | None = None, *, place: str = "") -> OwnServer:
    """A server with so many cards; `given` overrides defaults by name, or `capex_usd` the price of
    the whole server. `place`: of PLACES, or a server room.

    Raises InputError where nobody sells the card, or no price of it is known and none is given.
    """
    if num_cards < 1:
        raise QuantityError(Message("estimate.count_not_possible", number=num_cards), field="count")
    chosen = read_overrides(given or {})
    values = {name: row.value for name, row in {**defaults(), **habits_of(place)}.items()} | chosen
    record = facts.accelerator(accelerator)
    price = _price(record.name, record.equivalent_to, num_cards, values, own_price=chosen.get(PRICE))
    if not record.tdp_w:
        raise InputError(Message("estimate.no_power", card=record.name), field="gpu")
    full_w = num_cards * record.tdp_w * (1.0 + values["host_power_share"]) + values["host_power_w"] * price.hosts
    return OwnServer(
        accelerator=record.name,
        num_cards=num_cards,
        capex_low_usd=price.low,
        capex_high_usd=price.high,
        full_w=full_w,
        is_part=price.is_part,
        price_source=price.source,
        values={**values, PRICE: price.usd, "servers_per_administrator": values["servers_per_administrator"] / price.hosts},
        given=frozenset(chosen),
    )


@dataclass(frozen=True, slots=True)
class _Price:
    usd: float
    low: float
    high: float
    hosts: float  # whole servers: a fraction for a part of one
    is_part: bool
    source: str


def _price(name: str, equivalent: str, num_cards: int, values: Mapping[str, float], *, own_price: float | None) -> _Price:
    """Price of a server: given by the user, a known server with eight modules in proportion, or
    cards in a host of their own."""
    for known in (name, equivalent):
        if own_price is None and ("server", known) in _rows():
            row, share = _rows()["server", known], num_cards / MODULES_PER_SERVER
            return _Price(row.value * share, row.low * share, row.high * share, share, num_cards % MODULES_PER_SERVER != 0, row.source)
        if own_price is None and ("card", known) in _rows():
            row, hosts = _rows()["card", known], math.ceil(num_cards / MODULES_PER_SERVER)
            host = values["small_host_usd"] * (0.5 * hosts + 0.5 * num_cards / values["small_host_cards"])
            usd, low, high = (host + num_cards * price for price in (row.value, row.low, row.high))
            return _Price(usd, low, high, hosts, False, row.source)
    if own_price is not None:
        hosts = math.ceil(num_cards / MODULES_PER_SERVER)
        return _Price(own_price, own_price, own_price, hosts, False, "given")
    raise UnknownNameError("price of a server with", name, allowed=Message("names.not_sold"), field="price")


def card_prices() -> dict[str, float]:
    """Price of each card that is sold alone [USD]."""
    return {name: row.value for (kind, name), row in _rows().items() if kind == "card"}


def can_be_bought(accelerator: str) -> bool:
    """Whether a purchase price of the card is known."""
    return any((kind, accelerator) in _rows() for kind in ("server", "card"))


def read_overrides(given: Mapping[str, Any]) -> dict[str, float]:
    """The user's own figures, checked: a known name, a number, not absurd."""
    known, found = defaults(), {}
    for name, value in given.items():
        if name != PRICE and name not in known:
            raise UnknownNameError(
                "figure of owning", name, allowed=Message("names.known_words", names=", ".join((PRICE, *known))), field=name
            )
        found[name] = _checked(name, value)
    return found


def _checked(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise QuantityError(Message("estimate.not_a_number", option=name, value=repr(value)), field=name)
    row = defaults().get(name)
    if value < 0 or (value == 0 and name in _NEVER_ZERO):
        raise QuantityError(
            Message(
                "estimate.value_not_possible",
                option=name,
                value=f"{value:g}",
                why=_usual(row) if row else Message("estimate.positive_price"),
            ),
            field=name,
        )
    if row is not None and row.unit.startswith("share") and value > 1:
        raise QuantityError(Message("estimate.more_than_everything", option=name, value=f"{value:g}", share=f"{row.value:g}"), field=name)
    if name == "pue" and row is not None and value < 1:
        raise QuantityError(
            Message("estimate.pue_below_one", value=f"{value:g}", why=Message("estimate.ratio", low=row.low, high=row.high)),
            field=name,
        )
    return float(value)


def _usual(row: Default) -> Message:
    """What a figure usually is, with its unit."""
    unit = "".join(letter if letter.isalnum() else "_" for letter in row.unit.lower())
    return Message(f"estimate.usual_{unit}", low=row.low, high=row.high)


_NEVER_ZERO = frozenset({PRICE, "years", "servers_per_administrator", "utilisation", "small_host_cards", "pue"})
