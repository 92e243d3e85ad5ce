"""Transformers + PEFT + TRL: a training script that reads the plan's figures from a JSON file
beside it, and the torchrun command that starts it."""

from __future__ import annotations

from typing import Any

from rightfit.exports.job import Job
from rightfit.exports.learning import objective, trained
from rightfit.exports.model_words import architecture
from rightfit.exports.preferences import COLUMNS, OBJECTIVES, launched_beside, learning, rollout_stack, tuned_problem
from rightfit.exports.quoting import to_json, to_yaml
from rightfit.exports.registry import Files, Target
from rightfit.exports.stack import ADAPTERS, TRAINED_BY_TRL, ExportStack, shards_4_bit, shards_all, torch_problem
from rightfit.exports.training_words import (
    PORT,
    class_problem,
    common_settings,
    data_problem,
    hub_packages,
    later_class,
    launch_script,
    learning_rate,
    optimizer,
    recomputes_whole,
    scripts,
    torchrun,
    training_problem,
    training_stack,
)
from rightfit.messages import Message

PACKAGES = ("transformers", "trl", "peft", "accelerate", "datasets")
QUANTIZED = ("qlora",)
BITSANDBYTES = "bitsandbytes==0.48.1"


def settings(job: Job, *, spread_by: str = "trainer") -> dict[str, Any]:
    """What train.json holds: the plan's figures under the script's names. PyTorch's own attention
    has the flash kernel inside: no package to build."""
    attention = "eager" if job.option.layout.attention == "eager" else "sdpa"
    host = {"activations_on_host": True} if job.option.layout.moves_activations else {}
    host |= {"offload": True} if job.option.layout.moves_states and shards_4_bit(job) else {}
    common = common_settings(job, columns=COLUMNS[objective(job)])
    whole = {"recompute": "full"} if spread_by != "deepspeed" and recomputes_whole(job, "trl") else {}
    return {**common, **learning(job), "attention": attention, "spread_by": spread_by, **host, **whole}


# ---- Files and commands.


def script(job: Job) -> Files:
    """The training script and its core, the same for every plan; what rewards answers, and what
    puts an adapter into its base, where there are such."""
    beside = ("reward.py",) if objective(job) == "grpo" else ()
    return scripts("train_trl.py", "run_core.py", *beside, *(("merge.py",) if trained(job) in ADAPTERS else ()))


def quantizes(job: Job) -> bool:
    """Whether the base or the optimizer is kept in few bits."""
    return trained(job) in QUANTIZED or "bit" in optimizer(job)


def packages(job: Job) -> tuple[str, ...]:
    """Pinned packages beside PyTorch."""
    return (*hub_packages(job, *PACKAGES), *((BITSANDBYTES,) if quantizes(job) else ()))


def made(job: Job, name: str, command: tuple[str, ...], files: Files, *further: str) -> ExportStack:
    """The script with its packages, under whichever launcher."""
    whole = {**script(job), **files}
    if objective(job) == "grpo":
        return rollout_stack(job, name, command=command, files=whole, packages=(*((BITSANDBYTES,) if quantizes(job) else ()), *further))
    return training_stack(job, name, packages=(*packages(job), *further), command=command, files=whole)


def written(job: Job, stack: ExportStack) -> Files:
    """The stack's files and the script that starts it."""
    launch = launched_beside if objective(job) == "grpo" else launch_script
    return {"train.sh": launch(job, stack), **stack.files}


def trl_stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    return made(job, "trl", torchrun(job, ("train.py", "train.json")), {"train.json": to_json(settings(job))})


def trl_write(job: Job) -> Files:
    """Script, settings and command."""
    return written(job, trl_stack(job))


def usual_problem(job: Job, *, moves_activations: bool = False) -> Message | str:
    """What the script refuses under whichever launcher."""
    usual = training_problem(job, methods=TRAINED_BY_TRL, objectives=OBJECTIVES, moves_activations=moves_activations)
    return usual or data_problem(job) or torch_problem(job) or class_problem(job, "trl") or tuned_problem(job)


def _trl_refuses(job: Job) -> Message | str:
    layout = job.option.layout
    if problem := usual_problem(job, moves_activations=objective(job) == "sft"):
        return problem
    if shards_4_bit(job):
        return sharded_problem(job)
    if layout.moves_states:
        return Message("export.keeps_in_host", offload=layout.offload)
    if layout.sharding in ("zero-1", "zero-2"):
        return Message("export.shards_as", sharding=layout.sharding)
    return Message("export.gathers_state") if shards_all(job) else ""


