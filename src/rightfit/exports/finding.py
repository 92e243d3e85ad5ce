"""What a way of starting asks for and the programs of the cloud know, or make where there is none
and it costs nothing: keys, project, zone, network, group, role."""

from __future__ import annotations

import json

from rightfit.exports.bare_server import OPTIONAL_SECRETS
from rightfit.exports.buckets import BUCKET
from rightfit.exports.job import Job
from rightfit.exports.quoting import shell
from rightfit.exports.stack import stack_of
from rightfit.exports.targets import terraform_azure, terraform_gcp
from rightfit.exports.targets.terraform_tencent import STORE_ACTIONS
from rightfit.exports.waiting import TOKEN_FILE


def found_by(job: Job, name: str, *, folder: str = "provider-cli/") -> str:
    """Shell words that print what a variable of a recipe's needs holds, where it is not set; "" for
    what only the user knows. `folder`: where find.sh lies."""
    if name in _BY_SCRIPT.get(job.option.provider, _nothing)(job):
        return f"sh {folder}{FIND_FILE} {name}"
    return _BY_WORDS.get(job.option.provider, _nothing)(job).get(name) or _ANYWHERE.get(name, "")


def _nothing(_job: Job) -> dict[str, str]:
    return {}


_ANYWHERE = {
    "AWS_ACCESS_KEY_ID": "aws configure get aws_access_key_id",
    "AWS_SECRET_ACCESS_KEY": "aws configure get aws_secret_access_key",
    "TF_VAR_ssh_public_key": "cat ~/.ssh/id_ed25519.pub ~/.ssh/id_rsa.pub | head -n 1",
    "TF_VAR_client_cidr": "curl -fsS --max-time 10 https://checkip.amazonaws.com | sed 's,$,/32,'",
    "SSH_PUBLIC_KEY": "cat ~/.ssh/id_ed25519.pub ~/.ssh/id_rsa.pub | head -n 1",
}


def _google(job: Job) -> dict[str, str]:
    server = shell([f"name={job.option.instance_type} AND zone~^{job.option.region}-"])
    return {
        "TF_VAR_project": "gcloud config get-value project",
        "PROJECT": "gcloud config get-value project",
        "ZONE": f"gcloud compute machine-types list --filter {server} --limit 1 --format 'value(zone)'",
        "SUBNET": "printf default",
        "SERVICE_ACCOUNT": "gcloud iam service-accounts list --filter 'email~-compute@developer' --limit 1 --format 'value(email)'",
    }


def _azure(job: Job) -> dict[str, str]:
    """Azure has no default network: one of ours, with a group that lets nobody in. Made again they
    stay as they are, and cost nothing."""
    region, name = shell([job.option.region]), shell([f"rightfit-{job.option.region}"])
    group = f"az group create --name rightfit --location {region} --query name --output tsv"
    made = f'az network {{}} create --resource-group "$RESOURCE_GROUP" --name {name} --location {region}'
    ranges = "--address-prefixes 10.60.0.0/16 --subnet-name part --subnet-prefixes 10.60.0.0/24"
    return {
        # a pipe would hide that nobody is logged in, and name everybody's vault alike
        "RIGHTFIT_VAULT": (
            'account="$(az account show --query id --output tsv)" && [ "$account" ] && '
            "printf '%s\\n' \"$account\" | sha256sum | sed 's/^/rightfit-/' | cut -c 1-21"
        ),
        "RIGHTFIT_VAULT_GROUP": group,
        "RESOURCE_GROUP": group,
        "SUBNET_ID": f"{made.format('vnet')} {ranges} --query 'newVNet.subnets[0].id' --output tsv",
        "NSG": f"{made.format('nsg')} --query NewNSG.id --output tsv",
    }


_BY_WORDS = {"gcp": _google, "azure": _azure}

# ---- What takes more than a line, in a script of its own beside launch.sh.

