"""What runs on the server: image, set-up, command and files. Launch targets (SkyPilot, Terraform, Slurm ...) start a stack; they never repeat one."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping

from rightfit.errors import InputError
from rightfit.export.job import SERVING_TASKS, Job

TRAINED_BY_TRL = ("full", "lora", "qlora", "dora")

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
    layout = job.option.layout
    splits_model = layout.tensor * layout.pipeline * layout.context > 1
    return "trl" if job.seq_len and not splits_model and layout.method in TRAINED_BY_TRL else ""


def stack_problem(job: Job) -> str:
    """Why no stack starts the job ("" if one does)."""
    if stack_name(job):
        return ""
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
