"""What the sources say, in the shapes of their documented answers, for prices that a test gives."""

from __future__ import annotations

import csv
import io
import json
import urllib.parse
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from fakes.server import Answer, Reply, Request

Prices = Mapping[tuple[str, str, str], float]  # (instance type, region, purchase mode) -> price an hour


def azure(prices: Prices, *, currency: str = "USD", page_size: int = 3, repeats: bool = False, zeros: int = 0) -> Answer:
    """GET /api/retail/prices (Azure Retail Prices, version 2023-01-01-preview)."""

    def item(name: str, region: str, purchase: str, price: float) -> dict[str, Any]:
        size = name.removeprefix("Standard_").replace("_", " ")
        is_reserved = purchase.startswith("reserved")
        return {
            "currencyCode": currency,
            "tierMinimumUnits": 0.0,
            "retailPrice": price * (8760 if is_reserved else 1),
            "unitPrice": price * (8760 if is_reserved else 1),
            "armRegionName": region,
            "effectiveStartDate": "2026-10-01T00:00:00Z",
            "meterName": size + (" Spot" if purchase == "spot" else ""),
            "productName": "Virtual Machines NCasT4 v3 Series",
            "skuName": size + (" Spot" if purchase == "spot" else ""),
            "serviceName": "Virtual Machines",
            "unitOfMeasure": "1 Hour",
            "type": "Reservation" if is_reserved else "Consumption",
            "isPrimaryMeterRegion": True,
            "armSkuName": name,
            **({"reservationTerm": "1 Year"} if is_reserved else {}),
        }

    def answer(request: Request) -> Reply:
        wanted = [entry for entry in prices.items() if f"'{entry[0][1]}'" in request.query["$filter"]]
        skip = int(request.query.get("$skip", 0))
        items = [item(*key, 0.0 if index < zeros else price) for index, (key, price) in enumerate(wanted)][skip : skip + page_size]
        following = ""
        if skip + page_size < len(wanted):
            target = dict(request.query) | {"$skip": str(skip if repeats and skip else skip + page_size)}
            following = f"http://{request.headers['host']}/azure/api/retail/prices?" + "&".join(
                f"{key}={value}" for key, value in target.items()
            )
        return Reply({"BillingCurrency": currency, "Items": items, "NextPageLink": following or None, "Count": len(items)})

    return answer


def verda(prices: Prices, *, currency: str = "usd") -> Answer:
    """POST /v1/oauth2/token, GET /v1/locations, GET /v1/instance-types."""
    kinds = sorted({name for name, _, _ in prices})
    places = sorted({place for _, place, _ in prices})

    def price(name: str, purchase: str) -> str:
        """The API has one price for all places."""
        return str(next((prices[name, place, purchase] for place in places if (name, place, purchase) in prices), ""))

    def kind(name: str) -> dict[str, Any]:
        return {
            "cpu": {"description": "22 CPU", "number_of_cores": 22},
            "currency": currency,
            "gpu": {"description": "1x A100 SXM4 80GB", "number_of_gpus": 1},
            "gpu_memory": {"description": "80GB GPU RAM", "size_in_gigabytes": 80},
            "instance_type": name,
            "memory": {"description": "120GB RAM", "size_in_gigabytes": 120},
            "model": "A100",
            "name": "A100 SXM4 80GB",
            "price_per_hour": price(name, "on-demand"),
            "spot_price": price(name, "spot"),
        }

    def answer(request: Request) -> Reply:
        if request.path.endswith("/oauth2/token"):
            good = request.json.get("client_secret") == "right"
            return Reply({"access_token": "t", "expires_in": 3600}) if good else Reply({"code": "invalid_client"}, 401)
        if request.headers.get("authorization") != "Bearer t":
            return Reply({"code": "unauthorized"}, 401)
        if request.path.endswith("/locations"):
            return Reply([{"code": place, "name": place, "country_code": "FI"} for place in places])
        return Reply([kind(name) for name in kinds])

    return answer


