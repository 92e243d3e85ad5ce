"""Mean values of a replica under load: how many sequences run, how long a step takes, and the rate
beyond which queues grow without end.

All follows from one unknown, x: requests that enter per step. A step with x new requests has x *
(output - 1) sequences that decode and x * input prompt tokens; it takes s(x), so requests pass at
the rate x / s(x). Below saturation that rate is the arrival rate; at saturation a limit holds:
slots, cache, or tokens in a step. Vectorised over candidates. The waiting-time laws built on this
are in `waiting`.

Source: Little 1961, Yu et al. 2022 (Orca); docs/decisions/serving-load.md.

What queueing and simulation know about one replica: how long a step takes, and
how much it may hold.

A continuous-batching engine works in steps. In each it computes one token for every running
sequence and, in what is left of its token budget, pieces of waiting prompts (G.-I. Yu et al.,
Orca, OSDI 2022; A. Agrawal et al., Sarathi-Serve, OSDI 2024). The time of a step is
table(sequences) + cache_token_s * cached tokens read + stall * (prompt table(prompt tokens) +
prompt_pair_s * pairs of prompt tokens): a prompt holds up the sequences beside it by the time that
it takes, as the serving physics was fitted (`interference`). A step without sequences is the
prompt's alone and saves `empty_s`.

Source: Yu et al. 2022 (Orca), Agrawal et al. 2024 (Sarathi-Serve); docs/decisions/serving-load.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaColumns:
    """Step times and limits of N replicas.

    `table_tokens` (G,) ascending counts of sequences and `table_s` (N, G) [s] the time of a step
    with that many and an empty cache; `prompt_tokens` (P,) and `prompt_s` (N, P) [s] what so many
    prompt tokens add (both linear between two points, beyond the last with its slope; no tokens add
    nothing, whatever the table begins with); `stall` (N,) the share of that which a step with
    sequences pays; `empty_s` (N,) what a step without sequences saves of table(0); `cache_token_s`,
    `prompt_pair_s`, `request_s` (N,) [s] per cached token that a step reads, per pair of a prompt
    token and one before it, and once per request before its first token. `max_batch` sequences at
    most; `chunk_tokens` tokens in a step at most (0 = no limit); `cache_tokens` that the cache
    holds (0 = no limit); `cache_reserve` the share of the output for which room is kept when a
    request is admitted (1 = never evicted, 0 as vLLM).

    Units: `table_tokens`, `max_batch` [sequences], `table_s`, `prompt_s`, `empty_s`,
    `cache_token_s`, `prompt_pair_s`, `request_s` [s], `prompt_tokens`, `chunk_tokens`,
    `cache_tokens` [tokens], `stall`, `cache_reserve` [1].
    """

    table_tokens: Array
    table_s: Array
    prompt_tokens: Array
    prompt_s: Array
    stall: Array
    empty_s: Array
    cache_token_s: Array
    prompt_pair_s: Array
    request_s: Array
    max_batch: Array
    chunk_tokens: Array
    cache_tokens: Array
    cache_reserve: Array

    @classmethod
    def linear(
        cls,
        *,
        overhead_s: object,
        batch_s: object = 0.0,
        cache_token_s: object = 0.0,
        prompt_token_s: object = 0.0,
        prompt_pair_s: object = 0.0,
        request_s: object = 0.0,
        max_batch: object,
        chunk_tokens: object,
        cache_tokens: object = 0.0,
        cache_reserve: object = 1.0,
    ) -> Self:
        """Replicas whose step is overhead + batch_s * sequences + cache_token_s * cached +
        prompt_token_s * prompt tokens.

        `overhead_s`, `batch_s`, `cache_token_s`, `prompt_token_s`, `prompt_pair_s`, `request_s`
        [s], `max_batch` [sequences], `chunk_tokens`, `cache_tokens` [tokens], `cache_reserve` [1].

        Source: Yu et al. 2022 (Orca), Agrawal et al. 2024 (Sarathi-Serve);
        docs/decisions/serving-load.md.
        """
        values = np.broadcast_arrays(
            *(np.atleast_1d(np.asarray(value, dtype=np.float64)) for value in (overhead_s, batch_s, prompt_token_s, cache_token_s)),
            *(
                np.atleast_1d(np.asarray(value, dtype=np.float64))
                for value in (prompt_pair_s, request_s, max_batch, chunk_tokens, cache_tokens, cache_reserve)
            ),
        )
        overhead, batch, prompt, cache, *rest = (np.array(value) for value in values)
        ends, none = np.array([0.0, 1.0]), np.zeros_like(overhead)
        tables = np.stack([overhead, overhead + batch], axis=1), np.stack([none, prompt], axis=1)
        return cls(ends, tables[0], ends, tables[1], none + 1.0, none, cache, *rest)

    @property
    def num_rows(self) -> int:
        """How many replicas -> [rows].

        Source: Yu et al. 2022 (Orca), Agrawal et al. 2024 (Sarathi-Serve);
        docs/decisions/serving-load.md.
        """
        return int(self.table_s.shape[0])

    def take(self, index: NDArray[np.intp]) -> Self:
        """Rows `index`.

        Source: Yu et al. 2022 (Orca), Agrawal et al. 2024 (Sarathi-Serve);
        docs/decisions/serving-load.md.
        """
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        shared = ("table_tokens", "prompt_tokens")
        return type(self)(**{name: value if name in shared else value[index] for name, value in values.items()})

    def sequences_s(self, sequences: Array) -> Array:
        """Step with `sequences` (N, ...) of each row, an empty cache and no prompts; with none of
        them what a prompt's own step has beside it.

        `sequences` [sequences] -> [s].

        Source: Yu et al. 2022 (Orca), Agrawal et al. 2024 (Sarathi-Serve);
        docs/decisions/serving-load.md.
        """
        rows = (-1,) + (1,) * (np.ndim(sequences) - 1)
        time: Array = interpolated(self.table_tokens, self.table_s, sequences) - np.where(sequences > 0, 0.0, self.empty_s.reshape(rows))
        return time

    def prompts_s(self, tokens: Array) -> Array:
        """What `tokens` (N, ...) of prompts of each row take, attention over their own past apart.

        `tokens` [tokens] -> [s].

        Source: Yu et al. 2022 (Orca), Agrawal et al. 2024 (Sarathi-Serve);
        docs/decisions/serving-load.md.
        """
        return np.where(tokens > 0, interpolated(self.prompt_tokens, self.prompt_s, tokens), 0.0)

    def pieces(self, piece: Array) -> Pieces:
        """What prompts cost that come in pieces of `piece` (N, ...) tokens.

        `piece` [tokens].

        Source: Yu et al. 2022 (Orca), Agrawal et al. 2024 (Sarathi-Serve);
        docs/decisions/serving-load.md.
        """
        one = self.prompts_s(piece)
        slope = (self.prompts_s(4.0 * piece) - one) / (3.0 * piece)
        return Pieces(piece, one - slope * piece, slope)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Prompts that come in pieces: P(x) = first_s + token_s * x for x of one piece and more,
    over the same rows.

    Units: `tokens` [tokens], `first_s`, `token_s` [s].
    """

    tokens: Array
    first_s: Array
    token_s: Array

    def mean_s(self, tokens: Array, *, alone: NDArray[np.bool_]) -> Array:
        """Mean of `prompts_s` over steps which get a Poisson number of pieces, `tokens`
        (N, ...) in the mean.

        `tokens` [tokens], `alone` [flag] -> [s].
        With P(x) = a + b x beyond one piece: E P = a p + b tokens, p = 1 - exp(-tokens / piece) the
        share of steps with a piece. Where prompts are `alone` there is no step without one: E P /
        p. Exact for a straight table.

        Source: Yu et al. 2022 (Orca), Agrawal et al. 2024 (Sarathi-Serve);
        docs/decisions/serving-load.md.
        """
        share = -np.expm1(-np.maximum(tokens / self.tokens, 1e-9))
        return np.asarray(self.first_s * np.where(alone, 1.0, share) + self.token_s * tokens / np.where(alone, share, 1.0))


