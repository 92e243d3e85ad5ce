"""torchrun: a training script in plain PyTorch that spreads the model as the plan does (DDP or
FSDP2), and the command that starts it."""

from __future__ import annotations

from typing import Any

from rightfit.exports.job import Job
from rightfit.exports.model_words import lender, modality, model_kind
from rightfit.exports.quoting import to_json
from rightfit.exports.registry import Target
from rightfit.exports.stack import ExportStack, torch_problem
from rightfit.exports.training_words import (
    class_problem,
    common_settings,
    data_problem,
    hub_packages,
    optimizer,
    scripts,
    torchrun,
    training_problem,
    training_stack,
    with_launcher,
)
from rightfit.facts.tables import says
from rightfit.messages import Message

PACKAGES = ("transformers", "datasets", "accelerate")
NUMPY = "numpy==2.2.6"
SENTENCE_PIECES = ("sentencepiece==0.2.3", "protobuf==6.33.6")
"""What reads the tokenizers of many text-to-text models."""
METHODS = ("full", "lora", "dora")
COLUMNS = {
    "classification": (("text", "label"),),
    "embedding": (("anchor", "positive"),),
    "reranking": (("query", "text", "label"),),
    "text-to-text": (("prompt", "completion"),),
    "translation": (("prompt", "completion", "source_language", "target_language"),),
    "causal": (("text",),),
    "tuning": (("messages",), ("prompt", "completion"), ("text",)),
}
"""What a row of the data must hold, by what is learnt."""
LEAST_PAIRS = 2
"""In a micro-batch: the other pairs of it are what a pair is told from."""
OBJECTIVES = {"encoder": "classification", "embedding": "embedding", "reranker": "reranking", "encoder-decoder": "text-to-text"}
"""Kind of a model that is no decoder -> what it learns."""
SHARDED = ("zero-1", "zero-2", "zero-3", "hybrid")


def spreading(job: Job, *, fsdp2: bool | None = None) -> dict[str, Any]:
    """How train_loop.py spreads the model: FSDP2 where the plan shards (or `fsdp2`
    says so), else DDP."""
    layout = job.option.layout
    return {
        "parallel": "fsdp2" if (layout.sharding in SHARDED if fsdp2 is None else fsdp2) else "ddp",
        "reshard_after_forward": layout.sharding in ("zero-3", "hybrid") or layout.moves_states,
        "offload": layout.moves_states,
        "gpus_per_node": max(1, job.gpus_per_node),
        **({"activations_on_host": True} if layout.moves_activations else {}),
    }


def settings(job: Job, *, fsdp2: bool) -> dict[str, Any]:
    """What train.json holds. ZeRO-1 and ZeRO-2 become FSDP2 that keeps gathered weights
    after the forward pass."""
    layout = job.option.layout
    objective = OBJECTIVES.get(model_kind(job), "causal")
    translates = objective == "text-to-text" and says("setup", "told_languages", lender(job).casefold())
    rows = "tuning" if objective == "causal" and job.task != "train" else "translation" if translates else objective
    return {
        **common_settings(job, columns=COLUMNS[rows]),
        "objective": objective,
        **({"first_sees_all": True} if says("setup", "sees_all_from", lender(job).casefold()) else {}),
        "attention": "eager" if layout.attention == "eager" or objective == "text-to-text" else "sdpa",  # T5 has the first alone
        **spreading(job, fsdp2=fsdp2),
    }


def packages(job: Job) -> tuple[str, ...]:
    """Pinned packages beside PyTorch."""
    adapter = ("peft",) if job.option.layout.method in METHODS[1:] else ()
    eight_bit = ("bitsandbytes==0.48.1",) if "8bit" in optimizer(job) or "paged" in optimizer(job) else ()
    pieces = SENTENCE_PIECES if model_kind(job) == "encoder-decoder" else ()
    return (*hub_packages(job, *PACKAGES, *adapter), NUMPY, *eight_bit, *pieces)


def made(job: Job, name: str, *, fsdp2: bool) -> ExportStack:
    """The script, its settings and the command."""
    files = {**scripts("train_text.py", "train_loop.py", "run_core.py"), "train.json": to_json(settings(job, fsdp2=fsdp2))}
    return training_stack(job, name, packages=packages(job), command=torchrun(job, ("train.py", "train.json")), files=files)


def torchrun_stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    return made(job, "torchrun", fsdp2=job.option.layout.sharding in SHARDED)


def problem(job: Job) -> Message | str:
    """Why the script cannot run the plan ("" if it can)."""
    if job.option.layout.method == "qlora":
        return Message("export.quantised_by_trl")
    if model_kind(job) == "encoder" and job.task == "train":
        return Message("export.encoders_as_classifiers")
    if model_kind(job) == "reranker" and (job.task == "train" or says("setup", "answering_reranker", lender(job).casefold())):
        return Message("export.rerankers_with_a_score")
    if model_kind(job) == "encoder-decoder" and (modality(job) or job.task == "train"):
        return Message("export.text_to_text_alone")
    if model_kind(job) == "embedding":
        if job.task == "train" or says("setup", "dense", lender(job).casefold()):
            return Message("export.embeddings_from_pairs")
        if job.option.layout.micro_batch < LEAST_PAIRS:
            return Message("export.embeddings_need_a_batch", count=LEAST_PAIRS)
    return (
        training_problem(job, methods=METHODS, kinds=("decoder", *OBJECTIVES), moves_activations=True)
        or data_problem(job)
        or torch_problem(job)
        or class_problem(job, "torchrun")
    )


def _torchrun_refuses(job: Job) -> Message | str:
    layout = job.option.layout
    found = problem(job)
    if not found and layout.moves_states and layout.sharding not in SHARDED:
        return Message("export.optimizer_in_host")
    return found


TORCHRUN = Target(
    "torchrun",
    "training",
    "plain PyTorch script (DDP or FSDP2) with its torchrun command",
    with_launcher(torchrun_stack),
    _torchrun_refuses,
    checked_by="runs of two processes on the processor with tiny models, DDP and FSDP2, stopped and gone on",
    stack=torchrun_stack,
)


# ---- FSDP2: the plain PyTorch script with every weight, gradient and optimizer state sharded, on
# the host where the plan offloads.


def fsdp2_stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    return made(job, "fsdp2", fsdp2=True)


def _fsdp2_refuses(job: Job) -> Message | str:
    found, layout = problem(job), job.option.layout
    if not found and layout.sharding not in SHARDED and not layout.moves_states:
        return Message("export.neither_shards")
    return found


FSDP2 = Target(
    "fsdp2",
    "training",
    "PyTorch FSDP2 script: sharded, and offloaded where the plan does",
    with_launcher(fsdp2_stack),
    _fsdp2_refuses,
    checked_by="runs of two processes on the processor with a tiny model",
    stack=fsdp2_stack,
)
