"""What a fleet needs at every hour, as Terraform: capacity reservations of AWS, Google Cloud and Azure, and capacity blocks of AWS for the planned time.

Prices of a term (reserved instances, savings plans, committed use) are no resource of these providers' schemas: they are bought from the purchase list.
What runs for some hours only is not reserved, since a reservation is paid whether it is used or not.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping

from rightfit.export.fleet_parts import Files, Row, in_place, slug
from rightfit.export.quoting import comment, hcl

BLOCK = "capacity-block"
_Pools = dict[tuple[str, str, str], int]
_ALL_HOURS = 1e-6


def terraform(found: Row) -> Files:
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
    """Servers that are needed at every hour of the plan, or are bought for a term: (cloud, type, region) -> how many."""
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
