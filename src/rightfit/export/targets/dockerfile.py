"""A container image with the stack's packages and files, pinned."""

from __future__ import annotations

from collections.abc import Sequence

from rightfit.export.job import Job
from rightfit.export.quoting import comment, to_json
from rightfit.export.registry import Files, Target
from rightfit.export.serving_words import longest_start_s
from rightfit.export.stack import healthy, installs, launched, stack_of, stack_problem
from rightfit.messages import Message


def write(job: Job) -> Files:
    """Dockerfile, the files that it copies, and what it leaves out."""
    stack = stack_of(job)
    words = launched(stack.command, node_rank="0", num_nodes="1", head_address="127.0.0.1")
    missing = installs(stack)
    health = f"HEALTHCHECK --interval=30s --timeout=10s --start-period={longest_start_s(job)}s CMD {one_line(healthy(stack))}"
    lines = [
        f"# {comment(job.model)}, plan {job.plan_id}",
        f"FROM {stack.image}",
        f"LABEL managed-by=rightfit rightfit-plan={job.plan_id}",
        *(f"ENV {name}={value}" for name, value in stack.environment.items()),
        *(f"RUN {line.replace('pip install', 'pip install --no-cache-dir')}" for line in missing),
        "WORKDIR /job",
        *(["COPY . /job/"] if stack.files else []),
        *([f"EXPOSE {stack.port}", health] if stack.port else []),
        "ENTRYPOINT []",
        f"CMD {one_line(words)}",
    ]
    return {"Dockerfile": "\n".join(lines) + "\n", ".dockerignore": "*\n" + "".join(f"!{path}\n" for path in stack.files), **stack.files}


def one_line(words: Sequence[str]) -> str:
    """An argument vector as Docker's files have it."""
    return to_json(list(words)).replace("\n", "").replace("  ", " ")


def _refuses(job: Job) -> Message | str:
    return Message("export.part_started_by_launcher") if job.num_nodes > 1 and not job.is_service else stack_problem(job)


TARGET = Target("dockerfile", "environment", "container image with pinned packages", write, _refuses, checked_by="hadolint")