def sharded_problem(job: Job) -> Message | str:
    """Why FSDP cannot shard the 4-bit base as planned ("" if it can). Transformers before 5 packs
    each weight on a card and moves it to the host of the first process; from 5 on every process
    keeps the whole base on its card first."""
    if later_class(job) or objective(job) == "grpo":
        return Message("export.base_on_each_card")
    return host_problem(job)


def host_problem(job: Job) -> Message | str:
    """FSDP moves weights, gradients and optimizer to the host together, and the optimizer must
    work there ("" if nothing is moved, or all is)."""
    layout, wished = job.option.layout, job.wish("optimizer")
    if layout.moves_states and "param" not in layout.offload:
        return Message("export.moved_together", offload=layout.offload)
    if layout.moves_states and wished not in (None, "adamw", "adamw-fused"):
        return Message("export.adamw_on_host", optimizer=wished)
    return ""


TRL = Target(
    "trl",
    "training",
    "Transformers + PEFT + TRL script with its torchrun command",
    trl_write,
    _trl_refuses,
    checked_by="runs on CPU with a tiny model, of each of TRL's trainers",
    stack=trl_stack,
)


# ---- DeepSpeed: its settings with the plan's ZeRO stage, buckets and offloading, and the TRL
# script that trains under them.

VERSION = "deepspeed==0.19.8"
STAGES = {"zero-1": 1, "zero-2": 2, "zero-3": 3}
BUCKET_ELEMENTS = 200_000_000
"""Elements that are reduced or gathered together where the model's width is not known; half of
DeepSpeed's own, to keep the plan's memory."""


def stage(job: Job) -> int:
    """ZeRO stage: the plan's, and at least 2 (3) where the optimizer (the weights
    too) lies on the host."""
    layout = job.option.layout
    least = {"none": 0, "activations": 0, "optimizer": 2}.get(layout.offload, 3)
    return max(least, STAGES.get(layout.sharding, 0))


def zero(job: Job) -> dict[str, Any]:
    """The section zero_optimization. Buckets of a layer's square matrix, as
    Transformers chooses them."""
    layout, known = job.option.layout, architecture(job)
    bucket = known.hidden_size**2 if known else BUCKET_ELEMENTS
    found: dict[str, Any] = {"stage": stage(job), "contiguous_gradients": True, "overlap_comm": True, "reduce_bucket_size": bucket}
    if found["stage"] < 3:
        found["allgather_bucket_size"] = bucket
    else:
        found |= {
            "stage3_prefetch_bucket_size": int(0.9 * bucket),
            "stage3_param_persistence_threshold": 10 * known.hidden_size if known else 100_000,
            "stage3_gather_16bit_weights_on_model_save": True,
        }
    host = {"device": "cpu", "pin_memory": True}
    if layout.moves_states:
        found["offload_optimizer"] = host
    if "param" in layout.offload:
        found["offload_param"] = host
    return found


