"""Terraform folders of clouds whose provider cannot be had: the text by Terraform's own parser and
formatter and by hcl2, and each attribute and block by the provider's schema
(data/terraform_schemas.jsonl, see scripts/write_terraform_schemas.py)."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jobs import files, hostile, job, taken
from typical_plans import WISHES, plan_values

from rightfit.exports import Files, find_target, job_of, plan_document

hcl2 = pytest.importorskip("hcl2", reason="python-hcl2 is not installed")
TERRAFORM = shutil.which("terraform")
LINES = (Path(__file__).parent / "data" / "terraform_schemas.jsonl").read_text(encoding="utf-8").splitlines()
SCHEMAS: dict[str, dict[str, Any]] = {}
for _line in LINES:
    _row = json.loads(_line)
    SCHEMAS.setdefault(_row["target"], {})[_row["name"]] = _row["schema"]
BUILT_IN = {"resource terraform_data": {"input": {"required": False}, "triggers_replace": {"required": False}}}
"""Of Terraform itself."""
OF_TERRAFORM = {"count", "for_each", "depends_on", "lifecycle", "provider"}
MARKS = ("__is_block__", "__start_line__", "__end_line__", "__comments__", "__inline_comments__")
OTHERS = {
    "terraform-gcp": "full-8b-gcp",
    "terraform-azure": "bert-azure",
    "terraform-alicloud": "pretrain-1b-alicloud",
    "terraform-tencent": "batch-8b-tencent",
}


def moved_to(home: str, name: str, **told: object) -> dict[str, Any]:
    """A plan on the server of another one."""
    values = plan_values(name)
    server = {part: plan_values(home)["options"][0][part] for part in ("provider", "region", "instance_type")}
    return {**values, "options": [{**values["options"][0], **server, **told}]}


def plain(value: Any) -> Any:
    """What hcl2 found, without its quotes and marks."""
    if isinstance(value, dict):
        return {name.strip('"'): plain(item) for name, item in value.items() if name not in MARKS}
    return [plain(item) for item in value] if isinstance(value, list) else value


def declared(text: str) -> list[tuple[str, dict[str, Any]]]:
    """("resource TYPE", body) of everything a folder declares."""
    found = plain(hcl2.loads(text))
    return [
        (f"{kind} {name}", body)
        for kind in ("resource", "data")
        for block in found.get(kind, [])
        for name, named in block.items()
        for body in named.values()
    ]


def problems(body: dict[str, Any], schema: dict[str, Any], place: str) -> list[str]:
    """Attributes and blocks that the schema does not have, and required ones that are missing."""
    found = [
        f"{place}.{name} is missing" for name, part in schema.items() if part["required"] and name not in body and name not in dynamic(body)
    ]
    for name, value in {**body, **dynamic(body)}.items():
        if name in OF_TERRAFORM or name == "dynamic":
            continue
        if name not in schema:
            found.append(f"{place}.{name} is unknown")
        elif "block" in schema[name]:
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, dict):
                    found += problems(inner, schema[name]["block"], f"{place}.{name}")
    return found


def dynamic(body: dict[str, Any]) -> dict[str, Any]:
    """The contents of dynamic blocks under the name of the block."""
    return {name: part["content"] for block in body.get("dynamic", []) for name, part in block.items()}


def checked(target: str, found: Files) -> None:
    for path, text in found.items():
        if path.endswith(".tf"):
            hcl2.loads(text)
            if TERRAFORM:
                done = subprocess.run([TERRAFORM, "fmt", "-check", "-diff", "-"], input=text, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stdout + done.stderr
    assert len(declared(found["main.tf"])) > 5
    assert not wrong_in(target, found["main.tf"])


def wrong_in(target: str, text: str) -> list[str]:
    """Problems of everything that a folder declares."""
    schemas = SCHEMAS[target] | BUILT_IN
    return [line for name, body in declared(text) for line in problems(body, schemas[name], name)]


@pytest.mark.parametrize(("target", "name"), [(target, name) for target in OTHERS for name in taken(target)])
def test_every_attribute_is_the_provider_s(target: str, name: str) -> None:
    for maker in (files, hostile):
        checked(target, maker(target, name))


@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("purchase", ["spot", "on-demand"])
@pytest.mark.parametrize("name", ["lora-8b-aws", "chat-8b-aws"])
def test_runs_and_services_of_both_kinds_of_purchase(target: str, purchase: str, name: str) -> None:
    """Plans of another cloud, moved to this one: balancer and bucket, spot and not."""
    moved = moved_to(OTHERS[target], name, purchase=purchase)
    found = find_target(target).files(job_of(plan_document(moved)))
    checked(target, found)
    words = {"terraform-gcp": "SPOT", "terraform-azure": "Spot", "terraform-alicloud": "SpotAsPriceGo", "terraform-tencent": "SPOTPAID"}
    assert (f'"{words[target]}"' in found["main.tf"]) == (purchase == "spot")


@pytest.mark.parametrize("target", ["terraform-alicloud", "terraform-tencent"])
def test_services_are_rented_by_the_month_and_runs_are_not(target: str) -> None:
    for name, month in (("chat-8b-aws", True), ("lora-8b-aws", False)):
        job = job_of(plan_document(moved_to(OTHERS[target], name, purchase="subscription-1m")))
        assert (find_target(target).problem(job) == "") == month
        if month:
            found = find_target(target).files(job)
            checked(target, found)
            assert '= "PREPAID"' in found["main.tf"].upper()


LONGEST = {
    "terraform-aws": (16_384, True),
    "terraform-tencent": (16_384, True),
    "terraform-alicloud": (32_768, False),
    "terraform-azure": (65_535, False),
    "terraform-gcp": (262_144, False),
}
"""Bytes of user data that each cloud takes, and whether it is sent packed, which cloud-init
reads."""
TOLD = 800


@pytest.mark.parametrize("name", WISHES)
@pytest.mark.parametrize(("target", "home"), {**OTHERS, "terraform-aws": "lora-8b-aws"}.items())
def test_first_boots_are_short_enough(target: str, home: str, name: str) -> None:
    """Of which what only whoever starts the server knows takes a few hundred letters. Every plan,
    on a server of every cloud."""
    moved = job_of(plan_document(moved_to(home, name, nodes=1)))
    if not find_target(target).problem(moved):
        files, (most, is_packed) = find_target(target).files(moved), LONGEST[target]
        boot = files["first-boot.sh"].encode()
        assert ("base64gzip(" in files["main.tf"]) == is_packed
        assert len(gzip.compress(boot) if is_packed else boot) < most - TOLD


def test_the_check_would_find_wrong_and_missing_attributes() -> None:
    text = files("terraform-gcp", "full-8b-gcp")["main.tf"]
    for wrong, said in (
        (text.replace("machine_type", "machine_typ"), "google_compute_instance.machine_typ is unknown"),
        (text.replace("max_run_duration {", "max_duration {"), "google_compute_instance.scheduling.max_duration is unknown"),
        (text.replace("ip_cidr_range ", "ip_range "), "google_compute_subnetwork.ip_range is unknown"),
    ):
        assert f"resource {said}" in wrong_in("terraform-gcp", wrong)


@pytest.mark.parametrize(("target", "name"), OTHERS.items())
def test_only_what_was_given_comes_in(target: str, name: str) -> None:
    """The only addresses of everything stand in rules for what goes out."""
    text = files(target, name, ssh_cidr="203.0.113.7/32")["main.tf"]
    assert "0.0.0.0/0" not in text.replace('"0.0.0.0/0" # outgoing', "")
    assert '"203.0.113.7/32"' in files(target, name, ssh_cidr="203.0.113.7/32")["variables.tf"]
    assert job(name).plan_id in text
