"""LLaMA-Factory: the settings of `llamafactory-cli train` with the plan's figures, and the description of its data."""

from __future__ import annotations

from typing import Any

from rightfit.export.environment import torch_problem
from rightfit.export.job import Job
from rightfit.export.model_words import architecture, hub_id
from rightfit.export.quoting import given, to_json, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.stack import TRAINED_BY_TRL, ExportStack
from rightfit.export.targets import deepspeed
from rightfit.export.training_words import (
    PORT,
    WARMUP_SHARE,
    class_problem,
    epochs,
    hub_packages,
    later_class,
    launch_script,
    learning_rate,
    lora_rank,
    optimizer,
    recomputes,
    save_every_steps,
    steps,
    training_problem,
    training_stack,
    workers,
)
from rightfit.messages import Message

PACKAGES = ("llamafactory==0.9.5",)
TRANSFORMERS = "5.6.0"
BITSANDBYTES = "bitsandbytes==0.48.1"
LETTERS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj", "gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
TEMPLATES = {
    "llama3": "llama3",
    "llama2": "llama2",
    "qwen2": "qwen",
    "qwen3": "qwen3_nothink",
    "mistral": "mistral",
    "mixtral": "mistral",
    "gemma": "gemma",
}
"""Family of the model -> chat template; "default" for others."""
DATA = "plan"


def settings(job: Job) -> dict[str, Any]:
    """train.yaml."""
    layout, pretrains = job.option.layout, job.task == "train"
    adapter = layout.method != "full"
    known = architecture(job)
    targets = job.wish("lora_targets")
    return given(
        model_name_or_path=hub_id(job),
        model_revision=job.settings.revision or None,
        train_from_scratch=True if pretrains else None,
        stage="pt" if pretrains else "sft",
        do_train=True,
        finetuning_type="lora" if adapter else "full",
        lora_rank=lora_rank(job) if adapter else None,
        lora_alpha=2 * lora_rank(job) if adapter else None,
        lora_target=(",".join(LETTERS.get(str(word), str(word)) for word in targets) if targets else "all") if adapter else None,
        use_dora=True if layout.method == "dora" else None,
        quantization_method="bnb" if layout.method == "qlora" else None,
        quantization_bit=4 if layout.method == "qlora" else None,
        double_quantization=True if layout.method == "qlora" else None,
        dataset=DATA,
        dataset_dir=".",
        template=TEMPLATES.get(known.family if known else "", "default"),
        cutoff_len=job.seq_len or 2048,
        packing=True,
        preprocessing_num_workers=4,
        dataloader_num_workers=workers(job),
        output_dir="/checkpoints/" + job.name,
        logging_steps=1,
        save_strategy="steps",
        save_steps=save_every_steps(job),
        save_total_limit=2,
        report_to="none",
        per_device_train_batch_size=layout.micro_batch,
        gradient_accumulation_steps=layout.grad_accum,
        learning_rate=learning_rate(job),
        lr_scheduler_type="cosine",
        warmup_ratio=WARMUP_SHARE,
        num_train_epochs=epochs(job),
        max_steps=steps(job),
        bf16=layout.precision == "bf16",
        fp16=layout.precision == "fp16",
        disable_gradient_checkpointing=not recomputes(job),
        flash_attn="disabled" if layout.attention == "eager" else "sdpa",
        optim=optimizer(job),
        deepspeed="deepspeed.json" if deepspeed.stage(job) else None,
        ddp_timeout=7200,
    )


def data_description(job: Job) -> dict[str, Any]:
    """dataset_info.json: JSON lines with a text for pre-training, with messages for fine-tuning."""
    if job.task == "train":
        return {DATA: {"file_name": job.settings.data_path, "columns": {"prompt": "text"}}}
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}
    return {DATA: {"file_name": job.settings.data_path, "formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": tags}}


def command(job: Job) -> tuple[str, ...]:
    """Its launcher is told by environment variables."""
    told = ["FORCE_TORCHRUN=1", f"NPROC_PER_NODE={max(1, job.gpus_per_node)}"]
    if job.num_nodes > 1:
        told += ["NNODES={num_nodes}", "NODE_RANK={node_rank}", "MASTER_ADDR={head_address}", f"MASTER_PORT={PORT}"]
    return ("env", *told, "llamafactory-cli", "train", "train.yaml")


def stack(job: Job) -> ExportStack:
    """Settings, packages and command."""
    files = {"train.yaml": to_yaml(settings(job)), "dataset_info.json": to_json(data_description(job))}
    if deepspeed.stage(job):
        files["deepspeed.json"] = to_json(deepspeed.config(job))
    extra = ((BITSANDBYTES,) if layout_quantizes(job) else ()) + ((deepspeed.VERSION,) if deepspeed.stage(job) else ())
    return training_stack(job, "llama-factory", packages=(*PACKAGES, hub_pin(job, TRANSFORMERS), *extra), command=command(job), files=files)


def layout_quantizes(job: Job) -> bool:
    """Whether the base or the optimizer is kept in few bits."""
    return job.option.layout.method == "qlora" or "bit" in optimizer(job)


def write(job: Job) -> Files:
    """Settings, description of the data, packages and command."""
    found = stack(job)
    return {"train.sh": launch_script(job, found), **found.files}


def refuses_like_deepspeed(job: Job) -> Message | str:
    """What programs that shard by DeepSpeed refuse."""
    return loads_like(job, "llama-factory", TRANSFORMERS)


def hub_pin(job: Job, last: str) -> str:
    """The Transformers that goes with a program which takes up to `last`: the usual one, the last for classes that came later."""
    return f"transformers=={last}" if later_class(job) else hub_packages(job, "transformers")[0]


def loads_like(job: Job, program: str, last: str) -> Message | str:
    """What a program that shards by DeepSpeed and takes Transformers up to `last` refuses."""
    problem = training_problem(job, methods=TRAINED_BY_TRL) or torch_problem(job) or class_problem(job, program, last)
    return problem or (deepspeed.TARGET.refuses(job) if deepspeed.stage(job) or job.option.layout.sharding == "hybrid" else "")


TARGET = Target(
    "llama-factory",
    "training",
    "LLaMA-Factory settings",
    write,
    refuses_like_deepspeed,
    checked_by="LLaMA-Factory's own parser, unknown keys refused",
)