def deepspeed_config(job: Job) -> dict[str, Any]:
    """deepspeed.json. The batch is the plan's; the optimizer stands here only where it works on the
    host, where DeepSpeed must bring its own."""
    layout = job.option.layout
    found: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": layout.micro_batch,
        "gradient_accumulation_steps": layout.grad_accum,
        "train_batch_size": layout.micro_batch * layout.grad_accum * max(1, job.num_gpus),
        "gradient_clipping": 1.0,
        "zero_optimization": zero(job),
        "steps_per_print": 50,
    }
    if layout.precision in ("bf16", "fp16"):
        found[layout.precision] = {"enabled": True}
    if layout.moves_states:
        found["optimizer"] = {
            "type": "AdamW",
            "params": {"lr": learning_rate(job), "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0},
        }
    return found


def deepspeed_stack(job: Job) -> ExportStack:
    """torchrun on each node; DeepSpeed is told by its settings file."""
    train = {**settings(job, spread_by="deepspeed"), "deepspeed": "deepspeed.json"}
    files = {"train.json": to_json(train), "deepspeed.json": to_json(deepspeed_config(job))}
    return made(job, "deepspeed", torchrun(job, ("train.py", "train.json")), files, VERSION)


def deepspeed_write(job: Job) -> Files:
    """Settings, script, packages and command."""
    return written(job, deepspeed_stack(job))


def _deepspeed_refuses(job: Job) -> Message | str:
    return usual_problem(job) or zero_problem(job)


def zero_problem(job: Job) -> Message | str:
    """Why its settings cannot shard as the plan does ("" if they can)."""
    layout = job.option.layout
    if layout.sharding == "hybrid":
        return Message("export.hybrid")
    if trained(job) == "qlora" and stage(job) == 3:
        return Message("export.zero_3_4_bit")
    if layout.moves_states and job.wish("optimizer") not in (None, "adamw", "adamw-fused"):
        return Message("export.adamw_on_host", optimizer=job.wish("optimizer"))
    return ""


DEEPSPEED = Target(
    "deepspeed",
    "training",
    "DeepSpeed settings (ZeRO, buckets, offloading) with their script",
    deepspeed_write,
    _deepspeed_refuses,
    checked_by="DeepSpeed's own class of settings",
    stack=deepspeed_stack,
)


# ---- Accelerate: the settings file of `accelerate launch` for the plan's layout (DDP, DeepSpeed or
# FSDP2), with the TRL script.


def kind(job: Job) -> str:
    """How the processes work together, as Accelerate calls it."""
    layout = job.option.layout
    if shards_4_bit(job):
        return "FSDP"
    if layout.moves_states or layout.sharding in ("zero-1", "zero-2"):
        return "DEEPSPEED"
    if layout.sharding in ("zero-3", "hybrid"):
        return "FSDP"
    if job.num_gpus > 1:
        return "MULTI_GPU"
    return "NO"


def fsdp(job: Job) -> dict[str, Any]:
    """The section fsdp_config, of FSDP2; of FSDP1 where it shards a 4-bit base, which Accelerate's
    FSDP2 cannot load. Layers are wrapped by the classes that the model itself names.

    Recomputation is the Trainer's (train.json): with both, the Trainer refuses to start.
    """
    flat = {"fsdp_version": 1, "fsdp_sharding_strategy": "FULL_SHARD", "fsdp_use_orig_params": False, "fsdp_sync_module_states": True}
    return {
        **(flat if shards_4_bit(job) else {"fsdp_version": 2, "fsdp_reshard_after_forward": True}),
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_activation_checkpointing": False,
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_offload_params": job.option.layout.moves_states,
        "fsdp_state_dict_type": "FULL_STATE_DICT",  # of the adapters: the Trainer writes no model from shards
    }


def accelerate_config(job: Job) -> dict[str, Any]:
    """accelerate.yaml. Rank and first node come from the command."""
    precision = job.option.layout.precision
    found: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "debug": False,
        "distributed_type": kind(job),
        "downcast_bf16": "no",
        "enable_cpu_affinity": False,
        "main_training_function": "main",
        "mixed_precision": precision if precision in ("bf16", "fp16") else "no",
        "num_machines": job.num_nodes,
        "num_processes": max(1, job.num_gpus),
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": job.gpus_per_node == 0,
    }
    if kind(job) == "FSDP":
        found["fsdp_config"] = fsdp(job)
    if kind(job) == "DEEPSPEED":
        found.pop("mixed_precision")  # stands in DeepSpeed's own file, and may not stand twice
        found["deepspeed_config"] = {"deepspeed_config_file": "deepspeed.json", "zero3_init_flag": stage(job) == 3}
    return found


def command(job: Job) -> tuple[str, ...]:
    """One launcher on each node."""
    rank = ("--machine_rank", "{node_rank}", "--main_process_ip", "{head_address}", "--main_process_port", str(PORT))
    return ("accelerate", "launch", "--config_file", "accelerate.yaml", *(rank if job.num_nodes > 1 else ()), "train.py", "train.json")


def accelerate_stack(job: Job) -> ExportStack:
    """Script, settings of both and the command."""
    files = {"train.json": to_json(settings(job, spread_by="accelerate")), "accelerate.yaml": to_yaml(accelerate_config(job))}
    extra: tuple[str, ...] = ()
    if kind(job) == "DEEPSPEED":
        files["deepspeed.json"], extra = to_json(deepspeed_config(job)), (VERSION,)
    return made(job, "accelerate", command(job), files, *extra)


def accelerate_write(job: Job) -> Files:
    """Settings, script, packages and command."""
    return written(job, accelerate_stack(job))


def _accelerate_refuses(job: Job) -> Message | str:
    if problem := usual_problem(job):
        return problem
    if kind(job) == "DEEPSPEED":
        return DEEPSPEED.problem(job)
    if job.option.layout.sharding == "hybrid":
        return Message("export.hybrid")
    if shards_4_bit(job):
        return sharded_problem(job)
    return Message("export.gathers_state") if kind(job) == "FSDP" and shards_all(job) else ""


ACCELERATE = Target(
    "accelerate",
    "training",
    "Accelerate settings (DDP, FSDP2 or DeepSpeed) with their script",
    accelerate_write,
    _accelerate_refuses,
    checked_by="Accelerate's own reader of settings and parser of commands, and its lists of section keys",
    stack=accelerate_stack,
)
