"""What the Terraform folders of all clouds share: variables with their checks, what a bare server is told at its first boot, and what
cannot be expressed."""

from __future__ import annotations

from collections.abc import Mapping

from rightfit.export.buckets import BUCKET
from rightfit.export.job import Job
from rightfit.export.quoting import hcl
from rightfit.export.serving_words import spans_servers
from rightfit.export.stack import stack_problem
from rightfit.export.waiting import RUN, RUN_FILE, TOKEN, TOKEN_FILE
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


def variables(
    job: Job, *further: str, bucket: str | None = None, about: str = "Bucket (and path) of yours for checkpoints; empty makes one."
) -> str:
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
                about,
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


def made_bucket(job: Job, account: str) -> str:
    """A Terraform template: name of the bucket that is made where none was given. The same for the same plan in the same account, and another's in another:
    names of buckets are one list for all the world. `account`: an expression."""
    return f"{job.name}-{job.plan_id}-${{{account_hash(account)}}}"


ACCOUNT_DIGITS = 8


def account_hash(account: str) -> str:
    """A Terraform expression."""
    return f"substr(sha256({account}), 0, {ACCOUNT_DIGITS})"


RUN_LOCALS = f"""
locals {{
  run   = fileexists("${{path.module}}/{RUN_FILE}") ? trimspace(file("${{path.module}}/{RUN_FILE}")) : "" # sh wait.sh new
  token = fileexists("${{path.module}}/{TOKEN_FILE}") ? "yes" : "no"
}}
"""


def run_words(job: Job) -> str:
    """Blocks: which run it is, and whether the optional token was stored. A new run gets a new server, also where the first one's still lies there."""
    change = (
        ""
        if job.is_service
        else """
resource "terraform_data" "run" {
  input = local.run
}
"""
    )
    return RUN_LOCALS + change


def replaced(job: Job, **more: str) -> str:
    """The lifecycle block of a server. `more`: further attributes, as expressions."""
    found = {**more, **({} if job.is_service else {"replace_triggered_by": "[terraform_data.run]"})}
    width = max(map(len, found), default=0)
    return "\n  lifecycle {\n" + "".join(f"    {name:<{width}} = {value}\n" for name, value in found.items()) + "  }\n" if found else ""


def user_data(job: Job, *, bucket: str, before: tuple[str, ...] = ()) -> str:
    """A Terraform expression: the first boot's script, and before it what only whoever starts the server knows. `bucket`: an expression; `before`: further
    templates of lines."""
    told = [*before, f"export {TOKEN}='${{local.token}}'"]
    told += [] if job.is_service else [f"export {BUCKET}='${{{bucket}}}'", f"export {RUN}='${{local.run}}'"]
    parts = ", ".join(f'"{line}"' for line in ("#!/bin/bash", *told))
    return f'join("\\n", [{parts}, file("${{path.module}}/first-boot.sh")])'


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
