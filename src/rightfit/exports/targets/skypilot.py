"""SkyPilot: a task for `sky launch`, a managed spot job for `sky jobs launch`, or a service
for `sky serve up`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rightfit.exports.buckets import BUCKET_FILE, bucket_script, copied
from rightfit.exports.job import Job, OptionPart
from rightfit.exports.locks import CONSTRAINTS
from rightfit.exports.model_words import group_problem, servers_of_replica, servers_range
from rightfit.exports.quoting import comment, given, shell, to_yaml
from rightfit.exports.registry import Files, Target
from rightfit.exports.skypilot_words import (
    CLOUDS,
    MOST_RESTARTS,
    MOUNTED,
    STORES,
    address_problem,
    bucket_is_made,
    bucket_is_told,
    bucket_region,
    bucket_variables,
    controller_words,
    copies,
    folder,
    kept_address,
    lacks,
    mounts,
    name_problem,
    secrets,
    skypilot_name,
    source,
)
from rightfit.exports.stack import ExportStack, driver_problem, key_of, launched, setup_files, stack_of, stack_problem
from rightfit.messages import Message

MOST_ALTERNATIVES = 8
KILL_AFTER_S = 300  # from being told to stop: a last checkpoint is written
WITH_AMD_DRIVER = ("runpod",)
"""Where SkyPilot starts in the seller's own container. To its own images of servers, and to the
containers that it starts there, it gives NVIDIA's driver and devices alone (sky/clouds/azure.py,
sky/provision/docker_utils.py at 0052610)."""
FAST = ("aws", "gcp", "nebius", "oci")
"""Clouds whose fast network between servers SkyPilot turns on (network_tier)."""
PSEUDO_REGIONS = ("", "any", "global", "eu", "cheapest-listed")
PURCHASES = ("on-demand", "spot")
LEAST_START_S = 300
PROBE, RECORD = 'pip install "$RIGHTFIT_PACKAGE"', "/checkpoints/run.json"
PACKAGE = {"RIGHTFIT_PACKAGE": "rightfit[measure]"}  # another wheel: sky launch --env RIGHTFIT_PACKAGE=ADDRESS
START_MARGIN = 3.0  # over the plan's cold start before a replica that does not answer is given up
_RANK, _NODES, _HEAD = '"$SKYPILOT_NODE_RANK"', '"$SKYPILOT_NUM_NODES"', '"$(echo "$SKYPILOT_NODE_IPS" | head -n1)"'


def resources(job: Job) -> dict[str, Any]:
    """The plan's server, then those that run the same command, in this order: of several that it
    may choose from, SkyPilot would take the one listed cheapest, which need not be the plan's."""
    common: dict[str, Any] = {"disk_size": job.disk_gib, "labels": job.labels}
    stack = stack_of(job)
    if stack.port:
        common["ports"] = stack.port
    if any(line.startswith("docker pull") for line in stack.setup):
        common["image_id"] = f"docker:{stack.image}"  # the program is had as an image alone
    if job.is_spot and not job.is_service:
        common["job_recovery"] = {"strategy": "EAGER_NEXT_REGION", "max_restarts_on_errors": MOST_RESTARTS}
    if job.stop_after_h and "stop" not in lacks(job.option.provider):
        common["autostop"] = {"idle_minutes": 15, "down": True}
    if are_joined(job) and job.gpus_per_node and job.option.provider in FAST:
        common["network_tier"] = "best"  # the plan counts the speed of EFA, GPUDirect or InfiniBand
    found = places(job)
    return {**common, "ordered": found} if len(found) > 1 else {**found[0], **common}


def are_joined(job: Job) -> bool:
    """Whether several servers work as one."""
    return (job.num_nodes > 1 and not job.is_service) or servers_of_replica(job) > 1


def places(job: Job) -> list[dict[str, Any]]:
    """The plan's server; then the same accelerators in other regions and on other hosts; then the
    plan's other options that run the same command. Servers that work as one stay of one type:
    another host may lack the network that the plan counts on."""
    option = job.option
    types = {option.instance_type} if are_joined(job) else {option.instance_type, *(other.instance_type for other in option.alternatives)}
    found = [_place(option.provider, option.region, skypilot_name(option), option.purchase)]
    found += [
        _place(option.provider, other.region, skypilot_name(option, other.instance_type), other.purchase)
        for other in option.alternatives
        if other.purchase in PURCHASES and other.region not in PSEUDO_REGIONS and other.instance_type in types
    ]
    found += [
        _place(other.provider, other.region, skypilot_name(other), other.purchase)
        for other in job.alternatives
        if runs_the_same(option, other) and (not are_joined(job) or other.instance_type in types)
    ]
    return [place for number, place in enumerate(found) if place not in found[:number]][: 1 + MOST_ALTERNATIVES]


