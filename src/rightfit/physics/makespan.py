"""How long a run takes whose requests all come at once: prompts first, then answers in a batch that shrinks as the short ones end.

While requests wait for a slot, each one that ends is replaced and the batch stays full. When none waits the batch drains: answers of one length
end together; answers of varied lengths leave one after the other, and the last ones run almost alone, each of their steps still reading all
weights.

Source: accounting; docs/decisions/second-rows.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rightfit.physics.columns import Array
from rightfit.records import dataclass

#: Equal shares of requests, the shortest answers first: the mean of each share of an exponential law over its mean, all but the longest answer.
SLICES = 6
_EDGES = np.arange(SLICES + 1) / SLICES
#: Antiderivative of the quantile function -ln(1 - p): its differences are the means of the shares.
_MOMENTS = np.append((1.0 - _EDGES[:-1]) * (np.log1p(-_EDGES[:-1]) - 1.0), 0.0)
LENGTHS = np.diff(_MOMENTS) * SLICES


@dataclass(frozen=True, slots=True)
class Run:
    """A finite run of one replica, shape (N,): seconds of all its prompts, while the batch is full, and while it drains; what one answer saw.

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
        """The makespan -> [s]."""
        return self.prompts_s + self.full_s + self.drain_s


def longest(mean: Array, count: Array, *, varied: Array, most: float) -> Array:
    """The longest of `count` answers: their mean where they are of one length, else the expected largest of as many exponential ones.

    `mean` [tokens], `count` [requests], `varied` [flag], `most` [1] times the mean that data sets cut answers at -> [tokens].
    H(n) = ln n + 0.577 for n draws (Euler).
    """
    largest = np.clip(np.log(np.maximum(count, 1.0)) + np.euler_gamma, 1.0, most)
    return mean * np.where((varied > 0) & (count > 1), largest, 1.0)


def stalled_share(lengths: list[Array], steps: Array) -> Array:
    """Share of an answer's steps that carry prompts, where the first `steps` steps of the run do and answers begin anywhere among them -> [1].

    `lengths` [tokens] of the answers, equally many of each, `steps` [1]. Of `length` steps min(length, rest) are among them, the rest being
    uniform: the mean of min(length, rest) / length is 1 - length / 2 steps, or steps / 2 length where the answer is longer.
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

    `step_s` gives the seconds of a step of so many sequences; `requests` [requests], `slots` [sequences], `prompt_s` [s] of one prompt among many,
    `front_s` [s] of taking one request in, `room` [1] prompts that one step carries, `output` [tokens] a request on average, `varied` [flag]
    whether answers differ in length as an exponential law, `most` [1] the longest over the mean.
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
