"""Azure Retail Prices: public, no account.
https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rightfit.market.providers.base import Client, Known, Need, PriceRow, Row, endpoint
from rightfit.units import HOURS_PER_YEAR

_TERMS = {"1 Year": ("1y", 1), "3 Years": ("3y", 3)}
# Windows and other licences, whole hosts, and the withdrawn "Low Priority" are other products
# than a Linux server.
_OTHER_PRODUCTS = ("Windows", "Dedicated Host", "Cloud Services", "CloudServices")


class _Azure:
    name = "azure"
    covers = ("azure",)
    source = "Azure Retail Prices API"
    needs = Need()

    def parts(self, inventory: Known) -> Sequence[str]:
        return inventory.regions["azure"]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        address = endpoint("azure", "https://prices.azure.com") + "/api/retail/prices"
        wanted = {
            "api-version": "2023-01-01-preview",
            "currencyCode": "USD",
            "$filter": f"serviceName eq 'Virtual Machines' and armRegionName eq '{part}'",
        }
        best: dict[tuple[str, str], tuple[str, PriceRow]] = {}
        for page in client.pages(address, params=wanted, next_of=lambda page: page.get("NextPageLink")):
            for item in page["Items"]:
                for row in rows_of(item, region=part):
                    key, since = (row.instance_type, row.purchase), str(item.get("effectiveStartDate", ""))
                    if key not in best or since > best[key][0]:  # a meter's later price replaces its earlier one
                        best[key] = (since, row)
        yield from (row for _, row in best.values())


def rows_of(item: Mapping[str, Any], *, region: str) -> Iterator[PriceRow]:
    """The prices in one item: pay as you go or spot with its savings plan, or a reservation."""
    name, product, meter = item.get("armSkuName") or "", item.get("productName") or "", item.get("meterName") or ""
    if not name or any(word in product for word in _OTHER_PRODUCTS) or "Low Priority" in meter or item.get("tierMinimumUnits"):
        return
    currency, price = str(item["currencyCode"]), float(item["retailPrice"])
    if item["type"] == "Reservation":
        term = _TERMS.get(item.get("reservationTerm") or "")
        if term:
            yield PriceRow("azure", name, region, f"reserved-{term[0]}", price, currency, HOURS_PER_YEAR * term[1], "whole term paid")
    elif item["type"] == "Consumption" and item.get("unitOfMeasure") == "1 Hour":
        purchase = "spot" if "Spot" in meter or "Spot" in str(item.get("skuName")) else "on-demand"
        yield PriceRow("azure", name, region, purchase, price, currency)
        for plan in item.get("savingsPlan") or ():
            if purchase == "on-demand" and plan.get("term") == "1 Year":  # the catalog has no three-year savings plan
                yield PriceRow("azure", name, region, "savings-plan-1y", float(plan["retailPrice"]), currency)


PROVIDER = _Azure()
