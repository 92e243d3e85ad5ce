"""dstack: a task or a service on exactly the plan's server, and the fleet that it is placed in."""

from __future__ import annotations

import math
from typing import Any

from rightfit.exports.buckets import BUCKET, COPIER, COPIER_SECRETS, copied
from rightfit.exports.job import Job
from rightfit.exports.model_words import servers_range, spans_servers
from rightfit.exports.quoting import comment, given, shell, to_yaml
from rightfit.exports.registry import Files, Target
from rightfit.exports.skypilot_words import dstack_cards, dstack_name, is_by_the_card, name_problem
from rightfit.exports.stack import driver_problem, installs, key_of, launched, stack_of, stack_problem
from rightfit.exports.waiting import dstack_way, wait_files
from rightfit.messages import Message

BACKENDS = {
    "aws": "aws",
    "azure": "azure",
    "gcp": "gcp",
    "lambda": "lambda",
    "oci": "oci",
    "runpod": "runpod",
    "cudo": "cudo",
    "nebius": "nebius",
    "verda": "verda",
    "vast": "vastai",
    "digitalocean": "digitalocean",
    "crusoe": "crusoe",
    "jarvislabs": "jarvislabs",
    "vultr": "vultr",
}
"""Provider of a plan -> backend of dstack."""
WITH_AMD_DRIVER = ("runpod", "vultr", "digitalocean")
"""Where dstack's documentation names AMD's cards (memory)."""
PSEUDO_REGIONS = ("", "any", "global", "eu", "cheapest-listed")
RETRY_H = 24
IDLE = "1m"  # before a server without a run is given back
_WORDS = {"@rank@": '"$DSTACK_NODE_RANK"', "@nodes@": '"$DSTACK_NODES_NUM"', "@head@": '"$DSTACK_MASTER_NODE_IP"'}


def write(job: Job) -> Files:
    """The run, the fleet that it is placed in, and the stack's files."""
    head = f"# {comment(job.model)}, plan {job.plan_id}: dstack apply -f "
    return {
        "fleet.dstack.yml": f"{head}fleet.dstack.yml (first)\n" + to_yaml(fleet(job)),
        "run.dstack.yml": f"{head}run.dstack.yml\n" + to_yaml(run(job)),
        **stack_of(job).files,
        **wait_files(job, dstack_way(job)),
    }


def server(job: Job) -> dict[str, Any]:
    """The plan's server, in the words that runs and fleets share."""
    option = job.option
    return given(
        resources=given(gpu=_cards(job), disk=f"{job.disk_gib}GB..", shm_size="16GB"),
        backends=[BACKENDS[option.provider]],
        regions=None if option.region in PSEUDO_REGIONS else [option.region],
        instance_types=None if is_by_the_card(option) else [dstack_name(option)],
        spot_policy="spot" if job.is_spot else "on-demand",
    )


def fleet(job: Job) -> dict[str, Any]:
    """A fleet that is empty until the run asks for servers, and empty again behind it. Servers of
    one run stand side by side, on the fast network that the plan counts on."""
    _, most = servers_range(job) if job.is_service else (0, job.num_nodes)
    together = "cluster" if job.num_nodes > 1 and not job.is_service else None
    return given(
        type="fleet",
        name=job.name,
        nodes=f"0..{most}",
        placement=together,
        **{name: value for name, value in server(job).items() if name != "resources"},
        resources={name: value for name, value in server(job)["resources"].items() if name != "shm_size"},
        idle_duration=IDLE,
        tags=job.labels,
    )


def secrets(job: Job) -> tuple[str, ...]:
    """Variables that are read where dstack is called; no file holds them."""
    place = () if job.is_service or job.settings.bucket else (BUCKET,)
    return (*stack_of(job).secrets, *(() if job.is_service else COPIER_SECRETS), *place)


def commands(job: Job) -> list[str]:
    """What prepares the container, and the job."""
    stack = stack_of(job)
    line = shell(launched(stack.command, node_rank="@rank@", num_nodes="@nodes@", head_address="@head@"))
    for mark, word in _WORDS.items():
        line = line.replace(mark, word)
    found = [*installs(stack)]
    return [*found, line] if job.is_service else [*found, f"pip install {COPIER}", copied(job, line)]


def run(job: Job) -> dict[str, Any]:
    """The run as dstack's configuration has it."""
    stack = stack_of(job)
    return given(
        type="service" if job.is_service else "task",
        name=job.name,
        image=stack.image,
        nodes=job.num_nodes if not job.is_service and job.num_nodes > 1 else None,
        working_dir="/job",
        files=[f"{path}:/job/{path}" for path in (*stack.files, *(["model.onnx"] if stack.name == "onnx-service" else []))] or None,
        env=[*(f"{name}={value}" for name, value in stack.environment.items()), *secrets(job)]
        or None,  # a bare name is read where dstack is called
        commands=commands(job),
        **(service(job) if job.is_service else {}),
        fleets=[job.name],
        **server(job),
        retry={"on_events": ["no-capacity", "interruption"], "duration": f"{RETRY_H}h"} if job.is_spot else None,
        max_duration=f"{math.ceil(job.stop_after_h * 60)}m" if job.stop_after_h else None,
        tags=job.labels,
    )


def _cards(job: Job) -> dict[str, Any] | None:
    """How many cards, and which where no instance type says it."""
    if not job.gpus_per_node:
        return None
    return dstack_cards(job.option) if is_by_the_card(job.option) else {"count": job.gpus_per_node}


def service(job: Job) -> dict[str, Any]:
    """Replicas as the plan counts servers, and the rate at which one more is wanted."""
    stack, facts = stack_of(job), job.option.facts
    least, most = servers_range(job)
    rate = float(facts.get("replica_rate_per_s") or 0.0) * job.option.layout.replicas_per_node
    cooldown_s = round(float(job.section("autoscaling").get("cooldown_s") or 600))
    # The program asks for a key of its own: a second one in the same header could not be sent.
    found: dict[str, Any] = {"port": stack.port, "auth": not key_of(stack), "probes": [{"type": "http", "url": stack.health_path}]}
    if most > least and rate > 0:
        scaling = {"metric": "rps", "target": round(rate, 3), "scale_down_delay": f"{cooldown_s}s"}
        return {**found, "replicas": f"{least}..{most}", "scaling": scaling}
    return {**found, "replicas": least}


def _refuses(job: Job) -> Message | str:
    option = job.option
    if option.provider not in BACKENDS:
        return Message("export.dstack_no_provider", provider=option.provider)
    if option.started_as not in ("on-demand", "spot"):
        return Message("export.buys_on_demand", purchase=option.purchase)
    scheme = job.settings.bucket.partition("://")[0]
    if scheme and scheme != "s3" and not job.is_service:
        return Message("export.copies_to_s3_only", scheme=scheme)
    return (
        name_problem(option, dstack_name(option), "dstack")
        or driver_problem(job, "dstack", WITH_AMD_DRIVER)
        or spans_servers(job)
        or stack_problem(job)
    )


TARGET = Target(
    "dstack", "launch", "dstack task or service, with its fleet", write, _refuses, checked_by="dstack's own configuration parser"
)