def lambda_cloud(prices: Mapping[str, float], *, key: str = "right") -> Answer:
    """GET /api/v1/instance-types."""

    def answer(request: Request) -> Reply:
        if request.headers.get("authorization") != f"Bearer {key}":
            return Reply({"error": {"code": "global/invalid-api-key"}}, 401)
        return Reply(
            {
                "data": {
                    name: {
                        "instance_type": {
                            "name": name,
                            "description": "1x A10 (24 GB PCIe)",
                            "gpu_description": "A10 (24 GB PCIe)",
                            "price_cents_per_hour": round(price * 100),
                            "specs": {"vcpus": 30, "memory_gib": 200, "storage_gib": 1400, "gpus": 1},
                        },
                        "regions_with_capacity_available": [{"name": "us-west-1", "description": "California, USA"}],
                    }
                    for name, price in prices.items()
                }
            }
        )

    return answer


def runpod(gpus: Sequence[Mapping[str, Any]]) -> Answer:
    """POST /graphql, query gpuTypes."""
    return lambda request: Reply({"data": {"gpuTypes": list(gpus)}})


def aws_page(prices: Mapping[tuple[str, str], str], *, published: str = "2026-11-20T21:50:09Z") -> Answer:
    """GET locations.json, which names places by the name that stands in the address of a list, and
    the list of one place: prices by (place name, type), as text."""
    codes = {"US East (N. Virginia)": "us-east-1", "EU (Stockholm)": "eu-north-1", "AWS GovCloud (US-East)": "us-gov-east-1"}
    places = {
        name: {"name": name, "code": code, "type": "AWS Region", "label": name.replace("EU (", "Europe ("), "continent": "?"}
        for name, code in codes.items()
    }
    zone = {"name": "US East (Miami)", "code": "us-east-1-mia-1", "type": "AWS Local Zone", "label": "US East (Miami)", "continent": "?"}

    def answer(request: Request) -> Reply:
        if request.path.endswith("/locations.json"):
            return Reply({**places, zone["name"]: zone})
        place = urllib.parse.unquote(request.path.split("/")[-3])
        rows = {
            f"{name} {place} Linux": {
                "rateCode": "6C86BEPQVG73ZGGR.JRTCKXETXF.6YS6EN2CT7",
                "price": text,
                "Location": place,
                "Instance Family": "GPU instance",
                "vCPU": "4",
                "Instance Type": name,
                "Memory": "16 GiB",
                "Storage": "1 x 250 GB NVMe SSD",
                "Network Performance": "Up to 10 Gigabit",
                "plc:OperatingSystem": "Linux",
                "plc:InstanceFamily": "Accelerated Computing",
                "Operating System": "Linux",
                "Pre Installed S/W": "NA",
                "License Model": "No License required",
            }
            for (where, name), text in prices.items()
            if where == place
        }
        manifest = {"serviceId": "ec2", "accessType": "publish", "hawkFilePublicationDate": published, "currencyCode": "USD"}
        return Reply({"manifest": manifest, "sets": {}, "regions": {place: rows}})

    return answer


def gcp_list(prices: Mapping[tuple[str, str], Mapping[str, float]], *, made: int = 1_795_000_000) -> Answer:
    """GET pricing.yml: USD by (type, region) and column (`hour`, `hour_spot`, `month_1y` ...)."""
    instances: dict[str, Any] = {}
    for (name, region), costs in prices.items():
        instances.setdefault(name, {"cpu": 12, "ram": 85, "cost": {}})["cost"][region] = dict(costs)
    page = yaml.safe_dump({"about": {"generated": "?", "timestamp": made}, "compute": {"instance": instances}})
    return lambda request: Reply(page.encode(), headers={"Content-Type": "text/plain"})


