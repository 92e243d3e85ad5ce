"""Terraform really makes and unmakes what the AWS folder says, against a simulated AWS (moto's
server); what is there in between is looked at by boto3."""

from __future__ import annotations

import base64
import concurrent.futures
import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_terraform import MIRROR, TERRAFORM, put, terraform
from typical_plans import plan_values

from rightfit.exports import ExportSettings, Job, find_target, job_of, plan_document
from rightfit.exports.recipes import terraform_end

boto3 = pytest.importorskip("boto3")
moto_server = pytest.importorskip("moto.server", reason="moto is not installed (pip install 'moto[ec2,server]')")
pytestmark = pytest.mark.skipif(TERRAFORM is None or MIRROR is None, reason="terraform or its mirror of plug-ins is not there")
SERVICES = ("ec2", "elbv2", "iam", "s3", "sts", "ssm")
CERTIFICATE = "arn:aws:iam::123456789012:server-certificate/mine"
OVERRIDE = """
provider "aws" {{
  access_key                  = "test"
  secret_key                  = "test"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
  s3_use_path_style           = true
  endpoints {{
{endpoints}
  }}
}}

data "aws_ami" "image" {{
  filter {{
    name   = "name"
    values = ["amzn2-ami-hvm-2.0.*"]
  }}
}}
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _host, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


def workdir(folder: Path, address: str) -> Path:
    folder.mkdir()
    (folder / "settings.tfrc").write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{MIRROR}"\n  }}\n}}\n')
    endpoints = "\n".join(f'    {name} = "{address}"' for name in SERVICES)
    (folder / "moto_override.tf").write_text(OVERRIDE.format(endpoints=endpoints))
    return folder


def client(name: str, address: str, region: str) -> Any:
    return boto3.client(name, region_name=region, endpoint_url=address, aws_access_key_id="test", aws_secret_access_key="test")


def test_they_are_made_and_unmade(tmp_path: Path, address: str) -> None:
    """A spot run and a service, side by side: nearly all of the time is waiting between
    looks of the provider."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = [pool.submit(made_and_unmade, name, workdir(tmp_path / name, address), address) for name in ("lora-8b-aws", "chat-8b-aws")]
        for future in found:
            future.result()


def named(name: str) -> Job:
    """The job of a typical plan under a name of its own, so that two do not meet."""
    return job_of(plan_document(plan_values(name)), settings=ExportSettings(name=name, ssh_cidr="203.0.113.7/32"))


def made_and_unmade(name: str, folder: Path, address: str) -> None:
    put(folder, find_target("terraform-aws").files(named(name)))
    if named(name).is_service:
        iam = client("iam", address, named(name).option.region)
        iam.upload_server_certificate(ServerCertificateName="mine", CertificateBody="x", PrivateKey="x")
        (folder / "mine.auto.tfvars").write_text(f'certificate_arn = "{CERTIFICATE}"\n')
    terraform(folder, "init", "-input=false", "-no-color")
    terraform(folder, "apply", "-auto-approve", "-input=false", "-no-color")
    try:
        looked_at(name, address, named(name).option.region)
        if not named(name).is_service:  # the end of the README leaves the bucket, closed as it was
            [line] = terraform_end(named(name))
            terraform(folder, *line.partition("#")[0].split()[1:], "-input=false", "-no-color")
            assert not servers(client("ec2", address, named(name).option.region))
            kept = client("s3", address, named(name).option.region)
            [bucket] = kept.list_buckets()["Buckets"]
            assert all(kept.get_public_access_block(Bucket=bucket["Name"])["PublicAccessBlockConfiguration"].values())
    finally:
        terraform(folder, "destroy", "-auto-approve", "-input=false", "-no-color")
    assert not servers(client("ec2", address, named(name).option.region))


def servers(ec2: Any) -> list[dict[str, Any]]:
    found = ec2.describe_instances(Filters=[{"Name": "instance-state-name", "Values": ["running", "pending"]}])
    return [server for group in found["Reservations"] for server in group["Instances"]]


def looked_at(name: str, address: str, region: str) -> None:
    """The server is the plan's, bought as planned, labelled; only SSH from one range and the port
    from the balancer come in."""
    ec2, planned = client("ec2", address, region), named(name)
    found = servers(ec2)
    assert [server["InstanceType"] for server in found] == [planned.option.instance_type] * planned.num_nodes
    assert [server.get("InstanceLifecycle") == "spot" for server in found] == [planned.is_spot] * planned.num_nodes
    assert {"Key": "rightfit-plan", "Value": planned.plan_id} in found[0]["Tags"]
    groups = ec2.describe_security_groups(
        Filters=[{"Name": "description", "Values": ["SSH from one range only", "Clients of one range only"]}]
    )
    inward = [rule for group in groups["SecurityGroups"] for rule in group["IpPermissions"]]
    assert sorted(rule["FromPort"] for rule in inward) == ([22, 8000] if planned.is_service else [22])
    assert [part["CidrIp"] for rule in inward for part in rule["IpRanges"]] == ["203.0.113.7/32"]
    offered = ec2.describe_instance_type_offerings(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [planned.option.instance_type]}]
    )
    assert found[0]["Placement"]["AvailabilityZone"] in {row["Location"] for row in offered["InstanceTypeOfferings"]}
    usual = [{"Name": "group-name", "Values": ["default"]}, {"Name": "vpc-id", "Values": [found[0]["VpcId"]]}]
    [closed] = ec2.describe_security_groups(Filters=usual)["SecurityGroups"]
    assert closed["IpPermissions"] + closed["IpPermissionsEgress"] == []
    if planned.is_service:
        balancers = client("elbv2", address, region)
        [balancer] = balancers.describe_load_balancers()["LoadBalancers"]
        [listener] = balancers.describe_listeners(LoadBalancerArn=balancer["LoadBalancerArn"])["Listeners"]
        assert (listener["Port"], listener["Protocol"]) == (443, "HTTPS")
        assert [one["CertificateArn"] for one in listener["Certificates"]] == [CERTIFICATE]
        [group] = balancers.describe_target_groups()["TargetGroups"]
        health = balancers.describe_target_health(TargetGroupArn=group["TargetGroupArn"])["TargetHealthDescriptions"]
        assert [target["Target"]["Id"] for target in health] == [server["InstanceId"] for server in found]
        return
    [bucket] = client("s3", address, region).list_buckets()["Buckets"]
    account = hashlib.sha256(b"123456789012").hexdigest()[:8]  # of the simulation
    assert bucket["Name"] == f"{name}-{planned.plan_id}-{account}"
    assert all(client("s3", address, region).get_public_access_block(Bucket=bucket["Name"])["PublicAccessBlockConfiguration"].values())
    kept = client("s3", address, region)
    assert kept.get_bucket_versioning(Bucket=bucket["Name"])["Status"] == "Enabled"
    [rule] = kept.get_bucket_lifecycle_configuration(Bucket=bucket["Name"])["Rules"]
    assert (rule["Status"], rule["NoncurrentVersionExpiration"]["NoncurrentDays"]) == ("Enabled", 30)
    assert rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] == 7
    data = ec2.describe_instance_attribute(InstanceId=found[0]["InstanceId"], Attribute="userData")["UserData"]["Value"]
    assert f"export RIGHTFIT_BUCKET='{bucket['Name']}'" in gzip.decompress(base64.b64decode(data)).decode()
