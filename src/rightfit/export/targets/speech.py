"""Speech: a training script in plain PyTorch for recognisers of Transformers, those that write (Whisper) and those that mark frames (CTC)."""

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

PACKAGES = ("transformers==4.57.1", "datasets==4.3.0", "soundfile==0.13.1", "scipy==1.16.3", "numpy==2.2.6")
COLUMNS = (("audio", "text"),)
METHODS = ("full",)
FILLED_S = 30.0
"""Seconds to which Whisper fills every recording."""
LONGEST = 2.0
"""Longest recording that is kept, over the plan's mean: the memory that the plan counts is that of the mean."""
RATES = {"train": 5e-4, "finetune": 1e-5}
"""Not part of a plan: usual values to begin with."""


def settings(job: Job) -> dict[str, Any]:
    """What train.json holds."""
    seconds = float(sample(job).get("seconds") or FILLED_S)
    return {
        **common_settings(job, columns=COLUMNS),
        **spreading(job),
        "learning_rate": RATES[job.task],
        "longest_s": FILLED_S if seconds == FILLED_S else LONGEST * seconds,
    }


def stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    files = {**scripts("train_speech.py", "train_loop.py", "run_core.py"), "train.json": to_json(settings(job))}
    return training_stack(job, "speech", packages=PACKAGES, command=torchrun(job, ("train.py", "train.json")), files=files)


def write(job: Job) -> Files:
    """Script, settings, packages and command."""
    found = stack(job)
    return {"train.sh": launch_script(job, found), **found.files}


def _refuses(job: Job) -> Message | str:
    if modality(job) != "speech":
        return Message("export.part_no_speech")
    if "/" not in hub_id(job):
        return Message("export.part_no_speech_model", model=hub_id(job))
    return sample_problem(job, methods=METHODS) or torch_problem(job)


TARGET = Target(
    "speech",
    "training",
    "PyTorch script for speech recognisers (Whisper, wav2vec 2.0)",
    write,
    _refuses,
    checked_by="runs on the processor with a tiny Whisper and a tiny wav2vec 2.0, killed and gone on",
)
