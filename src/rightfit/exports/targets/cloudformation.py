"""CloudFormation: the same parts as Terraform for AWS, as one template that AWS itself reads."""

from __future__ import annotations

from typing import Any

from rightfit.exports.bare_server import HALF_SENT_DAYS, OVERWRITTEN_DAYS, first_boot, own_bucket, problem
from rightfit.exports.buckets import BUCKET, bucket_file
from rightfit.exports.job import Job
from rightfit.exports.quoting import given, shell, to_yaml
from rightfit.exports.registry import Files, Target
from rightfit.exports.stack import stack_of
from rightfit.exports.targets.terraform_aws import ARM_FAMILIES, TLS_POLICY, ground
from rightfit.exports.waiting import RUN, RUN_FILE, TOKEN, TOKEN_FILE, cloudformation_way, wait_files
from rightfit.messages import Message

IMAGES = {
    (True, "x86_64"): "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id",
    (True, "arm64"): "/aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id",
    (False, "x86_64"): "/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id",
    (False, "arm64"): "/aws/service/ecs/optimized-ami/amazon-linux-2023/arm64/recommended/image_id",
}
"""(with accelerators, processor) -> public parameter that holds the newest image with Docker (and
driver). From memory: the user can give another."""
Resource = dict[str, Any]


def write(job: Job) -> Files:
    """One template."""
    return {"template.yaml": to_yaml(template(job)), **wait_files(job, cloudformation_way(job, deploy_words(job))), **bucket_file(job)}


def deploy_words(job: Job) -> str:
    """The line that makes the stack, or changes what is another in it: a new run's server."""
    stack = f"--stack-name {job.name} --region {shell([job.option.region])}"
    told = {"Token": f'"$([ -f {TOKEN_FILE} ] && echo yes || echo no)"'}
    if not job.is_service:
        kept = shell([own_bucket(job)]) if job.settings.bucket else f'"${{{BUCKET}#*://}}"'
        told = {"Bucket": kept, "Run": f'"$(cat {RUN_FILE})"', **told}
    words = " ".join(f"{name}={value}" for name, value in told.items())
    return f"aws cloudformation deploy {stack} --template-file template.yaml --capabilities CAPABILITY_IAM --parameter-overrides {words}"


def template(job: Job) -> dict[str, Any]:
    """Parameters, conditions, resources and outputs."""
    further = balancer(job) if job.is_service else bucket(job)
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"{job.name}: plan {job.plan_id}",
        "Parameters": parameters(job),
        "Conditions": conditions(job),
        "Resources": {**network(job), **access(job), **servers(job), **further},
        "Outputs": outputs(job),
    }


def parameters(job: Job) -> dict[str, Any]:
    """What the user may change."""
    arch = "arm64" if job.option.instance_type.startswith(ARM_FAMILIES) else "x86_64"
    not_everything = {
        "AllowedPattern": r"^$|^[0-9.]+/([1-9]|[12][0-9]|3[0-2])$",
        "ConstraintDescription": "a range such as 203.0.113.7/32, not everything",
    }
    found: dict[str, Any] = {
        "Image": {"Type": "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>", "Default": IMAGES[job.gpus_per_node > 0, arch]},
        "SshCidr": {
            "Type": "String",
            "Default": job.settings.ssh_cidr,
            "Description": "Who may reach the server by SSH; empty opens nothing.",
            **not_everything,
        },
        "KeyName": {"Type": "String", "Default": "", "Description": "Name of an SSH key pair of yours; empty for none."},
    }
    found["Token"] = {
        "Type": "String",
        "Default": "no",
        "AllowedValues": ["yes", "no"],
        "Description": "Whether the optional token was stored.",
    }
    if job.is_service:
        clients = {"Type": "String", "Default": "", "Description": "Who may reach the balancer; empty opens nothing.", **not_everything}
        tls = "Certificate of yours (ACM), by which clients come over HTTPS; empty serves plain HTTP."
        return {**found, "ClientCidr": clients, "CertificateArn": {"Type": "String", "Default": "", "Description": tls}}
    about = "Bucket (and path) of yours for checkpoints; empty makes one."
    run = {"Type": "String", "Default": "", "Description": "Id of the run; another one gets another server."}
    return {**found, "Bucket": {"Type": "String", "Default": own_bucket(job), "Description": about}, "Run": run}


