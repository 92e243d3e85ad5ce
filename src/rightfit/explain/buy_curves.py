"""What each way to pay costs in a month by the hours used: the lines of a break-even chart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rightfit import facts
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.search.answer import Section


@dataclass(frozen=True, slots=True)
class BuyCurve:
    """One way to pay: the money of a month [USD] at the first and the last hour [h] of its straight line; the same at both ends where a
    month is owed anyway."""

    purchase: str
    hours: tuple[float, float]
    usd: tuple[float, float]


def buy_curves(section: Section) -> tuple[BuyCurve, ...]:
    """One line for each way to pay with a known price, cheapest at full use first."""
    month_h = float(facts.coefficients("serving_planning")["hours_per_month"])
    found: dict[str, BuyCurve] = {}
    for mode in section.content["modes"]:
        price, month = mode["price_usd_per_h"], mode["month_usd"]
        if price is None or month is None or mode["purchase"] in found:
            continue
        owed = mode["term_h"] > 0
        found[mode["purchase"]] = BuyCurve(mode["purchase"], (0.0, month_h), (month if owed else 0.0, month))
    return tuple(sorted(found.values(), key=lambda curve: curve.usd[1]))


@dataclass(frozen=True, slots=True)
class OwedCurve:
    """One way to pay: what is owed [USD] after so many months of use around the clock; a term that has begun is owed whole."""

    purchase: str
    months: tuple[float, ...]
    usd: tuple[float, ...]


def owed_curves(section: Section, *, horizon: float = 36.0) -> tuple[OwedCurve, ...]:
    """One curve for each way to pay with a known price, the cheapest at the horizon first."""
    month_h = float(facts.coefficients("serving_planning")["hours_per_month"])
    found: dict[str, OwedCurve] = {}
    for mode in section.content["modes"]:
        if mode["price_usd_per_h"] is None or mode["month_usd"] is None or mode["purchase"] in found:
            continue
        term, owed = mode["term_h"] / month_h, mode["owed_usd"]
        if not term:
            found[mode["purchase"]] = OwedCurve(mode["purchase"], (0.0, horizon), (0.0, mode["month_usd"] * horizon))
            continue
        starts = [count * term for count in range(max(1, math.ceil(horizon / term - 1e-9)))]
        months = [month for start in starts for month in (start, min(start + term, horizon))]
        usd = [owed * (count + 1) for count in range(len(starts)) for _ in range(2)]
        found[mode["purchase"]] = OwedCurve(mode["purchase"], tuple(months), tuple(usd))
    return tuple(sorted(found.values(), key=lambda curve: curve.usd[-1]))
