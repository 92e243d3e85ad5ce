"""Fine-tune a language model as a rightfit plan says: on examples, on preferences (DPO, ORPO, KTO, a reward model), or on the rewards of its own
answers (GRPO). Usage: torchrun ... train.py train.json

Checkpoints are written by time, and when the server is told to stop (SIGTERM: the program then ends with 143); a new start goes on from the
newest whole one. Rows that are held out say at the end what the result is worth (evaluation.json).
"""

import dataclasses
import importlib
import os
import sys
import time

import run_core as core
import torch
import torch.distributed as dist
import trl
from peft import LoraConfig
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BitsAndBytesConfig,
    TrainerCallback,
)

PREFIX = "checkpoint-"
plan = core.settings()
objective = plan.get("objective", "sft")
dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(plan["precision"], torch.float32)
sharded = plan["sharding"] in ("zero-3", "hybrid")
by_fsdp = sharded and plan["spread_by"] == "trainer"
apart = not sharded and plan["spread_by"] != "deepspeed"  # every process has the whole model
scores = objective == "reward"
SHARDS = {"zero-3": "full_shard auto_wrap", "hybrid": "hybrid_shard auto_wrap"}
TRAINERS = {"sft": "SFT", "dpo": "DPO", "orpo": "ORPO", "kto": "KTO", "reward": "Reward", "grpo": "GRPO"}
"""What is learnt from -> the first half of the names of TRL's trainer and of its settings."""


def of_trl(kind):
    """A class of TRL, which keeps some of its trainers among its experiments."""
    name = TRAINERS[objective] + kind
    try:
        return getattr(trl, name)
    except AttributeError:
        return getattr(importlib.import_module(f"trl.experimental.{objective}"), name)


class SaveInTime(TrainerCallback):
    """Checkpoints at the interval that costs least against interruptions, and a last one when the server is told to stop."""

    def __init__(self, every_s):
        self.every_s, self.last, self.told, self.stopping = every_s, time.monotonic(), core.Stop(), False

    def on_step_end(self, args, state, control, **kwargs):
        word = torch.tensor([float(time.monotonic() - self.last >= self.every_s), float(bool(self.told))], device=args.device)
        if dist.is_initialized():  # all save together, and all stop when any of them is told to
            dist.all_reduce(word, dist.ReduceOp.MAX)
        due, self.stopping = (bool(flag) for flag in word.tolist())
        if due or self.stopping:
            control.should_save, self.last = True, time.monotonic()
        control.should_training_stop |= self.stopping
        return control

    def on_save(self, args, state, control, **kwargs):
        if dist.is_initialized():  # every process has written its part
            dist.barrier()
        if state.is_world_process_zero:
            core.mark_whole(f"{args.output_dir}/{PREFIX}{state.global_step}")


def load_model():
    kind = AutoModelForSequenceClassification if scores else AutoModelForCausalLM
    revision, told = plan.get("revision", "main"), {"attn_implementation": plan["attention"], **({"num_labels": 1} if scores else {})}
    if plan.get("from_scratch"):
        return kind.from_config(AutoConfig.from_pretrained(plan["model"], revision=revision, **told), dtype=torch.float32)
    quantization = None
    if plan["method"] == "qlora":
        quantization = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=dtype,
            bnb_4bit_quant_storage=dtype if sharded else torch.uint8,  # shards are cut from what looks like ordinary weights
        )
    # Weights that are trained stay in fp32, as the plan counts them: in 16 bit most updates would round away. The arithmetic is in 16 bit.
    kept = torch.float32 if plan["method"] == "full" else dtype
    # Each process reads its copy straight onto its card: copies on the way would fill the server's memory.
    onto = {"device_map": {"": int(os.environ.get("LOCAL_RANK", "0"))}} if torch.cuda.is_available() and apart else {}
    return kind.from_pretrained(plan["model"], revision=revision, dtype=kept, quantization_config=quantization, **told, **onto)


def load_reference():
    """The frozen copy that answers are compared with; none where adapters can be switched off to get it."""
    kept = AutoModelForCausalLM.from_pretrained(
        plan["model"], revision=plan.get("revision", "main"), dtype=dtype, attn_implementation=plan["attention"]
    )
    return kept.requires_grad_(False).eval()


def adapter():
    if plan["method"] == "full":
        return None
    targets = plan["lora_targets"]
    return LoraConfig(
        r=plan["lora_rank"],
        lora_alpha=2 * plan["lora_rank"],
        target_modules=targets if targets == "all-linear" else list(targets),
        use_dora=plan["method"] == "dora",
        task_type="SEQ_CLS" if scores else "CAUSAL_LM",
    )


def load_tokenizer():
    found = AutoTokenizer.from_pretrained(plan["model"], revision=plan.get("revision", "main"))
    found.has_own_template = bool(found.chat_template)
    found.chat_template = found.chat_template or core.CHAT
    found.pad_token = found.pad_token or found.eos_token
    return found


