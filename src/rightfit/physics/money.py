"""What a run costs: servers, storage for its duration, data that leaves. Pure arithmetic on arrays.

All times are in seconds, all prices in USD. A month is 730 hours (8760 / 12), which is how every provider in the catalog
converts monthly prices, and a price "per GB" counts 10^9 bytes.

Source: definition, by the providers' billing pages (src/rightfit/facts/data/billing.csv).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightfit.units import GB, HOURS_PER_MONTH, MILLION, SECONDS_PER_HOUR, SECONDS_PER_MONTH

Array = NDArray[np.float64]


def billed_s(run_s: Array, *, minimum_s: Array, increment_s: Array) -> Array:
    """Seconds that are billed for a run.

    `run_s` [s], >= 0, `minimum_s` [s], the shortest time that is billed (60 s for most clouds' Linux servers, the whole term for a
    subscription or reservation), `increment_s` [s] > 0, the step in which time is counted (1 s, 1 h, or the whole term: a second term
    begins when the first is over) -> [s].

    billed = max(minimum, max(1, ceil(run / increment)) * increment), and 0 for a run that never happens.
    Known error: sustained-use and volume discounts are not modelled, so long GCP N1 runs come out up to 30 % too dear.
    """
    counted = np.maximum(np.ceil(run_s / increment_s - 1e-9), 1.0) * increment_s
    return np.where(run_s > 0, np.maximum(minimum_s, counted), 0.0)


def server_usd(billed: Array, *, price_usd_per_h: Array, nodes: Array) -> Array:
    """Rent of `nodes` whole servers over `billed` seconds.

    `billed` [s], `price_usd_per_h` [USD/h] of one server, host included, `nodes` [servers] -> [USD].
    cost = billed / 3600 * price * nodes. Exact; taxes are not included.
    """
    return billed / SECONDS_PER_HOUR * price_usd_per_h * nodes


def storage_usd(stored_bytes: Array, *, kept_s: Array, price_usd_per_gb_month: Array) -> Array:
    """Rent of a volume of `stored_bytes` that is kept `kept_s` seconds.

    `stored_bytes` [bytes], `kept_s` [s], `price_usd_per_gb_month` [USD/GB/month] of 10^9 bytes and 730 h -> [USD].
    cost = bytes / 1e9 * price * kept / month. Block volumes are billed by the second or the hour at every provider of the catalog,
    so a month's price is pro rata. Known error: minimum volume sizes (20 GB on Alibaba) are not modelled.
    """
    return stored_bytes / GB * price_usd_per_gb_month * kept_s / SECONDS_PER_MONTH


def egress_usd(sent_bytes: Array, *, price_usd_per_gb: Array, free_bytes: Array) -> Array:
    """Price of sending `sent_bytes` out of the cloud once.

    `sent_bytes` [bytes], `price_usd_per_gb` [USD/GB] of 10^9 bytes, `free_bytes` [bytes], the free allowance -> [USD].
    cost = max(0, sent - free) / 1e9 * price. Tiers above the first are not modelled: the first tier is the dearest.
    """
    return np.maximum(sent_bytes - free_bytes, 0.0) / GB * price_usd_per_gb


def per_million_tokens_usd(total_usd: Array, *, tokens: Array) -> Array:
    """Cost of one million processed tokens: cost * 1e6 / tokens.

    `total_usd` [USD], `tokens` [tokens] > 0 -> [USD/Mtoken].
    """
    return total_usd * MILLION / tokens


def worst_month_usd(total_usd: Array, *, hourly_usd: Array) -> Array:
    """The most that is spent within one month of 730 h: the whole run when it is shorter, a month of rent when it is longer.

    `total_usd` [USD] of the whole run, `hourly_usd` [USD/h] of all servers -> [USD]. min(total, 730 * hourly).
    A subscription whose term is billed at once shows its whole price only in `total_usd`.
    """
    return np.minimum(total_usd, HOURS_PER_MONTH * hourly_usd)
