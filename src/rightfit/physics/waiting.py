"""Latency percentiles of a replica that batches continuously, under Poisson arrivals.

Two time scales are taken apart: how many sequences run changes slowly (`occupancy`), the prompt
tokens that wait change from step to step (`prompt_queue`). Here both come together to the first
token, the time per token and the whole request.

Known error against the simulation (benchmarks/bench_queueing.py, 200 random loads of 5 to 90 %,
mean of two runs of 40,000 requests): TTFT within 10 % in 97.5, 95.0, 86.5 % of the loads at p50,
p95, p99 and all three in 84.0 % (one run of the other: 99.0, 93.5, 88.5, all three 86.5 %). Of 40
loads of 8,000 requests TPOT is within 10 % in 95, 95, 92.5 %, the whole request in 92.5, 92.5,
97.5 %. Where over 1 % wait for a slot, TTFT at p95 and p99 is mostly 10 to 60 % off (so is one run
of the other); with fewer than ten slots the wait comes out up to twice too long. Prompts of 8,000
to 128,000 tokens (20 loads of 4,000 requests): median error of TTFT 7, 14, 12 %, of the whole
request 4, 6, 8 %, of TPOT 7, 5, 11 %, where one run is within 10 % of the other in a third of the
loads at p99.

Source: Kelly 1979, Kingman 1961, Lee and Longton 1959; docs/decisions/serving-load.md.

Quantiles of latencies whose means are known, by what makes them vary; a quantile of 0
asks for the mean.

Known error: shapes of laws, not fitted ones. p99 over mean of the first token came out 1.8 to 2.6
where open loads at 90 % of capacity measured 1.6 to 2.9; of the time per token 1.0 to 1.1 where
they measured 1.1 to 1.3, because answers also differ in length.

Source: Kingman 1961 (waits in heavy traffic are exponential), Shore 1982 (quantiles of the normal
law); docs/decisions/kernels-and-loads.md.

How long a run takes whose requests all come at once: prompts first, then answers in a batch that
shrinks as the short ones end.

While requests wait for a slot, each one that ends is replaced and the batch stays full. When none
waits the batch drains: answers of one length end together; answers of varied lengths leave one
after the other, and the last ones run almost alone, each of their steps still reading all weights.

Source: accounting; docs/decisions/second-rows.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rightfit.physics.columns import Array
from rightfit.physics.prompt_queue import (
    GROUP_EDGES,
    LoadedReplica,
    batch_law,
    batch_nodes,
    families,
    freed_per_s,
    prefill_law,
    quantiles,
    queue_factor,
    sharing_step_s,
    slice_means,
)
from rightfit.physics.queueing import ATOM_WEIGHTS, LoadColumns, ReplicaColumns, SteadyColumns, mean_piece, steady
from rightfit.records import dataclass

#: Closest to certainty that a law is asked for.
_MOST = 0.9999


def _asked(quantile: Array, at_quantile: Array, mean: Array) -> Array:
    return np.where(quantile > 0, at_quantile, mean)


def of_step(step_s: Array, quantile: Array) -> Array:
    """Rest of the step under way when a request comes at any moment of it: uniform.

    `step_s` [s], `quantile` [1] -> [s].

    Source: Kingman 1961 (waits in heavy traffic are exponential), Shore 1982 (quantiles of the
    normal law); docs/decisions/kernels-and-loads.md.
    """
    return _asked(quantile, quantile * step_s, step_s / 2.0)


def of_queue(mean_s: Array, quantile: Array) -> Array:
    """Wait for one's turn among requests that all came at once: uniform from nothing
    to twice the mean.

    `mean_s` [s], `quantile` [1] -> [s].

    Source: Kingman 1961 (waits in heavy traffic are exponential), Shore 1982 (quantiles of the
    normal law); docs/decisions/kernels-and-loads.md.
    """
    return _asked(quantile, 2.0 * quantile * mean_s, mean_s)


def of_wait(mean_s: Array, quantile: Array) -> Array:
    """Wait in a queue with random arrivals: exponential.

    `mean_s` [s], `quantile` [1] -> [s].

    Source: Kingman 1961 (waits in heavy traffic are exponential), Shore 1982 (quantiles of the
    normal law); docs/decisions/kernels-and-loads.md.
    """
    return _asked(quantile, -np.log1p(-np.minimum(quantile, _MOST)) * mean_s, mean_s)


def of_first_wave(others_s: Array, share: Array, quantile: Array) -> Array:
    """Wait of users who ask again as soon as they are answered: in their first wave for any part of
    all prompts, later for none.

    `others_s` [s] of the other users' prompts together, `share` [1] of it that a request waits for
    on average: half the share of requests that are of the first wave, `quantile` [1] -> [s].

    Source: Kingman 1961 (waits in heavy traffic are exponential), Shore 1982 (quantiles of the
    normal law); docs/decisions/kernels-and-loads.md.
    """
    first = np.clip(2.0 * share, 1e-9, 1.0)
    return _asked(quantile, np.clip((quantile - (1.0 - first)) / first, 0.0, 1.0) * others_s, share * others_s)


def of_interruptions(token_s: Array, step_s: Array, batch: Array, quantile: Array) -> Array:
    """Time per token of an answer: what prompts of others add to its steps comes from a Poisson
    number of them, one for each other sequence.

    `token_s` [s] on average, `step_s` [s] of a step without prompts, `batch` [sequences],
    `quantile` [1] -> [s].

    Source: Kingman 1961 (waits in heavy traffic are exponential), Shore 1982 (quantiles of the
    normal law); docs/decisions/kernels-and-loads.md.
    """
    level = np.clip(quantile, 1.0 - _MOST, _MOST)
    # Shore 1982: the quantile of the normal law, within 0.03 of a deviation.
    tail = np.minimum(level, 1.0 - level)
    score = np.sign(level - 0.5) * 5.5556 * (1.0 - (tail / (1.0 - tail)) ** 0.1186)
    spread = np.maximum(1.0 + score / np.sqrt(np.maximum(batch - 1.0, 1.0)), 0.0)
    return _asked(quantile, step_s + np.maximum(token_s - step_s, 0.0) * spread, token_s)


#: Equal shares of requests, the shortest answers first: the mean of each share of an exponential
#: law over its mean, all but the longest answer.
SLICES = 6
_EDGES = np.arange(SLICES + 1) / SLICES
#: Antiderivative of the quantile function -ln(1 - p): its differences are the means of the shares.
_MOMENTS = np.append((1.0 - _EDGES[:-1]) * (np.log1p(-_EDGES[:-1]) - 1.0), 0.0)
LENGTHS = np.diff(_MOMENTS) * SLICES


@dataclass(frozen=True, slots=True)
class Run:
    """A finite run of one replica, shape (N,): seconds of all its prompts, while the batch is full,
    and while it drains; what one answer saw.

    `stalled` is the share of an answer's steps that carry prompts of others.

    Units: `prompts_s`, `full_s`, `drain_s`, `mean_step_s` [s], `stalled` [1].
    """

    prompts_s: Array
    full_s: Array
    drain_s: Array
    mean_step_s: Array
    stalled: Array

    @property
    def total_s(self) -> Array:
        """The makespan -> [s].

        Source: accounting; docs/decisions/second-rows.md.
        """
        return self.prompts_s + self.full_s + self.drain_s


def longest(mean: Array, count: Array, *, varied: Array, most: float) -> Array:
    """The longest of `count` answers: their mean where they are of one length, else the expected
    largest of as many exponential ones.

    `mean` [tokens], `count` [requests], `varied` [flag], `most` [1] times the mean that data sets
    cut answers at -> [tokens]. H(n) = ln n + 0.577 for n draws (Euler).

    Source: accounting; docs/decisions/second-rows.md.
    """
    largest = np.clip(np.log(np.maximum(count, 1.0)) + np.euler_gamma, 1.0, most)
    return mean * np.where((varied > 0) & (count > 1), largest, 1.0)


def stalled_share(lengths: list[Array], steps: Array) -> Array:
    """Share of an answer's steps that carry prompts, where the first `steps` steps of the run do
    and answers begin anywhere among them -> [1].

    `lengths` [tokens] of the answers, equally many of each, `steps` [1]. Of `length` steps
    min(length, rest) are among them, the rest being uniform: the mean of min(length, rest) / length
    is 1 - length / 2 steps, or steps / 2 length where the answer is longer.

    Source: accounting; docs/decisions/second-rows.md.
    """
    shares = []
    for length in lengths:
        long = np.maximum(length, 1.0)
        shares.append(np.where(long > steps, steps / (2.0 * long), 1.0 - long / (2.0 * np.maximum(steps, 1e-9))))
    return np.asarray(sum(shares) / len(shares))


def finite_run(
    step_s: Callable[[Array], Array],
    *,
    requests: Array,
    slots: Array,
    prompt_s: Array,
    front_s: Array,
    room: Array,
    output: Array,
    varied: Array,
    most: float,
) -> Run:
    """The run of `requests` on one replica that holds at most `slots` at once.

    `step_s` gives the seconds of a step of so many sequences; `requests` [requests], `slots`
    [sequences], `prompt_s` [s] of one prompt among many, `front_s` [s] of taking one request
    in, `room` [1] prompts that one step carries, `output` [tokens] a request on average,
    `varied` [flag] whether answers differ in length as an exponential law, `most` [1] the
    longest over the mean.

    Source: accounting; docs/decisions/second-rows.md.
    """
    held = np.maximum(np.minimum(requests, slots), 1.0)
    decoded = np.maximum(output - 1.0, 0.0)
    full_step = step_s(held)
    full = np.maximum(requests - held, 0.0) / held * decoded * full_step
    uneven = (varied > 0) & (held > 1)
    top = longest(decoded, held, varied=varied, most=most)
    lengths = [np.where(uneven, decoded * share, decoded) for share in LENGTHS[:-1]] + [top]
    drain, last, weighted = np.zeros_like(held), np.zeros_like(held), np.zeros_like(held)
    for place, length in enumerate(lengths):
        left = np.maximum(held * np.where(uneven, 1.0 - (place + 0.0) / SLICES, 1.0), 1.0)
        # Of the last share one answer after the other ends.
        left = np.where(uneven & (place == SLICES - 1), np.maximum(held / SLICES / 2.0, 1.0), left)
        seconds = np.maximum(length - last, 0.0) * step_s(left)
        drain, weighted, last = drain + seconds, weighted + seconds * left, np.maximum(length, last)
    served = np.maximum(requests * decoded, 1e-9)
    mean_step = np.where(decoded > 0, (full * held + weighted) / np.maximum(served, 1e-9), full_step)
    shares = stalled_share([np.where(uneven, decoded * share, decoded) for share in LENGTHS], held / np.maximum(room, 1e-9))
    return Run(requests * (prompt_s + front_s), full, drain, np.minimum(mean_step, full_step), shares)


SHARES = np.array([0.50, 0.95, 0.99])
SMALLEST_SHAPE = 0.15
#: Slices of a normal law, narrow where the percentiles of the tail lie, and the mean of each.
SCORE_EDGES = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94, 0.97, 0.985, 0.995, 1.0])
SCORES = np.array([-1.755, -1.0446, -0.6773, -0.3865, -0.126, 0.126, 0.3865, 0.6773, 0.999, 1.3486, 1.7027, 2.0114, 2.3411, 2.8919])
SCORE_MASSES = np.diff(SCORE_EDGES)
WAIT_QUANTILES = -np.log1p(-(np.arange(40) + 0.5) / 40.0)


@dataclass(frozen=True, slots=True)
class LatencyColumns:
    """Percentiles (50, 95, 99 where no others are asked for) of N replicas, each (N, 3) [s];
    infinite where the replica is saturated. `waits` share that waits for a slot.

    Units: `ttft_s`, `tpot_s`, `latency_s` [s], `waits` [1].
    """

    ttft_s: Array
    tpot_s: Array
    latency_s: Array
    waits: Array
    steady: SteadyColumns


def latency(replicas: ReplicaColumns, load: LoadColumns, *, shares: Array = SHARES, means: SteadyColumns | None = None) -> LatencyColumns:
    """Percentiles `shares` of TTFT, TPOT and end-to-end latency. Some milliseconds a row: for the
    short list of a search; `steady` is for all, and `means` are what it found, where that is known.

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
    """Prompt lengths in tokens of average cost: attention over its own past makes each token of a
    long prompt dearer. Keeps the mean."""
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
    """Add the wait for a slot: exponential with the mean of M/M/c, scaled for the law of service,
    for the share that waits."""
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
    """Tokens decoded, time from first to last token, and mass: arrays over (output, running,
    first token, score).

    Over its life a request meets steps that also carry prompts of others: of those that come in
    that time, and of those that came while its own prompt held up the replica and now are behind
    it. With g the step without them and rho their share, a life of m tokens after a first token in
    `held` h is a delay cycle: mean m g + rho (m g + h) / (1 - rho), variance rate E[w^2] (m g +
    h) / (1 - rho)^3 (Takacs). A share exp(-rate (m g + h)) of the answers meets no prompt; the part
    of the prompts of the others is taken as gamma by Wilson and Hilferty, and no step is longer
    than a full one. Of h the rest of the step that the request came in is not counted.
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
    met = np.maximum(-np.expm1(-row.rate * exposed), 1e-12)  # share of answers that meet any prompt
    mean = rho / (1.0 - rho) * exposed / met
    second = rho**2 * scv / row.rate * exposed / (1.0 - rho) ** 3 / met + mean**2 * met  # rho^2 scv / rate = rate E[w^2]
    shape = np.maximum(mean**2 / np.maximum(second - mean**2, 1e-30), SMALLEST_SHAPE)[..., None]
    factor = np.maximum(1.0 - 1.0 / (9.0 * shape) + SCORES / (3.0 * np.sqrt(shape)), 0.0) ** 3
    factor = factor / (factor @ SCORE_MASSES)[..., None]
    alone = np.broadcast_to(decoded[..., None] * plain[:, None, None], (*met.shape, 1))
    times = np.concatenate([alone, alone + mean[..., None] * factor], axis=-1)
    if math.isfinite(row.budget):
        times = np.minimum(times, decoded[..., None] * np.maximum(_full_step_s(row, nodes, decoded[:, 0, 0]), shared)[..., None, None])
    times = np.minimum(times, decoded[..., None] * np.maximum(_crowded_step_s(row, nodes), shared)[:, None, None])
    masses = ATOM_WEIGHTS[:, None, None] * (seen / seen.sum())[:, None] * np.diff(GROUP_EDGES)
    parts = np.concatenate([1.0 - met[..., None], met[..., None] * SCORE_MASSES], axis=-1)
    spread = (masses[..., None] * parts).reshape(-1, held.size, SCORES.size + 1)
    tokens = np.broadcast_to(decoded[..., None], times.shape).reshape(spread.shape)
    return tokens, times.reshape(spread.shape), spread


def _full_step_s(row: LoadedReplica, nodes: Array, decoded: Array) -> Array:
    """Mean full step (A, B) of answers of `decoded` (A,) beside `nodes` (B,) sequences.

    The prompt behind an answer's own begins with the answer, and each of its tokens attends to what
    was before it alone: its first pieces take less than its mean, which short answers do not reach.
    """
    room = np.broadcast_to(np.maximum(row.budget - nodes, 1.0), (decoded.size, nodes.size))
    past = np.minimum(decoded[:, None] * room / float(row.load.mean_input[0]), 1.0)
    return row.step(np.broadcast_to(nodes, room.shape).ravel(), room.ravel(), past=past.ravel()).reshape(room.shape)


def _crowded_step_s(row: LoadedReplica, nodes: Array) -> Array:
    """Mean step when all slots are taken and change hands: no more prompts than that come beside a
    sequence, whatever waits; those whose lives are short change hands more often, E[life^2] /
    E[life]^2 times as many.
    """
    outputs = row.load.output_tokens[0]
    often = float((outputs**2) @ ATOM_WEIGHTS / (outputs @ ATOM_WEIGHTS) ** 2)
    prefill = max(float(np.ceil(row.lengths / row.budget) @ ATOM_WEIGHTS), 1.0)
    entering = min(row.slots / (row.mean_decoded + prefill) * row.mean_input * often, row.budget)
    return row.mean_step(np.full_like(nodes, float(row.slots)))(np.full_like(nodes, entering))
