"""CloudFormation templates by cfn-lint (which knows every property and the server types of
each region), and made in a simulated AWS (moto; its deletion of stacks does not know the
order of parts)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jobs import files, hostile, job, taken

LINT = shutil.which("cfn-lint", path=str(Path(sys.executable).parent))


def lint(text: str, region: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "template.yaml"
    path.write_text(text, encoding="utf-8")
    return subprocess.run([str(LINT), "--regions", region, "--template", str(path)], capture_output=True, text=True, check=False)


@pytest.mark.skipif(LINT is None, reason="cfn-lint is not installed")
@pytest.mark.parametrize("name", taken("cloudformation"))
def test_templates_are_clean(name: str, tmp_path: Path) -> None:
    for maker in (files, hostile):
        text = maker("cloudformation", name)["template.yaml"]
        found = lint(text, job(name).option.region, tmp_path)
        assert found.returncode == 0, found.stdout[:2000]
        assert len(text.encode()) <= 51_200  # what AWS takes without a bucket


@pytest.mark.skipif(LINT is None, reason="cfn-lint is not installed")
def test_the_linter_would_find_a_wrong_property_and_server(tmp_path: Path) -> None:
    option = job("lora-8b-aws").option
    text = files("cloudformation", "lora-8b-aws")["template.yaml"]
    server = f"InstanceType: {option.instance_type}"
    assert server in text  # which server wins is the market's affair
    assert "E3002" in lint(text.replace("VolumeSize:", "VolumeSiz:"), option.region, tmp_path).stdout
    assert lint(text.replace(server, f"InstanceType: {option.instance_type.split('.')[0]}.huge"), option.region, tmp_path).returncode != 0


@pytest.mark.parametrize("name", taken("cloudformation"))
def test_stacks_are_made(name: str) -> None:
    moto = pytest.importorskip("moto", reason="moto is not installed")
    import boto3

    planned = job(name)
    region = planned.option.region
    with moto.mock_aws():
        ec2, stacks = boto3.client("ec2", region), boto3.client("cloudformation", region)
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        template = yaml.safe_load(files("cloudformation", name, ssh_cidr="203.0.113.7/32")["template.yaml"])
        template["Parameters"]["Image"] = {"Type": "String", "Default": image}  # the simulation has no public parameters of images
        stacks.create_stack(StackName="s", TemplateBody=yaml.safe_dump(template), Capabilities=["CAPABILITY_IAM"])
        assert stacks.describe_stacks(StackName="s")["Stacks"][0]["StackStatus"] == "CREATE_COMPLETE"
        found = servers(ec2)
        assert [server["InstanceType"] for server in found] == [planned.option.instance_type] * planned.num_nodes
        assert {"Key": "rightfit-plan", "Value": planned.plan_id} in found[0]["Tags"]
        groups = ec2.describe_security_groups(
            Filters=[{"Name": "description", "Values": ["* from one range only", "Clients of one range only"]}]
        )
        inward = [rule for group in groups["SecurityGroups"] for rule in group["IpPermissions"]]
        assert [part["CidrIp"] for rule in inward for part in rule["IpRanges"]] == ["203.0.113.7/32"]


def servers(ec2: Any) -> list[dict[str, Any]]:
    found = ec2.describe_instances(Filters=[{"Name": "instance-state-name", "Values": ["running", "pending"]}])
    return [server for group in found["Reservations"] for server in group["Instances"]]
