"""Plans whose base no card holds as a whole: QLoRA of a large model."""

from __future__ import annotations

from answers import stored

import rightfit
from rightfit.exports import Job, job_of, plan_document

SHARDED_BASE = {"model": "meta-llama/Meta-Llama-3-70B", "task": "finetune", "method": "qlora", "data": "10ksamples", "sharding": "zero3"}


def sharded_job(**further: str) -> Job:
    """Of one server; with two cards where weights are on the host."""
    wish = {**SHARDED_BASE, "gpu": "2xL40S" if further else "L40S", **further}
    values = stored(f"sharded base {sorted(wish.items())}", lambda: rightfit.plan(**wish).to_dict())
    return job_of(plan_document(values))
