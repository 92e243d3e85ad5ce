"""Terraform for Tencent Cloud: network, server (or spot), disk, bucket, secrets by reference,
balancer before a service, and an end by itself."""

from __future__ import annotations

import json

from rightfit.exports.bare_server import (
    HALF_SENT_DAYS,
    MONTH,
    OVERWRITTEN_DAYS,
    Ground,
    bucket_output,
    first_boot,
    in_bucket,
    problem,
    replaced,
    run_words,
    user_data,
    variable,
)
from rightfit.exports.bare_server import variables as common_variables
from rightfit.exports.job import Job
from rightfit.exports.quoting import hcl, shell
from rightfit.exports.registry import Files, Target
from rightfit.exports.stack import stack_of
from rightfit.exports.waiting import terraform_way, wait_files

PROVIDER_VERSION = "~> 1.82"
CLIENT = "tccli==3.1.189.1"
METADATA = "http://metadata.tencentyun.com/latest/meta-data"
ROLE = f'"$(curl -sf {METADATA}/cam/security-credentials/)"'
"""Shell word: the role that the server was given, whatever it is called."""
PREPAID = """
  instance_charge_type_prepaid_period     = 1
  instance_charge_type_prepaid_renew_flag = "NOTIFY_AND_MANUAL_RENEW"
"""  # a month, renewed by hand
STORE_ACTIONS = tuple(
    f"cos:{name}"
    for name in ("GetBucket", "HeadObject", "GetObject", "PutObject", "InitiateMultipartUpload", "UploadPart", "CompleteMultipartUpload")
)
"""What a server does with its bucket."""
MOST_BUCKET_NAME = 49  # characters before the account's number


def write(job: Job) -> Files:
    """main.tf, variables.tf, outputs.tf and the first boot's script."""
    return {
        "main.tf": main(job),
        "variables.tf": variables(job),
        "outputs.tf": outputs(job),
        "first-boot.sh": boot(job),
        **wait_files(job, terraform_way(job)),
    }


def own_words(job: Job) -> list[str]:
    """Options of tccli by which a server acts as its own role."""
    return ["--use-cvm-role", "--region", job.option.region]


def boot(job: Job) -> str:
    """Secrets come from the secrets manager and checkpoints go to the bucket, both by the server's
    own role; at its end the server returns itself."""
    region = job.option.region
    take = " | python3 -c 'import json, sys; print(json.load(sys.stdin)[\"SecretString\"])'"

    def field(name: str) -> str:
        return f'"$(printf %s "$role" | python3 -c \'import json, sys; print(json.load(sys.stdin)["{name}"])\')"'

    return first_boot(
        job,
        Ground(
            secret=lambda name: (
                shell(["tccli", "ssm", "GetSecretValue", "--SecretName", f"rightfit-{name}", "--VersionId", "current", *own_words(job)])
                + take
            ),
            end=f'{shell(["tccli", "cvm", "TerminateInstances", *own_words(job)])} --InstanceIds "[\\"$(curl -sf {METADATA}/instance-id)\\"]"',
            before=(f"pip3 install {CLIENT}",),
            store=in_bucket(f":s3,provider=TencentCOS,no_check_bucket=true,endpoint=cos.{region}.myqcloud.com:"),
            credentials=(
                f"role=$(curl -sf {METADATA}/cam/security-credentials/{ROLE})",
                f"RCLONE_S3_ACCESS_KEY_ID={field('TmpSecretId')}",
                f"RCLONE_S3_SECRET_ACCESS_KEY={field('TmpSecretKey')}",
                f"RCLONE_S3_SESSION_TOKEN={field('Token')}",
            ),
        ),
    )


def variables(job: Job) -> str:
    """What the user may change."""
    return common_variables(
        job,
        variable("zone", "A zone of the region that has the server.", default=f"{job.option.region}-1"),
        variable(
            "image_id",
            "Image with Docker and pip, and with the driver and container toolkit of the cards: one of the market's, or your own.",
        ),
        variable("key_id", "Id of an SSH key pair of yours; empty for none.", default=""),
    )


