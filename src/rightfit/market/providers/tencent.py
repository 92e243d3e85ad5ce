"""Tencent Cloud CVM through its SDK: DescribeZoneInstanceConfigInfos (types and prices of a
region), InquiryPriceRunInstances where a listed type has no price.

The interface does not say its currency: CNY for accounts of cloud.tencent.com, USD for those of
tencentcloud.com (RIGHTFIT_TENCENT_CURRENCY).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rightfit.errors import NetworkError, RightfitError
from rightfit.market.providers.base import Client, Known, Need, PriceRow, Row, ServerRow, endpoint, refused
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
    import tenacity
    from tencentcloud.common.exception.tencent_cloud_sdk_exception import TencentCloudSDKException

    pace = client.pace
    again = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(pace.tries),
        wait=tenacity.wait_random_exponential(multiplier=pace.first_pause_s, max=pace.longest_pause_s),
        retry=tenacity.retry_if_exception(lambda error: str(getattr(error, "code", "") or "").startswith(_THROTTLED)),
        reraise=True,
    )
    try:
        return again(call, request)
    except TencentCloudSDKException as error:
        raise _plain(error) from None
    except ValueError:
        raise NetworkError(Message("catalog.answer_cut")) from None


def _plain(error: Exception) -> RightfitError:
    code = str(getattr(error, "code", "") or type(error).__name__)
    if code == "AuthFailure.SignatureExpire":
        return NetworkError(at_place("tencent", Message("catalog.request_time")))
    if code.startswith(("AuthFailure", "UnauthorizedOperation", "InvalidCredential")) or "Credential" in code or code == "ClientSideError":
        return refused("tencent", PROVIDER.needs.credentials)
    return NetworkError(at_place("tencent", Message("catalog.request_failed", code=code[:80])))


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
