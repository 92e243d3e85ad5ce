"""Vast.ai: https://docs.vast.ai/api, POST /api/v0/bundles/. A marketplace: its offers become prices
per accelerator-hour, not servers."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from rightfit.market.providers.base import Client, Known, MarketRow, Need, Row, endpoint, match_accelerator

_WANTED = {
    "rentable": {"eq": True},
    "rented": {"eq": False},
    "verified": {"eq": True},
    "type": "on-demand",
    "order": [["dph_total", "asc"]],
    "limit": 5000,
}


class _Vast:
    name = "vast"
    covers = ("vast",)
    source = "Vast.ai offers API"
    needs = Need()

    def parts(self, inventory: Known) -> Sequence[str]:
        return ["offers"]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        answer = client.json(endpoint("vast", "https://console.vast.ai") + "/api/v0/bundles/", method="POST", json=_WANTED)
        prices: dict[tuple[str, int, str], list[float]] = {}
        seen: set[int] = set()
        for offer in answer["offers"]:
            count = int(offer.get("num_gpus") or 0)
            name = match_accelerator(offer["gpu_name"], memory_gib=offer["gpu_ram"] / 1024) if count else ""
            if not name or offer["id"] in seen:
                continue
            seen.add(offer["id"])
            for purchase, price in (("on_demand", offer.get("dph_base")), ("spot", offer.get("min_bid"))):
                if price and price > 0:
                    prices.setdefault((name, count, purchase), []).append(float(price) / count)
        for (name, count, purchase), found in sorted(prices.items()):
            yield MarketRow("vast", name, count, "global", purchase, min(found), statistics.median(found), max(found), len(found))


PROVIDER = _Vast()
