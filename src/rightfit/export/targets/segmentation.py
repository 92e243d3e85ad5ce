"""Segmentation: a training script in plain PyTorch for models that give each pixel its class, of Transformers (SegFormer ...) or torchvision."""

from __future__ import annotations

from typing import Any

from rightfit.export.environment import torch_problem
from rightfit.export.job import Job
from rightfit.export.model_words import hub_id, modality, sample
from rightfit.export.quoting import to_json
from rightfit.export.registry import Files, Target
from rightfit.export.stack import ExportStack
from rightfit.export.targets.torchrun import spreading
from rightfit.export.training_words import common_settings, launch_script, sample_problem, scripts, torchrun, training_stack
from rightfit.messages import Message

PACKAGES = ("transformers==4.57.1", "datasets==4.3.0", "torchvision==0.23.0", "pillow==12.0.0", "numpy==2.2.6")
COLUMNS = (("image", "mask"),)
METHODS = ("full",)
OTHERS = ("ultralytics/", "timm/")
RATES = {"train": 5e-4, "finetune": 6e-5}
"""Not part of a plan: usual values to begin with."""


def settings(job: Job) -> dict[str, Any]:
    """What train.json holds."""
    height, width = (int(sample(job).get(side) or 512) for side in ("height", "width"))
    return {
        **common_settings(job, columns=COLUMNS),
        **spreading(job),
        "learning_rate": RATES[job.task],
        "height": height,
        "width": width,
        "classes": 0,  # counted in the masks
        "channels_last": bool(job.option.facts.get("channels_last")),
    }


def stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    files = {**scripts("train_segmentation.py", "train_loop.py", "run_core.py"), "train.json": to_json(settings(job))}
    return training_stack(job, "segmentation", packages=PACKAGES, command=torchrun(job, ("train.py", "train.json")), files=files)


def write(job: Job) -> Files:
    """Script, settings, packages and command."""
    found = stack(job)
    return {"train.sh": launch_script(job, found), **found.files}


def _refuses(job: Job) -> Message | str:
    if modality(job) != "segmentation":
        return Message("export.part_no_segmentation")
    if "/" not in hub_id(job) or hub_id(job).startswith(OTHERS):
        return Message("export.part_no_segmentation_model", model=hub_id(job))
    return sample_problem(job, methods=METHODS) or torch_problem(job)


TARGET = Target(
    "segmentation",
    "training",
    "PyTorch script for segmentation (SegFormer, DeepLabV3)",
    write,
    _refuses,
    checked_by="runs on the processor with a tiny SegFormer, killed and gone on; models of torchvision are not run",
)
