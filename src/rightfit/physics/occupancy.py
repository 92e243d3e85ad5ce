"""How many sequences a replica runs at once under Poisson arrivals, and how long a request waits for a slot.

The number of running sequences n changes slowly, over the life of a request: a birth-death process whose death rate is
n / (steps per request * s(n)), s(n) being the step with its share of prompts; for processor sharing its stationary law does not depend on
the law of service (F. Kelly, Reversibility and Stochastic Networks, 1979, section 3.3). When all slots are taken a request waits as in
M/M/c, scaled for bursts and outputs (`queue_factor`; Kingman 1961, Lee and Longton 1959).

Source: Kelly 1979, Kingman 1961, Lee and Longton 1959; docs/decisions/serving-load.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.queueing import ATOM_WEIGHTS, LoadColumns
from rightfit.physics.replicas import ReplicaColumns, RunningSteps, step_s
from rightfit.records import dataclass

Array = NDArray[np.float64]

SPARE_STATES = 40


@dataclass(frozen=True, slots=True)
class LoadedReplica:
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

    def step(self, sequences: NDArray[Any], prompt_tokens: NDArray[Any]) -> Array:
        """Step time for `sequences` [sequences] and `prompt_tokens` [tokens] of the same shape -> [s]."""
        shape = np.broadcast_shapes(np.shape(sequences), np.shape(prompt_tokens))
        sequences, prompt_tokens = np.broadcast_to(sequences, shape), np.broadcast_to(prompt_tokens, shape)
        time: Array = step_s(
            self.replicas,
            sequences=sequences[None],
            cached=sequences[None] * self.context,
            prompt_tokens=prompt_tokens[None],
            prompt_pairs=prompt_tokens[None] * self.pairs_per_token,
        )[0]
        return time

    def mean_step(self, sequences: Array) -> Callable[[Array], Array]:
        """The mean of many steps with `sequences` [sequences] by the prompt tokens that each gets on average: [tokens] -> [s]."""
        running = RunningSteps.of(self.replicas, sequences=sequences[None], cached=sequences[None] * self.context)
        pieces = self.replicas.pieces(np.full((1,) * (sequences.ndim + 1), self.piece))

        def of(prompt_tokens: Array) -> Array:
            tokens = prompt_tokens[None]
            time: Array = running.mean_s(pieces, prompt_tokens=tokens, prompt_pairs=tokens * self.pairs_per_token)[0]
            return time

        return of


def sharing_step_s(row: LoadedReplica, sequences: Array) -> Array:
    """Mean step with `sequences` running when prompts come at the row's rate: s = step(n, rate * s * input), prompts up to the budget.

    `sequences` [sequences] -> [s].
    By iteration from below, each second step extrapolated (Aitken).
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


def _birth_death(row: LoadedReplica, sequences: Array) -> Array:
    """Stationary law of 0 and `sequences` running, without a limit on slots."""
    death = sequences / (sharing_step_s(row, sequences) * row.mean_decoded)
    birth = np.full(sequences.size, row.rate)
    birth[0] = 1.0 / (1.0 / row.rate + float(alone_s(row, row.lengths) @ ATOM_WEIGHTS))
    logs = np.concatenate([[0.0], np.cumsum(np.log(birth / death))])
    chances = np.exp(logs - logs.max())
    return np.asarray(chances / chances.sum())


def freed_per_s(row: LoadedReplica) -> float:
    """Rate at which slots become free when all are taken: slots / (step * steps that a request holds one) -> [1/s]."""
    prefill = max(float(np.ceil(row.lengths / row.budget) @ ATOM_WEIGHTS), 1.0)
    held = row.mean_decoded + prefill
    running = np.array([row.slots * row.mean_decoded / held])
    prompts = np.minimum(row.slots / held * row.mean_input, row.budget)
    return row.slots / (float(row.mean_step(running)(np.array([prompts]))[0]) * held)


def families(row: LoadedReplica, batch: float) -> float:
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


def queue_factor(row: LoadedReplica, family: float) -> float:
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


def alone_s(row: LoadedReplica, lengths: Array) -> Array:
    """Time of prompts of those lengths on a replica with nothing else to do.

    `lengths` [tokens] -> [s].
    """
    if not math.isfinite(row.budget):
        return row.step(np.zeros_like(lengths), lengths)
    full = np.maximum(np.ceil(lengths / row.budget) - 1.0, 0.0)
    whole = float(row.step(np.zeros(1), np.array([row.budget]))[0])
    return row.step(np.zeros_like(lengths), lengths - full * row.budget) + full * whole