def runs_the_same(option: OptionPart, other: OptionPart) -> bool:
    """Whether the job's command, written for `option`, is right on `other` too."""
    return (
        other.provider in CLOUDS
        and skypilot_name(other) != ""
        and lacks(other.provider) <= lacks(option.provider)
        and other.purchase in PURCHASES
        # Another accelerator may be cheaper by the hour, which is what SkyPilot chooses by, and
        # dearer by the job.
        and (other.nodes, other.accelerator, other.layout) == (option.nodes, option.accelerator, option.layout)
        and (other.purchase == "spot") == (option.purchase == "spot")
    )


def _place(provider: str, region: str, instance_type: str, purchase: str) -> dict[str, Any]:
    return {
        "infra": CLOUDS[provider] + (f"/{region}" if region not in PSEUDO_REGIONS else ""),
        "instance_type": instance_type,
        "use_spot": purchase == "spot",
    }


PYTHON = "3.12"
MADE = f'pip install uv && {{ [ -d "$HOME/job-env" ] || uv venv --quiet --seed --python {PYTHON} "$HOME/job-env"; }}'
ENTER = '. "$HOME/job-env/bin/activate"'
"""The Python of SkyPilot's images is older than what the newest engines ask for: an environment
with one of the job's own."""


def task(job: Job, *, mounted: bool = True) -> dict[str, Any]:
    """The task as SkyPilot's schema has it. Without `mounted` for a dry run before there is a
    bucket: SkyPilot looks for it then too."""
    stack = stack_of(job)
    words = launched(
        probed(job, stack.command) if job.settings.trial else stack.command, node_rank="@rank@", num_nodes="@nodes@", head_address="@head@"
    )
    run = limited(job, shell(words).replace("@rank@", _RANK).replace("@nodes@", _NODES).replace("@head@", _HEAD))
    packages = [line for line in stack.setup if line.startswith("pip ")]
    entered = [MADE, ENTER, *lock_lines(stack)] if packages else []
    envs: dict[str, str | None] = {**stack.environment, **(PACKAGE if job.settings.trial else {})}
    if bucket_is_told(job):
        # SkyPilot starts nothing before they are given with --env: what is made would be lost
        envs |= dict.fromkeys(bucket_variables(job))
    body = given(
        name=job.name,
        resources=resources(job),
        num_nodes=(servers_of_replica(job) if servers_of_replica(job) > 1 else None) if job.is_service else job.num_nodes,
        envs=envs or None,
        secrets=dict.fromkeys(secrets(job)) or None,  # null: given at launch with --secret, never written
        workdir="." if stack.files else None,
        file_mounts={MOUNTED: {"source": source(job), "mode": "MOUNT_CACHED"}} if mounted and mounts(job) else None,
        setup="\n".join([*entered, *packages, *([PROBE] if job.settings.trial else []), *folder(job)]) + "\n",
        run=(f"{ENTER}\n" if packages else "") + (copied(job, run) if copies(job) else run) + "\n",
    )
    if job.is_service:
        body["service"] = service(job, stack.health_path)
    return body


def lock_lines(stack: ExportStack) -> list[str]:
    """Lines that write the lock of a program that brings no files: a folder to carry it would ask
    for a bucket."""
    lock = "" if CONSTRAINTS in stack.files else setup_files(stack).get(CONSTRAINTS, "")
    return [f"cat > {CONSTRAINTS} <<'EOF'\n{lock}EOF"] if lock else []


