"""Alibaba Cloud's public price list of ECS, the file behind its price pages; no account.

The file has one address a version and says on which day it was published: that day is the date of
its prices. The price page names the version of today; a page that names none is met with the last
version known, whose own date tells how old it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rightfit.errors import NetworkError
from rightfit.market.providers.base import Client, Known, Need, PriceRow, Row, endpoint
from rightfit.messages import Message, at_place

_LAST_VERSION = "2.0.421"  # named on a page read in 2026
_VERSION = re.compile(r"ecs-price-info/(\d+\.\d+\.\d+)/")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
# (field, periods of it) -> (purchase mode, hours).
_TERMS: Mapping[tuple[str, str], tuple[str, float]] = {
    ("hours", "1"): ("on-demand", 1.0),
    ("months", "1"): ("subscription-1m", 730.0),
    ("years", "1"): ("subscription-1y", 8760.0),
    ("years", "3"): ("subscription-3y", 26280.0),
    ("years", "5"): ("subscription-5y", 43800.0),
}
_WANTED = ["vpc", "linux", "optimized"]  # network, system, disks


def newest_version(page: str) -> str:
    """The newest version of the list that a page names."""
    return max(_VERSION.findall(page), key=lambda name: [int(part) for part in name.split(".")], default=_LAST_VERSION)


class _AlicloudList:
    name = "alicloud-list"
    covers = ("alicloud",)
    source = "Alibaba Cloud public price list"
    needs = Need()

    def parts(self, inventory: Known) -> Sequence[str]:
        return ["list"]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        version = newest_version(client.text(endpoint("alicloud_page", "https://www.aliyun.com/price/product")))
        base = endpoint("alicloud_list", "https://g.alicdn.com/aliyun/ecs-price-info")
        listed = client.json(f"{base}/{version}/price/download/instancePrice.json")
        published = _DAY.match(listed["publicationDate"])
        if not published:
            raise NetworkError(at_place(self.name, Message("catalog.list_undated", version=version)))
        for key, terms in listed["pricingInfo"].items():
            region, instance_type, *rest = key.split("::")
            if rest == _WANTED:
                yield from _rows(region, instance_type, terms, currency=listed["currency"], as_of=published[0])


def _rows(region: str, instance_type: str, terms: Mapping[str, Any], *, currency: str, as_of: str) -> Iterator[Row]:
    for field, entries in terms.items():
        for entry in entries:
            if term := _TERMS.get((field, entry["period"])):
                yield PriceRow("alicloud", instance_type, region, term[0], float(entry["price"]), currency, term[1], as_of=as_of)


PROVIDER = _AlicloudList()
