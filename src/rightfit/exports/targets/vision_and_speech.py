"""timm: its own training script with the plan's batch, precision, size and loader processes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rightfit.exports.job import Job
from rightfit.exports.learning import lora_rank
from rightfit.exports.model_words import (
    diffusion_family,
    hub_id,
    image_size,
    lender,
    modality,
    model_kind,
    revision_problem,
    revision_words,
    sample,
)
from rightfit.exports.quoting import to_json
from rightfit.exports.registry import Target
from rightfit.exports.stack import ExportStack, torch_problem
from rightfit.exports.targets.torchrun import spreading
from rightfit.exports.training_words import (
    DIFFUSERS_COMMIT,
    PORT,
    TIMM_COMMIT,
    common_settings,
    epochs,
    pinned_file,
    recomputes,
    sample_problem,
    save_every_steps,
    scripts,
    steps,
    torchrun,
    training_stack,
    with_launcher,
    workers,
)
from rightfit.facts.tables import says
from rightfit.messages import Message

TIMM_PACKAGES = ("timm==1.0.29", "torchvision==0.23.0", "pyyaml==6.0.3", "huggingface_hub==0.36.0", "safetensors==0.6.2")
TIMM_OPTIMIZERS = {
    "adamw": "adamw",
    "adamw-fused": "adamw",
    "sgd": "sgd",
    "sgd-momentum": "sgd",
    "lamb": "lamb",
    "lion": "lion",
    "adafactor": "adafactor",
}
TIMM_RATES = {"adamw": 5e-4, "lamb": 5e-3, "lion": 5e-5, "sgd": 0.1, "adafactor": 5e-4}
"""Not part of a plan: usual learning rates to begin with, at 256 images a step."""
PREFIX = "timm/"


def timm_options(job: Job) -> tuple[str, ...]:
    """Arguments of timm's train.py."""
    layout = job.option.layout
    name = TIMM_OPTIMIZERS[str(job.wish("optimizer") or "adamw")]
    batch = layout.micro_batch * layout.grad_accum * max(1, job.num_gpus)
    rate = TIMM_RATES[name] * (batch / 256 if name == "sgd" else math.sqrt(batch / 256)) * (1.0 if job.task == "train" else 0.1)
    size = image_size(job)
    words = ["--data-dir", job.settings.data_path, "--model", hub_id(job).removeprefix(PREFIX)]
    words += ["--batch-size", str(layout.micro_batch), "--grad-accum-steps", str(layout.grad_accum)]
    words += [
        "--epochs",
        str(math.ceil(epochs(job))),
        "--opt",
        name,
        "--lr",
        f"{rate:.3g}",
        "--sched",
        "cosine",
        "--workers",
        str(workers(job)),
    ]
    words += ["--output", "/checkpoints", "--experiment", job.name, "--checkpoint-hist", "2"]
    words += ["--img-size", str(size)] if size else []
    words += ["--pretrained"] if job.task == "finetune" else []
    words += (
        ["--amp", "--amp-dtype", {"bf16": "bfloat16", "fp16": "float16"}[layout.precision]] if layout.precision in ("bf16", "fp16") else []
    )
    words += ["--channels-last"] if job.option.facts.get("channels_last") else []
    words += ["--grad-checkpointing"] if recomputes(job) else []
    return tuple(words)


def timm_stack(job: Job) -> ExportStack:
    """torchrun on each node; a new start goes on from the last epoch."""
    resume, count = ("--resume", f"/checkpoints/{job.name}/last.pth.tar"), ("--num-classes", f"{job.settings.data_path}/train")
    files = pinned_file("huggingface/pytorch-image-models", TIMM_COMMIT, "train.py", resume=resume, count=count)
    command = torchrun(job, ("run_pinned.py", "pinned.json", *timm_options(job)))
    return training_stack(job, "timm", packages=TIMM_PACKAGES, command=command, files=files)


