"""Every option of a wish is honoured or refused: the frame refuses, in one line each, those that a kind of work does not take."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rightfit.errors import ContradictionError, InputError
from rightfit.records import dataclass
from rightfit.workload.options import raise_problems

if TYPE_CHECKING:
    from rightfit.workload import Workload

#: What every kind of work takes: the frame reads it, or the workload's own rules have refused it where it makes no sense (a deadline of a
#: service).
#: input_shape is settled, and refused where it says nothing, before any family sees the wish (rightfit.search.own_model).
OF_ALL = frozenset({"model", "task", "deadline", "budget", "confidence", "objective", "currency", "input_shape"})
#: Filters of the market, and ways to pay.
OF_MARKET = frozenset({"cloud", "region", "country", "residency", "sellers", "quota", "purchase", "gpu", "max_nodes", "office_hours"})
#: Words that ask for nothing: they hold where there is nothing to do without.
ASKS_NOTHING: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "method": ("full",),
        "quantization": ("none",),
        "recompute": ("none",),
        "sharding": ("none",),
        "offload": ("none",),
        "fleet": ("single",),
        "tensor_parallel": (1,),
        "pipeline_parallel": (1,),
    }
)
#: What the options are for that only some kinds of work take.
PURPOSES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("method", "optimizer", "recompute", "sharding", "offload", "micro_batch"), "it is for training of neural networks"
        ),
        **dict.fromkeys(("global_batch", "lora_rank"), "it is for training of neural networks"),
        **dict.fromkeys(("seq_len", "attention", "lora_targets"), "it is for training of language models"),
        **dict.fromkeys(("tensor_parallel", "pipeline_parallel"), "it is for language models, which are split over accelerators"),
        **dict.fromkeys(("precision", "quantization"), "it is for neural networks"),
        **dict.fromkeys(("storage", "data_location", "workers"), "it is for training and preparation, which read data"),
        **dict.fromkeys(("epochs", "decode"), "it is for training"),
        "data": "it is the amount that is worked through",
        **dict.fromkeys(("image_size", "frames"), "it is for models that take or draw images and videos"),
        "images": "it is for vision-language models",
        "denoise_steps": "it is for services and batches of diffusion models",
        "audio_length": "it is for models of sound",
        "latents": "it is for training of diffusion models",
        **dict.fromkeys(("rate", "users", "profile", "latency", "percentile", "fleet"), "it is for serving"),
        **dict.fromkeys(("trace", "input_tokens", "output_tokens", "ttft", "tpot"), "it is for models that produce text token by token"),
        **dict.fromkeys(("api_price", "prefix_share", "cached_tokens", "kv_cache"), "it is for models that produce text token by token"),
        **dict.fromkeys(("kv_offload", "cache_hits", "think"), "it is for services of models that produce text token by token"),
        **dict.fromkeys(("slice", "beside"), "it is for services"),
        **dict.fromkeys(("adapters", "adapter_rank"), "it is for models that produce text token by token"),
        **dict.fromkeys(("speculative", "draft_tokens", "acceptance"), "it is for models that produce text token by token"),
        **dict.fromkeys(
            ("update", "rollout", "completions", "reward_model"), "it is for preference and reinforcement tuning of language models"
        ),
        "framework": "it is for neural networks and libraries of tables",
        **dict.fromkeys(("columns", "library"), "it is for classical machine learning and data preparation"),
        "settings": "it is for classical machine learning and data preparation",
        **dict.fromkeys(("trees", "depth"), "it is for trees, such as xgboost or random-forest"),
        "operation": "it is for task prepare",
    }
)


def by_model(workload: Workload) -> str:
    """The model, or the task where none was named."""
    return f"model {workload.model}" if workload.model else by_task(workload)


def by_task(workload: Workload) -> str:
    """The task."""
    return f"task {workload.task}"


@dataclass(frozen=True, slots=True)
class Honours:
    """The options that a kind of work takes, beside those of all kinds.

    `because`: of options that it does not take, why and what to do, where that says more than what they are for. `against`: what an option
    that is not
    taken contradicts.
    """

    options: frozenset[str]
    because: Mapping[str, str] = dataclasses.field(default_factory=dict)
    against: Callable[[Workload], str] = by_model
    of_all: frozenset[str] = OF_ALL | OF_MARKET

    def taken(self) -> frozenset[str]:
        """Every option that is honoured."""
        return self.of_all | self.options


def refuse_unheeded(workload: Workload, honours: Honours) -> None:
    """Raise for every option that the user gave and that this kind of work would not read."""
    taken = honours.taken()
    raise_problems(
        [_refusal(workload, honours, name) for name, value in workload.wishes().items() if name not in taken and _asks(name, value)]
    )


def _asks(name: str, value: Any) -> bool:
    return value not in ASKS_NOTHING.get(name, ())


def _refusal(workload: Workload, honours: Honours, name: str) -> InputError:
    reason = honours.because.get(name) or f"{PURPOSES[name]}; leave it out"
    return ContradictionError(f"{name} contradicts {honours.against(workload)}: {reason}", field=name)
