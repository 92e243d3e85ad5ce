"""The provider's own command line: one command that rents the plan's server and hands it its first
boot. For who has a network and keys there already."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence

from rightfit.exports.bare_server import FOLDER, Ground, first_boot, in_bucket, own_bucket, packed_files, problem
from rightfit.exports.buckets import BUCKET, BUCKET_FILE, COPIER, COPIER_SECRETS, PASSED_ON, ROLES_OPEN, bucket_file, copied
from rightfit.exports.finding import ROLE_FILE, ROLES, find_file, found_by, role_script
from rightfit.exports.job import Job
from rightfit.exports.model_words import spans_servers
from rightfit.exports.quoting import comment, given, in_quotes, shell, shell_lines, to_yaml
from rightfit.exports.registry import Files, Target
from rightfit.exports.skypilot_words import RUNPOD_PROVIDER, dstack_name, name_problem
from rightfit.exports.stack import (
    IMAGES_WITH_PROGRAM,
    ExportStack,
    key_of,
    launched,
    setup_files,
    stack_of,
    stack_problem,
    torch_build,
    torch_problem,
)
from rightfit.exports.targets import terraform_alicloud, terraform_aws, terraform_azure, terraform_gcp, terraform_tencent
from rightfit.exports.targets.cloudformation import IMAGES as AWS_IMAGES
from rightfit.exports.waiting import (
    RUN,
    RUN_FILE,
    TOKEN,
    TOKEN_FILE,
    by_store,
    cloud_init_way,
    end_of_pods,
    end_of_provider,
    runpod_way,
    servers_of,
    wait_files,
)
from rightfit.messages import Message

# ---- cloud-init: what a bare server of any cloud (or of your own) is given as user data, so that
# it starts the job at its first boot.

SECRETS = "/etc/rightfit/secrets"
STORES = {
    "s3": ":s3,provider=AWS,env_auth=true,no_check_bucket=true:",
    "gs": ":gcs,env_auth=true,bucket_policy_only=true,no_check_bucket=true:",
}
"""Scheme of a bucket -> rclone remote, where a server's own role opens it. The other clouds' need
their own words: use their Terraform."""


STORES_NAMED = " or ".join(f"{name}://..." for name in STORES)


def ground(job: Job) -> Ground:
    """Secrets are files that whoever made the server puts there (the job waits for them); nothing
    else is known of where it stands."""
    scheme = job.settings.bucket.partition("://")[0]
    return Ground(
        # The name is one of the stack's own: a shell word already.
        secret=lambda name: f"until [ -s {SECRETS}/{name} ]; do sleep 5; done; cat {SECRETS}/{name}",
        store=in_bucket(STORES[scheme]) if scheme in STORES else "",
        credentials=tuple(
            f'{variable}="$(until [ -s {SECRETS}/{name} ]; do sleep 5; done; cat {SECRETS}/{name})"'
            for name, variable in zip(bucket_secrets(job), RCLONE_KEYS, strict=False)
        ),
    )


RCLONE_KEYS = ("RCLONE_S3_ACCESS_KEY_ID", "RCLONE_S3_SECRET_ACCESS_KEY")


def bucket_secrets(job: Job) -> tuple[str, ...]:
    """Keys of the bucket, which a server without a role that opens it is given as it is given the
    other secrets."""
    scheme = job.settings.bucket.partition("://")[0]
    has_role = ROLES_OPEN.get(job.option.provider) == scheme
    return COPIER_SECRETS if scheme == "s3" and not job.is_service and not has_role else ()


def cloud_init_write(job: Job) -> Files:
    """One file of user data."""
    boot = first_boot(job, ground(job))
    if own_bucket(job):
        boot = boot.replace("\nset -euo pipefail\n", f"\nset -euo pipefail\nexport {BUCKET}={own_bucket(job)}\n", 1)
    body = given(
        packages=["curl"],
        write_files=[
            {"path": "/etc/rightfit/plan", "permissions": "0644", "content": f"{job.plan_id}\n"},
            {"path": f"{FOLDER}/first-boot.sh", "permissions": "0700", "content": boot},
        ],
        runcmd=[["mkdir", "-p", "-m", "700", SECRETS], ["bash", f"{FOLDER}/first-boot.sh"]],
        final_message=f"rightfit plan {job.plan_id} was started after $UPTIME s",
    )
    return {
        "user-data.yaml": f"#cloud-config\n# {comment(job.model)}, plan {job.plan_id}\n" + to_yaml(body),
        **wait_files(job, cloud_init_way(job)),
    }


def _cloud_init_refuses(job: Job) -> Message | str:
    option = job.option
    if option.nodes > 1 and not job.is_service:
        return Message("export.several_need_launcher")
    scheme = job.settings.bucket.partition("://")[0]
    is_closed = scheme not in STORES or (scheme == "gs" and ROLES_OPEN.get(option.provider) != scheme)
    if job.settings.bucket and is_closed and not job.is_service:
        return Message("export.reaches_buckets", scheme=scheme)
    if problem := spans_servers(job) or stack_problem(job):
        return problem
    if not job.is_service and not job.settings.bucket:
        return Message("export.place_that_outlives", names=STORES_NAMED)
    return ""


CLOUD_INIT = Target(
    "cloud-init",
    "launch",
    "cloud-init user data for a bare server",
    cloud_init_write,
    _cloud_init_refuses,
    checked_by="the schema of cloud-init; shellcheck of its script",
)


BOOT = "first-boot.sh"
BOOTS: Mapping[str, Callable[[Job], str]] = {
    "aws": terraform_aws.boot,
    "azure": terraform_azure.boot,
    "gcp": terraform_gcp.boot,
    "alicloud": terraform_alicloud.boot,
    "tencent": terraform_tencent.boot,
}
BUCKET_VARIABLE = (BUCKET, "bucket (and path) for checkpoints")
NEEDS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "aws": (
        ("SUBNET_ID", "a subnet"),
        ("SECURITY_GROUP_ID", "a security group that opens SSH to you alone"),
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
    ),
    "tencent": (
        ("ZONE", "a zone of the region that has the server"),
        ("VPC_ID", "a network"),
        ("SUBNET_ID", "a subnet of it"),
        ("SECURITY_GROUP_ID", "a security group that opens SSH to you alone"),
        ("IMAGE_ID", "an image with Docker and pip (and the driver of the cards)"),
    ),
}
"""Provider -> (environment variable, what it must hold) that the command takes
from whoever runs it."""


def provider_cli_write(job: Job) -> Files:
    """The command, and the first boot that it hands over."""
    provider = job.option.provider
    needs = [*NEEDS[provider], *([] if job.is_service else [BUCKET_VARIABLE])]
    required = [line for name, meaning in needs for line in asked_for(job, name, meaning)]
    required += [] if job.is_service else [f"export {BUCKET}"]
    role = ROLES.get(provider)
    made = {**({ROLE_FILE: role_script(job)} if role else {}), **find_file(job)}
    required += [f'{role}="${{{role}:-$(sh {ROLE_FILE})}}"'] if role else []  # a failure ends it
    about = f"# {comment(job.model)}, plan {job.plan_id}: {job.num_nodes} x {comment(job.option.instance_type)}, {job.option.purchase}"
    start = words(COMMANDS[provider](job))
    body = [
        'cd "$(dirname "$0")"',
        *required,
        *handed_over(job),
        *(azure_rights(job, start) if provider == "azure" else (f"exec {start}",)),
    ]
    launch = "\n".join(["#!/bin/bash", about, "set -euo pipefail", *body, ""])
    ways = wait_files(job, by_store(job, servers=servers_of(job), again="bash launch.sh"))
    return {"launch.sh": launch, BOOT: BOOTS[provider](job), **made, **bucket_file(job), **ways, "end.sh": end_of_provider(job)}


def asked_for(job: Job, name: str, meaning: str) -> list[str]:
    """Lines that make sure of a variable: as it is set, as the export was told, or as the programs
    of the cloud know it."""
    given = job.settings.bucket or None if name == BUCKET else dict(job.settings.given).get(name)
    found = (f"sh {BUCKET_FILE}" if bucket_file(job) else "") if name == BUCKET else found_by(job, name, folder="")
    told = in_quotes(given) if given is not None else f"$({found})" if found else ""
    return [*([f'export {name}="${{{name}:-{told}}}"'] if told else []), f': "${{{name}:?set {name}: {comment(meaning)}}}"']


def azure_rights(job: Job, start: str) -> list[str]:
    """The server, and what its identity may do, which cannot be said before there is one: read the
    vault, work in the bucket, take itself down. Without these rights it costs and does nothing."""
    mine = f"[?tags.\"rightfit-plan\"=='{job.plan_id}'].[identity.principalId, id]"
    assign = 'az role assignment create --assignee-object-id "$who" --assignee-principal-type ServicePrincipal --output none --role'
    grants = [
        f'  {assign} "Key Vault Secrets User" --scope "$vault" || return 1',
        f'  {assign} "Virtual Machine Contributor" --scope "$server" || return 1',
    ]
    before = ['vault="$(az keyvault show --name "$RIGHTFIT_VAULT" --query id --output tsv)"']
    if not job.is_service:
        before.append(
            f'account="$(az storage account show --name "$(printf %s "${BUCKET}" | cut -d / -f 3 | cut -d . -f 1)" --query id --output tsv)"'
        )
        grants.append(f'  {assign} "Storage Blob Data Contributor" --scope "$account" || return 1')
    listed = f'az vm list --resource-group "$RESOURCE_GROUP" --query {shell([mine])} --output tsv'
    return [
        *before,
        "rights() {",
        *grants,
        "}",
        start,
        f"{listed} | while read -r who server; do rights </dev/null || exit 1; done || {{",
        '  echo "could not assign roles to the server (this requires Owner on the resource group, vault and bucket); deleting it" >&2',
        "  sh end.sh",
        "  exit 1",
        "}",
    ]


def handed_over(job: Job) -> list[str]:
    """The first boot with what the server cannot know by itself written before it, packed for the
    clouds that take it as one word, and for those that take 16 kB at most."""
    names = (["RIGHTFIT_VAULT"] if job.option.provider == "azure" else []) + ([] if job.is_service else [BUCKET_VARIABLE[0]])
    said = [f"  printf 'export {name}=%q\\n' \"${name}\"" for name in names]
    said.append(f"  if [ -f {TOKEN_FILE} ]; then echo export {TOKEN}=yes; else echo export {TOKEN}=no; fi")
    said += [] if job.is_service else [f"  printf 'export {RUN}=%q\\n' \"$(cat {RUN_FILE} 2>/dev/null || true)\""]
    lines = ['boot="$(mktemp)"', "{", "  echo '#!/bin/bash'", *said, f"  cat {BOOT}", '} > "$boot"']
    packed = {
        "aws": ['gzip -9 "$boot"'],
        "alicloud": ['packed="$(base64 -w 0 "$boot")"'],
        "tencent": ['packed="$(gzip -9 -c "$boot" | base64 -w 0)"'],
    }
    return [*lines, *packed.get(job.option.provider, ())]


class CommandWord(str):
    """A word in which the shell puts a variable: it stands in double quotes, everything
    else in it is ours."""

    __slots__ = ()


def words(command: Sequence[str]) -> str:
    """The command line, an option a line. Each variable word is put in after quoting, so that
    nothing of the plan is ever expanded."""
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
        *("--user-data", CommandWord("fileb://$boot.gz")),
        *("--metadata-options", "HttpTokens=required"),
        *("--block-device-mappings", json.dumps([{"DeviceName": device, "Ebs": disk}])),
        *("--tag-specifications", json.dumps([{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")])),
    ]


def azure(job: Job) -> list[str]:
    """az vm create."""
    option = job.option
    image = f"{terraform_azure.PUBLISHER}:{terraform_azure.OFFER}:{terraform_azure.image_sku(job)}:latest"
    evicted = "Deallocate" if job.is_service else "Delete"
    return [
        *("az", "vm", "create", "--resource-group", CommandWord("$RESOURCE_GROUP"), "--name", job.name),
        *(("--count", str(job.num_nodes)) if job.num_nodes > 1 else ()),
        *("--location", option.region, "--size", option.instance_type),
        *("--image", image),
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


def _provider_cli_refuses(job: Job) -> Message | str:
    if job.option.provider not in COMMANDS:
        return Message("export.command_line", provider=job.option.provider, known=", ".join(COMMANDS))
    if job.is_service and job.num_nodes > 1:
        return Message("export.needs_balancer", target=f"terraform-{job.option.provider}")
    return problem(job, job.option.provider)


PROVIDER_CLI = Target(
    "provider-cli",
    "launch",
    "one command of the provider's own command line",
    provider_cli_write,
    _provider_cli_refuses,
    checked_by="shellcheck; the real aws (run against a simulated AWS), az and tccli; gcloud too; aliyun by the fields of its SDK",
)


# ---- RunPod: a pod by the seller's own command line. The pod unpacks the job's files, installs
# what its image lacks, copies checkpoints to S3 and back, and takes itself down when the run ends,
# however it ends.

ANY = ("", "any", "global")
KILL_AFTER_S = 300
END = """python3 - <<'EOF'
import json, os, urllib.request
query = 'mutation { podTerminate(input: {podId: "%s"}) }' % os.environ["RUNPOD_POD_ID"]
address = os.environ.get("RIGHTFIT_RUNPOD_API", "https://api.runpod.io/graphql")
# A name of its own: the seller's gate turns Python's away.
headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["RUNPOD_API_KEY"], "User-Agent": "rightfit"}
urllib.request.urlopen(urllib.request.Request(address, json.dumps({"query": query}).encode(), headers), timeout=60).read()
EOF"""
"""Takes the pod down from within, with the key that RunPod gives each pod for itself."""


def image(job: Job, stack: ExportStack) -> str:
    """An image that runs the boot's shell: those that hold the program begin with it instead."""
    return torch_build(job).image if stack.program_inside or stack.image.startswith(IMAGES_WITH_PROGRAM) else stack.image


