"""Quantiles of latencies whose means are known, by what makes them vary; a quantile of 0 asks for the mean.

Known error: shapes of laws, not fitted ones. p99 over mean of the first token came out 1.8 to 2.6 where open loads at 90 % of capacity measured
1.6 to 2.9; of the time per token 1.0 to 1.1 where they measured 1.1 to 1.3, because answers also differ in length.

Source: Kingman 1961 (waits in heavy traffic are exponential), Shore 1982 (quantiles of the normal law); docs/decisions/kernels-and-loads.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array

#: Closest to certainty that a law is asked for.
_MOST = 0.9999


def _asked(quantile: Array, at_quantile: Array, mean: Array) -> Array:
    return np.where(quantile > 0, at_quantile, mean)


def of_step(step_s: Array, quantile: Array) -> Array:
    """Rest of the step under way when a request comes at any moment of it: uniform.

    `step_s` [s], `quantile` [1] -> [s].
    """
    return _asked(quantile, quantile * step_s, step_s / 2.0)


def of_queue(mean_s: Array, quantile: Array) -> Array:
    """Wait for one's turn among requests that all came at once: uniform from nothing to twice the mean.

    `mean_s` [s], `quantile` [1] -> [s].
    """
    return _asked(quantile, 2.0 * quantile * mean_s, mean_s)


def of_wait(mean_s: Array, quantile: Array) -> Array:
    """Wait in a queue with random arrivals: exponential.

    `mean_s` [s], `quantile` [1] -> [s].
    """
    return _asked(quantile, -np.log1p(-np.minimum(quantile, _MOST)) * mean_s, mean_s)


def of_first_wave(others_s: Array, share: Array, quantile: Array) -> Array:
    """Wait of users who ask again as soon as they are answered: in their first wave for any part of all prompts, later for none.

    `others_s` [s] of the other users' prompts together, `share` [1] of it that a request waits for on average: half the share of requests that are
    of the first wave, `quantile` [1] -> [s].
    """
    first = np.clip(2.0 * share, 1e-9, 1.0)
    return _asked(quantile, np.clip((quantile - (1.0 - first)) / first, 0.0, 1.0) * others_s, share * others_s)


def of_interruptions(token_s: Array, step_s: Array, batch: Array, quantile: Array) -> Array:
    """Time per token of an answer: what prompts of others add to its steps comes from a Poisson number of them, one for each other sequence.

    `token_s` [s] on average, `step_s` [s] of a step without prompts, `batch` [sequences], `quantile` [1] -> [s].
    """
    level = np.clip(quantile, 1.0 - _MOST, _MOST)
    # Shore 1982: the quantile of the normal law, within 0.03 of a deviation.
    tail = np.minimum(level, 1.0 - level)
    score = np.sign(level - 0.5) * 5.5556 * (1.0 - (tail / (1.0 - tail)) ** 0.1186)
    spread = np.maximum(1.0 + score / np.sqrt(np.maximum(batch - 1.0, 1.0)), 0.0)
    return _asked(quantile, step_s + np.maximum(token_s - step_s, 0.0) * spread, token_s)
