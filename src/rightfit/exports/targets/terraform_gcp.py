"""Terraform for Google Cloud: network, server (or spot), disk, bucket, secrets by reference,
balancer before a service, and an end by itself."""

from __future__ import annotations

from rightfit.exports.bare_server import (
    HALF_SENT_DAYS,
    OPTIONAL_SECRETS,
    OVERWRITTEN_DAYS,
    Ground,
    aligned,
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
from rightfit.facts.engine_releases import image_named

PROVIDER_VERSION = "~> 6.50"
IMAGES = {
    True: "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-580",
    False: "projects/cos-cloud/global/images/family/cos-121-lts",
}
"""Whether the server has accelerators -> image with Docker (and the driver, 580, which programs
built with CUDA 13 need). Its family is named by public files of 2026 (public file ids 62575603098,
70179861813; v20260818 in 71483697528), the second from memory: the user can give another."""
ARM_IMAGES = {
    True: "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2404-arm64-with-nvidia-580",
    False: "projects/cos-cloud/global/images/family/cos-arm64-121-lts",
}
"""The same for servers with Arm processors, which start no other. The first family is named by
public files (ids 17781961531, 60126479167) and lacks Docker, which the boot then installs; the
second is from memory."""
ARM_FAMILIES = ("c4a-", "n4a-", "t2a-", "a4x-")
"""Axion, Ampere Altra and Grace."""
DOCKER = ("command -v docker >/dev/null || { apt-get update -qq && apt-get install -y -qq docker.io nvidia-container-toolkit; }",)
FAST_DISKS = ("a3-", "a4-", "a4x-", "g4-", "c4", "n4", "c3d")
HEALTH_RANGES = ["35.191.0.0/16", "130.211.0.0/22"]  # of Google's balancers and their probes


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
    """Secrets come from Secret Manager and checkpoints go to the bucket, both by the
    server's own account."""
    image = image_named("cloud-sdk")
    words = ("docker", "run", "--rm", "--network", "host", image, "gcloud", "secrets", "versions", "access", "latest", "--secret")
    return first_boot(
        job,
        Ground(
            secret=lambda name: shell([*words, secret_id(name)]),
            before=DOCKER if job.gpus_per_node and job.option.instance_type.startswith(ARM_FAMILIES) else (),
            store=in_bucket(":gcs,env_auth=true,bucket_policy_only=true,no_check_bucket=true:"),
        ),
    )


def image_of(job: Job) -> str:
    """Path of the image's family, of the server's processor."""
    return (ARM_IMAGES if job.option.instance_type.startswith(ARM_FAMILIES) else IMAGES)[job.gpus_per_node > 0]


def secret_id(name: str) -> str:
    """The secret's name in Secret Manager."""
    return f"rightfit-{name}"


def disk_type(job: Job) -> str:
    """Newer machine families take Hyperdisk only."""
    return "hyperdisk-balanced" if job.option.instance_type.startswith(FAST_DISKS) else "pd-balanced"


def variables(job: Job) -> str:
    """What the user may change."""
    return common_variables(
        job,
        variable("project", "Project that pays."),
        variable("zone", "A zone of the region that has the server.", default=f"{job.option.region}-a"),
        variable("image", "Image with Docker (and the driver of the cards).", default=image_of(job)),
    )


def outputs(job: Job) -> str:
    """Where the server and the service are."""
    balancer = (
        '\noutput "service_address" {\n  value = google_compute_global_forwarding_rule.service.ip_address\n}\n' if job.is_service else ""
    )
    return 'output "servers" {\n  value = google_compute_instance.server[*].name\n}\n' + (balancer or bucket_output("gs://${local.bucket}"))


def scheduling(job: Job) -> str:
    """Spot or not, and the end: Google itself deletes the server after its longest time. Servers
    with accelerators cannot be moved while they run."""
    values: dict[str, object] = {"provisioning_model": "SPOT", "preemptible": True} if job.is_spot else {"provisioning_model": "STANDARD"}
    values["automatic_restart"] = job.is_service and not job.is_spot
    values["on_host_maintenance"] = "TERMINATE" if job.is_spot or job.gpus_per_node else "MIGRATE"
    if job.is_spot or job.stop_after_h:
        values["instance_termination_action"] = "STOP" if job.is_service else "DELETE"
    limit = f"\n    max_run_duration {{\n      seconds = {round(job.stop_after_h * 3600)}\n    }}" if job.stop_after_h else ""
    return aligned(values, indent=4) + limit


def secrets_given(job: Job) -> str:
    """An expression: the secrets that are there to be read. The optional one is where it was
    stored; a right to read what is not there is refused."""
    names = stack_of(job).secrets
    needed = hcl([secret_id(name) for name in names if name not in OPTIONAL_SECRETS])
    return f'local.token == "yes" ? {hcl([secret_id(name) for name in names])} : {needed}'


def main(job: Job) -> str:
    """The resources."""
    option = job.option
    return f"""# {job.name}: plan {job.plan_id}
terraform {{
  required_version = ">= 1.5"
  required_providers {{
    google = {{
      source  = "hashicorp/google"
      version = {hcl(PROVIDER_VERSION)}
    }}
  }}
}}

provider "google" {{
  project        = var.project
  region         = {hcl(option.region)}
  zone           = var.zone
  default_labels = {hcl(job.labels)}
}}

resource "google_compute_network" "net" {{
  name                    = var.name
  auto_create_subnetworks = false
}}

resource "google_compute_subnetwork" "part" {{
  name                     = var.name
  network                  = google_compute_network.net.id
  region                   = {hcl(option.region)}
  ip_cidr_range            = "10.60.0.0/24"
  private_ip_google_access = true
}}

resource "google_compute_firewall" "ssh" {{
  count         = var.ssh_cidr == "" ? 0 : 1
  name          = "${{var.name}}-ssh"
  network       = google_compute_network.net.id
  direction     = "INGRESS"
  source_ranges = [var.ssh_cidr]
  target_tags   = [var.name]
  allow {{
    protocol = "tcp"
    ports    = ["22"]
  }}
}}

resource "google_service_account" "server" {{
  account_id   = substr(var.name, 0, 30)
  display_name = "Servers of ${{var.name}}"
}}

resource "google_secret_manager_secret_iam_member" "server" {{
  for_each  = toset({secrets_given(job)})
  secret_id = each.value
  role      = "roles/secretmanager.secretAccessor"
  member    = "serviceAccount:${{google_service_account.server.email}}"
}}

resource "google_compute_instance" "server" {{
  count        = {option.nodes}
  name         = "${{var.name}}-${{count.index}}"
  machine_type = {hcl(option.instance_type)}
  zone         = var.zone
  tags         = [var.name]

  boot_disk {{
    auto_delete = true
    initialize_params {{
      image = var.image
      size  = {job.disk_gib}
      type  = {hcl(disk_type(job))}
    }}
  }}

  network_interface {{
    subnetwork = google_compute_subnetwork.part.id
    access_config {{
    }}
  }}

  scheduling {{
    {scheduling(job)}
  }}

  service_account {{
    email  = google_service_account.server.email
    scopes = ["cloud-platform"]
  }}

  shielded_instance_config {{
    enable_vtpm                 = true
    enable_integrity_monitoring = true
    enable_secure_boot          = {hcl(not job.gpus_per_node)} # the driver of cards that is built at the first boot is not signed
  }}

  metadata = {{
    enable-oslogin         = "TRUE"
    block-project-ssh-keys = "TRUE"
    install-nvidia-driver  = {hcl("True" if job.gpus_per_node else "False")}
    startup-script         = {user_data(job, bucket="local.bucket")}
  }}
  depends_on = [google_secret_manager_secret_iam_member.server]
{replaced(job)}}}
{run_words(job)}{balancer(job) if job.is_service else bucket(job)}"""


def bucket(job: Job) -> str:
    """Where checkpoints go: the user's bucket, or one that is made."""
    return f"""
locals {{
  bucket = var.bucket == "" ? google_storage_bucket.checkpoints[0].name : var.bucket
}}

resource "google_storage_bucket" "checkpoints" {{
  count                       = var.bucket == "" ? 1 : 0
  name                        = "{made_bucket(job, "var.project")}"
  location                    = {hcl(job.option.region.upper())}
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  versioning {{
    enabled = true
  }}
  lifecycle_rule {{
    condition {{
      days_since_noncurrent_time = {OVERWRITTEN_DAYS}
      with_state                 = "ARCHIVED"
    }}
    action {{
      type = "Delete"
    }}
  }}
  lifecycle_rule {{
    condition {{
      age = {HALF_SENT_DAYS}
    }}
    action {{
      type = "AbortIncompleteMultipartUpload"
    }}
  }}
}}

resource "google_storage_bucket_iam_member" "checkpoints" {{
  bucket = split("/", local.bucket)[0]
  role   = "roles/storage.objectUser"
  member = "serviceAccount:${{google_service_account.server.email}}"
}}
"""


def balancer(job: Job) -> str:
    """The port of the service, open to the balancer alone, and the balancer to
    one range of clients."""
    stack = stack_of(job)
    return f"""
resource "google_compute_firewall" "service" {{
  name          = "${{var.name}}-service"
  network       = google_compute_network.net.id
  direction     = "INGRESS"
  source_ranges = {hcl(HEALTH_RANGES)}
  target_tags   = [var.name]
  allow {{
    protocol = "tcp"
    ports    = [{hcl(str(stack.port))}]
  }}
}}

resource "google_compute_instance_group" "service" {{
  name      = var.name
  zone      = var.zone
  instances = google_compute_instance.server[*].self_link
  named_port {{
    name = "http"
    port = {stack.port}
  }}
}}

resource "google_compute_health_check" "service" {{
  name = var.name
  http_health_check {{
    port         = {stack.port}
    request_path = {hcl(stack.health_path)}
  }}
}}

resource "google_compute_security_policy" "clients" {{
  name = var.name
  dynamic "rule" {{
    for_each = var.client_cidr == "" ? [] : [var.client_cidr]
    content {{
      action   = "allow"
      priority = 1000
      match {{
        versioned_expr = "SRC_IPS_V1"
        config {{
          src_ip_ranges = [rule.value]
        }}
      }}
    }}
  }}
  rule {{
    action   = "deny(403)"
    priority = 2147483647
    match {{
      versioned_expr = "SRC_IPS_V1"
      config {{
        src_ip_ranges = ["*"]
      }}
    }}
  }}
}}

resource "google_compute_backend_service" "service" {{
  name                  = var.name
  protocol              = "HTTP"
  port_name             = "http"
  load_balancing_scheme = "EXTERNAL_MANAGED"
  timeout_sec           = 600
  health_checks         = [google_compute_health_check.service.id]
  security_policy       = google_compute_security_policy.clients.id
  backend {{
    group           = google_compute_instance_group.service.id
    balancing_mode  = "UTILIZATION"
    capacity_scaler = 1.0
  }}
}}

resource "google_compute_url_map" "service" {{
  name            = var.name
  default_service = google_compute_backend_service.service.id
}}

resource "google_compute_target_http_proxy" "service" {{
  name    = var.name
  url_map = google_compute_url_map.service.id
}}

resource "google_compute_global_forwarding_rule" "service" {{
  name                  = var.name
  target                = google_compute_target_http_proxy.service.id
  port_range            = "80"
  load_balancing_scheme = "EXTERNAL_MANAGED"
}}
"""


TARGET = Target(
    "terraform-gcp",
    "launch",
    "Terraform for Google Cloud",
    write,
    lambda job: problem(job, "gcp"),
    checked_by="terraform's own parser; every attribute against the schema of the provider",
)
