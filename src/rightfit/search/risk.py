"""Runs on servers that can be taken away: when they end, how sure that is, and what they would take
without checkpoints.

Three doubts meet in the wall time of a spot run: how fast the work goes (the interval of the
prediction), how often servers are taken (a published band, or a usual range) and chance itself. The
law of the last (physics.completion) is mixed over the first two.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.estimation.figures import Figure, FigureColumns, normal_score
from rightfit.physics import interruption
from rightfit.physics.columns import Array
from rightfit.physics.interruption import Completion, completion, segments
from rightfit.records import dataclass
from rightfit.search.market import Bill, BillColumns, Volume, failure_rate_per_s

if TYPE_CHECKING:
    from rightfit.search.market import MarketFacts
    from rightfit.search.offers import Market


# ---- How long a start takes is not known well: boot, pulling the image, fetching weights and data.
# Its doubt is added to that of the work by squares.


def start_spread() -> tuple[float, float]:
    """Factors on the usual start at the upper ends of its 80 % and its 95 % interval."""
    usual = facts.coefficients("planning")
    return usual["start_high80"], usual["start_high95"]


def longer_start(probability: float) -> float:
    """By which factor a start may take longer, with this probability (0.5 to 1)."""
    high80, _ = start_spread()
    return float(high80 ** (normal_score(probability) / normal_score(0.9)))


def with_start(figures: FigureColumns, startup_s: Array) -> FigureColumns:
    """Total times whose interval has the doubt of their start in it; `startup_s` (N,)
    is part of each [s]."""
    return dataclasses.replace(figures, **_widened(figures, startup_s))


def with_one_start(figure: Figure, startup_s: float) -> Figure:
    """The same of one figure."""
    ends: dict[str, Any] = {name: float(value) for name, value in _widened(figure, startup_s).items()}
    return dataclasses.replace(figure, **ends)


def _widened(figures: Figure | FigureColumns, startup_s: Array | float) -> dict[str, Any]:
    high80, high95 = start_spread()
    factors = {"low80": 1.0 / high80, "high80": high80, "low95": 1.0 / high95, "high95": high95}
    out: dict[str, Any] = {}
    for name, factor in factors.items():
        side = -1.0 if name.startswith("low") else 1.0
        moved = np.hypot(getattr(figures, name) - figures.mid, startup_s * (factor - 1.0))
        out[name] = np.asarray(figures.mid + side * moved)
    return out


# ---- How surely a deadline and a budget hold: time and money of every row at a probability.
#
# The search knows the middle of each time. Where a limit was given, a family says how far the truth
# may lie from it (`Spread`), and a row passes when its time (its money) still keeps the limit at
# the wanted probability. Of runs that can be stopped the spread of stops is added to first order;
# the rows that lead are worked out in full afterwards (search.confirm).

#: Stops that a job expects fewer of than this move no bound that is asked for, although their
#: spread is wide: few are lost, but much.
RARE = 0.02
_INNER, _OUTER = normal_score(0.9), normal_score(0.975)


@dataclass(frozen=True, slots=True)
class Spread:
    """How far a figure may lie above its middle: factors [1] at the upper ends of the 80 % and the
    95 % interval, any shape that fits (offers, columns)."""

    high80: Array
    high95: Array

    def factor(self, probability: float) -> Array:
        """The factor that the truth stays under with this probability (0.5 to 1): straight in the
        logarithm over the normal score."""
        score = normal_score(probability)
        low, high = np.log(self.high80), np.log(self.high95)
        beyond = low + (high - low) * (score - _INNER) / (_OUTER - _INNER)
        return np.asarray(np.exp(low * score / _INNER if score <= _INNER else beyond))


def certain() -> Spread:
    """What is known exactly."""
    return Spread(np.ones((1, 1)), np.ones((1, 1)))


@dataclass(frozen=True, slots=True)
class Surety:
    """Time and money of every (offer, column) at a probability, shape (O, J). `spread`: of
    the time; `stops_s`: standard deviation of what stops take; `price`: of the rent, by
    offer (O, 1)."""

    bill: BillColumns
    spread: Spread
    stops_s: Array
    price: Spread

    def time_s(self, probability: float) -> Array:
        """The time that each row stays under with this probability [s]; infinite
        where nothing runs."""
        return np.asarray(np.where(np.isfinite(self.bill.total_s), self.bill.total_s * self._longer(probability), np.inf))

    def usd(self, probability: float) -> Array:
        """The bill that each row stays under with this probability [USD]: its parts grow with
        time and price; rent that is owed whole, by a term or a billing step, does not grow before
        it is used up."""
        bill, longer = self.bill, self._longer(probability)
        rent = np.maximum(longer / self._owed(), 1.0)
        rent = np.exp(np.hypot(np.log(rent), np.log(self.price.factor(probability))))
        grown = bill.servers_usd * (rent - 1.0) + (bill.storage_usd + bill.network_usd) * (longer - 1.0)
        return np.asarray(np.where(np.isfinite(bill.total_usd), bill.total_usd + np.nan_to_num(grown), np.inf))

    def _longer(self, probability: float) -> Array:
        """By which factor a job may take longer; a month does not."""
        if not isinstance(self.bill, Bill):
            return np.ones((1, 1))
        known = np.isfinite(self.bill.total_s)
        work = np.where(known, self.bill.total_s - self.bill.startup_s, 0.0)
        later = np.hypot(work * (self.spread.factor(probability) - 1.0), normal_score(probability) * self.stops_s)
        later = np.hypot(later, np.where(known, self.bill.startup_s, 0.0) * (longer_start(probability) - 1.0))
        return np.asarray(1.0 + later / np.where(known, self.bill.total_s, 1.0))

    def _owed(self) -> Array:
        """Rent that is owed over rent for the time that is used; at least 1."""
        if not isinstance(self.bill, Bill):
            return np.ones((1, 1))
        used = self.bill.hourly_usd * np.where(np.isfinite(self.bill.total_s), self.bill.total_s, 0.0) / 3600.0
        return np.asarray(np.maximum(np.divide(self.bill.servers_usd, used, out=np.ones(used.shape), where=used > 0), 1.0))


def surety_of_job(bill: Bill, market: Market, *, spread: Callable[[], Spread], volume: Volume, nodes: Array, is_limited: bool) -> Surety:
    """The surety of a job that saves `volume`, on `nodes` servers by column (J,); worked out only
    where something `is_limited`."""
    if not is_limited:
        return surety_of_month(bill, market)
    return Surety(bill, spread(), stops_s(bill, market, volume=volume, nodes=nodes), price_spread(market))


def surety_of_month(bill: BillColumns, market: Market) -> Surety:
    """The surety of a month: its length is known, its price as far as the market knows it."""
    return Surety(bill, certain(), np.zeros((1, 1)), price_spread(market))


def price_spread(market: Market) -> Spread:
    """How far each price may lie above the expected one, by offer (O, 1)."""
    return Spread(market.doubt.factors[:, 1:2], market.doubt.factors[:, 3:4]) if market.doubt is not None else certain()


def stops_s(bill: Bill, market: Market, *, volume: Volume, nodes: Array) -> Array:
    """Standard deviation of the time that stops take (O, J) [s]: a Poisson number of them at the
    rate of the whole job, each losing a restart and a part, anything up to the whole, of what was
    done since the last checkpoint.

    Reference: variance of a compound Poisson sum, W. Feller, An Introduction to Probability Theory
    and Its Applications, vol. 1, XII.2.
    """
    usual, offers = facts.coefficients("planning"), market.offers
    cards = np.maximum(np.nan_to_num(offers.servers.num_accelerators), 1.0)[offers.server_index]
    rate = failure_rate_per_s(market.charges, accelerators=cards, nodes=nodes)
    save_s = (volume.checkpoint_bytes / (usual["checkpoint_bytes_per_s"] * nodes))[None, :]
    run_s = np.where(np.isfinite(bill.run_s), bill.run_s, 0.0)
    lost = np.minimum(interruption.optimal_interval_s(save_s, mean_time_between=1.0 / rate), run_s)
    again = usual["restart_s"]
    spread_s = np.sqrt(rate * run_s * (again**2 + again * lost + lost**2 / 3.0))
    return np.asarray(np.where(rate * run_s < RARE, 0.0, spread_s))


KNOWN_SHARES = (0.025, 0.1, 0.5, 0.9, 0.975)
ANCHORS = 1  # speeds of the work for which the law is computed; nine move no stated bound by over 0.7 %, at nine times the work
SPEEDS = 45  # and between which its stretch (wall time over work) is carried over
CHANCES = 101  # equally likely stretches taken from each law
RATES = 3  # interruption rates, evenly spread over the logarithm of their band
CALM = 0.005  # below this chance of any stop the law is that of the undisturbed run: it moves no bound that is stated


@dataclass(frozen=True, slots=True)
class Hazard:
    """What stops a run, and what a stop costs. `spot_low`, `spot_high`: fraction of servers taken
    within a month; `other_per_s`: hardware failures of the whole job [1/s]; `save_s` a checkpoint,
    `restart_s` from a stop to working again [s]."""

    spot_low: float
    spot_high: float
    nodes: int
    other_per_s: float
    save_s: float
    restart_s: float

    def rates_per_s(self) -> Array:
        """Stops per second of the whole job at equally likely places of the band, lowest first."""
        low, high = (float(interruption.interruptions_per_s(np.array([share]))[0]) for share in (self.spot_low, self.spot_high))
        places = (np.arange(RATES) + 0.5) / RATES
        spot = np.exp(np.log(max(low, 1e-12)) * (1 - places) + np.log(max(high, 1e-12)) * places)
        return np.asarray(spot * self.nodes + self.other_per_s)

    def mean_rate_per_s(self) -> float:
        """Stops per second at the middle of the band, as the search takes it."""
        middle = interruption.interruptions_per_s(np.array([(self.spot_low + self.spot_high) / 2.0]))
        return float(middle[0]) * self.nodes + self.other_per_s


@dataclass(frozen=True, slots=True)
class Risk:
    """What interruptions do to one run. `total`: wall time with start-up, its interval with chance
    in it; `late`: probability of missing the deadline (None without one); `interval_s`: work
    between checkpoints; `without_checkpoints_s`: expected wall time if nothing were saved
    (infinite: it would hardly ever end)."""

    total: Figure
    late: float | None
    interruptions: float
    interval_s: float
    save_s: float
    restart_s: float
    without_checkpoints_s: float

    def to_dict(self) -> dict[str, Any]:
        """As in the plan's JSON (facts.risk of an option)."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**values, "total": self.total.to_dict()}

    @property
    def without_checkpoints(self) -> float:
        """How many times as long the run would take if nothing were saved."""
        return self.without_checkpoints_s / self.total.mid


