"""The family of tables: classical machine learning and data preparation, on processors and on libraries of GPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rightfit.families.tables.explore import HostExploration, explore, explore_host, folding_groups
from rightfit.families.tables.options import build_host_options
from rightfit.families.tables.reasons import host_advice, with_host_reasons
from rightfit.families.tables.wish import read_host_wish
from rightfit.search.answer import Assumption, Counts, Option, Section
from rightfit.search.constraints import assumed_purchases, read_wanted
from rightfit.search.family import Beside, Family, Given
from rightfit.search.money_parts import money_parts
from rightfit.search.offers import Market, whole_market
from rightfit.search.rank import Ranking, Row, cheapest_row, rank

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload


def host_assumptions(exploration: HostExploration) -> tuple[Assumption, ...]:
    """Defaults taken while reading the workload, and those of the market."""
    return (*exploration.wish.assumptions, *assumed_purchases(exploration.workload))


def host_counts(exploration: HostExploration) -> Counts:
    """How much was looked at."""
    rows = len(exploration.market.offers) * exploration.bits.shape[1]
    able = exploration.work.able
    return Counts(
        candidates=int(exploration.work.fits.size),
        timed=int(exploration.work.fits.sum()),
        offers=len(exploration.market.offers),
        servers=int(able.sum()),
        covered=rows,
    )


def host_money(exploration: HostExploration, option: Option, row: Row, catalog: Catalog) -> tuple[Section, ...]:
    """How to buy the servers of the job, and its bill."""
    one = every_offer(exploration, option, row, catalog) if len(exploration.columns) > 1 else None
    return money_parts(
        catalog,
        exploration.market,
        exploration.bill,
        option,
        (row.offer, row.node),
        volume=exploration.volume,
        office_h=exploration.wish.workload.office_hours,
        alone=(one.market, one.bill) if one else None,
    )


def every_offer(exploration: HostExploration, option: Option, row: Row, catalog: Catalog) -> HostExploration:
    """The search on every offer of an option's server: where many numbers of servers were looked at, it took the cheapest places only."""
    market = whole_market(catalog)
    rows = np.flatnonzero(market.offers.server_index == exploration.market.offers.server_index[row.offer])
    return explore(exploration.wish, market.take(rows), exploration.wanted, node_counts=(option.nodes,))


def confirm(exploration: HostExploration, top: int) -> tuple[HostExploration, Ranking]:
    """The search as it is. Sizes of servers are options of their own here: for processors the size is the choice."""
    return exploration, rank(exploration, top=top, folding=folding_groups)


def given_servers(workload: Workload, market: Market, nodes: int, catalog: Catalog) -> Given[HostExploration]:
    """The job on so many servers of one type; where it does not fit, as if it did."""
    wanted, wish = dataclasses.replace(read_wanted(workload, catalog), any_software=True), read_host_wish(workload)
    found = explore(wish, market, wanted, node_counts=(nodes,), any_server=True)
    fits = bool(found.work.fits.any())
    if not fits:
        found = explore(wish, market, wanted, node_counts=(nodes,), any_server=True, as_if=True)
    at = cheapest_row(found) or Row(int(np.nanargmin(np.nan_to_num(market.offers.price_usd_per_h, nan=np.inf))), 0)
    advice = () if fits else host_advice(found, ())
    return Given(found, found, at if found.work.able.any() else None, fits, (at.offer, at.node), advice)


def beside(exploration: HostExploration, options: tuple[Option, ...], _rows: Sequence[Row], _catalog: Catalog) -> Beside:
    """Advice."""
    return Beside(host_advice(exploration, options))


FAMILY = Family(
    name="tables",
    explore=explore_host,
    confirm=confirm,
    options=lambda exploration, rows, _num_full: build_host_options(exploration, rows),
    reasons=with_host_reasons,
    assumptions=host_assumptions,
    counts=host_counts,
    given=given_servers,
    beside=beside,
    money=host_money,
)