def interpolated(grid: Array, table: Array, places: Array) -> Array:
    """Values of a table (N, G) over `grid` (G,) at `places` (N, ...) of each row; beyond the last
    point with its slope.

    `grid`, `places` [any], `table` [any] -> [any].

    Source: Yu et al. 2022 (Orca), Agrawal et al. 2024 (Sarathi-Serve);
    docs/decisions/serving-load.md.
    """
    place = grid[1:-1].searchsorted(places, side="right")
    if table.shape[0] == 1:
        left, right = table[0][place], table[0][place + 1]
    else:
        rows = np.arange(table.shape[0]).reshape((-1,) + (1,) * (np.ndim(places) - 1))
        left, right = table[rows, place], table[rows, place + 1]
    start = grid[place]
    value: Array = left + (right - left) / (grid[place + 1] - start) * (places - start)
    return value


@dataclass(frozen=True, slots=True)
class RunningSteps:
    """Steps of N replicas with the same sequences, whatever prompts come beside them.

    Units: `own_s` [s] without prompts, `stall` [1], `pair_s` [s], `alone` [flag]
    whether no sequence runs.
    """

    own_s: Array
    stall: Array
    pair_s: Array
    alone: NDArray[np.bool_]

    @classmethod
    def of(cls, replicas: ReplicaColumns, *, sequences: Array, cached: Array) -> Self:
        """`sequences` [sequences, (N, ...)] that get a token, `cached` [tokens] that they read.

        Source: Yu et al. 2022 (Orca), Agrawal et al. 2024 (Sarathi-Serve);
        docs/decisions/serving-load.md.
        """
        shape = (-1,) + (1,) * (np.ndim(sequences) - 1)
        running = sequences > 0
        return cls(
            replicas.sequences_s(sequences) + replicas.cache_token_s.reshape(shape) * cached,
            np.where(running, replicas.stall.reshape(shape), 1.0),
            replicas.prompt_pair_s.reshape(shape),
            ~running,
        )

    def mean_s(self, pieces: Pieces, *, prompt_tokens: Array, prompt_pairs: Array) -> Array:
        """Mean over many steps that get so many prompt tokens on average, in pieces.

        `prompt_tokens` [tokens], `prompt_pairs` [pairs] of a prompt token and one before it -> [s].

        Source: Yu et al. 2022 (Orca), Agrawal et al. 2024 (Sarathi-Serve);
        docs/decisions/serving-load.md.
        """
        return self.own_s + self.stall * (pieces.mean_s(prompt_tokens, alone=self.alone) + self.pair_s * prompt_pairs)


