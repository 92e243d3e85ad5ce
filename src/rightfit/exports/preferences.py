"""Tuning by preferences and rewards with TRL: what a row of the data holds, what its trainers are
told, and the engine that writes the answers of GRPO."""

from __future__ import annotations

from typing import Any

from rightfit.exports.job import Job
from rightfit.exports.learning import objective, trained
from rightfit.exports.model_words import architecture, class_names
from rightfit.exports.quoting import shell
from rightfit.exports.registry import Files
from rightfit.exports.stack import ADAPTERS, ExportStack
from rightfit.exports.training_words import (
    DRIVERS,
    LATER,
    data_packages,
    launch_script,
)
from rightfit.facts import coefficients
from rightfit.facts.engine_releases import EngineRelease, numbers, release_for
from rightfit.messages import Message

PAIRS = (("prompt", "chosen", "rejected"), ("chosen", "rejected"))
COLUMNS = {
    "sft": (("messages",), ("prompt", "completion"), ("text",)),
    "dpo": PAIRS,
    "orpo": PAIRS,
    "reward": PAIRS,
    "kto": (("prompt", "completion", "label"),),
    "grpo": (("prompt",),),
}
"""What a row of the data may hold, by what is learnt from: a conversation, a prompt with its
answer, or plain text; a better and a worse answer; an answer and whether it is good; a prompt, with
whatever reward.py reads beside it."""
OBJECTIVES = (*COLUMNS, "ppo")
RATES = {
    "dpo": {"full": 1e-6, "adapter": 1e-5},
    "orpo": {"full": 8e-6, "adapter": 8e-5},
    "kto": {"full": 1e-6, "adapter": 1e-5},
    "reward": {"full": 1e-5, "adapter": 1e-4},
    "grpo": {"full": 1e-6, "adapter": 1e-5},
}
"""Not part of a plan, usual values: the defaults of TRL 1.16 for dpo, kto and grpo, and its default
for reward with adapters; the paper's for orpo; whole and adapters a factor of ten apart."""
BETAS = {"dpo": 0.1, "orpo": 0.1, "kto": 0.1, "grpo": 0.04}
"""How far answers may move from the reference: of the papers (dpo, orpo and kto 0.1, grpo 0.04). By
it grpo has the reference that the plan counts."""


def learning(job: Job) -> dict[str, Any]:
    """What tuning by preferences and rewards adds."""
    learnt = objective(job)
    if learnt == "sft":
        return {}
    found = {"objective": learnt, "learning_rate": RATES[learnt]["adapter" if trained(job) in ADAPTERS else "full"]}
    if learnt == "grpo":
        return {**found, "rollout": rollout(job), "reward_model": str(job.wish("reward_model") or "")}
    return {**found, "preference": {"beta": BETAS[learnt]}} if learnt in BETAS else found


# ---- The answers of GRPO: vLLM inside the trainer's processes, which gives its memory
# back while they train.

FIRST_ROLLOUT, LAST_ROLLOUT = "0.22.0", "0.31.0"
"""The vLLM that TRL 1.16 goes with: its METADATA, extra vllm."""
ROLLOUT_PACKAGES = tuple(pin for pin in LATER if not pin.startswith("transformers"))
USUAL_ANSWER, USUAL_GROUP, MOST_ENGINE_CARDS = 1024, 8, 8
ENGINE_BYTES = 2.0
"""Of a parameter of the engine: 16 bits."""
ENGINE_SHARE = 0.5
"""Of a card that the engine may take while the trainer's states lie beside it: adapters and shards
leave that much; TRL's own 0.3 is for trainers that keep everything on the card."""


def group(job: Job) -> int:
    """Answers to each prompt."""
    return int(job.wish("completions") or USUAL_GROUP)


def rollout(job: Job) -> dict[str, Any]:
    """Settings of GRPO under TRL's own names."""
    layout = job.option.layout
    cards = min(layout.shard_degree, MOST_ENGINE_CARDS, max(1, job.gpus_per_node)) if layout.sharding in ("zero-3", "hybrid") else 1
    return {
        "num_generations": group(job),
        "max_completion_length": int(float(job.wish("output_tokens") or USUAL_ANSWER)),
        "beta": BETAS["grpo"],
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_tensor_parallel_size": cards,
        "vllm_gpu_memory_utilization": ENGINE_SHARE,
        "vllm_enable_sleep_mode": True,
    }


def rollout_release(job: Job) -> EngineRelease | None:
    """The vLLM that answers: the newest that TRL goes with, the model and the card have."""
    found = release_for("vllm", class_names(job), job.accelerator, until=LAST_ROLLOUT)
    return found if found and found.package and numbers(found.version) >= numbers(FIRST_ROLLOUT) else None


def rollout_problem(job: Job) -> Message | str:
    """Why GRPO cannot be started as planned ("" if it can)."""
    layout = job.option.layout
    if layout.rollout not in ("", "colocated"):
        return Message("export.rollout_apart", rollout=layout.rollout)
    known, cards = architecture(job), rollout(job)["vllm_tensor_parallel_size"]
    if known and ENGINE_BYTES * known.params_total / cards > coefficients("tuning")["most_engine_weights"] and job.num_gpus > cards:
        return Message("export.rollout_over_servers", model=job.model, cards=cards)
    if not rollout_release(job):
        return Message("export.no_rollout", model=job.model, card=job.accelerator or Message("export.a_processor"), last=LAST_ROLLOUT)
    batch = layout.micro_batch * layout.grad_accum * max(1, job.num_gpus)
    return Message("export.answers_divide", batch=batch, count=group(job)) if batch % group(job) else ""


def rollout_stack(job: Job, name: str, *, command: tuple[str, ...], files: Files, packages: tuple[str, ...]) -> ExportStack:
    """vLLM, which brings its own PyTorch, with TRL beside it."""
    release = rollout_release(job)
    assert release is not None
    beside = (*ROLLOUT_PACKAGES, *packages, *data_packages(job))
    wanted = (*release.package.split(), *beside)
    return ExportStack(
        name=name,
        image=release.image,
        setup=(f"pip install {shell(wanted)}",),
        command=command,
        files={**files, "requirements.txt": "\n".join(wanted) + "\n"},
        environment={},
        secrets=("HF_TOKEN",),
        beside=(f"pip install {shell(beside)}",),
    )


def launched_beside(job: Job, stack: ExportStack) -> str:
    """train.sh of a stack that brings a PyTorch of its own."""
    release = rollout_release(job)
    cuda = release.cuda if release else ""
    return launch_script(job, stack, ground=(f"CUDA {cuda}", DRIVERS.get(cuda, "")))


def tuned_problem(job: Job) -> Message | str:
    """What tuning by preferences and rewards asks of a plan beside the rest ("" if it is there)."""
    if objective(job) == "grpo":
        return rollout_problem(job)
    if objective(job) == "ppo":
        return Message("export.no_ppo")
    if objective(job) == "kto" and job.option.layout.micro_batch < 2:
        return Message("export.kto_pairs")
    return ""
