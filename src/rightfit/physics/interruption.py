"""Servers that can be taken away: how often, how to save against it, and what it adds to a run.

Interruptions of one server are taken as a Poisson process; a job on n servers stops when any one of
them is taken, so rates add. Checkpoint intervals and the expected wall time follow J. T. Daly, "A
higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
Computer Systems 22 (2006) 303-312, which extends J. W. Young, CACM 17 (1974) 530-531.

Source: Daly 2006, Young 1974.

How long a run takes when it can be interrupted: not the mean alone, but the whole
law, by transform.

Stops are a Poisson process (see physics/interruption.py, whose `expected_s` is the mean of this
law). A run is a chain of segments, each some work followed by a checkpoint. A segment that is
interrupted loses what it did, waits for a restart (which can be interrupted too, and then begins
again), and is repeated. The excess over the undisturbed time is then a compound sum: as many losses
as a geometric law says, each a truncated exponential time plus the restarts; segments are
independent, so their transforms multiply. On a grid the transform is a discrete Fourier transform.

W. Feller, An Introduction to Probability Theory and Its Applications, vol. 2, chapter XI (renewal
theory and transient processes); J. T. Daly, Future Generation Computer Systems 22 (2006) 303-312,
for the means.

Source: Feller 1971, vol. 2; Daly 2006.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.units import SECONDS_PER_MONTH

LARGEST_EXPONENT = 300.0  # a run that would take longer than e^300 intervals is only known to be hopeless
NEVER_S = 1e30
SHORTEST_INTERVAL_S = 1.0


def interruptions_per_s(monthly_fraction: Array) -> Array:
    """Interruption rate of one server from the fraction of servers that are
    interrupted within a month.

    `monthly_fraction` [1], 0 <= f < 1 -> [1/s]. rate = -ln(1 - f) / month: the exponential law
    under which a fraction f is gone after one month.
    Source: AWS Spot Instance Advisor (documentation) publishes f over the trailing month in
    bands of five points.
    Known error: the top band is open (20-100 %), and interruptions come in bursts when
    capacity is short.
    """
    rate: Array = -np.log1p(-np.minimum(monthly_fraction, 1.0 - 1e-9)) / SECONDS_PER_MONTH
    return rate


def optimal_interval_s(save_s: Array, *, mean_time_between: Array) -> Array:
    """Work between two checkpoints that makes the expected wall time least.

    `save_s` [s] that one checkpoint takes, `mean_time_between` [s], M -> [s].
    Daly (2006), equation 37: sqrt(2 d M) [1 + sqrt(d / 2M) / 3 + d / 18M] - d for d < 2M, else M.
    Infinite where M is infinite. Known error: under 0.2 % of the exact optimum for d < M / 2
    (Daly, section 4).
    """
    ratio = save_s / (2.0 * mean_time_between)
    with np.errstate(invalid="ignore"):
        series = np.sqrt(2.0 * save_s * mean_time_between) * (1.0 + np.sqrt(ratio) / 3.0 + ratio / 9.0) - save_s
    interval = np.where(ratio < 1.0, series, mean_time_between)
    return np.where(np.isinf(mean_time_between), np.inf, interval)


def expected_s(work_s: Array, *, interval_s: Array, save_s: Array, restart_s: Array, mean_time_between: Array) -> Array:
    """Expected wall time of `work_s` seconds of work with checkpoints and restarts.

    `work_s`, `interval_s`, `save_s`, `restart_s`, `mean_time_between` [s] -> [s]. A run shorter
    than one interval saves once, at its end; intervals under a second are taken as one second.
    Daly (2006), equation 20: M exp(R / M) (exp((t + d) / M) - 1) W / t with t = min(interval,
    work); work + saves where M is infinite. It grows with `work_s` for any fixed other argument.
    Known error: restarts that fail again are counted, notice periods are not used.
    """
    segment = np.minimum(np.maximum(interval_s, SHORTEST_INTERVAL_S), work_s)
    segments = np.divide(work_s, segment, out=np.zeros(np.broadcast(work_s, segment).shape), where=segment > 0)
    finite = np.minimum(mean_time_between, NEVER_S)
    exponent = np.minimum((segment + save_s) / finite, LARGEST_EXPONENT)
    return finite * np.exp(np.minimum(restart_s / finite, LARGEST_EXPONENT)) * np.expm1(exponent) * segments


GRID = 1024
REACH = 14.0  # standard deviations of the excess that the grid holds beyond its mean
LARGEST_LOG_REPEATS = 30.0  # beyond e^30 repetitions of a segment the run never ends in practice


@dataclass(frozen=True, slots=True)
class Completion:
    """The law of one run's wall time: `times_s` ascending [s] and their `masses`,
    which add up to 1.

    Units: `times_s` [s], `masses` [1].
    """

    times_s: Array
    masses: Array

    @property
    def mean_s(self) -> float:
        """Expected wall time -> [s].

        Source: Feller 1971, vol. 2; Daly 2006.
        """
        return float(self.times_s @ self.masses)

    def quantile_s(self, share: float) -> float:
        """The time that `share` [1] of such runs do not exceed -> [s].

        Source: Feller 1971, vol. 2; Daly 2006.
        """
        return float(self.quantiles_s(np.array([share]))[0])

    def quantiles_s(self, shares: Array) -> Array:
        """The same for several `shares` [1] -> [s].

        Source: Feller 1971, vol. 2; Daly 2006.
        """
        at = np.searchsorted(np.cumsum(self.masses), shares - 1e-12)
        found: Array = self.times_s[np.minimum(at, self.times_s.shape[0] - 1)]
        return found

    def chance_after(self, limit_s: float) -> float:
        """Probability that the run takes longer than `limit_s` [s] -> [1].

        Source: Feller 1971, vol. 2; Daly 2006.
        """
        return float(min(max(self.masses[self.times_s > limit_s * (1.0 + 1e-9)].sum(), 0.0), 1.0))


def completion(*, work_s: float, interval_s: float, save_s: float, restart_s: float, rate_per_s: float) -> Completion:
    """Law of the wall time of `work_s` seconds of work.

    `work_s` [s], `interval_s` [s] of work between checkpoints, `save_s` [s] of one checkpoint,
    `restart_s` [s] from a stop to working again, `rate_per_s` [1/s] of stops of the whole job. A
    run shorter than an interval saves once, at its end. Infinite times where a segment would be
    repeated over e^30 times. Known error: the grid resolves 1 / 1024 of the range; stops are taken
    as independent, while real ones come in bursts.

    Source: Feller 1971, vol. 2; Daly 2006.
    """
    lengths = segments(work_s, interval_s=interval_s)
    undisturbed = work_s + save_s * sum(count for _, count in lengths)
    if rate_per_s <= 0.0 or work_s <= 0.0:
        return Completion(np.array([undisturbed]), np.ones(1))
    if rate_per_s * (max(length for length, _ in lengths) + save_s) > LARGEST_LOG_REPEATS or rate_per_s * restart_s > LARGEST_LOG_REPEATS:
        return Completion(np.array([np.inf]), np.ones(1))
    spans = [(length + save_s, count) for length, count in lengths]
    moments = [_excess_moments(span, restart_s=restart_s, rate=rate_per_s) for span, _ in spans]
    mean = sum(count * first for (_, count), (first, _) in zip(spans, moments, strict=True))
    deviation = np.sqrt(sum(count * second for (_, count), (_, second) in zip(spans, moments, strict=True)))
    reach = mean + REACH * deviation
    spacing = reach / GRID
    restart = _restart_transform(restart_s, rate=rate_per_s, spacing=spacing)
    transform = np.ones(GRID + 1, dtype=np.complex128)
    for span, count in spans:
        survive = np.exp(-rate_per_s * span)
        lost = np.fft.rfft(_truncated_exponential(span, rate=rate_per_s, spacing=spacing), 2 * GRID)
        transform *= (survive / (1.0 - lost * restart)) ** count
    masses = np.maximum(np.fft.irfft(transform, 2 * GRID)[:GRID], 0.0)
    return Completion(undisturbed + spacing * np.arange(GRID), masses / masses.sum())


def segments(work_s: float, *, interval_s: float) -> list[tuple[float, int]]:
    """A run's segments: whole intervals, and what is left.

    `work_s`, `interval_s` [s] -> [s] of each length, and how many [1].

    Source: Feller 1971, vol. 2; Daly 2006.
    """
    if not np.isfinite(interval_s) or interval_s >= work_s:
        return [(work_s, 1)]
    whole = int(work_s // interval_s)
    left = work_s - whole * interval_s
    return [(interval_s, whole)] + ([(left, 1)] if left > 1e-9 * interval_s else [])


def _loss_moments(span: float, rate: float) -> tuple[float, float]:
    """Mean and mean square [s, s^2] of an exponential time, given that it ends within `span`."""
    x = rate * span
    hit = -np.expm1(-x)
    mean = (1.0 / rate) - span * np.exp(-x) / hit
    square = (2.0 - np.exp(-x) * (x * x + 2.0 * x + 2.0)) / (rate * rate * hit)
    return float(mean), float(square)


def _compound(odds: float, mean: float, square: float) -> tuple[float, float]:
    """Mean and variance of a geometric number of losses: `odds` = chance of a loss over none; the
    losses' mean and mean square."""
    return odds * mean, odds * square + odds * odds * mean * mean


