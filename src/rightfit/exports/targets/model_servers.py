"""ONNX Runtime behind FastAPI: a small service for encoders and vision models that gathers requests
into batches as the plan counted on."""

from __future__ import annotations

from importlib import resources
from typing import Any

from rightfit.exports.job import Job
from rightfit.exports.model_words import KEY, ONNX_GPU, PORT, image_of, onnx_problem
from rightfit.exports.quoting import comment, label, script, to_json, to_yaml
from rightfit.exports.registry import Files, Target
from rightfit.exports.stack import RECENT, ExportStack, card_words
from rightfit.exports.targets.data_jobs import MODEL_FILES, NO_CARD, TABULAR_PACKAGES, with_openmp
from rightfit.facts import table
from rightfit.facts.devices import build_for
from rightfit.facts.engine_releases import image_named, images
from rightfit.messages import Message

ENGINES = ("tensorrt", "onnx runtime", "openvino", "pytorch")
PROVIDERS = {
    "tensorrt": ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"],
    "openvino": ["OpenVINOExecutionProvider", "CPUExecutionProvider"],
}
PACKAGES = {"tensorrt": ONNX_GPU, "openvino": "onnxruntime-openvino==1.23.0"}
SERVICE = ("fastapi==0.121.0", "uvicorn==0.38.0", "numpy==2.3.4")
SHARE_OF_LATENCY = 0.2  # of the allowed latency that a request may wait for others to join its batch
LONGEST_WAIT_S = 0.02


def onnx_service_settings(job: Job) -> dict[str, Any]:
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
        "cards": job.gpus_per_node,
    }


