"""The provider's command, run by the shell: AWS's own program really runs it against a simulated
AWS; Azure's and Tencent Cloud's own programs read it (and then lack an account); Alibaba Cloud's
words are compared with the fields of its SDK, Google's with the options of gcloud, which reads one
command itself where it is there."""

from __future__ import annotations

import base64
import gzip
import inspect
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from bundles import Bundle
from jobs import files
from typical_plans import plan_values

from rightfit.exports import Files, find_target, job_of, plan_document
from rightfit.exports.finding import ROLES, found_by, vault_needs
from rightfit.exports.targets.provider_cli import BUCKET_VARIABLE, NEEDS

BIN = str(Path(sys.executable).parent)
HOMES = {
    "aws": "lora-8b-aws",
    "azure": "bert-azure",
    "gcp": "full-8b-gcp",
    "alicloud": "pretrain-1b-alicloud",
    "tencent": "batch-8b-tencent",
}
KINDS = [(provider, purchase, name) for provider in HOMES for purchase in ("spot", "on-demand") for name in ("lora-8b-aws", "chat-8b-aws")]
GCLOUD = (Path(__file__).parent / "data" / "gcloud_instances_create.txt").read_text(encoding="utf-8").split("\n")


def moved(provider: str, purchase: str, name: str) -> Files:
    """A run's or a service's plan on another cloud."""
    values = plan_values(name)
    server = {part: plan_values(HOMES[provider])["options"][0][part] for part in ("provider", "region", "instance_type")}
    option = {**values["options"][0], **server, "purchase": purchase}
    return find_target("provider-cli").files(job_of(plan_document({**values, "options": [option]})))


def run(found: Files, folder: Path, provider: str, *, programs: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """The script, with everything that it asks for."""
    for path, text in found.items():
        (folder / path).write_text(text, encoding="utf-8")
    needs = {
        name: f"{name.lower().replace('_', '-')}-1"
        for name, _ in (*NEEDS[provider], BUCKET_VARIABLE, *((name, "") for name in ROLES.values()))
    }
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), **needs, **settings}
    return subprocess.run(["bash", str(folder / "launch.sh")], capture_output=True, text=True, env=environment, check=False, timeout=120)


def called(found: Files, folder: Path, provider: str, program: str) -> list[str]:
    """The words that the program gets, by a stand-in."""
    tools = folder / "bin"
    tools.mkdir()
    (tools / program).write_text('#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done\n')
    (tools / program).chmod(0o755)
    done = run(found, folder, provider, programs=str(tools))
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\0").split("\0")


@pytest.mark.skipif(shutil.which("aws", path=BIN) is None, reason="awscli is not installed")
@pytest.mark.parametrize(("purchase", "name"), [kind[1:] for kind in KINDS if kind[0] == "aws"])
def test_aws_rents_the_server(purchase: str, name: str, tmp_path: Path) -> None:
    server_of = pytest.importorskip("moto.server", reason="moto is not installed")
    import boto3

    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
        urllib.request.urlopen(urllib.request.Request(f"{address}/moto-api/reset", method="POST"))
        option = plan_values(HOMES["aws"])["options"][0]
        keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "endpoint_url": address, "region_name": option["region"]}
        ec2, roles = boto3.client("ec2", **keys), boto3.client("iam", **keys)
        roles.create_instance_profile(InstanceProfileName="p")
        subnet = ec2.describe_subnets()["Subnets"][0]
        group = ec2.create_security_group(GroupName="g", Description="g", VpcId=subnet["VpcId"])["GroupId"]
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        found = dict(moved("aws", purchase, name))
        # The simulation has no public parameters of images.
        start = found["launch.sh"].index("resolve:ssm:")
        found["launch.sh"] = found["launch.sh"].replace(found["launch.sh"][start:].split()[0], image)
        settings = {"SUBNET_ID": subnet["SubnetId"], "SECURITY_GROUP_ID": group, "INSTANCE_PROFILE": "p", "AWS_ENDPOINT_URL": address}
        done = run(found, tmp_path, "aws", programs=BIN, **settings, AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="x", AWS_PAGER="")
        assert done.returncode == 0, done.stderr
        rented = [one for group in ec2.describe_instances()["Reservations"] for one in group["Instances"]]
        assert [one["InstanceType"] for one in rented] == [option["instance_type"]]
        assert (rented[0].get("InstanceLifecycle") == "spot") == (purchase == "spot")
        data = ec2.describe_instance_attribute(InstanceId=rented[0]["InstanceId"], Attribute="userData")["UserData"]["Value"]
        assert found["first-boot.sh"] in gzip.decompress(base64.b64decode(data)).decode()
    finally:
        server.stop()


