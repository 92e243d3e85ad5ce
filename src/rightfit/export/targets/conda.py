"""conda: an environment file with the stack's pinned packages, and which builds of PyTorch, TensorFlow and JAX go with the plan's
accelerator."""

from __future__ import annotations

import shlex
from typing import Any

from rightfit.export.environment import FRAMEWORKS, build_for
from rightfit.export.job import SERVING_TASKS, Job
from rightfit.export.quoting import comment, to_json, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.stack import ExportStack, stack_of, stack_problem
from rightfit.messages import Message

PYTHON = "3.12"
PIP = "pip=25.3"
CHANNEL = "conda-forge"
VALUED = ("--extra-index-url", "--index-url", "--find-links")
"""Options of pip that stand on a line with their value in a list of packages."""


def pip_lines(stack: ExportStack) -> tuple[str, ...]:
    """The stack's packages, a line each, as pip reads them from a file; empty where it comes in an image alone."""
    lines: list[str] = []
    for command in stack.setup:
        words = shlex.split(command)
        if words[:2] != ["pip", "install"]:
            continue
        rest = iter(words[2:])
        for word in rest:
            if word in VALUED:
                lines.append(f"{word} {next(rest)}")
            elif not word.startswith("-"):
                lines.append(word)
    return tuple(dict.fromkeys(lines))


def environment(job: Job, lines: tuple[str, ...]) -> dict[str, Any]:
    """environment.yml. CUDA and cuDNN come inside the packages of pip, so that only the driver is the server's."""
    build = build_for(job.accelerator)
    python = build.python if build and build.package in lines else PYTHON
    return {"name": job.name, "channels": [CHANNEL, "nodefaults"], "dependencies": [f"python={python}", PIP, {"pip": list(lines)}]}


def compatibility(job: Job) -> dict[str, Any]:
    """compatibility.json: for each framework the preferred release that runs on the accelerator, or null."""
    found = {framework: build_for(job.accelerator, framework=framework) for framework in FRAMEWORKS}
    return {
        "plan": job.plan_id,
        "accelerator": job.accelerator or "processor",
        "frameworks": {
            framework: build
            and {
                "package": build.package,
                "index": build.index_url,
                "platform": build.platform,
                "cudnn": build.cudnn,
                "least_driver": build.driver,
                "python": build.python,
                "image": build.image,
                "source": build.source,
            }
            for framework, build in found.items()
        },
    }


def write(job: Job) -> Files:
    """Environment, the same packages for pip alone, and what goes with the accelerator."""
    lines = pip_lines(stack_of(job))
    build = build_for(job.accelerator)
    driver = f": {build.platform}, driver {build.driver} or later" if build and build.driver and build.package in lines else ""
    head = f"# {comment(job.model)}, plan {job.plan_id}{driver}\n"
    return {
        "environment.yml": head + to_yaml(environment(job, lines)),
        "requirements.txt": "\n".join(lines) + "\n",
        "compatibility.json": to_json(compatibility(job)),
    }


def _refuses(job: Job) -> Message | str:
    if problem := stack_problem(job):
        return problem
    lines = pip_lines(stack_of(job))
    whole = lines and (job.task in SERVING_TASKS or any(line.startswith("torch==") for line in lines))
    return "" if whole else Message("export.part_container_image")


TARGET = Target(
    "conda",
    "environment",
    "conda environment of the stack, and the builds that go with the card",
    write,
    _refuses,
    checked_by="conda-lock's reader, and pip's resolver",
)
