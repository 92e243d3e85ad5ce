"""SkyPilot: a task for `sky launch`, a managed spot job for `sky jobs launch`, or a service for `sky serve up`."""

from __future__ import annotations

import math
from typing import Any

from rightfit.export.document import OptionPart
from rightfit.export.job import Job
from rightfit.export.quoting import comment, given, shell, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.serving_words import spans_servers
from rightfit.export.stack import launched, stack_of, stack_problem
from rightfit.export.terraform_words import made_bucket

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
    "digitalocean": "do",
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
LACKS = {
    "lambda": {"spot"},
    "runpod": {"mount", "nodes"},
    "fluidstack": {"spot"},
    "paperspace": {"spot"},
    "cudo": {"spot"},
    "vast": {"mount", "nodes"},
    "ibm": {"ports"},
    "do": {"spot"},
    "verda": {"mount", "nodes", "ports", "stop"},
    "hyperbolic": {"mount", "nodes", "ports", "stop", "spot"},
    "seeweb": {"mount", "nodes", "spot"},
    "primeintellect": {"nodes", "stop"},
    "shadeform": {"mount", "nodes", "spot"},
    "mithril": {"ports"},
    "scp": {"spot"},
    "vsphere": {"nodes", "ports", "spot"},
    "yotta": {"mount", "nodes", "stop", "spot"},
}
"""What SkyPilot 0.14 cannot do on a cloud: mount buckets, several nodes, open ports, stop by itself, spot. Compared with SkyPilot's own table in our tests."""
MOST_ALTERNATIVES = 8
COPY_EVERY_S = 300
COPIER = "awscli==1.42.66"
COPIER_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
PSEUDO_REGIONS = ("", "any", "global", "eu", "cheapest-listed")
BUCKETS = ("s3", "gs", "https")
PURCHASES = ("on-demand", "spot")
LEAST_START_S = 300
START_MARGIN = 3.0  # over the plan's cold start before a replica that does not answer is given up
_RANK, _NODES, _HEAD = '"$SKYPILOT_NODE_RANK"', '"$SKYPILOT_NUM_NODES"', '"$(echo "$SKYPILOT_NODE_IPS" | head -n1)"'


def resources(job: Job) -> dict[str, Any]:
    """The plan's server, or any of it and of those that run the same command: SkyPilot takes the cheapest that it gets."""
    common: dict[str, Any] = {"disk_size": job.disk_gib, "labels": job.labels}
    stack = stack_of(job)
    if stack.port:
        common["ports"] = stack.port
    if job.is_spot and not job.is_service:
        common["job_recovery"] = {"strategy": "EAGER_NEXT_REGION", "max_restarts_on_errors": 3}
    if job.stop_after_h and "stop" not in lacks(job.option.provider):
        common["autostop"] = {"idle_minutes": 15, "down": True}
    found = places(job)
    return {**common, "any_of": found} if len(found) > 1 else {**found[0], **common}


def places(job: Job) -> list[dict[str, Any]]:
    """The plan's server; then the same accelerators in other regions and on other hosts; then the plan's other options that run the same command."""
    option = job.option
    found = [_place(option.provider, option.region, option.instance_type, option.purchase)]
    found += [
        _place(option.provider, other.region, other.instance_type, other.purchase)
        for other in option.alternatives
        if other.purchase in PURCHASES and other.region not in PSEUDO_REGIONS
    ]
    found += [
        _place(other.provider, other.region, other.instance_type, other.purchase)
        for other in job.alternatives
        if runs_the_same(option, other)
    ]
    return [place for number, place in enumerate(found) if place not in found[:number]][: 1 + MOST_ALTERNATIVES]


def lacks(provider: str) -> set[str]:
    """What SkyPilot cannot do there."""
    return LACKS.get(CLOUDS[provider], set())


def runs_the_same(option: OptionPart, other: OptionPart) -> bool:
    """Whether the job's command, written for `option`, is right on `other` too."""
    return (
        other.provider in CLOUDS
        and lacks(other.provider) <= lacks(option.provider)
        and other.purchase in PURCHASES
        # Another accelerator may be cheaper by the hour, which is what SkyPilot chooses by, and dearer by the job.
        and (other.nodes, other.accelerator, other.layout) == (option.nodes, option.accelerator, option.layout)
        and (other.purchase == "spot") == (option.purchase == "spot")
    )


def _place(provider: str, region: str, instance_type: str, purchase: str) -> dict[str, Any]:
    return {
        "infra": CLOUDS[provider] + (f"/{region}" if region not in PSEUDO_REGIONS else ""),
        "instance_type": instance_type,
        "use_spot": purchase == "spot",
    }


def task(job: Job) -> dict[str, Any]:
    """The task as SkyPilot's schema has it."""
    stack = stack_of(job)
    words = launched(stack.command, node_rank="@rank@", num_nodes="@nodes@", head_address="@head@")
    run = shell(words).replace("@rank@", _RANK).replace("@nodes@", _NODES).replace("@head@", _HEAD)
    secrets = (*stack.secrets, *(COPIER_SECRETS if copies(job) else ()))
    body = given(
        name=job.name,
        resources=resources(job),
        num_nodes=None if job.is_service else job.num_nodes,
        envs=dict(stack.environment) or None,
        secrets=dict.fromkeys(secrets) if secrets else None,  # null: given at launch with --secret, never written
        workdir="." if stack.files else None,
        file_mounts={"/checkpoints": checkpoints(job)} if mounts(job) else None,
        setup="\n".join([*stack.setup, *folder(job)]) + "\n",
        run=(copied(job, run) if copies(job) else run) + "\n",
    )
    if job.is_service:
        body["service"] = service(job, stack.health_path)
    return body


