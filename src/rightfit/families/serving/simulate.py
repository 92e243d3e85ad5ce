"""`--simulate`: the shown options played through by the discrete-event simulation, beside the percentiles of the queue model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.errors import ContradictionError, QuantityError
from rightfit.messages import Message
from rightfit.physics.replicas import ReplicaColumns
from rightfit.search.answer import Option
from rightfit.search.service.replicas import replica_columns
from rightfit.search.service.wish import ServingWish

if TYPE_CHECKING:
    from rightfit.estimate.simulate import Simulated
    from rightfit.search.service.found import ServingExploration

SEED = 0
FIRST_REQUESTS = 20_000
MOST_REQUESTS = 160_000
CLOSED_REQUESTS_PER_USER = 200
#: Half of the relative difference of the 99th percentile of first tokens between the two halves of a run that counts as stable.
STABLE = 0.03


def refuse_simulation(wish: ServingWish) -> None:
    """What cannot be simulated is said before the search: batch jobs and models of one forward pass have no continuous batching under
    load."""
    if wish.is_batch:
        raise ContradictionError(Message("families.simulate_batch"), field="simulate")
    if not wish.generates:
        raise ContradictionError(
            Message("families.simulate_one_pass", model=wish.workload.model),
            field="simulate",
        )


def with_simulation(exploration: ServingExploration, options: Sequence[Option], candidates: Sequence[int]) -> tuple[Option, ...]:
    """The options with what the simulation gave in `facts["simulated"]`; equal replicas under equal load are simulated once."""
    if not options:
        return ()
    from rightfit.search.service.refine import groups_of

    group = groups_of(exploration)
    known: dict[tuple[int, int], dict[str, Any]] = {}
    out = []
    for option, row in zip(options, candidates, strict=True):
        key = (int(group[row]), option.layout.data)
        if key not in known:
            columns = replica_columns(exploration.space.take(np.array([row], dtype=np.intp)))
            known[key] = simulated_figures(exploration.wish, columns, replicas=option.layout.data)
        out.append(dataclasses.replace(option, facts={**option.facts, "simulated": known[key]}))
    return tuple(out)


def simulated_figures(wish: ServingWish, columns: ReplicaColumns, *, replicas: int) -> dict[str, Any]:
    """Percentiles [s] by the names of the estimate, with how they came about; {"error": ...} where a request alone is too large for a
    replica."""
    try:
        if wish.load is not None and wish.load.trace is not None:
            return _of_trace(wish, columns, replicas=replicas)
        if wish.rate_per_s:
            return _of_rate(wish, columns, replicas=replicas)
        return _of_users(wish, columns, replicas=replicas)
    except QuantityError as error:
        return {"error": str(error)}


def _of_trace(wish: ServingWish, columns: ReplicaColumns, *, replicas: int) -> dict[str, Any]:
    """The trace itself on all replicas, dealt out in turn; nothing is left out at its beginning."""
    from rightfit.estimate.simulate import simulate

    trace = wish.load.traced() if wish.load is not None else None
    assert trace is not None
    run = simulate(columns, trace, num_replicas=replicas, seed=SEED, warm_up=0.0)
    return _figures(run, requests=len(trace), replicas=replicas, arrivals="trace")


def _of_rate(wish: ServingWish, columns: ReplicaColumns, *, replicas: int) -> dict[str, Any]:
    """One replica with its share of a Poisson load; twice as many requests until the 99th percentile stands still."""
    from rightfit.estimate.simulate import simulate

    assert wish.load is not None
    count = FIRST_REQUESTS
    while True:
        drawn = wish.load.requests(count, rate_per_s=wish.rate_per_s / replicas, seed=SEED)
        run = simulate(columns, drawn, seed=SEED)
        if count >= MOST_REQUESTS or halves_differ(run) <= STABLE:
            return _figures(run, requests=count, replicas=1, arrivals="poisson")
        count *= 2


def _of_users(wish: ServingWish, columns: ReplicaColumns, *, replicas: int) -> dict[str, Any]:
    """One replica with its share of users, each sending the next request when the last is answered."""
    from rightfit.estimate.simulate import simulate_closed

    assert wish.load is not None
    users = max(math.ceil(wish.users / replicas), 1)
    count = int(np.clip(users * CLOSED_REQUESTS_PER_USER, 2_000, 40_000))
    drawn = wish.load.requests(count, rate_per_s=1.0, seed=SEED)
    run = simulate_closed(columns, drawn, users=users)
    return _figures(run, requests=count, replicas=1, arrivals="closed")


def halves_differ(run: Simulated) -> float:
    """Half of the relative difference of the 99th percentile of first tokens between the two halves of a run."""
    middle = run.ttft_s.size // 2
    first, second = (float(np.percentile(part, 99)) for part in (run.ttft_s[:middle], run.ttft_s[middle:]))
    return abs(first - second) / max(first + second, 1e-12)


def _figures(run: Simulated, *, requests: int, replicas: int, arrivals: str) -> dict[str, Any]:
    values = {
        f"{name}_p{share}_s": getattr(getattr(run, name), f"p{share}") for name in ("ttft", "tpot", "latency") for share in (50, 95, 99)
    }
    known = {"requests": requests, "replicas": replicas, "arrivals": arrivals, "seed": SEED, "saturated": run.saturated}
    return {**values, **known, "requests_per_s": run.requests_per_s, "busy": run.busy, "p99_noise": halves_differ(run)}
