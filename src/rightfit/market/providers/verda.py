"""Verda (formerly DataCrunch): https://api.verda.com/v1/docs, instance types and locations. One
price in every location."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from rightfit.market.providers.base import Client, Known, Need, PriceRow, Row, ServerRow, endpoint, match_accelerator


class _Verda:
    name = "verda"
    covers = ("verda",)
    source = "Verda API"
    needs = Need(
        credentials="VERDA_CLIENT_ID and VERDA_CLIENT_SECRET (console, Keys, Cloud API credentials)",
        variables=(("VERDA_CLIENT_ID", "VERDA_CLIENT_SECRET"),),
    )

    def parts(self, inventory: Known) -> Sequence[str]:
        return ["types"]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        base = endpoint("verda", "https://api.verda.com") + "/v1"
        secret = {"client_id": os.environ.get("VERDA_CLIENT_ID", ""), "client_secret": os.environ.get("VERDA_CLIENT_SECRET", "")}
        token = client.json(f"{base}/oauth2/token", method="POST", json={"grant_type": "client_credentials", **secret})["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        places = [place["code"] for place in client.json(f"{base}/locations", headers=headers)]
        for item in client.json(f"{base}/instance-types", headers=headers):
            name, currency = item["instance_type"], str(item.get("currency", "usd")).upper()
            gpus = int(item["gpu"]["number_of_gpus"])
            each_gib = float(item["gpu_memory"]["size_in_gigabytes"]) / gpus if gpus else 0.0
            gpu = match_accelerator(item["name"], memory_gib=each_gib) if gpus else ""
            if gpu or not gpus:
                shape = float(item["cpu"]["number_of_cores"]), float(item["memory"]["size_in_gigabytes"])
                yield ServerRow("verda", name, name.split(".")[0], "gpu" if gpus else "general", *shape, gpu, float(gpus), each_gib)
            for place in places:
                for purchase, price in (("on-demand", item.get("price_per_hour")), ("spot", item.get("spot_price"))):
                    if price not in (None, ""):
                        yield PriceRow("verda", name, place, purchase, float(price), currency)


PROVIDER = _Verda()
