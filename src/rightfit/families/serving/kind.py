"""The family of services of language models: online, and batches worked off."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit.errors import ContradictionError, QuantityError
from rightfit.estimation.serving import serving_rates
from rightfit.families.serving.explore import explore, freed_formats, quantisation_advice, wider_share
from rightfit.messages import Message
from rightfit.physics import serving_columns
from rightfit.physics.columns import Array
from rightfit.physics.queueing import ReplicaColumns
from rightfit.records import dataclass
from rightfit.search.answer import Option, Reason, Section
from rightfit.search.family import Beside
from rightfit.search.service.economics import economics, server_of
from rightfit.search.service.found import ServingResult
from rightfit.search.service.grid import spread, waiting_s
from rightfit.search.service.kind import service_family
from rightfit.search.service.refine import replica_columns
from rightfit.search.service.wish import ServingRequest, usual

if TYPE_CHECKING:
    from rightfit.estimation.simulate import Simulated
    from rightfit.market import Catalog


# ---- Prompts and answers on servers of their own: n replicas that only treat prompts hand the
# cache over the network to m that only decode.
#
# Zhong et al., DistServe (OSDI 2024); Patel et al., Splitwise (ISCA 2024). Prompts then hold up no
# answers, so that decoding may fill its batch up to the limit of the time per token; the price is
# the transfer of the cache and two pools that each round up to whole servers.

Index = NDArray[np.intp]
LOADS = np.linspace(0.01, 1.0, 100)


@dataclass(frozen=True, slots=True)
class Pools:
    """Rates [1/s] that one replica of each row carries as a prompt server and as a decoding one,
    and the transfer of one request's cache [s]."""

    prompt_per_s: Array
    decode_per_s: Array
    transfer_s: Array


def pools(search_result: ServingResult, rows: Index, *, each: Index) -> Pools:
    """What replicas of these candidates carry within the limits when each does one of the two only;
    `each` of them share a server's network."""
    assert search_result.times is not None
    wish, limits = search_result.wish, search_result.wish.limits
    times, space = search_result.times.take(rows), search_result.space.take(rows)
    rates = serving_rates(space.serve, space.links)
    shape = (rows.shape[0],)
    moved = serving_columns.kv_cache_bytes(space.model, space.serve, tokens=space.serve.input_tokens)
    link = np.broadcast_to(space.links.inter_bandwidth * rates.link_fraction, shape)
    transfer = np.broadcast_to(moved, shape) / link
    service, request = times.prompt_s[:, 0], times.request_s[:, 0]
    share = float(usual()["most_utilisation"])
    wait = waiting_s(np.broadcast_to(LOADS, (*shape, LOADS.size)), service[:, None], percentile=limits.percentile)
    first = (request + service + transfer + times.step_s[:, 0])[:, None] + wait
    kept = (first <= limits.ttft_s) & (LOADS[None, :] <= share)
    prompt_rate = np.where(kept, LOADS[None, :], 0.0).max(axis=1) / service
    prompt_rate = np.minimum(prompt_rate, share / (transfer * each))
    tokens = max(wish.output_tokens - 1, 1)
    slow = times.step_s * spread(times.step_s, times.batch, percentile=limits.percentile) > limits.tpot_s
    decode_rate = np.where(slow, 0.0, times.batch / (tokens * times.step_s)).max(axis=1)
    return Pools(prompt_rate, np.minimum(decode_rate, share * (times.batch / (tokens * times.step_s)).max(axis=1)), transfer)


