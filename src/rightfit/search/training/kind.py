"""What both families of training tell the frame: they differ in their craft alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rightfit.errors import UnavailableError
from rightfit.messages import Message
from rightfit.search.answer import Assumption, Counts, Option, Reason, Section
from rightfit.search.constraints import assumed_purchases, read_wanted
from rightfit.search.family import Beside, Family, Given
from rightfit.search.grounds import with_reasons
from rightfit.search.money_parts import money_parts
from rightfit.search.offers import Market, open_market
from rightfit.search.rank import Row, cheapest_row
from rightfit.search.software import listed_stacks
from rightfit.search.training.advice import advise
from rightfit.search.training.explore import explore
from rightfit.search.training.found import Craft, Exploration
from rightfit.search.training.least import with_least_memory
from rightfit.search.training.options import build_options
from rightfit.search.training.room import room_sections

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload

More = Callable[[Exploration, Option | None], Iterable[Reason]]


def training_family(name: str, craft: Craft, *, more: More = lambda *_: ()) -> Family[Exploration]:
    """The family of a craft; `more`: advice that only it knows."""

    def search(workload: Workload, catalog: Catalog) -> Exploration:
        return explore(craft.read(workload), open_market(catalog), read_wanted(workload, catalog), craft)

    def beside(exploration: Exploration, options: tuple[Option, ...], _rows: Sequence[Row], _catalog: Catalog) -> Beside:
        return Beside(advise(exploration, options, more(exploration, options[0] if options else None)))

    def given(workload: Workload, market: Market, nodes: int, catalog: Catalog) -> Given[Exploration]:
        return given_servers(craft, workload, market, nodes, catalog)

    return Family(
        name=name,
        explore=search,
        options=build_options,
        reasons=with_reasons,
        assumptions=assumptions,
        counts=counts,
        given=given,
        beside=beside,
        money=training_money,
        room=room_sections,
    )


def training_money(exploration: Exploration, option: Option, row: Row, catalog: Catalog) -> tuple[Section, ...]:
    """How to buy the servers, and every line of the bill."""
    at, office_h = (row.offer, row.node), exploration.wish.workload.office_hours
    return money_parts(catalog, exploration.market, exploration.bill, option, at, volume=exploration.volume, office_h=office_h)


def given_servers(craft: Craft, workload: Workload, market: Market, nodes: int, catalog: Catalog) -> Given[Exploration]:
    """The job on so many servers of one type; where no set-up fits, as if the one that needs least memory did."""
    servers = market.offers.servers
    if not servers.accelerator_name[0]:
        raise UnavailableError(Message("search.training_without_card", server=f"{servers.provider[0]}/{servers.instance_type[0]}"))
    wanted = dataclasses.replace(read_wanted(workload, catalog), any_software=True)
    found = explore(craft.read(workload), market, wanted, craft, node_counts=(nodes,))
    fits = bool(np.isfinite(found.bill.total_s).any())
    shown = found if fits or found.missing(0) else with_least_memory(found)
    at = cheapest_row(shown)
    return Given(found, shown, at, fits, (at.offer, at.node) if at else (0, 0))


def assumptions(exploration: Exploration) -> tuple[Assumption, ...]:
    """Defaults taken while reading the workload, and those of the market."""
    taken = [*exploration.wish.assumptions, *assumed_purchases(exploration.workload)]
    if not exploration.wanted.gpus and not exploration.wanted.any_software:
        value = listed_stacks()
        taken.append(Assumption("gpu", value, Reason("assumed_software", {"value": value})))
    if not exploration.wish.workload.precision:
        value = ", ".join(dict.fromkeys(variant.precision for variant in exploration.fleet.machines.variants))
        taken.append(Assumption("precision", value, Reason("assumed_precision", {"value": value})))
    return tuple(taken)


def counts(exploration: Exploration) -> Counts:
    """How much was looked at."""
    offers, space, machines = exploration.market.offers, exploration.space, exploration.fleet.machines
    server = exploration.fleet.machine_index[offers.server_index]
    block = space.block(machines.variant, machines.gpus_per_node)
    per_machine = space.counts[block]
    return Counts(
        candidates=exploration.best.num_candidates,
        timed=exploration.best.num_timed,
        offers=len(offers),
        servers=int((exploration.fleet.machine_index >= 0).sum()),
        covered=int(per_machine[server[server >= 0]].sum()),
    )
