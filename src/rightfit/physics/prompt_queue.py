"""The prompt tokens that wait at the start of a step, and how long the first token
of a request takes.

Given the number n of running sequences, the prompt tokens Q that wait form a Markov chain
from step to step:
Q' = max(Q - budget, 0) + what arrives in step_s(n, min(Q, budget)), compound Poisson, solved on a
grid of tokens. A request that comes at a random moment (length-biased step, uniform place in it)
waits for the rest of that step and for the steps that work off what is before it and itself.

Source: docs/decisions/serving-load.md.

Discrete laws as values with masses: means of slices, sums in bins, quantiles.

Source: ours; docs/decisions/serving-load.md.

How many sequences a replica runs at once under Poisson arrivals, and how long a
request waits for a slot.

The number of running sequences n changes slowly, over the life of a request: a birth-death process
whose death rate is n / (steps per request * s(n)), s(n) being the step with its share of prompts;
for processor sharing its stationary law does not depend on the law of service (F. Kelly,
Reversibility and Stochastic Networks, 1979, section 3.3). When all slots are taken a request waits
as in M/M/c, scaled for bursts and outputs (`queue_factor`; Kingman 1961, Lee and Longton 1959).

Source: Kelly 1979, Kingman 1961, Lee and Longton 1959; docs/decisions/serving-load.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array
from rightfit.physics.queueing import ATOM_EDGES, ATOM_WEIGHTS, LoadColumns, ReplicaColumns, RunningSteps, step_s
from rightfit.records import dataclass

TIME_BINS = 2400


def slice_means(values: Array, masses: Array, edges: Array) -> tuple[Array, Array]:
    """Mean of `values` (ascending, with `masses` that sum to 1) in each slice between `edges` of
    the cumulated mass.

    `values` [any], `masses`, `edges` [1] -> [any].

    Source: ours; docs/decisions/serving-load.md.
    """
    cumulated = np.concatenate([[0.0], np.cumsum(masses)])
    cumulated[-1] = 1.0
    moments = np.concatenate([[0.0], np.cumsum(masses * values)])
    at = np.interp(edges, cumulated, moments)
    return np.diff(at) / np.diff(edges), np.diff(edges)


def binned(times: Array, masses: Array) -> tuple[Array, Array]:
    """The law of `times` [s] with `masses` [1] on few logarithmic bins, each at
    its mean -> [s], [1].

    Source: ours; docs/decisions/serving-load.md.
    """
    kept = masses > 1e-12
    times, masses = times[kept], masses[kept]
    logs = np.log(times)
    low, high = float(logs.min()), float(logs.max())
    place = ((logs - low) * ((TIME_BINS - 1) / max(high - low, 1e-9))).astype(np.intp)
    mass = np.bincount(place, masses, TIME_BINS)
    moment = np.bincount(place, masses * times, TIME_BINS)
    used = mass > 0
    return moment[used] / mass[used], mass[used] / mass.sum()


def quantiles(values: Array, masses: Array, shares: Array) -> Array:
    """Weighted quantiles: linear between the middles of small masses, flat inside those over 2 %.

    `values` [any], `masses`, `shares` [1] -> [any].

    Source: ours; docs/decisions/serving-load.md.
    """
    order = np.argsort(values)
    values, masses = values[order], masses[order] / masses.sum()
    ends = np.cumsum(masses)
    inset = np.minimum(0.5 * masses, 0.01)
    points = np.stack([ends - masses + inset, ends - inset], axis=1).ravel()
    found: Array = np.interp(shares, points, np.repeat(values, 2))
    return found


SPARE_STATES = 40


@dataclass(frozen=True, slots=True)
class LoadedReplica:
    """One replica and its load as plain numbers.

    Units: `rate` [requests/s], `slots` [sequences], `budget`, `mean_input`, `mean_decoded`,
    `context`, `piece`, `lengths` [tokens], `pairs_per_token` [pairs/token].
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

    def step(self, sequences: NDArray[Any], prompt_tokens: NDArray[Any], *, past: NDArray[Any] | float = 1.0) -> Array:
        """Step time for `sequences` [sequences] and `prompt_tokens` [tokens] of the same shape ->
        [s]. `past` [1] of the mean that a prompt token attends to: less at the head of a prompt.

        Source: Kelly 1979, Kingman 1961, Lee and Longton 1959; docs/decisions/serving-load.md.
        """
        shape = np.broadcast_shapes(np.shape(sequences), np.shape(prompt_tokens))
        sequences, prompt_tokens = np.broadcast_to(sequences, shape), np.broadcast_to(prompt_tokens, shape)
        time: Array = step_s(
            self.replicas,
            sequences=sequences[None],
            cached=sequences[None] * self.context,
            prompt_tokens=prompt_tokens[None],
            prompt_pairs=(prompt_tokens * past)[None] * self.pairs_per_token,
        )[0]
        return time

    def mean_step(self, sequences: Array) -> Callable[[Array], Array]:
        """The mean of many steps with `sequences` [sequences] by the prompt tokens that each gets
        on average: [tokens] -> [s].

        Source: Kelly 1979, Kingman 1961, Lee and Longton 1959; docs/decisions/serving-load.md.
        """
        running = RunningSteps.of(self.replicas, sequences=sequences[None], cached=sequences[None] * self.context)
        pieces = self.replicas.pieces(np.full((1,) * (sequences.ndim + 1), self.piece))

        def of(prompt_tokens: Array) -> Array:
            tokens = prompt_tokens[None]
            time: Array = running.mean_s(pieces, prompt_tokens=tokens, prompt_pairs=tokens * self.pairs_per_token)[0]
            return time

        return of


