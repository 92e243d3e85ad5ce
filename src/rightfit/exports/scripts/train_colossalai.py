"""Train a language model as a rightfit plan says, with ColossalAI's booster. Usage: colossalai run ... train.py train.json"""

import itertools
import math
import sys
import time
from pathlib import Path

import colossalai
import run_core as core
import torch
import torch.distributed as dist
from colossalai.booster import Booster
from colossalai.booster import plugin as plugins
from colossalai.nn.optimizer import HybridAdam
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

PREFIX = "step-"
plan = core.settings()
output = Path(plan["output"])


def load_data(tokenizer):
    """Blocks of the plan's length from the column "text"."""
    rows, length = core.rows(plan), plan["seq_len"]

    def blocks(batch):
        ids = list(itertools.chain.from_iterable([*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text in batch["text"]))
        return {"input_ids": [ids[start : start + length] for start in range(0, len(ids) - length + 1, length)]}

    return rows.map(blocks, batched=True, batch_size=1000, remove_columns=rows.column_names)


def collate(rows):
    ids = torch.tensor([row["input_ids"] for row in rows])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def load_model():
    if plan["from_scratch"]:
        return AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(plan["model"], revision=plan.get("revision", "main"), attn_implementation=plan["attention"])
        )
    return AutoModelForCausalLM.from_pretrained(plan["model"], revision=plan.get("revision", "main"), attn_implementation=plan["attention"])


def main():
    colossalai.launch_from_torch()
    plugin = getattr(plugins, plan["plugin"])(**plan["plugin_settings"])
    booster = Booster(plugin=plugin)
    tokenizer = AutoTokenizer.from_pretrained(plan["model"], revision=plan.get("revision", "main"))
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
    stopping, log = core.Stop(), core.Report(plan, speaks=dist.get_rank() == 0)
    done = core.whole(output, PREFIX)
    dist.barrier()
    if done:
        folder = done[-1]
        step = int(folder.name[len(PREFIX) :])
        booster.load_model(model, str(folder / "model"))
        booster.load_optimizer(optimizer, str(folder / "optimizer"))
        booster.load_lr_scheduler(rates, str(folder / "rates"))
    device = torch.cuda.current_device() if torch.cuda.is_available() else "cpu"
    leaving, epoch, batches = False, -1, iter(())
    while step < total and not leaving:
        if step // per_epoch != epoch:
            epoch = step // per_epoch
            loader.sampler.set_epoch(epoch)
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
        log(step=step, **({"loss": float(loss)} if loss is not None else {}))
        word = torch.tensor([float(time.monotonic() - saved >= plan["save_every_s"]), float(bool(stopping))], device=device)
        dist.all_reduce(word, dist.ReduceOp.MAX)
        due, leaving = (bool(flag) for flag in word.tolist())
        if due or leaving or step == total:
            folder = output / f"{PREFIX}{step}"
            folder.mkdir(parents=True, exist_ok=True)
            booster.save_model(model, str(folder / "model"), shard=True)
            booster.save_optimizer(optimizer, str(folder / "optimizer"), shard=True)
            booster.save_lr_scheduler(rates, str(folder / "rates"))
            dist.barrier()
            if dist.get_rank() == 0:
                core.mark_whole(folder)
                core.tidy(output, PREFIX)
            saved = time.monotonic()
    log.close()
    if step < total:
        sys.exit(core.STOPPED)


main()