def likely_values(figure: Figure, count: int) -> Array:
    """`count` equally likely values of a figure: its quantiles between those that its intervals
    state, straight in the logarithm."""
    known = np.log([figure.low95, figure.low80, figure.mid, figure.high80, figure.high95])
    return np.asarray(np.exp(np.interp((np.arange(count) + 0.5) / count, KNOWN_SHARES, np.maximum.accumulate(known))))


def optimal_interval_s(hazard: Hazard) -> float:
    """Work between two checkpoints at the middle rate [s]."""
    rate = hazard.mean_rate_per_s()
    between = np.array([1.0 / rate if rate > 0 else np.inf])
    return float(interruption.optimal_interval_s(np.array([hazard.save_s]), mean_time_between=between)[0])


def completion_of(run: Figure, hazard: Hazard, *, interval_s: float) -> Completion:
    """The law of the wall time from the first step to the last, speed and rate being known only
    within their limits.

    Known error: the stretch is that of the middle speed; it changes slowly with the length of the
    work (under 0.7 % in any bound against nine anchors).
    """
    if float(hazard.rates_per_s().max()) * run.high95 < CALM:
        calm = likely_values(run, SPEEDS * RATES)
        saves = np.array([hazard.save_s * sum(count for _, count in segments(work, interval_s=max(interval_s, 1.0))) for work in calm])
        return Completion(calm + saves, np.full(calm.shape, 1.0 / calm.shape[0]))
    chances = (np.arange(CHANCES) + 0.5) / CHANCES
    finer = likely_values(run, SPEEDS).reshape(ANCHORS, -1)
    times = []
    for works in finer:
        anchor = float(np.median(works))
        for rate in hazard.rates_per_s():
            law = completion(
                work_s=anchor, interval_s=max(interval_s, 1.0), save_s=hazard.save_s, restart_s=hazard.restart_s, rate_per_s=float(rate)
            )
            times.append(np.outer(works / anchor, law.quantiles_s(chances)).ravel())
    sorted_times = np.sort(np.concatenate(times))
    return Completion(sorted_times, np.full(sorted_times.shape, 1.0 / sorted_times.shape[0]))


