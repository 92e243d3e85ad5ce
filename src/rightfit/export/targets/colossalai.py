"""ColossalAI: a training script with the plug-in that suits the plan's layout (DDP, ZeRO, Gemini, or tensor and pipeline parallelism)."""

from __future__ import annotations

from typing import Any

from rightfit.export.environment import Span, torch_problem
from rightfit.export.job import SERVING_TASKS, Job
from rightfit.export.model_words import architecture, model_kind
from rightfit.export.quoting import to_json
from rightfit.export.registry import Files, Target
from rightfit.export.stack import ExportStack
from rightfit.export.training_words import (
    ACTIVATIONS_ELSEWHERE,
    common_settings,
    data_problem,
    launch_script,
    scripts,
    splits_model,
    torchrun,
    training_stack,
)
from rightfit.messages import Message

PACKAGES = ("colossalai==0.5.0", "transformers==4.51.3", "datasets==4.3.0", "numpy==1.26.4")
SPAN: Span = ((2, 2), (2, 5, 1))
SHARDED_FAMILIES = ("llama", "llama2", "llama3", "mistral", "mixtral", "qwen2", "qwen3", "gpt2", "opt", "bloom", "falcon", "deepseek")
"""Families that its policies split by tensor and pipeline parallelism."""


def plugin(job: Job) -> tuple[str, dict[str, Any]]:
    """Name and arguments of the booster's plug-in."""
    layout = job.option.layout
    precision = layout.precision if layout.precision in ("bf16", "fp16") else "fp32"
    if splits_model(job):
        found = {"tp_size": layout.tensor, "pp_size": layout.pipeline, "precision": precision, "max_norm": 1.0}
        found |= {"zero_stage": {"zero-1": 1, "zero-2": 2}.get(layout.sharding, 0), "microbatch_size": layout.micro_batch}
        return "HybridParallelPlugin", found
    if layout.sharding == "zero-3" or "param" in layout.offload:
        offload = 1.0 if layout.moves_states else 0.0
        found = {
            "precision": precision,
            "placement_policy": "static",
            "shard_param_frac": 1.0,
            "offload_optim_frac": offload,
            "max_norm": 1.0,
        }
        return "GeminiPlugin", found | {
            "offload_param_frac": 1.0 if "param" in layout.offload else 0.0,
            "enable_gradient_accumulation": True,
        }
    if layout.sharding in ("zero-1", "zero-2") or layout.moves_states or precision != "fp32":
        stage = 1 if layout.sharding == "zero-1" or layout.grad_accum > 1 else 2
        return "LowLevelZeroPlugin", {"stage": stage, "precision": precision, "cpu_offload": layout.moves_states, "max_norm": 1.0}
    return "TorchDDPPlugin", {}


def settings(job: Job) -> dict[str, Any]:
    """train.json. A pipeline takes all micro-batches of a step at once; the others take one after the other."""
    layout = job.option.layout
    name, arguments = plugin(job)
    pipelined = layout.pipeline > 1
    return {
        **common_settings(job, columns=(("text",),)),
        "attention": "eager" if layout.attention == "eager" else "sdpa",
        "plugin": name,
        "plugin_settings": arguments,
        "loader_batch": layout.micro_batch * (layout.grad_accum if pipelined else 1),
        "loader_accum": 1 if pipelined else layout.grad_accum,
    }


def stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    files = {**scripts("train_colossalai.py", "run_core.py"), "train.json": to_json(settings(job))}
    return training_stack(job, "colossalai", packages=PACKAGES, command=torchrun(job, ("train.py", "train.json")), files=files, span=SPAN)


def write(job: Job) -> Files:
    """Script, settings, packages and command."""
    found = stack(job)
    return {"train.sh": launch_script(job, found, span=SPAN), **found.files}


def _refuses(job: Job) -> Message | str:
    if job.task in SERVING_TASKS or job.task == "prepare":
        return Message("export.part_it_trains", task=job.task)
    layout, known = job.option.layout, architecture(job)
    if model_kind(job) != "decoder":
        return Message("export.part_no_language_model")
    if layout.moves_activations:
        return ACTIVATIONS_ELSEWHERE
    if layout.method != "full":
        return Message("export.part_script_trains_all", method=layout.method)
    if layout.sharding == "hybrid" or layout.context * layout.expert > 1 or (splits_model(job) and layout.sharding == "zero-3"):
        return Message(
            "export.part_layout_beside_tensor", sharding=layout.sharding, context=layout.context, expert=layout.expert, tensor=layout.tensor
        )
    if splits_model(job) and (known is None or known.family not in SHARDED_FAMILIES):
        return Message("export.part_no_policy")
    if job.wish("optimizer") not in (None, "adamw", "adamw-fused"):
        return Message("export.part_its_adam", optimizer=job.wish("optimizer"))
    if not job.gpus_per_node:
        return Message("export.part_kernels_for_accelerators")
    return data_problem(job) or torch_problem(job, span=SPAN)


TARGET = Target(
    "colossalai",
    "training",
    "ColossalAI script with the plug-in of the layout",
    write,
    _refuses,
    checked_by="the arguments of ColossalAI's own plug-ins",
)
