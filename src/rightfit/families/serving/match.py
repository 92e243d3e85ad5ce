"""Which workloads are of this family: services and batches that no other family
of services takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.messages import Message
from rightfit.search.request_checks import Honours, by_task, leave_out

if TYPE_CHECKING:
    from rightfit.workload import Workload

#: Families with a higher number are asked first.
PRECEDENCE = 0
#: The least wish that this family answers, and its page below docs/.
EXAMPLE = {"model": "meta-llama/Meta-Llama-3-8B", "task": "serve", "rate": "1/s"}
PAGE = "tasks/serving.md"


def matches(workload: Workload) -> bool:
    """Whether a language model answers, token by token."""
    return workload.task in ("serve", "batch")


_OF_BOTH = frozenset(
    {"input_tokens", "output_tokens", "precision", "quantization", "kv_cache", "framework", "tensor_parallel", "pipeline_parallel"}
    | {"gpu_memory_utilization", "images", "image_size", "frames", "audio_length"}
    | {"api_price", "prefix_share", "cached_tokens", "adapters", "adapter_rank", "speculative", "draft_tokens", "acceptance"}
)
_LENGTH = Message("purposes.lengths")
_ENGINE = Message("purposes.engine_kernel")
SERVICE = Honours(
    _OF_BOTH
    | {
        "slice",
        "beside",
        "kv_offload",
        "cache_hits",
        "rate",
        "users",
        "think",
        "trace",
        "profile",
        "ttft",
        "tpot",
        "latency",
        "percentile",
        "fleet",
    },
    because={"data": Message("purposes.no_amount"), "seq_len": _LENGTH, "attention": _ENGINE},
    against=by_task,
)
BATCH = Honours(
    _OF_BOTH | {"data"},
    because={"kv_offload": leave_out("read_once"), "seq_len": _LENGTH, "attention": _ENGINE},
    against=by_task,
)


def honours(workload: Workload) -> Honours:
    """The options that answering token by token reads."""
    return SERVICE if workload.task == "serve" else BATCH
