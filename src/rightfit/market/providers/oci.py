"""Oracle Cloud: shapes and products of Oracle's public cost estimator. One list price in every
region; preemptible costs half.

https://www.oracle.com/cloud/costestimator.html reads the same two files.
Preemptible capacity: https://docs.oracle.com/iaas/Content/Compute/Concepts/preemptible.htm
("costs 50% less").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rightfit.market.providers.base import Client, Known, Need, PriceRow, Row, endpoint

_PREEMPTIBLE_SHARE = 0.5


class _Oci:
    name = "oci"
    covers = ("oci",)
    source = "Oracle cost estimator data"
    needs = Need()

    def parts(self, inventory: Known) -> Sequence[str]:
        return ["shapes"]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        base = endpoint("oci", "https://www.oracle.com") + "/a/ocom/docs/cloudestimator2/data"
        products = {item["partNumber"]: item for item in client.json(f"{base}/products.json")["items"]}
        for shape in client.json(f"{base}/shapes.json")["items"]:
            price = shape_price(shape, products) if shape.get("status") == "ACTIVE" and not shape.get("hidden") else None
            if price is None or shape["name"] not in inventory.servers["oci"]:
                continue
            yield PriceRow("oci", shape["name"], "global", "on-demand", price)
            if shape.get("allowPreemptible"):
                yield PriceRow(
                    "oci", shape["name"], "global", "spot", price * _PREEMPTIBLE_SHARE, note="computed: half of on demand, Oracle's rule"
                )


def shape_price(shape: Mapping[str, Any], products: Mapping[str, Mapping[str, Any]]) -> float | None:
    """USD an hour of a shape of fixed size: its GPUs, or else its cores, plus memory that is not
    bundled; None where a part has no price."""
    price = 0.0
    for part in shape["products"]:
        kind, unit = part["type"]["value"], _hourly_usd(products.get(part["partNumber"]))
        if kind not in ("ocpu", "memory"):
            continue
        if unit is None or part.get("qty") is None:
            return None
        if kind == "memory":
            price += 0.0 if shape.get("gpuQty") else unit * float(part["qty"])
        else:
            price += unit * float(shape.get("gpuQty") or part["qty"])  # of GPU shapes the unit is the GPU
    return price or None


def _hourly_usd(product: Mapping[str, Any] | None) -> float | None:
    if product is None or product.get("billingModel") != "UCM" or product.get("pricetype") != "HOUR":
        return None
    for local in product["currencyCodeLocalizations"]:
        if local["currencyCode"] == "USD":
            return next((float(price["value"]) for price in local["prices"] if price["model"] == "PAY_AS_YOU_GO"), None)
    return None


PROVIDER = _Oci()