FIND_FILE = "find.sh"
FIND_SCRIPT = """#!/bin/sh
# Prints what %(cloud)s knows of a variable that launch.sh asks for: sh find.sh NAME
set -eu
region=%(region)s server=%(server)s
said() { # PATH of the answer; with KEY, that of every row there [whose NAME is one of VALUES]
  python3 -c '
import json, sys
place, *rows = sys.argv[1:]
found = json.load(sys.stdin)
for part in place.split("."):
    found = found[part]
if rows:
    key, *wanted = rows
    found = [row[key] for row in found if not wanted or row[wanted[0]] in wanted[1].split()]
    if not found:
        sys.exit("none is there")
    found = " ".join(found)
print(found)' "$@"
}
case "${1:-}" in
%(cases)s*)
  echo "nothing is known here of ${1:-}" >&2
  exit 2
  ;;
esac
echo "${found%%%% *}"
"""


def find_file(job: Job) -> dict[str, str]:
    """find.sh; empty for clouds whose programs say it in a line."""
    cases = _BY_SCRIPT.get(job.option.provider, _nothing)(job)
    if not cases:
        return {}
    lines = "".join(f"{name})\n{_indented(body)}  ;;\n" for name, body in cases.items())
    words = {"region": shell([job.option.region]), "server": shell([job.option.instance_type]), "cloud": job.option.provider}
    return {FIND_FILE: FIND_SCRIPT % {**words, "cases": lines}}


def _indented(body: str) -> str:
    return "".join(f"  {line}\n" for line in body.splitlines())


def _amazon(_job: Job) -> dict[str, str]:
    """The default network of the region, a part of it in a zone that has the server, and its group,
    which lets nobody in."""
    network = """network=$(aws ec2 describe-vpcs --region "$region" --filters Name=is-default,Values=true --query 'Vpcs[:1].VpcId' --output text)
"""
    part = """offered=$(aws ec2 describe-instance-type-offerings --region "$region" --location-type availability-zone \\
  --filters "Name=instance-type,Values=$server" --query 'InstanceTypeOfferings[].Location' --output text)
zones=$(printf %s "$offered" | tr -s '[:space:]' ,)
found=$(aws ec2 describe-subnets --region "$region" --query 'Subnets[:1].SubnetId' --output text \\
  --filters "Name=vpc-id,Values=$network" Name=default-for-az,Values=true "Name=availability-zone,Values=$zones")
"""
    group = """found=$(aws ec2 describe-security-groups --region "$region" --query 'SecurityGroups[:1].GroupId' --output text \\
  --filters "Name=vpc-id,Values=$network" Name=group-name,Values=default)
"""
    return {"SUBNET_ID": network + part, "SECURITY_GROUP_ID": network + group}


def _alibaba(job: Job) -> dict[str, str]:
    """A vSwitch of the default network in a zone that has the server; in its network a group, made
    where there is none, that lets nobody in."""
    spot = " --SpotStrategy SpotAsPriceGo" if job.is_spot else ""
    switch = f"""zones=$(aliyun ecs DescribeAvailableResource --RegionId "$region" --DestinationResource InstanceType --InstanceType "$server"{spot} |
  said AvailableZones.AvailableZone ZoneId Status Available)
found=$(aliyun vpc DescribeVSwitches --RegionId "$region" --IsDefault true --PageSize 50 | said VSwitches.VSwitch VSwitchId ZoneId "$zones")
"""
    group = """network=$(aliyun vpc DescribeVSwitchAttributes --RegionId "$region" --VSwitchId "${VSWITCH_ID:?}" | said VpcId)
found=$(aliyun ecs DescribeSecurityGroups --RegionId "$region" --VpcId "$network" --SecurityGroupName rightfit |
  said SecurityGroups.SecurityGroup SecurityGroupId SecurityGroupName rightfit 2>/dev/null) ||
  found=$(aliyun ecs CreateSecurityGroup --RegionId "$region" --VpcId "$network" --SecurityGroupName rightfit | said SecurityGroupId)
"""
    return {"VSWITCH_ID": switch, "SECURITY_GROUP_ID": group}


