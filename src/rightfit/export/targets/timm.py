"""timm: its own training script with the plan's batch, precision, size and loader processes."""

from __future__ import annotations

import math

from rightfit.export.environment import torch_problem
from rightfit.export.job import SERVING_TASKS, Job
from rightfit.export.model_words import hub_id, image_size, lender, model_kind
from rightfit.export.pinned import TIMM_COMMIT, pinned_file
from rightfit.export.registry import Files, Target
from rightfit.export.stack import ExportStack
from rightfit.export.training_words import epochs, launch_script, recomputes, torchrun, training_stack, workers
from rightfit.messages import Message

PACKAGES = ("timm==1.0.29", "torchvision==0.23.0", "pyyaml==6.0.3", "huggingface_hub==0.36.0", "safetensors==0.6.2")
OPTIMIZERS = {
    "adamw": "adamw",
    "adamw-fused": "adamw",
    "sgd": "sgd",
    "sgd-momentum": "sgd",
    "lamb": "lamb",
    "lion": "lion",
    "adafactor": "adafactor",
}
RATES = {"adamw": 5e-4, "lamb": 5e-3, "lion": 5e-5, "sgd": 0.1, "adafactor": 5e-4}
"""Not part of a plan: usual learning rates to begin with, at 256 images a step."""
PREFIX = "timm/"


def options(job: Job) -> tuple[str, ...]:
    """Arguments of timm's train.py."""
    layout = job.option.layout
    name = OPTIMIZERS[str(job.wish("optimizer") or "adamw")]
    batch = layout.micro_batch * layout.grad_accum * max(1, job.num_gpus)
    rate = RATES[name] * (batch / 256 if name == "sgd" else math.sqrt(batch / 256)) * (1.0 if job.task == "train" else 0.1)
    size = image_size(job)
    words = ["--data-dir", job.settings.data_path, "--model", hub_id(job).removeprefix(PREFIX)]
    words += ["--batch-size", str(layout.micro_batch), "--grad-accum-steps", str(layout.grad_accum)]
    words += [
        "--epochs",
        str(math.ceil(epochs(job))),
        "--opt",
        name,
        "--lr",
        f"{rate:.3g}",
        "--sched",
        "cosine",
        "--workers",
        str(workers(job)),
    ]
    words += ["--output", "/checkpoints", "--experiment", job.name, "--checkpoint-hist", "2"]
    words += ["--img-size", str(size)] if size else []
    words += ["--pretrained"] if job.task == "finetune" else []
    words += (
        ["--amp", "--amp-dtype", {"bf16": "bfloat16", "fp16": "float16"}[layout.precision]] if layout.precision in ("bf16", "fp16") else []
    )
    words += ["--channels-last"] if job.option.facts.get("channels_last") else []
    words += ["--grad-checkpointing"] if recomputes(job) else []
    return tuple(words)


def stack(job: Job) -> ExportStack:
    """torchrun on each node; a new start goes on from the last epoch."""
    files = pinned_file(
        "huggingface/pytorch-image-models", TIMM_COMMIT, "train.py", resume=("--resume", f"/checkpoints/{job.name}/last.pth.tar")
    )
    command = torchrun(job, ("run_pinned.py", "pinned.json", *options(job)))
    return training_stack(job, "timm", packages=PACKAGES, command=command, files=files)


def write(job: Job) -> Files:
    """The command, packages, and what fetches the script."""
    found = stack(job)
    return {"train.sh": launch_script(job, found), **found.files}


def _refuses(job: Job) -> Message | str:
    if job.task in SERVING_TASKS or job.task == "prepare":
        return Message("export.part_it_trains", task=job.task)
    layout = job.option.layout
    if model_kind(job) == "vision" and lender(job).startswith(PREFIX) and not hub_id(job).startswith(PREFIX):
        return Message("export.part_other_timm", model=hub_id(job), record=lender(job))
    if model_kind(job) != "vision" or not hub_id(job).startswith(PREFIX):
        return Message("export.part_no_timm")
    if layout.method != "full" or layout.sharding not in ("none", "ddp") or layout.offload != "none":
        return Message("export.part_ddp", method=layout.method, sharding=layout.sharding, offload=layout.offload)
    wished = str(job.wish("optimizer") or "adamw")
    return (
        torch_problem(job)
        if wished in OPTIMIZERS
        else Message("export.part_optimizer_asked_for", optimizer=wished, known=", ".join(OPTIMIZERS))
    )


TARGET = Target(
    "timm",
    "training",
    "timm's training script for image classifiers",
    write,
    _refuses,
    checked_by="the options of timm's train.py at the pinned commit",
)
