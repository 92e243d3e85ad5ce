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
    class_problem,
    epochs,
    has_experts,
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
TRANSFORMERS = "5.16.1"
CHAT = "tokenizer_default_fallback_chatml"
"""The tokenizer's own template; base models have none."""
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
        **adapted(job, targets) if adapter else {},
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


ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"]
"""Projections of attention, latent attention's among them; a name that a model has not is passed over."""
EXPERTS = {"gate_proj": "mlp.experts.gate_up_proj", "up_proj": "mlp.experts.gate_up_proj", "down_proj": "mlp.experts.down_proj"}
"""Layers of an expert -> the weights of all experts together, as Transformers keeps them from 5 on."""


def adapted(job: Job, targets: list[str] | str) -> dict[str, Any]:
    """What gets an adapter. Experts are no layers but stacked weights: a 4-bit base must be told to pack them, and they are named apart."""
    if not has_experts(job):
        return {"lora_target_linear": True} if targets == "all-linear" else {"lora_target_modules": targets}
    names = [*ATTENTION, *EXPERTS] if isinstance(targets, str) else targets
    weights = sorted({EXPERTS[name] for name in names if name in EXPERTS})
    return given(
        quantize_moe_experts=True if job.option.layout.method == "qlora" else None,
        lora_target_modules=[name for name in names if name not in EXPERTS] or ATTENTION[:4],
        lora_target_parameters=weights or None,
    )


def data(job: Job) -> dict[str, Any]:
    """JSON lines with a text for pre-training, with messages for fine-tuning."""
    if job.task == "train":
        return {"path": job.settings.data_path, "ds_type": "json", "type": "completion", "field": "text"}
    return {"path": job.settings.data_path, "ds_type": "json", "type": "chat_template", "field_messages": "messages", "chat_template": CHAT}


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
    usual = training_problem(job, methods=TRAINED_BY_TRL, moves_activations=True) or torch_problem(job, span=SPAN)
    if problem := usual or class_problem(job, "axolotl", TRANSFORMERS):
        return problem
    if has_experts(job) and layout.method == "qlora" and str(job.option.facts.get("vendor") or "") == "AMD":
        return Message("export.part_experts_on_cuda")
    if layout.sharding == "hybrid":
        return Message("export.part_hybrid")
    return deepspeed.TARGET.refuses(job) if deepspeed.stage(job) else ""


TARGET = Target(
    "axolotl", "training", "axolotl settings", write, _refuses, checked_by="axolotl's own model of settings, unknown keys refused"
)
