"""diffusers: the library's own training scripts with the plan's batch, precision, size and adapter rank."""

from __future__ import annotations

from rightfit.export.environment import torch_problem
from rightfit.export.job import SERVING_TASKS, Job
from rightfit.export.model_words import diffusion_family, hub_id, image_size, model_kind
from rightfit.export.pinned import DIFFUSERS_COMMIT, pinned_file
from rightfit.export.registry import Files, Target
from rightfit.export.serving_words import revision_words
from rightfit.export.stack import ExportStack
from rightfit.export.training_words import PORT, launch_script, lora_rank, recomputes, save_every_steps, steps, training_stack, workers
from rightfit.messages import Message

PACKAGES = (
    "diffusers==0.40.0",
    "transformers==5.23.0",
    "accelerate==1.15.0",
    "peft==0.20.0",
    "datasets==5.2.0",
    "torchvision==0.23.0",
    "tensorboard==2.20.0",
    "sentencepiece==0.2.1",
)
EIGHT_BIT = "bitsandbytes==0.48.1"
TEXT_TO_IMAGE, DREAMBOOTH = "examples/text_to_image/train_text_to_image", "examples/dreambooth/train_dreambooth"
SCRIPTS = {
    ("stable-diffusion", "full"): f"{TEXT_TO_IMAGE}.py",
    ("stable-diffusion", "lora"): f"{TEXT_TO_IMAGE}_lora.py",
    ("sdxl", "full"): f"{TEXT_TO_IMAGE}_sdxl.py",
    ("sdxl", "lora"): f"{TEXT_TO_IMAGE}_lora_sdxl.py",
    ("flux", "full"): f"{DREAMBOOTH}_flux.py",
    ("flux", "lora"): f"{DREAMBOOTH}_lora_flux.py",
    ("sd3", "full"): f"{DREAMBOOTH}_sd3.py",
    ("sd3", "lora"): f"{DREAMBOOTH}_lora_sd3.py",
}
"""Family of the model and method -> script of diffusers."""
OPTIMIZERS = ("adamw", "adamw-fused", "adamw-8bit")
RATES = {"full": 1e-5, "lora": 1e-4}
"""Not part of a plan: the rates of the scripts' own examples."""
CAPTION = "a photo"


def script_of(job: Job) -> str:
    """Path of the script in diffusers; "" where there is none."""
    return SCRIPTS.get((diffusion_family(job), job.option.layout.method), "")


def options(job: Job) -> tuple[str, ...]:
    """Arguments of the script. The data are a folder of images with metadata.jsonl, or a data set of the hub, whose column "text" captions
    each."""
    layout, script = job.option.layout, script_of(job)
    words = [
        "--pretrained_model_name_or_path",
        hub_id(job),
        *revision_words(job),
        "--dataset_name",
        job.settings.data_path,
        "--caption_column",
        "text",
    ]
    words += ["--resolution", str(image_size(job) or 512), "--train_batch_size", str(layout.micro_batch)]
    words += ["--gradient_accumulation_steps", str(layout.grad_accum), "--max_train_steps", str(steps(job) or 1000)]
    words += ["--learning_rate", f"{RATES[layout.method]:g}", "--lr_scheduler", "constant_with_warmup", "--lr_warmup_steps", "100"]
    words += [
        "--mixed_precision",
        layout.precision if layout.precision in ("bf16", "fp16") else "no",
        "--dataloader_num_workers",
        str(workers(job)),
    ]
    words += ["--checkpointing_steps", str(save_every_steps(job)), "--checkpoints_total_limit", "2", "--resume_from_checkpoint", "latest"]
    words += ["--output_dir", "/checkpoints/" + job.name, "--seed", "0"]
    words += ["--rank", str(lora_rank(job))] if layout.method == "lora" else []
    words += ["--gradient_checkpointing"] if recomputes(job) else []
    words += ["--use_8bit_adam"] if job.wish("optimizer") == "adamw-8bit" else []
    if script.startswith(DREAMBOOTH):
        words += ["--instance_prompt", CAPTION]
    if script == SCRIPTS["flux", "lora"] and job.option.facts.get("latents") == "cached":
        words += ["--cache_latents"]
    return tuple(words)


def command(job: Job) -> tuple[str, ...]:
    """accelerate launch on each node."""
    many = ("--machine_rank", "{node_rank}", "--main_process_ip", "{head_address}", "--main_process_port", str(PORT))
    words = ["--num_processes", str(max(1, job.num_gpus)), "--num_machines", str(job.num_nodes), "--mixed_precision"]
    words += [job.option.layout.precision if job.option.layout.precision in ("bf16", "fp16") else "no", "--dynamo_backend", "no"]
    words += ["--multi_gpu"] if job.num_gpus > 1 else []
    words += ["--cpu"] if not job.gpus_per_node else []
    return ("accelerate", "launch", *words, *(many if job.num_nodes > 1 else ()), "run_pinned.py", "pinned.json", *options(job))


def stack(job: Job) -> ExportStack:
    """The command, packages, and what fetches the script."""
    packages = (*PACKAGES, *((EIGHT_BIT,) if job.wish("optimizer") == "adamw-8bit" else ()))
    files = pinned_file("huggingface/diffusers", DIFFUSERS_COMMIT, script_of(job))
    return training_stack(job, "diffusers", packages=packages, command=command(job), files=files)


def write(job: Job) -> Files:
    """Command, packages, and what fetches the script."""
    found = stack(job)
    return {"train.sh": launch_script(job, found), **found.files}


def _refuses(job: Job) -> Message | str:
    if job.task in SERVING_TASKS or job.task == "prepare":
        return Message("export.part_it_trains", task=job.task)
    layout = job.option.layout
    if model_kind(job) != "diffusion":
        return Message("export.part_no_diffusion_model")
    if job.task == "train":
        return Message("export.part_scripts_fine_tune")
    if not script_of(job):
        known = sorted({family for family, _ in SCRIPTS})
        return Message(
            "export.part_no_diffusion_script",
            model=diffusion_family(job) or Message("export.this_model"),
            method=layout.method,
            known=", ".join(known),
        )
    if layout.sharding not in ("none", "ddp") or layout.offload != "none":
        return Message("export.part_whole_model_on_each", sharding=layout.sharding, offload=layout.offload)
    wished = str(job.wish("optimizer") or "adamw")
    return (
        torch_problem(job)
        if wished in OPTIMIZERS
        else Message("export.part_optimizer_of_scripts", optimizer=wished, known=", ".join(OPTIMIZERS))
    )


TARGET = Target(
    "diffusers",
    "training",
    "diffusers' own training scripts",
    write,
    _refuses,
    checked_by="the options of diffusers' scripts at the pinned commit",
)
