"""What a server of one's own costs: purchase, power with cooling, space, maintenance and staff, less what it is worth at the end.

All money in USD, power in watts, times in years or hours. Every argument is an array of shape (N,) or (1,), one row a server.

Source: Hamilton 2008; Barroso et al. 2018, chapter 6.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightfit.records import dataclass
from rightfit.units import HOURS_PER_YEAR, MONTHS_PER_YEAR, WATTS_PER_KW

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ownership:
    """Prices and habits of owning. Fractions are of one; `capex_usd` is the whole server, host and cards.

    Units: `capex_usd` [USD], `extra_capex_share`, `pue`, `residual_share` [1], `idle_w`, `full_w` [W], `electricity_usd_per_kwh` [USD/kWh],
    `space_usd_per_kw_month` [USD/kW/month], `maintenance_share_per_year`, `capital_rate` [1/year], `staff_usd_per_year` [USD/year],
    `servers_per_administrator` [servers], `years` [years].
    """

    capex_usd: Array
    extra_capex_share: Array  # switches, cables, rack, spares: a share of the server's price
    idle_w: Array
    full_w: Array
    pue: Array  # power of the building over power of the server
    electricity_usd_per_kwh: Array
    space_usd_per_kw_month: Array  # rack space with its share of the building, per kW of full power
    maintenance_share_per_year: Array  # support and spares, of the purchase
    staff_usd_per_year: Array  # one administrator
    servers_per_administrator: Array
    years: Array
    residual_share: Array  # of the purchase, when it is sold
    capital_rate: Array  # interest a year on the money tied up


@dataclass(frozen=True, slots=True)
class YearlyCost:
    """What a server costs in a year [USD]; `power_usd_per_busy_h` is the part that only busy hours add.

    Units: `purchase_usd`, `interest_usd`, `space_usd`, `maintenance_usd`, `staff_usd`, `idle_power_usd` [USD/year], `power_usd_per_busy_h`
    [USD/h].
    """

    purchase_usd: Array
    interest_usd: Array
    space_usd: Array
    maintenance_usd: Array
    staff_usd: Array
    idle_power_usd: Array
    power_usd_per_busy_h: Array

    @property
    def fixed_usd(self) -> Array:
        """What is paid in a year whether the server works or not -> [USD/year]."""
        return self.purchase_usd + self.interest_usd + self.space_usd + self.maintenance_usd + self.staff_usd + self.idle_power_usd

    def total_usd(self, utilisation: Array) -> Array:
        """A year in which the server works the share `utilisation` [1] of all hours -> [USD/year]."""
        return self.fixed_usd + self.power_usd_per_busy_h * HOURS_PER_YEAR * utilisation


def yearly_cost(own: Ownership) -> YearlyCost:
    """What a server costs in a year.

    bought = capex * (1 + extra); purchase = bought * (1 - residual) / years; interest = rate * the mean of what is tied up,
    bought * (1 + residual) / 2; space = price per kW and month * 12 * full power; maintenance = share * bought; staff = salary / servers
    that one administrator runs; power = kWh * PUE * price, where an idle hour draws idle_w and a busy one full_w.

    Source: straight-line depreciation with interest on the mean book value (Hamilton, "Cost of power in large-scale data centers", 2008;
    Barroso, Hoelzle, Ranganathan, "The Datacenter as a Computer", 3rd ed. 2018, chapter 6).
    Known error: one price of power for all hours; no taxes, insurance or downtime; busy power is the nameplate, which most jobs do not
    reach (10 to 25 % under it), so owning comes out slightly too dear.
    """
    bought = own.capex_usd * (1.0 + own.extra_capex_share)
    usd_per_wh = own.electricity_usd_per_kwh * own.pue / WATTS_PER_KW
    return YearlyCost(
        purchase_usd=bought * (1.0 - own.residual_share) / own.years,
        interest_usd=bought * (1.0 + own.residual_share) / 2.0 * own.capital_rate,
        space_usd=own.space_usd_per_kw_month * MONTHS_PER_YEAR * own.full_w / WATTS_PER_KW,
        maintenance_usd=own.maintenance_share_per_year * bought,
        staff_usd=own.staff_usd_per_year / own.servers_per_administrator,
        idle_power_usd=own.idle_w * usd_per_wh * HOURS_PER_YEAR,
        power_usd_per_busy_h=np.maximum(own.full_w - own.idle_w, 0.0) * usd_per_wh,
    )


def usd_per_busy_h(cost: YearlyCost, *, utilisation: Array) -> Array:
    """What one hour of work costs when the server works a share of all hours: year / (8760 * utilisation).

    `utilisation` [1], 0 to 1 -> [USD/h].
    """
    return cost.total_usd(utilisation) / (HOURS_PER_YEAR * utilisation)


def break_even_utilisation(cost: YearlyCost, *, rent_usd_per_h: Array) -> Array:
    """The share of all hours from which owning is cheaper than renting by the hour.

    `rent_usd_per_h` [USD/h] -> [1].
    rent * 8760 * u = fixed + busy * 8760 * u, so u = fixed / (8760 * (rent - busy)). Infinite where an hour of rent costs no more than the
    power of a busy hour of one's own; over 1 where owning never pays at this rent.
    Known error: rent is taken as paid for busy hours only, without start-up time.
    """
    margin = rent_usd_per_h - cost.power_usd_per_busy_h
    with np.errstate(divide="ignore"):
        return np.where(margin > 0, cost.fixed_usd / (HOURS_PER_YEAR * np.where(margin > 0, margin, 1.0)), np.inf)


def payback_years(own: Ownership, cost: YearlyCost, *, rent_usd_per_h: Array, utilisation: Array) -> Array:
    """Years after which the rent saved has paid for the purchase, without selling it; infinite where it never does.

    `rent_usd_per_h` [USD/h], `utilisation` [1] -> [years].
    Paid back when capex * (1 + extra) = years * (rent * hours - running cost a year), the running cost being all but purchase.
    """
    running = cost.total_usd(utilisation) - cost.purchase_usd
    saved = rent_usd_per_h * HOURS_PER_YEAR * utilisation - running
    return np.where(saved > 0, own.capex_usd * (1.0 + own.extra_capex_share) / np.where(saved > 0, saved, 1.0), np.inf)


def job_usd(cost: YearlyCost, *, busy_h: Array, utilisation: Array) -> Array:
    """One job's share of the year: busy hours at the price of a busy hour.

    `busy_h` [h] of the server, `utilisation` [1] -> [USD]. Exact but for the utilisation assumed.
    """
    return busy_h * usd_per_busy_h(cost, utilisation=utilisation)
