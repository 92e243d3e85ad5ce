"""What the search asks of a wish to train a model that is not a language model: one sample stands where a language model has a token."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from rightfit.estimate.data_path import DataLoad
from rightfit.estimate.model_work import ModelWork
from rightfit.records import dataclass
from rightfit.search.training.wish import TrainingWish

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the samples are trained on. `optimizer_bytes` of states per trained parameter; `adapter_rank` > 0: adapters learn; `trainable` >
    0: that
    many parameters learn; `stored`: how frozen weights are held; `software`: a class of stacks; `latents`: "cached", "live" or empty where
    there is no image encoder; `host_bytes`: what each job keeps in RAM whatever its accelerators (features of a graph)."""

    optimizer_bytes: float
    software: str
    adapter_rank: float = 0.0
    trainable: float = 0.0
    stored: str = "fp32"
    latents: str = ""
    channels_last: bool = False
    host_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class SampleWish(TrainingWish):
    """A wish counted in samples: `seq_len` is 1 and `amount.tokens` counts samples over all epochs. `sample` describes one: its unit
    ("images"), side
    [pixels], frames, seconds."""

    model: Any  # the record, None where only a table of arithmetic knows the model
    work: ModelWork = dataclasses.field(kw_only=True)
    recipe: Recipe = dataclasses.field(kw_only=True)
    load: DataLoad = dataclasses.field(kw_only=True)
    sample: Mapping[str, Any] = dataclasses.field(kw_only=True)