def mounts(job: Job) -> bool:
    """Whether checkpoints go to a bucket that SkyPilot mounts."""
    return not job.is_service and "mount" not in lacks(job.option.provider)


def copies(job: Job) -> bool:
    """Whether the job itself copies them to S3, because SkyPilot mounts nothing on that cloud."""
    return not job.is_service and not mounts(job) and job.settings.bucket.startswith("s3://")


def folder(job: Job) -> list[str]:
    """The folder of checkpoints where nothing is mounted there."""
    if job.is_service or mounts(job):
        return []
    made = ['sudo mkdir -p /checkpoints && sudo chown "$(id -u)" /checkpoints']
    return [*made, f"pip install {COPIER}"] if copies(job) else made


def copied(job: Job, run: str) -> str:
    """The command between the return of earlier checkpoints and their copying away, every few minutes and at the end, whatever the end is."""
    bucket = shell([job.settings.bucket.rstrip("/")])
    return (
        f"aws s3 sync {bucket} /checkpoints\n"
        f"(while sleep {COPY_EVERY_S}; do aws s3 sync --quiet /checkpoints {bucket} || true; done) &\n"
        f"status=0\n{run} || status=$?\n"
        f"aws s3 sync /checkpoints {bucket}\nexit $status"
    )


def checkpoints(job: Job) -> dict[str, str]:
    """A bucket as a folder, written through a cache: what a recovered job finds again. Without an address SkyPilot makes one, and keeps it."""
    kept = {"source": job.settings.bucket} if job.settings.bucket else {"name": made_bucket(job)}
    return {**kept, "mode": "MOUNT_CACHED"}


def service(job: Job, health_path: str) -> dict[str, Any]:
    """Replicas as the plan counts them: one of SkyPilot's is one server, which may hold several of the plan's."""
    facts, day = job.option.facts, job.section("autoscaling")
    autoscale = facts.get("autoscale") or {}
    least, most = int(autoscale.get("min_servers") or job.num_nodes), int(autoscale.get("max_servers") or job.num_nodes)
    rate = float(facts.get("replica_rate_per_s") or 0.0) * job.option.layout.replicas_per_node
    policy: dict[str, Any] = {"min_replicas": least}
    if most > least and rate > 0:
        policy |= {"max_replicas": most, "target_qps_per_replica": round(rate, 3)}
        policy |= {"downscale_delay_seconds": round(float(day.get("cooldown_s") or 1200))}
        if job.is_spot:
            policy["dynamic_ondemand_fallback"] = True
    start_s = float((day.get("cold_start") or {}).get("total_s") or 0.0)
    return {
        "readiness_probe": {"path": health_path, "initial_delay_seconds": max(LEAST_START_S, math.ceil(START_MARGIN * start_s))},
        "replica_policy": policy,
    }


def write(job: Job) -> Files:
    """The task, and the stack's own files beside it."""
    return {"task.yaml": header(job) + to_yaml(task(job)), **stack_of(job).files}


def header(job: Job) -> str:
    """How to start it, and what it does not do."""
    start = "sky serve up" if job.is_service else "sky jobs launch" if job.is_spot else "sky launch"
    words = [
        f"# {comment(job.model)}, plan {job.plan_id}: {start} task.yaml" + "".join(f" --secret {name}" for name in stack_of(job).secrets)
    ]
    if not job.is_service and not mounts(job) and not copies(job):
        words.append(
            "# Nothing keeps the checkpoints when the server is taken away: SkyPilot mounts no bucket there. Export with --bucket s3://... to copy them."
        )
    return "\n".join(words) + "\n"


def _refuses(job: Job) -> str:
    option = job.option
    if option.provider not in CLOUDS:
        return f"SkyPilot does not rent on {option.provider}"
    if option.purchase not in PURCHASES:
        return f"it buys on demand or spot, the plan is {option.purchase}"
    missing = lacks(option.provider)
    if job.is_spot and "spot" in missing:
        return f"SkyPilot rents no spot servers on {option.provider}"
    if job.is_service and "ports" in missing:
        return f"SkyPilot opens no ports on {option.provider}"
    if job.num_nodes > 1 and not job.is_service and "nodes" in missing:
        return f"SkyPilot starts no job on several servers of {option.provider}"
    scheme = job.settings.bucket.partition("://")[0]
    if scheme and scheme not in BUCKETS and not job.is_service:
        return f"it mounts buckets given as {', '.join(f'{name}://' for name in BUCKETS)}, not {scheme}://"
    return spans_servers(job) or stack_problem(job)


TARGET = Target(
    "skypilot",
    "launch",
    "SkyPilot task, managed spot job or service",
    write,
    _refuses,
    checked_by="SkyPilot itself: its parser, its optimizer on our prices, and a dry run of sky launch",
)
