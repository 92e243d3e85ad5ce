"""What the Terraform folders of all clouds share: variables with their checks, what a bare server is told at its first boot, and what
cannot be expressed."""

from __future__ import annotations

from collections.abc import Mapping

from rightfit.export.buckets import BUCKET
from rightfit.export.job import Job
from rightfit.export.quoting import hcl
from rightfit.export.serving_words import spans_servers
from rightfit.export.stack import stack_problem
from rightfit.messages import Message

CHECKPOINTS = "checkpoints"
OVERWRITTEN_DAYS = 30
"""So long a bucket that is made here keeps what was overwritten or deleted in it; then it costs no more."""
HALF_SENT_DAYS = 7
"""So long it keeps the parts of files that never arrived whole."""
MONTH = "subscription-1m"
SCHEMES = {"aws": "s3", "gcp": "gs", "azure": "https", "alicloud": "oss", "tencent": "cos"}
"""Provider of a plan -> scheme of its buckets' addresses."""


def variable(name: str, about: str, *, default: object = None, kind: str = "string") -> str:
    """One variable; without a default the user must give it."""
    value = "" if default is None else f"\n  default     = {hcl(default)}"
    return f'variable "{name}" {{\n  description = {hcl(about)}\n  type        = {kind}{value}\n}}\n'


def cidr_variable(name: str, about: str, *, default: str = "") -> str:
    """A variable that holds an address range and refuses everything (/0)."""
    return f"""variable "{name}" {{
  description = {hcl(about)}
  type        = string
  default     = {hcl(default)}
  validation {{
    condition     = var.{name} == "" || (can(cidrhost(var.{name}, 0)) && !endswith(var.{name}, "/0"))
    error_message = "Give a range such as 203.0.113.7/32, not everything."
  }}
}}
"""


def variables(job: Job, *further: str, bucket: str | None = None) -> str:
    """variables.tf: the name, who may come in, the bucket of a run (the cloud's own way to name it, or path after the scheme), and what a
    cloud needs beside."""
    found = [
        variable("name", "Name of everything that is made.", default=job.name),
        cidr_variable("ssh_cidr", "Address range that may reach the server by SSH; empty opens nothing.", default=job.settings.ssh_cidr),
    ]
    if job.is_service:
        found.append(cidr_variable("client_cidr", "Address range whose clients may reach the balancer; empty opens nothing."))
    else:
        found.append(
            variable(
                "bucket",
                "Bucket (and path) of yours for checkpoints; empty makes one.",
                default=own_bucket(job) if bucket is None else bucket,
            )
        )
    return "\n".join([*found, *further])


def aligned(values: Mapping[str, object], *, indent: int) -> str:
    """Attributes below each other as `terraform fmt` has them; the first line is not indented."""
    width = max(len(name) for name in values)
    return f"\n{' ' * indent}".join(f"{name:<{width}} = {hcl(value)}" for name, value in values.items())


def own_bucket(job: Job) -> str:
    """Bucket and path of --bucket without the scheme; "" where none was given."""
    return job.settings.bucket.partition("://")[2].strip("/")


def bucket_output(address: str) -> str:
    """Where what a run makes is kept, as its cloud's programs take it. `address`: a Terraform template on local.bucket."""
    return f'\noutput "bucket" {{\n  value = "{address}"\n}}\n'


def made_bucket(job: Job) -> str:
    """Name of the bucket that is made where none was given: the same for the same plan, and unlikely to be taken."""
    return f"{job.name}-{job.plan_id}"


def user_data(job: Job, *, bucket: str) -> str:
    """A Terraform expression: the first boot's script, with the bucket's name before it where checkpoints are kept. `bucket`: an
    expression."""
    script = 'file("${path.module}/first-boot.sh")'
    return script if job.is_service else f'join("\\n", ["#!/bin/bash", "export {BUCKET}=\'${{{bucket}}}\'", {script}])'


def problem(job: Job, provider: str, *, by_the_month: bool = False) -> Message | str:
    """Why servers of a cloud, each on its own, cannot run the job ("" if they can). `by_the_month`: the target rents services for a month too."""
    option = job.option
    if option.provider != provider:
        return Message("export.part_rented_from", provider=option.provider)
    if option.purchase not in ("on-demand", "spot") and not (by_the_month and job.is_service and option.purchase == MONTH):
        return Message("export.part_buys_on_demand", purchase=option.purchase)
    if option.facts.get("is_pseudo_region"):
        return Message("export.part_no_region_named", region=option.region)
    if option.nodes > 1 and not job.is_service:
        return Message("export.part_several_need_launcher")
    if spanning := spans_servers(job):
        return spanning
    if job.settings.bucket and job.settings.bucket.partition("://")[0] != SCHEMES[provider]:
        return Message("export.part_buckets_as", scheme=SCHEMES[provider], bucket=job.settings.bucket)
    return stack_problem(job)