def _tencent(job: Job) -> dict[str, str]:
    """A zone that sells the server, the default network and its part there; a group, made where
    there is none, that lets nobody in."""
    charge = "SPOTPAID" if job.is_spot else "POSTPAID_BY_HOUR"

    def listed(action: str, said: str, **by: str) -> str:
        filters = [{"Name": name.replace("_", "-"), "Values": [value]} for name, value in by.items()]
        return f"""found=$(tccli {action} --region "$region" --Filters {in_double_quotes(json.dumps(filters))} |
  said {said})"""

    out = shell([json.dumps({"Egress": [{"Protocol": "ALL", "CidrBlock": "0.0.0.0/0", "Action": "ACCEPT"}]})])
    sold = listed(
        "cvm DescribeZoneInstanceConfigInfos", "InstanceTypeQuotaSet Zone Status SELL", instance_type="$server", instance_charge_type=charge
    )
    group = listed(
        "vpc DescribeSecurityGroups",
        "SecurityGroupSet SecurityGroupId SecurityGroupName rightfit 2>/dev/null",
        security_group_name="rightfit",
    )
    made = f"""found=$(tccli vpc CreateSecurityGroupWithPolicies --region "$region" --GroupName rightfit --GroupDescription rightfit \\
    --SecurityGroupPolicySet {out} | said SecurityGroup.SecurityGroupId)"""
    return {
        "ZONE": sold,
        "VPC_ID": listed("vpc DescribeVpcs", "VpcSet VpcId", is_default="true"),
        "SUBNET_ID": listed("vpc DescribeSubnets", "SubnetSet SubnetId", vpc_id="${VPC_ID:?}", zone="${ZONE:?}"),
        "SECURITY_GROUP_ID": f"{group} ||\n  {made}",
    }


_BY_SCRIPT = {"aws": _amazon, "alicloud": _alibaba, "tencent": _tencent}


def in_double_quotes(text: str) -> str:
    """A shell word in which variables are put in and nothing else is read."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# ---- The role of a server that a provider's own command line rents: what Terraform makes, by the
# same rights.

ROLE_FILE = "role.sh"
ROLES = {"aws": "INSTANCE_PROFILE", "alicloud": "RAM_ROLE", "tencent": "CAM_ROLE"}
"""Provider -> the variable that names a role of one's own, in the place of the one that is made."""

ROLE_SCRIPT = r"""#!/bin/sh
# The role of the servers of plan %(plan)s, made where there is none: it reads the secrets of rightfit, works in the bucket, and ends such a
# server. Prints its name. It costs nothing and stays.
set -eu
bucket="${%(variable)s:-}"
bucket="${bucket#*://}"
bucket="${bucket%%/}"
%(whole)sname=%(name)s-$(printf %%s "$bucket" | cksum | cut -d ' ' -f 1)
policy=%(policy)s
%(make)s
%(there)s >/dev/null || { echo "the role $name could not be made: give one of your own, export %(role)s=..." >&2; exit 1; }
echo "$name"
"""


def role_script(job: Job) -> str:
    """The script that makes the role and prints its name; for the bucket that the environment
    names."""
    provider = job.option.provider
    trust, policy, make, there = _ROLES[provider](job)
    words = {"policy": in_double_quotes(json.dumps(policy)), "make": make.replace("TRUST", shell([json.dumps(trust)])), "there": there}
    named = any("$whole" in text for text in words.values())  # the bucket without a path in it
    return ROLE_SCRIPT % {
        **words,
        "whole": 'whole="${bucket%%/*}"\n' if named else "",
        "plan": job.plan_id,
        "name": f"{job.name}-{job.plan_id}",
        "variable": BUCKET,
        "role": ROLES[provider],
    }


def _statement(actions: list[str], resources: list[str], **more: object) -> dict[str, object]:
    return {"Effect": "Allow", "Action": actions, "Resource": resources, **more}