def boot(job: Job, stack: ExportStack) -> str:
    """What the pod runs."""
    words = launched(stack.command, node_rank="0", num_nodes="1", head_address="127.0.0.1")
    limit = ("timeout", "--signal=TERM", f"--kill-after={KILL_AFTER_S}", str(round(job.stop_after_h * 3600))) if job.stop_after_h else ()
    run = shell((*limit, *words))
    installed = [line for line in stack.setup if line.startswith("pip ")] + ([] if job.is_service else [f"pip install {COPIER}"])
    ended = (
        ""
        if job.is_service
        else f'end() {{\n{END}\n}}\nfinish() {{ for pause in 0 10 60 300; do sleep "$pause"; end && break; done; }}\ntrap finish EXIT\n'
    )
    settings = "".join(f"export {shell([f'{name}={value}'])}\n" for name, value in stack.environment.items())
    return (
        f'#!/bin/bash\n# {comment(job.model)}, plan {job.plan_id}\nset -eo pipefail\nfolder=${{RIGHTFIT_FOLDER:-/job}}\nmkdir -p "$folder" /checkpoints\ncd "$folder"\n'
        + ended
        + packed_files(setup_files(stack))
        + settings
        + "".join(f"{line}\n" for line in installed)
        + (f"exec {run}\n" if job.is_service else f"{copied(job, run)}\n")
    )