def limited(job: Job, run: str) -> str:
    """The command within the time of the run. A managed job is started again after a lost server
    and after errors, running out of time among them: its clock goes on from its first start, by a
    file beside its checkpoints, and the last starts find no time left."""
    if not job.stop_after_h:
        return run
    most, words = round(job.stop_after_h * 3600), f"timeout --signal=TERM --kill-after={KILL_AFTER_S}"
    if job.is_service or not job.is_spot:
        return f"{words} {most} {run}"
    return (
        "(\n"
        'begun="/checkpoints/begun-$(printf %s "${SKYPILOT_TASK_ID:-}" | tr -c A-Za-z0-9._- -)"\n'
        '[ -s "$begun" ] || date +%s > "$begun"\n'
        f'left=$(({most} + $(cat "$begun") - $(date +%s)))\n'
        '[ "$left" -gt 0 ] || { echo "the time of this run is over: start it anew to go on from its last checkpoint" >&2; exit 124; }\n'
        f'{words} "$left" {run}\n'
        ")"
    )


def probed(job: Job, command: Sequence[str]) -> tuple[str, ...]:
    """The command of a trial: measured until its step time has settled; the record lies
    with the checkpoints."""
    layout = job.option.layout
    known = {
        "model": job.model,
        "method": layout.method,
        "gpu": job.accelerator,
        "n_gpus": str(job.num_gpus),
        "precision": layout.precision,
    }
    pairs = [word for name, value in known.items() if value for word in ("--set", f"{name}={value}")]
    return ("rightfit", "probe", "--stop-when-stable", "--out", RECORD, *pairs, "--", *command)


def service(job: Job, health_path: str) -> dict[str, Any]:
    """Replicas as the plan counts them: one of SkyPilot's is one server, which may hold
    several of the plan's."""
    facts, day = job.option.facts, job.section("autoscaling")
    # A replica of SkyPilot's is the servers of one group where one of the plan's spans several.
    least, most = (max(1, servers // servers_of_replica(job)) for servers in servers_range(job))
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
    made = {BUCKET_FILE: bucket_script(job, bucket_region(job))} if bucket_is_made(job) else {}
    return {"task.yaml": header(job) + to_yaml(task(job)), **stack_of(job).files, **made}


def write_unmounted(job: Job) -> Files:
    """The same without the bucket, for a dry run before there is one."""
    return {**write(job), "task.yaml": header(job) + to_yaml(task(job, mounted=False))}


def header(job: Job) -> str:
    """What it is, and where what it makes stays."""
    kept = kept_address(job)
    words = [f"# {comment(job.model)}, plan {job.plan_id}: README.md of the whole export says how to start it"]
    if job.is_service:
        words.append(
            f"# Its port is open to everyone, without TLS: whoever sends the key {key_of(stack_of(job))} is answered. For one network only use a terraform target."
        )
    else:
        words.append(f"# What it makes is kept in {comment(kept)}; the server is deleted when the job ends.")
    if found := controller_words(job):
        words.append(f"# {found}.")
    return "\n".join(words) + "\n"


def _refuses(job: Job) -> Message | str:
    option = job.option
    if option.provider not in CLOUDS:
        return Message("export.skypilot_no_provider", provider=option.provider)
    if option.started_as not in PURCHASES:
        return Message("export.buys_on_demand", purchase=option.purchase)
    if problem := name_problem(option, skypilot_name(option), "SkyPilot") or driver_problem(job, "SkyPilot", WITH_AMD_DRIVER):
        return problem
    missing = lacks(option.provider)
    if job.is_spot and "spot" in missing:
        return Message("export.skypilot_no_spot", provider=option.provider)
    if job.is_service and "ports" in missing:
        return Message("export.skypilot_no_ports", provider=option.provider)
    if (job.num_nodes > 1 if not job.is_service else servers_of_replica(job) > 1) and "nodes" in missing:
        return Message("export.skypilot_one_server", provider=option.provider)
    scheme = job.settings.bucket.partition("://")[0]
    if scheme and scheme != "s3" and copies(job):
        return Message("export.skypilot_no_bucket", provider=option.provider, scheme=scheme)
    if scheme and scheme not in STORES and not job.is_service:
        return Message("export.mounts_buckets", known=", ".join(f"{name}://" for name in STORES), scheme=scheme)
    if mounts(job) and not bucket_is_told(job) and (problem := address_problem(job.settings.bucket)):
        return problem
    if found := group_problem(job) or stack_problem(job):
        return found
    if job.is_service and not key_of(stack_of(job)):
        return Message("export.skypilot_port", engine=option.layout.engine)
    return ""


TARGET = Target(
    "skypilot",
    "launch",
    "SkyPilot task, managed spot job or service",
    write,
    _refuses,
    checked_by="SkyPilot itself: its parser, its optimizer on our prices, and a dry run of sky launch",
)