def _amazon_role(job: Job) -> tuple[object, object, str, str]:
    trust = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}],
    }
    statements = [_statement(["ssm:GetParameter"], ["arn:aws:ssm:*:*:parameter/rightfit/*"])]
    if not job.is_service:
        statements.append(_statement(["s3:ListBucket"], ["arn:aws:s3:::$whole"]))
        statements.append(_statement(["s3:GetObject", "s3:PutObject"], ["arn:aws:s3:::$bucket/*"]))
    iam = f"aws iam --region {shell([job.option.region])}"
    there = f'{iam} get-instance-profile --instance-profile-name "$name"'
    make = f"""{iam} get-role --role-name "$name" >/dev/null 2>&1 || {iam} create-role --role-name "$name" --assume-role-policy-document TRUST >&2
{iam} put-role-policy --role-name "$name" --policy-name server --policy-document "$policy" >&2
{there} >/dev/null 2>&1 || {{
  {iam} create-instance-profile --instance-profile-name "$name" >&2
  {iam} add-role-to-instance-profile --instance-profile-name "$name" --role-name "$name" >&2
  sleep 15 # until servers may be given it
}}"""
    return trust, {"Version": "2012-10-17", "Statement": statements}, make, there


def _alibaba_role(job: Job) -> tuple[object, object, str, str]:
    trust = {
        "Version": "1",
        "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": ["ecs.aliyuncs.com"]}}],
    }
    own = {"StringEquals": {"acs:ResourceTag/rightfit-plan": [job.plan_id]}}
    statements = [
        _statement(["kms:GetSecretValue"], ["acs:kms:*:*:secret/rightfit/*"]),
        _statement(["ecs:DeleteInstance"], ["*"], Condition=own),
    ]
    if not job.is_service:
        actions = ["oss:ListObjects", "oss:GetObject", "oss:PutObject"]
        statements.append(_statement(actions, ["acs:oss:*:*:$whole", "acs:oss:*:*:$bucket/*"]))
    make = """aliyun ram GetRole --RoleName "$name" >/dev/null 2>&1 || aliyun ram CreateRole --RoleName "$name" --AssumeRolePolicyDocument TRUST >&2
aliyun ram GetPolicy --PolicyType Custom --PolicyName "$name" >/dev/null 2>&1 || aliyun ram CreatePolicy --PolicyName "$name" --PolicyDocument "$policy" >&2
aliyun ram AttachPolicyToRole --PolicyType Custom --PolicyName "$name" --RoleName "$name" >/dev/null 2>&1 || : # it is attached already"""
    return trust, {"Version": "1", "Statement": statements}, make, 'aliyun ram ListPoliciesForRole --RoleName "$name" | grep "\\"$name\\""'


def _tencent_role(job: Job) -> tuple[object, object, str, str]:
    def allowed(actions: list[str], resources: list[str], **more: object) -> dict[str, object]:
        return {"effect": "allow", "action": actions, "resource": resources, **more}

    service = {"service": ["cvm.qcloud.com"]}
    trust = {"version": "2.0", "statement": [{"effect": "allow", "action": ["name/sts:AssumeRole"], "principal": service}]}
    own = {"for_any_value:string_equal": {"qcs:resource_tag": [f"rightfit-plan&{job.plan_id}"]}}
    statements = [
        allowed(["ssm:GetSecretValue"], ["qcs::ssm:::secret/creatorUin/*/rightfit-*"]),
        allowed(["cvm:TerminateInstances"], ["*"], condition=own),
    ]
    if not job.is_service:
        statements.append(allowed(list(STORE_ACTIONS), [f"qcs::cos:{job.option.region}:*:$whole/*"]))
    region = f"--region {shell([job.option.region])}"
    make = f"""tccli cam GetRole {region} --RoleName "$name" >/dev/null 2>&1 || tccli cam CreateRole {region} --RoleName "$name" --PolicyDocument TRUST >&2
tccli cam CreatePolicy {region} --PolicyName "$name" --PolicyDocument "$policy" >/dev/null 2>&1 || : # it is there already
tccli cam AttachRolePolicy {region} --PolicyName "$name" --AttachRoleName "$name" >/dev/null 2>&1 || :"""
    there = f'tccli cam ListAttachedRolePolicies {region} --RoleName "$name" --Page 1 --Rp 20 | grep "\\"$name\\""'
    return trust, {"version": "2.0", "statement": statements}, make, there