def step_s(replicas: ReplicaColumns, *, sequences: Array, cached: Array, prompt_tokens: Array, prompt_pairs: Array) -> Array:
    """Time of one step.

    `sequences` [sequences, (N, ...)] that get a token, `cached` [tokens] that they read,
    `prompt_tokens` [tokens] of prompts in this step, `prompt_pairs` [pairs] of a prompt token and
    one before it -> [s]. Known error: that of the tables it is given.

    Source: Yu et al. 2022 (Orca), Agrawal et al. 2024 (Sarathi-Serve);
    docs/decisions/serving-load.md.
    """
    running = RunningSteps.of(replicas, sequences=sequences, cached=cached)
    time: Array = running.own_s + running.stall * (replicas.prompts_s(prompt_tokens) + running.pair_s * prompt_pairs)
    return time


BISECTIONS = 50
CAPACITY_POINTS = 33

#: Shares of the requests that each atom of a length law stands for; finer towards the long end,
#: which decides high percentiles.
ATOM_EDGES = np.array(
    [0.0, 0.08, 0.16, 0.24, 0.32, 0.40, 0.48, 0.56, 0.64, 0.72, 0.80, 0.86, 0.91, 0.95, 0.975, 0.9875, 0.995, 0.998, 0.9995, 1.0]
)
ATOM_WEIGHTS = np.diff(ATOM_EDGES)


def atoms_of(sorted_lengths: Array) -> Array:
    """Mean length of each slice of `ATOM_EDGES` of a sorted sample (M,) or (N, M), as shape (19,)
    or (N, 19). Keeps the mean exactly.

    `sorted_lengths` [tokens] -> [tokens].
    """
    count = sorted_lengths.shape[-1]
    summed = np.concatenate([np.zeros((*sorted_lengths.shape[:-1], 1)), np.cumsum(sorted_lengths, axis=-1)], axis=-1)
    place = ATOM_EDGES * count
    left = np.minimum(place.astype(np.intp), count - 1)
    at_edges = summed[..., left] + (place - left) * sorted_lengths[..., left]
    atoms: Array = np.diff(at_edges, axis=-1) / (ATOM_WEIGHTS * count)
    return atoms


