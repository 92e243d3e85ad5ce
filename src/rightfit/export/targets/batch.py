"""Batch inference to its end: a language model, an encoder of text or a Whisper over every row of the data, part by part, so that a killed run
does only what is missing."""

from __future__ import annotations

from typing import Any

from rightfit.export.environment import torch_problem
from rightfit.export.job import Job
from rightfit.export.model_words import hub_id, is_text_encoder
from rightfit.export.quoting import shell, to_json
from rightfit.export.registry import Files, Target
from rightfit.export.serving_words import ONNX_GPU, engine_release, onnx_problem, spans_servers
from rightfit.export.stack import ExportStack
from rightfit.export.targets import vllm
from rightfit.export.training_words import ALLOCATOR, data_packages, data_problem, launch_script, save_every_s, scripts, training_stack
from rightfit.messages import Message

COLUMNS = {"generate": (("messages",), ("prompt",), ("text",)), "embed": (("text",),), "transcribe": (("audio",),)}
"""What a row of the data must hold, by what is done."""
PACKAGES = {
    "generate": ("datasets==4.3.0",),
    "embed": ("sentence-transformers==5.1.2", "transformers==4.57.1", "datasets==4.3.0"),
    "transcribe": ("faster-whisper==1.2.1", "datasets==4.3.0"),
}
ONNX = ("tensorrt", "onnx runtime", "openvino")
BACKENDS = {"tensorrt": "sentence-transformers[onnx-gpu]==5.1.2", "onnx runtime": "sentence-transformers[onnx-gpu]==5.1.2"}
PROVIDERS = {"tensorrt": "TensorrtExecutionProvider", "onnx runtime": "CUDAExecutionProvider"}
WHISPERS = {"openai/whisper-large": "large-v1"}  # what faster-whisper calls "large" is the newest
OWNERS = ("openai/whisper-", "distil-whisper/")
ANSWER_TOKENS = 256
"""Longest answer where the plan names none."""
LEAST_ROWS, MOST_ROWS = 8, 100_000


def kind(job: Job) -> str:
    """What is done with a row: generate, embed or transcribe; "" where there is no program for it."""
    engine = job.option.layout.engine.casefold()
    if engine == "vllm":
        return "generate"
    if engine == "faster-whisper":
        return "transcribe"
    return "embed" if is_text_encoder(job) and engine in (*ONNX, "pytorch") else ""


def part_rows(job: Job) -> int:
    """Rows of a part: as many as a replica does between two checkpoints of a run."""
    rate = job.option.estimate.get("requests_per_s")
    layout = job.option.layout
    rows = (rate.mid if rate else 1.0) / max(1, layout.replicas) * save_every_s(job)
    return int(min(MOST_ROWS, max(LEAST_ROWS, layout.max_batch, rows)))


def engine(job: Job, kind: str) -> dict[str, Any]:
    """The program's own words for the plan's layout and formats."""
    layout = job.option.layout
    if kind == "generate":
        return vllm.engine_settings(job)
    if kind == "transcribe":
        compute = {"fp16": "float16", "bf16": "bfloat16", "int8": "int8"}.get(layout.weight_format, "float32")
        return {"device": "cuda" if job.gpus_per_node else "cpu", "compute_type": compute}
    provider = PROVIDERS.get(layout.engine.casefold(), "") if job.gpus_per_node else ""
    return {"provider": provider or "CPUExecutionProvider"} if layout.engine.casefold() in ONNX[:2] else {}


def backend(job: Job) -> str:
    """Under which of its back ends sentence-transformers runs."""
    return {"openvino": "openvino", "pytorch": "torch"}.get(job.option.layout.engine.casefold(), "onnx")


def model_name(job: Job) -> str:
    """The model as the program knows it: faster-whisper has OpenAI's and the distilled ones under their short names."""
    name = hub_id(job)
    if kind(job) != "transcribe":
        return name
    owner = next((owner for owner in OWNERS if name.startswith(owner)), "")
    return WHISPERS.get(name) or name.removeprefix(owner)


