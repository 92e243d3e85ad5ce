"""Tencent Cloud CVM through its SDK: DescribeZoneInstanceConfigInfos (types and prices of a
region), InquiryPriceRunInstances where a listed type has no price.

The interface does not say its currency: CNY for accounts of cloud.tencent.com, USD for those of
tencentcloud.com (RIGHTFIT_TENCENT_CURRENCY).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from rightfit.errors import NetworkError, RightfitError
from rightfit.market.providers.base import Client, Known, Need, PriceRow, Row, ServerRow, code_of, endpoint, one_line, refused
from rightfit.messages import Message, at_place

# Charge type -> (purchase mode, field with the discount that is open to all, list
# field, hours it covers).
_MODES: dict[str, tuple[tuple[str, str, str, float], ...]] = {
    "POSTPAID_BY_HOUR": (
        ("on-demand", "UnitPriceDiscount", "UnitPrice", 1.0),
        ("on-demand-tier3", "UnitPriceDiscountThirdStep", "UnitPriceThirdStep", 1.0),
    ),
    "PREPAID": (
        ("subscription-1m", "DiscountPrice", "OriginalPrice", 730.0),
        ("subscription-1y", "DiscountPriceOneYear", "OriginalPriceOneYear", 8760.0),
        ("subscription-3y", "DiscountPriceThreeYear", "OriginalPriceThreeYear", 26280.0),
        ("subscription-5y", "DiscountPriceFiveYear", "OriginalPriceFiveYear", 43800.0),
    ),
    "SPOTPAID": (("spot", "UnitPriceDiscount", "UnitPrice", 1.0),),
}
_THROTTLED = (
    "RequestLimitExceeded",
    "InternalError",
    "InternalServerError",
    "ServerNetworkError",
    "ClientNetworkError",
    "ResourceUnavailable",
)


class _Tencent:
    name = "tencent"
    covers = ("tencent",)
    source = "Tencent Cloud CVM API"
    needs = Need(
        extra="prices-tencent",
        packages=("httpx", "tenacity", "tencentcloud.cvm"),
        credentials="`tccli configure` or TENCENTCLOUD_SECRET_ID and TENCENTCLOUD_SECRET_KEY",
        variables=(("TENCENTCLOUD_SECRET_ID", "TENCENTCLOUD_SECRET_KEY"), ("TKE_PROVIDER_ID",)),
        files=("~/.tencentcloud/credentials", "~/.tccli/default.credential"),
    )

    def parts(self, inventory: Known) -> Sequence[str]:
        return [f"{charge}:{region}" for region in inventory.regions["tencent"] for charge in _MODES]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        charge, _, region = part.partition(":")
        currency = os.environ.get("RIGHTFIT_TENCENT_CURRENCY", "CNY").upper()
        service = _service(region, client)
        items = _listed(service, client, charge)
        for item in items:
            if item.Price is None and item.Status == "SELL":
                item.Price = _inquire(service, client, item, charge)
        yield from cheapest_rows(items, charge=charge, region=region, currency=currency, note="cheapest zone, discount of this account")


def cheapest_rows(items: Iterable[Any], *, charge: str, region: str, currency: str, note: str) -> Iterator[Row]:
    """Types without GPU (the interface counts GPUs but does not name them), and of each type and
    way to pay the cheapest zone's price."""
    cheapest: dict[tuple[str, str], PriceRow] = {}
    seen: set[str] = set()
    for item in items:
        if item.InstanceType not in seen:
            seen.add(item.InstanceType)
            if not item.Gpu:
                yield ServerRow("tencent", item.InstanceType, item.InstanceFamily, "general", float(item.Cpu), float(item.Memory))
        for purchase, discounted, listed, hours in _MODES[charge] if item.Price is not None else ():
            value = getattr(item.Price, discounted, None) or getattr(item.Price, listed, None)
            key = (item.InstanceType, purchase)
            if value and (key not in cheapest or value < cheapest[key].price):  # zero stands for "not sold so"
                cheapest[key] = PriceRow("tencent", item.InstanceType, region, purchase, float(value), currency, hours, note)
    yield from cheapest.values()


