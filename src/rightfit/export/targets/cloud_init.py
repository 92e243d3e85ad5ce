"""cloud-init: what a bare server of any cloud (or of your own) is given as user data, so that it starts the job at its first boot."""

from __future__ import annotations

from rightfit.export.bare_server import FOLDER, Ground, first_boot, in_bucket
from rightfit.export.buckets import BUCKET
from rightfit.export.job import Job
from rightfit.export.quoting import comment, given, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.serving_words import spans_servers
from rightfit.export.stack import stack_problem
from rightfit.export.terraform_words import own_bucket
from rightfit.export.waiting import cloud_init_way, wait_files
from rightfit.messages import Message

SECRETS = "/etc/rightfit/secrets"
STORES = {
    "s3": ":s3,provider=AWS,env_auth=true,no_check_bucket=true:",
    "gs": ":gcs,env_auth=true,bucket_policy_only=true,no_check_bucket=true:",
}
"""Scheme of a bucket -> rclone remote, where a server's own role opens it. The other clouds' need their own words: use their Terraform."""


STORES_NAMED = " or ".join(f"{name}://..." for name in STORES)


def ground(job: Job) -> Ground:
    """Secrets are files that whoever made the server puts there (the job waits for them); nothing else is known of where it stands."""
    scheme = job.settings.bucket.partition("://")[0]
    return Ground(
        # The name is one of the stack's own: a shell word already.
        secret=lambda name: f"until [ -s {SECRETS}/{name} ]; do sleep 5; done; cat {SECRETS}/{name}",
        store=in_bucket(STORES[scheme]) if scheme in STORES else "",
    )


def write(job: Job) -> Files:
    """One file of user data."""
    boot = first_boot(job, ground(job))
    if own_bucket(job):
        boot = boot.replace("\nset -euo pipefail\n", f"\nset -euo pipefail\nexport {BUCKET}={own_bucket(job)}\n", 1)
    body = given(
        packages=["curl", "gzip"],
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


def _refuses(job: Job) -> Message | str:
    option = job.option
    if option.nodes > 1 and not job.is_service:
        return Message("export.part_several_need_launcher")
    scheme = job.settings.bucket.partition("://")[0]
    if job.settings.bucket and scheme not in STORES and not job.is_service:
        return Message("export.part_reaches_buckets", scheme=scheme)
    if problem := spans_servers(job) or stack_problem(job):
        return problem
    if not job.is_service and not job.settings.bucket:
        return Message("export.part_place_that_outlives", names=STORES_NAMED)
    return ""


TARGET = Target(
    "cloud-init",
    "launch",
    "cloud-init user data for a bare server",
    write,
    _refuses,
    checked_by="the schema of cloud-init; shellcheck of its script",
)
