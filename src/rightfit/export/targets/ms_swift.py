"""ms-swift: the command `swift sft` (or `swift pt`) with the plan's figures."""

from __future__ import annotations

from rightfit.export.job import Job
from rightfit.export.model_words import hub_id
from rightfit.export.quoting import to_json
from rightfit.export.registry import Files, Target
from rightfit.export.serving_words import revision_words
from rightfit.export.stack import ExportStack
from rightfit.export.targets import deepspeed
from rightfit.export.targets.llama_factory import BITSANDBYTES, hub_pin, layout_quantizes, loads_like
from rightfit.export.training_words import (
    PORT,
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
    training_stack,
    workers,
)
from rightfit.messages import Message

PACKAGES = ("ms-swift==4.6.0",)
TRANSFORMERS = "5.19.0"


def options(job: Job) -> tuple[str, ...]:
    """Arguments behind `swift sft`."""
    layout = job.option.layout
    words = ["--model", hub_id(job), *revision_words(job, "--model_revision"), "--use_hf", "true", "--dataset", job.settings.data_path]
    words += ["--torch_dtype", {"bf16": "bfloat16", "fp16": "float16"}.get(layout.precision, "float32"), *adapter(job)]
    words += ["--max_length", str(job.seq_len or 2048), "--attn_impl", "eager" if layout.attention == "eager" else "sdpa"]
    words += ["--per_device_train_batch_size", str(layout.micro_batch), "--gradient_accumulation_steps", str(layout.grad_accum)]
    words += ["--num_train_epochs", f"{epochs(job):g}", *(["--max_steps", str(steps(job))] if steps(job) else [])]
    words += ["--learning_rate", f"{learning_rate(job):g}", "--lr_scheduler_type", "cosine", "--warmup_ratio", str(WARMUP_SHARE)]
    words += ["--optim", optimizer(job), "--gradient_checkpointing", str(recomputes(job)).lower()]
    words += ["--dataloader_num_workers", str(workers(job)), "--dataset_num_proc", "4", "--split_dataset_ratio", "0"]
    words += ["--save_steps", str(save_every_steps(job)), "--save_total_limit", "2", "--logging_steps", "1", "--report_to", "none"]
    words += ["--output_dir", "/checkpoints/" + job.name, "--add_version", "false", "--seed", "0"]
    return (*words, *(["--deepspeed", "deepspeed.json"] if deepspeed.stage(job) else []))


def adapter(job: Job) -> list[str]:
    """Arguments of what is trained."""
    layout, targets = job.option.layout, lora_targets(job)
    if layout.method == "full":
        return ["--tuner_type", "full"]
    words = ["--tuner_type", "lora", "--lora_rank", str(lora_rank(job)), "--lora_alpha", str(2 * lora_rank(job))]
    words += ["--target_modules", *([targets] if isinstance(targets, str) else targets)]
    words += ["--use_dora", "true"] if layout.method == "dora" else []
    if layout.method == "qlora":
        dtype = {"bf16": "bfloat16", "fp16": "float16"}.get(layout.precision, "float32")
        words += ["--quant_method", "bnb", "--quant_bits", "4", "--bnb_4bit_quant_type", "nf4", "--bnb_4bit_compute_dtype", dtype]
        words += ["--bnb_4bit_use_double_quant", "true"]
    return words


def command(job: Job) -> tuple[str, ...]:
    """Its launcher is told by environment variables."""
    told = [f"NPROC_PER_NODE={max(1, job.gpus_per_node)}"]
    if job.num_nodes > 1:
        told += ["NNODES={num_nodes}", "NODE_RANK={node_rank}", "MASTER_ADDR={head_address}", f"MASTER_PORT={PORT}"]
    return ("env", *told, "swift", "pt" if job.task == "train" else "sft", *options(job))


def stack(job: Job) -> ExportStack:
    """Command, packages, and DeepSpeed's settings where the plan shards."""
    files = {"deepspeed.json": to_json(deepspeed.config(job))} if deepspeed.stage(job) else {}
    extra = ((BITSANDBYTES,) if layout_quantizes(job) else ()) + ((deepspeed.VERSION,) if deepspeed.stage(job) else ())
    return training_stack(job, "ms-swift", packages=(*PACKAGES, hub_pin(job, TRANSFORMERS), *extra), command=command(job), files=files)


def write(job: Job) -> Files:
    """Command and packages."""
    found = stack(job)
    return {"train.sh": launch_script(job, found), **found.files}


def _refuses(job: Job) -> Message | str:
    if job.task == "train":
        return Message("export.part_from_scratch")
    return loads_like(job, "ms-swift", TRANSFORMERS)


TARGET = Target("ms-swift", "training", "ms-swift command", write, _refuses, checked_by="ms-swift's own parser of arguments")
