"""ONNX Runtime behind FastAPI: a small service for encoders and vision models that gathers requests into batches as the plan counted on."""

from __future__ import annotations

from importlib import resources
from typing import Any

from rightfit.export.job import SERVING_TASKS, Job
from rightfit.export.quoting import to_json
from rightfit.export.registry import Files, Target
from rightfit.export.script import script
from rightfit.export.serving_words import KEY, ONNX_GPU, PORT, onnx_problem
from rightfit.export.stack import ExportStack
from rightfit.messages import Message

ENGINES = ("tensorrt", "onnx runtime", "openvino", "pytorch")
PROVIDERS = {
    "tensorrt": ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"],
    "openvino": ["OpenVINOExecutionProvider", "CPUExecutionProvider"],
}
PACKAGES = {"tensorrt": ONNX_GPU, "openvino": "onnxruntime-openvino==1.23.0"}
SERVICE = ("fastapi==0.121.0", "uvicorn==0.38.0", "numpy==2.3.4")
IMAGE_WITH_CUDA = "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-devel"  # CUDA, cuDNN, and Python with pip, which NVIDIA's own images lack
SHARE_OF_LATENCY = 0.2  # of the allowed latency that a request may wait for others to join its batch
LONGEST_WAIT_S = 0.02


def settings(job: Job) -> dict[str, Any]:
    """What service.json holds."""
    engine = job.option.layout.engine.casefold()
    on_card = ["CUDAExecutionProvider", "CPUExecutionProvider"] if job.gpus_per_node else ["CPUExecutionProvider"]
    allowed = float(job.wish("latency_s") or 0.0)
    return {
        "plan": job.plan_id,
        "model": "model.onnx",
        "providers": PROVIDERS.get(engine, on_card),
        "half": job.option.layout.precision == "fp16",
        "max_batch": max(1, job.option.layout.max_batch),
        "wait_s": min(SHARE_OF_LATENCY * allowed, LONGEST_WAIT_S) if allowed else LONGEST_WAIT_S,
        "threads": threads(job),
    }


def threads(job: Job) -> int:
    """Threads of a worker's session: the physical cores of a processor server, one where a card does the work."""
    return 1 if job.gpus_per_node else max(1, int((job.option.vcpus or 2) // 2))


def packages(job: Job) -> tuple[str, ...]:
    """Pinned packages of the service."""
    usual = ONNX_GPU if job.gpus_per_node else "onnxruntime==1.23.2"
    return (*SERVICE, PACKAGES.get(job.option.layout.engine.casefold(), usual))


def program() -> str:
    """The service, the same for every plan."""
    return resources.files("rightfit.export").joinpath("scripts/onnx_service.py").read_text(encoding="utf-8")


def stack(job: Job) -> ExportStack:
    """One worker a card, or one on a processor: a session uses all cores itself."""
    return ExportStack(
        name="onnx-service",
        image="python:3.12-slim" if not job.gpus_per_node else IMAGE_WITH_CUDA,
        setup=("pip install " + " ".join(packages(job)),),
        command=("uvicorn", "service:app", "--host", "0.0.0.0", "--port", str(PORT), "--workers", str(max(1, job.gpus_per_node))),  # noqa: S104  see vllm.py
        files={"service.py": program(), "service.json": to_json(settings(job)), "requirements.txt": "\n".join(packages(job)) + "\n"},
        environment={},
        secrets=(KEY[0],),
        port=PORT,
    )


def write(job: Job) -> Files:
    """Program, settings, packages and the command."""
    found = stack(job)
    about = f"{job.model} on ONNX Runtime, plan {job.plan_id}; put the exported model at model.onnx"
    return {"serve.sh": script(about, found.command, needs=[KEY]), **found.files}


def _refuses(job: Job) -> Message | str:
    if job.task not in SERVING_TASKS:
        return Message("export.part_serves_encoder", task=job.task)
    if job.option.layout.engine.casefold() not in ENGINES:
        engine = job.option.layout.engine
        return Message("export.part_made_for_engine", engine=engine) if engine else Message("export.part_made_for_engine_none")
    return onnx_problem(job)


TARGET = Target(
    "onnx-service",
    "serving",
    "ONNX Runtime behind FastAPI, with batching",
    write,
    _refuses,
    checked_by="a run on the processor with a small model",
)