@dataclass(frozen=True, slots=True)
class LoadColumns:
    """Requests that come to each of N replicas: `rate_per_s` (N,) of a Poisson process;
    `input_tokens`, `output_tokens` (N, 19) atoms of `ATOM_WEIGHTS`.

    Units: `rate_per_s` [requests/s], `input_tokens`, `output_tokens` [tokens].
    """

    rate_per_s: Array
    input_tokens: Array
    output_tokens: Array

    @classmethod
    def of(cls, rate_per_s: object, *, input_tokens: object, output_tokens: object) -> LoadColumns:
        """Broadcast: a rate per row; lengths as one number, one per row (N, 1), or
        atoms (19,) or (N, 19).

        `rate_per_s` [requests/s], `input_tokens`, `output_tokens` [tokens].
        """
        rate = np.atleast_1d(np.asarray(rate_per_s, dtype=np.float64))
        shape = (rate.size, ATOM_WEIGHTS.size)
        lengths = [np.broadcast_to(np.asarray(value, dtype=np.float64), shape) for value in (input_tokens, output_tokens)]
        return cls(rate, lengths[0], lengths[1])

    def take(self, index: NDArray[np.intp]) -> LoadColumns:
        """Rows `index`."""
        return LoadColumns(self.rate_per_s[index], self.input_tokens[index], self.output_tokens[index])

    @property
    def mean_input(self) -> Array:
        """Mean prompt (N,) -> [tokens]."""
        mean: Array = self.input_tokens @ ATOM_WEIGHTS
        return mean

    @property
    def mean_decoded(self) -> Array:
        """Mean tokens after the first (N,) -> [tokens]."""
        mean: Array = np.maximum(self.output_tokens - 1.0, 0.0) @ ATOM_WEIGHTS
        return mean

    @property
    def mean_pairs(self) -> Array:
        """Mean pairs of a prompt token and one before it (N,): E[input^2] / 2 -> [pairs]."""
        mean: Array = (self.input_tokens**2) @ ATOM_WEIGHTS / 2.0
        return mean

    @property
    def mean_context(self) -> Array:
        """Tokens that a decoding sequence reads in a step, on average over steps (N,): longer
        outputs are seen in more steps.

        -> [tokens].
        """
        decoded = np.maximum(self.output_tokens - 1.0, 0.0)
        generated = np.divide(
            (decoded * self.output_tokens / 2.0) @ ATOM_WEIGHTS,
            self.mean_decoded,
            out=np.zeros_like(self.rate_per_s),
            where=self.mean_decoded > 0,
        )
        return self.mean_input + generated

    def mean_reserved(self, reserve: Array) -> Array:
        """Cache tokens kept per running sequence, on average over steps (N,): at
        least what it holds.

        `reserve` [1] -> [tokens].
        """
        outputs = self.output_tokens
        biased = (outputs**2) @ ATOM_WEIGHTS / np.maximum(outputs @ ATOM_WEIGHTS, 1e-12)
        kept: Array = self.mean_input + np.maximum(reserve, 0.5) * biased
        return kept


@dataclass(frozen=True, slots=True)
class SteadyColumns:
    """Mean values of N replicas. `load` = rate / capacity; where it is 1 or more the others
    hold for the saturated replica and queues grow by rate - capacity per second for as long
    as that lasts.

    Units: `capacity_per_s` [requests/s], `load` [1], `batch`, `slots` [sequences], `step_s`,
    `tpot_s` [s], `prompt_tokens_per_step` [tokens].
    """

    capacity_per_s: Array
    load: Array
    batch: Array
    step_s: Array
    tpot_s: Array
    prompt_tokens_per_step: Array
    slots: Array

    @property
    def saturated(self) -> NDArray[np.bool_]:
        """Rows whose queue grows without end -> [flag]."""
        return self.load >= 1.0


