"""A few measured runs sharpen the prediction of others: a nested normal model of what the prediction misses.

For a cost-like figure (step time, ms, bytes; of a rate its inverse) r = log(measured / predicted) is the sum of what the user's stack adds (e), what the job adds
(b), what the server adds to that job (s), what wears off with the distance in batch and length (n), and noise (v), all normal with mean 0:

    K(i, j) = e^2 + b^2 [same job] + s^2 [same job and server] + n^2 [same job and server] exp(-(|log2 batch ratio| + |log2 length ratio|) / 2)
    mean = k' (K + v^2 I)^-1 r,    variance = k(x, x) - k' (K + v^2 I)^-1 k + v^2

The corrected cost is predicted exp(mean), a corrected rate predicted exp(-mean). The tails are heavier than normal, so the half-width of an interval is the
standard deviation times a factor found on sources left out (conformal). Nothing is fitted when it runs: facts/data/calibration.csv has the five numbers a figure,
calibration_widths.csv the factors; `validation/fit_calibration.py` writes both.

A figure that is a bound only (out of memory) cuts off the impossible half: it enters as the moments of the truncated normal (Minka, Expectation propagation,
UAI 2001). Reference: Rasmussen and Williams, Gaussian processes for machine learning (2006), section 2.2. Known error: sources of published figures stand for
users' stacks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from rightfit import facts
from rightfit.measure.likeness import Array, Cases
from rightfit.records import dataclass

PARTS = ("e", "b", "s", "n", "v")
#: Residuals are cut here: beyond a factor of 4.5 a row says that something else is wrong.
MOST_RESIDUAL = 1.5
#: Rows known of the same job, up to which interval factors are told apart.
MOST_ROWS = 3
STEPS = ("same", "batch", "cards", "card")


class Law(NamedTuple):
    """Standard deviations of the parts of r: stack, job, server, nearness, noise."""

    e: float
    b: float
    s: float
    n: float
    v: float


@dataclass(frozen=True, slots=True)
class Posterior:
    """What the known rows say of target cases: mean and standard deviation of r, and the mean of each part."""

    mean: Array
    deviation: Array
    stack: Array
    job: Array
    server: Array


@cache
def laws() -> Mapping[str, Law]:
    """The five numbers of each figure that can be calibrated."""
    rows = facts.table("calibration")
    return {
        figure: Law(*(float(row["value"]) for part in PARTS for row in rows if (row["figure"], row["part"]) == (figure, part)))
        for figure in dict.fromkeys(row["figure"] for row in rows)
    }


@cache
def widths() -> Mapping[tuple[str, int, str], tuple[float, float]]:
    """Factors of the standard deviation for the 80 % and the 95 % interval by figure, rows known of the job, and kind of step ("all" where few sources tell)."""
    return {
        (row["figure"], int(row["rows"]), row["step"]): (float(row["factor80"]), float(row["factor95"]))
        for row in facts.table("calibration_widths")
    }


@cache
def worse() -> Mapping[tuple[str, int], float]:
    """Share of the sources left out that so many own rows of a job made worse, by figure and rows."""
    return {(row["figure"], int(row["rows"])): float(row["worse"]) for row in facts.table("calibration_widths") if row["step"] == "all"}


def width(figure: str, rows: int, step: str) -> tuple[float, float]:
    """The factors of a figure with so many rows of the job known, for a kind of step."""
    known = widths()
    rows = min(max(rows, 1), MOST_ROWS)
    return known.get((figure, rows, step)) or known[figure, rows, "all"]


def parts_of(law: Law, left: Cases, right: Cases) -> tuple[Array, Array, Array]:
    """Covariances of what the stack, the job, and the server with nearness add, each of shape (left, right)."""
    same_job = left.job[:, None] == right.job[None]
    same_server = left.server[:, None] == right.server[None]
    distance = np.abs(left.batch[:, None] - right.batch[None]) + np.abs(left.length[:, None] - right.length[None])
    stack = np.full(same_job.shape, law.e**2)
    return stack, law.b**2 * same_job, same_server * (law.s**2 + law.n**2 * np.exp(-distance / 2.0))


def posterior(law: Law, known: Cases, residual: Array, target: Cases, *, noise: Array | None = None) -> Posterior:
    """What rows with `residual` say of `target` cases. `noise` is the variance of each row where it is not the law's v^2."""
    noise = np.full(len(residual), law.v**2) if noise is None else noise
    covariance = sum(parts_of(law, known, known)) + np.diag(noise)
    weights = np.linalg.solve(covariance, np.clip(residual, -MOST_RESIDUAL, MOST_RESIDUAL))
    stack, job, server = parts_of(law, target, known)
    cross = stack + job + server
    prior = law.e**2 + law.b**2 + law.s**2 + law.n**2
    variance = prior - np.einsum("ij,ji->i", cross, np.linalg.solve(covariance, cross.T)) + law.v**2
    return Posterior(cross @ weights, np.sqrt(np.maximum(variance, law.v**2)), stack @ weights, job @ weights, server @ weights)