def load_data(tokenizer):
    """Rows with one of the sets of columns alone: the trainer guesses what a row is by its columns. What rewards answers may need all of them."""
    found = core.rows(plan)
    kept = next(columns for columns in plan["data_columns"] if set(columns) <= set(found.column_names))
    if objective == "grpo":
        return found.map(lambda row: core.as_chat({"prompt": row["prompt"]})) if tokenizer.has_own_template else found
    if "prompt" in kept and "chosen" in kept and isinstance(found[0]["prompt"], str) and not isinstance(found[0]["chosen"], str):
        kept = ["chosen", "rejected"]  # whole conversations, which begin with the prompt
    found = found.select_columns(kept)
    return found.map(core.as_chat) if tokenizer.has_own_template and "prompt" in kept else found


def newest():
    """The newest whole checkpoint, None where there is none."""
    found = core.whole(plan["output"], PREFIX)
    return str(found[-1]) if found else None


def learning():
    """What the trainer of the objective is told beside what all are."""
    if objective == "grpo":
        return {**plan["rollout"], "per_device_eval_batch_size": plan["rollout"]["num_generations"]}
    if objective != "sft":
        return {"max_length": plan["seq_len"], **plan.get("preference", {})}
    offloads = plan.get("activations_on_host", False) and torch.cuda.is_available()
    # "wrapped" needs no attention kernel that knows where samples end
    return {"max_length": plan["seq_len"], "packing": True, "packing_strategy": "wrapped", "activation_offloading": offloads}


class Loaded:
    """The trainer's batches, made in processes that do not end when the server is told to stop."""

    def __init__(self, collate):
        self.collate = collate

    def __call__(self, rows):
        if torch.utils.data.get_worker_info() is not None:
            core.deaf()
        return self.collate(rows)


def beside():
    """Models and rewards beside the model that learns."""
    if objective == "grpo":
        rewards = [plan["reward_model"]] if plan.get("reward_model") else importlib.import_module("reward").REWARDS
        return {"reward_funcs": rewards}
    if objective in ("dpo", "kto") and plan["method"] == "full":
        return {"ref_model": load_reference()}
    return {}


def recomputed(model):
    """The model with checkpoints of its layers as the plan counts them."""
    return core.recompute_selectively(model) if plan.get("recompute") == "selective" else model


saving = SaveInTime(plan["save_every_s"])
Settings, Trainer = of_trl("Config"), of_trl("Trainer")
warmup = plan["warmup_share"]
known = {field.name for field in dataclasses.fields(Settings)}
arguments = Settings(
    output_dir=plan["output"],
    per_device_train_batch_size=plan["micro_batch"],
    gradient_accumulation_steps=plan["grad_accum"],
    max_steps=plan.get("steps") or -1,
    num_train_epochs=plan["epochs"],
    learning_rate=plan["learning_rate"],
    lr_scheduler_type="cosine",
    use_cpu=not torch.cuda.is_available(),
    bf16=plan["precision"] == "bf16",
    fp16=plan["precision"] == "fp16",
    gradient_checkpointing=plan["gradient_checkpointing"],
    gradient_checkpointing_kwargs={"use_reentrant": False},
    optim=plan["optimizer"],
    dataloader_num_workers=plan["workers"],
    save_strategy="no",
    save_total_limit=2,
    logging_steps=1,
    report_to=core.trackers(),
    run_name=plan["plan"],
    # DeepSpeed and Accelerate have settings files of their own; without one the plan's sharding is done by FSDP.
    deepspeed=plan.get("deepspeed"),
    fsdp=SHARDS[plan["sharding"]] + (" offload" if plan.get("offload") else "") if by_fsdp else "",
    # One process of a server reads the weights, the others get theirs from it: a copy for each card is more than the server's memory.
    # Adapters beside a 4-bit base get gradients of their own size only where shards are flat.
    fsdp_config={"cpu_ram_efficient_loading": True, "sync_module_states": True, "use_orig_params": plan["method"] != "qlora"}
    if by_fsdp
    else None,
    **({"warmup_ratio": warmup} if "warmup_ratio" in known else {"warmup_steps": warmup}),  # newer releases take a share for the steps
    **{"per_device_eval_batch_size": plan["micro_batch"], **learning()},
)
tokenizer = load_tokenizer()
learnt, held = core.split(load_data(tokenizer), plan)
trainer = Trainer(
    model=recomputed(load_model()),
    args=arguments,
    train_dataset=learnt,
    eval_dataset=held,
    processing_class=tokenizer,
    peft_config=adapter(),
    callbacks=[saving],
    **beside(),
)
trainer.data_collator = Loaded(trainer.data_collator)
last = newest()
if dist.is_initialized():  # nobody tidies up before all have looked
    dist.barrier()
if trainer.is_world_process_zero():
    core.tidy(plan["output"], PREFIX)
trainer.train(resume_from_checkpoint=last)
if saving.stopping:
    sys.exit(core.STOPPED)
trainer.save_model()
if held is not None:
    figures = trainer.evaluate()
    figures = {**trainer.state.log_history[-1], **figures}  # what rewards say is told to the log alone
    if trainer.is_world_process_zero():
        core.judged(plan["output"], figures)