def outputs(job: Job) -> str:
    """Where the server and the service are."""
    balancer = '\noutput "service_address" {\n  value = tencentcloud_clb_instance.service.clb_vips\n}\n' if job.is_service else ""
    return 'output "servers" {\n  value = tencentcloud_instance.server[*].private_ip\n}\n' + (
        balancer or bucket_output("cos://${local.bucket}")
    )


def main(job: Job) -> str:
    """The resources."""
    option, tags = job.option, hcl(job.labels)
    paid, month = '"SPOTPAID"\n  spot_instance_type         = "ONE-TIME"' if job.is_spot else '"POSTPAID_BY_HOUR"', ""
    if option.purchase == MONTH:
        paid, month = '"PREPAID"', PREPAID
    return f"""# {job.name}: plan {job.plan_id}
terraform {{
  required_version = ">= 1.5"
  required_providers {{
    tencentcloud = {{
      source  = "tencentcloudstack/tencentcloud"
      version = {hcl(PROVIDER_VERSION)}
    }}
  }}
}}

provider "tencentcloud" {{
  region = {hcl(option.region)}
}}

data "tencentcloud_user_info" "me" {{
}}

resource "tencentcloud_vpc" "net" {{
  name       = var.name
  cidr_block = "10.60.0.0/16"
  tags       = {tags}
}}

resource "tencentcloud_subnet" "part" {{
  name              = var.name
  vpc_id            = tencentcloud_vpc.net.id
  cidr_block        = "10.60.0.0/24"
  availability_zone = var.zone
  tags              = {tags}
}}

resource "tencentcloud_security_group" "server" {{
  name        = "${{var.name}}-server"
  description = "SSH from one range only"
  tags        = {tags}
}}

resource "tencentcloud_security_group_rule_set" "server" {{
  security_group_id = tencentcloud_security_group.server.id
  dynamic "ingress" {{
    for_each = var.ssh_cidr == "" ? [] : [var.ssh_cidr]
    content {{
      action      = "ACCEPT"
      cidr_block  = ingress.value
      protocol    = "TCP"
      port        = "22"
      description = "SSH"
    }}
  }}
  egress {{
    action      = "ACCEPT"
    cidr_block  = "0.0.0.0/0" # outgoing: images and weights are fetched; nothing comes in by this
    protocol    = "ALL"
    port        = "ALL"
    description = "outgoing"
  }}
}}

resource "tencentcloud_cam_role" "server" {{
  name = "${{var.name}}-server"
  document = jsonencode({{
    version   = "2.0"
    statement = [{{ effect = "allow", action = ["name/sts:AssumeRole"], principal = {{ service = ["cvm.qcloud.com"] }} }}]
  }})
  description = "Servers of ${{var.name}}"
}}

resource "tencentcloud_cam_policy" "server" {{
  name = "${{var.name}}-server"
  document = jsonencode({{
    version = "2.0"
    statement = [
      {{ effect = "allow", action = ["ssm:GetSecretValue"], resource = ["qcs::ssm:::secret/creatorUin/*/rightfit-*"] }},
      {{ effect = "allow", action = ["cvm:TerminateInstances"], resource = ["*"], condition = {{ "for_any_value:string_equal" = {{ "qcs:resource_tag" = ["rightfit-plan&{job.plan_id}"] }} }} }},{keeping(job)}
    ]
  }})
}}

resource "tencentcloud_cam_role_policy_attachment" "server" {{
  role_id   = tencentcloud_cam_role.server.id
  policy_id = tencentcloud_cam_policy.server.id
}}

resource "tencentcloud_instance" "server" {{
  count                      = {option.nodes}
  instance_name              = "${{var.name}}-${{count.index}}"
  availability_zone          = var.zone
  instance_type              = {hcl(option.instance_type)}
  image_id                   = var.image_id
  instance_charge_type       = {paid}
  vpc_id                     = tencentcloud_vpc.net.id
  subnet_id                  = tencentcloud_subnet.part.id
  orderly_security_groups    = [tencentcloud_security_group.server.id]
  allocate_public_ip         = true
  internet_charge_type       = "TRAFFIC_POSTPAID_BY_HOUR"
  internet_max_bandwidth_out = 100
  system_disk_type           = "CLOUD_BSSD"
  system_disk_size           = {job.disk_gib}
  cam_role_name              = tencentcloud_cam_role.server.name
  key_ids                    = var.key_id == "" ? [] : [var.key_id]
  user_data                  = base64gzip({user_data(job, bucket="local.bucket")})
  tags                       = {tags}
  depends_on                 = [tencentcloud_cam_role_policy_attachment.server]
{month}{replaced(job)}}}
{run_words(job)}{balancer(job) if job.is_service else bucket(job)}"""