def _timm_refuses(job: Job) -> Message | str:
    layout = job.option.layout
    if model_kind(job) == "vision" and lender(job).startswith(PREFIX) and not hub_id(job).startswith(PREFIX):
        return Message("export.other_timm", model=hub_id(job), record=lender(job))
    if model_kind(job) != "vision" or not hub_id(job).startswith(PREFIX):
        return Message("export.no_timm")
    if layout.method != "full" or layout.sharding not in ("none", "ddp") or layout.offload != "none":
        return Message("export.ddp", method=layout.method, sharding=layout.sharding, offload=layout.offload)
    wished = str(job.wish("optimizer") or "adamw")
    return (
        torch_problem(job)
        if wished in TIMM_OPTIMIZERS
        else Message("export.optimizer_asked_for", optimizer=wished, known=", ".join(TIMM_OPTIMIZERS))
    )


TIMM = Target(
    "timm",
    "training",
    "timm's training script for image classifiers",
    with_launcher(timm_stack),
    _timm_refuses,
    checked_by="the options of timm's train.py at the pinned commit",
    stack=timm_stack,
)


# ---- diffusers: the library's own training scripts with the plan's batch, precision,
# size and adapter rank.

DIFFUSERS_PACKAGES = (
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
DIFFUSERS_OPTIMIZERS = ("adamw", "adamw-fused", "adamw-8bit")
DIFFUSERS_RATES = {"full": 1e-5, "lora": 1e-4}
"""Not part of a plan: the rates of the scripts' own examples."""
MOST_WARMUP = 100
"""Of the scripts' own examples; a short run warms up in a tenth of its steps."""
CAPTION = "a photo"


def script_of(job: Job) -> str:
    """Path of the script in diffusers; "" where there is none. FLUX.2 is another model than
    FLUX.1."""
    return "" if "flux.2" in lender(job).casefold() else SCRIPTS.get((diffusion_family(job), job.option.layout.method), "")


def diffusers_options(job: Job) -> tuple[str, ...]:
    """Arguments of the script. The data are a folder of images with metadata.jsonl, or a data set
    of the hub, whose column "text" captions each."""
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
    words += [
        "--learning_rate",
        f"{DIFFUSERS_RATES[layout.method]:g}",
        "--lr_scheduler",
        "constant_with_warmup",
        "--lr_warmup_steps",
        str(min(MOST_WARMUP, math.ceil((steps(job) or 1000) / 10))),
    ]
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
    return ("accelerate", "launch", *words, *(many if job.num_nodes > 1 else ()), "run_pinned.py", "pinned.json", *diffusers_options(job))


def diffusers_stack(job: Job) -> ExportStack:
    """The command, packages, and what fetches the script."""
    packages = (*DIFFUSERS_PACKAGES, *((EIGHT_BIT,) if job.wish("optimizer") == "adamw-8bit" else ()))
    files = pinned_file("huggingface/diffusers", DIFFUSERS_COMMIT, script_of(job))
    return training_stack(job, "diffusers", packages=packages, command=command(job), files=files)


def _diffusers_refuses(job: Job) -> Message | str:
    layout = job.option.layout
    if model_kind(job) != "diffusion":
        return Message("export.no_diffusion_model")
    if job.task == "train":
        return Message("export.scripts_fine_tune")
    if "flux.2" in lender(job).casefold():
        return Message("export.no_adapted_family", model=hub_id(job), known="FLUX.1-dev, FLUX.1-schnell")
    if not script_of(job):
        known = sorted({family for family, _ in SCRIPTS})
        return Message(
            "export.no_diffusion_script",
            model=diffusion_family(job) or Message("export.this_model"),
            method=layout.method,
            known=", ".join(known),
        )
    if layout.sharding not in ("none", "ddp") or layout.offload != "none":
        return Message("export.whole_model_on_each", sharding=layout.sharding, offload=layout.offload)
    wished = str(job.wish("optimizer") or "adamw")
    return (
        torch_problem(job)
        if wished in DIFFUSERS_OPTIMIZERS
        else Message("export.optimizer_of_scripts", optimizer=wished, known=", ".join(DIFFUSERS_OPTIMIZERS))
    )


DIFFUSERS = Target(
    "diffusers",
    "training",
    "diffusers' own training scripts",
    with_launcher(diffusers_stack),
    _diffusers_refuses,
    checked_by="the options of diffusers' scripts at the pinned commit",
    stack=diffusers_stack,
)


# ---- Adapters of the models of samples, in the scripts below: in every matrix, and the head, which
# is new, beside them.

PEFT = "peft==0.17.1"
ADAPTED = ("full", "lora", "dora")
HEADED = (*ADAPTED, "freeze")
ADAPTER_RATE = 1e-3
"""Not part of a plan: a usual value to begin with, of PEFT's own examples on images and speech;
also of a head that learns alone."""


def adapted_packages(job: Job) -> tuple[str, ...]:
    """What makes adapters, where the plan has some."""
    return (PEFT,) if job.option.layout.method in ADAPTED[1:] else ()


def first_rate(job: Job, rates: Mapping[str, float]) -> float:
    """The learning rate to begin with."""
    return rates[job.task] if job.option.layout.method == "full" else ADAPTER_RATE


# ---- Segmentation: a training script in plain PyTorch for models that give each pixel its class,
# of Transformers (SegFormer ...) or torchvision.

SEGMENTATION_PACKAGES = ("transformers==4.57.1", "datasets==4.3.0", "torchvision==0.23.0", "pillow==12.0.0", "numpy==2.2.6")
SEGMENTATION_COLUMNS = (("image", "mask"),)
SEGMENTATION_METHODS = HEADED
OTHERS = ("ultralytics/", "timm/")
SEGMENTATION_RATES = {"train": 5e-4, "finetune": 6e-5}
"""Not part of a plan: usual values to begin with."""


def segmentation_settings(job: Job) -> dict[str, Any]:
    """What train.json holds."""
    height, width = (int(sample(job).get(side) or 512) for side in ("height", "width"))
    return {
        **common_settings(job, columns=SEGMENTATION_COLUMNS),
        **spreading(job),
        "learning_rate": first_rate(job, SEGMENTATION_RATES),
        "height": height,
        "width": width,
        "classes": 0,  # counted in the masks
        "channels_last": bool(job.option.facts.get("channels_last")),
    }


def segmentation_stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    files = {
        **scripts("train_segmentation.py", "train_loop.py", "train_pictures.py", "run_core.py"),
        "train.json": to_json(segmentation_settings(job)),
    }
    return training_stack(
        job,
        "segmentation",
        packages=(*SEGMENTATION_PACKAGES, *adapted_packages(job)),
        command=torchrun(job, ("train.py", "train.json")),
        files=files,
    )


def _segmentation_refuses(job: Job) -> Message | str:
    if modality(job) != "segmentation":
        return Message("export.no_segmentation")
    if "/" not in hub_id(job) or hub_id(job).startswith(OTHERS):
        return Message("export.no_segmentation_model", model=hub_id(job))
    return sample_problem(job, methods=SEGMENTATION_METHODS) or torch_problem(job)


SEGMENTATION = Target(
    "segmentation",
    "training",
    "PyTorch script for segmentation (SegFormer, DeepLabV3)",
    with_launcher(segmentation_stack),
    _segmentation_refuses,
    checked_by="runs on the processor with a tiny SegFormer, killed and gone on; models of torchvision are not run",
    stack=segmentation_stack,
)


# ---- Vision: a training script in plain PyTorch for models that name the class of an image, and
# for those that put images and texts side by side, whole or by adapters.

VISION_PACKAGES = ("transformers==4.57.1", "datasets==4.3.0", "pillow==12.0.0", "numpy==2.2.6")
VISION_COLUMNS = {False: (("image", "label"),), True: (("image", "text"),)}
VISION_RATES = {"train": 5e-4, "finetune": 5e-5}
"""Not part of a plan: usual values to begin with."""
TEXT_RATE = 1e-5
"""The same, of images beside texts: much of what such a model knows is lost at more."""
OF_OTHERS = ("ultralytics/", "torchvision/")


def reads_texts(job: Job) -> bool:
    """Whether a model learns from images beside their texts (CLIP, SigLIP)."""
    return not hub_id(job).startswith(PREFIX) and says("setup", "beside_texts", hub_id(job).casefold())


def vision_settings(job: Job) -> dict[str, Any]:
    """What train.json holds."""
    texts = reads_texts(job)
    height, width = (int(sample(job).get(side) or 0) for side in ("height", "width"))
    return {
        **common_settings(job, columns=VISION_COLUMNS[texts]),
        **spreading(job),
        "learning_rate": first_rate(job, {"train": VISION_RATES["train"], "finetune": TEXT_RATE} if texts else VISION_RATES),
        "height": height,
        "width": width,
        "texts": texts,
        "channels_last": bool(job.option.facts.get("channels_last")),
    }


def vision_stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    files = {
        **scripts("train_vision.py", "train_loop.py", "train_pictures.py", "run_core.py"),
        "train.json": to_json(vision_settings(job)),
    }
    of_timm = TIMM_PACKAGES[:2] if hub_id(job).startswith(PREFIX) else ()
    packages = (*VISION_PACKAGES, *of_timm, *adapted_packages(job))
    return training_stack(job, "vision", packages=packages, command=torchrun(job, ("train.py", "train.json")), files=files)


def _vision_refuses(job: Job) -> Message | str:
    if modality(job) != "classification":
        return Message("export.no_vision")
    if "/" not in hub_id(job) or hub_id(job).startswith(OF_OTHERS):
        return Message("export.no_vision_model", model=hub_id(job))
    if hub_id(job).startswith(PREFIX) and (problem := revision_problem(job, "timm")):
        return problem
    return sample_problem(job, methods=HEADED) or torch_problem(job)


VISION = Target(
    "vision",
    "training",
    "PyTorch script for image classifiers, CLIP and SigLIP, whole or by adapters",
    with_launcher(vision_stack),
    _vision_refuses,
    checked_by="runs on the processor with a tiny ViT, CLIP and SigLIP, killed and gone on",
    stack=vision_stack,
)


# ---- Speech: a training script in plain PyTorch for recognisers of Transformers, those that write
# (Whisper) and those that mark frames (CTC).

SPEECH_PACKAGES = ("transformers==4.57.1", "datasets==4.3.0", "soundfile==0.13.1", "scipy==1.16.3", "numpy==2.2.6")
SPEECH_COLUMNS = (("audio", "text"),)
FILLED_S = 30.0
"""Seconds to which Whisper fills every recording."""
LONGEST = 2.0
"""Longest recording that is kept, over the plan's mean: the memory that the plan counts
is that of the mean."""
SPEECH_RATES = {"train": 5e-4, "finetune": 1e-5}
"""Not part of a plan: usual values to begin with."""


def speech_settings(job: Job) -> dict[str, Any]:
    """What train.json holds."""
    seconds = float(sample(job).get("seconds") or FILLED_S)
    return {
        **common_settings(job, columns=SPEECH_COLUMNS),
        **spreading(job),
        "learning_rate": first_rate(job, SPEECH_RATES),
        "longest_s": FILLED_S if seconds == FILLED_S else LONGEST * seconds,
    }


def speech_stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    files = {**scripts("train_speech.py", "train_loop.py", "run_core.py"), "train.json": to_json(speech_settings(job))}
    return training_stack(
        job, "speech", packages=(*SPEECH_PACKAGES, *adapted_packages(job)), command=torchrun(job, ("train.py", "train.json")), files=files
    )


def _speech_refuses(job: Job) -> Message | str:
    if modality(job) != "speech":
        return Message("export.no_speech")
    if "/" not in hub_id(job):
        return Message("export.no_speech_model", model=hub_id(job))
    writes = says("setup", "writes_speech", lender(job).casefold())  # its last layer is that which reads what it wrote
    return sample_problem(job, methods=ADAPTED if writes else HEADED) or torch_problem(job)


SPEECH = Target(
    "speech",
    "training",
    "PyTorch script for speech recognisers (Whisper, wav2vec 2.0)",
    with_launcher(speech_stack),
    _speech_refuses,
    checked_by="runs on the processor with a tiny Whisper and a tiny wav2vec 2.0, killed and gone on",
    stack=speech_stack,
)
