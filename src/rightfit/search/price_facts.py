"""What an option says of its price: what was listed, what to expect, what the same servers cost
where nobody takes them away, in how many regions there is a price."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rightfit.market.offers import PURCHASES
from rightfit.physics.columns import once
from rightfit.search.market import SPOT
from rightfit.search.offers import BOUNDS
from rightfit.search.option_facts import OtherWay, PriceFacts

if TYPE_CHECKING:
    from rightfit.search.constraints import SearchResult
    from rightfit.search.rank import Row


def price_facts(search_result: SearchResult, row: Row) -> PriceFacts:
    """How sure the price of a row is: the source's figure, and the expected one with its
    interval."""
    doubt, price = search_result.market.doubt, float(search_result.market.offers.price_usd_per_h[row.offer])
    low80, high80, low95, high95 = doubt.factors[row.offer].tolist() if doubt is not None else [1.0] * len(BOUNDS)
    return {
        "listed_usd_per_h": float(doubt.listed_usd_per_h[row.offer]) if doubt is not None else price,
        "expected_usd_per_h": price,
        "low80_usd_per_h": price * low80,
        "high80_usd_per_h": price * high80,
        "low95_usd_per_h": price * low95,
        "high95_usd_per_h": price * high95,
        "place": search_result.market.offers.regions[int(search_result.market.offers.region_index[row.offer])],
        "otherwise": other_way(search_result, row),
    }


#: Ways to pay for servers that nobody takes away and that are owed for no longer than used.
HELD = tuple(PURCHASES.index(name) for name in ("on-demand", "capacity-block"))


def other_way(search_result: SearchResult, row: Row) -> OtherWay | None:
    """What the same servers cost where they cannot be taken away: on demand in the same region,
    else in the cheapest; where they are not sold so, as a block. None of servers that are not
    spot."""
    offers, bill = search_result.market.offers, search_result.bill
    if offers.purchase_index[row.offer] != SPOT:
        return None
    same = np.flatnonzero(offers.server_index == offers.server_index[row.offer])
    same = same[np.isin(offers.purchase_index[same], HELD)]
    if not same.size:
        return None
    away = offers.region_index[same] != offers.region_index[row.offer]
    at = int(same[np.lexsort((offers.price_usd_per_h[same], away, offers.purchase_index[same]))[0]])
    price, spot = float(offers.price_usd_per_h[at]), float(offers.price_usd_per_h[row.offer])
    total = float(bill.total_usd[at, row.node])
    if not np.isfinite(total):  # not worked out for it: the same hours at its price
        total = float(bill.total_usd[row.offer, row.node]) + float(bill.servers_usd[row.offer, row.node]) * (price / spot - 1.0)
    is_month = search_result.workload.task == "serve"
    return {"purchase": PURCHASES[int(offers.purchase_index[at])], "usd_per_h": price, "total_usd": total, "is_month": is_month}


def price_regions(search_result: SearchResult, offer: int) -> int:
    """In how many regions the catalog has a price of this server bought this way."""
    offers = search_result.market.offers
    same = np.flatnonzero(offers.server_index == offers.server_index[offer])  # few of all offers
    same = same[offers.purchase_index[same] == offers.purchase_index[offer]]
    return int(once(offers.region_index[same]).shape[0])
