"""Which workloads are of this family: training of models that learn from samples, not tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.search.honours import Honours

if TYPE_CHECKING:
    from rightfit.workload import Workload

#: Families with a higher number are asked first.
PRECEDENCE = 10
#: The least wish that this family answers, and its page below docs/.
EXAMPLE = {"model": "resnet50", "task": "train", "data": "100kimages"}
PAGE = "tasks/vision.md"


def matches(workload: Workload) -> bool:
    """Whether a model of vision, diffusion, speech, recommendation or graphs is trained."""
    if workload.task not in ("train", "finetune"):
        return False
    from rightfit.families.samples.models import trains_samples

    return trains_samples(workload)


def settle(workload: Workload) -> Workload:
    """The wish with the task that is meant where none was given: what is trained from the start is not fine-tuned."""
    if not workload.is_tuning_assumed:
        return workload
    from rightfit.families.samples.wish import starts_afresh

    return workload.from_the_start() if starts_afresh(workload) else workload


#: What a model takes of image_size, frames, audio_length and latents its own reading of the wish says.
HONOURS = Honours(
    frozenset(
        {"data", "method", "epochs", "global_batch", "micro_batch", "optimizer", "lora_rank", "recompute", "precision", "quantization"}
    )
    | {"sharding", "offload", "framework", "storage", "data_location", "decode", "workers"}
    | {"image_size", "frames", "audio_length", "latents"},
    because={
        "seq_len": "it reads no tokens; leave it out",
        "tensor_parallel": "it is trained with data parallelism; leave it out",
        "pipeline_parallel": "it is trained with data parallelism; leave it out",
        "attention": "its attention kernel is PyTorch's own; leave it out",
        "lora_targets": "its adapters sit on the attention layers; leave it out",
    },
)


def honours(_workload: Workload) -> Honours:
    """The options that training on samples reads."""
    return HONOURS