def disaggregated_section(search_result: ServingResult, option: Option, *, machine: int) -> Section | None:
    """The fewest servers of the option's kind in two pools against those of the option; a statement
    only where they are fewer."""
    wish = search_result.wish
    if search_result.times is None or not wish.rate_per_s or wish.extras or wish.output_tokens < 2 or not option.accelerator.name:
        return None
    space = search_result.space
    format_ = getattr(option.layout, "weight_format", ""), getattr(option.layout, "kv_format", "")
    same = np.array([(stack.format, stack.kv) == format_ for stack in space.stack], dtype=np.bool_)
    rows = np.flatnonzero(same & (space.machine == machine) & (space.nodes == 1) & space.fits)
    if not rows.shape[0]:
        return None
    each = np.maximum(search_result.fleet.gpus_per_node[machine] // space.tensor[rows], 1)
    able = pools(search_result, rows, each=each)
    with np.errstate(divide="ignore"):
        prompt_servers, decode_servers = (
            np.ceil(np.ceil(wish.rate_per_s / rate - 1e-9) / each) for rate in (able.prompt_per_s, able.decode_per_s)
        )
    if not (np.isfinite(prompt_servers.min()) and np.isfinite(decode_servers.min())):
        return None
    first, second = int(np.argmin(prompt_servers)), int(np.argmin(decode_servers))
    content = _content(option, rows, able, (first, second), (int(prompt_servers[first]), int(decode_servers[second])))
    content |= {"prompt_cards": int(space.tensor[rows[first]]), "decode_cards": int(space.tensor[rows[second]])}
    return Section("disaggregated", content, (Reason("serve_disaggregate", content),) if content["saving_usd"] > 0 else ())


def _content(option: Option, rows: Index, able: Pools, cell: tuple[int, int], servers: tuple[int, int]) -> dict[str, Any]:
    monthly = option.cost.total_usd / option.nodes * sum(servers)
    return {
        "prompt_servers": servers[0],
        "decode_servers": servers[1],
        "nodes": option.nodes,
        "prompt_rate_per_s": float(able.prompt_per_s[cell[0]]),
        "decode_rate_per_s": float(able.decode_per_s[cell[1]]),
        "transfer_s": float(able.transfer_s[cell[0]]),
        "monthly_usd": monthly,
        "saving_usd": option.cost.total_usd - monthly,
    }


# ---- `--simulate`: the shown options played through by the discrete-event simulation, beside the
# percentiles of the queue model.

SEED = 0
FIRST_REQUESTS = 20_000
MOST_REQUESTS = 160_000
CLOSED_REQUESTS_PER_USER = 200
#: Half of the relative difference of the 99th percentile of first tokens between the two halves of
#: a run that counts as stable.
STABLE = 0.03


def refuse_simulation(wish: ServingRequest) -> None:
    """What cannot be simulated is said before the search: batch jobs and models of one forward pass
    have no continuous batching under load."""
    if wish.is_batch:
        raise ContradictionError(Message("families.simulate_batch"), field="simulate")
    if not wish.generates:
        raise ContradictionError(
            Message("families.simulate_one_pass", model=wish.workload.model),
            field="simulate",
        )


def with_simulation(search_result: ServingResult, options: Sequence[Option], candidates: Sequence[int]) -> tuple[Option, ...]:
    """The options with what the simulation gave in `facts["simulated"]`; equal replicas under equal
    load are simulated once."""
    if not options:
        return ()
    from rightfit.search.service.refine import groups_of

    group = groups_of(search_result)
    known: dict[tuple[int, int], dict[str, Any]] = {}
    out = []
    for option, row in zip(options, candidates, strict=True):
        key = (int(group[row]), option.layout.data)
        if key not in known:
            columns = replica_columns(search_result.space.take(np.array([row], dtype=np.intp)))
            known[key] = simulated_figures(search_result.wish, columns, replicas=option.layout.data)
        out.append(dataclasses.replace(option, facts={**option.facts, "simulated": known[key]}))
    return tuple(out)


def simulated_figures(wish: ServingRequest, columns: ReplicaColumns, *, replicas: int) -> dict[str, Any]:
    """Percentiles [s] by the names of the estimate, with how they came about; {"error": ...} where
    a request alone is too large for a replica."""
    try:
        if wish.load is not None and wish.load.trace is not None:
            return _of_trace(wish, columns, replicas=replicas)
        if wish.rate_per_s:
            return _of_rate(wish, columns, replicas=replicas)
        return _of_users(wish, columns, replicas=replicas)
    except QuantityError as error:
        return {"error": str(error)}


def _of_trace(wish: ServingRequest, columns: ReplicaColumns, *, replicas: int) -> dict[str, Any]:
    """The trace itself on all replicas, dealt out in turn; nothing is left out at its beginning."""
    from rightfit.estimation.simulate import simulate

    trace = wish.load.traced() if wish.load is not None else None
    assert trace is not None
    run = simulate(columns, trace, num_replicas=replicas, warm_up=0.0)
    return _figures(run, requests=len(trace), replicas=replicas, arrivals="trace")


def _of_rate(wish: ServingRequest, columns: ReplicaColumns, *, replicas: int) -> dict[str, Any]:
    """One replica with its share of a Poisson load; twice as many requests until the 99th
    percentile stands still."""
    from rightfit.estimation.simulate import simulate

    assert wish.load is not None
    count = FIRST_REQUESTS
    while True:
        drawn = wish.load.requests(count, rate_per_s=wish.rate_per_s / replicas, seed=SEED)
        run = simulate(columns, drawn)
        if count >= MOST_REQUESTS or halves_differ(run) <= STABLE:
            return _figures(run, requests=count, replicas=1, arrivals="poisson")
        count *= 2


def _of_users(wish: ServingRequest, columns: ReplicaColumns, *, replicas: int) -> dict[str, Any]:
    """One replica with its share of users, each sending the next request when
    the last is answered."""
    from rightfit.estimation.simulate import simulate_closed

    assert wish.load is not None
    users = max(math.ceil(wish.users / replicas), 1)
    count = int(np.clip(users * CLOSED_REQUESTS_PER_USER, 2_000, 40_000))
    drawn = wish.load.requests(count, rate_per_s=1.0, seed=SEED)
    run = simulate_closed(columns, drawn, users=users)
    return _figures(run, requests=count, replicas=1, arrivals="closed")


def halves_differ(run: Simulated) -> float:
    """Half of the relative difference of the 99th percentile of first tokens between the
    two halves of a run."""
    middle = run.ttft_s.size // 2
    first, second = (float(np.percentile(part, 99)) for part in (run.ttft_s[:middle], run.ttft_s[middle:]))
    return abs(first - second) / max(first + second, 1e-12)


def _figures(run: Simulated, *, requests: int, replicas: int, arrivals: str) -> dict[str, Any]:
    values = {
        f"{name}_p{share}_s": getattr(getattr(run, name), f"p{share}") for name in ("ttft", "tpot", "latency") for share in (50, 95, 99)
    }
    known = {"requests": requests, "replicas": replicas, "arrivals": arrivals, "seed": SEED, "saturated": run.saturated}
    return {**values, **known, "requests_per_s": run.requests_per_s, "busy": run.busy, "p99_noise": halves_differ(run)}


def other_ways(search_result: ServingResult, options: tuple[Option, ...], catalog: Catalog) -> Beside:
    """Weights of fewer bits, an API, serverless, spot, prompts and answers apart."""
    freed = freed_formats(search_result, options, catalog)
    apart = (disaggregated(search_result, options[0]),) if options and not search_result.wish.is_batch else ()
    advice = (*wider_share(search_result, options, catalog), *(quantisation_advice(freed, options) if freed else ()))
    return Beside(advice, economics(search_result, options, freed, apart))


def disaggregated(search_result: ServingResult, option: Option) -> Section | None:
    """Prompts and answers on servers of their own, of the option's kind."""
    machine = int(search_result.fleet.machine_index[server_of(search_result, option)])
    return disaggregated_section(search_result, option, machine=machine)


def play(search_result: ServingResult, options: tuple[Option, ...], candidates: list[int]) -> tuple[Option, ...]:
    """The options with the simulation's figures."""
    refuse_simulation(search_result.wish)
    return with_simulation(search_result, options, candidates)


FAMILY = service_family("serving", explore, ways=other_ways, play=play)
