"""Slurm: a batch script that starts the stack on the plan's nodes."""

from __future__ import annotations

import math
from importlib import resources
from typing import Any

from rightfit.exports.buckets import place_of
from rightfit.exports.job import GIB, Job
from rightfit.exports.kubernetes_words import (
    SECURITY,
    WEIGHTS,
    checkpoint_objects,
    environment,
    gpus_of_replica,
    metadata,
    placement,
    pod_metadata,
    queue_of,
    queued,
    replicas_range,
    shared_gib,
    volumes_of,
    weights_volumes,
)
from rightfit.exports.kubernetes_words import resources as share_of_server
from rightfit.exports.locks import LOCKED
from rightfit.exports.model_words import class_names, hub_id, image_of, longest_start_s, servers_of_replica, spans_servers, wrong_engine
from rightfit.exports.quoting import comment, given, shell, to_json, to_yaml
from rightfit.exports.registry import Files, Target
from rightfit.exports.stack import ExportStack, launched, setup_files, stack_of, stack_problem
from rightfit.exports.targets import kubernetes_addons, llm_servers
from rightfit.exports.training_words import FOLDER, MOVED, WITHOUT_MOUNT, workers
from rightfit.exports.waiting import cluster_way, ready_files, wait_files
from rightfit.facts.engine_releases import images, model_class, numbers
from rightfit.messages import Message


def time_limit(job: Job) -> str:
    """[D-]HH:MM:SS: the hours after which the job is stopped, and before them what it installs
    and fetches; two weeks for a service."""
    hours = job.stop_after_h or 14 * 24
    minutes = math.ceil(hours * 60 + (0 if job.is_service else max(INSTALL_S, longest_start_s(job)) / 60))
    days, rest = divmod(minutes, 24 * 60)
    return (f"{days}-" if days else "") + f"{rest // 60:02d}:{rest % 60:02d}:00"


INSTALL_S = 1200
"""Of packages into an environment on a folder that all nodes see, and of weights."""
LEAVE_S = 180
"""Before the end of its time the job is told to keep a last checkpoint, and is queued again."""
MOST_TIMES = 3
"""So often."""
BY_USR1 = 138
CPUS_BESIDE = 2
"""Processors of a GPU beside its loaders: the program itself, and what copies."""
MEMORY_MARGIN, LEAST_MEMORY_GIB = 1.25, 8


def cpus(job: Job) -> int:
    """Processors of a node's task: what its loaders need. A cluster's nodes have others than the
    cloud's server, and a job that asks for those of a whole server may never start."""
    return (workers(job) + CPUS_BESIDE) * job.gpus_per_node if job.gpus_per_node else int(job.option.vcpus or 0)


def memory_gib(job: Job) -> int:
    """Memory of a node: the plan's; of a plan that has no figure of it, that of its server."""
    needed = job.option.estimate.get("host_memory_bytes")
    taken = needed.high80 * MEMORY_MARGIN if needed else float(job.option.memory_bytes or 0.0)
    return max(LEAST_MEMORY_GIB, math.ceil(taken / GIB)) if taken else 0


def directives(job: Job) -> dict[str, str]:
    """What stands behind #SBATCH. Names are those of ExportSettings: letters,
    digits and hyphens."""
    found = {"job-name": job.name, "nodes": str(job.num_nodes), "ntasks-per-node": "1", "time": time_limit(job), "output": "%x-%j.log"}
    if job.gpus_per_node:
        found["gpus-per-node"] = str(job.gpus_per_node)
    found |= {name: value for name, value in {"cpus-per-task": str(cpus(job)), "mem": f"{memory_gib(job)}G"}.items() if value[0] != "0"}
    found["comment"] = f"rightfit-{job.plan_id}"
    return found | ({"requeue": "", "open-mode": "append", "signal": f"B:USR1@{LEAVE_S}"} if not job.is_service else {})


CHANGED = (
    "# Other nodes, without a change here: options of sbatch (--partition, --time, --cpus-per-task, --mem), or its variables before it, as\n"
    "# export SBATCH_PARTITION=gpu SBATCH_TIMELIMIT=1-0{kind}\n"
)


