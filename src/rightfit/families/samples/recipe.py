"""What learns and how: methods that a model can use, optimizer, software, latents; options that do not go with it are refused in one
line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import ContradictionError
from rightfit.estimate.model_work import usual_optimizer_bytes
from rightfit.facts.trainers import sample_optimizer_bytes, sample_stack
from rightfit.families.samples.sample_wish import Recipe
from rightfit.messages import Message
from rightfit.search.notes import Notes

if TYPE_CHECKING:
    from rightfit.estimate.model_work import ModelWork
    from rightfit.workload import Workload

ATTENTION_KINDS = ("transformer", "window", "dit", "denoiser")
ADAPTERS = ("lora", "dora", "qlora")
CONVOLUTIONS = ("conv", "grouped", "depthwise", "convnext", "detection", "unet", "conv3d", "denoiser")
TUNED_STORED = {"nf4": "nf4", "fp4": "nf4", "int4": "nf4", "int8": "int8", "fp8": "fp8"}
_OPTIMIZERS = {8.0: "adamw", 4.0: "sgd"}


def methods_of(work: ModelWork) -> tuple[str, ...]:
    """Training methods that a model can use, the usual one for fine-tuning first."""
    if work.modality == "diffusion":
        return ("lora", "dora", "qlora", "full", "dreambooth", "textual-inversion")
    if work.kind in ATTENTION_KINDS and work.modality not in ("gan", "graph", "recommendation"):
        return ("full", "lora", "dora", "freeze")
    if work.modality in ("recommendation", "graph", "gan", "text", "time-series", "molecules"):
        return ("full",)
    return ("full", "freeze")


def settle_method(workload: Workload, work: ModelWork, notes: Notes) -> Workload:
    """The method: the user's if the model can use it, else the usual one."""
    allowed = methods_of(work)
    method = workload.method or "full"
    if workload.lora_rank and not any(name in ADAPTERS for name in allowed):
        raise ContradictionError(Message("families.no_adapters", model=workload.model, methods=", ".join(allowed)), field="lora_rank")
    if "method" not in workload.assumed and workload.method is not None:
        if method not in allowed:
            raise ContradictionError(
                Message("families.method_samples", method=method, model=workload.model, methods=", ".join(allowed)), field="method"
            )
        return workload
    adapts = workload.quantization or workload.lora_rank  # only an adapter has use for either
    chosen = "full" if workload.task == "train" else method if adapts and method in allowed else allowed[0]
    notes.take("method", chosen, "sample_method")
    return workload if chosen == method else workload.settled(method=chosen)


def refuse_quantization(workload: Workload) -> None:
    """Weights are quantised only where they do not learn; the method is settled before."""
    if workload.quantization not in (None, "none") and workload.method not in ADAPTERS:
        raise ContradictionError(
            Message("families.adapters_only", quantization=workload.quantization, model=workload.model),
            field="quantization",
        )


def refuse_other_values(workload: Workload, work: ModelWork) -> None:
    """Values that this model gives no meaning."""
    if workload.precision == "fp8":
        raise ContradictionError(Message("families.precision_fp8", model=workload.model), field="precision")
    if workload.recompute == "selective":
        raise ContradictionError(Message("families.recompute_selective", model=workload.model), field="recompute")
    if workload.latents and work.modality != "diffusion":
        raise ContradictionError(Message("families.no_latents", model=workload.model), field="latents")
    if workload.offload not in (None, "none", "params", "all") or (
        workload.offload in ("params", "all") and work.kind not in ("dit", "denoiser")
    ):
        raise ContradictionError(
            Message("families.offload_samples", offload=workload.offload, model=workload.model),
            field="offload",
        )
    if workload.sharding in ("zero1", "zero2"):
        raise ContradictionError(Message("families.sharding_samples", sharding=workload.sharding, model=workload.model), field="sharding")


def read_recipe(workload: Workload, work: ModelWork, sample: Mapping[str, Any], notes: Notes) -> Recipe:
    """The recipe, with a note for each default that matters."""
    usual, method = facts.coefficients("training"), workload.method or "full"
    rank = 0.0
    if method in ADAPTERS:
        rank = float(workload.lora_rank or usual["usual_rank"])
        if not workload.lora_rank:
            notes.take("lora_rank", rank, "sample_rank")
    named = sample_optimizer_bytes(workload.optimizer or "")
    states = usual_optimizer_bytes(work, workload.model) if named is None else named
    if not workload.optimizer:
        usual_name = _OPTIMIZERS.get(states, "sgd")
        notes.take("optimizer", usual_name, "sample_optimizer")
    latents = _latents(workload, work, method, notes)
    channels_last = work.kind in CONVOLUTIONS and workload.precision not in ("fp32", "tf32")
    if channels_last:
        notes.take("memory_format", "channels_last", "channels_last")
    software = _software(workload, work, notes)
    trainable = usual["inversion_parameters"] if method == "textual-inversion" else 0.0
    return Recipe(states, software, rank, trainable, _stored(workload, method, rank or trainable), latents, channels_last)


def _latents(workload: Workload, work: ModelWork, method: str, notes: Notes) -> str:
    """Whether latents and text embeddings are made beforehand: not where the text encoder learns too."""
    if work.modality != "diffusion":
        return ""
    if workload.latents:
        if workload.latents == "cached" and method in ("dreambooth", "textual-inversion"):
            raise ContradictionError(Message("families.latents_cached", method=method), field="latents")
        return workload.latents
    chosen = "live" if method in ("dreambooth", "textual-inversion") else "cached"
    notes.take("latents", chosen, f"latents_{chosen}")
    return chosen


def _software(workload: Workload, work: ModelWork, notes: Notes) -> str:
    """The class of software: the one named, else the usual one of the field."""
    if workload.framework:
        return sample_stack(workload.framework)
    notes.take("framework", "PyTorch", "sample_framework")
    return "library" if work.modality in ("detection", "segmentation", "detection3d") else "eager"


def _stored(workload: Workload, method: str, frozen: float) -> str:
    """How weights that do not learn are held."""
    if not frozen:
        return "fp32"
    if method == "qlora":
        return TUNED_STORED.get(workload.quantization or "nf4", "nf4")
    return TUNED_STORED.get(workload.quantization or "", "half")
