"""Transformers + PEFT + TRL: a training script that reads the plan's figures from a JSON file beside it, and the torchrun command that
starts it."""

from __future__ import annotations

from typing import Any

from rightfit.export.environment import torch_problem
from rightfit.export.job import Job
from rightfit.export.quoting import to_json
from rightfit.export.registry import Files, Target
from rightfit.export.stack import TRAINED_BY_TRL, ExportStack
from rightfit.export.training_words import (
    class_problem,
    common_settings,
    data_problem,
    hub_packages,
    launch_script,
    optimizer,
    scripts,
    torchrun,
    training_problem,
    training_stack,
)
from rightfit.messages import Message

PACKAGES = ("transformers", "trl", "peft", "accelerate", "datasets")
QUANTIZED = ("qlora",)
BITSANDBYTES = "bitsandbytes==0.48.1"
COLUMNS = (("messages",), ("prompt", "completion"), ("text",))
"""What a row of the data may hold: a conversation, a prompt with its answer, or plain text."""


def settings(job: Job, *, spread_by: str = "trainer") -> dict[str, Any]:
    """What train.json holds: the plan's figures under the script's names. PyTorch's own attention has the flash kernel inside: no package
    to build."""
    attention = "eager" if job.option.layout.attention == "eager" else "sdpa"
    host = {"activations_on_host": True} if job.option.layout.moves_activations else {}
    return {**common_settings(job, columns=COLUMNS), "attention": attention, "spread_by": spread_by, **host}


def script() -> Files:
    """The training script and its core, the same for every plan."""
    return scripts("train_trl.py", "run_core.py")


def packages(job: Job) -> tuple[str, ...]:
    """Pinned packages beside PyTorch."""
    quantized = job.option.layout.method in QUANTIZED or "bit" in optimizer(job)
    return (*hub_packages(job, *PACKAGES), *((BITSANDBYTES,) if quantized else ()))


def stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    files = {**script(), "train.json": to_json(settings(job))}
    return training_stack(job, "trl", packages=packages(job), command=torchrun(job, ("train.py", "train.json")), files=files)


def write(job: Job) -> Files:
    """Script, settings and command."""
    found = stack(job)
    return {"train.sh": launch_script(job, found), **found.files}


def _refuses(job: Job) -> Message | str:
    layout = job.option.layout
    usual = training_problem(job, methods=TRAINED_BY_TRL, moves_activations=True) or data_problem(job) or torch_problem(job)
    if problem := usual or class_problem(job, "trl"):
        return problem
    if layout.moves_states:
        return Message("export.part_keeps_in_host", offload=layout.offload)
    if layout.sharding in ("zero-1", "zero-2"):
        return Message("export.part_shards_as", sharding=layout.sharding)
    return ""


TARGET = Target(
    "trl",
    "training",
    "Transformers + PEFT + TRL script with its torchrun command",
    write,
    _refuses,
    checked_by="a run on CPU with a tiny model",
)