def risk_of(run: Figure, hazard: Hazard, *, startup_s: float, expected_s: float, deadline_s: float | None = None) -> Risk:
    """What interruptions do to `run` (seconds of undisturbed work, with its interval).
    `expected_s`: the wall time that the search found, the middle."""
    interval_s = optimal_interval_s(hazard)
    law = completion_of(run, hazard, interval_s=interval_s)
    low95, low80, high80, high95 = (law.quantile_s(share) + startup_s for share in (0.025, 0.1, 0.9, 0.975))
    total = Figure(
        expected_s,
        low80=min(low80, expected_s),
        high80=max(high80, expected_s),
        low95=min(low95, expected_s),
        high95=max(high95, expected_s),
        source=run.source,
    )
    return Risk(
        total=total,
        late=law.chance_after(deadline_s - startup_s) if deadline_s is not None else None,
        interruptions=hazard.mean_rate_per_s() * (expected_s - startup_s),
        interval_s=interval_s,
        save_s=hazard.save_s,
        restart_s=hazard.restart_s,
        without_checkpoints_s=startup_s + without_checkpoints_s(run.mid, hazard),
    )


def without_checkpoints_s(work_s: float, hazard: Hazard) -> float:
    """Expected wall time when a stop loses everything [s]: M exp(R / M) (exp(W / M) - 1), infinite
    beyond e^30 attempts."""
    rate = hazard.mean_rate_per_s()
    if rate <= 0:
        return work_s
    if rate * work_s > 30.0:
        return math.inf
    return math.exp(rate * hazard.restart_s) * math.expm1(rate * work_s) / rate