@pytest.mark.skipif(shutil.which("aws", path=BIN) is None, reason="awscli is not installed")
def test_aws_finds_the_network_and_makes_bucket_and_role(tmp_path: Path) -> None:
    """Nothing is set but the keys: what is rented stands in the default network, in a zone that has
    the server, and may read its secrets and work in its bucket. Started again it finds the same."""
    server_of = pytest.importorskip("moto.server", reason="moto is not installed")
    import boto3

    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
        urllib.request.urlopen(urllib.request.Request(f"{address}/moto-api/reset", method="POST"))
        values = plan_values("lora-8b-aws")
        option = {**values["options"][0], "instance_type": "p4de.24xlarge", "region": "us-east-1", "purchase": "on-demand"}
        found = dict(find_target("provider-cli").files(job_of(plan_document({**values, "options": [option]}))))
        keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "endpoint_url": address, "region_name": "us-east-1"}
        ec2, roles = boto3.client("ec2", **keys), boto3.client("iam", **keys)
        start = found["launch.sh"].index("resolve:ssm:")
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        found["launch.sh"] = found["launch.sh"].replace(found["launch.sh"][start:].split()[0], image)
        found["role.sh"] = found["role.sh"].replace("sleep 15", "sleep 0")
        for path, text in found.items():
            (tmp_path / path).write_text(text, encoding="utf-8")
        told = {"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_PAGER": ""}
        environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(tmp_path), **told}
        for _ in range(2):
            done = subprocess.run(
                ["bash", "launch.sh"], cwd=tmp_path, capture_output=True, text=True, env=environment, check=False, timeout=120
            )
            assert done.returncode == 0, done.stderr
        rented = [one for group in ec2.describe_instances()["Reservations"] for one in group["Instances"]]
        [place] = {(one["SubnetId"], one["IamInstanceProfile"]["Arn"], one["SecurityGroups"][0]["GroupName"]) for one in rented}
        assert place[2] == "default"
        [subnet] = ec2.describe_subnets(SubnetIds=[place[0]])["Subnets"]
        offered = ec2.describe_instance_type_offerings(  # not in the first zone
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": ["p4de.24xlarge"]}]
        )["InstanceTypeOfferings"]
        assert subnet["DefaultForAz"]
        assert subnet["AvailabilityZone"] in {one["Location"] for one in offered}
        [role] = roles.list_roles()["Roles"]
        policy = roles.get_role_policy(RoleName=role["RoleName"], PolicyName="server")["PolicyDocument"]
        [bucket] = boto3.client("s3", **keys).list_buckets()["Buckets"]
        assert f"arn:aws:s3:::{bucket['Name']}/*" in str(policy)
        assert "parameter/rightfit/*" in str(policy)
        none = boto3.client("ec2", **keys)
        for one in none.describe_subnets()["Subnets"]:
            none.delete_subnet(SubnetId=one["SubnetId"])
        done = subprocess.run(
            ["bash", "launch.sh"], cwd=tmp_path, capture_output=True, text=True, env=environment, check=False, timeout=120
        )
        assert done.returncode != 0
        assert "set SUBNET_ID: a subnet" in done.stderr
    finally:
        server.stop()