def settings(job: Job) -> dict[str, Any]:
    """What run.json holds."""
    layout, done = job.option.layout, kind(job)
    return {
        "plan": job.plan_id,
        "kind": done,
        "model": model_name(job),
        "data": job.settings.data_path,
        "data_columns": [list(names) for names in COLUMNS[done]],
        "output": "/checkpoints/" + job.name,
        "part_rows": part_rows(job),
        "replicas_per_node": layout.replicas_per_node,
        "cards_per_replica": job.gpus_per_node // max(1, layout.replicas_per_node),
        "batch": max(1, layout.max_batch),
        "half": layout.precision == "fp16",
        "backend": backend(job) if done == "embed" else "",
        "output_tokens": int(float(job.wish("output_tokens") or ANSWER_TOKENS)),
        "engine": engine(job, done),
    }


def packages(job: Job) -> tuple[str, ...]:
    """Pinned packages of what is done."""
    found = PACKAGES[kind(job)]
    name = job.option.layout.engine.casefold()
    further = {"openvino": "sentence-transformers[openvino]==5.1.2"} | (
        BACKENDS if job.gpus_per_node else dict.fromkeys(BACKENDS, "sentence-transformers[onnx]==5.1.2")
    )
    if kind(job) != "embed" or name not in further:
        return found
    runtime = (
        (ONNX_GPU,) if "onnx-gpu" in further[name] else ()
    )  # the extra leaves it open, and the newest is for another CUDA than PyTorch's
    return (further[name], *runtime, *found[1:])


def stack(job: Job) -> ExportStack:
    """One program on each server, which starts the plan's replicas."""
    texts = scripts("run_batch.py", "run_core.py")
    files = {"run.py": texts["train.py"], "run_core.py": texts["run_core.py"], "run.json": to_json(settings(job))}
    command = ("python", "run.py", "run.json", "{node_rank}", "{num_nodes}")
    if kind(job) == "generate":
        return engine_stack(job, files, command)
    return training_stack(job, "batch", packages=packages(job), command=command, files=files)


def engine_stack(job: Job, files: Files, command: tuple[str, ...]) -> ExportStack:
    """vLLM as its release for the plan's model and card has it, which brings its own PyTorch; beside it what reads the data."""
    release = engine_release(job, "vllm")
    beside = (*PACKAGES["generate"], *data_packages(job))
    wanted = (*release.package.split(), *beside)
    return ExportStack(
        name="batch",
        image=release.image,
        setup=(f"pip install {shell(wanted)}",),
        command=("python3", *command[1:]),
        files={**files, "requirements.txt": "\n".join(wanted) + "\n"},
        environment=dict(ALLOCATOR),
        secrets=("HF_TOKEN",),
        beside=(f"pip install {shell(beside)}",),
    )


DRIVERS = {"13.0": "580.65.06", "12.8": "570.26", "12.6": "560.28.03"}
"""CUDA of a release -> the driver that it asks for, as facts/data/software_builds.csv has it."""


def write(job: Job) -> Files:
    """Script, settings, packages and command."""
    found = stack(job)
    if kind(job) != "generate":
        return {"run.sh": launch_script(job, found), **found.files}
    cuda = engine_release(job, "vllm").cuda
    return {"run.sh": launch_script(job, found, ground=(f"CUDA {cuda}" if cuda else "ROCm", DRIVERS.get(cuda, ""))), **found.files}


def _refuses(job: Job) -> Message | str:
    if job.task != "batch":
        return Message("export.part_runs_once", task=job.task)
    if not kind(job):
        return Message("export.part_batch_programs", engine=job.option.layout.engine or Message("export.a_model_of_tables"))
    return (
        spans_servers(job)
        or (vllm.refuses(job) if kind(job) == "generate" else torch_problem(job) or embeds_problem(job))
        or data_problem(job)
    )


def embeds_problem(job: Job) -> Message | str:
    """Why ONNX Runtime does not run the encoder on the plan's card ("" if it does, or another back end is meant)."""
    return onnx_problem(job) if job.option.layout.engine.casefold() in PROVIDERS else ""


TARGET = Target(
    "batch",
    "serving",
    "batch inference to its end: language models, text encoders, Whisper",
    write,
    _refuses,
    checked_by="runs to the end on the processor, killed and gone on: a text encoder and a Whisper; language models with a stand-in for vLLM",
)
