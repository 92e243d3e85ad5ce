"""One server under two names: a seller's cards that were read from two lists, of different days. The newer price holds.

Whether two names are one server cannot be told where both state a host: AWS's p4d and p4de, OVH's t2-45 and t2-le-45 and Azure's H100 sizes with and
without InfiniBand are servers of their own, some of them with the same cores and memory. It can be told where one of them states no host: such a row
is what the seller asks for so many cards, whatever stands around them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rightfit.catalog.offers import SUPERSEDED_BY, Flags, Floats, ServerTable
from rightfit.catalog.tables import PriceColumns, RegionTable, parse_date


def superseded(
    servers: ServerTable, prices: PriceColumns, regions: RegionTable, *, sound: Flags, rule: Mapping[str, Any]
) -> dict[int, int]:
    """The newer price of each price row that is superseded: of the same seller, card, count, way to pay and place under another name, over
    `apart_days` younger, one of the two without a host. Only `sound` rows count; of several the youngest is taken."""
    days, hostless = _days(prices), states_no_host(servers)
    found: dict[int, int] = {}
    for rows in _groups(servers, prices, usable=sound & _usable(servers, prices)):
        for old in rows:
            younger = [
                new
                for new in rows
                if days[new] - days[old] > rule["apart_days"]
                and prices.server_index[new] != prices.server_index[old]
                and hostless[prices.server_index[[old, new]]].any()
                and _meet(regions, prices.region_index[[old, new]].tolist(), rule)
            ]
            if younger:
                found[old] = max(younger, key=lambda new: (days[new], -new))
    return found


def states_no_host(servers: ServerTable) -> Flags:
    """Servers (S,) of which neither cores nor memory are known."""
    return np.isnan(servers.vcpus) & np.isnan(servers.memory_bytes)


def _groups(servers: ServerTable, prices: PriceColumns, *, usable: Flags) -> Iterable[list[int]]:
    """Usable rows by seller, card, count and way to pay; only those of which one may be without a host."""
    keys = list(zip(servers.provider, servers.accelerator_name, servers.num_accelerators.tolist(), strict=True))
    open_keys = {key for key, is_hostless in zip(keys, states_no_host(servers).tolist(), strict=True) if is_hostless and key[1]}
    is_open = np.array([key in open_keys for key in keys], dtype=np.bool_)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in np.flatnonzero(usable & is_open[np.maximum(prices.server_index, 0)]).tolist():
        groups.setdefault((keys[prices.server_index[row]], int(prices.purchase_index[row])), []).append(row)
    return groups.values()


def _usable(servers: ServerTable, prices: PriceColumns) -> Flags:
    """Rows (O,) of which either may stand for the other: asked, neither worked out nor a floor, for a server that is sold in a known place."""
    known = (prices.server_index >= 0) & (prices.region_index >= 0) & (prices.purchase_index >= 0)
    is_sold = np.array([not reason or reason.startswith(SUPERSEDED_BY) for reason in servers.not_recommended], dtype=np.bool_)
    return known & ~prices.is_estimate & is_sold[np.maximum(prices.server_index, 0)]


def marked(servers: ServerTable, prices: PriceColumns, newer: Mapping[int, int], *, sound: Flags) -> ServerTable:
    """The servers with those marked of which no sound price is left but what is superseded: such a name is a former one."""
    has_others = np.zeros(len(servers), dtype=np.bool_)
    others = sound & (prices.server_index >= 0)
    others[list(newer)] = False
    has_others[prices.server_index[others]] = True
    reasons = list(servers.not_recommended)
    for old, new in newer.items():
        server = int(prices.server_index[old])
        if not has_others[server]:
            reasons[server] = f"{SUPERSEDED_BY}{servers.instance_type[prices.server_index[new]]}"
    return dataclasses.replace(servers, not_recommended=tuple(reasons))


def _meet(regions: RegionTable, pair: Sequence[int], rule: Mapping[str, Any]) -> bool:
    """Whether two prices of a seller may be of one place: the same region, or one of them holds where the other is."""
    first, second = pair
    return first == second or _holds_in(regions, first, second, rule) or _holds_in(regions, second, first, rule)


def _holds_in(regions: RegionTable, wide: int, place: int, rule: Mapping[str, Any]) -> bool:
    """Whether what is asked in `wide` is asked everywhere, or all over the continent of `place`."""
    name = regions.region[wide]
    return name in rule["everywhere"] or rule["continents"].get(name) == regions.continent[place]


def _days(prices: PriceColumns) -> Floats:
    """The date of each row (O,) as a day's number; NaN without a date, which is neither older nor younger than any."""
    numbers = [float(parse_date(text).toordinal()) if text else np.nan for text in prices.as_of_dates]
    return np.array(numbers)[prices.as_of_index]
