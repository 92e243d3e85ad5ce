"""Fine-tune a language model as a rightfit plan says. Usage: torchrun ... train.py train.json"""

import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, TrainerCallback
from trl import SFTConfig, SFTTrainer

plan = json.loads(Path(sys.argv[1]).read_text())
dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(plan["precision"], torch.float32)


class SaveByTime(TrainerCallback):
    """Checkpoints at the interval that costs least against interruptions."""

    def __init__(self, every_s):
        self.every_s, self.last = every_s, time.monotonic()

    def on_step_end(self, args, state, control, **kwargs):
        due = time.monotonic() - self.last >= self.every_s
        if dist.is_initialized():  # all save together: the first process's clock counts
            word = torch.tensor([float(due)], device=args.device)
            dist.broadcast(word, 0)
            due = bool(word.item())
        if due:
            control.should_save, self.last = True, time.monotonic()
        return control


def load_model():
    if plan.get("from_scratch"):
        config = AutoConfig.from_pretrained(plan["model"], attn_implementation=plan["attention"])
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    quantization = None
    if plan["method"] == "qlora":
        quantization = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
        )
    return AutoModelForCausalLM.from_pretrained(
        plan["model"], dtype=dtype, attn_implementation=plan["attention"], quantization_config=quantization
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


def load_data():
    """A folder or file of JSON lines with a text or messages column, or the name of a data set on the hub."""
    path = Path(plan["data"])
    if path.is_dir():
        return load_dataset("json", data_files=[str(file) for file in sorted(path.glob("*.jsonl"))], split="train")
    if path.is_file():
        return load_dataset("json", data_files=str(path), split="train")
    return load_dataset(plan["data"], split="train")


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
    bf16=plan["precision"] == "bf16",
    fp16=plan["precision"] == "fp16",
    gradient_checkpointing=plan["gradient_checkpointing"],
    gradient_checkpointing_kwargs={"use_reentrant": False},
    optim=plan["optimizer"],
    dataloader_num_workers=plan["workers"],
    save_strategy="no",
    save_total_limit=2,
    logging_steps=1,
    report_to=[],
    # DeepSpeed and Accelerate have settings files of their own; without one the plan's sharding is done by FSDP.
    deepspeed=plan.get("deepspeed"),
    fsdp={"zero-3": "full_shard auto_wrap", "hybrid": "hybrid_shard auto_wrap"}.get(plan["sharding"], "")
    if plan["spread_by"] == "trainer"
    else "",
)
trainer = SFTTrainer(
    model=load_model(),
    args=arguments,
    train_dataset=load_data(),
    processing_class=AutoTokenizer.from_pretrained(plan["model"]),
    peft_config=adapter(),
    callbacks=[SaveByTime(plan["save_every_s"])],
)
checkpoints = sorted(Path(plan["output"]).glob("checkpoint-*"))
trainer.train(resume_from_checkpoint=bool(checkpoints))
trainer.save_model()
