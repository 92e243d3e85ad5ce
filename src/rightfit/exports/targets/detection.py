"""Models that find things in images: a script in plain PyTorch for those of Transformers and
torchvision, and Ultralytics' own trainer for YOLO."""

from __future__ import annotations

import math
from typing import Any

from rightfit.exports.job import Job
from rightfit.exports.model_words import hub_id, modality, sample
from rightfit.exports.quoting import to_json
from rightfit.exports.registry import Target
from rightfit.exports.stack import ExportStack, torch_problem
from rightfit.exports.targets.torchrun import spreading
from rightfit.exports.training_words import (
    common_settings,
    epochs,
    sample_problem,
    scripts,
    torchrun,
    training_stack,
    with_launcher,
)
from rightfit.messages import Message

METHODS = ("full", "freeze")
COLUMNS = (("image", "objects"),)
PACKAGES = (
    "transformers==5.23.0",
    "datasets==5.2.0",
    "torchvision==0.23.0",
    "timm==1.0.29",
    "scipy==1.16.3",
    "pillow==12.0.0",
    "numpy==2.2.6",
)
RATES = {"train": 1e-4, "finetune": 5e-5}
"""Not part of a plan: usual values to begin with, of AdamW."""
HEAD_RATE = 1e-3
"""The same, of a head that learns alone."""
SGD_RATE, SGD_BATCH = 0.02, 16
"""Of torchvision's own references: 0.02 at 16 images a step."""
PUBLISHED = {
    "lyuwenyu/rt-detr-r18": "PekingU/rtdetr_r18vd",
    "lyuwenyu/rt-detr-r34": "PekingU/rtdetr_r34vd",
    "lyuwenyu/rt-detr-r50": "PekingU/rtdetr_r50vd",
    "lyuwenyu/rt-detr-r101": "PekingU/rtdetr_r101vd",
}
"""Models that their authors publish as code and others as repositories that Transformers loads."""
OTHERS = ("effdet/", "Megvii/", "WongKinYiu/", "keras/", "mlperf/", "yolo-original/", "timm/", "lyuwenyu/", "IDEA-Research/", "google/owl")
"""Programs of their own, or models that are asked in words."""
YOLO = "ultralytics/"


def repository(job: Job) -> str:
    """What the script loads: a repository of the hub, or torchvision/NAME."""
    return PUBLISHED.get(hub_id(job), hub_id(job))


def learning_rate(job: Job) -> float:
    """A usual value to begin with."""
    layout = job.option.layout
    if str(job.wish("optimizer") or "").startswith("sgd"):
        return SGD_RATE * layout.micro_batch * layout.grad_accum * max(1, job.num_gpus) / SGD_BATCH
    return HEAD_RATE if layout.method == "freeze" else RATES[job.task]


def detection_settings(job: Job) -> dict[str, Any]:
    """What train.json holds."""
    height, width = (int(sample(job).get(side) or 640) for side in ("height", "width"))
    return {
        **common_settings(job, columns=COLUMNS),
        **spreading(job),
        "model": repository(job),
        "learning_rate": learning_rate(job),
        "height": height,
        "width": width,
        "classes": 0,  # counted in the boxes
    }


def detection_stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    files = {
        **scripts("train_detection.py", "train_loop.py", "train_pictures.py", "run_core.py"),
        "train.json": to_json(detection_settings(job)),
    }
    return training_stack(job, "detection", packages=PACKAGES, command=torchrun(job, ("train.py", "train.json")), files=files)


def _detection_refuses(job: Job) -> Message | str:
    if modality(job) != "detection":
        return Message("export.no_detection")
    if hub_id(job).startswith(YOLO):
        return Message("export.detection_by_yolo", model=hub_id(job))
    if "/" not in repository(job) or repository(job).startswith(OTHERS):
        return Message("export.no_detection_model", model=hub_id(job))
    return sample_problem(job, methods=METHODS) or torch_problem(job)


DETECTION = Target(
    "detection",
    "training",
    "PyTorch script for detection (DETR, RT-DETR, Faster R-CNN, RetinaNet)",
    with_launcher(detection_stack),
    _detection_refuses,
    checked_by="runs on the processor with a tiny YOLOS",
    stack=detection_stack,
)


# ---- YOLO by Ultralytics, whose trainer starts a process for each card itself.

YOLO_PACKAGES = ("ultralytics-opencv-headless==8.4.190", "datasets==5.2.0", "torchvision==0.23.0", "pillow==12.0.0")
YOLO_OPTIMIZERS = {"sgd": "SGD", "sgd-momentum": "SGD", "adamw": "AdamW", "adamw-fused": "AdamW"}
FORMS = ("-seg", "-pose", "-obb", "-cls")
"""Endings of models that learn something else than boxes."""


def yolo_settings(job: Job) -> dict[str, Any]:
    """What train.json holds."""
    common = common_settings(job, columns=COLUMNS)
    taken = (
        "plan",
        "model",
        "from_scratch",
        "method",
        "data",
        "data_columns",
        "columns",
        "held_out",
        "output",
        "micro_batch",
        "grad_accum",
        "workers",
    )
    return {
        **{name: common[name] for name in taken if name in common},
        "epochs": max(1, math.ceil(epochs(job))),
        "precision": job.option.layout.precision,
        "optimizer": YOLO_OPTIMIZERS.get(str(job.wish("optimizer") or ""), "auto"),
        "size": int(max(sample(job).get("height") or 640, sample(job).get("width") or 640)),
        "cards": list(range(job.gpus_per_node)),
        "boxes": not hub_id(job).endswith(FORMS),
        "classes": 0,  # counted in the boxes
    }


def yolo_stack(job: Job) -> ExportStack:
    """One program on one server."""
    files = {**scripts("train_yolo.py", "run_core.py"), "train.json": to_json(yolo_settings(job))}
    return training_stack(job, "yolo", packages=YOLO_PACKAGES, command=("python", "train.py", "train.json"), files=files)


def _yolo_refuses(job: Job) -> Message | str:
    if not hub_id(job).startswith(YOLO):
        return Message("export.no_yolo", model=hub_id(job) or job.task)
    if problem := sample_problem(job, methods=METHODS):
        return problem
    if job.num_nodes > 1:
        return Message("export.one_server_by_yolo", count=job.num_nodes)
    wished = str(job.wish("optimizer") or "adamw")
    if wished not in YOLO_OPTIMIZERS:
        return Message("export.optimizer_asked_for", optimizer=wished, known=", ".join(YOLO_OPTIMIZERS))
    return torch_problem(job)


YOLO_TARGET = Target(
    "yolo",
    "training",
    "Ultralytics' trainer for YOLO, with data in its form or ours",
    with_launcher(yolo_stack),
    _yolo_refuses,
    checked_by="a run on the processor with a tiny YOLO, stopped and gone on",
    stack=yolo_stack,
)
