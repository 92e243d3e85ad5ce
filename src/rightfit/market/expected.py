"""What a listed price means to somebody who comes today: the price to expect, with an interval.

A list of thousands of prices is full of lucky ones, and the least of them is the one most below
what is paid later. So each price is drawn towards the others of its server type by as much as
such prices were found to hold, and moved by as much as such prices were found to move since their
day (data/price_model.csv, fitted and tested by validation/market/fit_prices.py; the method is in
docs/decisions/expected-prices.md). Whose price is of which kind stands in rules.toml.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rightfit.market.offers import PURCHASES, Flags, Floats, OfferTable, ages_of_dates, provider_codes, today
from rightfit.market.packed_tables import data_bytes, rules
from rightfit.records import dataclass

SPOT, ON_DEMAND = PURCHASES.index("spot"), PURCHASES.index("on-demand")
BOUNDS = ("low80", "high80", "low95", "high95")
#: A price that is agreed, not listed: of one's own servers and of a price book.
AGREED = ""
_BOOK = "price book "
_LONG_AGO = 1e5  # days
_LAWS = ("trust", "drift", *BOUNDS)


@dataclass(frozen=True, slots=True)
class Law:
    """What one kind of price is known by, at ages [days] ascending (A,): `trust` [1], `drift`
    (logarithm), and the logarithms of the factors on the expected price (BOUNDS)."""

    ages: Floats
    columns: Mapping[str, Floats]

    def at(self, age_days: Floats) -> dict[str, Floats]:
        """All of it at some ages; beyond the last one as at the last one."""
        return {name: np.interp(age_days, self.ages, values) for name, values in self.columns.items()}


@dataclass(frozen=True, slots=True)
class Expected:
    """By offer (O,): the expected price [USD/h]; factors (O, 4) on it for its BOUNDS; whether the
    price may have moved by a tenth or more since its day (`is_old`); whether it is older than what
    is known of such prices (`is_beyond`)."""

    usd_per_h: Floats
    factors: Floats
    is_old: Flags
    is_beyond: Flags


@functools.cache
def laws() -> Mapping[str, Law]:
    """The law of each kind of price."""
    rows = list(csv.DictReader(data_bytes("price_model.csv").decode().splitlines()))
    found = {}
    for group in dict.fromkeys(row["group"] for row in rows):
        own = [row for row in rows if row["group"] == group]
        columns = {name: np.array([float(row[name]) for row in own]) for name in _LAWS}
        logs = {name: np.log(values) if name in BOUNDS else values for name, values in columns.items()}
        found[group] = Law(np.array([float(row["age_days"]) for row in own]), logs)
    return found


@functools.cache
def group_of(provider: str, purchase: str) -> str:
    """The kind of price of a seller and way to pay: the first rule that fits."""
    for rule in rules()["price_groups"]["groups"]:
        if re.search(rule["provider"], provider) and re.search(rule["purchase"], purchase):
            return str(rule["group"])
    return AGREED


def expected(offers: OfferTable, *, among: OfferTable) -> Expected:
    """What the listed prices of offers mean today. `among`: all offers, with the same servers and
    regions, whose prices are compared."""
    names = tuple(laws())
    group, is_agreed = _groups(offers, names)
    ages = np.minimum(ages_of_dates(offers.as_of_dates, today()), _LONG_AGO)
    by_kind = [laws()[kind].at(ages) for kind in names]  # of each kind at each date
    law = {name: np.stack([one[name] for one in by_kind]) for name in _LAWS}
    kind = group * len(ages) + offers.as_of_index  # of prices of one group and date all is the same
    mid = offers.price_usd_per_h * np.exp(law["drift"]).ravel()[kind]
    factors = np.exp(np.stack([law[name] for name in BOUNDS], axis=2)).reshape(-1, len(BOUNDS)).take(kind, axis=0)
    factors[offers.is_estimate] = _estimate_factors(factors[offers.is_estimate])
    spot = np.flatnonzero((offers.purchase_index == SPOT) & ~is_agreed)
    trust, drift = (law[name].ravel()[kind[spot]] for name in ("trust", "drift"))
    mid[spot], most = _spot_prices(offers.take(spot), among=among, trust=trust, drift=drift)
    factors[spot] = np.fmin(factors[spot], most[:, None])
    factors[is_agreed] = 1.0
    last = np.array([laws()[name].ages[-1] for name in names])
    old, beyond = (ages[None, :] > limit[:, None] for limit in (_old_days(names), last))
    return Expected(
        usd_per_h=np.where(is_agreed, offers.price_usd_per_h, mid),
        factors=factors,
        is_old=old.ravel()[kind] & ~is_agreed,
        is_beyond=beyond.ravel()[kind] & ~is_agreed,
    )


def _spot_prices(spot: OfferTable, *, among: OfferTable, trust: Floats, drift: Floats) -> tuple[Floats, Floats]:
    """Expected prices of spot offers (O,) [USD/h], and the most that each may be over it: nobody
    pays more than on demand."""
    whole = OnDemandPrices.of(among)
    beside = whole.beside(spot.server_index, spot.region_index)
    centre = _centres(spot, among=among, whole=whole)
    own = np.log(spot.price_usd_per_h)
    pull = np.where(np.isfinite(centre), 1.0 - trust, 0.0)
    mid = np.exp(own + pull * (np.nan_to_num(centre) - own) + drift)
    most = np.where(np.isfinite(beside), np.maximum(beside, spot.price_usd_per_h), np.inf)
    mid = np.fmin(mid, most)
    return np.asarray(mid), np.asarray(most / mid)


def _groups(offers: OfferTable, names: tuple[str, ...]) -> tuple[NDArray[np.intp], Flags]:
    """The place of each offer's kind among `names` (0 where it is agreed), and whether it is."""
    providers, row = provider_codes(offers.servers)
    code = {name: number for number, name in enumerate(names)}
    pair = row[offers.server_index] * len(PURCHASES) + offers.purchase_index
    table = np.full(len(providers) * len(PURCHASES), -1, dtype=np.intp)
    for at in np.flatnonzero(np.bincount(pair)).tolist():
        table[at] = code.get(group_of(providers[at // len(PURCHASES)], PURCHASES[at % len(PURCHASES)]), -1)
    found = table[pair]
    own = np.array([text.startswith(_BOOK) and ";" not in text for text in offers.sources], dtype=np.bool_)
    is_agreed = (found < 0) | own[offers.source_index]
    return np.maximum(found, 0), is_agreed


@functools.cache
def _old_days(names: tuple[str, ...]) -> Floats:
    """The age from which a price of each kind may be off by a tenth: where the further end of its
    80 % interval, with its drift, first is; infinite where it never is."""
    limit, found = np.log(1.1), []
    for name in names:
        days = np.arange(0.0, laws()[name].ages[-1] + 1.0)
        law = laws()[name].at(days)
        off = np.maximum(law["drift"] + law["high80"], -law["drift"] - law["low80"])
        found.append(float(days[off >= limit][0]) if (off[-1] >= limit) else float(days[-1]))
    return np.maximum(np.array(found) - 0.5, 0.0)


def _estimate_factors(factors: Floats) -> Floats:
    """Prices that nobody asks are known no better than prices of one type in several regions."""
    from rightfit import facts

    usual = facts.coefficients("planning")
    least = np.array([usual[f"estimated_price_{bound}"] for bound in BOUNDS])
    return np.asarray(np.where(least < 1.0, np.minimum(factors, least), np.maximum(factors, least)))


# ---- What a price is compared with.


@dataclass(frozen=True, slots=True)
class OnDemandPrices:
    """The least on-demand prices [USD/h], by server and region (`place`: server x regions + region,
    ascending) and by server."""

    regions: int
    place: NDArray[np.intp]
    at_place: Floats
    server: NDArray[np.intp]
    anywhere: Floats

    @classmethod
    def of(cls, among: OfferTable) -> OnDemandPrices:
        """Those of all sound offers."""
        rows = np.flatnonzero((among.purchase_index == ON_DEMAND) & ~among.is_quarantined & np.isfinite(among.price_usd_per_h))
        regions, price = len(among.regions), among.price_usd_per_h[rows]
        place, at_place = _least(among.server_index[rows] * regions + among.region_index[rows], price)
        server, anywhere = _least(place // regions, at_place)
        return cls(regions, place, at_place, server, anywhere)

    def beside(self, server: NDArray[np.intp], region: NDArray[np.intp]) -> Floats:
        """In the same region; NaN where it is not sold so."""
        return _found(self.place, self.at_place, server * self.regions + region)

    def usual(self, server: NDArray[np.intp], region: NDArray[np.intp]) -> Floats:
        """In the same region, or else the least of any; 1 where it is sold so nowhere."""
        here, anywhere = self.beside(server, region), _found(self.server, self.anywhere, server)
        return np.where(np.isfinite(here), here, np.where(np.isfinite(anywhere), anywhere, 1.0))


def _least(keys: NDArray[np.intp], values: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Each key once, ascending, with its least value."""
    if not keys.size:
        return keys, values
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[first], np.minimum.reduceat(values[order], first)


def _found(keys: NDArray[np.intp], values: Floats, wanted: NDArray[np.intp]) -> Floats:
    """The value of each wanted key; NaN where there is none. `keys` ascend."""
    if not keys.size:
        return np.full(wanted.shape, np.nan)
    row = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.asarray(np.where(keys[row] == wanted, values[row], np.nan))


def _centres(spot: OfferTable, *, among: OfferTable, whole: OnDemandPrices) -> Floats:
    """Logarithm of the price (O,) that a spot quote is drawn towards: the median share of on demand
    of its server over all regions, drawn towards that of its cloud where regions are few (servers
    with cards apart from those without, which `among` may lack), times the on-demand price beside
    it. Of a server that is not sold on demand the prices themselves are compared. NaN where nothing
    is known."""
    rows = np.flatnonzero((among.purchase_index == SPOT) & ~among.is_quarantined & np.isfinite(among.price_usd_per_h))
    if not rows.size or not len(spot):
        return np.full(len(spot), np.nan)
    place = among.server_index[rows], among.region_index[rows]
    servers, middle, count = _medians(place[0], np.log(among.price_usd_per_h[rows] / whole.usual(*place)))
    sold = np.flatnonzero(np.isin(servers, whole.server))
    seller = 2 * provider_codes(among.servers)[1][servers] + (among.servers.num_accelerators[servers] > 0)
    sellers, usual, _ = _medians(seller[sold], middle[sold])
    weight = np.where(np.isin(servers, whole.server), float(rules()["price_centre"]["cloud_counts_regions"]), 0.0)
    centre = (count * middle + weight * np.nan_to_num(_found(sellers, usual, seller))) / (count + weight)
    return np.asarray(_found(servers, centre, spot.server_index) + np.log(whole.usual(spot.server_index, spot.region_index)))


def _medians(keys: NDArray[np.intp], values: Floats) -> tuple[NDArray[np.intp], Floats, Floats]:
    """Each key once, ascending, the median of its values and how many there are."""
    if not keys.size:
        return keys, values, values
    order = np.lexsort((values, keys))
    keys, values = keys[order], values[order]
    start = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    count = np.diff(np.append(start, keys.size))
    low, high = start + (count - 1) // 2, start + count // 2
    return keys[start], np.asarray((values[low] + values[high]) / 2.0), count.astype(np.float64)
