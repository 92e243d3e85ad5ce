"""What runs on the server: image, set-up, command and files. Launch targets (SkyPilot, Terraform, Slurm ...) start a stack; they never repeat one."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping

from rightfit.errors import InputError
from rightfit.export.job import SERVING_TASKS, Job
from rightfit.export.model_words import model_kind

ADAPTERS = ("lora", "qlora", "dora")
TRAINED_BY_TRL = ("full", *ADAPTERS)

SERVING_STACKS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tensorrt-llm": "tensorrt_llm",
    "tgi": "tgi",
    "llama.cpp": "llama_cpp",
    "tensorrt": "onnx_service",
    "onnx runtime": "onnx_service",
    "openvino": "onnx_service",
    "pytorch": "onnx_service",
}
"""Engine of a plan (case-folded) -> module of rightfit.export.targets that has a `stack`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stack:
    """`image`: a pinned container; `setup`: shell lines that prepare a bare server instead of the image; `command`: the job's arguments on each node, in
    which the words {node_rank}, {num_nodes} and {head_address} stand for what the launcher knows; `port`: what a service listens on."""

    name: str
    image: str
    setup: tuple[str, ...]
    command: tuple[str, ...]
    files: Mapping[str, str]
    environment: Mapping[str, str]
    secrets: tuple[str, ...] = ()
    port: int | None = None
    health_path: str = "/health"


def stack_name(job: Job) -> str:
    """Module of the stack that starts the job; "" where there is none yet."""
    if job.task in SERVING_TASKS:
        return SERVING_STACKS.get(job.option.layout.engine.casefold(), "")
    return _training_stack(job)


def _training_stack(job: Job) -> str:
    """The plainest program for the model's kind, the method and the layout."""
    kind, layout = model_kind(job), job.option.layout
    if job.task == "prepare" or kind not in ("decoder", "encoder"):
        return {"diffusion": "diffusers", "vision": "timm"}.get(kind, "") if job.task != "prepare" else ""
    if layout.tensor * layout.pipeline * layout.context * layout.expert > 1:
        return "megatron"
    if layout.offload != "none":
        return "deepspeed"
    if job.task == "train" or kind == "encoder":
        return "torchrun"
    return "deepspeed" if layout.sharding in ("zero-1", "zero-2") else "trl"


def stack_problem(job: Job) -> str:
    """Why no stack starts the job ("" if one does)."""
    name = stack_name(job)
    if name and job.task in SERVING_TASKS:
        return ""
    if name:
        # A launcher starts what the program's own target can express, and says what that says.
        problem = importlib.import_module(f"rightfit.export.targets.{name}").TARGET.refuses(job)
        return f"{name}: {problem}" if problem else ""
    what = (
        f"serving with {job.option.layout.engine}"
        if job.task in SERVING_TASKS
        else f"this kind of job ({job.task} by {job.option.layout.method})"
    )
    return f"no launcher is written yet for {what}"


def stack_of(job: Job) -> Stack:
    """The stack of a job. InputError where there is none."""
    if problem := stack_problem(job):
        raise InputError(problem, field="to")
    found: Stack = importlib.import_module(f"rightfit.export.targets.{stack_name(job)}").stack(job)
    return found


IMAGES_WITH_PROGRAM = ("vllm/", "lmsysorg/", "ghcr.io/", "nvcr.io/", "rayproject/")
"""Images that hold the program itself; the others hold what it stands on, and the set-up adds the rest."""


def installs(stack: Stack) -> tuple[str, ...]:
    """The lines of the set-up that its image needs before the command runs."""
    return () if stack.image.startswith(IMAGES_WITH_PROGRAM) else tuple(line for line in stack.setup if line.startswith("pip "))


def launched(command: tuple[str, ...], *, node_rank: str, num_nodes: str, head_address: str) -> tuple[str, ...]:
    """The command with a launcher's own words for rank, count and address."""
    words = {"{node_rank}": node_rank, "{num_nodes}": num_nodes, "{head_address}": head_address}
    return tuple(_replaced(word, words) for word in command)


def _replaced(word: str, words: Mapping[str, str]) -> str:
    for mark, text in words.items():
        word = word.replace(mark, text)
    return word