def sharing_step_s(row: LoadedReplica, sequences: Array) -> Array:
    """Mean step with `sequences` running when prompts come at the row's rate: s = step(n, rate *
    s * input), prompts up to the budget.

    `sequences` [sequences] -> [s].
    By iteration from below, each second step extrapolated (Aitken).

    Source: Kelly 1979, Kingman 1961, Lee and Longton 1959; docs/decisions/serving-load.md.
    """
    most = np.maximum(row.budget - sequences, 1.0)
    step = row.mean_step(sequences)

    def once(time: Array) -> Array:
        # An empty step is nothing, which rounding may put just below.
        return np.maximum(step(np.minimum(row.rate * time * row.mean_input, most)), 0.0)

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


def batch_law(row: LoadedReplica) -> tuple[Array, float]:
    """Probabilities in time of 0, 1, ... slots running sequences, and the share of requests that
    find no slot -> [1], [1].

    A birth-death process without a limit gives mean and variance; prompts that hold up all running
    sequences let requests pile up behind them, which widens the law (`families`): a negative
    binomial of that mean and variance. At the slots it is cut and goes on as the geometric queue of
    M/M/c: how many wait hardly depends on the law of service, how long they do does
    (`queue_factor`).

    Source: Kelly 1979, Kingman 1961, Lee and Longton 1959; docs/decisions/serving-load.md.
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


def _birth_death(row: LoadedReplica, sequences: Array) -> Array:
    """Stationary law of 0 and `sequences` running, without a limit on slots."""
    death = sequences / (sharing_step_s(row, sequences) * row.mean_decoded)
    birth = np.full(sequences.size, row.rate)
    birth[0] = 1.0 / (1.0 / row.rate + float(alone_s(row, row.lengths) @ ATOM_WEIGHTS))
    logs = np.concatenate([[0.0], np.cumsum(np.log(birth / death))])
    chances = np.exp(logs - logs.max())
    return np.asarray(chances / chances.sum())


def freed_per_s(row: LoadedReplica) -> float:
    """Rate at which slots become free when all are taken: slots / (step * steps that a request
    holds one) -> [1/s].

    Source: Kelly 1979, Kingman 1961, Lee and Longton 1959; docs/decisions/serving-load.md.
    """
    prefill = max(float(np.ceil(row.lengths / row.budget) @ ATOM_WEIGHTS), 1.0)
    held = row.mean_decoded + prefill
    running = np.array([row.slots * row.mean_decoded / held])
    prompts = np.minimum(row.slots / held * row.mean_input, row.budget)
    return row.slots / (float(row.mean_step(running)(np.array([prompts]))[0]) * held)


def families(row: LoadedReplica, batch: float) -> float:
    """E[N^2] / E[N] of the clusters in which requests come to decode: those that arrive while a
    prompt holds up decoding.

    `batch` [sequences] -> [1].
    With rho the share of time that goes to prompts, a cluster is the family of a branching process:
    mean 1 / (1 - rho), variance (rho + rho^2 cv^2) / (1 - rho)^3 (T. Harris, The Theory of
    Branching Processes, 1963). For batch arrivals at M/G/infinity variance / mean is 1
    + (E[N^2] / E[N] - 1) E[min(X, X')] / E[X] for two lives X, X'.

    Source: Kelly 1979, Kingman 1961, Lee and Longton 1959; docs/decisions/serving-load.md.
    """
    running = np.array([max(batch, 1.0)])
    rho = min(1.0 - float(row.step(running, np.zeros(1))[0]) / float(sharing_step_s(row, running)[0]), 0.95)
    scv = float(row.lengths**2 @ ATOM_WEIGHTS / (row.lengths @ ATOM_WEIGHTS) ** 2 - 1.0)
    return 1.0 / (1.0 - rho) + (rho + rho**2 * scv) / (1.0 - rho) ** 2


def queue_factor(row: LoadedReplica, family: float) -> float:
    """How much longer than in M/M/c the queue for slots is: (ca^2 + cs^2) / 2 of Kingman's bound,
    cs^2 of the outputs.

    `family` [1] -> [1].
    ca^2 is the root of `families`, an empirical choice: with 1 the queue came out 20 % short in
    simulation, with the whole 50 % long.

    Source: Kelly 1979, Kingman 1961, Lee and Longton 1959; docs/decisions/serving-load.md.
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


def alone_s(row: LoadedReplica, lengths: Array) -> Array:
    """Time of prompts of those lengths on a replica with nothing else to do.

    `lengths` [tokens] -> [s].

    Source: Kelly 1979, Kingman 1961, Lee and Longton 1959; docs/decisions/serving-load.md.
    """
    if not math.isfinite(row.budget):
        return row.step(np.zeros_like(lengths), lengths)
    full = np.maximum(np.ceil(lengths / row.budget) - 1.0, 0.0)
    whole = float(row.step(np.zeros(1), np.array([row.budget]))[0])
    return row.step(np.zeros_like(lengths), lengths - full * row.budget) + full * whole


GRID = 112
#: Relaxation time of M/M/1 in heavy traffic over E[w^2] / E[w] / (1 - rho)^2.
RELAXATION = 2.0
SUB_ATOMS = 12
PLACES = (np.arange(6) + 0.5) / 6.0
GROUP_EDGES = np.array([0.0, 0.15, 0.35, 0.55, 0.75, 0.90, 0.96, 0.985, 0.995, 1.0])
BATCH_EDGES = np.array([0.0, 0.25, 0.5, 0.75, 0.92, 1.0])


def batch_nodes(chances: Array) -> tuple[Array, Array]:
    """A few batch sizes with their weights that stand for the law `chances` [1] of n >= 1: means of
    slices of it -> [sequences], [1]."""
    weights = chances[1:]
    total = weights.sum()
    if total <= 1e-12:
        return np.zeros(0), np.zeros(0)
    return slice_means(np.arange(1, chances.size, dtype=np.float64), weights / total, BATCH_EDGES)[0], np.diff(BATCH_EDGES) * total


@dataclass(frozen=True, slots=True)
class _Grid:
    """Tokens in grains: `grain` tokens each, `size` of them, `budget` per turn in grains, a turn
    being `span` full steps: more than one where prompts take very many; `lengths` the prompt law
    and its transform.

    Units: `grain` [tokens], `size`, `budget`, `span`, `lengths`, `transform` [1].
    """

    grain: float
    size: int
    budget: int
    span: int
    lengths: Array
    transform: NDArray[np.complex128]

    def turns_s(self, row: LoadedReplica, batch: float) -> Array:
        """Time of a turn beside `batch` sequences with 0, 1, ... grains of prompts -> [s]."""
        tokens = self.grain * np.arange(min(self.budget, self.size - 1) + 1)
        if self.span == 1:
            return row.step(np.full(tokens.size, batch), tokens)
        each = self.grain * self.budget / self.span
        full = np.floor(tokens / each * (1.0 + 1e-12))
        rest = np.maximum(tokens - full * each, 0.0)
        last = np.where((rest > 0) | (full < 1), row.step(np.full(tokens.size, batch), rest), 0.0)
        return np.asarray(full * float(row.step(np.array([batch]), np.array([each]))[0]) + last)

    def arrivals(self, exposure: Array) -> Array:
        """Law of the tokens of Poisson(exposure) prompts, shape (..., size); what is beyond the
        grid is put on its last place."""
        spectrum = np.exp(exposure[..., None] * (self.transform - 1.0))
        law = np.maximum(np.fft.irfft(spectrum, n=2 * self.size, axis=-1), 0.0)
        kept = law[..., : self.size].copy()
        kept[..., -1] += law[..., self.size :].sum(axis=-1)
        return np.asarray(kept / kept.sum(axis=-1, keepdims=True))


def _grid(row: LoadedReplica, batch: float, time: float) -> _Grid:
    """A grid wide enough for what waits at `batch`."""
    lengths = row.lengths
    squared = float(lengths**2 @ ATOM_WEIGHTS)
    budget = max(row.budget - batch, 1.0)
    flow = row.rate * time * row.mean_input
    alone = float(alone_s(row, lengths) @ ATOM_WEIGHTS)  # nothing runs beside: prompts take all the time there is
    prompts = 1.0 - float(row.step(np.array([batch]), np.zeros(1))[0]) / time if batch > 0 else row.rate * alone
    used = min(max(flow / budget, prompts), 0.95)
    spread = math.sqrt(max(row.rate * time * squared, 0.0) / (1.0 - used**2))  # an empty step may round to just below nothing
    backlog = squared / row.mean_input * used**2 / (1.0 - used)
    reach = float(lengths.max()) + 2.0 * flow + 6.0 * spread + 4.0 * backlog
    size = GRID
    grain = reach / size
    places, span = size, 1
    if budget < reach:
        places = max(round(budget / grain), 1)
        span = max(math.ceil(grain / budget), 1) if math.isfinite(row.budget) else 1
        grain = span * budget / places
        size = min(math.ceil(reach / grain), 2 * GRID)
    place = np.minimum(lengths / grain, size - 1.0)
    low = np.minimum(place.astype(np.intp), size - 2)
    spread_over = np.bincount(low, ATOM_WEIGHTS * (1.0 - (place - low)), size) + np.bincount(low + 1, ATOM_WEIGHTS * (place - low), size)
    law: Array = spread_over.astype(np.float64)
    return _Grid(grain, size, places, span, law, np.fft.rfft(law, n=2 * size))


def _waiting_law(grid: _Grid, row: LoadedReplica, times: Array, *, idle: bool) -> Array:
    """Stationary law of the tokens that wait at the start of a step; `times` of steps with 0,
    1, ... grains of prompts."""
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


def prefill_law(row: LoadedReplica, batches: Array) -> tuple[Array, Array]:
    """Times from arrival to first token for requests that find a slot, with their masses; `batches`
    [1] the law of running sequences -> [s], [1]."""
    found: list[tuple[Array, Array]] = []
    nodes, weights = batch_nodes(batches)
    for batch, weight in zip(nodes, weights, strict=True):
        time = float(sharing_step_s(row, np.array([batch]))[0])
        grid = _grid(row, batch, time)
        steps = grid.turns_s(row, float(batch))
        if grid.budget < grid.size:
            steps[-1] *= backlog_factor(row, float(batch), time)
        law = _waiting_law(grid, row, steps, idle=False)
        found.append(_arrival_law(grid, row, law, now=steps, after=steps, weight=weight))
    found.extend(_empty_law(row, float(batches[0])))
    times, masses = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return binned(times, masses / masses.sum())


def backlog_factor(row: LoadedReplica, batch: float, time: float) -> float:
    """How much longer a full step is per prompt token than `batch` sequences make it, because their
    number follows the backlog.

    `batch` [sequences], `time` [s] -> [1].
    While prompts wait they are done at the full rate, and sequences tend to n* = budget * decoded /
    (input + decoded), not to their mean. How far they get depends on two times: that of the
    backlog, 2 E[w^2] / E[w] / (1 - rho)^2 (relaxation of M/G/1 in heavy traffic), and that of a
    sequence's life: n = batch + (n* - batch) * backlog / (backlog + life). Both limits are right,
    the way between them is the simplest.
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


def _empty_law(row: LoadedReplica, weight: float) -> list[tuple[Array, Array]]:
    """Requests that find nothing running: at once when idle, else after the prompt in work."""
    if weight <= 1e-9:
        return []
    grid = _grid(row, 0.0, float(sharing_step_s(row, np.zeros(1))[0]))
    now, after = grid.turns_s(row, 0.0), grid.turns_s(row, 1.0 * (row.mean_decoded > 0))
    count = now.size
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
    """Each atom of a law as `SUB_ATOMS` equal ones along the straight lines between the atoms'
    middles, so that percentiles do not jump."""
    middles = 0.5 * (ATOM_EDGES[1:] + ATOM_EDGES[:-1])
    shares = ATOM_EDGES[:-1, None] + ATOM_WEIGHTS[:, None] * (np.arange(SUB_ATOMS) + 0.5) / SUB_ATOMS
    return np.asarray(np.interp(shares.ravel(), middles, atoms))


def _arrival_law(grid: _Grid, row: LoadedReplica, waiting: Array, *, now: Array, after: Array, weight: float) -> tuple[Array, Array]:
    """Times to first token for a request that comes in a step whose start found `waiting`; `now`
    times of that step, `after` of the next ones.
    """
    budget = now.size - 1
    level = np.minimum(np.arange(grid.size), budget)
    biased = waiting * now[level]
    by_level = np.bincount(level, biased, budget + 1) / biased.sum()
    left_over = np.zeros(grid.size)
    left_over[: grid.size - budget] = waiting[budget:]
    share_full = left_over.sum()
    step_means, shares = slice_means(now, by_level, GROUP_EDGES)
    own = grid.transform
    behind = np.fft.rfft(left_over / share_full, n=2 * grid.size) if share_full > 1e-9 else None
    full_mass = float(by_level[budget]) if grid.budget < grid.size else 0.0
    spectra = [own] * step_means.size
    if full_mass > 1e-6 and behind is not None:
        partial = by_level.copy()
        partial[budget] = 0.0
        spectra, step_means, shares = [own * behind], now[budget:], np.array([full_mass])
        if partial.sum() > 1e-9:
            partial_means, partial_shares = slice_means(now, partial / partial.sum(), GROUP_EDGES)
            spectra += [own] * partial_means.size
            step_means = np.concatenate([step_means, partial_means])
            shares = np.concatenate([shares, partial_shares * partial.sum()])
    times, masses = _finish_law(grid, row, np.stack(spectra), times=step_means, after=after)
    masses = masses * shares[:, None]
    return times.ravel(), (masses * (weight / masses.sum())).ravel()


def _finish_law(grid: _Grid, row: LoadedReplica, spectra: NDArray[np.complex128], *, times: Array, after: Array) -> tuple[Array, Array]:
    """Times to first token from each of `PLACES` in steps of `times` (G,), with their masses, both
    (G, ...): the step's rest, the full steps before, and the step that ends the prompt.

    `spectra` (G, ...) are the transforms of own prompt and what is left from before. Prompts that
    come later but before the step's end lengthen the last step.
    """
    size, budget = grid.size, after.size - 1
    exposure, thinned = row.rate * times[:, None, None], grid.transform - 1.0
    before = spectra[:, None, :] * np.exp(exposure * PLACES[:, None] * thinned)
    together = spectra * np.exp(exposure[:, 0] * thinned)
    law_before = np.maximum(np.fft.irfft(before, n=2 * size, axis=-1), 0.0)
    law_together = np.maximum(np.fft.irfft(together, n=2 * size, axis=-1), 0.0)
    rest = (1.0 - PLACES) * times[:, None]
    soon_before, soon_together = law_before[..., : budget + 1].sum(axis=-1), law_together[:, : budget + 1].sum(axis=-1)[:, None]
    ratio = np.minimum(soon_before / np.maximum(soon_together, 1e-12), 1.0)
    found = [rest[..., None] + after, (rest + after[budget])[..., None]]
    masses = [law_together[:, None, : budget + 1] * ratio[..., None], np.maximum(soon_before - ratio * soon_together, 0.0)[..., None]]
    if budget + 1 < 2 * size:
        tokens = np.arange(budget + 1, 2 * size)
        full = (tokens - 1) // budget
        last = tokens - full * budget
        later = exposure * (1.0 - PLACES[:, None]) * row.mean_input / grid.grain
        ending = np.interp(np.minimum(last + later, budget), np.arange(budget + 1), after)
        found.append(rest[..., None] + full * after[budget] + ending)
        masses.append(law_before[..., budget + 1 :])
    flat = (times.size, -1)
    return np.concatenate(found, axis=-1).reshape(flat), np.concatenate(masses, axis=-1).reshape(flat) / PLACES.size
