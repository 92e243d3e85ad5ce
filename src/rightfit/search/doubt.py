"""How sure a price is. A quote is what it says; an estimate is corrected by what such estimates turned out to be, and carries its doubt
into the bill.

Estimated spot prices are an on-demand price times a published saving. Against quotes they were too low where they looked best: of two
hundred regions
the one with the greatest error leads. So the share of the on-demand price is drawn towards the usual share, as far as comparison says (see
docs/decisions/estimated-prices.md), and ranking takes the upper end of what is then likely: an estimate wins only where it would still win
then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.catalog.freshness import old_prices
from rightfit.catalog.offers import PURCHASES, OfferTable
from rightfit.physics.columns import Array
from rightfit.records import dataclass

SPOT, ON_DEMAND = PURCHASES.index("spot"), PURCHASES.index("on-demand")
BOUNDS = ("low80", "high80", "low95", "high95")


@dataclass(frozen=True, slots=True)
class PriceDoubt:
    """By offer: the figure of the source [USD/h], and by which factors (low80, high80, low95, high95) the expected price may be off; 1 for
    a quote.
    `rank_factor`: what the price counts as in ranking, over the expected one. `is_old`: by catalog.freshness."""

    listed_usd_per_h: Array
    factors: Array
    rank_factor: Array
    is_old: NDArray[np.bool_]

    def take(self, rows: NDArray[np.intp]) -> PriceDoubt:
        """The given offers."""
        return PriceDoubt(self.listed_usd_per_h[rows], self.factors[rows], self.rank_factor[rows], self.is_old[rows])


def with_doubt(offers: OfferTable, *, among: OfferTable | None = None) -> tuple[OfferTable, PriceDoubt]:
    """The offers at their expected prices, and how sure those are. `among`: where on-demand prices are looked up, with the same servers and
    regions."""
    listed, whole = offers.price_usd_per_h, on_demand_beside(offers, among=among or offers)
    expected = expected_prices(offers, whole)
    is_old = old_prices(offers)
    factors = price_factors(offers, expected, whole, is_old=is_old)
    rank_factor = np.where(offers.is_estimate | is_old | offers.is_stale, factors[:, 1], 1.0)
    rank_factor = np.where(rises(offers) & ~offers.is_estimate & ~is_old, factors[:, 3], rank_factor)
    return dataclasses.replace(offers, price_usd_per_h=expected), PriceDoubt(listed, factors, rank_factor, is_old)


def rises(offers: OfferTable) -> NDArray[np.bool_]:
    """Old prices (O,) of accelerators in mainland China: those were raised since (source of stale_price_high95), so that ranking takes the
    upper 95 % end where it takes the 80 % end of others."""
    home = np.array([country == "CN" for country in offers.region_countries], dtype=np.bool_)[offers.region_index]
    return np.asarray(offers.is_stale & home & (offers.servers.num_accelerators > 0)[offers.server_index])


def on_demand_beside(offers: OfferTable, *, among: OfferTable) -> Array:
    """The least on-demand price of the same server in the same region, for each offer (O,) [USD/h]; NaN where none is listed."""
    regions = len(offers.regions)
    place = offers.server_index * regions + offers.region_index
    quoted = np.flatnonzero((among.purchase_index == ON_DEMAND) & ~among.is_quarantined & np.isfinite(among.price_usd_per_h))
    if not quoted.shape[0]:
        return np.full(len(offers), np.nan)
    beside = among.server_index[quoted] * regions + among.region_index[quoted]
    order = np.argsort(beside, kind="stable")
    beside = beside[order]
    first = np.flatnonzero(np.concatenate([[True], beside[1:] != beside[:-1]]))
    least, beside = np.minimum.reduceat(among.price_usd_per_h[quoted][order], first), beside[first]
    row = np.minimum(np.searchsorted(beside, place), beside.size - 1)
    return np.where(beside[row] == place, least[row], np.nan)


def expected_prices(offers: OfferTable, whole: Array) -> Array:
    """Prices as expected: quotes as they are; an estimated spot price at share^t x usual^(1 - t) of the on-demand price beside it."""
    usual = facts.coefficients("planning")
    share, trust = offers.price_usd_per_h / whole, usual["spot_estimate_trust"]
    drawn = whole * share**trust * usual["spot_typical_share"] ** (1.0 - trust)
    is_drawn = offers.is_estimate & (offers.purchase_index == SPOT) & np.isfinite(whole)
    return np.where(is_drawn, np.minimum(drawn, whole), offers.price_usd_per_h)


def price_factors(offers: OfferTable, expected: Array, whole: Array, *, is_old: NDArray[np.bool_]) -> Array:
    """Factors (O, 4) on the expected price: of spot prices that are estimates or old, of old prices of GPU clouds, of other estimates, of other
    old prices; 1 elsewhere. A spot price stays between its least share of the on-demand price beside it and that price."""
    usual = facts.coefficients("planning")
    is_spot, known = offers.purchase_index == SPOT, np.isfinite(whole)
    moving = is_spot & (offers.is_estimate | offers.is_stale | is_old)
    factors = np.ones((len(offers), 4))
    factors[offers.is_stale] = _bounds(usual, "stale_price")
    factors[is_old] = _bounds(usual, "moved_price")
    factors[offers.is_estimate] = _bounds(usual, "estimated_price")
    factors[moving & known] = _bounds(usual, "spot_estimate")
    factors[moving & ~known] = _bounds(usual, "spot_price")
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.maximum(whole / expected, 1.0)
    least = np.minimum(most * usual["spot_price_least_share"], 1.0)
    held = np.clip(factors, least[:, None], most[:, None])
    return np.where((moving & known)[:, None], held, factors)


def _bounds(usual: Mapping[str, float], kind: str) -> Array:
    return np.array([usual[f"{kind}_{bound}"] for bound in BOUNDS])


def both_doubts(time_factors: Array, price_factors: Array) -> Array:
    """Bounds (low80, high80, low95, high95) as factors on the middle, of two independent doubts: their logarithms add up by squares."""
    size = np.sqrt(np.log(time_factors) ** 2 + np.log(price_factors) ** 2)
    return np.asarray(np.exp(size * np.array([-1.0, 1.0, -1.0, 1.0])))