def aws_spot(prices: Mapping[tuple[str, str], str]) -> tuple[Answer, Answer]:
    """GET spot.json and spot-advisor-data.json: Linux prices by region and type as the feed writes
    them, "N/A*" for none."""
    regions = [
        {
            "region": region,
            "instanceTypes": [
                {
                    "type": "all",
                    "sizes": [
                        {
                            "size": name,
                            "valueColumns": [{"name": "linux", "prices": {"USD": text}}, {"name": "mswin", "prices": {"USD": "N/A*"}}],
                        }
                        for (place, name), text in prices.items()
                        if place == region
                    ],
                }
            ],
        }
        for region in dict.fromkeys(place for place, _ in prices)
    ]
    bands = {"spot_advisor": {"us-east-1": {"Linux": {"g5.xlarge": {"r": 3, "s": 62}}, "Windows": {}}}}
    return (lambda request: Reply({"config": {"regions": regions}})), (lambda request: Reply(bands))


def vast(offers: Sequence[Mapping[str, Any]]) -> Answer:
    """POST /api/v0/bundles/."""
    return lambda request: Reply({"offers": list(offers)})


def oci(shapes: Sequence[Mapping[str, Any]], products: Mapping[str, float]) -> Answer:
    """GET shapes.json and products.json of the cost estimator."""

    def product(number: str, price: float) -> dict[str, Any]:
        local = [
            {"currencyCode": "EUR", "prices": [{"model": "PAY_AS_YOU_GO", "value": 99}]},
            {"currencyCode": "USD", "prices": [{"model": "PAY_AS_YOU_GO", "value": price}]},
        ]
        return {"partNumber": number, "billingModel": "UCM", "pricetype": "HOUR", "currencyCodeLocalizations": local}

    def answer(request: Request) -> Reply:
        if request.path.endswith("shapes.json"):
            return Reply({"items": list(shapes)})
        return Reply({"items": [product(number, price) for number, price in products.items()]})

    return answer


def skypilot(files: Mapping[str, Prices]) -> Answer:
    """Raw CSV files of skypilot-catalog: catalogs/v8/<cloud>/vms.csv."""
    columns = ["InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB", "Price", "Region", "GpuInfo", "SpotPrice"]

    def answer(request: Request) -> Reply:
        prices = files.get(request.path.split("/")[-2], {})
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        writer.writeheader()
        for name, region in sorted({(name, region) for name, region, _ in prices}):
            listed, spot = prices.get((name, region, "on-demand"), ""), prices.get((name, region, "spot"), "")
            writer.writerow({"InstanceType": name, "Region": region, "Price": listed, "SpotPrice": spot, "GpuInfo": "{'Gpus': []}"})
        return Reply(text.getvalue().encode(), headers={"Content-Type": "text/plain"})

    return answer


def gpuhunt(rows: Sequence[Mapping[str, Any]]) -> Answer:
    """GET nebius/version and nebius/<version>/catalog.zip."""

    def answer(request: Request) -> Reply:
        if request.path.endswith("/version"):
            return Reply(b"20261120\n")
        text, packed = io.StringIO(), io.BytesIO()
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("nebius.csv", text.getvalue())
        return Reply(packed.getvalue())

    return answer


def crusoe(types: Sequence[Mapping[str, Any]], capacities: Sequence[Mapping[str, Any]]) -> Answer:
    """GET /v1alpha5/projects/<id>/compute/vms/types and /v1alpha5/capacities, signed."""

    def answer(request: Request) -> Reply:
        if not request.headers.get("authorization", "").startswith("Bearer 1.0:right:"):
            return Reply({"code": "unauthorized"}, 401)
        return Reply({"items": list(types if request.path.endswith("/types") else capacities)})

    return answer