@dataclass(frozen=True, slots=True)
class RunOfRow:
    """A run on `nodes` servers with `accelerators` each: undisturbed `work` [s], `startup_s` before
    it, `total_s` as the search expects it."""

    work: Figure
    startup_s: float
    total_s: float
    nodes: int
    accelerators: float
    checkpoint_bytes: float


def risk_of_row(charges: MarketFacts, offer: int, run: RunOfRow, *, deadline_s: float | None) -> Risk | None:
    """The risk of a run on an offer; None where it is not spot and fewer stops are expected than
    are worth telling."""
    usual = facts.coefficients("planning")
    hazard = Hazard(
        spot_low=float(charges.spot_low[offer]),
        spot_high=float(charges.spot_high[offer]),
        nodes=run.nodes,
        other_per_s=usual["failures_per_accelerator_s"] * run.accelerators * run.nodes,
        save_s=run.checkpoint_bytes / (usual["checkpoint_bytes_per_s"] * run.nodes),
        restart_s=usual["restart_s"],
    )
    told = hazard.spot_high > 0 or hazard.mean_rate_per_s() * run.total_s >= usual["failures_told"]
    if not told or not math.isfinite(run.total_s):
        return None
    return risk_of(run.work, hazard, startup_s=run.startup_s, expected_s=run.total_s, deadline_s=deadline_s)


def risk_facts(risk: Risk | None, hourly_usd: float) -> dict[str, Any] | None:
    """The risk of an option as plain figures, with the rent that it would run up if
    nothing were saved."""
    if risk is None:
        return None
    rent = risk.without_checkpoints_s / 3600.0 * float(hourly_usd)
    return {**risk.to_dict(), "without_checkpoints": risk.without_checkpoints, "without_checkpoints_usd": rent}
