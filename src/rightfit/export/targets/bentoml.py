"""BentoML: a service with the plan's batching and workers, and the file from which it is packed."""

from __future__ import annotations

from importlib import resources
from typing import Any

from rightfit.export.job import Job
from rightfit.export.quoting import label, to_json, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.script import script
from rightfit.export.serving_words import KEY, PORT
from rightfit.export.targets import onnx_service

VERSION = "1.4.39"
LEAST_TIMEOUT_S = 10.0  # before a request is given up; the plan's latency is met long before
NUMPY, PYDANTIC = "numpy==2.3.4", "pydantic==2.12.3"


def settings(job: Job) -> dict[str, Any]:
    """What service.json holds."""
    allowed = float(job.wish("latency_s") or 0.0)
    return {**onnx_service.settings(job), "workers": max(1, job.gpus_per_node), "timeout_s": max(LEAST_TIMEOUT_S, 10.0 * allowed)}


def packages(job: Job) -> list[str]:
    """Pinned packages: ONNX Runtime is the plain service's."""
    return [f"bentoml=={VERSION}", NUMPY, PYDANTIC, onnx_service.packages(job)[-1]]


def bentofile(job: Job) -> dict[str, Any]:
    """How `bentoml build` packs it."""
    return {
        "service": "service:Model",
        "description": f"plan {job.plan_id}",
        "labels": {**job.labels, "model": label(job.model)},
        "include": ["service.py", "service.json", "model.onnx"],
        "python": {"packages": packages(job), "lock_packages": False},
        "docker": {"python_version": "3.12", "distro": "debian"},
        "envs": [{"name": KEY[0]}],
    }


def program() -> str:
    """The service, the same for every plan."""
    return resources.files("rightfit.export").joinpath("scripts/bento_service.py").read_text(encoding="utf-8")


def write(job: Job) -> Files:
    """Program, settings, packing and the command."""
    about = f"{job.model} with BentoML {VERSION}, plan {job.plan_id}; put the exported model at model.onnx"
    command = ("bentoml", "serve", "service:Model", "--host", "0.0.0.0", "--port", str(PORT))  # noqa: S104  see vllm.py
    return {
        "serve.sh": script(about, command, needs=[KEY]),
        "service.py": program(),
        "service.json": to_json(settings(job)),
        "bentofile.yaml": to_yaml(bentofile(job)),
        "requirements.txt": "\n".join(packages(job)) + "\n",
    }


TARGET = Target(
    "bentoml",
    "serving",
    "BentoML service with adaptive batching",
    write,
    lambda job: onnx_service.TARGET.refuses(job),
    checked_by="bentoml itself: its build file is parsed, and the service runs on the processor with a small model",
)
