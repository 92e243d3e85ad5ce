"""Fine-tune a language model as a rightfit plan says. Usage: torchrun ... train.py train.json

Checkpoints are written by time, and when the server is told to stop (SIGTERM: the program then ends with 143); a new start goes on from the
newest whole one.
"""

import os
import sys
import time

import run_core as core
import torch
import torch.distributed as dist
from peft import LoraConfig
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, TrainerCallback
from trl import SFTConfig, SFTTrainer

PREFIX = "checkpoint-"
plan = core.settings()
dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(plan["precision"], torch.float32)
sharded = plan["sharding"] in ("zero-3", "hybrid")
apart = not sharded and plan["spread_by"] != "deepspeed"  # every process has the whole model


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
    if plan.get("from_scratch"):
        config = AutoConfig.from_pretrained(plan["model"], revision=plan.get("revision", "main"), attn_implementation=plan["attention"])
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32)
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
    return AutoModelForCausalLM.from_pretrained(
        plan["model"],
        revision=plan.get("revision", "main"),
        dtype=kept,
        attn_implementation=plan["attention"],
        quantization_config=quantization,
        **onto,
    )


def adapter():
    if plan["method"] == "full":
        return None
    targets = plan["lora_targets"]
    return LoraConfig(
        r=plan["lora_rank"],
        lora_alpha=2 * plan["lora_rank"],
        target_modules=targets if targets == "all-linear" else list(targets),
        use_dora=plan["method"] == "dora",
        task_type="CAUSAL_LM",
    )


def load_tokenizer():
    found = AutoTokenizer.from_pretrained(plan["model"], revision=plan.get("revision", "main"))
    found.chat_template = found.chat_template or core.CHAT
    return found


def load_data():
    """Rows with one of the sets of columns alone: the trainer guesses what a row is by its columns."""
    found = core.rows(plan)
    kept = next(columns for columns in plan["data_columns"] if set(columns) <= set(found.column_names))
    return found.select_columns(kept)


def newest():
    """The newest whole checkpoint, None where there is none."""
    found = core.whole(plan["output"], PREFIX)
    return str(found[-1]) if found else None


saving = SaveInTime(plan["save_every_s"])
arguments = SFTConfig(
    output_dir=plan["output"],
    per_device_train_batch_size=plan["micro_batch"],
    gradient_accumulation_steps=plan["grad_accum"],
    max_steps=plan.get("steps") or -1,
    num_train_epochs=plan["epochs"],
    learning_rate=plan["learning_rate"],
    warmup_ratio=plan["warmup_share"],
    lr_scheduler_type="cosine",
    max_length=plan["seq_len"],
    packing=True,
    packing_strategy="wrapped",  # needs no attention kernel that knows where samples end
    use_cpu=not torch.cuda.is_available(),
    bf16=plan["precision"] == "bf16",
    fp16=plan["precision"] == "fp16",
    gradient_checkpointing=plan["gradient_checkpointing"],
    gradient_checkpointing_kwargs={"use_reentrant": False},
    activation_offloading=plan.get("activations_on_host", False) and torch.cuda.is_available(),
    optim=plan["optimizer"],
    dataloader_num_workers=plan["workers"],
    save_strategy="no",
    save_total_limit=2,
    logging_steps=1,
    report_to=core.trackers(),
    run_name=plan["plan"],
    # DeepSpeed and Accelerate have settings files of their own; without one the plan's sharding is done by FSDP.
    deepspeed=plan.get("deepspeed"),
    fsdp={"zero-3": "full_shard auto_wrap", "hybrid": "hybrid_shard auto_wrap"}.get(plan["sharding"], "")
    if plan["spread_by"] == "trainer"
    else "",
    # One process of a server reads the weights, the others get theirs from it: a copy for each card is more than the server's memory.
    fsdp_config={"cpu_ram_efficient_loading": True, "sync_module_states": True} if sharded and plan["spread_by"] == "trainer" else None,
)
trainer = SFTTrainer(
    model=load_model(),
    args=arguments,
    train_dataset=load_data(),
    processing_class=load_tokenizer(),
    peft_config=adapter(),
    callbacks=[saving],
)
last = newest()
if dist.is_initialized():  # nobody tidies up before all have looked
    dist.barrier()
if trainer.is_world_process_zero():
    core.tidy(plan["output"], PREFIX)
trainer.train(resume_from_checkpoint=last)
if saving.stopping:
    sys.exit(core.STOPPED)
trainer.save_model()