def _service(region: str, client: Client) -> Any:
    from tencentcloud.common import credential
    from tencentcloud.common.exception.tencent_cloud_sdk_exception import TencentCloudSDKException
    from tencentcloud.common.profile.client_profile import ClientProfile
    from tencentcloud.common.profile.http_profile import HttpProfile
    from tencentcloud.cvm.v20170312.cvm_client import CvmClient

    protocol, _, host = endpoint("tencent", "https://cvm.tencentcloudapi.com").partition("://")
    http = HttpProfile(protocol=protocol, endpoint=host, reqTimeout=int(max(1, client.pace.timeout_s)))
    try:
        chain = credential.DefaultCredentialProvider().get_credential()
    except TencentCloudSDKException as error:
        raise _plain(error) from None
    return CvmClient(chain, region, ClientProfile(httpProfile=http))


def _ask(call: Any, request: Any, client: Client) -> Any:
    from tencentcloud.common.exception.tencent_cloud_sdk_exception import TencentCloudSDKException

    try:
        return client.of_library(call, request, passes=lambda error: code_of(error).startswith(_THROTTLED))
    except TencentCloudSDKException as error:
        raise _plain(error) from None
    except ValueError:
        raise NetworkError(Message("catalog.answer_cut")) from None


def _plain(error: Exception) -> RightfitError:
    code = code_of(error)
    if code == "AuthFailure.SignatureExpire":
        return NetworkError(at_place("tencent", Message("catalog.request_time")))
    if code.startswith(("AuthFailure", "UnauthorizedOperation", "InvalidCredential")) or "Credential" in code or code == "ClientSideError":
        return refused("tencent", PROVIDER.needs.credentials)
    return one_line("tencent", error)


def _listed(service: Any, client: Client, charge: str) -> Sequence[Any]:
    from tencentcloud.cvm.v20170312 import models

    request, wanted = models.DescribeZoneInstanceConfigInfosRequest(), models.Filter()
    wanted.Name, wanted.Values = "instance-charge-type", [charge]
    request.Filters = [wanted]
    answer = _ask(service.DescribeZoneInstanceConfigInfos, request, client)
    return list(answer.InstanceTypeQuotaSet or ())


def _inquire(service: Any, client: Client, item: Any, charge: str) -> Any:
    """The price of one server where the list has none."""
    from tencentcloud.cvm.v20170312 import models

    request, place = models.InquiryPriceRunInstancesRequest(), models.Placement()
    place.Zone = item.Zone
    request.Placement, request.InstanceType, request.InstanceChargeType = place, item.InstanceType, charge
    if charge == "PREPAID":
        term = models.InstanceChargePrepaid()
        term.Period = 1
        request.InstanceChargePrepaid = term
    return _ask(service.InquiryPriceRunInstances, request, client).Price.InstancePrice


PROVIDER = _Tencent()


# ---- Tencent Cloud's public price calculator of CVM: the answer of
# DescribeZoneInstanceConfigInfos as the pages behind it fetch it, in yuan and without an account.
# The address is public but not documented as an interface: when it changes its form, the refresh
# says so and the old prices stay.

_ACTION = "DescribeZoneInstanceConfigInfos"


class _TencentList:
    name = "tencent-list"
    covers = ("tencent",)
    source = "Tencent Cloud public price calculator"
    needs = Need()

    def parts(self, inventory: Known) -> Sequence[str]:
        return PROVIDER.parts(inventory)

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        charge, _, region = part.partition(":")
        asked = {"Version": "2017-03-12", "Platform": "LINUX", "Filters": [{"Name": "instance-charge-type", "Values": [charge]}]}
        answer = client.json(
            endpoint("tencent_list", "https://workbench.cloud.tencent.com") + "/cgi/api",
            method="POST",
            params={"i": f"cvm/{_ACTION}", "region": region},
            json={"serviceType": "cvm", "action": _ACTION, "region": region, "cgiName": "api", "data": asked},
        )
        found = (answer.get("data") or {}).get("Response") or {}
        if failed := (found.get("Error") or {}).get("Code") or ("" if "InstanceTypeQuotaSet" in found else answer.get("code", "?")):
            raise NetworkError(at_place(self.name, Message("catalog.request_failed", code=str(failed)[:80])))
        items = [_item(entry) for entry in found["InstanceTypeQuotaSet"] or ()]
        yield from cheapest_rows(items, charge=charge, region=region, currency="CNY", note="cheapest zone, public price")


def _item(entry: Any) -> Any:
    """An item as the client library gives it: fields as attributes, no price as None."""
    item = json.loads(json.dumps(entry), object_hook=lambda fields: SimpleNamespace(**fields))
    item.Price = getattr(item, "Price", None)
    return item


PUBLIC = (_TencentList(),)
