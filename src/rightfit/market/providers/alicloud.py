"""Alibaba Cloud ECS through its SDK: DescribeAvailableResource (what a region sells),
DescribePrice, DescribeSpotPriceHistory, DescribeInstanceTypes.

DescribePrice answers for one type a request, so only types with an accelerator are asked for unless
every type is wanted.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rightfit.errors import NetworkError, RightfitError
from rightfit.market.providers.base import (
    Client,
    Known,
    Need,
    PriceRow,
    Row,
    ServerRow,
    code_of,
    endpoint,
    match_accelerator,
    one_line,
    refused,
)
from rightfit.messages import Message, at_place

_TERMS = (
    ("on-demand", "Hour", 1, 1.0),
    ("subscription-1m", "Month", 1, 730.0),
    ("subscription-1y", "Year", 1, 8760.0),
    ("subscription-3y", "Year", 3, 26280.0),
)
_REFUSALS = ("InvalidAccessKeyId", "Forbidden", "SignatureDoesNotMatch", "InvalidSecurityToken", "NoPermission", "CredentialsException")
# A type or term that the region does not sell.
_NOT_SOLD = ("InvalidInstanceType", "PriceNotFound", "ChargeTypeViolation", "InvalidPeriod", "InvalidResourceType", "InvalidParameter")
_THROTTLED = ("Throttling", "ServiceUnavailable", "InternalError", "LastTokenProcessing")


class _Alicloud:
    name = "alicloud"
    covers = ("alicloud",)
    source = "Alibaba Cloud ECS API"
    needs = Need(
        extra="prices-alicloud",
        packages=("httpx", "tenacity", "alibabacloud_ecs20140526", "alibabacloud_credentials"),
        credentials="`aliyun configure` or ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET",
        variables=(
            ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET"),
            ("ALIBABA_CLOUD_ECS_METADATA",),
            ("ALIBABA_CLOUD_CREDENTIALS_URI",),
        ),
        files=("~/.alibabacloud/credentials", "~/.alibabacloud/credentials.ini", "~/.aliyun/config.json"),
    )

    def parts(self, inventory: Known) -> Sequence[str]:
        return ["types:cn-hangzhou", *(f"{kind}:{region}" for region in inventory.regions["alicloud"] for kind in ("listed", "spot"))]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        kind, _, region = part.partition(":")
        service = _service(region)
        if kind == "types":
            yield from _types(service, client)
            return
        sold = _sold(service, client, region)
        wanted = [
            name
            for name, server in inventory.servers["alicloud"].items()
            if name in sold and (inventory.every_type or server.num_accelerators)
        ]
        rows = _listed if kind == "listed" else _spot
        for name in wanted:
            yield from rows(service, client, region=region, name=name)


def _service(region: str) -> Any:
    from alibabacloud_credentials.client import Client as Credentials
    from alibabacloud_ecs20140526.client import Client as Ecs
    from alibabacloud_tea_openapi.models import Config

    address = endpoint("alicloud", f"https://ecs.{region}.aliyuncs.com")
    protocol, _, host = address.partition("://")
    try:
        return Ecs(Config(credential=Credentials(), endpoint=host, protocol=protocol, region_id=region))
    except Exception as error:
        raise _plain(error) from None


def _ask(call: Any, request: Any, client: Client) -> Any:
    """One request, tried again while the service says that it is busy."""

    def passes(error: BaseException) -> bool:
        code = code_of(error)
        return code.startswith(_THROTTLED) or any(word in code for word in ("Timeout", "Connection", "UnretryableException", "JSONDecode"))

    return client.of_library(call, request, passes=passes).body


def _plain(error: Exception) -> RightfitError:
    code = code_of(error)
    if "InvalidTimeStamp" in code:
        return NetworkError(at_place("alicloud", Message("catalog.request_time")))
    if any(word in code for word in _REFUSALS) or "Credential" in code:
        return refused("alicloud", PROVIDER.needs.credentials)
    return one_line("alicloud", error)


def _sold(service: Any, client: Client, region: str) -> frozenset[str]:
    """Server types that a region sells by the hour."""
    from alibabacloud_ecs20140526 import models

    request = models.DescribeAvailableResourceRequest(
        region_id=region, destination_resource="InstanceType", instance_charge_type="PostPaid"
    )
    try:
        body = _ask(service.describe_available_resource, request, client)
    except Exception as error:
        raise _plain(error) from None
    names = set()
    for zone in (body.available_zones.available_zone if body.available_zones else None) or ():
        for resource in zone.available_resources.available_resource or ():
            names |= {entry.value for entry in resource.supported_resources.supported_resource or () if entry.status != "SoldOut"}
    return frozenset(names)


def _listed(service: Any, client: Client, *, region: str, name: str) -> Iterator[Row]:
    from alibabacloud_ecs20140526 import models

    for purchase, unit, period, hours in _TERMS:
        # Types that are new or sold in one zone only want a disk that fits them; the smallest ESSD
        # costs nothing in the instance's own line.
        request = models.DescribePriceRequest(
            region_id=region, resource_type="instance", instance_type=name, price_unit=unit, period=period
        )
        try:
            price = _ask(service.describe_price, request, client).price_info.price
        except Exception as error:
            if any(word in code_of(error) for word in _NOT_SOLD):
                continue
            raise _plain(error) from None
        yield PriceRow(
            "alicloud",
            name,
            region,
            purchase,
            _server_alone(price),
            price.currency or "CNY",
            hours,
            "price of this account" if price.discount_price else "",
        )


def _server_alone(price: Any) -> float:
    """The instance's own line: the total includes the system disk."""
    lines = (price.detail_infos.detail_info if price.detail_infos else None) or ()
    own = [line for line in lines if line.resource == "instanceType"]
    return float(own[0].trade_price if own else price.trade_price)