def _restart_moments(restart_s: float, *, rate: float) -> tuple[float, float]:
    """Mean and variance [s, s^2] of a restart that begins again when interrupted."""
    if restart_s <= 0.0:
        return 0.0, 0.0
    mean, variance = _compound(float(np.expm1(rate * restart_s)), *_loss_moments(restart_s, rate))
    return restart_s + mean, variance


def _excess_moments(span: float, *, restart_s: float, rate: float) -> tuple[float, float]:
    """Mean and variance [s, s^2] of what interruptions add to one segment of `span` seconds."""
    mean, square = _loss_moments(span, rate)
    again, variance = _restart_moments(restart_s, rate=rate)
    total_square = square + 2.0 * mean * again + variance + again * again
    return _compound(float(np.expm1(rate * span)), mean + again, total_square)


def _truncated_exponential(span: float, *, rate: float, spacing: float) -> Array:
    """Chances (they add up to 1 - exp(-rate span)) of a stop within `span`, each on the two
    neighbouring grid points that keep its mean."""
    edges = np.minimum(spacing * np.arange(GRID + 1), span)
    below = -np.expm1(-rate * edges)
    masses = np.diff(below)
    # Mean place within each cell, for a split between its two ends that is exact in the mean.
    first = (edges[:-1] + 1.0 / rate) * np.exp(-rate * edges[:-1])
    last = (edges[1:] + 1.0 / rate) * np.exp(-rate * edges[1:])
    centre = np.divide(first - last, masses, out=edges[:-1].copy(), where=masses > 1e-300)
    upper = masses * np.clip(centre / spacing - np.arange(GRID), 0.0, 1.0)
    out = np.zeros(2 * GRID)
    out[:GRID] += masses - upper
    out[1 : GRID + 1] += upper
    return out


def _restart_transform(restart_s: float, *, rate: float, spacing: float) -> NDArray[np.complex128]:
    """Transform of the time until a restart has succeeded."""
    at = restart_s / spacing
    whole = min(int(at), 2 * GRID - 2)
    once = np.zeros(2 * GRID)
    share = min(at - whole, 1.0)
    once[whole], once[whole + 1] = 1.0 - share, share
    lost = np.fft.rfft(_truncated_exponential(restart_s, rate=rate, spacing=spacing), 2 * GRID) if restart_s > 0.0 else 0.0
    done: NDArray[np.complex128] = np.exp(-rate * restart_s) * np.fft.rfft(once, 2 * GRID) / (1.0 - lost)
    return done
