"""What queueing and simulation know about one replica: how long a step takes, and how much it may hold.

A continuous-batching engine works in steps. In each it computes one token for every running sequence and, in what is left of its token
budget, pieces of waiting prompts (G.-I. Yu et al., Orca, OSDI 2022; A. Agrawal et al., Sarathi-Serve, OSDI 2024). The time of a step is
table(tokens in the step) + sequence_s * sequences + cache_token_s * cached tokens read + prompt_pair_s * pairs of prompt tokens.
"""

from __future__ import annotations

import dataclasses
from typing import Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True)
class ReplicaColumns:
    """Step times and limits of N replicas.

    `table_tokens` (G,) ascending token counts and `table_s` (N, G) [s] the time of a step with that many tokens and an empty cache (between
    two points linear, beyond the last with its slope); `sequence_s`, `cache_token_s`, `prompt_pair_s`, `request_s` (N,) [s] per running
    sequence, per cached token that a step reads, per pair of a prompt token and one before it, and once per request before its first token.
    `max_batch` sequences at most; `chunk_tokens` tokens in a step at most (0 = no limit); `cache_tokens` that the cache holds (0 = no
    limit); `cache_reserve` the share of the output for which room is kept when a request is admitted (1 = never evicted, 0 as vLLM).
    """

    table_tokens: Array
    table_s: Array
    sequence_s: Array
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
        max_batch: object = 256.0,
        chunk_tokens: object = 8192.0,
        cache_tokens: object = 0.0,
        cache_reserve: object = 1.0,
    ) -> Self:
        """Replicas whose step is overhead + batch_s * sequences + cache_token_s * cached + prompt_token_s * prompt tokens."""
        values = np.broadcast_arrays(
            *(np.atleast_1d(np.asarray(value, dtype=np.float64)) for value in (overhead_s, batch_s, prompt_token_s, cache_token_s)),
            *(
                np.atleast_1d(np.asarray(value, dtype=np.float64))
                for value in (prompt_pair_s, request_s, max_batch, chunk_tokens, cache_tokens, cache_reserve)
            ),
        )
        overhead, batch, prompt, cache, *rest = (np.array(value) for value in values)
        return cls(np.array([0.0, 1.0]), np.stack([overhead, overhead + prompt], axis=1), batch - prompt, cache, *rest)

    @property
    def num_rows(self) -> int:
        """How many replicas."""
        return int(self.table_s.shape[0])

    def take(self, index: NDArray[np.intp]) -> Self:
        """Rows `index`."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return type(self)(**{name: value if name == "table_tokens" else value[index] for name, value in values.items()})

    def tokens_s(self, tokens: Array) -> Array:
        """Table value at `tokens` (N, ...) of each row."""
        grid, table = self.table_tokens, self.table_s
        place = np.clip(np.searchsorted(grid, tokens, side="right") - 1, 0, grid.size - 2)
        rows = np.arange(table.shape[0]).reshape((-1,) + (1,) * (np.ndim(tokens) - 1))
        left, right = table[rows, place], table[rows, place + 1]
        value: Array = left + (right - left) / (grid[place + 1] - grid[place]) * (tokens - grid[place])
        return value


def step_s(replicas: ReplicaColumns, *, sequences: Array, cached: Array, prompt_tokens: Array, prompt_pairs: Array) -> Array:
    """Time of one step [s].

    sequences: (N, ...) running sequences that get a token; cached: tokens that they read; prompt_tokens: of prompts in this step;
    prompt_pairs: pairs of a prompt token and one before it. Known error: that of the table it is given.
    """
    shape = (-1,) + (1,) * (np.ndim(sequences) - 1)
    linear = replicas.sequence_s.reshape(shape) * sequences + replicas.cache_token_s.reshape(shape) * cached
    return replicas.tokens_s(sequences + prompt_tokens) + linear + replicas.prompt_pair_s.reshape(shape) * prompt_pairs