def conditions(job: Job) -> dict[str, Any]:
    """What was given."""
    names = {"HasSsh": "SshCidr", "HasKey": "KeyName"}
    names |= {"HasClients": "ClientCidr", "HasCertificate": "CertificateArn"} if job.is_service else {"HasBucket": "Bucket"}
    found: dict[str, Any] = {name: {"Fn::Not": [{"Fn::Equals": [{"Ref": parameter}, ""]}]} for name, parameter in names.items()}
    return found if job.is_service else {**found, "MakesBucket": {"Fn::Not": [{"Condition": "HasBucket"}]}}


def outputs(job: Job) -> dict[str, Any]:
    """Where the servers and the service are."""
    found: dict[str, Any] = {f"Server{number}": {"Value": {"Ref": f"Server{number}"}} for number in range(job.num_nodes)}
    return {**found, "ServiceAddress": {"Value": {"Fn::GetAtt": ["Balancer", "DNSName"]}}} if job.is_service else found


def tags(job: Job) -> list[dict[str, str]]:
    """Who made it, from which plan."""
    return [{"Key": key, "Value": value} for key, value in {"Name": job.name, **job.labels}.items()]


def resource(kind: str, *, condition: str | None = None, after: str | None = None, **properties: Any) -> Resource:
    """One resource."""
    return given(Type=kind, Condition=condition, DependsOn=after, Properties=properties or None)


def ref(name: str) -> dict[str, str]:
    """A resource or parameter of the template."""
    return {"Ref": name}


def network(job: Job) -> dict[str, Resource]:
    """A network with two parts in two zones, and a way out."""
    parts = {}
    for number in (0, 1):
        zone = {"Fn::Select": [number, {"Fn::GetAZs": ""}]}
        parts[f"Part{number}"] = resource(
            "AWS::EC2::Subnet",
            VpcId=ref("Net"),
            CidrBlock=f"10.60.{number}.0/24",
            AvailabilityZone=zone,
            MapPublicIpOnLaunch=True,
            Tags=tags(job),
        )
        parts[f"PartOut{number}"] = resource(
            "AWS::EC2::SubnetRouteTableAssociation", SubnetId=ref(f"Part{number}"), RouteTableId=ref("OutTable")
        )
    return {
        "Net": resource("AWS::EC2::VPC", CidrBlock="10.60.0.0/16", EnableDnsHostnames=True, Tags=tags(job)),
        "Gateway": resource("AWS::EC2::InternetGateway", Tags=tags(job)),
        "GatewayOfNet": resource("AWS::EC2::VPCGatewayAttachment", VpcId=ref("Net"), InternetGatewayId=ref("Gateway")),
        "OutTable": resource("AWS::EC2::RouteTable", VpcId=ref("Net"), Tags=tags(job)),
        # Outgoing: images and weights are fetched; nothing comes in by this.
        "Out": resource(
            "AWS::EC2::Route",
            after="GatewayOfNet",
            RouteTableId=ref("OutTable"),
            DestinationCidrBlock="0.0.0.0/0",
            GatewayId=ref("Gateway"),
        ),
        **parts,
    }


