"""Latency percentiles of a replica that batches continuously, under Poisson arrivals.

Two time scales are taken apart. The number of running sequences n changes slowly, over the life of a request: a birth-death process whose
death rate is n / (steps per request * s(n)), s(n) being the step with its share of prompts; for processor sharing its stationary law does
not depend on the law of service (F. Kelly, Reversibility and Stochastic Networks, 1979, section 3.3). Given n, the prompt tokens Q that
wait at the start of a step form a Markov chain from step to step: Q' = max(Q - budget, 0) + what arrives in step_s(n, min(Q, budget)),
compound Poisson, solved on a grid of tokens. A request that comes at a random moment (length-biased step, uniform place in it) waits for
the rest of that step and for the steps that work off what is before it and itself. When all slots are taken it first waits as in M/M/c,
scaled for bursts and outputs (`queue_factor`; Kingman 1961, Lee and Longton 1959).

Known error against the simulation (benchmarks/bench_queueing.py, 200 random loads of 5 to 90 %, mean of two runs of 40,000 requests): TTFT
within 10 % in 97.5, 95.0, 86.5 % of the loads at p50, p95, p99 and all three in 84.0 % (one run of the other: 99.0, 93.5, 88.5, all three
86.5 %); TPOT in 94, 94, 87 %, the whole request in 97, 99, 93 %. Where over 1 % wait for a slot, TTFT at p95 and p99 is mostly 10 to 60 %
off (so is one run of the other); with fewer than ten slots the wait comes out up to twice too long.

Source: Kelly 1979, Kingman 1961, Lee and Longton 1959; docs/decisions/serving-load.md.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.queueing import ATOM_EDGES, ATOM_WEIGHTS, LoadColumns, SteadyColumns, mean_piece, steady
from rightfit.physics.replicas import ReplicaColumns, step_s

Array = NDArray[np.float64]

SHARES = np.array([0.50, 0.95, 0.99])
GRID = 112
#: Relaxation time of M/M/1 in heavy traffic over E[w^2] / E[w] / (1 - rho)^2.
RELAXATION = 2.0
SUB_ATOMS = 12
SPARE_STATES = 40
SMALLEST_SHAPE = 0.15
PLACES = (np.arange(6) + 0.5) / 6.0
GROUP_EDGES = np.array([0.0, 0.15, 0.35, 0.55, 0.75, 0.90, 0.96, 0.985, 0.995, 1.0])
BATCH_EDGES = np.array([0.0, 0.25, 0.5, 0.75, 0.92, 1.0])
TIME_BINS = 2400
#: Normal scores of 13 equal slices.
SCORES = np.array([-1.7688, -1.1984, -0.8694, -0.6151, -0.3957, -0.1940, 0.0, 0.1940, 0.3957, 0.6151, 0.8694, 1.1984, 1.7688])
WAIT_QUANTILES = -np.log1p(-(np.arange(40) + 0.5) / 40.0)


@dataclasses.dataclass(frozen=True, slots=True)
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


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    """One replica and its load as plain numbers.

    Units: `rate` [requests/s], `slots` [sequences], `budget`, `mean_input`, `mean_decoded`, `context`, `piece`, `lengths` [tokens],
    `pairs_per_token` [pairs/token].
    """

    replicas: ReplicaColumns
    load: LoadColumns
    rate: float
    slots: int
    budget: float
    mean_input: float
    mean_decoded: float
    context: float
    pairs_per_token: float
    piece: float
    lengths: Array

    def step(self, sequences: NDArray[Any], prompt_tokens: NDArray[Any], *, mean: bool = False) -> Array:
        """Step time for arrays of the same shape; `mean`: of many steps that get so many prompt tokens on average."""
        shape = np.broadcast_shapes(np.shape(sequences), np.shape(prompt_tokens))
        sequences, prompt_tokens = np.broadcast_to(sequences, shape), np.broadcast_to(prompt_tokens, shape)
        time: Array = step_s(
            self.replicas,
            sequences=sequences[None],
            cached=sequences[None] * self.context,
            prompt_tokens=prompt_tokens[None],
            prompt_pairs=prompt_tokens[None] * self.pairs_per_token,
            piece=np.full(1, self.piece) if mean else None,
        )[0]
        return time


def latency(replicas: ReplicaColumns, load: LoadColumns, *, shares: Array = SHARES) -> LatencyColumns:
    """Percentiles `shares` of TTFT, TPOT and end-to-end latency. Some milliseconds a row: for the short list of a search; `steady` is for
    all.

    `shares` [1].
    """
    means = steady(replicas, load)
    rows = replicas.num_rows
    ttft, tpot, whole = (np.full((rows, shares.size), np.inf) for _ in range(3))
    waits = np.ones(rows)
    for row in np.flatnonzero(~means.saturated):
        ttft[row], tpot[row], whole[row], waits[row] = _row_latency(_row(replicas, load, means, int(row)), shares)
    return LatencyColumns(ttft, tpot, whole, waits, means)


def _row(replicas: ReplicaColumns, load: LoadColumns, means: SteadyColumns, row: int) -> _Row:
    index = np.array([row])
    one = load.take(index)
    chunk = float(replicas.chunk_tokens[row])
    budget = chunk if chunk > 0 else math.inf
    return _Row(
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


def _row_latency(row: _Row, shares: Array) -> tuple[Array, Array, Array, float]:
    batches, waits = batch_law(row)
    times, masses = _prefill_law(row, batches)
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


def sharing_step_s(row: _Row, sequences: Array) -> Array:
    """Mean step with `sequences` running when prompts come at the row's rate: s = step(n, rate * s * input), prompts up to the budget.

    `sequences` [sequences] -> [s].
    By iteration from below, each second step extrapolated (Aitken).
    """
    most = np.maximum(row.budget - sequences, 1.0)

    def once(time: Array) -> Array:
        # An empty step is nothing, which rounding may put just below.
        return np.maximum(row.step(sequences, np.minimum(row.rate * time * row.mean_input, most), mean=True), 0.0)

    time = np.maximum(row.step(sequences, np.zeros_like(sequences)), 0.0)
    for _ in range(40):
        first = once(time)
        second = once(first)
        if np.all(np.abs(second - first) <= 1e-6 * second):
            return second
        bend = second - 2.0 * first + time
        ahead = time - np.divide((first - time) ** 2, bend, out=time - second, where=np.abs(bend) > 1e-12 * second)
        time = np.where((ahead >= second) & (ahead < 1e3 * second), ahead, second)
    return time


def batch_law(row: _Row) -> tuple[Array, float]:
    """Probabilities in time of 0, 1, ... slots running sequences, and the share of requests that find no slot -> [1], [1].

    A birth-death process without a limit gives mean and variance; prompts that hold up all running sequences let requests pile up behind
    them, which widens the law (`families`): a negative binomial of that mean and variance. At the slots it is cut and goes on as the
    geometric queue of M/M/c: how many wait hardly depends on the law of service, how long they do does (`queue_factor`).
    """
    if row.mean_decoded <= 0:
        return np.array([1.0]), 0.0
    free = _birth_death(row, np.arange(1, 2 * row.slots + SPARE_STATES, dtype=np.float64))
    counts = np.arange(free.size, dtype=np.float64)
    mean = float(free @ counts)
    spread = float(free @ (counts - mean) ** 2) / max(mean, 1e-12)
    family = families(row, mean)
    lives = np.maximum(row.load.output_tokens[0] - 1.0, 0.0)
    shorter = float(ATOM_WEIGHTS @ np.minimum(lives[:, None], lives[None, :]) @ ATOM_WEIGHTS)
    factor = (1.0 + (family - 1.0) * shorter / row.mean_decoded) * spread
    law = free if factor <= 1.0 + 1e-6 or mean < 1e-6 else _negative_binomial(mean, factor, row.slots)
    law = law[: row.slots + 1].copy()
    ratio = min(row.rate / freed_per_s(row), 0.99)
    beyond = float(law[-1]) * ratio / (1.0 - ratio)
    law[-1] += beyond
    law /= law.sum()
    return law, float(law[-1])


def _birth_death(row: _Row, sequences: Array) -> Array:
    """Stationary law of 0 and `sequences` running, without a limit on slots."""
    death = sequences / (sharing_step_s(row, sequences) * row.mean_decoded)
    birth = np.full(sequences.size, row.rate)
    birth[0] = 1.0 / (1.0 / row.rate + float(alone_s(row, row.lengths) @ ATOM_WEIGHTS))
    logs = np.concatenate([[0.0], np.cumsum(np.log(birth / death))])
    chances = np.exp(logs - logs.max())
    return np.asarray(chances / chances.sum())


def freed_per_s(row: _Row) -> float:
    """Rate at which slots become free when all are taken: slots / (step * steps that a request holds one) -> [1/s]."""
    prefill = max(float(np.ceil(row.lengths / row.budget) @ ATOM_WEIGHTS), 1.0)
    held = row.mean_decoded + prefill
    running = np.array([row.slots * row.mean_decoded / held])
    prompts = np.minimum(row.slots / held * row.mean_input, row.budget)
    return row.slots / (float(row.step(running, np.array([prompts]), mean=True)[0]) * held)


def families(row: _Row, batch: float) -> float:
    """E[N^2] / E[N] of the clusters in which requests come to decode: those that arrive while a prompt holds up decoding.

    `batch` [sequences] -> [1].
    With rho the share of time that goes to prompts, a cluster is the family of a branching process: mean 1 / (1 - rho), variance (rho +
    rho^2 cv^2) / (1 - rho)^3 (T. Harris, The Theory of Branching Processes, 1963). For batch arrivals at M/G/infinity variance / mean is 1
    + (E[N^2] / E[N] - 1) E[min(X, X')] / E[X] for two lives X, X'.
    """
    running = np.array([max(batch, 1.0)])
    rho = min(1.0 - float(row.step(running, np.zeros(1))[0]) / float(sharing_step_s(row, running)[0]), 0.95)
    scv = float(row.lengths**2 @ ATOM_WEIGHTS / (row.lengths @ ATOM_WEIGHTS) ** 2 - 1.0)
    return 1.0 / (1.0 - rho) + (rho + rho**2 * scv) / (1.0 - rho) ** 2


def queue_factor(row: _Row, family: float) -> float:
    """How much longer than in M/M/c the queue for slots is: (ca^2 + cs^2) / 2 of Kingman's bound, cs^2 of the outputs.

    `family` [1] -> [1].
    ca^2 is the root of `families`, an empirical choice: with 1 the queue came out 20 % short in simulation, with the whole 50 % long.
    """
    outputs = row.load.output_tokens[0]
    scv = float((outputs**2) @ ATOM_WEIGHTS / (outputs @ ATOM_WEIGHTS) ** 2 - 1.0)
    return (math.sqrt(family) + scv) / 2.0


def _negative_binomial(mean: float, factor: float, most: int) -> Array:
    """Probabilities of 0 ... `most` with that mean and variance / mean."""
    size = mean / (factor - 1.0)
    counts = np.arange(1, most + 1, dtype=np.float64)
    logs = np.concatenate([[0.0], np.cumsum(np.log((size + counts - 1.0) / counts * (1.0 - 1.0 / factor)))]) - size * math.log(factor)
    return np.exp(logs)


def alone_s(row: _Row, lengths: Array) -> Array:
    """Time of prompts of those lengths on a replica with nothing else to do.

    `lengths` [tokens] -> [s].
    """
    if not math.isfinite(row.budget):
        return row.step(np.zeros_like(lengths), lengths)
    full = np.maximum(np.ceil(lengths / row.budget) - 1.0, 0.0)
    whole = float(row.step(np.zeros(1), np.array([row.budget]))[0])
    return row.step(np.zeros_like(lengths), lengths - full * row.budget) + full * whole


def _nodes(chances: Array) -> tuple[Array, Array]:
    """A few batch sizes with their weights that stand for the law of n >= 1: means of slices of it."""
    weights = chances[1:]
    total = weights.sum()
    if total <= 1e-12:
        return np.zeros(0), np.zeros(0)
    return slice_means(np.arange(1, chances.size, dtype=np.float64), weights / total, BATCH_EDGES)[0], np.diff(BATCH_EDGES) * total


def slice_means(values: Array, masses: Array, edges: Array) -> tuple[Array, Array]:
    """Mean of `values` (ascending, with `masses` that sum to 1) in each slice between `edges` of the cumulated mass.

    `values` [any], `masses`, `edges` [1] -> [any].
    """
    cumulated = np.concatenate([[0.0], np.cumsum(masses)])
    cumulated[-1] = 1.0
    moments = np.concatenate([[0.0], np.cumsum(masses * values)])
    at = np.interp(edges, cumulated, moments)
    return np.diff(at) / np.diff(edges), np.diff(edges)


@dataclasses.dataclass(frozen=True, slots=True)
class _Grid:
    """Tokens in grains: `grain` tokens each, `size` of them, `budget` per step in grains; `lengths` the prompt law and its transform.

    Units: `grain` [tokens], `size`, `budget`, `lengths`, `transform` [1].
    """

    grain: float
    size: int
    budget: int
    lengths: Array
    transform: NDArray[np.complex128]

    def arrivals(self, exposure: Array) -> Array:
        """Law of the tokens of Poisson(exposure) prompts, shape (..., size); what is beyond the grid is put on its last place."""
        spectrum = np.exp(exposure[..., None] * (self.transform - 1.0))
        law = np.maximum(np.fft.irfft(spectrum, n=2 * self.size, axis=-1), 0.0)
        kept = law[..., : self.size].copy()
        kept[..., -1] += law[..., self.size :].sum(axis=-1)
        return np.asarray(kept / kept.sum(axis=-1, keepdims=True))


def _grid(row: _Row, batch: float, time: float) -> _Grid:
    """A grid wide enough for what waits at `batch`."""
    lengths = row.lengths
    squared = float(lengths**2 @ ATOM_WEIGHTS)
    budget = max(row.budget - batch, 1.0)
    flow = row.rate * time * row.mean_input
    prompts = 1.0 - float(row.step(np.array([batch]), np.zeros(1))[0]) / time if batch > 0 else row.rate * time
    used = min(max(flow / budget, prompts), 0.95)
    spread = math.sqrt(max(row.rate * time * squared, 0.0) / (1.0 - used**2))  # an empty step may round to just below nothing
    backlog = squared / row.mean_input * used**2 / (1.0 - used)
    reach = float(lengths.max()) + 2.0 * flow + 6.0 * spread + 4.0 * backlog
    size = GRID
    grain = reach / size
    places = size
    if budget < reach:
        places = max(round(budget / grain), 1)
        grain = budget / places
        size = min(math.ceil(reach / grain), 2 * GRID)
    place = np.minimum(lengths / grain, size - 1.0)
    low = np.minimum(place.astype(np.intp), size - 2)
    spread_over = np.bincount(low, ATOM_WEIGHTS * (1.0 - (place - low)), size) + np.bincount(low + 1, ATOM_WEIGHTS * (place - low), size)
    law: Array = spread_over.astype(np.float64)
    return _Grid(grain, size, places, law, np.fft.rfft(law, n=2 * size))


def _waiting_law(grid: _Grid, row: _Row, times: Array, *, idle: bool) -> Array:
    """Stationary law of the tokens that wait at the start of a step; `times` of steps with 0, 1, ... grains of prompts."""
    kernel = grid.arrivals(row.rate * times)
    if idle:
        kernel[0] = grid.lengths
    size, budget = grid.size, min(grid.budget, grid.size - 1)
    matrix = np.zeros((size, size))
    matrix[: budget + 1] = kernel[: budget + 1]
    for waiting in range(budget + 1, size):
        shift = waiting - budget
        matrix[waiting, shift:] = kernel[budget, : size - shift]
        matrix[waiting, -1] += kernel[budget, size - shift :].sum()
    system = matrix.T - np.eye(size)
    system[-1] = 1.0
    target = np.zeros(size)
    target[-1] = 1.0
    law = np.maximum(np.linalg.solve(system, target), 0.0)
    return np.asarray(law / law.sum())


def _prefill_law(row: _Row, batches: Array) -> tuple[Array, Array]:
    """Times from arrival to first token for requests that find a slot, with their masses."""
    found: list[tuple[Array, Array]] = []
    nodes, weights = _nodes(batches)
    for batch, weight in zip(nodes, weights, strict=True):
        time = float(sharing_step_s(row, np.array([batch]))[0])
        grid = _grid(row, batch, time)
        steps = row.step(np.full(min(grid.budget, grid.size - 1) + 1, batch), grid.grain * np.arange(min(grid.budget, grid.size - 1) + 1))
        if grid.budget < grid.size:
            steps[-1] *= backlog_factor(row, float(batch), time)
        law = _waiting_law(grid, row, steps, idle=False)
        found.append(_arrival_law(grid, row, law, now=steps, after=steps, weight=weight))
    found.extend(_empty_law(row, float(batches[0])))
    times, masses = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return _binned(times, masses / masses.sum())


def backlog_factor(row: _Row, batch: float, time: float) -> float:
    """How much longer a full step is per prompt token than `batch` sequences make it, because their number follows the backlog.

    `batch` [sequences], `time` [s] -> [1].
    While prompts wait they are done at the full rate, and sequences tend to n* = budget * decoded / (input + decoded), not to their mean.
    How far they get depends on two times: that of the backlog, 2 E[w^2] / E[w] / (1 - rho)^2 (relaxation of M/G/1 in heavy traffic), and
    that of a sequence's life: n = batch + (n* - batch) * backlog / (backlog + life). Both limits are right, the way between them is the
    simplest.
    """
    room = max(row.budget - batch, 1.0)

    def token_s(running: float) -> float:
        tokens = max(row.budget - running, 1.0)
        return float(row.step(np.array([running]), np.array([tokens]))[0]) / tokens

    alone = token_s(batch)
    rho = min(row.rate * row.mean_input * alone, 0.97)
    weighted = float(row.lengths**2 @ ATOM_WEIGHTS) / row.mean_input * alone
    relaxed = RELAXATION * weighted / (1.0 - rho) ** 2
    ends = min(row.budget * row.mean_decoded / (row.mean_input + row.mean_decoded), float(row.slots))
    running = batch + (ends - batch) * relaxed / (relaxed + row.mean_decoded * time)
    return token_s(min(running, row.budget - 0.05 * room)) / alone


def _empty_law(row: _Row, weight: float) -> list[tuple[Array, Array]]:
    """Requests that find nothing running: at once when idle, else after the prompt in work."""
    if weight <= 1e-9:
        return []
    grid = _grid(row, 0.0, float(sharing_step_s(row, np.zeros(1))[0]))
    count = min(grid.budget, grid.size - 1) + 1
    prompts = grid.grain * np.arange(count)
    now, after = row.step(np.zeros(count), prompts), row.step(np.full(count, 1.0 * (row.mean_decoded > 0)), prompts)
    law = _waiting_law(grid, row, now, idle=True)
    level = np.minimum(np.arange(grid.size), count - 1)
    idle_s = float(law[0]) / row.rate
    waiting = law.copy()
    waiting[0] = 0.0
    busy_s = float(waiting @ now[level])
    idle = weight * idle_s / (idle_s + busy_s)
    found = [(_spread(alone_s(row, row.lengths)), idle * np.repeat(ATOM_WEIGHTS / SUB_ATOMS, SUB_ATOMS))]
    if waiting.sum() > 0 and weight - idle > 1e-9:
        found.append(_arrival_law(grid, row, waiting / waiting.sum(), now=now, after=after, weight=weight - idle))
    return found


def _spread(atoms: Array) -> Array:
    """Each atom of a law as `SUB_ATOMS` equal ones along the straight lines between the atoms' middles, so that percentiles do not jump."""
    middles = 0.5 * (ATOM_EDGES[1:] + ATOM_EDGES[:-1])
    shares = ATOM_EDGES[:-1, None] + ATOM_WEIGHTS[:, None] * (np.arange(SUB_ATOMS) + 0.5) / SUB_ATOMS
    return np.asarray(np.interp(shares.ravel(), middles, atoms))


def _arrival_law(grid: _Grid, row: _Row, waiting: Array, *, now: Array, after: Array, weight: float) -> tuple[Array, Array]:
    """Times to first token for a request that comes in a step whose start found `waiting`; `now` times of that step, `after` of the next
    ones.
    """
    budget = now.size - 1
    level = np.minimum(np.arange(grid.size), budget)
    biased = waiting * now[level]
    by_level = np.bincount(level, biased, budget + 1) / biased.sum()
    left_over = np.zeros(grid.size)
    left_over[: grid.size - budget] = waiting[budget:]
    share_full = left_over.sum()
    step_means, shares = slice_means(now, by_level, GROUP_EDGES)
    own = np.fft.rfft(grid.lengths, n=2 * grid.size)
    behind = np.fft.rfft(left_over / share_full, n=2 * grid.size) if share_full > 1e-9 else None
    full_mass = float(by_level[budget]) if grid.budget < grid.size else 0.0
    groups: list[tuple[float, float, NDArray[np.complex128] | None]] = [
        (float(time), float(share), None) for time, share in zip(step_means, shares, strict=True)
    ]
    if full_mass > 1e-6 and behind is not None:
        partial = by_level.copy()
        partial[budget] = 0.0
        groups = [(float(now[budget]), full_mass, behind)]
        if partial.sum() > 1e-9:
            step_means, shares = slice_means(now, partial / partial.sum(), GROUP_EDGES)
            groups += [(float(time), float(share * partial.sum()), None) for time, share in zip(step_means, shares, strict=True)]
    times, masses = [], []
    for time, share, extra in groups:
        spectrum = own if extra is None else own * extra
        found_times, found_masses = _finish_law(grid, row, spectrum, time=time, after=after)
        times.append(found_times)
        masses.append(found_masses * share)
    all_times, all_masses = np.concatenate(times), np.concatenate(masses)
    return all_times, all_masses * (weight / all_masses.sum())


def _finish_law(grid: _Grid, row: _Row, spectrum: NDArray[np.complex128], *, time: float, after: Array) -> tuple[Array, Array]:
    """Times to first token from each of `PLACES` in a step of `time`: its rest, the full steps before, and the step that ends the prompt.

    `spectrum` is the transform of own prompt and what is left from before. Prompts that come later but before the step's end lengthen the
    last step.
    """
    size, budget = grid.size, after.size - 1
    before = spectrum * np.exp(row.rate * time * PLACES[:, None] * (grid.transform - 1.0))
    together = spectrum * np.exp(row.rate * time * (grid.transform - 1.0))
    law_before = np.maximum(np.fft.irfft(before, n=2 * size, axis=-1), 0.0)
    law_together = np.maximum(np.fft.irfft(together, n=2 * size), 0.0)
    rest = (1.0 - PLACES) * time
    soon_before, soon_together = law_before[:, : budget + 1].sum(axis=1), law_together[: budget + 1].sum()
    times = [rest[:, None] + after[None, :]]
    ratio = np.minimum(soon_before / max(soon_together, 1e-12), 1.0)
    masses = [law_together[None, : budget + 1] * ratio[:, None]]
    times.append((rest + after[budget])[:, None])
    masses.append(np.maximum(soon_before - ratio * soon_together, 0.0)[:, None])
    if budget + 1 < 2 * size:
        tokens = np.arange(budget + 1, 2 * size)
        full = (tokens - 1) // budget
        last = tokens - full * budget
        later = row.rate * time * (1.0 - PLACES[:, None]) * row.mean_input / grid.grain
        ending = np.interp(np.minimum(last[None, :] + later, budget), np.arange(budget + 1), after)
        times.append(rest[:, None] + full[None, :] * after[budget] + ending)
        masses.append(law_before[:, budget + 1 :])
    return np.concatenate(times, axis=1).ravel(), np.concatenate(masses, axis=1).ravel() / PLACES.size


def _binned(times: Array, masses: Array) -> tuple[Array, Array]:
    """The same law on few logarithmic bins, each at its mean."""
    kept = masses > 1e-12
    times, masses = times[kept], masses[kept]
    logs = np.log(times)
    low, high = float(logs.min()), float(logs.max())
    place = ((logs - low) * ((TIME_BINS - 1) / max(high - low, 1e-9))).astype(np.intp)
    mass = np.bincount(place, masses, TIME_BINS)
    moment = np.bincount(place, masses * times, TIME_BINS)
    used = mass > 0
    return moment[used] / mass[used], mass[used] / mass.sum()


def _with_slot_wait(row: _Row, times: Array, masses: Array, waits: float) -> tuple[Array, Array]:
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


def _decode_law(row: _Row, batches: Array, held: Array) -> tuple[Array, Array, Array]:
    """Tokens decoded, time from first to last token, and mass: arrays over (output, running, first token, score).

    Over its life a request meets steps that also carry prompts of others: of those that come in that time, and of those that came while its
    own prompt held up the replica and now are behind it. With g the step without them and rho their share, a life of m tokens after a first
    token in `held` h is a delay cycle: mean m g + rho (m g + h) / (1 - rho), variance rate E[w^2] (m g + h) / (1 - rho)^3 (Takacs); the
    part of the prompts is taken as gamma by Wilson and Hilferty, and no step is longer than a full one. Of h the rest of the step that the
    request came in is not counted.
    """
    nodes, weights = _nodes(batches)
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


def _crowded_step_s(row: _Row, nodes: Array) -> Array:
    """Mean step when all slots are taken and change hands: no more prompts than that come beside a sequence, whatever waits; those whose
    lives are short change hands more often, E[life^2] / E[life]^2 times as many.
    """
    outputs = row.load.output_tokens[0]
    often = float((outputs**2) @ ATOM_WEIGHTS / (outputs @ ATOM_WEIGHTS) ** 2)
    prefill = max(float(np.ceil(row.lengths / row.budget) @ ATOM_WEIGHTS), 1.0)
    entering = min(row.slots / (row.mean_decoded + prefill) * row.mean_input * often, row.budget)
    return row.step(np.full_like(nodes, float(row.slots)), np.full_like(nodes, entering), mean=True)


def quantiles(values: Array, masses: Array, shares: Array) -> Array:
    """Weighted quantiles: linear between the middles of small masses, flat inside those over 2 %.

    `values` [any], `masses`, `shares` [1] -> [any].
    """
    order = np.argsort(values)
    values, masses = values[order], masses[order] / masses.sum()
    ends = np.cumsum(masses)
    inset = np.minimum(0.5 * masses, 0.01)
    points = np.stack([ends - masses + inset, ends - inset], axis=1).ravel()
    found: Array = np.interp(shares, points, np.repeat(values, 2))
    return found
