"""A machine that one has already: its cards as a server of the catalog, at what an hour of its electricity costs; what it was bought for is spent."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import numpy as np

from rightfit import facts
from rightfit.errors import InputError
from rightfit.messages import Message
from rightfit.records import dataclass
from rightfit.search.ownership import read_place
from rightfit.workload.cards import read_cards

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.catalog.offers import OfferTable
    from rightfit.catalog.priced import PricedCatalog


@dataclass(frozen=True, slots=True)
class Machine:
    """`count` cards of one name in one machine, and where it stands (empty: a server room)."""

    gpu: str
    count: int
    place: str

    @property
    def name(self) -> str:
        """As an instance type."""
        return f"{self.count}x-{self.gpu}" + (f"-{self.place}" if self.place else "")


def read_machine(text: str) -> Machine:
    """ "2x RTX-3090@home", "RTX-4090", "4 A100-SXM-80GB@office". Raises InputError, with the nearest cards."""
    said = read_cards(text)
    if said is None:
        raise InputError(Message("search.have_unread", text=text), field="have")
    count, gpu, place = said
    if not count:
        raise InputError(Message("search.have_none", text=text), field="have")
    found = facts.named_accelerators(gpu, field="have")
    name = max(found, key=lambda one: (one.casefold() == gpu.casefold(), facts.accelerators()[one].memory_bytes))
    return Machine(name, count, read_place(place))


def with_machine(
    catalog: Catalog, machine: Machine, *, as_of: str = "", alone: bool = False, usd_per_h: float | None = None
) -> PricedCatalog:
    """The catalog with the machine in it, as an owned server of the provider `private`; host memory and processors as such machines usually have.
    `alone`: and no other offer, where nothing else is asked for; `usd_per_h`: what an hour of it counts as [USD], its electricity where none is given."""
    from rightfit.catalog.price_book import Owned, PriceBook
    from rightfit.catalog.priced import PricedCatalog

    class Alone(PricedCatalog):
        """Its added offers only."""

        def all_offers(self, *, has_accelerator: bool | None = None) -> OfferTable:
            """The offers of the machine."""
            table = super().all_offers(has_accelerator=has_accelerator)
            mine = np.array([provider == "private" for provider in table.servers.provider], dtype=np.bool_)
            return table.take(np.flatnonzero(mine[table.server_index]))

    usual = facts.coefficients("planning")
    entry = Owned(
        name=machine.name,
        gpu=machine.gpu,
        gpus=machine.count,
        vcpus=int(usual["own_vcpus_per_card"]) * machine.count,
        memory=float(usual["own_host_bytes_per_card"]) * machine.count,
        site=machine.place or "private",
        servers=1,
    )
    date = as_of or datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    book = PriceBook("own machine", date, "usd", {}, {}, (entry,))
    kind = Alone if alone else PricedCatalog
    return kind(catalog, book, own_usd_per_h={machine.name: electricity_usd_per_h(machine) if usd_per_h is None else usd_per_h})


def electricity_usd_per_h(machine: Machine) -> float:
    """Electricity of an hour of work on a machine [USD], at the price and with the cooling of the place."""
    from rightfit.estimate.ownership import own_server

    try:
        return float(own_server(machine.gpu, machine.count, place=machine.place).cost().power_usd_per_busy_h[0])
    except InputError:  # no price of the card is known; electricity needs none
        return float(own_server(machine.gpu, machine.count, {"capex_usd": 1.0}, place=machine.place).cost().power_usd_per_busy_h[0])
