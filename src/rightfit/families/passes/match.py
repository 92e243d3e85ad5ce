"""Which workloads are of this family: services and batches of models that answer in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.search.honours import Honours

if TYPE_CHECKING:
    from rightfit.workload import Workload

#: Families with a higher number are asked first.
PRECEDENCE = 10
#: The least wish that this family answers, and its page below docs/.
EXAMPLE = {"model": "bert-base-uncased", "task": "serve", "rate": "10/s"}
PAGE = "tasks/serving.md"


def matches(workload: Workload) -> bool:
    """Whether a model answers with one pass: all that does not write text token by token."""
    if workload.task not in ("serve", "batch"):
        return False
    from rightfit import facts
    from rightfit.search.service.wish import is_generating

    return scores_rows(workload) or not is_generating(facts.model(workload.model))


_OF_TOKENS = "it is for models that produce text token by token; leave it out"
_ANSWERS_ONCE: dict[str, str] = {
    **dict.fromkeys(("ttft", "tpot"), "it does not produce text token by token; use latency"),
    "output_tokens": "it does not produce text token by token; leave it out",
    "trace": "it answers in one pass, and traces are for models that generate text; give rate",
    "attention": "its engine chooses the kernel; leave it out",
    "seq_len": "a request has input_tokens; give those",
    "tensor_parallel": "a replica is one accelerator or one processor; leave it out",
    "pipeline_parallel": "a replica is one accelerator or one processor; leave it out",
}
_LOAD = frozenset({"rate", "users", "profile", "latency", "percentile", "fleet"})
#: What of the last four a model takes its own reading of the wish says.
_NETWORK = frozenset({"input_tokens", "precision", "quantization", "framework", "image_size", "frames", "denoise_steps", "audio_length"})
SERVICE = Honours(
    _LOAD | _NETWORK | {"slice", "beside"},
    because={**_ANSWERS_ONCE, "data": "a service has no amount of data; give rate or users, or say task batch"},
)
BATCH = Honours(_NETWORK | {"data"}, because=_ANSWERS_ONCE)
ROWS = Honours(_LOAD | {"data", "columns", "library", "framework", "trees", "depth", "settings", "precision"}, because=_ANSWERS_ONCE)


def scores_rows(workload: Workload) -> bool:
    """Whether a classical model scores one row a request."""
    from rightfit.facts.classical import classical_model

    return workload.task == "serve" and bool(workload.model) and classical_model(workload.model) is not None


def honours(workload: Workload) -> Honours:
    """The options that answering in one pass reads."""
    if scores_rows(workload):
        return ROWS
    return SERVICE if workload.task == "serve" else BATCH
