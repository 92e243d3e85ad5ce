"""axolotl: its settings file with the plan's figures."""

from __future__ import annotations

from typing import Any

from rightfit.export.environment import Span, torch_problem
from rightfit.export.job import Job
from rightfit.export.model_words import hub_id
from rightfit.export.quoting import given, to_json, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.stack import TRAINED_BY_TRL, ExportStack
from rightfit.export.targets import deepspeed
from rightfit.export.training_words import (
    WARMUP_SHARE,
    epochs,
    launch_script,
    learning_rate,
    lora_rank,
    lora_targets,
    optimizer,
    recomputes,
    save_every_steps,
    steps,
    torchrun,
    training_problem,
    training_stack,
    workers,
)
from rightfit.messages import Message

PACKAGES = ("axolotl==0.19.0",)
SPAN: Span = ((2, 11), (2, 13))


def settings(job: Job) -> dict[str, Any]:
    """axolotl.yaml."""
    layout = job.option.layout
    adapter = layout.method != "full"
    targets = lora_targets(job)
    return given(
        base_model=hub_id(job),
        revision_of_model=job.settings.revision or None,
        reinit_weights=True if job.task == "train" else None,
        load_in_4bit=True if layout.method == "qlora" else None,
        adapter={"qlora": "qlora", "lora": "lora", "dora": "lora"}.get(layout.method),
        peft_use_dora=True if layout.method == "dora" else None,
        lora_r=lora_rank(job) if adapter else None,
        lora_alpha=2 * lora_rank(job) if adapter else None,
        lora_dropout=0.0 if adapter else None,
        lora_target_linear=True if adapter and targets == "all-linear" else None,
        lora_target_modules=targets if adapter and targets != "all-linear" else None,
        datasets=[data(job)],
        dataset_prepared_path="/checkpoints/prepared",
        sequence_len=job.seq_len or 2048,
        sample_packing=True,
        attn_implementation="eager" if layout.attention == "eager" else "sdpa",
        micro_batch_size=layout.micro_batch,
        gradient_accumulation_steps=layout.grad_accum,
        num_epochs=epochs(job),
        max_steps=steps(job),
        optimizer=optimizer(job),
        learning_rate=learning_rate(job),
        lr_scheduler="cosine",
        warmup_ratio=WARMUP_SHARE,
        max_grad_norm=1.0,
        bf16=layout.precision == "bf16",
        fp16=layout.precision == "fp16",
        gradient_checkpointing=recomputes(job) and not fsdp(job),  # FSDP2 has its own
        activation_offloading=True if layout.moves_activations else None,
        dataloader_num_workers=workers(job),
        logging_steps=1,
        save_steps=save_every_steps(job),
        save_total_limit=2,
        auto_resume_from_checkpoints=True,
        output_dir="/checkpoints/" + job.name,
        deepspeed="deepspeed.json" if layout.moves_states or layout.sharding in ("zero-1", "zero-2") else None,
        **fsdp(job),
        seed=0,
    )


def data(job: Job) -> dict[str, Any]:
    """JSON lines with a text for pre-training, with messages for fine-tuning."""
    if job.task == "train":
        return {"path": job.settings.data_path, "ds_type": "json", "type": "completion", "field": "text"}
    return {"path": job.settings.data_path, "ds_type": "json", "type": "chat_template", "field_messages": "messages"}


def fsdp(job: Job) -> dict[str, Any]:
    """FSDP2 where the plan shards everything."""
    layout = job.option.layout
    if layout.sharding != "zero-3" or layout.moves_states:
        return {}
    return {
        "fsdp_version": 2,
        "fsdp_config": {
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "state_dict_type": "SHARDED_STATE_DICT",
            "reshard_after_forward": True,
            "activation_checkpointing": recomputes(job),
            "offload_params": False,
        },
    }


def stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    found = settings(job)
    files = {"axolotl.yaml": to_yaml(found)}
    if "deepspeed" in found:
        files["deepspeed.json"] = to_json(deepspeed.config(job))
    extra = (deepspeed.VERSION,) if "deepspeed" in found else ()
    command = torchrun(job, ("-m", "axolotl.cli.train", "axolotl.yaml"))
    return training_stack(job, "axolotl", packages=(*PACKAGES, *extra), command=command, files=files, span=SPAN)


def write(job: Job) -> Files:
    """Settings, packages and command."""
    found = stack(job)
    return {"train.sh": launch_script(job, found, span=SPAN), **found.files}


def _refuses(job: Job) -> Message | str:
    layout = job.option.layout
    if problem := training_problem(job, methods=TRAINED_BY_TRL, moves_activations=True) or torch_problem(job, span=SPAN):
        return problem
    if layout.sharding == "hybrid":
        return Message("export.part_hybrid")
    return deepspeed.TARGET.refuses(job) if deepspeed.stage(job) else ""


TARGET = Target(
    "axolotl", "training", "axolotl settings", write, _refuses, checked_by="axolotl's own model of settings, unknown keys refused"
)
