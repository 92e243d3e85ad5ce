"""What the files of a fleet are made of: placements as options, grouped by place and by pool, names
that files may have."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rightfit.exports.job import AcceleratorPart, CostPart, LayoutPart, OptionPart
from rightfit.exports.quoting import comment, hcl
from rightfit.exports.targets.dstack import PSEUDO_REGIONS

Files = Mapping[str, str]
Row = Mapping[str, Any]


def option_of(row: Row) -> OptionPart:
    """A placement in the form that names of servers are found by."""
    cards = int(row["accelerators_per_server"]) if row["accelerator"] else 0
    return OptionPart(
        rank=1,
        **{key: row[key] for key in ("provider", "region", "instance_type", "purchase")},
        nodes=max(int(row["servers"]), 1),
        accelerator=AcceleratorPart(name=row["accelerator"], count_per_node=cards, memory_bytes=0),
        layout=LayoutPart.model_validate({}),
        estimate={},
        cost=CostPart.model_validate({"hourly_usd": 0}),
    )


def slug(name: str) -> str:
    """A name that files and resources may have."""
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")[:40] or "job"


def in_place(region: str) -> bool:
    """Whether a region is a place, and no name for all of them."""
    return region not in PSEUDO_REGIONS


def by_place(rows: Sequence[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """Placements by job, server, place and way to pay."""
    grouped: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row["name"], row["provider"], row["instance_type"], row["region"], row["purchase"], row["servers"]), []).append(
            row
        )
    return grouped


def pools_of(found: Row) -> dict[tuple[str, str, str, bool], list[Row]]:
    """What is rented, by type, region and whether it may be taken away; what is owned
    is no one's to rent."""
    pools: dict[tuple[str, str, str, bool], list[Row]] = {}
    for row in found["placements"]:
        for purchase in {part["purchase"] for part in row.get("parts", ())} or {row["purchase"]}:
            if purchase not in (
                "owned",
                "part",
            ):  # what is owned is no one's to rent; parts of cards lie on servers that have lines of their own
                pools.setdefault((row["provider"], row["instance_type"], row["region"], purchase == "spot"), []).append(row)
    return pools


def most_at_once(rows: Sequence[Row]) -> int:
    """The most servers that some placements have at the same time."""
    events = sorted(
        [(row["start_h"], row["servers"] * row["count"]) for row in rows] + [(row["end_h"], -row["servers"] * row["count"]) for row in rows]
    )
    now, most = 0, 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


def run_sh(name: str, why: str) -> str:
    """The script of a job, whose command is the user's, and why it is not the plan's."""
    return (
        f"#!/usr/bin/env bash\n# The command of {comment(name)}, which is not written here: {comment(why)}\n# rightfit plan --file workload.yaml --format json > plan.json; rightfit export plan.json --to torchrun\n"
        'set -euo pipefail\n: "${COMMAND:?say what to run: put the command here, or set COMMAND}"\nexec bash -c "$COMMAND"\n'
    )


# ---- What a fleet needs at every hour, as Terraform: capacity reservations of AWS, Google Cloud
# and Azure, and capacity blocks of AWS for the planned time.
#
# Prices of a term (reserved instances, savings plans, committed use) are no resource of these
# providers' schemas: they are bought from the purchase list. What runs for some hours only is not
# reserved, since a reservation is paid whether it is used or not.

BLOCK = "capacity-block"
_Pools = dict[tuple[str, str, str], int]
_ALL_HOURS = 1e-6


def terraform(found: Row, _: object = None) -> Files:
    """A folder with main.tf for each cloud and region that has something to reserve."""
    files: dict[str, str] = {}
    blocks = [
        row for row in found.get("purchases", ()) if row["purchase"] == BLOCK and row["provider"] == "aws" and in_place(row["region"])
    ]
    places: dict[tuple[str, str], dict[str, int]] = {}
    for (provider, instance, region), count in steady_servers(found).items():
        places.setdefault((provider, region), {})[instance] = count
    for row in blocks:
        places.setdefault(("aws", row["region"]), {})
    for (provider, region), servers in sorted(places.items()):
        mine = [row for row in blocks if (provider, row["region"]) == ("aws", region)]
        text = _WRITERS[provider](found, region, servers, mine)
        files[f"{provider}-{slug(region)}/main.tf"] = text
    return files


def steady_servers(found: Row) -> _Pools:
    """Servers that are needed at every hour of the plan, or are bought for a term: (cloud, type,
    region) -> how many."""
    always: _Pools = {}
    for row in found["placements"]:
        for part in row.get("parts", ()):
            whole = part.get("hours", found["horizon_h"]) >= found["horizon_h"] - _ALL_HOURS
            if whole and part["purchase"] not in ("spot", "owned", "part", BLOCK):
                _count(always, row, part["servers"])
    bought: _Pools = {}
    for row in found.get("purchases", ()):
        if row["purchase"] != BLOCK:
            _count(bought, row, row["count"])
    return {key: max(always.get(key, 0), bought.get(key, 0)) for key in sorted({*always, *bought})}


