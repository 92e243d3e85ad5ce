"""Google Cloud: SKUs of Compute Engine from the Cloud Billing catalog; a server's price is the sum
of its cores, memory and accelerators.

https://cloud.google.com/billing/docs/reference/rest/v1/services.skus/list. Server types and their
shapes are the catalog's own.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from rightfit.errors import NetworkError
from rightfit.market.providers.base import Client, Known, KnownServer, Need, PriceRow, Row, endpoint, refused
from rightfit.messages import Message, at_place
from rightfit.units import HOURS_PER_MONTH

_COMPUTE_ENGINE = "services/6F81-5844-456A"
_PURCHASES = {"OnDemand": "on-demand", "Preemptible": "spot", "Commit1Yr": "reserved-1y", "Commit3Yr": "reserved-3y"}
_OTHER_PRODUCTS = ("sole tenancy", "premium", "custom", "suspended", "dws", "reserved ", "upgrade", "extended", "calendar")
# "Spot Preemptible A2 Instance Core running in Virginia", "Commitment v1: N2 Ram in Americas for 1
# Year", "Nvidia L4 GPU running in ...".
_FAMILY = re.compile(
    r"^(?:spot preemptible |preemptible |commitment v\d: |commitment: )?(?P<family>[a-z]\d[a-z]?)(?: \w+)*? (?:instance |predefined |arm |amd )*(?P<part>core|cpu|ram)\b",
    re.IGNORECASE,
)
_GPU = re.compile(
    r"^(?:spot preemptible |preemptible |commitment v\d: |commitment: )?(?:nvidia )?(?:tesla )?(?P<gpu>[a-z]+\d+\w*(?: \d+gb)?(?: (?:mega|plus))?) gpu\b",
    re.IGNORECASE,
)
_GPU_OF = {
    "A100-SXM-40GB": ("a100",), "A100-SXM-80GB": ("a100 80gb",), "H100-SXM-80GB": ("h100 80gb", "h100 80gb plus", "h100 80gb mega"),
    "L4": ("l4",), "T4": ("t4",), "V100-SXM-16GB": ("v100",), "P100": ("p100",), "P100-PCIe-16GB": ("p100",), "P4": ("p4",), "K80": ("k80",),
    "H200-SXM-141GB": ("h200 141gb",),
}  # fmt: skip
# Families whose price is more than cores, memory and GPUs of one SKU family each, or whose SKUs are
# named after something else.
_LEFT_OUT = ("f1", "g1", "m2", "e2-micro", "e2-small", "e2-medium", "a4", "a4x", "ct", "a3-megagpu", "a3-ultragpu")

# GiB of local SSD that these types always have, a GPU of them; billed as a part of its own.
# https://cloud.google.com/compute/docs/disks/local-ssd
_SSD_GIB_PER_GPU = {"a2-ultragpu": 375, "a3-highgpu": 750}

Parts = Mapping[tuple[str, str, str, str], float]  # (family or gpu, core|ram|gpu|ssd, region, purchase) -> USD an hour


class _Gcp:
    name = "gcp"
    covers = ("gcp",)
    source = "Google Cloud Billing catalog"
    needs = Need(
        extra="prices-gcp",
        packages=("httpx", "tenacity", "google.auth", "requests"),
        credentials="`gcloud auth application-default login` or GOOGLE_APPLICATION_CREDENTIALS",
        variables=(("GOOGLE_APPLICATION_CREDENTIALS",),),
        files=("~/.config/gcloud/application_default_credentials.json",),
    )

    def parts(self, inventory: Known) -> Sequence[str]:
        return ["skus"]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        address = f"{endpoint('gcp', 'https://cloudbilling.googleapis.com')}/v1/{_COMPUTE_ENGINE}/skus"
        headers = {"Authorization": f"Bearer {_token()}"}
        wanted = {"currencyCode": "USD", "pageSize": 5000}
        pages = client.pages(
            address,
            params=wanted,
            headers=headers,
            next_of=lambda page: {"pageToken": page["nextPageToken"]} if page.get("nextPageToken") else None,
        )
        parts = sku_parts(sku for page in pages for sku in page["skus"])
        yield from server_prices(inventory.servers["gcp"], parts, regions=inventory.regions["gcp"])


def _token() -> str:
    """An access token from Google's own chain of credentials."""
    import google.auth
    import google.auth.exceptions
    import google.auth.transport.requests

    try:
        credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-billing.readonly"])
        credentials.refresh(google.auth.transport.requests.Request())
    except google.auth.exceptions.GoogleAuthError:
        raise refused("gcp", PROVIDER.needs.credentials) from None
    return str(credentials.token)


