"""How surely a deadline and a budget hold: time and money of every row at a probability.

The search knows the middle of each time. Where a limit was given, a family says how far the truth may lie from it (`Spread`), and a row
passes when its time (its money) still keeps the limit at the wanted probability. Of runs that can be stopped the spread of stops is added
to first order; the rows that lead are worked out in full afterwards (search.confirm).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from rightfit import facts
from rightfit.estimate.figures import normal_score
from rightfit.physics import interruption
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search.market import Bill, BillColumns, Volume, failure_rate_per_s
from rightfit.search.start import longer_start

if TYPE_CHECKING:
    from rightfit.search.offers import Market

#: Stops that a job expects fewer of than this move no bound that is asked for, although their spread is wide: few are lost, but much.
RARE = 0.02
_INNER, _OUTER = normal_score(0.9), normal_score(0.975)


@dataclass(frozen=True, slots=True)
class Spread:
    """How far a figure may lie above its middle: factors [1] at the upper ends of the 80 % and the 95 % interval, any shape that fits
    (offers, columns)."""

    high80: Array
    high95: Array

    def factor(self, probability: float) -> Array:
        """The factor that the truth stays under with this probability (0.5 to 1): straight in the logarithm over the normal score."""
        score = normal_score(probability)
        low, high = np.log(self.high80), np.log(self.high95)
        beyond = low + (high - low) * (score - _INNER) / (_OUTER - _INNER)
        return np.asarray(np.exp(low * score / _INNER if score <= _INNER else beyond))


def certain() -> Spread:
    """What is known exactly."""
    return Spread(np.ones((1, 1)), np.ones((1, 1)))


@dataclass(frozen=True, slots=True)
class Surety:
    """Time and money of every (offer, column) at a probability, shape (O, J). `spread`: of the time; `stops_s`: standard deviation of what
    stops take; `price`: of the rent, by offer (O, 1)."""

    bill: BillColumns
    spread: Spread
    stops_s: Array
    price: Spread

    def time_s(self, probability: float) -> Array:
        """The time that each row stays under with this probability [s]; infinite where nothing runs."""
        return np.asarray(np.where(np.isfinite(self.bill.total_s), self.bill.total_s * self._longer(probability), np.inf))

    def usd(self, probability: float) -> Array:
        """The bill that each row stays under with this probability [USD]: its parts grow with time and price; rent that is owed whole, by a
        term or a billing step, does not grow before it is used up."""
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
    """The surety of a job that saves `volume`, on `nodes` servers by column (J,); worked out only where something `is_limited`."""
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
    """Standard deviation of the time that stops take (O, J) [s]: a Poisson number of them at the rate of the whole job, each losing a
    restart and a part, anything up to the whole, of what was done since the last checkpoint.

    Reference: variance of a compound Poisson sum, W. Feller, An Introduction to Probability Theory and Its Applications, vol. 1, XII.2.
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