def access(job: Job) -> dict[str, Resource]:
    """Who comes in, and what the server's role may do."""
    ssh = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": ref("SshCidr"), "Description": "SSH"}
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}
    secrets = {
        "Effect": "Allow",
        "Action": ["ssm:GetParameter"],
        "Resource": {"Fn::Sub": "arn:${AWS::Partition}:ssm:*:*:parameter/rightfit/*"},
    }
    return {
        "ServerGroup": resource(
            "AWS::EC2::SecurityGroup",
            GroupDescription="SSH from one range only",
            VpcId=ref("Net"),
            SecurityGroupIngress={"Fn::If": ["HasSsh", [ssh], ref("AWS::NoValue")]},
            Tags=tags(job),
        ),
        "ServerRole": resource(
            "AWS::IAM::Role",
            AssumeRolePolicyDocument={"Version": "2012-10-17", "Statement": [trust]},
            Policies=[{"PolicyName": "read-secrets", "PolicyDocument": {"Version": "2012-10-17", "Statement": [secrets]}}],
            Tags=tags(job),
        ),
        "ServerProfile": resource("AWS::IAM::InstanceProfile", Roles=[ref("ServerRole")]),
    }


def servers(job: Job) -> dict[str, Resource]:
    """The servers, all from one launch template, which says whether they are spot."""
    script = first_boot(job, ground(job))
    told: list[Any] = [f"#!/bin/bash\nexport {TOKEN}='", ref("Token"), "'\n"]
    if not job.is_service:
        told += [f"export {BUCKET}='", bucket_name(), f"'\nexport {RUN}='", ref("Run"), "'\n"]
    data: Any = {"Fn::Base64": {"Fn::Join": ["", [*told, script]]}}
    spot = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}}
    disk = {"VolumeType": "gp3", "VolumeSize": job.disk_gib, "Encrypted": True, "DeleteOnTermination": True}
    body = given(
        ImageId=ref("Image"),
        InstanceType=job.option.instance_type,
        IamInstanceProfile={"Arn": {"Fn::GetAtt": ["ServerProfile", "Arn"]}},
        KeyName={"Fn::If": ["HasKey", ref("KeyName"), ref("AWS::NoValue")]},
        SecurityGroupIds=[{"Fn::GetAtt": ["ServerGroup", "GroupId"]}],
        InstanceInitiatedShutdownBehavior="terminate",
        InstanceMarketOptions=spot if job.is_spot else None,
        MetadataOptions={"HttpTokens": "required"},
        BlockDeviceMappings=[{"DeviceName": "/dev/sda1" if job.gpus_per_node else "/dev/xvda", "Ebs": disk}],
        UserData=data,
        TagSpecifications=[{"ResourceType": kind, "Tags": tags(job)} for kind in ("instance", "volume")],
    )
    found = {"ServerTemplate": resource("AWS::EC2::LaunchTemplate", LaunchTemplateData=body)}
    used = {"LaunchTemplateId": ref("ServerTemplate"), "Version": {"Fn::GetAtt": ["ServerTemplate", "LatestVersionNumber"]}}
    for number in range(job.num_nodes):
        what: dict[str, Any] = {"ImageId": ref("Image"), "InstanceType": job.option.instance_type, "LaunchTemplate": used}
        found[f"Server{number}"] = resource("AWS::EC2::Instance", after="Out", SubnetId=ref("Part0"), Tags=tags(job), **what)
    return found


def bucket_name() -> dict[str, Any]:
    """The user's bucket, or the one that is made."""
    return {"Fn::If": ["HasBucket", ref("Bucket"), ref("Checkpoints")]}


def bucket(job: Job) -> dict[str, Resource]:
    """Where checkpoints go; a bucket that is made stays when the stack is deleted."""
    closed = dict.fromkeys(("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"), True)
    whole = {"Fn::Select": [0, {"Fn::Split": ["/", bucket_name()]}]}
    arn = "arn:${AWS::Partition}:s3:::"
    statements = [
        {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": {"Fn::Sub": [arn + "${Name}", {"Name": whole}]}},
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:PutObject"],
            "Resource": {"Fn::Sub": [arn + "${Name}/*", {"Name": bucket_name()}]},
        },
    ]
    overwritten = {
        "Id": "overwritten",
        "Status": "Enabled",
        "NoncurrentVersionExpiration": {"NoncurrentDays": OVERWRITTEN_DAYS},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": HALF_SENT_DAYS},
    }
    kept = resource(
        "AWS::S3::Bucket",
        condition="MakesBucket",
        PublicAccessBlockConfiguration=closed,
        VersioningConfiguration={"Status": "Enabled"},
        LifecycleConfiguration={"Rules": [overwritten]},
        Tags=tags(job),
    )
    return {
        "Checkpoints": {**kept, "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"},
        "CheckpointsAccess": resource(
            "AWS::IAM::RolePolicy",
            RoleName=ref("ServerRole"),
            PolicyName="keep-checkpoints",
            PolicyDocument={"Version": "2012-10-17", "Statement": statements},
        ),
    }