def _spot(service: Any, client: Client, *, region: str, name: str) -> Iterator[Row]:
    from alibabacloud_ecs20140526 import models

    start = (datetime.datetime.now(tz=datetime.UTC) - datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    request = models.DescribeSpotPriceHistoryRequest(region_id=region, network_type="vpc", instance_type=name, start_time=start)
    latest: dict[str, tuple[str, float]] = {}
    currency, offset = "CNY", None
    while True:
        request.offset = offset
        try:
            body = _ask(service.describe_spot_price_history, request, client)
        except Exception as error:
            if any(word in code_of(error) for word in _NOT_SOLD):
                return
            raise _plain(error) from None
        currency = body.currency or currency
        for item in body.spot_prices.spot_price_type or ():
            latest[item.zone_id] = max(latest.get(item.zone_id, ("", 0.0)), (item.timestamp, float(item.spot_price)))
        if not body.next_offset:
            break
        if offset is not None and body.next_offset <= offset:
            raise NetworkError(at_place("alicloud", Message("catalog.list_loops")))
        offset = body.next_offset
    if latest:
        yield PriceRow("alicloud", name, region, "spot", min(price for _, price in latest.values()), currency, note="cheapest zone")


def _types(service: Any, client: Client) -> Iterator[Row]:
    from alibabacloud_ecs20140526 import models

    token, seen = None, set()
    while True:
        try:
            body = _ask(service.describe_instance_types, models.DescribeInstanceTypesRequest(max_results=100, next_token=token), client)
        except Exception as error:
            raise _plain(error) from None
        for item in body.instance_types.instance_type or ():
            yield server_row(item)
        token = body.next_token
        if not token:
            return
        if token in seen:
            raise NetworkError(at_place("alicloud", Message("catalog.list_loops")))
        seen.add(token)


def server_row(item: Any) -> ServerRow:
    """A server type as ECS describes it."""
    count, each = float(item.gpuamount or 0), float(item.gpumemory_size or 0)
    gpu = (match_accelerator(item.gpuspec or "", memory_gib=each) or str(item.gpuspec)) if count else ""
    arch = "arm64" if (item.cpu_architecture or "").upper() == "ARM" else "x86_64"
    family = item.instance_type_family or ""
    return ServerRow(
        "alicloud",
        item.instance_type_id,
        family,
        "gpu" if count else "general",
        float(item.cpu_core_count),
        float(item.memory_size),
        gpu,
        count,
        each,
        arch,
    )


PROVIDER = _Alicloud()


# ---- Alibaba Cloud's public price list of ECS, the file behind its price pages; no account. The
# file has one address a version and says on which day it was published: that day is the date of
# its prices. The price page names the version of today; a page that names none is met with the
# last version known, whose own date tells how old it is.

_LAST_VERSION = "2.0.421"  # named on a page read in 2026
_VERSION = re.compile(r"ecs-price-info/(\d+\.\d+\.\d+)/")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
# (field, periods of it) -> (purchase mode, hours).
_LISTED_TERMS: Mapping[tuple[str, str], tuple[str, float]] = {
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
                yield from _listed_rows(region, instance_type, terms, currency=listed["currency"], as_of=published[0])


def _listed_rows(region: str, instance_type: str, terms: Mapping[str, Any], *, currency: str, as_of: str) -> Iterator[Row]:
    for field, entries in terms.items():
        for entry in entries:
            if term := _LISTED_TERMS.get((field, entry["period"])):
                yield PriceRow("alicloud", instance_type, region, term[0], float(entry["price"]), currency, term[1], as_of=as_of)


PUBLIC = (_AlicloudList(),)