def aws_pricing(products: Sequence[Mapping[str, Any]], *, page_size: int = 2, repeats: bool = False, error: str = "") -> Answer:
    """AWSPriceListService.GetProducts (JSON 1.1)."""

    def answer(request: Request) -> Reply:
        if error:
            return Reply({"__type": error, "message": "secret detail"}, 400, {"Content-Type": "application/x-amz-json-1.1"})
        wanted = {entry["Field"]: entry["Value"] for entry in request.json["Filters"]}
        own = [product for product in products if product["product"]["attributes"]["regionCode"] == wanted["regionCode"]]
        start = int(request.json.get("NextToken") or 0)
        page = {"FormatVersion": "aws_v1", "PriceList": [json.dumps(product) for product in own[start : start + page_size]]}
        if start + page_size < len(own):
            page["NextToken"] = str(start if repeats and start else start + page_size)
        return Reply(page, headers={"Content-Type": "application/x-amz-json-1.1"})

    return answer


def aws_product(name: str, region: str, price: str, *, reserved: Mapping[str, Mapping[str, str]] | None = None) -> dict[str, Any]:
    """One product of the price list. `reserved`: term and option -> its price
    dimensions by unit."""
    dimension = {
        "unit": "Hrs",
        "pricePerUnit": {"USD": price},
        "description": f"${price} per On Demand Linux {name} Instance Hour",
        "beginRange": "0",
    }
    terms: dict[str, Any] = {"OnDemand": {"S.JRTC": {"priceDimensions": {"S.JRTC.6YS6": dimension}, "termAttributes": {}}}}
    for index, (how, units) in enumerate((reserved or {}).items()):
        length, option = how.split("/")
        dimensions = {f"d{place}": {"unit": unit, "pricePerUnit": {"USD": amount}} for place, (unit, amount) in enumerate(units.items())}
        attributes = {"LeaseContractLength": length, "OfferingClass": "standard", "PurchaseOption": option}
        terms.setdefault("Reserved", {})[f"r{index}"] = {"priceDimensions": dimensions, "termAttributes": attributes}
    attributes = {"instanceType": name, "regionCode": region, "operatingSystem": "Linux", "tenancy": "Shared"}
    return {
        "product": {"productFamily": "Compute Instance", "attributes": attributes, "sku": "S"},
        "serviceCode": "AmazonEC2",
        "terms": terms,
    }


def aws_ec2(spot: Sequence[tuple[str, str, str]], types: str = "") -> Answer:
    """EC2 query interface: DescribeSpotPriceHistory (type, zone, price) and
    DescribeInstanceTypes (inner XML)."""
    head = '<?xml version="1.0" encoding="UTF-8"?>'

    def answer(request: Request) -> Reply:
        action = request.form["Action"]
        if action == "DescribeInstanceTypes":
            body = f"<instanceTypeSet>{types}</instanceTypeSet>"
        else:
            items = (
                f"<item><instanceType>{name}</instanceType><availabilityZone>{zone}</availabilityZone><spotPrice>{price}</spotPrice>"
                "<productDescription>Linux/UNIX</productDescription><timestamp>2026-11-20T10:00:00.000Z</timestamp></item>"
                for name, zone, price in spot
            )
            body = f"<spotPriceHistorySet>{''.join(items)}</spotPriceHistorySet><nextToken></nextToken>"
        text = f'{head}<{action}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>{body}</{action}Response>'
        return Reply(text.encode(), headers={"Content-Type": "text/xml;charset=UTF-8"})

    return answer


def gcp(skus: Sequence[Mapping[str, Any]], *, page_size: int = 3) -> Answer:
    """OAuth token of a service account, then services/6F81-5844-456A/skus of the
    Cloud Billing catalog."""

    def answer(request: Request) -> Reply:
        if request.path.endswith("/token"):
            return Reply({"access_token": "t", "expires_in": 3600, "token_type": "Bearer"})
        if request.headers.get("authorization") != "Bearer t":
            return Reply({"error": {"code": 401, "status": "UNAUTHENTICATED"}}, 401)
        start = int(request.query.get("pageToken") or 0)
        following = str(start + page_size) if start + page_size < len(skus) else ""
        return Reply({"skus": list(skus[start : start + page_size]), "nextPageToken": following})

    return answer


