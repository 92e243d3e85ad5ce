"""AWS through boto3: price list, spot price history, server types; and the public feed of the
Spot Instance Advisor.

On demand and reserved: pricing GetProducts. Spot: EC2 DescribeSpotPriceHistory, the cheapest
zone. Types: EC2 DescribeInstanceTypes. boto3 reads AWS_ENDPOINT_URL_PRICING and
AWS_ENDPOINT_URL_EC2 itself.
"""

from __future__ import annotations

import datetime
import json
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rightfit.errors import NetworkError, RightfitError
from rightfit.market.providers.base import (
    Client,
    InterruptionRow,
    Known,
    Need,
    PriceRow,
    Row,
    ServerRow,
    endpoint,
    match_accelerator,
    refused,
)
from rightfit.messages import Message, at_place
from rightfit.units import HOURS_PER_YEAR

_FILTERS = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "operation": "RunInstances",
}
# How the catalog's two reserved modes are paid (docs/concepts/market.md): standard class, one year
# no upfront, three years all upfront.
_RESERVED = {("1yr", "No Upfront"): ("reserved-1y", 1), ("3yr", "All Upfront"): ("reserved-3y", 3)}
_REFUSALS = frozenset(
    [
        *("AuthFailure", "UnrecognizedClientException", "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId"),
        *("AccessDeniedException", "UnauthorizedOperation", "SignatureDoesNotMatch", "InvalidSignatureException", "OptInRequired"),
    ]
)
_CLOCK = frozenset(["RequestExpired", "RequestTimeTooSkewed"])


class _Aws:
    name = "aws"
    covers = ("aws",)
    source = "AWS Price List and EC2 API"
    needs = Need(
        extra="prices-aws",
        packages=("httpx", "tenacity", "boto3"),
        credentials="`aws configure`, `aws sso login` or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        variables=(
            ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
            ("AWS_PROFILE",),
            ("AWS_WEB_IDENTITY_TOKEN_FILE",),
            ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
        ),
        files=("~/.aws/credentials", "~/.aws/config"),
    )

    def parts(self, inventory: Known) -> Sequence[str]:
        regions = [
            region for region in inventory.regions["aws"] if not region.startswith("cn-")
        ]  # another partition with accounts of its own
        return ["advisor:", "types:us-east-1", *(f"{kind}:{region}" for region in regions for kind in ("listed", "spot"))]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        kind, _, region = part.partition(":")
        if kind == "advisor":
            yield from advisor_rows(client)
            return
        try:
            yield from {"types": _types, "listed": _listed, "spot": _spot}[kind](client, region)
        except RightfitError:
            raise
        except Exception as error:
            if kind == "spot" and _code(error) in ("AuthFailure", "OptInRequired", "EndpointConnectionError"):
                return  # a region that this account has not switched on answers so; wrong credentials fail at the parts before
            raise _plain(error) from None


def _service(name: str, region: str, client: Client) -> Any:
    import boto3
    from botocore.config import Config

    pace = client.pace
    config = Config(
        connect_timeout=pace.timeout_s, read_timeout=pace.timeout_s, retries={"mode": "standard", "total_max_attempts": pace.tries}
    )
    return boto3.client(name, region_name=region, config=config)


def _code(error: Exception) -> str:
    answer = getattr(error, "response", None)
    return str(answer.get("Error", {}).get("Code", "")) if isinstance(answer, dict) else type(error).__name__


def _plain(error: Exception) -> NetworkError:
    code = _code(error)
    if code in _CLOCK:
        return NetworkError(at_place("aws", Message("catalog.request_time")))
    if (
        code in _REFUSALS
        or code in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound")
        or "Token" in code
        or "SSO" in code
    ):
        return refused("aws", PROVIDER.needs.credentials)
    if code == "PaginationError":
        return NetworkError(at_place("aws", Message("catalog.list_loops")))
    return NetworkError(at_place("aws", Message("catalog.request_failed", code=code[:80])))


def _listed(client: Client, region: str) -> Iterator[Row]:
    filters = [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in {**_FILTERS, "regionCode": region}.items()]
    pages = _service("pricing", "us-east-1", client).get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters)
    for page in pages:
        for product in page["PriceList"]:
            yield from product_rows(json.loads(product) if isinstance(product, str) else product, region=region)


def product_rows(product: Mapping[str, Any], *, region: str) -> Iterator[PriceRow]:
    """Prices of one product of the price list."""
    attributes, terms = product["product"]["attributes"], product.get("terms", {})
    name = attributes.get("instanceType", "")
    if not name or "." not in name:
        return
    for term in terms.get("OnDemand", {}).values():
        for price in term["priceDimensions"].values():
            if price["unit"] == "Hrs":
                (currency, amount), *_ = price["pricePerUnit"].items()
                yield PriceRow("aws", name, region, "on-demand", float(amount), currency)
    for term in terms.get("Reserved", {}).values():
        yield from _reserved(name, region, term)


def _reserved(name: str, region: str, term: Mapping[str, Any]) -> Iterator[PriceRow]:
    how = term["termAttributes"]
    mode = _RESERVED.get((how.get("LeaseContractLength", ""), how.get("PurchaseOption", "")))
    if mode is None or how.get("OfferingClass") != "standard":
        return
    purchase, years = mode
    hourly, currency = 0.0, "USD"
    for price in term["priceDimensions"].values():
        (currency, amount), *_ = price["pricePerUnit"].items()
        hourly += float(amount) / (HOURS_PER_YEAR * years if price["unit"] == "Quantity" else 1.0)
    yield PriceRow("aws", name, region, purchase, hourly, currency, note=f"standard, {how['PurchaseOption'].casefold()}")


