"""Triton Inference Server: a model repository with the plan's batching, cards and format."""

from __future__ import annotations

from rightfit.export.job import Job
from rightfit.export.quoting import comment
from rightfit.export.registry import Files, Target
from rightfit.export.script import script
from rightfit.export.stack import card_words
from rightfit.export.targets import onnx_service

VERSION = "25.09"
IMAGE = f"nvcr.io/nvidia/tritonserver:{VERSION}-py3"
MODEL = "model"
PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}
TURNS = 2  # instances a card: one computes while the other copies


def text(value: str) -> str:
    """A string as protobuf's text has it: printable ASCII, everything else by its bytes."""
    shown = "".join(chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:03o}" for byte in value.encode())
    return f'"{shown}"'


def config(job: Job) -> str:
    """config.pbtxt. Inputs and outputs are filled in by the server from the ONNX file itself."""
    settings = onnx_service.settings(job)
    wait_us = round(settings["wait_s"] * 1e6)
    batch = int(settings["max_batch"])
    where = "KIND_GPU" if job.gpus_per_node else "KIND_CPU"
    gpus = f"\n    gpus: [ {', '.join(str(number) for number in range(job.gpus_per_node))} ]" if job.gpus_per_node else ""
    parts = [
        f"# {comment(job.model)}, plan {job.plan_id}",
        f"name: {text(MODEL)}",
        'backend: "onnxruntime"',
        'default_model_filename: "model.onnx"',
        f"max_batch_size: {batch}",
        f"dynamic_batching {{\n  preferred_batch_size: [ {batch} ]\n  max_queue_delay_microseconds: {wait_us}\n}}",
        f"instance_group [\n  {{\n    kind: {where}\n    count: {TURNS if job.gpus_per_node else 1}{gpus}\n  }}\n]",
        *accelerator(job),
        *(parameter(name, value) for name, value in parameters(job).items()),
        "version_policy {\n  latest {\n    num_versions: 1\n  }\n}",
    ]
    return "\n".join(parts) + "\n"


def parameters(job: Job) -> dict[str, str]:
    """What the backend is told beside, and which plan it is from."""
    found = {"rightfit_plan": job.plan_id, "rightfit_model": job.model}
    return found if job.gpus_per_node else {**found, "intra_op_thread_count": str(onnx_service.threads(job))}


def parameter(name: str, value: str) -> str:
    """One parameter."""
    return f"parameters {{\n  key: {text(name)}\n  value {{\n    string_value: {text(value)}\n  }}\n}}"


def accelerator(job: Job) -> list[str]:
    """TensorRT or OpenVINO inside ONNX Runtime, where the plan counts on it."""
    engine = job.option.layout.engine.casefold()
    half = "FP16" if job.option.layout.precision == "fp16" else "FP32"
    if engine == "tensorrt" and job.gpus_per_node:
        words = f"parameters {{\n        key: {text('precision_mode')}\n        value: {text(half)}\n      }}"
        kind = f"gpu_execution_accelerator: [\n    {{\n      name: {text('tensorrt')}\n      {words}\n    }}\n  ]"
    elif engine == "openvino":
        kind = f"cpu_execution_accelerator: [\n    {{\n      name: {text('openvino')}\n    }}\n  ]"
    else:
        return []
    return ["optimization {\n  execution_accelerators {\n  " + kind.replace("\n", "\n  ") + "\n  }\n}"]


def write(job: Job) -> Files:
    """The repository (without the weights) and the container that serves it."""
    about = f"{job.model} on Triton {VERSION}, plan {job.plan_id}; put the exported model at models/{MODEL}/1/model.onnx; it asks for no key: keep it behind one that does"
    cards = card_words(job)
    ports = [word for port in PORTS.values() for word in ("--publish", f"127.0.0.1:{port}:{port}")]
    outer = ("docker", "run", "--rm", *cards, "--shm-size", "1g", "--label", f"rightfit-plan={job.plan_id}", *ports)
    inner = ("tritonserver", "--model-repository=/models", "--exit-on-error=true", "--strict-readiness=true")
    mounted = script(about, (*outer, "--volume", "FOLDER:/models:ro", IMAGE, *inner)).replace(
        "FOLDER:/models:ro", '"$PWD/models:/models:ro"'
    )
    return {
        "serve.sh": mounted,
        f"models/{MODEL}/config.pbtxt": config(job),
        f"models/{MODEL}/1/README.md": "Put the exported model.onnx here.\n",
    }


TARGET = Target(
    "triton",
    "serving",
    "Triton model repository with dynamic batching",
    write,
    lambda job: onnx_service.TARGET.refuses(job),
    checked_by="Triton's own protobuf of the model's configuration; shellcheck",
)
