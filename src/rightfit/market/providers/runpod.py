"""RunPod: https://docs.runpod.io/sdks/graphql/manage-pods, query gpuTypes. Prices of the secure
cloud and of community hosts, one for all places."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rightfit.errors import NetworkError
from rightfit.market.providers.base import Client, Known, Need, PriceRow, Row, endpoint, match_accelerator
from rightfit.messages import Message

_QUERY = (
    "query { gpuTypes { id displayName memoryInGb maxGpuCount secureCloud securePrice secureSpotPrice communityCloud communityPrice } }"
)


class _RunPod:
    name = "runpod"
    covers = ("runpod",)
    source = "RunPod GraphQL API"
    needs = Need()

    def parts(self, inventory: Known) -> Sequence[str]:
        return ["gpus"]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        key = os.environ.get("RUNPOD_API_KEY", "")  # not needed for list prices; sent if there is one
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        answer = client.json(
            endpoint("runpod", "https://api.runpod.io") + "/graphql", method="POST", json={"query": _QUERY}, headers=headers
        )
        if answer.get("errors") or not answer.get("data"):
            raise NetworkError(Message("catalog.query_refused"))
        for gpu in answer["data"]["gpuTypes"]:
            name = match_accelerator(gpu["displayName"], memory_gib=gpu["memoryInGb"]) or match_accelerator(gpu["id"])
            asked = _asked(gpu)
            if not name or not asked:
                continue
            for count in range(1, int(gpu.get("maxGpuCount") or 1) + 1):
                server = f"{count}x_{name}"
                if server not in inventory.servers["runpod"]:
                    continue
                for purchase, price in asked.items():
                    yield PriceRow("runpod", server, "any", purchase, round(count * price, 6))


def _asked(gpu: Mapping[str, Any]) -> dict[str, float]:
    """What an hour of one card costs by way to pay: in RunPod's own data centres, and at hosts of
    third parties, whose price is no spot price."""
    secure, community = bool(gpu.get("secureCloud")), bool(gpu.get("communityCloud"))
    prices = {
        "on-demand": gpu.get("securePrice") if secure else None,
        "spot": gpu.get("secureSpotPrice") if secure else None,
        "on-demand-community": gpu.get("communityPrice") if community else None,
    }
    return {purchase: float(price) for purchase, price in prices.items() if price}


PROVIDER = _RunPod()
