"""Terraform for AWS: network, server (or spot request), volume, secrets by reference, balancer
before a service, and a stop by itself."""

from __future__ import annotations

from rightfit.exports.bare_server import (
    HALF_SENT_DAYS,
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
from rightfit.messages import Message

PROVIDER_VERSION = "~> 5.100"
IMAGES = {
    "x86_64": "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) *",
    "arm64": "Deep Learning ARM64 Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) *",
}
PLAIN_IMAGES = {"x86_64": "al2023-ami-ecs-hvm-*-x86_64", "arm64": "al2023-ami-ecs-hvm-*-arm64"}
TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06"
ARM_FAMILIES = ("g5g.", "c6g", "c7g", "c8g", "m6g", "m7g", "m8g", "r6g", "r7g", "r8g", "t4g")


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
    """Secrets come from the parameter store, and checkpoints go to the bucket, both by the
    server's own role."""
    return first_boot(job, ground(job))


def ground(job: Job) -> Ground:
    """What AWS gives a bare server; powering off ends it, because it is started so."""
    region = job.option.region
    words = ("aws", "ssm", "get-parameter", "--region", region, "--with-decryption", "--query", "Parameter.Value", "--output", "text")
    return Ground(
        secret=lambda name: shell([*words, "--name", f"/rightfit/{name}"]),
        store=in_bucket(f":s3,provider=AWS,env_auth=true,no_check_bucket=true,region={region}:"),
    )


def variables(job: Job) -> str:
    """What the user may change."""
    key = variable("key_name", "Name of an SSH key pair of yours; empty for none.", default="")
    tls = variable("certificate_arn", "Certificate of yours (ACM), by which clients come over HTTPS; empty serves plain HTTP.", default="")
    return common_variables(job, key, *([tls] if job.is_service else []))


def outputs(job: Job) -> str:
    """Where the server and the service are."""
    balancer = '\noutput "service_address" {\n  value = aws_lb.service.dns_name\n}\n' if job.is_service else ""
    return 'output "servers" {\n  value = aws_instance.server[*].private_ip\n}\n' + (balancer or bucket_output("s3://${local.bucket}"))


def main(job: Job) -> str:
    """The resources."""
    option = job.option
    arch = "arm64" if option.instance_type.startswith(ARM_FAMILIES) else "x86_64"
    image = (IMAGES if job.gpus_per_node else PLAIN_IMAGES)[arch]
    spot = """
  instance_market_options {
    market_type = "spot"
    spot_options {
      instance_interruption_behavior = "terminate"
      spot_instance_type             = "one-time"
    }
  }
"""
    return f"""# {job.name}: plan {job.plan_id}
terraform {{
  required_version = ">= 1.5"
  required_providers {{
    aws = {{
      source  = "hashicorp/aws"
      version = {hcl(PROVIDER_VERSION)}
    }}
  }}
}}

provider "aws" {{
  region = {hcl(option.region)}
  default_tags {{
    tags = {hcl(job.labels)}
  }}
}}

data "aws_availability_zones" "available" {{
  state = "available"
  filter {{
    name   = "opt-in-status"
    values = ["opt-in-not-required"]
  }}
}}

data "aws_ec2_instance_type_offerings" "server" {{
  location_type = "availability-zone"
  filter {{
    name   = "instance-type"
    values = [{hcl(option.instance_type)}]
  }}
}}

locals {{
  # The first has the servers, so it is one that offers them; a balancer wants a second.
  every = data.aws_availability_zones.available.names
  zones = distinct(concat(sort(setintersection(data.aws_ec2_instance_type_offerings.server.locations, local.every)), local.every))
}}

data "aws_ami" "image" {{
  most_recent = true
  owners      = ["amazon"]
  filter {{
    name   = "name"
    values = [{hcl(image)}]
  }}
}}

resource "aws_vpc" "net" {{
  cidr_block           = "10.60.0.0/16"
  enable_dns_hostnames = true
  tags                 = {{ Name = var.name }}
}}

resource "aws_default_security_group" "closed" {{
  vpc_id = aws_vpc.net.id # without rules: whatever is put into it reaches nothing
}}

resource "aws_internet_gateway" "out" {{
  vpc_id = aws_vpc.net.id
}}

resource "aws_subnet" "part" {{
  count                   = 2
  vpc_id                  = aws_vpc.net.id
  cidr_block              = cidrsubnet(aws_vpc.net.cidr_block, 8, count.index)
  availability_zone       = local.zones[count.index]
  map_public_ip_on_launch = true
}}

resource "aws_route_table" "out" {{
  vpc_id = aws_vpc.net.id
  route {{
    cidr_block = "0.0.0.0/0" # outgoing: images and weights are fetched; nothing comes in by this
    gateway_id = aws_internet_gateway.out.id
  }}
}}

resource "aws_route_table_association" "part" {{
  count          = 2
  subnet_id      = aws_subnet.part[count.index].id
  route_table_id = aws_route_table.out.id
}}

resource "aws_security_group" "server" {{
  name        = "${{var.name}}-server"
  description = "SSH from one range only"
  vpc_id      = aws_vpc.net.id
  dynamic "ingress" {{
    for_each = var.ssh_cidr == "" ? [] : [var.ssh_cidr]
    content {{
      description = "SSH"
      from_port   = 22
      to_port     = 22
      protocol    = "tcp"
      cidr_blocks = [ingress.value]
    }}
  }}
  egress {{
    description = "Images, weights and data are fetched"
    from_port   = 0
    to_port     = 0
    protocol    = "-1"
    cidr_blocks = ["0.0.0.0/0"]
  }}
}}

resource "aws_iam_role" "server" {{
  name = "${{var.name}}-server"
  assume_role_policy = jsonencode({{
    Version   = "2012-10-17"
    Statement = [{{ Effect = "Allow", Action = "sts:AssumeRole", Principal = {{ Service = "ec2.amazonaws.com" }} }}]
  }})
}}

resource "aws_iam_role_policy" "secrets" {{
  name = "read-secrets"
  role = aws_iam_role.server.id
  policy = jsonencode({{
    Version   = "2012-10-17"
    Statement = [{{ Effect = "Allow", Action = ["ssm:GetParameter"], Resource = "arn:aws:ssm:*:*:parameter/rightfit/*" }}]
  }})
}}

resource "aws_iam_instance_profile" "server" {{
  name = "${{var.name}}-server"
  role = aws_iam_role.server.name
}}

resource "aws_instance" "server" {{
  count                                = {option.nodes}
  ami                                  = data.aws_ami.image.id
  instance_type                        = {hcl(option.instance_type)}
  subnet_id                            = aws_subnet.part[0].id
  vpc_security_group_ids               = [aws_security_group.server.id]
  iam_instance_profile                 = aws_iam_instance_profile.server.name
  key_name                             = var.key_name == "" ? null : var.key_name
  instance_initiated_shutdown_behavior = "terminate"
  user_data_base64                     = base64gzip({user_data(job, bucket="local.bucket")})
  user_data_replace_on_change          = true
  tags                                 = {{ Name = "${{var.name}}-${{count.index}}" }}
{spot if job.is_spot else ""}
  metadata_options {{
    http_tokens = "required"
  }}

  root_block_device {{
    volume_type           = "gp3"
    volume_size           = {job.disk_gib}
    encrypted             = true
    delete_on_termination = true
  }}
{replaced(job)}}}
{run_words(job)}{balancer(job) if job.is_service else bucket(job)}"""


def bucket(job: Job) -> str:
    """Where checkpoints go: the user's bucket, or one that is made; it is kept by
    `terraform destroy` while it holds anything."""
    return f"""
locals {{
  bucket = var.bucket == "" ? aws_s3_bucket.checkpoints[0].bucket : var.bucket
}}

data "aws_caller_identity" "me" {{
}}

resource "aws_s3_bucket" "checkpoints" {{
  count  = var.bucket == "" ? 1 : 0
  bucket = "{made_bucket(job, "data.aws_caller_identity.me.account_id")}"
}}

resource "aws_s3_bucket_public_access_block" "checkpoints" {{
  count                   = var.bucket == "" ? 1 : 0
  bucket                  = aws_s3_bucket.checkpoints[0].id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}}

resource "aws_s3_bucket_versioning" "checkpoints" {{
  count  = var.bucket == "" ? 1 : 0
  bucket = aws_s3_bucket.checkpoints[0].id
  versioning_configuration {{
    status = "Enabled"
  }}
}}

resource "aws_s3_bucket_lifecycle_configuration" "checkpoints" {{
  count      = var.bucket == "" ? 1 : 0
  bucket     = aws_s3_bucket.checkpoints[0].id
  depends_on = [aws_s3_bucket_versioning.checkpoints]
  rule {{
    id     = "overwritten"
    status = "Enabled"
    filter {{
    }}
    noncurrent_version_expiration {{
      noncurrent_days = {OVERWRITTEN_DAYS}
    }}
    abort_incomplete_multipart_upload {{
      days_after_initiation = {HALF_SENT_DAYS}
    }}
  }}
}}

resource "aws_iam_role_policy" "checkpoints" {{
  name = "keep-checkpoints"
  role = aws_iam_role.server.id
  policy = jsonencode({{
    Version = "2012-10-17"
    Statement = [
      {{ Effect = "Allow", Action = ["s3:ListBucket"], Resource = "arn:aws:s3:::${{split("/", local.bucket)[0]}}" }},
      {{ Effect = "Allow", Action = ["s3:GetObject", "s3:PutObject"], Resource = "arn:aws:s3:::${{local.bucket}}/*" }},
    ]
  }})
}}
"""


def balancer(job: Job) -> str:
    """The port of the service, open to the balancer alone, and the balancer to
    one range of clients."""
    stack = stack_of(job)
    return f"""
locals {{
  port = var.certificate_arn == "" ? 80 : 443
}}

resource "aws_security_group" "balancer" {{
  name        = "${{var.name}}-balancer"
  description = "Clients of one range only"
  vpc_id      = aws_vpc.net.id
  dynamic "ingress" {{
    for_each = var.client_cidr == "" ? [] : [var.client_cidr]
    content {{
      description = "Clients"
      from_port   = local.port
      to_port     = local.port
      protocol    = "tcp"
      cidr_blocks = [ingress.value]
    }}
  }}
  egress {{
    description = "Port of the servers"
    from_port   = {stack.port}
    to_port     = {stack.port}
    protocol    = "tcp"
    cidr_blocks = [aws_vpc.net.cidr_block]
  }}
}}

resource "aws_security_group_rule" "service" {{
  description              = "Requests by the balancer"
  type                     = "ingress"
  from_port                = {stack.port}
  to_port                  = {stack.port}
  protocol                 = "tcp"
  security_group_id        = aws_security_group.server.id
  source_security_group_id = aws_security_group.balancer.id
}}

resource "aws_lb" "service" {{
  name                       = var.name
  internal                   = var.client_cidr == ""
  load_balancer_type         = "application"
  security_groups            = [aws_security_group.balancer.id]
  subnets                    = aws_subnet.part[*].id
  drop_invalid_header_fields = true
}}

resource "aws_lb_target_group" "service" {{
  name     = var.name
  port     = {stack.port}
  protocol = "HTTP"
  vpc_id   = aws_vpc.net.id
  health_check {{
    path = {hcl(stack.health_path)}
  }}
}}

resource "aws_lb_target_group_attachment" "service" {{
  count            = {job.num_nodes}
  target_group_arn = aws_lb_target_group.service.arn
  target_id        = aws_instance.server[count.index].id
}}

resource "aws_lb_listener" "service" {{
  load_balancer_arn = aws_lb.service.arn
  port              = local.port
  protocol          = var.certificate_arn == "" ? "HTTP" : "HTTPS"
  certificate_arn   = var.certificate_arn == "" ? null : var.certificate_arn
  ssl_policy        = var.certificate_arn == "" ? null : {hcl(TLS_POLICY)}
  default_action {{
    type             = "forward"
    target_group_arn = aws_lb_target_group.service.arn
  }}
}}
"""


def _refuses(job: Job) -> Message | str:
    return problem(job, "aws")


TARGET = Target(
    "terraform-aws",
    "launch",
    "Terraform for AWS",
    write,
    _refuses,
    checked_by="terraform validate, apply and destroy with the AWS provider against a simulated AWS",
)
