"""dstack: a task or a service on exactly the plan's server, and the volume that keeps checkpoints."""

from __future__ import annotations

import math
from typing import Any

from rightfit.export.job import Job
from rightfit.export.quoting import comment, given, shell, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.serving_words import spans_servers
from rightfit.export.stack import launched, stack_of, stack_problem

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
WITH_VOLUMES = ("aws", "gcp", "runpod")
PSEUDO_REGIONS = ("", "any", "global", "eu", "cheapest-listed")
RETRY_H = 24
_WORDS = {"@rank@": '"$DSTACK_NODE_RANK"', "@nodes@": '"$DSTACK_NODES_NUM"', "@head@": '"$DSTACK_MASTER_NODE_IP"'}


def write(job: Job) -> Files:
    """The run, the volume where there is one, and the stack's files."""
    head = f"# {comment(job.model)}, plan {job.plan_id}: dstack apply -f "
    files = {"run.dstack.yml": head + "run.dstack.yml\n" + to_yaml(run(job)), **stack_of(job).files}
    return {"volume.dstack.yml": head + "volume.dstack.yml (first)\n" + to_yaml(volume(job)), **files} if has_volume(job) else files


def has_volume(job: Job) -> bool:
    """Whether a volume keeps the checkpoints: one server's only, in one region."""
    option = job.option
    return not job.is_service and job.num_nodes == 1 and option.provider in WITH_VOLUMES and option.region not in PSEUDO_REGIONS


def volume_name(job: Job) -> str:
    """The same for the same plan, so that a run that was taken away finds it again."""
    return f"{job.name[:27]}-{job.plan_id}"


def volume(job: Job) -> dict[str, Any]:
    """A network volume of the plan's size."""
    backend = BACKENDS[job.option.provider]
    return {
        "type": "volume",
        "name": volume_name(job),
        "backend": backend,
        "region": job.option.region,
        "size": f"{job.disk_gib}GB",
        "tags": job.labels,
    }


def commands(job: Job) -> list[str]:
    """What prepares the container, and the job."""
    stack = stack_of(job)
    line = shell(launched(stack.command, node_rank="@rank@", num_nodes="@nodes@", head_address="@head@"))
    for mark, word in _WORDS.items():
        line = line.replace(mark, word)
    return [*(words for words in stack.setup if words.startswith("pip ")), line]


def run(job: Job) -> dict[str, Any]:
    """The run as dstack's configuration has it."""
    stack, option = stack_of(job), job.option
    return given(
        type="service" if job.is_service else "task",
        name=job.name,
        image=stack.image,
        nodes=job.num_nodes if not job.is_service and job.num_nodes > 1 else None,
        working_dir="/job",
        files=[f"{path}:/job/{path}" for path in stack.files] or None,
        env=[*(f"{name}={value}" for name, value in stack.environment.items()), *stack.secrets]
        or None,  # a bare name is read where dstack is called
        commands=commands(job),
        **(service(job) if job.is_service else {}),
        volumes=[f"{volume_name(job)}:/checkpoints"] if has_volume(job) else None,
        resources=given(gpu={"count": job.gpus_per_node} if job.gpus_per_node else None, disk=f"{job.disk_gib}GB..", shm_size="16GB"),
        backends=[BACKENDS[option.provider]],
        regions=None if option.region in PSEUDO_REGIONS else [option.region],
        instance_types=[option.instance_type],
        spot_policy="spot" if job.is_spot else "on-demand",
        retry={"on_events": ["no-capacity", "interruption"], "duration": f"{RETRY_H}h"} if job.is_spot else None,
        max_duration=f"{math.ceil(job.stop_after_h * 60)}m" if job.stop_after_h else None,
        tags=job.labels,
    )


def service(job: Job) -> dict[str, Any]:
    """Replicas as the plan counts servers, and the rate at which one more is wanted."""
    stack, facts = stack_of(job), job.option.facts
    autoscale = facts.get("autoscale") or {}
    least, most = int(autoscale.get("min_servers") or job.num_nodes), int(autoscale.get("max_servers") or job.num_nodes)
    rate = float(facts.get("replica_rate_per_s") or 0.0) * job.option.layout.replicas_per_node
    cooldown_s = round(float(job.section("autoscaling").get("cooldown_s") or 600))
    found: dict[str, Any] = {"port": stack.port, "probes": [{"type": "http", "url": stack.health_path}]}
    if most > least and rate > 0:
        scaling = {"metric": "rps", "target": round(rate, 3), "scale_down_delay": f"{cooldown_s}s"}
        return {**found, "replicas": f"{least}..{most}", "scaling": scaling}
    return {**found, "replicas": least}


def _refuses(job: Job) -> str:
    option = job.option
    if option.provider not in BACKENDS:
        return f"dstack does not rent on {option.provider}"
    if option.purchase not in ("on-demand", "spot"):
        return f"it buys on demand or spot, the plan is {option.purchase}"
    return spans_servers(job) or stack_problem(job)


TARGET = Target(
    "dstack", "launch", "dstack task or service, with its volume", write, _refuses, checked_by="dstack's own configuration parser"
)
