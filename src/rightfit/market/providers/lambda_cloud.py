"""Lambda Cloud: https://docs.lambda.ai/api/cloud, GET /api/v1/instance-types. One
price in every region."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from rightfit.market.providers.base import Client, Known, Need, PriceRow, Row, ServerRow, endpoint, match_accelerator


class _Lambda:
    name = "lambda"
    covers = ("lambda",)
    source = "Lambda Cloud API"
    needs = Need(credentials="LAMBDA_API_KEY (cloud.lambda.ai, API keys)", variables=(("LAMBDA_API_KEY",),))

    def parts(self, inventory: Known) -> Sequence[str]:
        return ["types"]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        headers = {"Authorization": f"Bearer {os.environ.get('LAMBDA_API_KEY', '')}"}
        answer = client.json(endpoint("lambda", "https://cloud.lambda.ai") + "/api/v1/instance-types", headers=headers)
        for entry in answer["data"].values():
            kind = entry["instance_type"]
            shape = kind["specs"]
            listed = [region["name"] for region in entry.get("regions_with_capacity_available", ())]
            gpus = float(shape.get("gpus", 0))
            gpu = match_accelerator(kind.get("gpu_description") or kind.get("description", "")) if gpus else ""
            if gpu or not gpus:
                yield ServerRow(
                    "lambda",
                    kind["name"],
                    "gpu",
                    "gpu" if gpus else "general",
                    float(shape["vcpus"]),
                    float(shape["memory_gib"]),
                    gpu,
                    gpus,
                )
            for region in dict.fromkeys([*inventory.regions["lambda"], *listed]):
                yield PriceRow("lambda", kind["name"], region, "on-demand", kind["price_cents_per_hour"] / 100)


PROVIDER = _Lambda()
