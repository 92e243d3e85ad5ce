"""What queueing and simulation know about one replica: how long a step takes, and how much it may hold.

A continuous-batching engine works in steps. In each it computes one token for every running sequence and, in what is left of its token
budget, pieces of waiting prompts (G.-I. Yu et al., Orca, OSDI 2022; A. Agrawal et al., Sarathi-Serve, OSDI 2024). The time of a step is
table(sequences) + cache_token_s * cached tokens read + stall * (prompt table(prompt tokens) + prompt_pair_s * pairs of prompt tokens):
a prompt holds up the sequences beside it by the time that it takes, as the serving physics was fitted (`interference`). A step without
sequences is the prompt's alone and saves `empty_s`.

Source: Yu et al. 2022 (Orca), Agrawal et al. 2024 (Sarathi-Serve); docs/decisions/serving-load.md.
"""

from __future__ import annotations

import dataclasses
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rightfit.records import dataclass

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReplicaColumns:
    """Step times and limits of N replicas.

    `table_tokens` (G,) ascending counts of sequences and `table_s` (N, G) [s] the time of a step with that many and an empty cache;
    `prompt_tokens` (P,) and `prompt_s` (N, P) [s] what so many prompt tokens add (both linear between two points, beyond the last with its
    slope; no tokens add nothing, whatever the table begins with); `stall` (N,) the share of that which a step with sequences pays;
    `empty_s` (N,) what a step without sequences saves of table(0); `cache_token_s`, `prompt_pair_s`, `request_s` (N,) [s] per cached token
    that a step reads, per pair of a prompt token and one before it, and once per request before its first token. `max_batch` sequences at
    most; `chunk_tokens` tokens in a step at most (0 = no limit); `cache_tokens` that the cache holds (0 = no limit); `cache_reserve` the
    share of the output for which room is kept when a request is admitted (1 = never evicted, 0 as vLLM).

    Units: `table_tokens`, `max_batch` [sequences], `table_s`, `prompt_s`, `empty_s`, `cache_token_s`, `prompt_pair_s`, `request_s` [s],
    `prompt_tokens`, `chunk_tokens`, `cache_tokens` [tokens], `stall`, `cache_reserve` [1].
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
        """Replicas whose step is overhead + batch_s * sequences + cache_token_s * cached + prompt_token_s * prompt tokens.

        `overhead_s`, `batch_s`, `cache_token_s`, `prompt_token_s`, `prompt_pair_s`, `request_s` [s], `max_batch` [sequences],
        `chunk_tokens`, `cache_tokens` [tokens], `cache_reserve` [1].
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
        """How many replicas -> [rows]."""
        return int(self.table_s.shape[0])

    def take(self, index: NDArray[np.intp]) -> Self:
        """Rows `index`."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        shared = ("table_tokens", "prompt_tokens")
        return type(self)(**{name: value if name in shared else value[index] for name, value in values.items()})

    def sequences_s(self, sequences: Array) -> Array:
        """Step with `sequences` (N, ...) of each row, an empty cache and no prompts; with none of them what a prompt's own step has beside
        it.

        `sequences` [sequences] -> [s].
        """
        rows = (-1,) + (1,) * (np.ndim(sequences) - 1)
        time: Array = interpolated(self.table_tokens, self.table_s, sequences) - np.where(sequences > 0, 0.0, self.empty_s.reshape(rows))
        return time

    def prompts_s(self, tokens: Array) -> Array:
        """What `tokens` (N, ...) of prompts of each row take, attention over their own past apart.

        `tokens` [tokens] -> [s].
        """
        return np.where(tokens > 0, interpolated(self.prompt_tokens, self.prompt_s, tokens), 0.0)

    def pieces(self, piece: Array) -> Pieces:
        """What prompts cost that come in pieces of `piece` (N, ...) tokens.

        `piece` [tokens].
        """
        one = self.prompts_s(piece)
        slope = (self.prompts_s(4.0 * piece) - one) / (3.0 * piece)
        return Pieces(piece, one - slope * piece, slope)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Prompts that come in pieces: P(x) = first_s + token_s * x for x of one piece and more, over the same rows.

    Units: `tokens` [tokens], `first_s`, `token_s` [s].
    """

    tokens: Array
    first_s: Array
    token_s: Array

    def mean_s(self, tokens: Array, *, alone: NDArray[np.bool_]) -> Array:
        """Mean of `prompts_s` over steps which get a Poisson number of pieces, `tokens` (N, ...) in the mean.

        `tokens` [tokens], `alone` [flag] -> [s].
        With P(x) = a + b x beyond one piece: E P = a p + b tokens, p = 1 - exp(-tokens / piece) the share of steps with a piece. Where
        prompts are `alone` there is no step without one: E P / p. Exact for a straight table.
        """
        share = -np.expm1(-np.maximum(tokens / self.tokens, 1e-9))
        return np.asarray(self.first_s * np.where(alone, 1.0, share) + self.token_s * tokens / np.where(alone, share, 1.0))


def interpolated(grid: Array, table: Array, places: Array) -> Array:
    """Values of a table (N, G) over `grid` (G,) at `places` (N, ...) of each row; beyond the last point with its slope.

    `grid`, `places` [any], `table` [any] -> [any].
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

    Units: `own_s` [s] without prompts, `stall` [1], `pair_s` [s], `alone` [flag] whether no sequence runs.
    """

    own_s: Array
    stall: Array
    pair_s: Array
    alone: NDArray[np.bool_]

    @classmethod
    def of(cls, replicas: ReplicaColumns, *, sequences: Array, cached: Array) -> Self:
        """`sequences` [sequences, (N, ...)] that get a token, `cached` [tokens] that they read."""
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
        """
        return self.own_s + self.stall * (pieces.mean_s(prompt_tokens, alone=self.alone) + self.pair_s * prompt_pairs)


def step_s(replicas: ReplicaColumns, *, sequences: Array, cached: Array, prompt_tokens: Array, prompt_pairs: Array) -> Array:
    """Time of one step.

    `sequences` [sequences, (N, ...)] that get a token, `cached` [tokens] that they read, `prompt_tokens` [tokens] of prompts in this step,
    `prompt_pairs` [pairs] of a prompt token and one before it -> [s]. Known error: that of the tables it is given.
    """
    running = RunningSteps.of(replicas, sequences=sequences, cached=cached)
    time: Array = running.own_s + running.stall * (replicas.prompts_s(prompt_tokens) + running.pair_s * prompt_pairs)
    return time
