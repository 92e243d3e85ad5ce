"""What a run costs: servers, storage for its duration, data that leaves. Pure arithmetic on arrays.

All times are in seconds, all prices in USD. A month is 730 hours (8760 / 12), which is how every
provider in the catalog converts monthly prices, and a price "per GB" counts 10^9 bytes.

Source: definition, by the providers' billing pages (src/rightfit/facts/data/billing.csv).

What a server of one's own costs: purchase, power with cooling, space, maintenance and staff, less
what it is worth at the end.

All money in USD, power in watts, times in years or hours. Every argument is an array of shape (N,)
or (1,), one row a server.

Source: Hamilton 2008; Barroso et al. 2018, chapter 6.

Energy of servers and the CO2 of the grid that feeds them.

Source: Patterson et al. 2021 (arXiv 2104.10350), section 2; Cloud Carbon Footprint, methodology
(power of processors and memory). Known error: the building of servers and data centres (embodied
CO2) is left out; a grid's yearly mean stands for every hour; what a seller buys as green
certificates does not count (location-based, GHG Protocol scope 2).
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.units import (
    GB,
    GRAMS_PER_KG,
    HOURS_PER_MONTH,
    HOURS_PER_YEAR,
    MILLION,
    MONTHS_PER_YEAR,
    SECONDS_PER_HOUR,
    SECONDS_PER_MONTH,
    WATTS_PER_KW,
)


def billed_s(run_s: Array, *, minimum_s: Array, increment_s: Array) -> Array:
    """Seconds that are billed for a run.

    `run_s` [s], >= 0, `minimum_s` [s], the shortest time that is billed (60 s for most clouds'
    Linux servers, the whole term for a subscription or reservation), `increment_s` [s] > 0, the
    step in which time is counted (1 s, 1 h, or the whole term: a second term begins when the first
    is over) -> [s].

    billed = max(minimum, max(1, ceil(run / increment)) * increment), and 0 for a run
    that never happens.
    Known error: sustained-use and volume discounts are not modelled, so long GCP N1 runs come out
    up to 30 % too dear.
    """
    counted = np.maximum(np.ceil(run_s / increment_s - 1e-9), 1.0) * increment_s
    return np.where(run_s > 0, np.maximum(minimum_s, counted), 0.0)


def server_usd(billed: Array, *, price_usd_per_h: Array, nodes: Array) -> Array:
    """Rent of `nodes` whole servers over `billed` seconds.

    `billed` [s], `price_usd_per_h` [USD/h] of one server, host included, `nodes` [servers] ->
    [USD]. cost = billed / 3600 * price * nodes. Exact; taxes are not included.
    """
    return billed / SECONDS_PER_HOUR * price_usd_per_h * nodes


def storage_usd(stored_bytes: Array, *, kept_s: Array, price_usd_per_gb_month: Array) -> Array:
    """Rent of a volume of `stored_bytes` that is kept `kept_s` seconds.

    `stored_bytes` [bytes], `kept_s` [s], `price_usd_per_gb_month` [USD/GB/month] of 10^9 bytes
    and 730 h -> [USD].
    cost = bytes / 1e9 * price * kept / month. Block volumes are billed by the second or the hour at
    every provider of the catalog, so a month's price is pro rata. Known error: minimum volume sizes
    (20 GB on Alibaba) are not modelled.
    """
    return stored_bytes / GB * price_usd_per_gb_month * kept_s / SECONDS_PER_MONTH


def egress_usd(sent_bytes: Array, *, price_usd_per_gb: Array, free_bytes: Array) -> Array:
    """Price of sending `sent_bytes` out of the cloud once.

    `sent_bytes` [bytes], `price_usd_per_gb` [USD/GB] of 10^9 bytes, `free_bytes` [bytes], the free
    allowance -> [USD]. cost = max(0, sent - free) / 1e9 * price. Tiers above the first are not
    modelled: the first tier is the dearest.
    """
    return np.maximum(sent_bytes - free_bytes, 0.0) / GB * price_usd_per_gb


def per_million_tokens_usd(total_usd: Array, *, tokens: Array) -> Array:
    """Cost of one million processed tokens: cost * 1e6 / tokens.

    `total_usd` [USD], `tokens` [tokens] > 0 -> [USD/Mtoken].
    """
    return total_usd * MILLION / tokens


def worst_month_usd(total_usd: Array, *, hourly_usd: Array) -> Array:
    """The most that is spent within one month of 730 h: the whole run when it is shorter, a month
    of rent when it is longer.

    `total_usd` [USD] of the whole run, `hourly_usd` [USD/h] of all servers -> [USD]. min(total,
    730 * hourly). A subscription whose term is billed at once shows its whole price only in
    `total_usd`.
    """
    return np.minimum(total_usd, HOURS_PER_MONTH * hourly_usd)


@dataclass(frozen=True, slots=True)
class Ownership:
    """Prices and habits of owning. Fractions are of one; `capex_usd` is the whole
    server, host and cards.

    Units: `capex_usd` [USD], `extra_capex_share`, `pue`, `residual_share` [1], `idle_w`, `full_w`
    [W], `electricity_usd_per_kwh` [USD/kWh], `space_usd_per_kw_month` [USD/kW/month],
    `maintenance_share_per_year`, `capital_rate` [1/year], `staff_usd_per_year` [USD/year],
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
    """What a server costs in a year [USD]; `power_usd_per_busy_h` is the part that
    only busy hours add.

    Units: `purchase_usd`, `interest_usd`, `space_usd`, `maintenance_usd`, `staff_usd`,
    `idle_power_usd` [USD/year], `power_usd_per_busy_h` [USD/h].
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
        """What is paid in a year whether the server works or not -> [USD/year].

        Source: Hamilton 2008; Barroso et al. 2018, chapter 6.
        """
        return self.purchase_usd + self.interest_usd + self.space_usd + self.maintenance_usd + self.staff_usd + self.idle_power_usd

    def total_usd(self, utilisation: Array) -> Array:
        """A year in which the server works the share `utilisation` [1] of all hours -> [USD/year].

        Source: Hamilton 2008; Barroso et al. 2018, chapter 6.
        """
        return self.fixed_usd + self.power_usd_per_busy_h * HOURS_PER_YEAR * utilisation


def yearly_cost(own: Ownership) -> YearlyCost:
    """What a server costs in a year.

    bought = capex * (1 + extra); purchase = bought * (1 - residual) / years; interest = rate * the
    mean of what is tied up, bought * (1 + residual) / 2; space = price per kW and month * 12 * full
    power; maintenance = share * bought; staff = salary / servers that one administrator runs;
    power = kWh * PUE * price, where an idle hour draws idle_w and a busy one full_w.

    Source: straight-line depreciation with interest on the mean book value (Hamilton, "Cost of
    power in large-scale data centers", 2008; Barroso, Hoelzle, Ranganathan, "The Datacenter as a
    Computer", 3rd ed. 2018, chapter 6).
    Known error: one price of power for all hours; no taxes, insurance or downtime; busy power is
    the nameplate, which most jobs do not reach (10 to 25 % under it), so owning comes out
    slightly too dear.
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
    """What one hour of work costs when the server works a share of all hours: year /
    (8760 * utilisation).

    `utilisation` [1], 0 to 1 -> [USD/h].

    Source: Hamilton 2008; Barroso et al. 2018, chapter 6.
    """
    return cost.total_usd(utilisation) / (HOURS_PER_YEAR * utilisation)


def break_even_utilisation(cost: YearlyCost, *, rent_usd_per_h: Array) -> Array:
    """The share of all hours from which owning is cheaper than renting by the hour.

    `rent_usd_per_h` [USD/h] -> [1].
    rent * 8760 * u = fixed + busy * 8760 * u, so u = fixed / (8760 * (rent - busy)). Infinite where
    an hour of rent costs no more than the power of a busy hour of one's own; over 1 where owning
    never pays at this rent.
    Known error: rent is taken as paid for busy hours only, without start-up time.

    Source: Hamilton 2008; Barroso et al. 2018, chapter 6.
    """
    margin = rent_usd_per_h - cost.power_usd_per_busy_h
    with np.errstate(divide="ignore"):
        return np.where(margin > 0, cost.fixed_usd / (HOURS_PER_YEAR * np.where(margin > 0, margin, 1.0)), np.inf)


def payback_years(own: Ownership, cost: YearlyCost, *, rent_usd_per_h: Array, utilisation: Array) -> Array:
    """Years after which the rent saved has paid for the purchase, without selling it; infinite
    where it never does.

    `rent_usd_per_h` [USD/h], `utilisation` [1] -> [years].
    Paid back when capex * (1 + extra) = years * (rent * hours - running cost a year), the running
    cost being all but purchase.

    Source: Hamilton 2008; Barroso et al. 2018, chapter 6.
    """
    running = cost.total_usd(utilisation) - cost.purchase_usd
    saved = rent_usd_per_h * HOURS_PER_YEAR * utilisation - running
    return np.where(saved > 0, own.capex_usd * (1.0 + own.extra_capex_share) / np.where(saved > 0, saved, 1.0), np.inf)


def job_usd(cost: YearlyCost, *, busy_h: Array, utilisation: Array) -> Array:
    """One job's share of the year: busy hours at the price of a busy hour.

    `busy_h` [h] of the server, `utilisation` [1] -> [USD]. Exact but for the utilisation assumed.

    Source: Hamilton 2008; Barroso et al. 2018, chapter 6.
    """
    return busy_h * usd_per_busy_h(cost, utilisation=utilisation)


def server_w(
    *, num_cards: Array, card_w: Array, card_use: Array, vcpus: Array, memory_bytes: Array, vcpu_w: float, memory_w_per_byte: float
) -> Array:
    """Mean power of a server at work: cards x board power x use + vCPUs and memory
    at their mean draw.

    `num_cards` [1], `card_w` [W], `card_use` [1], `vcpus` [1], `memory_bytes` [bytes], `vcpu_w`
    [W], `memory_w_per_byte` [W/bytes] -> [W].

    Source: Patterson et al. 2021 (arXiv 2104.10350), section 2; Cloud Carbon Footprint, methodology
    (power of processors and memory). Known error: the building of servers and data centres
    (embodied CO2) is left out; a grid's yearly mean stands for every hour; what a seller buys as
    green certificates does not count (location-based, GHG Protocol scope 2).
    """
    return np.asarray(num_cards * card_w * card_use + vcpus * vcpu_w + memory_bytes * memory_w_per_byte)


def energy_kwh(power_w: Array, *, servers: Array, time_s: Array, pue: Array) -> Array:
    """Energy at the meter of the building: power x servers x time x PUE.

    `power_w` [W], `servers` [1], `time_s` [s], `pue` [1] -> [kWh].

    Source: Patterson et al. 2021 (arXiv 2104.10350), section 2; Cloud Carbon Footprint, methodology
    (power of processors and memory). Known error: the building of servers and data centres
    (embodied CO2) is left out; a grid's yearly mean stands for every hour; what a seller buys as
    green certificates does not count (location-based, GHG Protocol scope 2).
    """
    return np.asarray(power_w / WATTS_PER_KW * servers * time_s / SECONDS_PER_HOUR * pue)


def co2_kg(kwh: Array, *, grams_per_kwh: Array) -> Array:
    """CO2 equivalents of that energy.

    `kwh` [kWh], `grams_per_kwh` [g/kWh] -> [kg].

    Source: Patterson et al. 2021 (arXiv 2104.10350), section 2; Cloud Carbon Footprint, methodology
    (power of processors and memory). Known error: the building of servers and data centres
    (embodied CO2) is left out; a grid's yearly mean stands for every hour; what a seller buys as
    green certificates does not count (location-based, GHG Protocol scope 2).
    """
    return np.asarray(kwh * grams_per_kwh / GRAMS_PER_KG)
