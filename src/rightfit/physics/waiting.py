"""Latency percentiles of a replica that batches continuously, under Poisson arrivals.

Two time scales are taken apart: how many sequences run changes slowly (`occupancy`), the prompt tokens that wait change from step to step
(`prompt_queue`). Here both come together to the first token, the time per token and the whole request.

Known error against the simulation (benchmarks/bench_queueing.py, 200 random loads of 5 to 90 %, mean of two runs of 40,000 requests): TTFT
within 10 % in 97.5, 95.0, 86.5 % of the loads at p50, p95, p99 and all three in 84.0 % (one run of the other: 99.0, 93.5, 88.5, all three
86.5 %); TPOT in 94, 94, 87 %, the whole request in 97, 99, 93 %. Where over 1 % wait for a slot, TTFT at p95 and p99 is mostly 10 to 60 %
off (so is one run of the other); with fewer than ten slots the wait comes out up to twice too long.

Source: Kelly 1979, Kingman 1961, Lee and Longton 1959; docs/decisions/serving-load.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.distributions import quantiles, slice_means
from rightfit.physics.occupancy import LoadedReplica, batch_law, families, freed_per_s, queue_factor, sharing_step_s
from rightfit.physics.prompt_queue import GROUP_EDGES, batch_nodes, prefill_law
from rightfit.physics.queueing import ATOM_WEIGHTS, LoadColumns, SteadyColumns, mean_piece, steady
from rightfit.physics.replicas import ReplicaColumns
from rightfit.records import dataclass

Array = NDArray[np.float64]

SHARES = np.array([0.50, 0.95, 0.99])
SMALLEST_SHAPE = 0.15
#: Normal scores of 13 equal slices.
SCORES = np.array([-1.7688, -1.1984, -0.8694, -0.6151, -0.3957, -0.1940, 0.0, 0.1940, 0.3957, 0.6151, 0.8694, 1.1984, 1.7688])
WAIT_QUANTILES = -np.log1p(-(np.arange(40) + 0.5) / 40.0)


@dataclass(frozen=True, slots=True)
class LatencyColumns:
    """Percentiles (50, 95, 99 where no others are asked for) of N replicas, each (N, 3) [s]; infinite where the replica is saturated.
    `waits` share that waits for a slot.

    Units: `ttft_s`, `tpot_s`, `latency_s` [s], `waits` [1].
    """

    ttft_s: Array
    tpot_s: Array
    latency_s: Array
    waits: Array
    steady: SteadyColumns


def latency(replicas: ReplicaColumns, load: LoadColumns, *, shares: Array = SHARES, means: SteadyColumns | None = None) -> LatencyColumns:
    """Percentiles `shares` of TTFT, TPOT and end-to-end latency. Some milliseconds a row: for the short list of a search; `steady` is for
    all, and `means` are what it found, where that is known.

    `shares` [1].
    """
    means = means or steady(replicas, load)
    rows = replicas.num_rows
    ttft, tpot, whole = (np.full((rows, shares.size), np.inf) for _ in range(3))
    waits = np.ones(rows)
    for row in np.flatnonzero(~means.saturated):
        ttft[row], tpot[row], whole[row], waits[row] = _row_latency(_row(replicas, load, means, int(row)), shares)
    return LatencyColumns(ttft, tpot, whole, waits, means)


def _row(replicas: ReplicaColumns, load: LoadColumns, means: SteadyColumns, row: int) -> LoadedReplica:
    index = np.array([row])
    one = load.take(index)
    chunk = float(replicas.chunk_tokens[row])
    budget = chunk if chunk > 0 else math.inf
    return LoadedReplica(
        replicas=replicas.take(index),
        load=one,
        rate=float(one.rate_per_s[0]),
        slots=max(int(means.slots[row]), 1),
        budget=budget,
        mean_input=float(one.mean_input[0]),
        mean_decoded=float(one.mean_decoded[0]),
        context=float(one.mean_context[0]),
        pairs_per_token=float(one.mean_pairs[0] / one.mean_input[0]),
        piece=float(mean_piece(replicas.take(index), one)[0]),
        lengths=_even_lengths(replicas.take(index), one, budget=budget, batch=float(means.batch[row])),
    )


def _even_lengths(replicas: ReplicaColumns, load: LoadColumns, *, budget: float, batch: float) -> Array:
    """Prompt lengths in tokens of average cost: attention over its own past makes each token of a long prompt dearer. Keeps the mean."""
    lengths, mean = load.input_tokens[0], float(load.mean_input[0])
    fixed = float(replicas.sequences_s(np.array([[max(batch, 1e-9)]]))[0, 0])
    token_s = max(float(replicas.prompts_s(np.array([[mean]]))[0, 0]) / mean, 1e-15) + fixed / budget
    pair_s = float(replicas.prompt_pair_s[0])
    even: Array = (token_s * lengths + pair_s * lengths**2 / 2.0) / (token_s + pair_s * float(load.mean_pairs[0]) / mean)
    return even


def _row_latency(row: LoadedReplica, shares: Array) -> tuple[Array, Array, Array, float]:
    batches, waits = batch_law(row)
    times, masses = prefill_law(row, batches)
    held = _first_groups(times, masses)
    if waits > 1e-6:
        times, masses = _with_slot_wait(row, times, masses, waits)
    ttft = quantiles(times, masses, shares) + float(row.replicas.request_s[0])
    if row.mean_decoded <= 0:
        return ttft, np.zeros(shares.size), ttft, waits
    tokens, decoding, weights = _decode_law(row, batches, held)
    several = np.broadcast_to(tokens > 0, decoding.shape)
    tpot = quantiles((decoding / np.maximum(tokens, 1.0))[several], weights[several], shares)
    whole = quantiles((_first_groups(times, masses)[:, None] + decoding).ravel(), weights.ravel(), shares)
    return ttft, tpot, whole + float(row.replicas.request_s[0]), waits


def _with_slot_wait(row: LoadedReplica, times: Array, masses: Array, waits: float) -> tuple[Array, Array]:
    """Add the wait for a slot: exponential with the mean of M/M/c, scaled for the law of service, for the share that waits."""
    freed = freed_per_s(row)
    mean = queue_factor(row, families(row, float(row.slots))) / max(freed - row.rate, 1e-2 * freed)
    centre, share = slice_means(times, masses, GROUP_EDGES)
    delayed = (centre[:, None] + mean * WAIT_QUANTILES[None, :]).ravel()
    weights = np.repeat(share / WAIT_QUANTILES.size, WAIT_QUANTILES.size) * waits
    return np.concatenate([times, delayed]), np.concatenate([masses * (1.0 - waits), weights])


def _first_groups(times: Array, masses: Array) -> Array:
    """Mean time to first token of each slice of `GROUP_EDGES`."""
    order = np.argsort(times)
    return slice_means(times[order], masses[order] / masses.sum(), GROUP_EDGES)[0]


def _decode_law(row: LoadedReplica, batches: Array, held: Array) -> tuple[Array, Array, Array]:
    """Tokens decoded, time from first to last token, and mass: arrays over (output, running, first token, score).

    Over its life a request meets steps that also carry prompts of others: of those that come in that time, and of those that came while its
    own prompt held up the replica and now are behind it. With g the step without them and rho their share, a life of m tokens after a first
    token in `held` h is a delay cycle: mean m g + rho (m g + h) / (1 - rho), variance rate E[w^2] (m g + h) / (1 - rho)^3 (Takacs); the
    part of the prompts is taken as gamma by Wilson and Hilferty, and no step is longer than a full one. Of h the rest of the step that the
    request came in is not counted.
    """
    nodes, weights = batch_nodes(batches)
    if nodes.size == 0:
        nodes, weights = np.ones(1), np.ones(1)
    shared = sharing_step_s(row, nodes)
    plain = row.step(nodes, np.zeros_like(nodes))
    seen = weights * nodes / shared
    rho = np.clip(1.0 - plain / shared, 1e-9, 0.97)[:, None]
    decoded = np.maximum(row.load.output_tokens[0] - 1.0, 0.0)[:, None, None]
    exposed = decoded * plain[:, None] + np.maximum(held[None, :] - 0.5 * shared[:, None], 0.0)
    scv = float(row.lengths**2 @ ATOM_WEIGHTS / (row.lengths @ ATOM_WEIGHTS) ** 2)
    mean = rho / (1.0 - rho) * exposed
    variance = rho**2 * scv / row.rate * exposed / (1.0 - rho) ** 3  # rho^2 scv / rate = rate E[w^2]
    shape = np.maximum(mean**2 / np.maximum(variance, 1e-30), SMALLEST_SHAPE)[..., None]
    factor = np.maximum(1.0 - 1.0 / (9.0 * shape) + SCORES / (3.0 * np.sqrt(shape)), 0.0) ** 3
    factor = factor / factor.mean(axis=-1, keepdims=True)
    times = decoded[..., None] * plain[:, None, None] + mean[..., None] * factor
    if math.isfinite(row.budget):
        full = row.step(nodes, np.maximum(row.budget - nodes, 1.0))
        times = np.minimum(times, decoded[..., None] * np.maximum(full, shared)[:, None, None])
    times = np.minimum(times, decoded[..., None] * np.maximum(_crowded_step_s(row, nodes), shared)[:, None, None])
    masses = ATOM_WEIGHTS[:, None, None] * (seen / seen.sum())[:, None] * np.diff(GROUP_EDGES)
    shape_all = times.shape
    tokens = np.broadcast_to(decoded[..., None], shape_all).reshape(-1, held.size, SCORES.size)
    spread = np.broadcast_to(masses[..., None] / SCORES.size, shape_all).reshape(tokens.shape)
    return tokens, times.reshape(tokens.shape), spread


def _crowded_step_s(row: LoadedReplica, nodes: Array) -> Array:
    """Mean step when all slots are taken and change hands: no more prompts than that come beside a sequence, whatever waits; those whose
    lives are short change hands more often, E[life^2] / E[life]^2 times as many.
    """
    outputs = row.load.output_tokens[0]
    often = float((outputs**2) @ ATOM_WEIGHTS / (outputs @ ATOM_WEIGHTS) ** 2)
    prefill = max(float(np.ceil(row.lengths / row.budget) @ ATOM_WEIGHTS), 1.0)
    entering = min(row.slots / (row.mean_decoded + prefill) * row.mean_input * often, row.budget)
    return row.mean_step(np.full_like(nodes, float(row.slots)))(np.full_like(nodes, entering))