def noted(tools: Path, program: str, answers: str) -> None:
    """A stand-in for a cloud's program that notes each call beside itself. `answers`: lines of the
    shell that say what it answers."""
    tools.mkdir(exist_ok=True)
    note = f'for word in "$@"; do printf "%s\\0" "$word"; done >> {tools}/calls\nprintf "\\1" >> {tools}/calls'
    (tools / program).write_text(f"#!/bin/sh\n{note}\n{answers}\n")
    (tools / program).chmod(0o755)


def calls(tools: Path) -> list[list[str]]:
    """The words of each call that was noted."""
    return [call.rstrip("\0").split("\0") for call in (tools / "calls").read_text().split("\1") if call]


def asked_of(found: Files, folder: Path, program: str) -> list[list[str]]:
    """Every call of a cloud's program by find.sh, role.sh and launch.sh, in an account that has
    zones and a network, and nothing else."""
    answer = json.dumps({"AvailableZones": {"AvailableZone": [{"ZoneId": "z", "Status": "Available"}]}, "VpcId": "v"})
    noted(folder / "bin", program, f"case $2 in Get*) exit 1;; esac\necho '{answer}'")
    for path, text in found.items():
        (folder / path).write_text(text, encoding="utf-8")
    environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder), "RIGHTFIT_BUCKET": "oss://mine/runs"}
    environment |= dict.fromkeys(
        ("ZONE", "VPC_ID", "SUBNET_ID", "VSWITCH_ID", "SECURITY_GROUP_ID", "IMAGE_ID", "RAM_ROLE", "CAM_ROLE"), "x-1"
    )
    names = re.findall(r"^(\w+)\)$", found["find.sh"], re.MULTILINE)
    for words in (["bash", "launch.sh"], ["sh", "role.sh"], *(["sh", "find.sh", name] for name in names)):
        subprocess.run(words, cwd=folder, capture_output=True, env=environment, check=False, timeout=60)
    return calls(folder / "bin")


@pytest.mark.parametrize("purchase", ["spot", "on-demand"])
def test_every_question_to_tencent_has_fields_of_its_interface(purchase: str, tmp_path: Path) -> None:
    services = Path(str(pytest.importorskip("tccli", reason="tccli is not installed").__path__[0])) / "services"
    calls = asked_of(moved("tencent", purchase, "lora-8b-aws"), tmp_path, "tccli")
    assert {call[1] for call in calls} >= {
        "RunInstances",
        "DescribeVpcs",
        "DescribeSubnets",
        "CreateSecurityGroupWithPolicies",
        "CreatePolicy",
    }
    for service, action, *words in calls:
        interface = json.loads(max((services / service).glob("v*/api.json")).read_text(encoding="utf-8"))
        fields_of = {one["name"] for one in interface["objects"][interface["actions"][action]["input"]]["members"]}
        given = {word.removeprefix("--").partition(".")[0] for word in words if word.startswith("--")} - {"region"}
        assert given <= fields_of, (service, action)
        for word, value in itertools.pairwise(words):
            if word in ("--Filters", "--SecurityGroupPolicySet", "--PolicyDocument"):
                assert json.loads(value)


@pytest.mark.parametrize("purchase", ["spot", "on-demand"])
def test_every_question_to_alibaba_has_fields_of_its_interface(purchase: str, tmp_path: Path) -> None:
    names = {"ecs": "alibabacloud_ecs20140526", "vpc": "alibabacloud_vpc20160428", "ram": "alibabacloud_ram20150501"}
    models = {name: pytest.importorskip(f"{package}.models", reason=f"{package} is not installed") for name, package in names.items()}
    calls = asked_of(moved("alicloud", purchase, "lora-8b-aws"), tmp_path, "aliyun")
    assert {call[1] for call in calls} >= {"RunInstances", "DescribeVSwitches", "CreateSecurityGroup", "CreatePolicy", "AttachPolicyToRole"}
    for service, action, *words in calls:
        given = {word.removeprefix("--").partition(".")[0] for word in words if word.startswith("--")}
        known = fields(getattr(models[service], f"{action}Request")) | ({"RegionId"} if service == "ram" else set())
        assert given <= known, (service, action, given - known)


