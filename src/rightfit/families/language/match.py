"""Which workloads are of this family: training and fine-tuning that no other family
of training takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit import facts
from rightfit.facts.image_tokens import image_rule
from rightfit.facts.records import TransformerArchitecture
from rightfit.messages import Message
from rightfit.search.request_checks import Honours, leave_out
from rightfit.search.seen import PICTURES
from rightfit.workload.vocabulary import REINFORCEMENTS, TUNINGS

if TYPE_CHECKING:
    from rightfit.workload import Workload

#: Families with a higher number are asked first.
PRECEDENCE = 0
#: The least wish that this family answers, and its page below docs/.
EXAMPLE = {"model": "meta-llama/Meta-Llama-3-8B", "task": "finetune", "data": "10Mtok"}
PAGE = "tasks/index.md"


def matches(workload: Workload) -> bool:
    """Whether a transformer is trained on tokens."""
    return workload.task in ("train", "finetune")


def settle(workload: Workload) -> Workload:
    """The wish with the task that is meant where none was given: so many tokens are
    learned from the start."""
    if not workload.is_tuning_assumed or workload.quantization or workload.lora_rank or workload.lora_targets:
        return workload
    from rightfit.families.language.wish import pretraining_tokens

    return workload.from_the_start() if pretraining_tokens(workload) else workload


LEAVE = leave_out("is_language")
HONOURS = Honours(
    frozenset({"data", "method", "epochs", "seq_len", "global_batch", "micro_batch", "optimizer", "lora_rank", "lora_targets"})
    | {"recompute", "attention", "precision", "quantization", "tensor_parallel", "pipeline_parallel", "sharding", "offload", "framework"}
    | {"storage", "data_location", "decode", "workers"},
    because=dict.fromkeys(("images", "image_size", "frames", "audio_length", "latents"), LEAVE),
)


OF_REWARDS = frozenset({"rollout", "completions", "reward_model", "input_tokens", "output_tokens"})
PREFERENCE_HONOURS = Honours(HONOURS.options | {"update"}, because=HONOURS.because)
REWARD_HONOURS = Honours(
    PREFERENCE_HONOURS.options - {"seq_len"} | OF_REWARDS, because={**HONOURS.because, "seq_len": Message("purposes.say_lengths")}
)


def honours(workload: Workload) -> Honours:
    """The options that training on tokens reads, by preferences and rewards
    more than by examples; of a model that sees what its images are like too."""
    told = PREFERENCE_HONOURS if workload.method in TUNINGS else HONOURS
    if workload.method in REINFORCEMENTS:
        told = REWARD_HONOURS
    if not _sees(workload):
        return told
    return Honours(told.options | set(PICTURES), because={name: why for name, why in told.because.items() if name not in PICTURES})


def _sees(workload: Workload) -> bool:
    """Whether a model takes images as tokens."""
    model = facts.model(workload.model)
    rule = image_rule(model) if isinstance(model, TransformerArchitecture) else None
    return rule is not None and rule.takes_images
