"""What runs on the server: image, set-up, command and files. Launch targets (SkyPilot, Terraform, Slurm ...) start a stack; they never repeat one."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping

from rightfit.export.job import SERVING_TASKS, Job

SERVING_STACKS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tensorrt-llm": "tensorrt_llm",
    "tgi": "tgi",
    "llama.cpp": "llama_cpp",
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
    """Module of the stack that starts the job best."""
    if job.task in SERVING_TASKS:
        return SERVING_STACKS.get(job.option.layout.engine.casefold(), "onnx_service")
    return "trl"


def stack_of(job: Job) -> Stack:
    """The stack of a job."""
    found: Stack = importlib.import_module(f"rightfit.export.targets.{stack_name(job)}").stack(job)
    return found


def launched(command: tuple[str, ...], *, node_rank: str, num_nodes: str, head_address: str) -> tuple[str, ...]:
    """The command with a launcher's own words for rank, count and address."""
    words = {"{node_rank}": node_rank, "{num_nodes}": num_nodes, "{head_address}": head_address}
    return tuple(_replaced(word, words) for word in command)


def _replaced(word: str, words: Mapping[str, str]) -> str:
    for mark, text in words.items():
        word = word.replace(mark, text)
    return word
