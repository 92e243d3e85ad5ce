"""Transformers + PEFT + TRL: a training script that reads the plan's figures from a JSON file beside it, and the torchrun command that starts it."""

from __future__ import annotations

from importlib import resources
from typing import Any

from rightfit.export.job import SERVING_TASKS, Job
from rightfit.export.quoting import comment, shell_lines, to_json
from rightfit.export.registry import Files, Target
from rightfit.export.stack import TRAINED_BY_TRL, Stack, launched

VERSIONS = ("torch==2.8.0", "transformers==4.57.1", "trl==0.24.0", "peft==0.17.1", "accelerate==1.11.0", "datasets==4.3.0")
QUANTIZED = ("qlora",)
ATTENTION = {"flash": "flash_attention_2", "sdpa": "sdpa", "eager": "eager"}
PORT = 29500


def settings(job: Job) -> dict[str, Any]:
    """What train.json holds: the plan's figures under the script's names."""
    layout, facts = job.option.layout, job.option.facts
    return {
        "plan": job.plan_id,
        "model": job.model,
        "method": layout.method,
        "data": job.settings.data_path,
        "output": "/checkpoints/" + job.name,
        "seq_len": job.seq_len or 2048,
        "micro_batch": layout.micro_batch,
        "grad_accum": layout.grad_accum,
        "steps": int(facts.get("steps") or 0) or None,
        "epochs": job.wish("epochs") or 1,
        "precision": layout.precision,
        "gradient_checkpointing": layout.recompute != "none",
        "attention": ATTENTION.get(layout.attention, "sdpa"),
        "optimizer": job.wish("optimizer") or "adamw_torch_fused",
        "lora_rank": job.wish("lora_rank") or 16,
        "lora_targets": job.wish("lora_targets") or "all-linear",
        "sharding": layout.sharding,
        "workers": int(facts.get("workers_per_gpu") or 2),
        "save_every_s": facts.get("checkpoint_interval_s") or 1800,
    }


def script() -> str:
    """The training script, the same for every plan."""
    return resources.files("rightfit.export").joinpath("scripts/train_trl.py").read_text(encoding="utf-8")


def stack(job: Job) -> Stack:
    """torchrun on each node."""
    extra = ("bitsandbytes==0.48.1",) if job.option.layout.method in QUANTIZED else ()
    return Stack(
        name="trl",
        image="pytorch/pytorch:2.8.0-cuda12.8-cudnn9-devel",
        setup=("pip install " + " ".join((*VERSIONS, *extra)),),
        command=command(job),
        files={"train.py": script(), "train.json": to_json(settings(job))},
        environment={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        secrets=("HF_TOKEN",),
    )


def command(job: Job) -> tuple[str, ...]:
    """One launcher on each node; on several they meet at the first."""
    many = ("--nnodes", "{num_nodes}", "--node_rank", "{node_rank}", "--master_addr", "{head_address}", "--master_port", str(PORT))
    where = many if job.num_nodes > 1 else ("--standalone",)
    return ("torchrun", *where, "--nproc_per_node", str(max(1, job.gpus_per_node)), "train.py", "train.json")


def write(job: Job) -> Files:
    """Script, settings and command."""
    found = stack(job)
    words = launched(found.command, node_rank="NODE_RANK", num_nodes=str(job.num_nodes), head_address="HEAD_ADDRESS")
    line = (
        shell_lines(words).replace("NODE_RANK", '"${NODE_RANK:-0}"').replace("HEAD_ADDRESS", '"${HEAD_ADDRESS:?address of the first node}"')
    )
    text = (
        "#!/bin/sh\n"
        f"# {comment(job.model)}, plan {job.plan_id}. On several nodes set NODE_RANK (0 on the first) and HEAD_ADDRESS on each.\n"
        "set -eu\n"
        f"exec {line}\n"
    )
    return {
        "train.sh": text,
        "requirements.txt": "\n".join((*VERSIONS, *(found.setup[0].split()[2 + len(VERSIONS) :]))) + "\n",
        **found.files,
    }


def _refuses(job: Job) -> str:
    if job.task in SERVING_TASKS or job.task == "prepare":
        return f"it trains language models; the plan is to {job.task}"
    layout = job.option.layout
    if layout.tensor * layout.pipeline * layout.context > 1:
        return "the layout splits the model by tensor, pipeline or context; use megatron"
    if layout.method not in TRAINED_BY_TRL:
        return f"the method is {layout.method}; it knows {', '.join(TRAINED_BY_TRL)}"
    if not job.seq_len:
        return "the model is not a language model"
    return ""


TARGET = Target(
    "trl",
    "training",
    "Transformers + PEFT + TRL script with its torchrun command",
    write,
    _refuses,
    checked_by="a run on CPU with a tiny model",
)
