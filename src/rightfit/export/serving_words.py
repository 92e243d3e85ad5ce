"""What the servers of language models have in common: lengths, formats, replicas, as the plan found them."""

from __future__ import annotations

import math

from rightfit.export.job import SERVING_TASKS, Job

PORT = 8000
KEY = ("RIGHTFIT_API_KEY", "the key that clients must send")


def context_tokens(job: Job) -> int:
    """Prompt and answer of the longest request that the plan allows for, 0 where it names none."""
    return sum(int(float(job.wish(name) or job.option.facts.get(name) or 0)) for name in ("input_tokens", "output_tokens"))


def is_half(job: Job) -> bool:
    """Whether the plan computes in fp16 (cards without bf16) rather than bf16."""
    return job.option.layout.precision == "fp16"


def wrong_engine(job: Job, *engines: str) -> str:
    """Why a server program cannot serve the plan ("" if it can): another task, or a plan made for another engine."""
    if job.task not in SERVING_TASKS:
        return f"the plan is to {job.task}; this serves a language model"
    planned = job.option.layout.engine
    if planned.casefold() not in {engine.casefold() for engine in engines}:
        return f"the plan is made for {planned or 'no engine'}; make one with --framework {engines[0].casefold()}"
    return ""


def spans_servers(job: Job) -> str:
    """Why a service's or batch's replicas cannot each be started by one command on one server ("" if they can)."""
    layout = job.option.layout
    if job.task in SERVING_TASKS and job.gpus_per_node and layout.tensor * layout.pipeline > job.gpus_per_node:
        return (
            f"a replica spans {math.ceil(layout.tensor * layout.pipeline / job.gpus_per_node)} servers; no launcher is written yet for that"
        )
    return ""