def gcp_sku(description: str, usage: str, regions: Sequence[str], nanos: int, *, currency: str = "USD") -> dict[str, Any]:
    """One SKU of Compute Engine."""
    unit = {"currencyCode": currency, "units": "0", "nanos": nanos}
    expression = {"usageUnit": "h", "tieredRates": [{"startUsageAmount": 0, "unitPrice": unit}]}
    return {
        "skuId": "0000-0000-0000",
        "description": description,
        "category": {"serviceDisplayName": "Compute Engine", "resourceFamily": "Compute", "resourceGroup": "CPU", "usageType": usage},
        "serviceRegions": list(regions),
        "pricingInfo": [{"effectiveTime": "2026-11-19T00:00:00Z", "pricingExpression": expression}],
    }


def alicloud(prices: Prices, spot: Mapping[tuple[str, str], float], *, currency: str = "CNY", error: str = "") -> Answer:
    """ECS 2014-05-26: DescribeAvailableResource, DescribePrice, DescribeSpotPriceHistory,
    DescribeInstanceTypes."""

    def available(region: str) -> dict[str, Any]:
        names = sorted({name for name, place, _ in prices if place == region})
        resource = {
            "Type": "InstanceType",
            "SupportedResources": {"SupportedResource": [{"Value": name, "Status": "Available"} for name in names]},
        }
        zone = {"ZoneId": f"{region}-a", "RegionId": region, "AvailableResources": {"AvailableResource": [resource]}}
        return {"AvailableZones": {"AvailableZone": [zone]}}

    def price(query: Mapping[str, str]) -> Reply:
        mode = {"Hour": "on-demand", "Month": "subscription-1m", "Year": f"subscription-{query.get('Period', 1)}y"}[query["PriceUnit"]]
        value = prices.get((query["InstanceType"], query["RegionId"], mode))
        if value is None:
            return Reply({"Code": "InvalidInstanceType.ValueNotSupported", "Message": "secret detail", "RequestId": "r"}, 404)
        lines = [{"Resource": "instanceType", "TradePrice": value, "OriginalPrice": value}, {"Resource": "systemDisk", "TradePrice": 0.05}]
        total = {
            "OriginalPrice": value + 0.05,
            "TradePrice": value + 0.05,
            "DiscountPrice": 0,
            "Currency": currency,
            "DetailInfos": {"DetailInfo": lines},
        }
        return Reply({"RequestId": "r", "PriceInfo": {"Price": total, "Rules": {"Rule": []}}})

    def history(query: Mapping[str, str]) -> dict[str, Any]:
        items = [
            {
                "InstanceType": name,
                "ZoneId": zone,
                "SpotPrice": value,
                "OriginPrice": 9,
                "Timestamp": "2026-11-20T10:00:00Z",
                "NetworkType": "vpc",
            }
            for (name, zone), value in spot.items()
            if name == query["InstanceType"] and zone.startswith(query["RegionId"])
        ]
        return {"RequestId": "r", "Currency": currency, "NextOffset": 0, "SpotPrices": {"SpotPriceType": items}}

    def answer(request: Request) -> Reply:
        query = {**request.query, **(request.form if request.body else {})}
        if error:
            return Reply({"Code": error, "Message": "secret detail", "RequestId": "r"}, 403)
        action = request.headers.get("x-acs-action") or query["Action"]
        if action == "DescribePrice":
            return price(query)
        if action == "DescribeAvailableResource":
            return Reply({"RequestId": "r", **available(query["RegionId"])})
        if action == "DescribeSpotPriceHistory":
            return Reply(history(query))
        gpu = {
            "InstanceTypeId": "ecs.gn9z.new",
            "InstanceTypeFamily": "ecs.gn9z",
            "CpuCoreCount": 16,
            "MemorySize": 120.0,
            "GPUAmount": 1,
            "GPUSpec": "NVIDIA L40S",
            "GPUMemorySize": 48.0,
            "CpuArchitecture": "X86",
        }
        return Reply({"RequestId": "r", "NextToken": "", "InstanceTypes": {"InstanceType": [gpu]}})

    return answer


