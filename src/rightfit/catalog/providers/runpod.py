"""RunPod: https://docs.runpod.io/sdks/graphql/manage-pods, query gpuTypes. Prices of the secure cloud, one for all its data centres."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from rightfit.catalog.providers.base import Known, Need, PriceRow, Row, match_accelerator
from rightfit.catalog.providers.client import Client, endpoint
from rightfit.errors import NetworkError

_QUERY = "query { gpuTypes { id displayName memoryInGb maxGpuCount secureCloud securePrice secureSpotPrice } }"


class _RunPod:
    name = "runpod"
    covers = ("runpod",)
    source = "RunPod GraphQL API"
    needs = Need()

    def parts(self, known: Known) -> Sequence[str]:
        return ["gpus"]

    def fetch(self, client: Client, part: str, *, known: Known) -> Iterator[Row]:
        key = os.environ.get("RUNPOD_API_KEY", "")  # not needed for list prices; sent if there is one
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        answer = client.json(
            endpoint("runpod", "https://api.runpod.io") + "/graphql", method="POST", json={"query": _QUERY}, headers=headers
        )
        if answer.get("errors") or not answer.get("data"):
            raise NetworkError("runpod: the query was refused; its interface may have changed")
        for gpu in answer["data"]["gpuTypes"]:
            name = match_accelerator(gpu["displayName"], memory_gib=gpu["memoryInGb"]) or match_accelerator(gpu["id"])
            if not name or not gpu.get("secureCloud"):
                continue
            for count in range(1, int(gpu.get("maxGpuCount") or 1) + 1):
                server = f"{count}x_{name}"
                if server not in known.servers["runpod"]:
                    continue
                for purchase, price in (("on-demand", gpu.get("securePrice")), ("spot", gpu.get("secureSpotPrice"))):
                    if price is not None:
                        yield PriceRow("runpod", server, "any", purchase, round(count * float(price), 6))


PROVIDER = _RunPod()
