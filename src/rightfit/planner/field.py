"""Everything feasible that one search found, as arrays: the points of a chart of cost against time, one for each offer at its best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rightfit.catalog.offers import PURCHASES
from rightfit.physics.columns import Array
from rightfit.planner.plan import search
from rightfit.records import dataclass
from rightfit.search.found import Found
from rightfit.search.objective import pareto_front
from rightfit.search.rank import score_of

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload

Index = NDArray[np.intp]
MOST_POINTS = 4000


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """Feasible offers (server x region x way to pay), each with the number of servers that suits the objective best, and also with any
    other number that
    nothing beats; row i of every column is one.

    `nodes` [servers], `hourly_usd` [USD/h, all servers], `total_usd` [USD; a month's for a service], `total_s` [s; of a request for a
    service].
    `is_front`: nothing beats it in both money and time. `num_feasible`: how many there were before the least promising were left out.
    """

    provider: tuple[str, ...]
    instance_type: tuple[str, ...]
    region: tuple[str, ...]
    purchase: tuple[str, ...]
    accelerator: tuple[str, ...]
    accelerators_per_node: Array
    nodes: Array
    hourly_usd: Array
    total_usd: Array
    total_s: Array
    is_front: NDArray[np.bool_]
    num_feasible: int

    def __len__(self) -> int:
        return len(self.provider)


def market_field(workload: Workload, *, catalog: Catalog | None = None, most: int = MOST_POINTS) -> Field:
    """Every feasible offer for a workload, at most `most`: then each server and way to pay at its cheapest place first. Figures are those
    of the search;
    the ranked options of a plan are worked out further."""
    found = search(workload, catalog=catalog)
    offer, column = _best_columns(found)
    kept = _most_telling(found, offer, column, most=most)
    return _field(found, offer[kept], column[kept], num_feasible=offer.shape[0])


def _best_columns(exploration: Found) -> tuple[Index, Index]:
    """Of each offer the column of the best score, and every row that nothing beats in both money and time."""
    feasible = exploration.bits == 0
    offer, column = np.nonzero(feasible)
    if offer.shape[0] == 0:
        return offer, column
    score = np.full(feasible.shape, np.inf)
    score[offer, column] = score_of(exploration, offer, column)
    rows = np.flatnonzero(feasible.any(axis=1))
    chosen = np.zeros(feasible.shape, dtype=np.bool_)
    chosen[rows, np.argmin(score[rows], axis=1)] = True
    front = pareto_front(exploration.bill.total_usd[offer, column], exploration.bill.total_s[offer, column])
    chosen[offer[front], column[front]] = True
    kept = np.nonzero(chosen)
    return kept[0].astype(np.intp), kept[1].astype(np.intp)


def _most_telling(exploration: Found, offer: Index, column: Index, *, most: int) -> Index:
    """Positions of at most `most` rows: the cheapest place of each server and way to pay, then the cheapest of the rest."""
    if offer.shape[0] <= most:
        return np.arange(offer.shape[0], dtype=np.intp)
    usd, offers = exploration.bill.total_usd[offer, column], exploration.market.offers
    order = np.argsort(usd, kind="stable")
    kind = offers.server_index[offer[order]].astype(np.intp) * len(PURCHASES) + offers.purchase_index[offer[order]]
    first = np.zeros(order.shape[0], dtype=np.bool_)
    first[np.unique(kind, return_index=True)[1]] = True
    first |= np.isin(order, pareto_front(usd, exploration.bill.total_s[offer, column]))
    return np.sort(np.concatenate([order[first], order[~first]])[:most])


def _field(exploration: Found, offer: Index, column: Index, *, num_feasible: int) -> Field:
    offers, servers = exploration.market.offers, exploration.market.offers.servers
    rows = offers.server_index[offer]
    nodes = np.array([exploration.nodes(at) for at in zip(offer.tolist(), column.tolist(), strict=True)], dtype=np.float64)
    usd, seconds = exploration.bill.total_usd[offer, column], exploration.bill.total_s[offer, column]
    is_front = np.zeros(offer.shape[0], dtype=np.bool_)
    if offer.shape[0]:
        is_front[pareto_front(usd, seconds)] = True
    return Field(
        provider=tuple(servers.provider[row] for row in rows.tolist()),
        instance_type=tuple(servers.instance_type[row] for row in rows.tolist()),
        region=tuple(offers.regions[row] for row in offers.region_index[offer].tolist()),
        purchase=tuple(PURCHASES[code] for code in offers.purchase_index[offer].tolist()),
        accelerator=tuple(servers.accelerator_name[row] for row in rows.tolist()),
        accelerators_per_node=servers.num_accelerators[rows],
        nodes=nodes,
        hourly_usd=offers.price_usd_per_h[offer] * nodes,
        total_usd=usd,
        total_s=seconds,
        is_front=is_front,
        num_feasible=num_feasible,
    )
