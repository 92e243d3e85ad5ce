"""Adapters of FLUX and Wan: a script of ours that keeps the base in 16 or 8 bit and swaps its
blocks with host memory, on one card or several."""

from __future__ import annotations

from typing import Any

from rightfit.exports.job import Job
from rightfit.exports.model_words import diffusion_family, hub_id, lender, model_kind, sample
from rightfit.exports.quoting import to_json
from rightfit.exports.registry import Target
from rightfit.exports.stack import ExportStack, torch_problem
from rightfit.exports.targets.torchrun import NUMPY, spreading
from rightfit.exports.targets.vision_and_speech import DIFFUSERS_PACKAGES, DIFFUSERS_RATES
from rightfit.exports.training_words import common_settings, sample_problem, scripts, torchrun, training_stack, with_launcher
from rightfit.messages import Message

METHODS = ("lora", "qlora")
COLUMNS = {"flux": (("image", "text"),), "wan": (("video", "text"), ("image", "text"))}
TARGETS = ["to_q", "to_k", "to_v", "to_out.0"]
"""Projections of attention, as diffusers' own trainers adapt them."""
REPOSITORIES = {
    "black-forest-labs/FLUX.1-dev": "black-forest-labs/FLUX.1-dev",
    "black-forest-labs/FLUX.1-schnell": "black-forest-labs/FLUX.1-schnell",
    "Wan-AI/Wan2.1-T2V-1.3B": "Wan-AI/Wan2.1-T2V-1.3B-Diffusers",
    "Wan-AI/Wan2.1-T2V-14B": "Wan-AI/Wan2.1-T2V-14B-Diffusers",
}
"""Models whose inputs the script makes -> the repository in the form of diffusers."""
TEXT_TOKENS = 512
VIDEO = "av==16.0.1"


def base(job: Job) -> str:
    """How the frozen base is kept."""
    return "fp8" if job.wish("quantization") == "fp8" else "half"


def diffusion_settings(job: Job) -> dict[str, Any]:
    """What train.json holds."""
    size, layout = sample(job), job.option.layout
    return {
        **common_settings(job, columns=COLUMNS[diffusion_family(job)]),
        **spreading(job, fsdp2=layout.sharding not in ("none", "ddp")),
        "offload": False,
        "model": REPOSITORIES.get(hub_id(job), hub_id(job)),
        "method": "lora",
        "family": diffusion_family(job),
        "learning_rate": DIFFUSERS_RATES["lora"],
        "lora_targets": list(TARGETS),
        "height": int(size.get("height") or 1024),
        "width": int(size.get("width") or 1024),
        "frames": max(1, int(size.get("frames") or 1)),
        "text_tokens": TEXT_TOKENS,
        "base": base(job),
        "swaps": layout.moves_states,
    }


def diffusion_stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    files = {
        **scripts("train_diffusion.py", f"diffusion_{diffusion_family(job)}.py", "train_loop.py", "run_core.py"),
        "train.json": to_json(diffusion_settings(job)),
    }
    packages = (*DIFFUSERS_PACKAGES, NUMPY, *((VIDEO,) if diffusion_family(job) == "wan" else ()))
    return training_stack(job, "diffusion-lora", packages=packages, command=torchrun(job, ("train.py", "train.json")), files=files)


def _diffusion_refuses(job: Job) -> Message | str:
    if model_kind(job) != "diffusion":
        return Message("export.no_diffusion_model")
    if lender(job) not in REPOSITORIES:
        return Message("export.no_adapted_family", model=hub_id(job), known=", ".join(REPOSITORIES))
    layout = job.option.layout
    if layout.method == "qlora" and base(job) != "fp8":
        return Message("export.base_in_8_bit")
    if layout.sharding not in ("none", "ddp") and (base(job) == "fp8" or layout.moves_states):
        return Message("export.swaps_instead", sharding=layout.sharding)
    return sample_problem(job, methods=METHODS) or torch_problem(job)


DIFFUSION_LORA = Target(
    "diffusion-lora",
    "training",
    "PyTorch script for adapters of FLUX and Wan: 8-bit base, block swap",
    with_launcher(diffusion_stack),
    _diffusion_refuses,
    checked_by="runs on the processor with a tiny FLUX and a tiny Wan, one with an 8-bit base and swapped blocks",
    stack=diffusion_stack,
)