def settled(law: Law, known: Cases, residual: Array, bound: Sequence[str]) -> tuple[Array, Array]:
    """Rows with one-sided ones turned into rows of their own noise: values and variances, as `posterior` takes them."""
    values, noise = np.clip(residual, -MOST_RESIDUAL, MOST_RESIDUAL).astype(np.float64), np.full(len(residual), law.v**2)
    two_sided = np.array([index for index, side in enumerate(bound) if not side], dtype=np.intp)
    for index, side in enumerate(bound):
        if side:
            values[index], noise[index] = _one_sided(law, known, values, two_sided, index, side)
    return values, noise


def _one_sided(
    law: Law, known: Cases, values: Array, told: np.ndarray[tuple[int], np.dtype[np.intp]], index: int, side: str
) -> tuple[float, float]:
    """A row and its noise that leave the marginal of row `index` with the moments of its truncated normal."""
    one = known.take(np.array([index]))
    found = posterior(law, known.take(told), values[told], one) if told.size else None
    mean = float(found.mean[0]) if found else 0.0
    variance = float(found.deviation[0] ** 2) if found else sum(value**2 for value in law)
    cut_mean, cut_variance = truncated(mean, variance, float(values[index]), above=side == ">=")
    noise = 1.0 / max(1.0 / cut_variance - 1.0 / variance, 1e-9)
    return noise * (cut_mean / cut_variance - mean / variance), noise + law.v**2


def truncated(mean: float, variance: float, limit: float, *, above: bool) -> tuple[float, float]:
    """Mean and variance of a normal cut to what lies above (or below) `limit`.

    Reference: Johnson, Kotz, Balakrishnan, Continuous univariate distributions 1 (1994), section 10.1.
    """
    deviation = math.sqrt(variance)
    sign = 1.0 if above else -1.0
    z = sign * (limit - mean) / deviation
    rest = 0.5 * math.erfc(z / math.sqrt(2.0))
    if rest < 1e-12:  # far in the tail: all of it lies at the limit
        return limit, variance * 1e-3
    ratio = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) / rest
    return mean + sign * deviation * ratio, max(variance * (1.0 + z * ratio - ratio * ratio), variance * 1e-3)


def step_kinds(known: Cases, target: Cases) -> list[str]:
    """How far each target is from what is known: the same set-up, another batch or length, more or fewer of the same cards, or another card."""
    kinds = []
    for job, card, server, batch, length in zip(target.job, target.card, target.server, target.batch, target.length, strict=True):
        here = known.server == server
        near = here & (known.batch == batch) & (known.length == length)
        kinds.append(
            "same" if near.any() else "batch" if here.any() else "cards" if ((known.card == card) & (known.job == job)).any() else "card"
        )
    return kinds
