"""What the plan's model is: its kind and shape, where it is one that rightfit knows by name. Files and network are never asked."""

from __future__ import annotations

import functools
from typing import Any

from rightfit.export.job import Job
from rightfit.facts import DiffusionModel, Resolution, TransformerArchitecture, VisionModel, hub_repository, resolve_offline
from rightfit.messages import Message


@functools.lru_cache(maxsize=64)
def _found(name: str) -> Resolution | None:
    return resolve_offline(name)


def _record(name: str) -> Any:
    found = _found(name)
    return found.record if found is not None else None


def architecture(job: Job) -> TransformerArchitecture | None:
    """Layers and widths of a language model; None where they are not known, or only guessed from a size."""
    found = _record(job.model)
    return found if isinstance(found, TransformerArchitecture) and found.certainty != "typical" else None


def model_kind(job: Job) -> str:
    """decoder, encoder, encoder-decoder, vision, diffusion or other."""
    found, facts = _record(job.model), job.option.facts
    if isinstance(found, DiffusionModel) or facts.get("modality") == "diffusion":
        return "diffusion"
    if isinstance(found, VisionModel) or facts.get("modality") == "classification":
        return "vision"
    if isinstance(found, TransformerArchitecture) and job.seq_len:
        return "encoder" if found.kind == "encoder" else "encoder-decoder" if found.kind == "encoder-decoder" else "decoder"
    return "decoder" if job.seq_len else "other"


def hub_id(job: Job) -> str:
    """The repository that the programs fetch the model from: the one that was asked for by its owner and name, whichever record lent the plan its
    shape; else that of the common name; else the name as given."""
    return hub_repository(job.model, _found(job.model)) or job.model


def class_names(job: Job) -> tuple[str, ...]:
    """The names by which engines' tables know the model's class: the repository, and that of its record."""
    return tuple(dict.fromkeys(name for name in (hub_id(job), lender(job)) if "/" in name))


def lender(job: Job) -> str:
    """The record that the model's shape is taken from; "" where that is not one of ours."""
    found = _record(job.model)
    return str(found.name) if found is not None else ""


def size_problem(job: Job) -> Message | str:
    """Why a plan cannot be started that was made for a size ("7B") and names no model whose weights there are ("" if it can)."""
    found = _record(job.model)
    if isinstance(found, TransformerArchitecture) and found.certainty == "typical":
        return Message("export.part_of_a_size", model=job.model)
    return ""


def diffusion_family(job: Job) -> str:
    """sdxl, flux, stable-diffusion ...; empty for other models."""
    found = _record(job.model)
    return found.family if isinstance(found, DiffusionModel) else ""


def image_size(job: Job) -> int:
    """Pixels of a side of a training image; 0 where there are none."""
    return int(sample(job).get("height") or 0)


def modality(job: Job) -> str:
    """What the model works on, as a plan of samples says it (speech, segmentation, classification ...); "" for other plans."""
    return str(job.option.facts.get("modality") or "")


def sample(job: Job) -> dict[str, Any]:
    """Sizes of a sample of the plan (height, width, seconds); empty where there are none."""
    found = job.option.facts.get("sample")
    return found if isinstance(found, dict) else {}


def is_text_encoder(job: Job) -> bool:
    """Whether the model is one that makes vectors of texts (BERT and its like)."""
    found = _record(job.model)
    return isinstance(found, TransformerArchitecture) and found.kind in ("encoder", "embedding")


WITHOUT_REVISION = ("tensorrt-llm", "megatron", "timm", "tabular", "prepare", "batch", "llama-cpp", "onnx-service", "bentoml", "triton")
"""Targets whose program takes a model's newest files, or files that the user brings."""


def revision_problem(job: Job, target: str) -> Message | str:
    """Why a program cannot take the commit that the user names ("" if it can)."""
    if job.settings.revision and target in WITHOUT_REVISION:
        return Message("export.part_no_revision", target=target)
    return ""
