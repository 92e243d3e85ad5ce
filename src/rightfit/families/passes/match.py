"""Which workloads are of this family: services and batches of models that answer in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.messages import Message
from rightfit.search.request_checks import Honours, leave_out

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


_ANSWERS_ONCE: dict[str, Message] = {
    **dict.fromkeys(("ttft", "tpot"), Message("purposes.use_latency")),
    "output_tokens": leave_out("no_output"),
    "trace": Message("purposes.no_trace"),
    "attention": leave_out("chosen_kernel"),
    "seq_len": Message("purposes.one_length"),
    "tensor_parallel": leave_out("one_replica"),
    "pipeline_parallel": leave_out("one_replica"),
}
_LOAD = frozenset({"rate", "users", "profile", "latency", "percentile", "fleet"})
#: What of the last four a model takes its own reading of the wish says.
_NETWORK = frozenset({"input_tokens", "precision", "quantization", "framework", "image_size", "frames", "denoise_steps", "audio_length"})
SERVICE = Honours(
    _LOAD | _NETWORK | {"slice", "beside"},
    because={**_ANSWERS_ONCE, "data": Message("purposes.no_amount")},
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
