"""FSDP2: the plain PyTorch script with every weight, gradient and optimizer state sharded, on the host where the plan offloads."""

from __future__ import annotations

from rightfit.export.job import Job
from rightfit.export.registry import Files, Target
from rightfit.export.stack import ExportStack
from rightfit.export.targets.torchrun import SHARDED, made, problem
from rightfit.export.training_words import launch_script
from rightfit.messages import Message


def stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    return made(job, "fsdp2", fsdp2=True)


def write(job: Job) -> Files:
    """Script, settings, packages and command."""
    found = stack(job)
    return {"train.sh": launch_script(job, found), **found.files}


def _refuses(job: Job) -> Message | str:
    found, layout = problem(job), job.option.layout
    if not found and layout.sharding not in SHARDED and not layout.moves_states:
        return Message("export.part_neither_shards")
    return found


TARGET = Target(
    "fsdp2",
    "training",
    "PyTorch FSDP2 script: sharded, and offloaded where the plan does",
    write,
    _refuses,
    checked_by="runs of two processes on the processor with a tiny model",
)