def sku_parts(skus: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str, str], float]:
    """USD an hour of a core, a GiB or a GPU by family, region and purchase mode. A currency other
    than USD is an error."""
    parts: dict[tuple[str, str, str, str], float] = {}
    for sku in skus:
        named = _part_of(sku)
        purchase = _PURCHASES.get(sku["category"].get("usageType", ""))
        if named is None or purchase is None or not sku.get("pricingInfo"):
            continue
        rates = sku["pricingInfo"][0]["pricingExpression"]["tieredRates"]
        if not rates:
            continue
        unit = rates[-1]["unitPrice"]
        if unit.get("currencyCode", "USD") != "USD":
            raise NetworkError(Message("catalog.wrong_currency", currency=unit["currencyCode"]))
        price = float(unit.get("units", 0) or 0) + float(unit.get("nanos", 0)) / 1e9
        price /= HOURS_PER_MONTH if named[1] == "ssd" else 1.0
        for region in sku.get("serviceRegions", ()):
            if price > 0:  # preview SKUs are listed at zero
                parts[(*named, region, purchase)] = price
    return parts


def _part_of(sku: Mapping[str, Any]) -> tuple[str, str] | None:
    text = sku.get("description", "")
    if sku["category"].get("resourceFamily") == "Storage" and text.casefold().startswith("ssd backed local storage"):
        return "local", "ssd"
    if sku["category"].get("resourceFamily") != "Compute" or any(word in text.casefold() for word in _OTHER_PRODUCTS):
        return None
    if found := _GPU.match(text):
        return found["gpu"].casefold(), "gpu"
    if found := _FAMILY.match(text):
        return found["family"].casefold(), "ram" if found["part"].casefold() == "ram" else "core"
    if text.casefold().removeprefix("spot preemptible ").startswith("compute optimized"):
        return "c2", "ram" if " ram " in text.casefold() else "core"
    return None


def server_prices(servers: Mapping[str, KnownServer], parts: Parts, *, regions: Sequence[str]) -> Iterator[PriceRow]:
    """Prices of the known server types wherever all their parts have one."""
    for server in servers.values():
        name = server.instance_type.partition("+")[0]
        family = name.split("-")[0]
        if name.startswith(_LEFT_OUT) or "lssd" in name:
            continue
        for region in regions:
            for purchase in _PURCHASES.values():
                price = _sum(server, parts, family=family, region=region, purchase=purchase)
                if price is not None:
                    yield PriceRow("gcp", server.instance_type, region, purchase, round(price, 8), note="cores + memory + accelerators")


def _sum(server: KnownServer, parts: Parts, *, family: str, region: str, purchase: str) -> float | None:
    core, ram = parts.get((family, "core", region, purchase)), parts.get((family, "ram", region, purchase))
    if core is None or ram is None or not server.memory_gib:
        return None
    price = server.vcpus * core + server.memory_gib * ram
    if not server.num_accelerators:
        return price
    found = (parts.get((gpu, "gpu", region, purchase)) for gpu in _GPU_OF.get(server.accelerator_name, ()))
    gpu = next((value for value in found if value is not None), None)
    ssd_gib = _SSD_GIB_PER_GPU.get("-".join(server.instance_type.split("-")[:2]), 0)
    ssd = parts.get(("local", "ssd", region, purchase)) if ssd_gib else 0.0
    return None if gpu is None or ssd is None else price + server.num_accelerators * (gpu + ssd_gib * ssd)


PROVIDER = _Gcp()


# ---- The list that Cyclenerd/google-cloud-pricing-cost-calculator (Apache-2.0) makes from the same
# catalog with an account of its own, so that nobody else needs one. It says when it was made.

_HOURS_OF = {"on-demand": ("hour", 1.0), "spot": ("hour_spot", 1.0)} | {
    f"reserved-{years}y": (f"month_{years}y", HOURS_PER_MONTH) for years in (1, 3)
}


class _GcpList:
    name = "gcp-list"
    covers = ("gcp",)
    source = "Cyclenerd/google-cloud-pricing-cost-calculator"
    needs = Need()

    def parts(self, inventory: Known) -> Sequence[str]:
        return ["list"]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        base = endpoint("gcp_list", "https://raw.githubusercontent.com/Cyclenerd/google-cloud-pricing-cost-calculator/master")
        try:
            listed = yaml.load(client.text(f"{base}/pricing.yml"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
            made = datetime.datetime.fromtimestamp(listed["about"]["timestamp"], tz=datetime.UTC).date().isoformat()
            for name, entry in listed["compute"]["instance"].items():
                for region, costs in entry.get("cost", {}).items():
                    for purchase, (column, hours) in _HOURS_OF.items():
                        if price := costs.get(column):
                            yield PriceRow("gcp", name, region, purchase, float(price), hours=hours, as_of=made)
        except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError):
            raise NetworkError(at_place(self.name, Message("catalog.feed_form"))) from None


PUBLIC = (_GcpList(),)
