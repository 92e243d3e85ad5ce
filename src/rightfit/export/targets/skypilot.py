"""SkyPilot: a task for `sky launch`, a managed spot job for `sky jobs launch`, or a service for `sky serve up`."""

from __future__ import annotations

from typing import Any

from rightfit.export.document import OptionPart
from rightfit.export.job import Job
from rightfit.export.quoting import given, shell, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.stack import launched, stack_of, stack_problem

CLOUDS = {
    "aws": "aws",
    "azure": "azure",
    "gcp": "gcp",
    "lambda": "lambda",
    "oci": "oci",
    "runpod": "runpod",
    "fluidstack": "fluidstack",
    "paperspace": "paperspace",
    "cudo": "cudo",
    "vast": "vast",
    "nebius": "nebius",
    "ibm": "ibm",
    "do": "do",
    "verda": "verda",
    "hyperbolic": "hyperbolic",
    "seeweb": "seeweb",
    "primeintellect": "primeintellect",
    "shadeform": "shadeform",
    "mithril": "mithril",
    "scp": "scp",
    "vsphere": "vsphere",
    "yotta": "yotta",
}
MOST_ALTERNATIVES = 4
_RANK, _NODES, _HEAD = '"$SKYPILOT_NODE_RANK"', '"$SKYPILOT_NUM_NODES"', '"$(echo "$SKYPILOT_NODE_IPS" | head -n1)"'


def resources(job: Job) -> dict[str, Any]:
    """The plan's server, and where the plan has others of the same kind of purchase, those after it in its order."""
    same = [other for other in job.alternatives if runs_the_same(job.option, other)][:MOST_ALTERNATIVES]
    first = _place(job.option)
    common: dict[str, Any] = {"disk_size": job.disk_gib, "labels": job.labels}
    stack = stack_of(job)
    if stack.port:
        common["ports"] = stack.port
    if job.is_spot and not job.is_service:
        common["job_recovery"] = {"strategy": "FAILOVER", "max_restarts_on_errors": 3}
    if job.stop_after_h:
        common["autostop"] = {"idle_minutes": 15, "down": True}
    return {**common, "any_of": [first, *[_place(other) for other in same]]} if same else {**first, **common}


def runs_the_same(option: OptionPart, other: OptionPart) -> bool:
    """Whether the job's command, written for `option`, is right on `other` too."""
    return (
        other.provider in CLOUDS
        and (other.nodes, other.accelerator.count_per_node, other.layout)
        == (option.nodes, option.accelerator.count_per_node, option.layout)
        and (other.purchase == "spot") == (option.purchase == "spot")
    )


def _place(option: OptionPart) -> dict[str, Any]:
    return {
        "infra": CLOUDS[option.provider] + (f"/{option.region}" if option.region not in ("any", "") else ""),
        "instance_type": option.instance_type,
        "use_spot": option.purchase == "spot",
    }


def task(job: Job) -> dict[str, Any]:
    """The task as SkyPilot's schema has it."""
    stack = stack_of(job)
    words = launched(stack.command, node_rank="@rank@", num_nodes="@nodes@", head_address="@head@")
    run = shell(words).replace("@rank@", _RANK).replace("@nodes@", _NODES).replace("@head@", _HEAD)
    mounts = {"/checkpoints": {"source": job.settings.bucket, "mode": "MOUNT"}} if job.settings.bucket and not job.is_service else None
    body = given(
        name=job.name,
        resources=resources(job),
        num_nodes=None if job.is_service else job.num_nodes,
        envs=dict(stack.environment) or None,
        secrets=dict.fromkeys(stack.secrets) if stack.secrets else None,  # null: given at launch with --secret, never written
        workdir="." if stack.files else None,
        file_mounts=mounts,
        setup="\n".join(stack.setup) + "\n",
        run=run + "\n",
    )
    if job.is_service:
        body["service"] = service(job, stack.health_path)
    return body


def service(job: Job, health_path: str) -> dict[str, Any]:
    """Replicas as the plan counts them: one of SkyPilot's is one server (or one group of servers), which may hold several of the plan's."""
    autoscale = job.option.facts.get("autoscale") or {}
    least, most = int(autoscale.get("min_servers") or job.num_nodes), int(autoscale.get("max_servers") or job.num_nodes)
    rate = float(job.option.facts.get("replica_rate_per_s") or 0.0)
    policy: dict[str, Any] = {"min_replicas": least}
    if most > least and rate > 0:
        policy |= {"max_replicas": most, "target_qps_per_replica": round(rate, 3)}
    return {"readiness_probe": {"path": health_path, "initial_delay_seconds": 1200}, "replica_policy": policy}


def write(job: Job) -> Files:
    """The task, and the stack's own files beside it."""
    stack = stack_of(job)
    return {"task.yaml": to_yaml(task(job)), **stack.files}


def _refuses(job: Job) -> str:
    if job.option.provider not in CLOUDS:
        return f"SkyPilot does not rent on {job.option.provider}"
    return stack_problem(job)


TARGET = Target(
    "skypilot", "launch", "SkyPilot task, managed spot job or service", write, _refuses, checked_by="the schemas of SkyPilot itself"
)