def started(job: Job, line: str) -> str:
    """Shell lines that start the command on every node. A run that its time ends is told so, keeps
    a last checkpoint, and waits in the queue once more to go on from it."""
    share = '${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"}'  # srun does not take it over since Slurm 22.05
    step = f"srun {share} --kill-on-bad-exit=1 bash -c {shell([f'exec {line}'])}"
    if job.is_service:
        return f"{step}\n"
    return (
        f'{step} &\nstep=$!\nleft=""\ntrap \'left=1; kill -TERM "$step"\' USR1\n'
        f'status={BY_USR1}\nwhile [ "$status" = {BY_USR1} ]; do status=0; wait "$step" || status=$?; done # what USR1 ends is the wait\n'
        f'if [ -n "$left" ] && [ "$status" != 0 ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {MOST_TIMES} ]; then\n'
        '  echo "its time is over: queued again, to go on from its last checkpoint" >&2\n'
        '  scontrol requeue "$SLURM_JOB_ID"\n'
        "fi\n"
        'exit "$status"\n'
    )


NODE_VARIABLES = {"{node_rank}": "$SLURM_NODEID", "{num_nodes}": "$SLURM_NNODES", "{head_address}": "$head_address"}
LEAST_PYTHON = (3, 10)
"""What the scripts and their packages run on."""


def python_check(stack: ExportStack) -> str:
    """A line that ends the job at once where the cluster's Python is too old for its packages."""
    if not any(line.startswith("pip ") for line in stack.setup):
        return ""
    least = ".".join(map(str, LEAST_PYTHON))
    said = f'echo "Python {least} or later is needed: module load python" >&2'
    return f"python3 -c 'import sys; sys.exit(sys.version_info < {LEAST_PYTHON})' || {{ {said}; exit 1; }}\n"


def slurm_write(job: Job) -> Files:
    """The batch script and the stack's files."""
    stack = stack_of(job)
    line = shell(stack.command, {**NODE_VARIABLES, **WITHOUT_MOUNT})
    settings = "\n".join(f"#SBATCH --{name}{'=' + value if value else ''}" for name, value in directives(job).items())
    wanted = "".join(f': "${{{name}:?set {name} before sbatch}}"\n' for name in stack.secrets if name != "HF_TOKEN")
    exports = "".join(f"export {name}={shell([value], WITHOUT_MOUNT)}\n" for name, value in stack.environment.items())
    kind = f" SBATCH_GPUS_PER_NODE=KIND:{job.gpus_per_node}   # KIND as sinfo -o %G names it" if job.gpus_per_node else ""
    text = (
        f"#!/bin/bash\n{settings}\n# {comment(job.model)}, plan {job.plan_id}: {job.num_nodes} x {job.gpus_per_node} {comment(job.accelerator) or 'processors'}.\n"
        f"{CHANGED.format(kind=kind)}"
        f"set -euo pipefail\n{python_check(stack)}{wanted}{placed(job)}{exports}{slurm_environment(job)}"
        'head_address=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
        "export head_address\n"
        f"{started(job, line)}"
    )
    return {"job.sbatch": text, **setup_files(stack)}


def placed(job: Job) -> str:
    """Shell lines that write the plan's own files with the cluster's folder in the place of
    /checkpoints, into a folder of this plan's own, and go there."""
    if job.is_service:
        return ""
    return (
        f': "${{{FOLDER}:?set {FOLDER} to a folder that all nodes see, with room for data and checkpoints}}"\n'
        f'work="${FOLDER}/{place_of(job)}.job"\n'
        'mkdir -p "$work"\n'
        'cp -r "${SLURM_SUBMIT_DIR:-.}/." "$work"\n'
        f'cd "$work"\n{MOVED}'
    )


def slurm_environment(job: Job) -> str:
    """Shell lines that make the stack's Python environment once, unless one is active; a module or
    container of the cluster goes before them."""
    lines = [line for line in stack_of(job).setup if line.startswith("pip ")]
    if not lines:
        return ""
    made = " && ".join(["python3 -m venv env", *(f"env/bin/{line}" for line in lines), "touch env/.whole"])
    return f'if [ -z "${{VIRTUAL_ENV:-}}" ]; then\n  [ -e env/.whole ] || {{ {made}; }}\n  . env/bin/activate\nfi\n'


