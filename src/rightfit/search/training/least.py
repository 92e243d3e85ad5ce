"""Where no set-up fits a server: what the one that needs least memory would take, as if it did."""

from __future__ import annotations

import dataclasses

import numpy as np

from rightfit.search.sources import moved_usd
from rightfit.search.training.evaluate import memory_of, work_steps
from rightfit.search.training.explore import by_server, path_of, price
from rightfit.search.training.found import Exploration


def with_least_memory(exploration: Exploration) -> Exploration:
    """Where no setup fits: the search as if the one that needs least memory did, to say how much that is and how long it would take."""
    space, machines = exploration.space, exploration.fleet.machines
    need = memory_of(space.setups, exploration.base, machines, exploration.engine)
    if not space.setups.num_rows:
        return exploration
    over = np.maximum(
        need.safe_bytes[0], exploration.best.capacity_bytes[0]
    )  # what fits the accelerators is equally good: then the host decides
    chosen = int(np.lexsort((np.arange(space.setups.num_rows), need.host_bytes, over))[0])
    setup = space.setups.take(np.array([chosen]))
    _, step = exploration.engine.details(setup.columns(exploration.base), machines.device.take(np.zeros(1, dtype=np.intp)), machines.links)
    run_s = step.step_s[:1] * work_steps(setup, tokens=exploration.wish.amount.tokens, seq_len=exploration.wish.seq_len)
    best = dataclasses.replace(
        exploration.best,
        run_s=np.full_like(exploration.best.run_s, run_s[0]),
        setup=np.full_like(exploration.best.setup, chosen),
        tiers=np.array([np.inf]),
    )
    best = dataclasses.replace(best, run_s=best.run_s[:, :, :1], setup=best.setup[:, :, :1], tiers=np.zeros(1))
    times, _ = by_server(best, exploration.fleet, exploration.market.offers.servers.memory_bytes)
    node_counts = space.limits.node_counts
    path = path_of(
        exploration.craft.load(exploration.wish, exploration.volume),
        exploration.market,
        times,
        needed_memory_bytes=np.full((1, 1), np.inf),
        node_counts=node_counts,
    )
    moved = moved_usd(exploration.wanted.source, exploration.market.offers, exploration.volume)
    return dataclasses.replace(
        exploration, best=best, path=path, bill=price(exploration.market, exploration.volume, path, moved=moved, node_counts=node_counts)
    )