def keeping(job: Job) -> str:
    """What the server's role may do with the bucket."""
    if job.is_service:
        return ""
    return f'\n      {{ effect = "allow", action = {json.dumps(STORE_ACTIONS)}, resource = ["qcs::cos:{job.option.region}:*:${{split("/", local.bucket)[0]}}/*"] }},'


def bucket(job: Job) -> str:
    """Where checkpoints go: the user's bucket, or one that is made. Names of buckets end in the
    account's number there."""
    name = f"{job.name[: MOST_BUCKET_NAME - 13]}-{job.plan_id}"
    return f"""
locals {{
  bucket = var.bucket == "" ? tencentcloud_cos_bucket.checkpoints[0].bucket : var.bucket
}}

resource "tencentcloud_cos_bucket" "checkpoints" {{
  count  = var.bucket == "" ? 1 : 0
  bucket = "{name}-${{data.tencentcloud_user_info.me.app_id}}"
  acl    = "private"
  tags   = {hcl(job.labels)}

  versioning_enable = true
  lifecycle_rules {{
    id            = "overwritten"
    filter_prefix = ""
    non_current_expiration {{
      non_current_days = {OVERWRITTEN_DAYS}
    }}
    abort_incomplete_multipart_upload {{
      days_after_initiation = {HALF_SENT_DAYS}
    }}
  }}
}}
"""


def balancer(job: Job) -> str:
    """The balancer reaches the servers past their security group, and one range of clients
    reaches the balancer."""
    stack = stack_of(job)
    return f"""
resource "tencentcloud_security_group" "balancer" {{
  name        = "${{var.name}}-balancer"
  description = "Clients of one range only"
  tags        = {hcl(job.labels)}
}}

resource "tencentcloud_security_group_rule_set" "balancer" {{
  security_group_id = tencentcloud_security_group.balancer.id
  dynamic "ingress" {{
    for_each = var.client_cidr == "" ? [] : [var.client_cidr]
    content {{
      action      = "ACCEPT"
      cidr_block  = ingress.value
      protocol    = "TCP"
      port        = "80"
      description = "clients"
    }}
  }}
}}

resource "tencentcloud_clb_instance" "service" {{
  clb_name                     = var.name
  network_type                 = "OPEN"
  vpc_id                       = tencentcloud_vpc.net.id
  security_groups              = [tencentcloud_security_group.balancer.id]
  load_balancer_pass_to_target = true
  tags                         = {hcl(job.labels)}
}}

resource "tencentcloud_clb_listener" "service" {{
  clb_id                 = tencentcloud_clb_instance.service.id
  listener_name          = "http"
  port                   = 80
  protocol               = "TCP"
  health_check_switch    = true
  health_check_type      = "HTTP"
  health_check_port      = {stack.port}
  health_check_http_path = {hcl(stack.health_path)}
}}

resource "tencentcloud_clb_attachment" "service" {{
  clb_id      = tencentcloud_clb_instance.service.id
  listener_id = tencentcloud_clb_listener.service.listener_id
  dynamic "targets" {{
    for_each = tencentcloud_instance.server
    content {{
      instance_id = targets.value.id
      port        = {stack.port}
      weight      = 10
    }}
  }}
}}
"""


TARGET = Target(
    "terraform-tencent",
    "launch",
    "Terraform for Tencent Cloud",
    write,
    lambda job: problem(job, "tencent", by_the_month=True),
    checked_by="terraform's own parser; every attribute against the schema in the provider's source",
)