def _spot(client: Client, region: str) -> Iterator[Row]:
    now = datetime.datetime.now(tz=datetime.UTC)
    pages = (
        _service("ec2", region, client)
        .get_paginator("describe_spot_price_history")
        .paginate(Filters=[{"Name": "product-description", "Values": ["Linux/UNIX"]}], StartTime=now)
    )
    cheapest: dict[str, float] = {}
    for page in pages:
        for item in page["SpotPriceHistory"]:
            price = float(item["SpotPrice"])
            cheapest[item["InstanceType"]] = min(price, cheapest.get(item["InstanceType"], price))
    for name, price in cheapest.items():
        yield PriceRow("aws", name, region, "spot", price, note="cheapest zone")


def _types(client: Client, region: str) -> Iterator[Row]:
    for page in _service("ec2", region, client).get_paginator("describe_instance_types").paginate():
        for item in page["InstanceTypes"]:
            yield server_row(item)


def server_row(item: Mapping[str, Any]) -> ServerRow:
    """A server type as EC2 describes it."""
    gpus = item.get("GpuInfo", {}).get("Gpus", [])
    gpu = gpus[0] if gpus else {}
    memory_gib = gpu.get("MemoryInfo", {}).get("SizeInMiB", 0) / 1024
    found = match_accelerator(gpu["Name"], memory_gib=memory_gib) or gpu["Name"] if gpu else ""
    arch = item.get("ProcessorInfo", {}).get("SupportedArchitectures", ["x86_64"])
    return ServerRow(
        "aws",
        item["InstanceType"],
        item["InstanceType"].split(".")[0],
        "gpu" if gpu else "general",
        float(item["VCpuInfo"]["DefaultVCpus"]),
        item["MemoryInfo"]["SizeInMiB"] / 1024,
        found,
        float(gpu.get("Count", 0)),
        memory_gib,
        "arm64" if "arm64" in arch else "x86_64",
        float(item.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)),
    )


def advisor_rows(client: Client) -> Iterator[Row]:
    """Bands of interruption by region and type; public, no account."""
    feed = client.json(endpoint("aws_advisor", "https://spot-bid-advisor.s3.amazonaws.com") + "/spot-advisor-data.json")
    for region, systems in feed["spot_advisor"].items():
        for name, entry in systems.get("Linux", {}).items():
            yield InterruptionRow("aws", region, name, int(entry["r"]), float(entry["s"]))


PROVIDER = _Aws()


# ---- What AWS's public pages read, without an account. The page of on-demand prices reads one
# file a region, under the name that the region has in the file of LOCATIONS.

PRICES = "pricing/2.0/meteredUnitMaps/ec2/USD/current/ec2-ondemand-without-sec-sel"
LOCATIONS = "locations/1.0/aws/current/locations.json"


class _AwsList:
    name = "aws-list"
    covers = ("aws", "aws-gov")
    source = "AWS price page"
    needs = Need()

    def parts(self, inventory: Known) -> Sequence[str]:
        return [f"{cloud}:{region}" for cloud in self.covers for region in inventory.regions.get(cloud, ()) if not region.startswith("cn-")]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        cloud, _, region = part.partition(":")
        base = endpoint("aws_page", "https://b0.p.awsstatic.com")
        try:
            places = client.json(f"{base}/{LOCATIONS}").values()
            names = [place["name"] for place in places if place["code"] == region and place["type"].startswith("AWS Region")]
            for name in names:
                listed = client.json(f"{base}/{PRICES}/{urllib.parse.quote(name)}/Linux/index.json")
                published = listed["manifest"].get("hawkFilePublicationDate", "")[:10]
                for entry in (row for rows in listed["regions"].values() for row in rows.values()):
                    yield PriceRow(cloud, entry["Instance Type"], region, "on-demand", float(entry["price"]), as_of=published)
        except (KeyError, TypeError, AttributeError, ValueError):
            raise NetworkError(at_place(self.name, Message("catalog.feed_form"))) from None


# The feeds behind the pages on spot: https://aws.amazon.com/ec2/spot/pricing/ reads
# website.spot.ec2.aws.a2z.com/spot.json (one price a region and type), the Spot Advisor its own
# file.

LINUX, CURRENCY = "linux", "USD"


class _AwsSpot:
    name = "aws-spot"
    covers = ("aws",)
    source = "AWS spot feed"
    needs = Need()

    def parts(self, inventory: Known) -> Sequence[str]:
        return ["prices", "advisor"]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        if part == "advisor":
            yield from advisor_rows(client)
            return
        feed = client.json(endpoint("aws_spot", "https://website.spot.ec2.aws.a2z.com") + "/spot.json")
        try:
            regions = feed["config"]["regions"]
        except (KeyError, TypeError):
            raise NetworkError(at_place("aws-spot", Message("catalog.feed_form"))) from None
        for region in regions:
            yield from _feed_rows(region)


def _feed_rows(region: Mapping[str, Any]) -> Iterator[Row]:
    """The Linux prices of one region; "N/A*" says that there is none."""
    for group in region["instanceTypes"]:
        for size in group["sizes"]:
            texts = [column["prices"].get(CURRENCY, "") for column in size["valueColumns"] if column["name"] == LINUX]
            if texts and not texts[0].startswith("N/A"):
                yield PriceRow("aws", size["size"], region["region"], "spot", float(texts[0]), CURRENCY, note="AWS spot feed")


PUBLIC = (_AwsList(), _AwsSpot())
