"""The provider's own command line: one command that rents the plan's server and hands it its first boot. For who has a network and keys
there already."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence

from rightfit.export.job import Job
from rightfit.export.quoting import comment, shell_lines
from rightfit.export.registry import Files, Target
from rightfit.export.targets import terraform_alicloud, terraform_aws, terraform_azure, terraform_gcp, terraform_tencent
from rightfit.export.targets.cloudformation import IMAGES as AWS_IMAGES
from rightfit.export.terraform_words import problem
from rightfit.export.waiting import RUN, RUN_FILE, TOKEN, TOKEN_FILE, end_of_provider, provider_cli_way, wait_files
from rightfit.messages import Message

BOOT = "first-boot.sh"
BOOTS: Mapping[str, Callable[[Job], str]] = {
    "aws": terraform_aws.boot,
    "azure": terraform_azure.boot,
    "gcp": terraform_gcp.boot,
    "alicloud": terraform_alicloud.boot,
    "tencent": terraform_tencent.boot,
}
BUCKET = ("RIGHTFIT_BUCKET", "bucket (and path) for checkpoints")
NEEDS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "aws": (
        ("SUBNET_ID", "a subnet"),
        ("SECURITY_GROUP_ID", "a security group that opens SSH to you alone"),
        ("INSTANCE_PROFILE", "an instance profile that may read /rightfit/* parameters and write the bucket"),
    ),
    "azure": (
        ("RESOURCE_GROUP", "a resource group"),
        ("SUBNET_ID", "a subnet"),
        ("NSG", "a network security group that opens SSH to you alone"),
        ("SSH_PUBLIC_KEY", "a public SSH key or its file"),
        ("RIGHTFIT_VAULT", "name of the key vault with the secrets"),
    ),
    "gcp": (
        ("PROJECT", "the project that pays"),
        ("ZONE", "a zone of the region that has the server"),
        ("SUBNET", "a subnet"),
        ("SERVICE_ACCOUNT", "an account that may read the secrets and write the bucket"),
    ),
    "alicloud": (
        ("VSWITCH_ID", "a vSwitch"),
        ("SECURITY_GROUP_ID", "a security group that opens SSH to you alone"),
        ("IMAGE_ID", "an image with Docker (and the driver of the cards)"),
        ("RAM_ROLE", "a role that may read the secrets and write the bucket"),
    ),
    "tencent": (
        ("ZONE", "a zone of the region that has the server"),
        ("VPC_ID", "a network"),
        ("SUBNET_ID", "a subnet of it"),
        ("SECURITY_GROUP_ID", "a security group that opens SSH to you alone"),
        ("IMAGE_ID", "an image with Docker and pip (and the driver of the cards)"),
        ("CAM_ROLE", "a role that may read the secrets and write the bucket"),
    ),
}
"""Provider -> (environment variable, what it must hold) that the command takes from whoever runs it."""


def write(job: Job) -> Files:
    """The command, and the first boot that it hands over."""
    provider = job.option.provider
    needs = [*NEEDS[provider], *([] if job.is_service else [BUCKET])]
    required = [f': "${{{name}:?set {name}: {comment(meaning)}}}"' for name, meaning in needs]
    about = f"# {comment(job.model)}, plan {job.plan_id}: {job.num_nodes} x {comment(job.option.instance_type)}, {job.option.purchase}"
    body = [*required, 'cd "$(dirname "$0")"', *handed_over(job), f"exec {words(COMMANDS[provider](job))}"]
    launch = "\n".join(["#!/bin/bash", about, "set -euo pipefail", *body, ""])
    ways = wait_files(job, provider_cli_way(job))
    return {"launch.sh": launch, BOOT: BOOTS[provider](job), **ways, "end.sh": end_of_provider(job)}


def handed_over(job: Job) -> list[str]:
    """The first boot with what the server cannot know by itself written before it, packed for the clouds that take it as one word."""
    names = (["RIGHTFIT_VAULT"] if job.option.provider == "azure" else []) + ([] if job.is_service else [BUCKET[0]])
    said = [f"  printf 'export {name}=%q\\n' \"${name}\"" for name in names]
    said.append(f"  if [ -f {TOKEN_FILE} ]; then echo export {TOKEN}=yes; else echo export {TOKEN}=no; fi")
    said += [] if job.is_service else [f"  printf 'export {RUN}=%q\\n' \"$(cat {RUN_FILE} 2>/dev/null || true)\""]
    lines = ['boot="$(mktemp)"', "{", "  echo '#!/bin/bash'", *said, f"  cat {BOOT}", '} > "$boot"']
    return [*lines, 'packed="$(base64 -w 0 "$boot")"'] if job.option.provider in ("alicloud", "tencent") else lines


class CommandWord(str):
    """A word in which the shell puts a variable: it stands in double quotes, everything else in it is ours."""

    __slots__ = ()


def words(command: Sequence[str]) -> str:
    """The command line, an option a line. Each variable word is put in after quoting, so that nothing of the plan is ever expanded."""
    marks = {f"@{number}@": word for number, word in enumerate(command) if isinstance(word, CommandWord)}
    line = shell_lines([f"@{number}@" if isinstance(word, CommandWord) else word for number, word in enumerate(command)])
    for mark, word in marks.items():
        line = line.replace(mark, f'"{word}"')
    return line


def aws(job: Job) -> list[str]:
    """aws ec2 run-instances."""
    option = job.option
    arch = "arm64" if option.instance_type.startswith(terraform_aws.ARM_FAMILIES) else "x86_64"
    disk = {"VolumeType": "gp3", "VolumeSize": job.disk_gib, "Encrypted": True, "DeleteOnTermination": True}
    device = "/dev/sda1" if job.gpus_per_node else "/dev/xvda"
    tags = [{"Key": key, "Value": value} for key, value in {"Name": job.name, **job.labels}.items()]
    spot = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}}
    return [
        *("aws", "ec2", "run-instances", "--region", option.region),
        *("--image-id", f"resolve:ssm:{AWS_IMAGES[job.gpus_per_node > 0, arch]}"),
        *("--instance-type", option.instance_type, "--count", str(job.num_nodes)),
        *(("--instance-market-options", json.dumps(spot)) if job.is_spot else ()),
        *("--instance-initiated-shutdown-behavior", "terminate"),
        *("--subnet-id", CommandWord("$SUBNET_ID"), "--security-group-ids", CommandWord("$SECURITY_GROUP_ID")),
        *("--iam-instance-profile", CommandWord("Name=$INSTANCE_PROFILE")),
        *("--user-data", CommandWord("file://$boot")),
        *("--metadata-options", "HttpTokens=required"),
        *("--block-device-mappings", json.dumps([{"DeviceName": device, "Ebs": disk}])),
        *("--tag-specifications", json.dumps([{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")])),
    ]


def azure(job: Job) -> list[str]:
    """az vm create."""
    option, image = job.option, terraform_azure.IMAGE
    evicted = "Deallocate" if job.is_service else "Delete"
    return [
        *("az", "vm", "create", "--resource-group", CommandWord("$RESOURCE_GROUP"), "--name", job.name),
        *(("--count", str(job.num_nodes)) if job.num_nodes > 1 else ()),
        *("--location", option.region, "--size", option.instance_type),
        *("--image", f"{image['publisher']}:{image['offer']}:{image['sku']}:latest"),
        *(("--priority", "Spot", "--max-price", "-1", "--eviction-policy", evicted) if job.is_spot else ()),
        *("--admin-username", terraform_azure.ADMINISTRATOR, "--ssh-key-values", CommandWord("$SSH_PUBLIC_KEY")),
        *("--subnet", CommandWord("$SUBNET_ID"), "--nsg", CommandWord("$NSG"), "--public-ip-sku", "Standard"),
        *("--assign-identity", "[system]", "--custom-data", CommandWord("$boot")),
        *("--nic-delete-option", "Delete", "--os-disk-delete-option", "Delete"),
        *("--os-disk-size-gb", str(job.disk_gib), "--storage-sku", "Premium_LRS"),
        *("--tags", *(f"{key}={value}" for key, value in job.labels.items())),
    ]


def gcp(job: Job) -> list[str]:
    """gcloud compute instances create."""
    option = job.option
    names = [f"{job.name}-{number}" for number in range(job.num_nodes)]
    end = "STOP" if job.is_service else "DELETE"
    limit = ("--max-run-duration", f"{round(job.stop_after_h * 3600)}s") if job.stop_after_h else ()
    image_project, _, image_family = terraform_gcp.image_of(job).removeprefix("projects/").partition("/global/images/family/")
    return [
        *("gcloud", "compute", "instances", "create", *names, "--project", CommandWord("$PROJECT"), "--zone", CommandWord("$ZONE")),
        *("--machine-type", option.instance_type, "--subnet", CommandWord("$SUBNET")),
        *("--provisioning-model", "SPOT" if job.is_spot else "STANDARD"),
        *(("--instance-termination-action", end) if job.is_spot or limit else ()),
        *limit,
        *("--maintenance-policy", "TERMINATE" if job.is_spot or job.gpus_per_node else "MIGRATE"),
        *("--image-project", image_project, "--image-family", image_family),
        *("--boot-disk-size", f"{job.disk_gib}GB", "--boot-disk-type", terraform_gcp.disk_type(job)),
        *("--service-account", CommandWord("$SERVICE_ACCOUNT"), "--scopes", "cloud-platform"),
        *("--metadata", "enable-oslogin=TRUE" + (",install-nvidia-driver=True" if job.gpus_per_node else "")),
        *("--metadata-from-file", CommandWord("startup-script=$boot")),
        *("--labels", ",".join(f"{key}={value}" for key, value in job.labels.items())),
    ]


def alicloud(job: Job) -> list[str]:
    """aliyun ecs RunInstances."""
    option = job.option
    minutes = max(30, math.ceil(job.stop_after_h * 60))
    end = CommandWord(f"$(date -u -d '+{minutes} minutes' +%Y-%m-%dT%H:%M:%SZ)")
    tags = [
        word
        for number, pair in enumerate(job.labels.items(), start=1)
        for word in (f"--Tag.{number}.Key", pair[0], f"--Tag.{number}.Value", pair[1])
    ]
    return [
        *("aliyun", "ecs", "RunInstances", "--RegionId", option.region, "--InstanceType", option.instance_type),
        *("--Amount", str(job.num_nodes), "--InstanceName", job.name, "--ImageId", CommandWord("$IMAGE_ID")),
        *("--InstanceChargeType", "PostPaid", *(("--SpotStrategy", "SpotAsPriceGo") if job.is_spot else ())),
        *(
            "--VSwitchId",
            CommandWord("$VSWITCH_ID"),
            "--SecurityGroupId",
            CommandWord("$SECURITY_GROUP_ID"),
            "--RamRoleName",
            CommandWord("$RAM_ROLE"),
        ),
        *("--SystemDisk.Category", "cloud_essd", "--SystemDisk.Size", str(job.disk_gib)),
        *("--InternetChargeType", "PayByTraffic", "--InternetMaxBandwidthOut", "100"),
        *(("--AutoReleaseTime", end) if job.stop_after_h else ()),
        *("--UserData", CommandWord("$packed"), *tags),
    ]


def tencent(job: Job) -> list[str]:
    """tccli cvm RunInstances."""
    option = job.option
    tags = [{"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in job.labels.items()]}]
    spot = {"MarketType": "spot", "SpotOptions": {"MaxPrice": "1000", "SpotInstanceType": "one-time"}}
    internet = {"InternetChargeType": "TRAFFIC_POSTPAID_BY_HOUR", "InternetMaxBandwidthOut": 100, "PublicIpAssigned": True}
    return [
        *("tccli", "cvm", "RunInstances", "--region", option.region, "--InstanceType", option.instance_type),
        *("--InstanceChargeType", "SPOTPAID" if job.is_spot else "POSTPAID_BY_HOUR"),
        *(("--InstanceMarketOptions", json.dumps(spot)) if job.is_spot else ()),
        *("--InstanceCount", str(job.num_nodes), "--InstanceName", job.name, "--ImageId", CommandWord("$IMAGE_ID")),
        *("--Placement", CommandWord('{\\"Zone\\": \\"$ZONE\\"}')),
        *("--VirtualPrivateCloud", CommandWord('{\\"VpcId\\": \\"$VPC_ID\\", \\"SubnetId\\": \\"$SUBNET_ID\\"}')),
        *("--SecurityGroupIds", CommandWord('[\\"$SECURITY_GROUP_ID\\"]'), "--CamRoleName", CommandWord("$CAM_ROLE")),
        *("--SystemDisk", json.dumps({"DiskType": "CLOUD_BSSD", "DiskSize": job.disk_gib})),
        *("--InternetAccessible", json.dumps(internet)),
        *("--UserData", CommandWord("$packed"), "--TagSpecification", json.dumps(tags)),
    ]


COMMANDS: Mapping[str, Callable[[Job], list[str]]] = {"aws": aws, "azure": azure, "gcp": gcp, "alicloud": alicloud, "tencent": tencent}


def _refuses(job: Job) -> Message | str:
    if job.option.provider not in COMMANDS:
        return Message("export.part_command_line", provider=job.option.provider, known=", ".join(COMMANDS))
    if job.is_service and job.num_nodes > 1:
        return Message("export.part_needs_balancer", target=f"terraform-{job.option.provider}")
    return problem(job, job.option.provider)


TARGET = Target(
    "provider-cli",
    "launch",
    "one command of the provider's own command line",
    write,
    _refuses,
    checked_by="shellcheck; the real aws (run against a simulated AWS), az and tccli; gcloud too; aliyun by the fields of its SDK",
)
