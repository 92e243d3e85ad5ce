"""Reservations of a fleet before Terraform's own validation and plan with the AWS provider, and the
schemas of the providers of Google Cloud and Azure."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_terraform import MIRROR, TERRAFORM, put, terraform

from rightfit.exports.fleet_files import steady_servers
from rightfit.exports.fleets import files_of_fleet

FLEET: dict[str, Any] = json.loads((Path(__file__).parent / "data/fleet.json").read_text("utf-8"))
BLOCK = {
    "provider": "aws", "instance_type": "p5.48xlarge", "region": "us-east-1", "purchase": "capacity-block", "count": 2, "term_h": 72.0,
    "start": "2026-12-04T00:00", "end": "2026-12-07T00:00",
}  # fmt: skip


def served(provider: str, instance: str, region: str, name: str = "chat", **values: Any) -> dict[str, Any]:
    """A service with two servers at every hour and one at its peak."""
    parts = [
        {"purchase": "on-demand", "servers": 2, "hours": FLEET["horizon_h"], "cost_usd": 1.0, "owned": "", "layer": 0},
        {"purchase": "on-demand", "servers": 1, "hours": 30.0, "cost_usd": 1.0, "owned": "", "layer": 1},
    ]
    usual = next(row for row in FLEET["placements"] if row["kind"] == "service")
    return {**usual, "name": name, "provider": provider, "instance_type": instance, "region": region, "parts": parts, **values}


def fleet(*placements: dict[str, Any], purchases: Any = ()) -> dict[str, Any]:
    return {**FLEET, "name": 'posts "${x}"', "placements": list(placements), "purchases": list(purchases)}


def test_what_is_needed_at_every_hour_is_reserved_and_nothing_else() -> None:
    job = next(row for row in FLEET["placements"] if row["kind"] == "job")
    chat = served("aws", "g6e.xlarge", "us-east-1")
    spot = served("aws", "g6.xlarge", "us-east-1", parts=[{**chat["parts"][0], "purchase": "spot"}])
    term = {**BLOCK, "purchase": "reserved-1y", "instance_type": "g6e.xlarge", "count": 3}
    assert steady_servers(fleet(job, chat, spot)) == {("aws", "g6e.xlarge", "us-east-1"): 2}
    assert steady_servers(fleet(chat, purchases=[term, BLOCK])) == {("aws", "g6e.xlarge", "us-east-1"): 3}
    assert steady_servers(fleet(job)) == {}


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if TERRAFORM is None or MIRROR is None:
        pytest.skip("terraform or its mirror of plug-ins is not there")
    folder = tmp_path_factory.mktemp("terraform")
    (folder / "settings.tfrc").write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{MIRROR}"\n  }}\n}}\n')
    put(folder, {"main.tf": aws_text(fleet(served("aws", "g6e.xlarge", "us-east-1")))})
    terraform(folder, "init", "-input=false", "-no-color")
    return folder


def aws_text(found: dict[str, Any]) -> str:
    return files_of_fleet(found, "terraform")["aws-us-east-1/main.tf"]


@pytest.mark.parametrize("purchases", [(), (BLOCK,)])
def test_the_folder_of_aws_is_valid(purchases: Any, workdir: Path) -> None:
    put(workdir, {"main.tf": aws_text(fleet(served("aws", "g6e.xlarge", "us-east-1"), purchases=purchases))})
    terraform(workdir, "validate", "-no-color")
    terraform(workdir, "fmt", "-check", "-no-color")


def test_blocks_alone_are_valid_too(workdir: Path) -> None:
    put(workdir, {"main.tf": aws_text(fleet(purchases=[BLOCK, {**BLOCK, "count": 4}]))})
    terraform(workdir, "validate", "-no-color")
    terraform(workdir, "fmt", "-check", "-no-color")


@pytest.mark.parametrize(
    ("provider", "instance", "region"), [("gcp", "g2-standard-8", "us-central1"), ("azure", "Standard_NC24ads_A100_v4", "eastus")]
)
def test_every_attribute_is_the_provider_s(provider: str, instance: str, region: str) -> None:
    schemas = pytest.importorskip("test_terraform_schemas", reason="python-hcl2 is not installed")
    text = files_of_fleet(fleet(served(provider, instance, region), served(provider, instance + "x", region, name="other")), "terraform")
    main = text[f"{provider}-{region}/main.tf"]
    parts = schemas.declared(main)
    assert len(parts) >= 2
    assert not [line for name, body in parts for line in schemas.problems(body, schemas.SCHEMAS[f"fleet-{provider}"][name], name)]
    if TERRAFORM:
        done = subprocess.run([TERRAFORM, "fmt", "-check", "-diff", "-"], input=main, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not there")
def test_terraform_plans_the_reservation(tmp_path: Path) -> None:
    """What Terraform would make, by its provider, without an account."""
    if MIRROR is None:
        pytest.skip("the mirror of plug-ins is not there")
    (tmp_path / "settings.tfrc").write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{MIRROR}"\n  }}\n}}\n')
    keys = 'provider "aws" {\n  access_key = "test"\n  secret_key = "test"\n  skip_credentials_validation = true\n  skip_metadata_api_check = true\n  skip_requesting_account_id = true\n}\n'
    put(tmp_path, {"main.tf": aws_text(fleet(served("aws", "g6e.xlarge", "us-east-1"))), "keys_override.tf": keys})
    terraform(tmp_path, "init", "-input=false", "-no-color")
    terraform(tmp_path, "plan", "-input=false", "-no-color", "-out=plan.bin")
    planned = json.loads(terraform(tmp_path, "show", "-json", "plan.bin").stdout)
    made = {one["type"]: one["change"]["after"] for one in planned["resource_changes"]}
    assert made["aws_ec2_capacity_reservation"]["instance_count"] == 2
    assert made["aws_ec2_capacity_reservation"]["availability_zone"] == "us-east-1a"