def _count(pools: _Pools, row: Row, servers: int) -> None:
    if row["provider"] in _WRITERS and in_place(row["region"]) and servers:
        key = (row["provider"], row["instance_type"], row["region"])
        pools[key] = pools.get(key, 0) + servers


def _name(instance: str) -> str:
    """A name that Terraform takes: it begins with a letter."""
    return "r-" + slug(instance)


def _head(found: Row, source: str, version: str, provider: str) -> str:
    name = source.rpartition("/")[2]
    return (
        f"# Capacity that the fleet {comment(found['name'])} needs at every hour. It is paid from terraform apply to terraform destroy, used or not.\n"
        "# Prices for a term are bought apart: see the purchase list (rightfit export --to purchases).\n"
        f'terraform {{\n  required_version = ">= 1.5"\n  required_providers {{\n    {name} = {{\n      source  = {hcl(source)}\n      version = {hcl(version)}\n    }}\n  }}\n}}\n\n'
        f"{provider}\n"
    )


def _variable(name: str, told: str, default: str | None = None) -> str:
    usual = "" if default is None else f"\n  default     = {hcl(default)}"
    return f'variable "{name}" {{\n  type        = string\n  description = {hcl(told)}{usual}\n}}\n\n'


def _aws(found: Row, region: str, servers: Mapping[str, int], blocks: list[Row]) -> str:
    text = _head(found, "hashicorp/aws", "~> 5.100", f'provider "aws" {{\n  region = {hcl(region)}\n}}\n')
    if servers:
        text += _variable("availability_zone", "Zone of the region in which capacity is reserved.", f"{region}a")
    parts = [
        f"""\
resource "aws_ec2_capacity_reservation" "{_name(instance)}" {{
  instance_type           = {hcl(instance)}
  instance_platform       = "Linux/UNIX"
  availability_zone       = var.availability_zone
  instance_count          = {count}
  instance_match_criteria = "open"
  end_date_type           = "unlimited"
  tags                    = {hcl({"fleet": slug(found["name"])})}
}}
"""
        for instance, count in servers.items()
    ]
    for number, row in enumerate(blocks, start=1):
        label, first, last = f"block-{number}", _time(row["start"]), _time(row["end"])
        parts.append(
            f"""\
data "aws_ec2_capacity_block_offering" "{label}" {{
  instance_type           = {hcl(row["instance_type"])}
  instance_count          = {row["count"]}
  capacity_duration_hours = {round(row["term_h"])}
  start_date_range        = {hcl(first)}
  end_date_range          = {hcl(last)}
}}

resource "aws_ec2_capacity_block_reservation" "{label}" {{
  capacity_block_offering_id = data.aws_ec2_capacity_block_offering.{label}.capacity_block_offering_id
  instance_platform          = "Linux/UNIX"
  tags                       = {hcl({"fleet": slug(found["name"])})}
}}
"""
        )
    return text + "\n".join(parts)


def _time(text: str) -> str:
    return datetime.datetime.fromisoformat(text).isoformat(timespec="seconds") + "Z"


def _gcp(found: Row, region: str, servers: Mapping[str, int], _: list[Row]) -> str:
    provider = f'provider "google" {{\n  project = var.project\n  region  = {hcl(region)}\n}}\n'
    text = _head(found, "hashicorp/google", ">= 5.0", provider) + _variable("project", "Your project.")
    text += _variable("zone", "Zone of the region in which capacity is reserved.", f"{region}-a")
    return text + "\n".join(
        f"""\
resource "google_compute_reservation" "{_name(instance)}" {{
  name                          = {hcl(_name(instance))}
  zone                          = var.zone
  specific_reservation_required = false
  specific_reservation {{
    count = {count}
    instance_properties {{
      machine_type = {hcl(instance)}
    }}
  }}
}}
"""
        for instance, count in servers.items()
    )


def _azure(found: Row, region: str, servers: Mapping[str, int], _: list[Row]) -> str:
    provider = 'provider "azurerm" {\n  features {}\n  subscription_id = var.subscription_id\n}\n'
    text = _head(found, "hashicorp/azurerm", ">= 4.0", provider) + _variable("subscription_id", "Your subscription.")
    text += _variable("resource_group_name", "A resource group of yours in the region.")
    text += f"""\
resource "azurerm_capacity_reservation_group" "fleet" {{
  name                = {hcl(slug(found["name"]))}
  resource_group_name = var.resource_group_name
  location            = {hcl(region)}
}}

"""
    return text + "\n".join(
        f"""\
resource "azurerm_capacity_reservation" "{_name(instance)}" {{
  name                          = {hcl(_name(instance))}
  capacity_reservation_group_id = azurerm_capacity_reservation_group.fleet.id
  sku {{
    name     = {hcl(instance)}
    capacity = {count}
  }}
}}
"""
        for instance, count in servers.items()
    )


_WRITERS: Mapping[str, Callable[[Row, str, Mapping[str, int], list[Row]], str]] = {"aws": _aws, "gcp": _gcp, "azure": _azure}