def threads(job: Job) -> int:
    """Threads of a worker's session: the physical cores of a processor server, one where a
    card does the work."""
    return 1 if job.gpus_per_node else max(1, int((job.option.vcpus or 2) // 2))


def onnx_service_packages(job: Job) -> tuple[str, ...]:
    """Pinned packages of the service."""
    usual = ONNX_GPU if job.gpus_per_node else "onnxruntime==1.23.2"
    return (*SERVICE, PACKAGES.get(job.option.layout.engine.casefold(), usual))


def service_image(job: Job) -> str:
    """Python with pip; beside cards that of PyTorch's build for them, which has CUDA and cuDNN,
    and Python, which NVIDIA's own images lack."""
    found = build_for(job.accelerator, span=RECENT) if job.gpus_per_node else None
    return found.image if found else image_named("python")


def service_programs(kind: str) -> Files:
    """The program of a kind of service and what it shares with the others, the same for
    every plan."""
    place = resources.files("rightfit.exports").joinpath("scripts")
    read = {"service.py": f"{kind}_service.py", "service_core.py": "service_core.py"}
    return {name: place.joinpath(file).read_text(encoding="utf-8") for name, file in read.items()}


def stack(job: Job) -> ExportStack:
    """One worker a card, or one on a processor: a session uses all cores itself."""
    return ExportStack(
        name="onnx-service",
        image=service_image(job),
        setup=("pip install " + " ".join(onnx_service_packages(job)),),
        command=("uvicorn", "service:app", "--host", "0.0.0.0", "--port", str(PORT), "--workers", str(max(1, job.gpus_per_node))),  # noqa: S104  see vllm.py
        files={
            **service_programs("onnx"),
            "service.json": to_json(onnx_service_settings(job)),
            "requirements.txt": "\n".join(onnx_service_packages(job)) + "\n",
        },
        environment={},
        secrets=(KEY[0],),
        port=PORT,
    )


def onnx_service_write(job: Job) -> Files:
    """Program, settings, packages and the command."""
    found = stack(job)
    about = f"{job.model} on ONNX Runtime, plan {job.plan_id}; put the exported model at model.onnx"
    return {"serve.sh": script(about, found.command, needs=[KEY]), **found.files}


def _refuses(job: Job) -> Message | str:
    if job.option.layout.engine.casefold() not in ENGINES:
        engine = job.option.layout.engine
        return Message("export.made_for_engine", engine=engine) if engine else Message("export.made_for_engine_none")
    return onnx_problem(job)


ONNX_SERVICE = Target(
    "onnx-service",
    "serving",
    "ONNX Runtime behind FastAPI, with batching",
    onnx_service_write,
    _refuses,
    checked_by="a run on the processor with a small model",
    stack=stack,
)


# ---- Models of tables: the file that the tabular script writes, behind FastAPI.

TABLE_SERVICE = ("fastapi==0.121.0", "uvicorn==0.38.0", "numpy==2.2.6")
USUAL_ROWS = 4096
"""Rows scored together where the plan names none: boosted trees gain nothing beyond."""


def table_library(job: Job) -> str:
    """Which library scores: the plan's, else that of the model's own name; "" where there is none
    here."""
    found = (job.option.layout.library, str(job.wish("framework") or ""), job.model, str(job.option.facts.get("name") or ""))
    named = " ".join(word.casefold() for word in found)
    if not job.is_service:
        return job.option.layout.library if job.option.layout.job else ""
    if str(job.option.facts.get("modality") or "tables") != "tables":
        return ""
    return next((library for library in TABULAR_PACKAGES if library in named), "sklearn" if estimator_row(job) else "")


def estimator_row(job: Job) -> bool:
    """Whether the model is an estimator of scikit-learn."""
    named = job.model.casefold().replace(" ", "-").replace("_", "-")
    return any(row["name"] == named and row["sklearn"] for row in table("classical_estimators"))


def table_settings(job: Job, library: str) -> dict[str, Any]:
    """What service.json holds."""
    allowed = float(job.wish("latency_s") or 0.0)
    return {
        "plan": job.plan_id,
        "library": library,
        "model": MODEL_FILES.get(library, "model.pickle"),
        "device": "gpu" if job.gpus_per_node and library not in NO_CARD else "cpu",
        "threads": threads(job),
        "max_batch": max(1, job.option.layout.max_batch) if job.option.layout.max_batch > 1 else USUAL_ROWS,
        "wait_s": min(SHARE_OF_LATENCY * allowed, LONGEST_WAIT_S) if allowed else 0.0,
    }


def table_packages(library: str) -> tuple[str, ...]:
    """Pinned packages of the service; the library as the script that trains has it."""
    return (*TABLE_SERVICE, TABULAR_PACKAGES[library])


def table_files(job: Job, library: str) -> Files:
    """The service and its settings."""
    packages = "\n".join(table_packages(library)) + "\n"
    return {**service_programs("tabular"), "service.json": to_json(table_settings(job, library)), "requirements.txt": packages}


TABLE_COMMAND = ("uvicorn", "service:app", "--host", "0.0.0.0", "--port", str(PORT))  # noqa: S104  see vllm.py


def table_stack(job: Job) -> ExportStack:
    """One worker: a library uses all cores itself."""
    library = table_library(job)
    return ExportStack(
        name="tabular-service",
        image=with_openmp(service_image(job), library),
        setup=("pip install " + " ".join(table_packages(library)),),
        command=TABLE_COMMAND,
        files=table_files(job, library),
        environment={},
        secrets=(KEY[0],),
        port=PORT,
    )


def table_write(job: Job) -> Files:
    """Program, settings, packages and the command."""
    found = table_stack(job)
    file = MODEL_FILES.get(table_library(job), "model.pickle")
    about = f"{job.model} of {table_library(job)}, plan {job.plan_id}; put the trained model at {file}"
    return {"serve.sh": script(about, found.command, needs=[KEY]), **found.files}


def _table_refuses(job: Job) -> Message | str:
    return "" if table_library(job) else Message("export.scores_tables")


TABULAR_SERVICE = Target(
    "tabular-service",
    "serving",
    "XGBoost, LightGBM, CatBoost or scikit-learn behind FastAPI, with batching",
    table_write,
    _table_refuses,
    checked_by="runs on the processor with a small model of each library",
    stack=table_stack,
    works=("serve",),
)


# ---- BentoML: a service with the plan's batching and workers, and the file from
# which it is packed.

BENTOML_VERSION = "1.4.39"
LEAST_TIMEOUT_S = 10.0  # before a request is given up; the plan's latency is met long before
NUMPY, PYDANTIC = "numpy==2.3.4", "pydantic==2.12.3"


def bentoml_settings(job: Job) -> dict[str, Any]:
    """What service.json holds."""
    allowed = float(job.wish("latency_s") or 0.0)
    return {**onnx_service_settings(job), "workers": max(1, job.gpus_per_node), "timeout_s": max(LEAST_TIMEOUT_S, 10.0 * allowed)}


def bentoml_packages(job: Job) -> list[str]:
    """Pinned packages: ONNX Runtime is the plain service's."""
    return [f"bentoml=={BENTOML_VERSION}", NUMPY, PYDANTIC, onnx_service_packages(job)[-1]]


def bentofile(job: Job) -> dict[str, Any]:
    """How `bentoml build` packs it."""
    return {
        "service": "service:Model",
        "description": f"plan {job.plan_id}",
        "labels": {**job.labels, "model": label(job.model)},
        "include": ["service.py", "service.json", "model.onnx"],
        "python": {"packages": bentoml_packages(job), "lock_packages": False},
        "docker": {"python_version": "3.12", "distro": "debian"},
        "envs": [{"name": KEY[0]}],
    }


def bentoml_program() -> str:
    """The service, the same for every plan."""
    return resources.files("rightfit.exports").joinpath("scripts/bento_service.py").read_text(encoding="utf-8")


def bentoml_write(job: Job) -> Files:
    """Program, settings, packing and the command."""
    about = f"{job.model} with BentoML {BENTOML_VERSION}, plan {job.plan_id}; put the exported model at model.onnx"
    command = ("bentoml", "serve", "service:Model", "--host", "0.0.0.0", "--port", str(PORT))  # noqa: S104  see vllm.py
    return {
        "serve.sh": script(about, command, needs=[KEY]),
        "service.py": bentoml_program(),
        "service.json": to_json(bentoml_settings(job)),
        "bentofile.yaml": to_yaml(bentofile(job)),
        "requirements.txt": "\n".join(bentoml_packages(job)) + "\n",
    }


BENTOML = Target(
    "bentoml",
    "serving",
    "BentoML service with adaptive batching",
    bentoml_write,
    lambda job: ONNX_SERVICE.problem(job),
    checked_by="bentoml itself: its build file is parsed, and the service runs on the processor with a small model",
)


# ---- Triton Inference Server: a model repository with the plan's batching, cards and format.

TRITON_VERSION = images("triton")[0].version
MODEL = "model"
PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}
TURNS = 2  # instances a card: one computes while the other copies


def text(value: str) -> str:
    """A string as protobuf's text has it: printable ASCII, everything else by its bytes."""
    shown = "".join(chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:03o}" for byte in value.encode())
    return f'"{shown}"'


def config(job: Job) -> str:
    """config.pbtxt. Inputs and outputs are filled in by the server from the ONNX file itself."""
    settings = onnx_service_settings(job)
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
    return found if job.gpus_per_node else {**found, "intra_op_thread_count": str(threads(job))}


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


def triton_write(job: Job) -> Files:
    """The repository (without the weights) and the container that serves it."""
    about = f"{job.model} on Triton {TRITON_VERSION}, plan {job.plan_id}; put the exported model at models/{MODEL}/1/model.onnx; it asks for no key: keep it behind one that does"
    cards = card_words(job)
    ports = [word for port in PORTS.values() for word in ("--publish", f"127.0.0.1:{port}:{port}")]
    outer = ("docker", "run", "--rm", *cards, "--shm-size", "1g", "--label", f"rightfit-plan={job.plan_id}", *ports)
    inner = ("tritonserver", "--model-repository=/models", "--exit-on-error=true", "--strict-readiness=true")
    mounted = script(about, (*outer, "--volume", "FOLDER:/models:ro", image_of("triton", job), *inner)).replace(
        "FOLDER:/models:ro", '"$PWD/models:/models:ro"'
    )
    return {
        "serve.sh": mounted,
        f"models/{MODEL}/config.pbtxt": config(job),
        f"models/{MODEL}/1/README.md": "Put the exported model.onnx here.\n",
    }


def _no_image(job: Job) -> Message | str:
    return "" if image_of("triton", job) else Message("export.no_release", engine=images("triton")[0].image, card=job.accelerator)


TRITON = Target(
    "triton",
    "serving",
    "Triton model repository with dynamic batching",
    triton_write,
    lambda job: ONNX_SERVICE.problem(job) or _no_image(job),
    checked_by="Triton's own protobuf of the model's configuration; shellcheck",
)