def tencent(items: Sequence[Mapping[str, Any]], *, error: str = "", inquiry: float = 1.0) -> Answer:
    """CVM 2017-03-12: DescribeZoneInstanceConfigInfos and InquiryPriceRunInstances."""

    def answer(request: Request) -> Reply:
        if error:
            return Reply({"Response": {"Error": {"Code": error, "Message": "secret detail"}, "RequestId": "r"}})
        if request.headers["x-tc-action"] == "InquiryPriceRunInstances":
            return Reply({"Response": {"Price": {"InstancePrice": {"UnitPrice": inquiry, "ChargeUnit": "HOUR"}}, "RequestId": "r"}})
        charge = request.json["Filters"][0]["Values"][0]
        own = [item for item in items if item["InstanceChargeType"] == charge]
        return Reply({"Response": {"InstanceTypeQuotaSet": own, "RequestId": "r"}})

    return answer


def alicloud_list(prices: Prices, *, published: str = "2026-11-20T08:00:00Z", versions: Sequence[str] = ("2.0.430",)) -> Answer:
    """The price page, which names versions of the list, and
    ecs-price-info/<version>/price/download/instancePrice.json."""
    terms = {"on-demand": ("hours", "1", 1), "subscription-1m": ("months", "1", 730), "subscription-3y": ("years", "3", 26280)}

    def answer(request: Request) -> Reply:
        if request.path.endswith("/page"):
            links = [f'<script src="//g.alicdn.com/aliyun/ecs-price-info/{version}/price/js_price/x.js"></script>' for version in versions]
            return Reply(f"<html>{''.join(links)}</html>".encode(), headers={"Content-Type": "text/html"})
        info: dict[str, Any] = {}
        for (name, region, purchase), hourly in prices.items():
            field, period, hours = terms[purchase]
            for rest, factor in (("vpc::linux::optimized", 1), ("vpc::windows::optimized", 1.3), ("classic::linux::optimized", 0.9)):
                entry = {"price": f"{hourly * hours * factor:.6g}", "period": period}
                info.setdefault(f"{region}::{name}::{rest}", {}).setdefault(field, []).append(entry)
        return Reply({"currency": "CNY", "version": "2.0.430", "publicationDate": published, "pricingInfo": info})

    return answer


def tencent_list(items: Sequence[Mapping[str, Any]], *, error: str = "") -> Answer:
    """POST /cgi/api?i=cvm/DescribeZoneInstanceConfigInfos of the pages of the price calculator."""

    def answer(request: Request) -> Reply:
        assert (request.query["i"], request.json["region"]) == ("cvm/DescribeZoneInstanceConfigInfos", request.query["region"])
        if error.lstrip("-").isdigit():
            return Reply({"code": int(error), "msg": "secret detail"})
        if error:
            return Reply({"code": 0, "data": {"Response": {"Error": {"Code": error, "Message": "secret detail"}}}})
        charge = request.json["data"]["Filters"][0]["Values"][0]
        own = [item for item in items if item["InstanceChargeType"] == charge]
        return Reply({"code": 0, "data": {"Response": {"InstanceTypeQuotaSet": own, "RequestId": "r"}}})

    return answer


# What plays each source of prices; a source without one cannot be tested.
FAKES: Mapping[str, tuple[Callable[..., Answer], ...]] = {
    "skypilot": (skypilot,),
    "aws-list": (aws_page,),
    "aws-spot": (aws_spot,),
    "aws": (aws_pricing, aws_ec2),
    "azure": (azure,),
    "gcp-list": (gcp_list,),
    "gcp": (gcp,),
    "alicloud": (alicloud,),
    "tencent": (tencent,),
    "alicloud-list": (alicloud_list,),
    "tencent-list": (tencent_list,),
    "lambda": (lambda_cloud,),
    "runpod": (runpod,),
    "vast": (vast,),
    "nebius": (gpuhunt,),
    "oci": (oci,),
    "verda": (verda,),
    "crusoe": (crusoe,),
}
