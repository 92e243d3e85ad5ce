"""Terraform for Alibaba Cloud: network, server (or spot), disk, bucket, secrets by reference,
balancer before a service, and an end by itself."""

from __future__ import annotations

from rightfit.exports.bare_server import (
    HALF_SENT_DAYS,
    MONTH,
    OVERWRITTEN_DAYS,
    Ground,
    bucket_output,
    first_boot,
    in_bucket,
    made_bucket,
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

PROVIDER_VERSION = "~> 1.260"
CLIENT = "https://aliyuncli.alicdn.com/aliyun-cli-linux-3.0.305-$(uname -m | sed s/x86_64/amd64/ | sed s/aarch64/arm64/).tgz"
METADATA = "http://100.100.100.200/latest/meta-data"
ROLE = f'"$(curl -sf {METADATA}/ram/security-credentials/)"'
"""Shell word: the role that the server was given, whatever it is called."""
BALANCER_RANGE = "100.64.0.0/10"  # from which balancers and their probes reach servers


def write(job: Job) -> Files:
    """main.tf, variables.tf, outputs.tf and the first boot's script."""
    return {
        "main.tf": main(job),
        "variables.tf": variables(job),
        "outputs.tf": outputs(job),
        "first-boot.sh": boot(job),
        **wait_files(job, terraform_way(job)),
    }


def boot(job: Job) -> str:
    """Secrets come from the key management service and checkpoints go to the bucket, both by the
    server's own role; at its end the server releases itself."""
    region = job.option.region
    own = f"--mode EcsRamRole --ram-role-name {ROLE} --region {shell([region])}"
    take = " | python3 -c 'import json, sys; print(json.load(sys.stdin)[\"SecretData\"])'"

    def field(name: str) -> str:
        return f'"$(printf %s "$role" | python3 -c \'import json, sys; print(json.load(sys.stdin)["{name}"])\')"'

    return first_boot(
        job,
        Ground(
            secret=lambda name: f"aliyun kms GetSecretValue --SecretName {shell([f'rightfit/{name}'])} {own}{take}",
            end=f'aliyun ecs DeleteInstance --Force true {own} --InstanceId "$(curl -sf {METADATA}/instance-id)"',
            before=(f'curl -sf "{CLIENT}" | tar -xz -C /usr/local/bin aliyun',),
            store=in_bucket(f":s3,provider=Alibaba,no_check_bucket=true,endpoint=oss-{region}-internal.aliyuncs.com:"),
            credentials=(
                f"role=$(curl -sf {METADATA}/ram/security-credentials/{ROLE})",
                f"RCLONE_S3_ACCESS_KEY_ID={field('AccessKeyId')}",
                f"RCLONE_S3_SECRET_ACCESS_KEY={field('AccessKeySecret')}",
                f"RCLONE_S3_SESSION_TOKEN={field('SecurityToken')}",
            ),
        ),
    )


def variables(job: Job) -> str:
    """What the user may change."""
    return common_variables(
        job,
        variable(
            "image_id", "Image with Docker, and with the driver and container toolkit of the cards: one of the market's, or your own."
        ),
        variable("key_name", "Name of an SSH key pair of yours; empty for none.", default=""),
    )


def outputs(job: Job) -> str:
    """Where the server and the service are."""
    balancer = '\noutput "service_address" {\n  value = alicloud_slb_load_balancer.service.address\n}\n' if job.is_service else ""
    return 'output "servers" {\n  value = alicloud_instance.server[*].private_ip\n}\n' + (
        balancer or bucket_output("oss://${local.bucket}")
    )


def ending(job: Job) -> str:
    """The time at which Alibaba Cloud itself releases the server, counted from when it is made."""
    if not job.stop_after_h:
        return replaced(job)
    minutes = max(30, round(job.stop_after_h * 60))
    return f"""
  auto_release_time = timeadd(timestamp(), "{minutes}m")
{replaced(job, ignore_changes="[auto_release_time]")}"""


def paid(job: Job) -> str:
    """How the server is paid: by the second, as spot, or for a month that is renewed by hand."""
    if job.option.purchase == MONTH:
        words = {"instance_charge_type": "PrePaid", "period": 1, "period_unit": "Month", "renewal_status": "Normal"}
    else:
        words = {"instance_charge_type": "PostPaid", **({"spot_strategy": "SpotAsPriceGo"} if job.is_spot else {})}
    return "".join(f"  {name:<26} = {hcl(value)}\n" for name, value in words.items())


def main(job: Job) -> str:
    """The resources."""
    option, tags = job.option, hcl(job.labels)
    return f"""# {job.name}: plan {job.plan_id}
terraform {{
  required_version = ">= 1.5"
  required_providers {{
    alicloud = {{
      source  = "aliyun/alicloud"
      version = {hcl(PROVIDER_VERSION)}
    }}
  }}
}}

provider "alicloud" {{
  region = {hcl(option.region)}
}}

data "alicloud_zones" "available" {{
  available_instance_type     = {hcl(option.instance_type)}
  available_resource_creation = "VSwitch"
}}

resource "alicloud_vpc" "net" {{
  vpc_name   = var.name
  cidr_block = "10.60.0.0/16"
  tags       = {tags}
}}

resource "alicloud_vswitch" "part" {{
  vswitch_name = var.name
  vpc_id       = alicloud_vpc.net.id
  cidr_block   = "10.60.0.0/24"
  zone_id      = data.alicloud_zones.available.zones[0].id
  tags         = {tags}
}}

resource "alicloud_security_group" "server" {{
  security_group_name = "${{var.name}}-server"
  vpc_id              = alicloud_vpc.net.id
  tags                = {tags}
}}

resource "alicloud_security_group_rule" "ssh" {{
  count             = var.ssh_cidr == "" ? 0 : 1
  security_group_id = alicloud_security_group.server.id
  type              = "ingress"
  ip_protocol       = "tcp"
  port_range        = "22/22"
  cidr_ip           = var.ssh_cidr
  policy            = "accept"
}}

resource "alicloud_ram_role" "server" {{
  role_name = "${{var.name}}-server"
  assume_role_policy_document = jsonencode({{
    Version   = "1"
    Statement = [{{ Effect = "Allow", Action = "sts:AssumeRole", Principal = {{ Service = ["ecs.aliyuncs.com"] }} }}]
  }})
}}

resource "alicloud_ram_policy" "server" {{
  policy_name = "${{var.name}}-server"
  policy_document = jsonencode({{
    Version = "1"
    Statement = [
      {{ Effect = "Allow", Action = ["kms:GetSecretValue"], Resource = ["acs:kms:*:*:secret/rightfit/*"] }},
      {{ Effect = "Allow", Action = ["ecs:DeleteInstance"], Resource = ["*"], Condition = {{ StringEquals = {{ "acs:ResourceTag/rightfit-plan" = [{hcl(job.plan_id)}] }} }} }},{keeping(job)}
    ]
  }})
}}

resource "alicloud_ram_role_policy_attachment" "server" {{
  policy_name = alicloud_ram_policy.server.policy_name
  policy_type = "Custom"
  role_name   = alicloud_ram_role.server.role_name
}}

resource "alicloud_instance" "server" {{
  count                      = {option.nodes}
  instance_name              = "${{var.name}}-${{count.index}}"
  instance_type              = {hcl(option.instance_type)}
  image_id                   = var.image_id
  vswitch_id                 = alicloud_vswitch.part.id
  security_groups            = [alicloud_security_group.server.id]
{paid(job)}  internet_charge_type       = "PayByTraffic"
  internet_max_bandwidth_out = 100
  system_disk_category       = "cloud_essd"
  system_disk_size           = {job.disk_gib}
  role_name                  = alicloud_ram_role.server.role_name
  key_name                   = var.key_name == "" ? null : var.key_name
  user_data                  = base64encode({user_data(job, bucket="local.bucket")})
  tags                       = {tags}
{ending(job)}
  depends_on = [alicloud_ram_role_policy_attachment.server]
}}
{run_words(job)}{balancer(job) if job.is_service else bucket(job)}"""


def keeping(job: Job) -> str:
    """What the server's role may do with the bucket."""
    if job.is_service:
        return ""
    places = '["acs:oss:*:*:${split("/", local.bucket)[0]}", "acs:oss:*:*:${local.bucket}/*"]'
    return f'\n      {{ Effect = "Allow", Action = ["oss:ListObjects", "oss:GetObject", "oss:PutObject"], Resource = {places} }},'


def bucket(job: Job) -> str:
    """Where checkpoints go: the user's bucket, or one that is made; both are private."""
    return f"""
locals {{
  bucket = var.bucket == "" ? alicloud_oss_bucket.checkpoints[0].bucket : var.bucket
}}

data "alicloud_account" "me" {{
}}

resource "alicloud_oss_bucket" "checkpoints" {{
  count  = var.bucket == "" ? 1 : 0
  bucket = "{made_bucket(job, "data.alicloud_account.me.id")}"
  tags   = {hcl(job.labels)}
  versioning {{
    status = "Enabled"
  }}
  lifecycle_rule {{
    id      = "overwritten"
    enabled = true
    prefix  = ""
    noncurrent_version_expiration {{
      days = {OVERWRITTEN_DAYS}
    }}
    abort_multipart_upload {{
      days = {HALF_SENT_DAYS}
    }}
  }}
}}

resource "alicloud_oss_bucket_public_access_block" "checkpoints" {{
  count               = var.bucket == "" ? 1 : 0
  bucket              = alicloud_oss_bucket.checkpoints[0].bucket
  block_public_access = true
}}
"""


def balancer(job: Job) -> str:
    """The port of the service, open to the balancer alone, and the balancer to
    one range of clients."""
    stack = stack_of(job)
    return f"""
resource "alicloud_security_group_rule" "service" {{
  security_group_id = alicloud_security_group.server.id
  type              = "ingress"
  ip_protocol       = "tcp"
  port_range        = "{stack.port}/{stack.port}"
  cidr_ip           = {hcl(BALANCER_RANGE)}
  policy            = "accept"
}}

resource "alicloud_slb_load_balancer" "service" {{
  load_balancer_name   = var.name
  address_type         = "internet"
  instance_charge_type = "PayByCLCU"
  tags                 = {hcl(job.labels)}
}}

resource "alicloud_slb_acl" "clients" {{
  name       = "${{var.name}}-clients"
  ip_version = "ipv4"
  tags       = {hcl(job.labels)}
}}

resource "alicloud_slb_acl_entry_attachment" "clients" {{
  acl_id  = alicloud_slb_acl.clients.id
  entry   = var.client_cidr == "" ? alicloud_vpc.net.cidr_block : var.client_cidr
  comment = "clients"
}}

resource "alicloud_slb_backend_server" "service" {{
  load_balancer_id = alicloud_slb_load_balancer.service.id
  dynamic "backend_servers" {{
    for_each = alicloud_instance.server
    content {{
      server_id = backend_servers.value.id
      weight    = 100
    }}
  }}
}}

resource "alicloud_slb_listener" "service" {{
  load_balancer_id          = alicloud_slb_load_balancer.service.id
  protocol                  = "http"
  frontend_port             = 80
  backend_port              = {stack.port}
  bandwidth                 = -1
  health_check              = "on"
  health_check_uri          = {hcl(stack.health_path)}
  health_check_connect_port = {stack.port}
  acl_status                = "on"
  acl_type                  = "white"
  acl_id                    = alicloud_slb_acl.clients.id
  depends_on                = [alicloud_slb_acl_entry_attachment.clients, alicloud_slb_backend_server.service]
}}
"""


TARGET = Target(
    "terraform-alicloud",
    "launch",
    "Terraform for Alibaba Cloud",
    write,
    lambda job: problem(job, "alicloud", by_the_month=True),
    checked_by="terraform's own parser; every attribute against the schema in the provider's source",
)
