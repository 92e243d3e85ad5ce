"""One given server type under a service or a batch job: what so many of them do."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array
from rightfit.search.criteria import CRITERIA
from rightfit.search.family import Given
from rightfit.search.rank import Row, first_row
from rightfit.search.refusals import nearest_to_passing
from rightfit.search.service.batch import judged_batch
from rightfit.search.service.found import Confirmed, Queued, ServingExploration
from rightfit.search.service.grid import at_load
from rightfit.search.service.refine import queued, refined
from rightfit.search.service.replicas import replica_columns
from rightfit.search.service.sizing import rejudged, replicas_needed, share_of_load

#: Candidates that are tried by the queue model before the one of the search is taken.
MOST_TRIED = 4


def given_servers(exploration: ServingExploration, nodes: int) -> Given[ServingExploration]:
    """The service or the batch job on `nodes` servers of the one type of the market, with the stack that serves it best there; where they
    are too few,
    as many as would do. A filter or a budget that the server fails does not take the answer away: the server was given."""
    exploration = on_servers(exploration, nodes)
    at = cheapest(exploration)
    fits = at is not None and exploration.nodes((at.offer, at.node)) <= nodes
    failing = (at.offer, at.node) if at is not None else nearest_to_passing(exploration, np.arange(len(exploration.market.offers)))
    return Given(exploration, exploration, at, fits, failing)


def cheapest(exploration: ServingExploration) -> Row | None:
    """The cheapest offer within the user's filters, else of all that are enough, else of all that would be with more servers."""
    known = np.isfinite(exploration.bill.total_s)
    over = np.left_shift(1, CRITERIA.index("max_nodes"))
    for mask in ((exploration.bits == 0) & known, (exploration.bits & over == 0) & known, (exploration.bits & ~over == 0) & known, known):
        if (row := first_row(exploration, mask)) is not None:
            return row
    return None


def on_servers(exploration: ServingExploration, nodes: int) -> ServingExploration:
    """The search with exactly so many servers; where those are too few, with as many as are needed, which then breaks the limit of
    servers."""
    wanted = dataclasses.replace(exploration.wanted, any_software=True, max_nodes=nodes)
    if exploration.wish.is_batch:
        judged = judged_batch(
            exploration.wish, wanted, exploration.market, exploration.fleet, exploration.space, exploration.grid, node_counts=(nodes,)
        )
        return dataclasses.replace(judged, passes=exploration.passes, times=exploration.times)
    exploration, _ = refined(exploration, top=1)
    exploration = _with_fixed(exploration, nodes)
    return rejudged(exploration, exploration.sizing, filters=wanted)


def _with_fixed(exploration: ServingExploration, nodes: int) -> ServingExploration:
    """Each (class, format) sized for `nodes` servers where a candidate carries the load on them: the one with the least latency."""
    row, replicas, servers, latency = (getattr(exploration.sizing, name).copy() for name in ("row", "replicas", "servers", "latency_s"))
    confirmed: dict[int, Queued] = dict(exploration.confirmed.kept)
    for machine, column in np.argwhere(row >= 0).tolist():
        best = _best_on(exploration, np.flatnonzero((exploration.space.machine == machine) & (exploration.column == column)), nodes)
        if best is None:
            continue
        at, count, seconds, known = best
        row[machine, column], replicas[machine, column], servers[machine, column], latency[machine, column] = at, count, nodes, seconds
        if known is not None:
            confirmed[at] = known
    sizing = dataclasses.replace(exploration.sizing, row=row, replicas=replicas, servers=servers, latency_s=latency)
    return dataclasses.replace(exploration, sizing=sizing, confirmed=Confirmed(confirmed, exploration.confirmed.dropped))


def _best_on(exploration: ServingExploration, rows: NDArray[np.intp], nodes: int) -> tuple[int, float, float, Queued | None] | None:
    """The candidate with the least latency on so many servers: its row, replicas, latency, and the queue model's figures where it speaks of
    it."""
    space, wish = exploration.space, exploration.wish
    per_group = np.maximum(exploration.fleet.gpus_per_node[space.machine[rows]] // np.maximum(space.tensor[rows], 1), 1)
    replicas = (nodes // space.nodes[rows] * per_group).astype(np.float64)
    taken = exploration.fleet.taken
    if taken.shape[0]:
        replicas = np.maximum(replicas - np.ceil(taken[space.machine[rows]] / np.maximum(space.tensor[rows], 1)), 0.0)
    needed = replicas_needed(wish, exploration.capacity)[rows]
    usable = np.flatnonzero((replicas > 0) & (needed <= replicas))
    if not usable.shape[0]:
        return None
    rows, replicas = rows[usable], replicas[usable]
    part = exploration.grid.take(rows)
    latency: Array = at_load(part, part.latency_s, **share_of_load(wish, replicas))
    order = np.argsort(latency, kind="stable")
    if not (wish.generates and wish.rate_per_s and wish.load is not None):
        at = int(order[0])
        return int(rows[at]), float(replicas[at]), float(latency[at]), None
    for at in order[:MOST_TRIED].tolist():
        known = queued(wish, replica_columns(space.take(rows[at : at + 1])), replicas=float(replicas[at]))
        if known.excess <= 1.0:
            return int(rows[at]), float(replicas[at]), known.values[f"latency_s@{wish.limits.percentile:g}"], known
    return None
