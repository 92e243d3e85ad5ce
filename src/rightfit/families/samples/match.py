"""Which workloads are of this family: training of models that learn from samples, not tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.search.request_checks import Honours, leave_out

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
    """The wish with the task that is meant where none was given: what is trained from the start
    is not fine-tuned."""
    if not workload.is_tuning_assumed:
        return workload
    from rightfit.families.samples.wish import starts_afresh

    return workload.from_the_start() if starts_afresh(workload) else workload


#: What a model takes of image_size, frames, audio_length and latents its own
#: reading of the wish says.
HONOURS = Honours(
    frozenset(
        {"data", "method", "epochs", "global_batch", "micro_batch", "optimizer", "lora_rank", "recompute", "precision", "quantization"}
    )
    | {"sharding", "offload", "framework", "storage", "data_location", "decode", "workers"}
    | {"image_size", "frames", "audio_length", "latents"},
    because={
        "seq_len": leave_out("no_tokens"),
        "tensor_parallel": leave_out("data_parallel"),
        "pipeline_parallel": leave_out("data_parallel"),
        "attention": leave_out("own_kernel"),
        "lora_targets": leave_out("own_adapters"),
    },
)


def honours(_workload: Workload) -> Honours:
    """The options that training on samples reads."""
    return HONOURS