def slots(replicas: ReplicaColumns, load: LoadColumns) -> Array:
    """Sequences that can run together (N,): the engine's limit or what the cache holds, less half
    of the request that just does not fit.

    -> [sequences].
    """
    kept = load.mean_reserved(replicas.cache_reserve)
    newcomer = load.mean_input + replicas.cache_reserve * (load.output_tokens @ ATOM_WEIGHTS)
    by_cache = np.where(replicas.cache_tokens > 0, (replicas.cache_tokens - 0.5 * newcomer) / kept, np.inf)
    return np.maximum(np.minimum(replicas.max_batch, by_cache), 1.0)


def _prefill_steps(replicas: ReplicaColumns, load: LoadColumns) -> Array:
    """Mean steps that a prompt needs (N,)."""
    chunk = np.where(replicas.chunk_tokens > 0, replicas.chunk_tokens, np.inf)[:, None]
    steps: Array = np.ceil(load.input_tokens / chunk) @ ATOM_WEIGHTS
    return np.maximum(steps, 1.0)


def _mean_steps(replicas: ReplicaColumns, load: LoadColumns) -> Callable[[Array], Array]:
    """Time of a step by the requests (N, M) that enter it, all else in proportion."""
    decoded, context, prompt, pairs = (
        values[:, None] for values in (load.mean_decoded, load.mean_context, load.mean_input, load.mean_pairs)
    )
    pieces = replicas.pieces(mean_piece(replicas, load)[:, None])

    def of(entering: Array) -> Array:
        sequences = entering * decoded
        running = RunningSteps.of(replicas, sequences=sequences, cached=sequences * context)
        return running.mean_s(pieces, prompt_tokens=entering * prompt, prompt_pairs=entering * pairs)

    return of


def mean_piece(replicas: ReplicaColumns, load: LoadColumns) -> Array:
    """Tokens in which prompts come, weighted by tokens (N,): whole prompts, or what a step
    takes -> [tokens]."""
    longest = np.where(replicas.chunk_tokens > 0, replicas.chunk_tokens, np.inf)
    biased = (load.input_tokens * np.minimum(load.input_tokens, longest[:, None])) @ ATOM_WEIGHTS
    piece: Array = np.maximum(biased / load.mean_input, 1.0)
    return piece


def most_entering(replicas: ReplicaColumns, load: LoadColumns) -> Array:
    """Requests per step at which slots or the token budget are used up (N,) -> [requests]."""
    by_slots = slots(replicas, load) / (load.mean_decoded + _prefill_steps(replicas, load))
    by_tokens = np.where(replicas.chunk_tokens > 0, replicas.chunk_tokens, np.inf) / (load.mean_input + load.mean_decoded)
    return np.minimum(by_slots, by_tokens)


def capacity_per_s(replicas: ReplicaColumns, load: LoadColumns) -> Array:
    """Rate at which a replica saturates (N,) [1/s]: the largest x / s(x) up to the limit
    of x -> [requests/s].

    Known error: 1-3 % against simulation where slots or tokens bind; up to 8 % where the cache does
    and lengths vary widely.
    """
    entering = most_entering(replicas, load)[:, None] * np.linspace(0.0, 1.0, CAPACITY_POINTS)[None, 1:]
    best: Array = (entering / _mean_steps(replicas, load)(entering)).max(axis=1)
    return best


def steady(replicas: ReplicaColumns, load: LoadColumns) -> SteadyColumns:
    """Mean values by bisection of x / s(x) = rate.

    The batch follows Little's law: rate x tokens x step. TPOT is the mean step, prompts of others
    included. Rows beyond saturation get the values at the limit. Known error: 1-2 % in TPOT
    against simulation; steps are nonlinear in the batch only through the table, of which the mean
    batch is taken.
    """
    capacity = capacity_per_s(replicas, load)
    upper = most_entering(replicas, load)
    step_of = _mean_steps(replicas, load)
    low, high = np.zeros_like(upper), upper.copy()
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        slow = middle < load.rate_per_s * step_of(middle[:, None])[:, 0]
        low, high = np.where(slow, middle, low), np.where(slow, high, middle)
    step = step_of(high[:, None])[:, 0]
    return SteadyColumns(
        capacity_per_s=capacity,
        load=load.rate_per_s / capacity,
        batch=high * load.mean_decoded,
        step_s=step,
        tpot_s=step,
        prompt_tokens_per_step=high * load.mean_input,
        slots=slots(replicas, load),
    )