_ROLES = {"aws": _amazon_role, "alicloud": _alibaba_role, "tencent": _tencent_role}


# ---- Secrets to the cloud's own store, where the role of a bare server reads them.


def store_secret(job: Job, name: str) -> str:
    """A line that puts a secret of the environment where the server's role may read it. The value
    comes by the standard input where the program takes it."""
    provider, region = job.option.provider, shell([job.option.region])
    value = f'printf %s "${{{name}}}"'
    if provider == "aws":
        return f"{value} | aws ssm put-parameter --region {region} --name /rightfit/{name} --type SecureString --overwrite --value file:///dev/stdin"
    if provider == "gcp":
        found = terraform_gcp.secret_id(name)
        return (
            f"gcloud secrets describe {found} >/dev/null 2>&1 || gcloud secrets create {found} --replication-policy automatic; "
            f"{value} | gcloud secrets versions add {found} --data-file=-"
        )
    if provider == "azure":
        return f'{value} | az keyvault secret set --vault-name "$RIGHTFIT_VAULT" --name {terraform_azure.vault_name(name)} --file /dev/stdin --output none'
    if provider == "alicloud":
        return (
            f'aliyun kms CreateSecret --RegionId {region} --SecretName rightfit/{name} --VersionId v1 --SecretData "${{{name}}}" || '
            f'aliyun kms PutSecretValue --RegionId {region} --SecretName rightfit/{name} --VersionId "$(date +%s)" --SecretData "${{{name}}}"'
        )
    return (
        f'tccli ssm CreateSecret --region {region} --SecretName rightfit-{name} --VersionId current --SecretString "${{{name}}}" || '
        f'tccli ssm UpdateSecret --region {region} --SecretName rightfit-{name} --VersionId current --SecretString "${{{name}}}"'
    )


CLOUD_CLIENTS = {
    "aws": ("aws", "pip install awscli"),
    "azure": ("az", "pip install azure-cli"),
    "gcp": ("gcloud", "https://cloud.google.com/sdk/docs/install"),
    "alicloud": ("aliyun", "https://github.com/aliyun/aliyun-cli"),
    "tencent": ("tccli", "pip install tccli"),
}


def stored(job: Job) -> tuple[str, ...]:
    """Every secret of the stack to its store; the optional ones only where they are set."""
    found = []
    if job.option.provider == "azure":
        found.append(
            f'az keyvault show --name "$RIGHTFIT_VAULT" --output none 2>/dev/null || az keyvault create --name "$RIGHTFIT_VAULT" '
            f'--resource-group "$RIGHTFIT_VAULT_GROUP" --location {shell([job.option.region])} --enable-rbac-authorization true --output none'
        )
    for name in stack_of(job).secrets:
        line = store_secret(job, name)
        optional = f'if [ -n "${{{name}}}" ]; then {line} && touch {TOKEN_FILE}; else rm -f {TOKEN_FILE}; fi'
        found.append(optional if name in OPTIONAL_SECRETS else line)
    return tuple(found)


def vault_needs(job: Job) -> tuple[tuple[str, str], ...]:
    """Azure's key vault, which holds the secrets."""
    if job.option.provider != "azure":
        return ()
    return (
        ("RIGHTFIT_VAULT", "name of a key vault of yours, which is made where there is none"),
        ("RIGHTFIT_VAULT_GROUP", "the resource group for it"),
    )
