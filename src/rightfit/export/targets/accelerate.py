"""Accelerate: the settings file of `accelerate launch` for the plan's layout (DDP, DeepSpeed or FSDP2), with the TRL script."""

from __future__ import annotations

from typing import Any

from rightfit.export.environment import torch_problem
from rightfit.export.job import Job
from rightfit.export.quoting import to_json, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.stack import TRAINED_BY_TRL, ExportStack
from rightfit.export.targets import deepspeed
from rightfit.export.targets.trl import packages, script, settings
from rightfit.export.training_words import PORT, class_problem, data_problem, launch_script, training_problem, training_stack
from rightfit.messages import Message


def kind(job: Job) -> str:
    """How the processes work together, as Accelerate calls it."""
    layout = job.option.layout
    if layout.moves_states or layout.sharding in ("zero-1", "zero-2"):
        return "DEEPSPEED"
    if layout.sharding in ("zero-3", "hybrid"):
        return "FSDP"
    if job.num_gpus > 1:
        return "MULTI_GPU"
    return "NO"


def fsdp() -> dict[str, Any]:
    """The section fsdp_config, of FSDP2. Layers are wrapped by the classes that the model itself names.

    Recomputation is the Trainer's (train.json): with both, the Trainer refuses to start.
    """
    return {
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": True,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_activation_checkpointing": False,
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_offload_params": False,
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    }


def config(job: Job) -> dict[str, Any]:
    """accelerate.yaml. Rank and first node come from the command."""
    precision = job.option.layout.precision
    found: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "debug": False,
        "distributed_type": kind(job),
        "downcast_bf16": "no",
        "enable_cpu_affinity": False,
        "main_training_function": "main",
        "mixed_precision": precision if precision in ("bf16", "fp16") else "no",
        "num_machines": job.num_nodes,
        "num_processes": max(1, job.num_gpus),
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": job.gpus_per_node == 0,
    }
    if kind(job) == "FSDP":
        found["fsdp_config"] = fsdp()
    if kind(job) == "DEEPSPEED":
        found.pop("mixed_precision")  # stands in DeepSpeed's own file, and may not stand twice
        found["deepspeed_config"] = {"deepspeed_config_file": "deepspeed.json", "zero3_init_flag": deepspeed.stage(job) == 3}
    return found


def command(job: Job) -> tuple[str, ...]:
    """One launcher on each node."""
    rank = ("--machine_rank", "{node_rank}", "--main_process_ip", "{head_address}", "--main_process_port", str(PORT))
    return ("accelerate", "launch", "--config_file", "accelerate.yaml", *(rank if job.num_nodes > 1 else ()), "train.py", "train.json")


def stack(job: Job) -> ExportStack:
    """Script, settings of both and the command."""
    files = {**script(), "train.json": to_json(settings(job, spread_by="accelerate")), "accelerate.yaml": to_yaml(config(job))}
    extra: tuple[str, ...] = ()
    if kind(job) == "DEEPSPEED":
        files["deepspeed.json"], extra = to_json(deepspeed.config(job)), (deepspeed.VERSION,)
    return training_stack(job, "accelerate", packages=(*packages(job), *extra), command=command(job), files=files)


def write(job: Job) -> Files:
    """Settings, script, packages and command."""
    found = stack(job)
    return {"train.sh": launch_script(job, found), **found.files}


def _refuses(job: Job) -> Message | str:
    if problem := training_problem(job, methods=TRAINED_BY_TRL) or data_problem(job) or torch_problem(job) or class_problem(job, "trl"):
        return problem
    if kind(job) == "DEEPSPEED":
        return deepspeed.TARGET.refuses(job)
    if job.option.layout.sharding == "hybrid":
        return Message("export.part_hybrid")
    return ""


TARGET = Target(
    "accelerate",
    "training",
    "Accelerate settings (DDP, FSDP2 or DeepSpeed) with their script",
    write,
    _refuses,
    checked_by="Accelerate's own reader of settings and parser of commands, and its lists of section keys",
)
