"""Slurm: a batch script that starts the stack on the plan's nodes."""

from __future__ import annotations

import math

from rightfit.export.buckets import place_of
from rightfit.export.job import Job
from rightfit.export.quoting import comment, shell
from rightfit.export.registry import Files, Target
from rightfit.export.serving_words import spans_servers
from rightfit.export.stack import launched, stack_of, stack_problem


def time_limit(job: Job) -> str:
    """[D-]HH:MM:SS: the hours after which the job is stopped; two weeks for a service."""
    minutes = math.ceil((job.stop_after_h or 14 * 24) * 60)
    days, rest = divmod(minutes, 24 * 60)
    return (f"{days}-" if days else "") + f"{rest // 60:02d}:{rest % 60:02d}:00"


def directives(job: Job) -> dict[str, str]:
    """What stands behind #SBATCH. Names are those of ExportSettings: letters, digits and hyphens."""
    found = {"job-name": job.name, "nodes": str(job.num_nodes), "ntasks-per-node": "1", "time": time_limit(job), "output": "%x-%j.log"}
    if job.gpus_per_node:
        found["gpus-per-node"] = str(job.gpus_per_node)
    if job.option.vcpus:
        found["cpus-per-task"] = str(int(job.option.vcpus))
    found["comment"] = f"rightfit-{job.plan_id}"
    return found | ({"requeue": "", "open-mode": "append"} if not job.is_service else {})


FOLDER = "RIGHTFIT_CHECKPOINTS"
"""The variable that names a folder which all nodes see: there stands what other launchers mount at /checkpoints."""


def write(job: Job) -> Files:
    """The batch script and the stack's files."""
    stack = stack_of(job)
    words = launched(stack.command, node_rank="@rank@", num_nodes="@nodes@", head_address="@head@")
    line = shell(words).replace("@rank@", '"$SLURM_NODEID"').replace("@nodes@", '"$SLURM_NNODES"').replace("@head@", '"$head_address"')
    settings = "\n".join(f"#SBATCH --{name}{'=' + value if value else ''}" for name, value in directives(job).items())
    wanted = "".join(f': "${{{name}:?set {name} before sbatch}}"\n' for name in stack.secrets if name != "HF_TOKEN")
    exports = "".join(f"export {name}={shell([value])}\n" for name, value in stack.environment.items())
    text = (
        f"#!/bin/bash\n{settings}\n# {comment(job.model)}, plan {job.plan_id}: {job.num_nodes} x {job.gpus_per_node} {comment(job.accelerator) or 'processors'}.\n"
        f"set -euo pipefail\n{wanted}{exports}{placed(job)}{environment(job)}"
        'head_address=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
        "export head_address\n"
        f"srun --kill-on-bad-exit=1 bash -c {shell([f'exec {line}'])}\n"
    )
    return {"job.sbatch": text, **stack.files}


def placed(job: Job) -> str:
    """Shell lines that write the plan's own files with the cluster's folder in the place of /checkpoints, into a folder of this plan's own, and go
    there."""
    if job.is_service:
        return ""
    return (
        f': "${{{FOLDER}:?set {FOLDER} to a folder that all nodes see, with room for data and checkpoints}}"\n'
        f'work="${FOLDER}/{place_of(job)}.job"\n'
        'mkdir -p "$work"\n'
        'cp -r "${SLURM_SUBMIT_DIR:-.}/." "$work"\n'
        'cd "$work"\n'
        f'find . -maxdepth 1 -type f \\( -name "*.json" -o -name "*.y*ml" -o -name "*.sh" -o -name "*.toml" \\) -exec sed -i "s|/checkpoints/|${FOLDER}/|g" {{}} +\n'
    )


def environment(job: Job) -> str:
    """Shell lines that make the stack's Python environment once, unless one is active; a module or container of the cluster goes before them."""
    lines = [line for line in stack_of(job).setup if line.startswith("pip ")]
    if job.is_service or not lines:
        return ""
    made = " && ".join(["python3 -m venv env", *(f"env/bin/{line}" for line in lines), "touch env/.whole"])
    return f'if [ -z "${{VIRTUAL_ENV:-}}" ]; then\n  [ -e env/.whole ] || {{ {made}; }}\n  . env/bin/activate\nfi\n'


TARGET = Target(
    "slurm",
    "launch",
    "Slurm batch script",
    write,
    lambda job: spans_servers(job) or stack_problem(job),
    checked_by="shellcheck, and a run with stand-ins for srun and scontrol",
)
