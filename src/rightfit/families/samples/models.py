"""Which models learn from samples. Asked for every wish to train, so it loads little."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.facts.records import TransformerArchitecture
from rightfit.facts.resolve import existing_path
from rightfit.facts.trained_networks import is_listed

if TYPE_CHECKING:
    from rightfit.workload import Workload

TREES = "trees"
_IMAGE_SHARE = 0.4
_LONGEST_CAPTION = 512  # tokens that the text half of a contrastive pair reads: CLIP 77, SigLIP 64, long variants 248 to 512


def sample_model(name: str) -> Any:
    """The record of a model that is trained on samples, its name where only the table of its
    arithmetic knows it, None for a language model and for trees. A name that nobody knows raises
    UnknownNameError with the nearest. A folder is read each time: it may hold another model now."""
    return _sample_model(name) if existing_path(name) else _bundled_sample_model(name)


@functools.lru_cache(maxsize=256)
def _bundled_sample_model(name: str) -> Any:
    return _sample_model(name)


def _sample_model(name: str) -> Any:
    try:
        record = facts.model(name)
    except RightfitError:
        if is_listed(name):
            return name
        raise
    if isinstance(record, TransformerArchitecture):
        return record if _is_encoder(record) else None
    return None if getattr(record, "kind", "") == TREES else record


def _is_encoder(record: TransformerArchitecture) -> bool:
    """Whether a transformer takes sound or images and writes no text of a language model: Whisper,
    and CLIP, whose image half is a large part of it. A small model that reads documents has as
    large an eye, but writes long texts."""
    if record.kind == "vlm":
        return record.params_vision >= _IMAGE_SHARE * record.params_total and record.max_position <= _LONGEST_CAPTION
    if record.kind != "encoder-decoder":
        return False
    from rightfit.estimation.forward_models import forward_work
    from rightfit.estimation.pass_records import PassInput

    work = forward_work(PassInput(record.name))
    return work is not None and work.modality == "audio"


def trains_samples(workload: Workload) -> bool:
    """Whether this is a wish to train a model that is not a language model. An unknown model is
    left to those who look for it first."""
    if workload.task not in ("train", "finetune"):
        return False
    try:
        return sample_model(workload.model) is not None
    except RightfitError:
        return False
