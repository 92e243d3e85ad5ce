"""Our catalog's prices as the files that SkyPilot reads."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from rightfit.facts.tables import table
from rightfit.market import OfferFilter, open_catalog

CLOUDS = {
    "aws": "aws",
    "azure": "azure",
    "gcp": "gcp",
    "verda": "verda",
    "cudo": "cudo",
    "nebius": "nebius",
    "lambda": "lambda",
    "runpod": "runpod",
}
COLUMNS = (
    "InstanceType",
    "AcceleratorName",
    "AcceleratorCount",
    "vCPUs",
    "MemoryGiB",
    "Price",
    "SpotPrice",
    "Region",
    "AvailabilityZone",
    "GpuInfo",
    "Arch",
)
ZONED = ("aws", "gcp")
IMAGES = tuple(
    f"skypilot:{name}"
    for name in (
        "custom-cpu-ubuntu",
        "custom-cpu-ubuntu-arm64",
        "custom-gpu-ubuntu",
        "custom-gpu-ubuntu-arm64",
        "custom-gpu-ubuntu-cuda13",
        "custom-gpu-ubuntu-arm64-cuda13",
        "custom-cpu-ubuntu-2204",
        "custom-gpu-ubuntu-2204",
        "custom-cpu-ubuntu-v2",
        "custom-gpu-ubuntu-v2",
        "custom-gpu-ubuntu-v1",
        "custom-gpu-ubuntu-v2-grid",
        "gpu-ubuntu-2204",
        "custom-gpu-ubuntu-2204-cuda13",
        "gpu-direct-cos",
        "v1-ubuntu-2004",
        "gen2-ubuntu-2004",
    )
)
IMAGE_IDS = {"aws": "ami-0123456789abcdef0", "azure": "Canonical:ubuntu:22_04-lts:latest", "gcp": "projects/p/global/images/i"}
"""The images that SkyPilot boots by default, so that its dry run finds one."""
OTHERS = ("aws/images.csv", "aws/instance_quota_mapping.csv", "azure/images.csv", "gcp/images.csv", "gcp/accelerator_quota_mapping.csv")


NAMES = {
    "A100-SXM-40GB": "A100",
    "A100-SXM-80GB": "A100-80GB",
    "H100-SXM-80GB": "H100",
    "H200-SXM-141GB": "H200",
    "B200-SXM-180GB": "B200",
    "V100-SXM-16GB": "V100",
    "RTX-PRO-6000-Server": "RTXPRO6000",
}
"""Our names of accelerators -> SkyPilot's, where they differ."""


def rows(provider: str) -> list[dict[str, Any]]:
    """One row for each server in each region, with both prices."""
    offers = open_catalog().offers(OfferFilter(providers=(provider,), purchases=("on-demand", "spot")))
    found: dict[tuple[str, str], dict[str, Any]] = {}
    cards = {row["accelerator"]: row["skypilot"] for row in table("runpod_cards")}
    for number in range(len(offers)):
        offer = offers.row(number)
        server = int(offers.server_index[number])
        row = found.setdefault((offer["instance_type"], offer["region"]), line(offers.servers, server, offer["region"], provider))
        if provider == "runpod":  # SkyPilot's own names: sky/catalog writes NUMBERx_CARD_SECURE, and no pod of a card that it does not list
            name = str(offers.servers.accelerator_name[server])
            if name not in cards:
                continue
            row |= {"InstanceType": f"{offers.servers.num_accelerators[server]}x_{cards[name]}_SECURE", "AcceleratorName": cards[name]}
        row["SpotPrice" if offer["purchase"] == "spot" else "Price"] = offer["price_usd_per_h"]
    found = {key: row for key, row in found.items() if "Price" in row or "SpotPrice" in row}
    return in_two(list(found.values())) if provider == "gcp" else list(found.values())


def in_two(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """SkyPilot prices hosts and accelerators of Google apart: the whole price goes to the host."""
    cards = {(row["AcceleratorName"], row["AcceleratorCount"], row["Region"]): row for row in found}
    free = {"InstanceType": "", "Price": 0.0, "SpotPrice": 0.0, "vCPUs": "", "MemoryGiB": ""}
    return [{**row, "AcceleratorName": "", "AcceleratorCount": ""} for row in found] + [{**row, **free} for row in cards.values()]


def line(servers: Any, server: int, region: str, provider: str) -> dict[str, Any]:
    """The server's part of a row."""
    memory = servers.memory_bytes[server]
    return {
        "InstanceType": servers.instance_type[server],
        "AcceleratorName": NAMES.get(servers.accelerator_name[server], servers.accelerator_name[server]),
        "AcceleratorCount": servers.num_accelerators[server],
        "vCPUs": servers.vcpus[server],
        "MemoryGiB": memory / 1024**3,
        "Region": region,
        "AvailabilityZone": f"{region}-a" if provider in ZONED else "",
        "Arch": "x86_64",
    }


def write(home: Path) -> None:
    """Every cloud's file below SkyPilot's folder."""
    folder = home / ".sky" / "catalogs" / "v8"
    names: dict[str, set[str]] = {}
    for provider, cloud in CLOUDS.items():
        (folder / cloud).mkdir(parents=True, exist_ok=True)
        found = rows(provider)
        with (folder / cloud / "vms.csv").open("w", newline="") as file:
            # Clouds without zones have no such column: an empty one would be taken as zones
            # that nothing is in.
            columns = [name for name in COLUMNS if name != "AvailabilityZone" or provider in ZONED]
            writer = csv.DictWriter(file, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(found)
        for row in found:
            if row["AcceleratorName"]:
                names.setdefault(row["AcceleratorName"], set()).add(cloud)
    (folder / "common").mkdir(exist_ok=True)
    lines = ["AcceleratorName,Clouds,MemoryGiB", *(f'{name},"{sorted(clouds)}",80' for name, clouds in names.items())]
    (folder / "common" / "accelerators.csv").write_text("\n".join(lines) + "\n")
    head = "Tag,Region,OS,OSVersion,ImageId,CreationDate,InstanceType,SpotInstanceCode,OnDemandInstanceCode"
    for other in OTHERS:
        cloud = other.partition("/")[0]
        regions = sorted({row["Region"] for row in rows(cloud)}) if cloud == "aws" else [""]
        images = [f"{tag},{region},ubuntu,22.04,{IMAGE_IDS[cloud]},20250101,,," for tag in IMAGES for region in regions]
        (folder / other).write_text("\n".join([head, *(images if "images" in other else [])]) + "\n")
