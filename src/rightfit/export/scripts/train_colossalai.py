"""Train a language model as a rightfit plan says, with ColossalAI's booster. Usage: colossalai run ... train.py train.json"""

import itertools
import json
import math
import sys
import time
from pathlib import Path

import colossalai
import torch
import torch.distributed as dist
from colossalai.booster import Booster
from colossalai.booster import plugin as plugins
from colossalai.nn.optimizer import HybridAdam
from datasets import load_dataset
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

plan = json.loads(Path(sys.argv[1]).read_text())
output = Path(plan["output"])


def load_data(tokenizer):
    """JSON lines with a "text" (a file, a folder of them, or a data set of the hub), in blocks of the plan's length."""
    path, length = Path(plan["data"]), plan["seq_len"]
    names = [str(file) for file in sorted(path.glob("*.jsonl"))] if path.is_dir() else [str(path)] if path.is_file() else None
    rows = load_dataset("json", data_files=names, split="train") if names else load_dataset(plan["data"], split="train")

    def blocks(batch):
        ids = list(itertools.chain.from_iterable([*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text in batch["text"]))
        return {"input_ids": [ids[start : start + length] for start in range(0, len(ids) - length + 1, length)]}

    return rows.map(blocks, batched=True, batch_size=1000, remove_columns=rows.column_names)


def collate(rows):
    ids = torch.tensor([row["input_ids"] for row in rows])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def load_model():
    if plan["from_scratch"]:
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(plan["model"], attn_implementation=plan["attention"]))
    return AutoModelForCausalLM.from_pretrained(plan["model"], attn_implementation=plan["attention"])


def main():
    colossalai.launch_from_torch()
    plugin = getattr(plugins, plan["plugin"])(**plan["plugin_settings"])
    booster = Booster(plugin=plugin)
    tokenizer = AutoTokenizer.from_pretrained(plan["model"])
    model = load_model()
    if plan["gradient_checkpointing"]:
        model.gradient_checkpointing_enable()
    optimizer = HybridAdam(model.parameters(), lr=plan["learning_rate"])
    loader = plugin.prepare_dataloader(
        load_data(tokenizer), batch_size=plan["loader_batch"], shuffle=True, drop_last=True, collate_fn=collate
    )
    accum = plan["loader_accum"]
    per_epoch = max(1, len(loader) // accum)
    total = plan["steps"] or math.ceil(per_epoch * plan["epochs"])
    warm = max(1, round(plan["warmup_share"] * total))
    rates = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / warm) * 0.5 * (1 + math.cos(math.pi * min(1.0, step / total)))
    )
    model, optimizer, _, loader, rates = booster.boost(model, optimizer, dataloader=loader, lr_scheduler=rates)
    pipelined = plan["plugin"] == "HybridParallelPlugin" and plan["plugin_settings"]["pp_size"] > 1
    step, saved = 0, time.monotonic()
    done = sorted(output.glob("step-*/complete"), key=lambda mark: int(mark.parent.name.partition("-")[2]))
    if done:
        folder = done[-1].parent
        step = int(folder.name.partition("-")[2])
        booster.load_model(model, str(folder / "model"))
        booster.load_optimizer(optimizer, str(folder / "optimizer"))
        booster.load_lr_scheduler(rates, str(folder / "rates"))
    device = torch.cuda.current_device() if torch.cuda.is_available() else "cpu"
    while step < total:
        loader.sampler.set_epoch(step // per_epoch)
        batches = itertools.islice(iter(loader), (step % per_epoch) * accum, per_epoch * accum)
        if pipelined:
            found = booster.execute_pipeline(batches, model, lambda outputs, _: outputs.loss, optimizer, return_loss=True)
            loss = found["loss"]
        else:
            for batch in itertools.islice(batches, accum):
                loss = model(**{name: values.to(device) for name, values in batch.items()}).loss
                booster.backward(loss / accum, optimizer)
        optimizer.step()
        rates.step()
        optimizer.zero_grad()
        step += 1
        if dist.get_rank() == 0:
            print(json.dumps({"step": step, "loss": float(loss) if loss is not None else None}), flush=True)
        due = torch.tensor([float(time.monotonic() - saved >= plan["save_every_s"])], device=device)
        dist.broadcast(due, 0)
        if due.item() or step == total:
            folder = output / f"step-{step}"
            folder.mkdir(parents=True, exist_ok=True)
            booster.save_model(model, str(folder / "model"), shard=True)
            booster.save_optimizer(optimizer, str(folder / "optimizer"), shard=True)
            booster.save_lr_scheduler(rates, str(folder / "rates"))
            dist.barrier()
            if dist.get_rank() == 0:
                (folder / "complete").touch()
            saved = time.monotonic()


main()
