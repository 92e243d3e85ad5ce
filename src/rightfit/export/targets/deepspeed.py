"""DeepSpeed: its settings with the plan's ZeRO stage, buckets and offloading, and the TRL script that trains under them."""

from __future__ import annotations

from typing import Any

from rightfit.export.environment import torch_problem
from rightfit.export.job import Job
from rightfit.export.model_words import architecture
from rightfit.export.quoting import to_json
from rightfit.export.registry import Files, Target
from rightfit.export.stack import TRAINED_BY_TRL, ExportStack
from rightfit.export.targets.trl import packages, script, settings
from rightfit.export.training_words import (
    class_problem,
    data_problem,
    launch_script,
    learning_rate,
    torchrun,
    training_problem,
    training_stack,
)
from rightfit.messages import Message

VERSION = "deepspeed==0.19.8"
STAGES = {"zero-1": 1, "zero-2": 2, "zero-3": 3}
BUCKET_ELEMENTS = 200_000_000
"""Elements that are reduced or gathered together where the model's width is not known; half of DeepSpeed's own, to keep the plan's memory."""


def stage(job: Job) -> int:
    """ZeRO stage: the plan's, and at least 2 (3) where the optimizer (the weights too) lies on the host."""
    layout = job.option.layout
    least = {"none": 0, "activations": 0, "optimizer": 2}.get(layout.offload, 3)
    return max(least, STAGES.get(layout.sharding, 0))


def zero(job: Job) -> dict[str, Any]:
    """The section zero_optimization. Buckets of a layer's square matrix, as Transformers chooses them."""
    layout, known = job.option.layout, architecture(job)
    bucket = known.hidden_size**2 if known else BUCKET_ELEMENTS
    found: dict[str, Any] = {"stage": stage(job), "contiguous_gradients": True, "overlap_comm": True, "reduce_bucket_size": bucket}
    if found["stage"] < 3:
        found["allgather_bucket_size"] = bucket
    else:
        found |= {
            "stage3_prefetch_bucket_size": int(0.9 * bucket),
            "stage3_param_persistence_threshold": 10 * known.hidden_size if known else 100_000,
            "stage3_gather_16bit_weights_on_model_save": True,
        }
    host = {"device": "cpu", "pin_memory": True}
    if layout.moves_states:
        found["offload_optimizer"] = host
    if "param" in layout.offload:
        found["offload_param"] = host
    return found


def config(job: Job) -> dict[str, Any]:
    """deepspeed.json. The batch is the plan's; the optimizer stands here only where it works on the host, where DeepSpeed must bring its
    own."""
    layout = job.option.layout
    found: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": layout.micro_batch,
        "gradient_accumulation_steps": layout.grad_accum,
        "train_batch_size": layout.micro_batch * layout.grad_accum * max(1, job.num_gpus),
        "gradient_clipping": 1.0,
        "zero_optimization": zero(job),
        "steps_per_print": 50,
    }
    if layout.precision in ("bf16", "fp16"):
        found[layout.precision] = {"enabled": True}
    if layout.moves_states:
        found["optimizer"] = {
            "type": "AdamW",
            "params": {"lr": learning_rate(job), "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0},
        }
    return found


def stack(job: Job) -> ExportStack:
    """torchrun on each node; DeepSpeed is told by its settings file."""
    train = {**settings(job, spread_by="deepspeed"), "deepspeed": "deepspeed.json"}
    files = {**script(), "train.json": to_json(train), "deepspeed.json": to_json(config(job))}
    command = torchrun(job, ("train.py", "train.json"))
    return training_stack(job, "deepspeed", packages=(*packages(job), VERSION), command=command, files=files)


def write(job: Job) -> Files:
    """Settings, script, packages and command."""
    found = stack(job)
    return {"train.sh": launch_script(job, found), **found.files}


def _refuses(job: Job) -> Message | str:
    layout = job.option.layout
    if problem := training_problem(job, methods=TRAINED_BY_TRL) or data_problem(job) or torch_problem(job) or class_problem(job, "trl"):
        return problem
    if layout.sharding == "hybrid":
        return Message("export.part_hybrid")
    if layout.method == "qlora" and stage(job) == 3:
        return Message("export.part_zero_3_4_bit")
    if layout.moves_states and job.wish("optimizer") not in (None, "adamw", "adamw-fused"):
        return Message("export.part_adamw_on_host", optimizer=job.wish("optimizer"))
    return ""


TARGET = Target(
    "deepspeed",
    "training",
    "DeepSpeed settings (ZeRO, buckets, offloading) with their script",
    write,
    _refuses,
    checked_by="DeepSpeed's own class of settings",
)
