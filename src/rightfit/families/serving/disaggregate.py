"""Prompts and answers on servers of their own: n replicas that only treat prompts hand the cache over the network to m that only decode.

Zhong et al., DistServe (OSDI 2024); Patel et al., Splitwise (ISCA 2024). Prompts then hold up no answers, so that decoding may fill its
batch up to the limit of the
time per token; the price is the transfer of the cache and two pools that each round up to whole servers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.estimate.serving import serving_rates
from rightfit.physics import serving_memory
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search.answer import Option, Reason, Section
from rightfit.search.service.found import ServingExploration
from rightfit.search.service.grid import spread, waiting_s
from rightfit.search.service.wish import usual

Index = NDArray[np.intp]
LOADS = np.linspace(0.01, 1.0, 100)


@dataclass(frozen=True, slots=True)
class Pools:
    """Rates [1/s] that one replica of each row carries as a prompt server and as a decoding one, and the transfer of one request's cache
    [s]."""

    prompt_per_s: Array
    decode_per_s: Array
    transfer_s: Array


def pools(exploration: ServingExploration, rows: Index, *, each: Index) -> Pools:
    """What replicas of these candidates carry within the limits when each does one of the two only; `each` of them share a server's
    network."""
    assert exploration.times is not None
    wish, limits = exploration.wish, exploration.wish.limits
    times, space = exploration.times.take(rows), exploration.space.take(rows)
    rates = serving_rates(space.serve, space.links)
    shape = (rows.shape[0],)
    moved = serving_memory.kv_cache_bytes(space.model, space.serve, tokens=space.serve.input_tokens)
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


def disaggregated_section(exploration: ServingExploration, option: Option, *, machine: int) -> Section | None:
    """The fewest servers of the option's kind in two pools against those of the option; a statement only where they are fewer."""
    wish = exploration.wish
    if exploration.times is None or not wish.rate_per_s or wish.extras or wish.output_tokens < 2 or not option.accelerator.name:
        return None
    space = exploration.space
    format_ = getattr(option.layout, "weight_format", ""), getattr(option.layout, "kv_format", "")
    same = np.array([(stack.format, stack.kv) == format_ for stack in space.stack], dtype=np.bool_)
    rows = np.flatnonzero(same & (space.machine == machine) & (space.nodes == 1) & space.fits)
    if not rows.shape[0]:
        return None
    each = np.maximum(exploration.fleet.gpus_per_node[machine] // space.tensor[rows], 1)
    able = pools(exploration, rows, each=each)
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