SERVER_ID = "/subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachines/v"
ON_AZURE = f"""case "$1 $2" in
  "keyvault show") [ -e "$0.vault" ] || exit 3 ;;
  "keyvault create") touch "$0.vault" ;;
  "resource list") [ -e "$0.ended" ] || echo {SERVER_ID} ;;
  "resource delete") touch "$0.ended" ;;
  "vm list") echo who server ;;
  *) echo "$2-1" ;;
esac"""
"""An account that holds what was made in it and one server, which is there until it is deleted."""


def asked_of_az(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Every call of az by a bundle: its two ways that use it as the README has them, its budget, a
    server that stops itself, and launch.sh of every kind. One of each set of options."""
    bundle = Bundle("bert-azure", folder, monkeypatch)
    tools = bundle.box / "bin"
    noted(tools, "az", ON_AZURE)
    (tools / "terraform").write_text("#!/bin/sh\necho made\n")
    told = {"LIMIT_S": "1", "EVERY_S": "0.2", "RIGHTFIT_EMAIL": "me@example.com", "SSH_PUBLIC_KEY": "ssh-rsa AAAA me"}
    told |= {"TF_VAR_ssh_public_key": told["SSH_PUBLIC_KEY"]}
    # What az itself knows is not set: it is asked for each.
    names = [name for name, _ in (*NEEDS["azure"], *vault_needs(bundle.job))]
    told |= {name: "" for name in names if "az " in found_by(bundle.job, name)}
    stop = f'curl() {{ echo {SERVER_ID}; }}; eval "$(grep "^stop_server()" auto-stop/auto-stop.sh)"; stop_server'
    for lines in (bundle.other("terraform-azure"), bundle.other("provider-cli"), "sh budget-alarm/budget.sh", stop):
        bundle.run(lines, **told)
    for number, (_, purchase, name) in enumerate(kind for kind in KINDS if kind[0] == "azure"):
        (kind := folder / str(number)).mkdir()
        done = run(moved("azure", purchase, name), kind, "azure", programs=str(tools), SSH_PUBLIC_KEY=told["SSH_PUBLIC_KEY"])
        assert done.returncode == 0, done.stderr
    return list({(command(call), *(word for word in call if word.startswith("-"))): call for call in calls(tools)}.values())


def command(call: list[str]) -> str:
    """The words before the first option."""
    return " ".join(itertools.takewhile(lambda word: not word.startswith("-"), call))


@pytest.mark.skipif(
    shutil.which("az", path=os.environ.get("RIGHTFIT_AZ_BIN", BIN)) is None, reason="azure-cli is not installed (RIGHTFIT_AZ_BIN)"
)
def test_az_reads_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an account az stops after it has read all words; exit code 2 is that of words that it
    does not know. Each command is read by itself, right and with its last option misspelt."""
    asked = asked_of_az(tmp_path, monkeypatch)
    exported = "".join(path.read_text() for path in (tmp_path / "bundle").rglob("*") if path.suffix in (".sh", ".md"))
    written = set(re.findall(r"\baz ([a-z]+(?: [a-z]+)*)", exported))
    assert {command(call) for call in asked} == written
    az = shutil.which("az", path=os.environ.get("RIGHTFIT_AZ_BIN", BIN))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AZURE_CORE_COLLECT_TELEMETRY": "0"}

    def said(call: list[str]) -> tuple[int, str]:
        done = subprocess.run(
            [str(az), *call],
            input="secret",
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path / "bundle",
            check=False,
            timeout=300,
        )
        return done.returncode, done.stderr

    for call in asked:
        last = max(place for place, word in enumerate(call) if word.startswith("--"))
        code, answer = said(call)
        assert code not in (0, 2), (call, answer)
        assert "az login" in answer or call[0] == "login", (call, answer)
        code, answer = said([*call[:last], f"{call[last][:-1]}-{call[last][-1]}", *call[last + 1 :]])
        assert code == 2, (call, answer)
        assert re.search("unrecognized arguments|arguments are required", answer), (call, answer)


@pytest.mark.skipif(shutil.which("tccli", path=BIN) is None, reason="tccli is not installed")
@pytest.mark.parametrize(("purchase", "name"), [kind[1:] for kind in KINDS if kind[0] == "tencent"])
def test_tccli_reads_the_command(purchase: str, name: str, tmp_path: Path) -> None:
    """Without keys tccli stops after it has read all words."""
    done = run(moved("tencent", purchase, name), tmp_path, "tencent", programs=BIN)
    assert "secretId" in done.stdout + done.stderr
    wrong = {path: text.replace("--InstanceCount", "--InstanceCnt") for path, text in moved("tencent", purchase, name).items()}
    assert "InstanceCnt" in (lambda found: found.stdout + found.stderr)(run(wrong, tmp_path, "tencent", programs=BIN))


@pytest.mark.parametrize(("purchase", "name"), [kind[1:] for kind in KINDS if kind[0] == "alicloud"])
def test_aliyun_is_given_fields_of_its_interface(purchase: str, name: str, tmp_path: Path) -> None:
    models = pytest.importorskip("alibabacloud_ecs20140526.models", reason="alibabacloud_ecs20140526 is not installed")
    words = called(moved("alicloud", purchase, name), tmp_path, "alicloud", "aliyun")
    assert words[:2] == ["ecs", "RunInstances"]
    known = fields(models.RunInstancesRequest)
    given = {word.removeprefix("--").split(".")[0] for word in words if word.startswith("--")}
    assert given <= known
    disk = fields(models.RunInstancesRequestSystemDisk)
    assert {word.split(".")[1] for word in words if word.startswith("--SystemDisk.")} <= disk
    boot = base64.b64decode(words[words.index("--UserData") + 1]).decode()
    assert boot.startswith("#!/bin/bash\n")


def fields(model: Any) -> set[str]:
    """Names of a request's fields, as its interface has them: those that its own writer writes."""
    return set(re.findall(r"result\['(\w+)[^']*'\]", inspect.getsource(model.to_map)))


@pytest.mark.parametrize(("purchase", "name"), [kind[1:] for kind in KINDS if kind[0] == "gcp"])
def test_gcloud_has_these_options(purchase: str, name: str, tmp_path: Path) -> None:
    words = called(moved("gcp", purchase, name), tmp_path, "gcp", "gcloud")
    assert words[:3] == ["compute", "instances", "create"]
    assert {word for word in words if word.startswith("--")} <= {line.split("\t")[0] for line in GCLOUD}
    assert ("SPOT" in words) == (purchase == "spot")


@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")
def test_gcloud_reads_the_command(tmp_path: Path) -> None:
    """Without an account gcloud stops after it has read all words; it is slow to start, so one run
    stands for all, whose options are compared above."""
    found, settings = moved("gcp", "spot", "lora-8b-aws"), {"CLOUDSDK_CONFIG": str(tmp_path / "config")}
    done = run(found, tmp_path, "gcp", programs=str(Path(str(shutil.which("gcloud"))).parent), **settings)
    assert "active account" in done.stderr
    wrong = {path: text.replace("--machine-type", "--machin-typ") for path, text in found.items()}
    assert "unrecognized arguments" in run(wrong, tmp_path, "gcp", programs="/usr/bin", **settings).stderr


def test_what_is_missing_is_asked_for(tmp_path: Path) -> None:
    for path, text in files("provider-cli", "lora-8b-aws").items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["bash", str(tmp_path / "launch.sh")], capture_output=True, text=True, env={"PATH": os.environ["PATH"]}, check=False
    )
    assert done.returncode != 0
    assert "set SUBNET_ID: a subnet" in done.stderr