def secrets(job: Job, stack: ExportStack) -> tuple[str, ...]:
    """Variables that the pod is given from those of who starts it."""
    kept = () if job.is_service else (*COPIER_SECRETS, *(() if job.settings.bucket else (BUCKET,)))
    return (*stack.secrets, *kept)


def command(job: Job, stack: ExportStack) -> list[str]:
    """Words of runpodctl without those that the shell fills in."""
    option = job.option
    cloud = "COMMUNITY" if option.instance_type.upper().endswith("COMMUNITY") else "SECURE"
    words = ["runpodctl", "pod", "create", "--name", job.name, "--image", image(job, stack), "--cloud-type", cloud]
    words += ["--gpu-id", dstack_name(option), "--gpu-count", str(job.gpus_per_node), "--container-disk-in-gb", str(job.disk_gib)]
    words += ["--ports", f"{stack.port}/http"] if stack.port else []
    words += ["--data-center-ids", option.region] if option.region.casefold() not in ANY else []
    return words


def runpod_write(job: Job) -> Files:
    """launch.sh, and the boot that it hands over."""
    stack = stack_of(job)
    names = secrets(job, stack)
    required = [name for name in names if name != "HF_TOKEN"]
    needs = "".join(f': "${{{name}:?set {name} in the environment}}"\n' for name in required)
    given = f"import json, os; print(json.dumps({{name: os.environ[name] for name in {[*names, *PASSED_ON, *([] if job.is_service else [RUN])]!r} if os.environ.get(name)}}))"
    end = (
        f" \\\n  --terminate-after \"$(date -u -d '+{round(job.stop_after_h * 60) + 60} minutes' +%Y-%m-%dT%H:%M:%SZ)\""
        if job.stop_after_h
        else ""
    )
    # The boot is one word of base64, which no parser of arguments can take apart.
    launch = (
        f"#!/bin/sh\n# {comment(job.model)}, plan {job.plan_id}: {job.gpus_per_node} x {comment(job.accelerator)} on RunPod\nset -eu\n{needs}"
        'cd "$(dirname "$0")"\n'
        + ("" if job.is_service else f'{RUN}="$(cat {RUN_FILE} 2>/dev/null || :)"\nexport {RUN}\n')
        + f"handed=\"bash -c 'echo $(base64 -w 0 boot.sh) | base64 -d | bash'\"\n"
        f'exec {shell(command(job, stack))} \\\n  --env "$(python3 -c {shell([given])})" \\\n  --docker-args "$handed"{end}\n'
    )
    return {"launch.sh": launch, "boot.sh": boot(job, stack), **wait_files(job, runpod_way(job)), "end.sh": end_of_pods(job)}