SLURM = Target(
    "slurm",
    "launch",
    "Slurm batch script",
    slurm_write,
    lambda job: spans_servers(job) or stack_problem(job),
    checked_by="shellcheck, and a run with stand-ins for srun and scontrol",
)


# ---- Ray on Kubernetes: a RayJob that starts the stack's command on every node of a run, or a
# RayService of vLLM with the plan's limits.

RUN, SERVICE = "ray", "ray-llm"
VERSION = images(RUN)[0].version
MARKS = {"node_rank": "{node_rank}", "num_nodes": "{num_nodes}", "head_address": "{head_address}"}
PROGRAM = "run_on_nodes.py"
HEAD_GIB = 8
API = "ray.io/v1"


def program() -> str:
    """The script that starts a command on every node, the same for every plan."""
    return resources.files("rightfit.exports").joinpath(f"scripts/{PROGRAM}").read_text(encoding="utf-8")


def settings(job: Job) -> dict[str, Any]:
    """What nodes.json holds."""
    stack = stack_of(job)
    return {
        "plan": job.plan_id,
        "nodes": job.num_nodes,
        "gpus_per_node": job.gpus_per_node,
        "setup": [
            line.replace(LOCKED, "pip install ") for line in stack.setup if line.startswith("pip ")
        ],  # the image has its own releases
        "command": list(launched(stack.command, **MARKS)),
    }


def pod(job: Job, *, role: str, image: str, cards: bool) -> dict[str, Any]:
    """A pod of the cluster; the operator adds `ray start`. A head without cards
    only keeps the books."""
    stack = stack_of(job)
    small = {"requests": {"cpu": "2", "memory": f"{HEAD_GIB}Gi"}, "limits": {"memory": f"{HEAD_GIB}Gi"}}
    volumes = (
        volumes_of(job)
        if not job.is_service
        else [{"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": f"{shared_gib(job)}Gi"}}, *weights_volumes(job)]
    )
    folders: dict[Any, str] = {"memory": "/dev/shm", "files": "/job", "checkpoints": "/checkpoints", "weights": WEIGHTS}  # noqa: S108  shared memory
    main = given(
        name=f"ray-{role}",
        image=image,
        env=environment(job, stack) or None,
        resources=share_of_server(job) if cards else small,
        volumeMounts=[{"name": volume["name"], "mountPath": folders[volume["name"]]} for volume in volumes],
        securityContext={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    )
    place = placement(job) if cards else {}
    return {
        "metadata": pod_metadata(job),
        "spec": {"automountServiceAccountToken": False, "securityContext": SECURITY, "containers": [main], "volumes": volumes, **place},
    }


def run_objects(job: Job) -> list[dict[str, Any]]:
    """A RayJob: the head is the first server, the workers are the others."""
    head = {"rayStartParams": {}, "template": pod(job, role="head", image=image_of(RUN, job), cards=True)}
    others = job.num_nodes - 1
    workers = [
        {
            "groupName": "workers",
            "replicas": others,
            "minReplicas": others,
            "maxReplicas": others,
            "rayStartParams": {},
            "template": pod(job, role="worker", image=image_of(RUN, job), cards=True),
        }
    ]
    files = {**stack_of(job).files, PROGRAM: program(), "nodes.json": to_json(settings(job))}
    run = {
        "apiVersion": API,
        "kind": "RayJob",
        "metadata": queued(job, pods=job.num_nodes),
        "spec": given(
            entrypoint=f"python /job/{PROGRAM} /job/nodes.json",
            submissionMode="K8sJobMode",
            shutdownAfterJobFinishes=True,
            ttlSecondsAfterFinished=600,
            backoffLimit=20 if job.is_spot else 3,
            activeDeadlineSeconds=round(job.stop_after_h * 3600) or None,
            rayClusterSpec=given(rayVersion=VERSION, headGroupSpec=head, workerGroupSpecs=workers if others else None),
        ),
    }
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(job), "data": files}, *checkpoint_objects(job), run]