def with_certificate(there: Any, missing: Any) -> dict[str, Any]:
    """One thing where the user gave a certificate, another where not."""
    return {"Fn::If": ["HasCertificate", there, missing]}


def balancer(job: Job) -> dict[str, Resource]:
    """The port of the service, open to the balancer alone, and the balancer to
    one range of clients."""
    stack = stack_of(job)
    port = with_certificate(443, 80)
    clients = {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "CidrIp": ref("ClientCidr"), "Description": "Clients"}
    group_id = {"Fn::GetAtt": ["BalancerGroup", "GroupId"]}
    return {
        "BalancerGroup": resource(
            "AWS::EC2::SecurityGroup",
            GroupDescription="Clients of one range only",
            VpcId=ref("Net"),
            SecurityGroupIngress={"Fn::If": ["HasClients", [clients], ref("AWS::NoValue")]},
            Tags=tags(job),
        ),
        "ServicePort": resource(
            "AWS::EC2::SecurityGroupIngress",
            GroupId={"Fn::GetAtt": ["ServerGroup", "GroupId"]},
            IpProtocol="tcp",
            FromPort=stack.port,
            ToPort=stack.port,
            SourceSecurityGroupId=group_id,
            Description="Requests by the balancer",
        ),
        "Balancer": resource(
            "AWS::ElasticLoadBalancingV2::LoadBalancer",
            after="Out",
            Type="application",
            Scheme={"Fn::If": ["HasClients", "internet-facing", "internal"]},
            SecurityGroups=[group_id],
            Subnets=[ref("Part0"), ref("Part1")],
            LoadBalancerAttributes=[{"Key": "routing.http.drop_invalid_header_fields.enabled", "Value": "true"}],
            Tags=tags(job),
        ),
        "ServiceTargets": resource(
            "AWS::ElasticLoadBalancingV2::TargetGroup",
            Port=stack.port,
            Protocol="HTTP",
            VpcId=ref("Net"),
            HealthCheckPath=stack.health_path,
            Targets=[{"Id": ref(f"Server{number}")} for number in range(job.num_nodes)],
            Tags=tags(job),
        ),
        "Listener": resource(
            "AWS::ElasticLoadBalancingV2::Listener",
            LoadBalancerArn=ref("Balancer"),
            Port=port,
            Protocol=with_certificate("HTTPS", "HTTP"),
            Certificates=with_certificate([{"CertificateArn": ref("CertificateArn")}], ref("AWS::NoValue")),
            SslPolicy=with_certificate(TLS_POLICY, ref("AWS::NoValue")),
            DefaultActions=[{"Type": "forward", "TargetGroupArn": ref("ServiceTargets")}],
        ),
    }


LONGEST_BOOT, TOLD = 16_384, 400
"""Bytes of user data that AWS takes; a template cannot pack them. TOLD: of the words before it."""


def _refuses(job: Job) -> Message | str:
    if found := problem(job, "aws"):
        return found
    count = len(first_boot(job, ground(job)).encode()) + TOLD
    return Message("export.first_boot_too_long", most=LONGEST_BOOT, count=count) if count > LONGEST_BOOT else ""


TARGET = Target(
    "cloudformation",
    "launch",
    "CloudFormation template for AWS",
    write,
    _refuses,
    checked_by="cfn-lint, and a stack made in a simulated AWS",
)