def _runpod_refuses(job: Job) -> Message | str:
    option = job.option
    if option.provider != RUNPOD_PROVIDER:
        return Message("export.server_of", provider=option.provider)
    if option.started_as != "on-demand":
        return Message("export.rents_on_demand", purchase=option.purchase)
    if job.num_nodes > 1:
        return Message("export.pods_apart")
    if problem := name_problem(option, dstack_name(option), Message("export.runpod_command")):
        return problem
    scheme = job.settings.bucket.partition("://")[0]
    if scheme not in ("", "s3") and not job.is_service:
        return Message("export.copies_to_s3", scheme=scheme)
    if problem := spans_servers(job) or stack_problem(job) or torch_problem(job):
        return problem
    if not any(line.startswith("pip ") for line in stack_of(job).setup):  # the boot needs a shell, and the program is had as an image alone
        return Message("export.image_alone", engine=option.layout.engine)
    if job.is_service and not key_of(stack_of(job)):
        return Message("export.runpod_port", engine=option.layout.engine)
    return ""


RUNPOD = Target(
    "runpod",
    "launch",
    "RunPod pod by its own command line, which ends itself",
    runpod_write,
    _runpod_refuses,
    checked_by="the options of runpodctl's source, stored; the boot is run with stand-ins for pip, aws and the seller's interface",
    run="sh launch.sh",
)