def application(job: Job) -> dict[str, Any]:
    """Ray Serve's own settings: one model, scaled at the plan's requests in flight."""
    least, most = replicas_range(job)
    in_flight = round(kubernetes_addons.threshold(job))
    model = {
        "model_loading_config": {"model_id": job.name, "model_source": hub_id(job)},
        "engine_kwargs": llm_servers.engine_settings(job),
        "deployment_config": {
            "autoscaling_config": {"min_replicas": least, "max_replicas": most, "target_ongoing_requests": in_flight},
            "max_ongoing_requests": max(in_flight, 2 * job.option.layout.max_batch),
        },
    }
    return {
        "applications": [
            {"name": job.name, "route_prefix": "/", "import_path": "ray.serve.llm:build_openai_app", "args": {"llm_configs": [model]}}
        ]
    }


def service_objects(job: Job) -> list[dict[str, Any]]:
    """A RayService: a small head, and a worker for each replica of the plan, or for each server of
    those that span several."""
    least, most = (servers_of_replica(job) * replicas for replicas in replicas_range(job))
    head = {
        "rayStartParams": {"num-cpus": "0"},
        "template": pod(job, role="head", image=image_of(SERVICE, job), cards=False),
    }
    worker = {
        "groupName": "replicas",
        "replicas": least,
        "minReplicas": least,
        "maxReplicas": most,
        "rayStartParams": {"num-gpus": str(gpus_of_replica(job))},
        "template": pod(job, role="worker", image=image_of(SERVICE, job), cards=True),
    }
    cluster = {"rayVersion": VERSION, "enableInTreeAutoscaling": most > least, "headGroupSpec": head, "workerGroupSpecs": [worker]}
    spec = {"serveConfigV2": to_yaml(application(job)), "rayClusterConfig": cluster}
    return [{"apiVersion": API, "kind": "RayService", "metadata": metadata(job), "spec": spec}]


def ray_write(job: Job) -> Files:
    """One file of all objects."""
    objects = service_objects(job) if job.is_service else run_objects(job)
    return {"ray.yaml": to_yaml(*objects), **wait_files(job, cluster_way(job, "rayjob")), **ready_files(job, "rayservice")}


def _refuses(job: Job) -> Message | str:
    if queue_of(job)[0] == "volcano":
        return Message("export.kuberay_volcano")
    if job.task == "batch":
        return Message("export.batch_ends")
    if not job.is_service:
        return stack_problem(job) or run_image_problem(job)
    if not job.gpus_per_node:
        return Message("export.needs_cards")
    return wrong_engine(job, "vLLM") or stack_problem(job) or image_problem(job)


def run_image_problem(job: Job) -> Message | str:
    """Why the run's one image does not start on the plan's servers ("" if it does)."""
    return "" if image_of(RUN, job) else Message("export.no_release", engine=images(RUN)[0].image, card=job.accelerator)


WITHIN = "0.11.0"
"""The vLLM that the image of services holds, and the last whose models it knows."""


def image_problem(job: Job) -> Message | str:
    """Why the service's one image cannot start the model on the card of the plan ("" if it can)."""
    return held_problem(job, SERVICE, within=WITHIN)


def held_problem(job: Job, program: str, *, within: str) -> Message | str:
    """Why the image of a program that holds one vLLM (`within`) cannot start the model on the card
    of the plan ("" if it can)."""
    known = model_class(*class_names(job))
    told = {"engine": images(program)[0].image, "card": job.accelerator, "model": job.model}
    if not image_of(program, job):
        return Message("export.no_release", **told)
    least = known.least.get("vllm") if known else ""
    if known is not None and least is not None and (not least or numbers(least) > numbers(within)):
        return Message("export.no_release_class", **told, architecture=known.architecture, least=least or "-")
    return ""


RAY = Target(
    "ray",
    "kubernetes",
    "Ray: RayJob for a run, RayService for a service",
    ray_write,
    _refuses,
    checked_by="its definition's schema, unknown fields refused; Ray itself runs the job's program and reads the service's settings",
    run="kubectl apply -f ray.yaml",
)
